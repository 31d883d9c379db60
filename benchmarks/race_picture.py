"""The picture of estimators on their way to 1 %: `python -m benchmarks.race_picture RACE.json PICTURE.png`.

RACE.json is what `python -m benchmarks.flatness --json` printed.
"""

import json
import sys
from pathlib import Path

import altair
import polars

SHORTEST, LONGEST = 0.1, 1_000.0


def lines(finishes: list[dict[str, float | str]]) -> polars.DataFrame:
    """Each estimator's relative standard error in % at the two ends, which falls as one over √seconds."""
    return polars.DataFrame(
        [
            {"estimator": each["name"], "seconds": seconds, "error": error}
            for each in finishes
            for seconds in (SHORTEST, LONGEST)
            if (error := (float(each["seconds_to_one_percent"]) / seconds) ** 0.5)
        ]
    )


def picture(finishes: list[dict[str, float | str]]) -> altair.LayerChart:
    order = [each["name"] for each in sorted(finishes, key=lambda each: each["seconds_to_one_percent"])]
    arrivals = polars.DataFrame(
        [
            {
                "estimator": each["name"],
                "seconds": each["seconds_to_one_percent"],
                "error": 1.0,
                "after": f"{float(each['seconds_to_one_percent']):,.3g} s",
            }
            for each in finishes
        ]
    )
    time = altair.X(
        "seconds:Q", title="seconds on one core", axis=altair.Axis(values=[0.1, 1, 10, 100, 1000])
    )
    time = time.scale(type="log", domain=[SHORTEST, LONGEST], nice=False)
    error = altair.Y(
        "error:Q", title="relative standard error, %", axis=altair.Axis(values=[0.1, 1, 10, 100])
    )
    error = error.scale(type="log", domain=[0.1, 100])
    who = altair.Color("estimator:N", title=None, sort=order).scale(scheme="tableau10")
    who = who.legend(orient="right", labelLimit=400)
    falling = altair.Chart(lines(finishes)).mark_line(clip=True, strokeWidth=2).encode(time, error, who)
    target = altair.Chart(polars.DataFrame({"error": [1.0]})).mark_rule(strokeDash=[4, 4]).encode(error)
    dots = altair.Chart(arrivals).mark_point(filled=True, size=70, opacity=1).encode(time, error, who)
    return altair.layer(target, falling, dots).properties(width=460, height=300)


def main() -> None:
    source, target = map(Path, sys.argv[1:])
    finishes = [each for each in json.loads(source.read_text()) if "seconds_to_one_percent" in each]
    picture(finishes).save(target, ppi=160)


if __name__ == "__main__":
    main()
