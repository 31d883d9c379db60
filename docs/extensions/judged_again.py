"""The shipped results judged again from their own rows, after a change in how claims are judged.

`python docs/extensions/judged_again.py laptop night` puts what today's code makes of these scales' claims in
the place of what is shipped, and says which intervals end elsewhere, by more than a thousandth of their
width. It trains and measures nothing.
"""

import argparse
import sys
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import polars as pl
from results_shipped import SHIPPED, findings_of, registered_claims

from isoloss.experiments.claims import judge
from isoloss.experiments.experiment_result import judged_runs
from isoloss.experiments.shipped_results import JUDGED, judgement_as_json, packed_results, shipped_results
from isoloss.files import write_atomically

TOLD = 1e-3
"""Of an interval's width: ends that move by less are the same to a reader."""


def judged_again(scale: str, result: dict[str, Any]) -> dict[str, Any]:
    """The result with its claims judged by today's code, in the roles in which they were judged.

    Raises KeyError for a claim that is registered no more.
    """
    registered = registered_claims(scale)
    claims = [
        replace(
            registered[result["name"], told["name"]], kind=told["kind"], withdrawn=told.get("withdrawn", "")
        )
        for told in result["claims"]
    ]
    references = [each | {"step": None, "seed": None} for each in result.get("references", [])]
    runs = judged_runs(pl.DataFrame([*result["checkpoints"], *references], infer_schema_length=None))
    found = [judgement_as_json(each) for each in judge(claims, runs)]
    return {
        **result,
        "claims": [
            told | {name: now[name] for name in JUDGED}
            for told, now in zip(result["claims"], found, strict=True)
        ],
    }


def changes(before: dict[str, Any], now: dict[str, Any]) -> Iterator[str]:
    """A line for each claim with another verdict, or whose interval ends elsewhere."""
    for first, second in zip(before["claims"], now["claims"], strict=True):
        if None in (first["low"], first["high"], second["low"], second["high"]):
            moved = first["low"] != second["low"] or first["high"] != second["high"]
        else:
            width = first["high"] - first["low"]
            moved = any(abs(first[end] - second[end]) > TOLD * width for end in ("low", "high"))
        if moved or first["verdict"] != second["verdict"]:
            told = (f"{each['low']} to {each['high']} {each['verdict']}" for each in (first, second))
            yield f"{before['name']} {first['name']}: {first['effect']}, {' -> '.join(told)}"


def main() -> None:
    """Judge the scales again, and write them."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("scales", nargs="+")
    for scale in parser.parse_args().scales:
        results = {}
        for name, shipped in shipped_results(scale).items():
            result = judged_again(scale, shipped["result"])
            for line in changes(shipped["result"], result):
                print(scale, line)  # noqa: T201
            results[name] = {**shipped, "result": result, **findings_of(result)}
            print(f"{scale}: {name} is judged", file=sys.stderr)  # noqa: T201
        write_atomically(SHIPPED / f"{scale}.json.gz", packed_results(scale, results))


if __name__ == "__main__":
    main()
