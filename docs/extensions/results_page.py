"""What the shipped runs gave: docs/what-we-found.md, and parts of README and docs/drift.md, from reference/.

`make results` writes them, and a test compares them with what this writes. Handed an experiment's name, a
finished results folder, called as its scale, and the seconds that it took, as in
`python docs/extensions/results_page.py figure-1 results/laptop 465`, it first takes that folder's results in
the place of those that are kept. A group of experiments that one command computed, such as `paper`, is handed
in as one. A last word, `busy`, says that the machine had other work meanwhile.
"""

import gzip
import json
import subprocess
import sys
import textwrap
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import polars as pl
import vl_convert
from results_pictures import AFTER, PICTURES

from isoloss.command_line.reproduction_request import GROUPS
from isoloss.experiments.drift.departures import VARIED
from isoloss.experiments.drift.limits import distances, how_far
from isoloss.experiments.suite import EXPERIMENTS, scale_named

ROOT = Path(__file__).parent.parent.parent
KEPT, PAGE, README, DRIFT_PAGE = (
    ROOT / "src" / "isoloss" / "reference",
    ROOT / "docs" / "what-we-found.md",
    ROOT / "README.md",
    ROOT / "docs" / "drift.md",
)
PLACES = {
    "caption": "<!-- what the picture shows -->\n",
    "table": "<!-- what make reproduce gave -->\n",
    "speed": "<!-- how fast the trace fell -->\n",
}
"""Of what other pages say of the results, the line that each part stands below."""

END = "<!-- until here -->\n"
CAPTION_CLAIMS = ("later-is-flatter", "later-is-better", "trace-ranks-better")
"""The claims whose verdicts stand below README's picture."""

IN_WORDS = {2: "two", 3: "three", 5: "five", 10: "ten", 15: "fifteen"}
SCALES = ("laptop", "night")
PIXELS = 1.25
"""Of the documentation's pictures, for one of the screen: the site has them with more, and as vectors."""
LIMITS = "What these runs cannot say is on [a page of its own](limits.md).\n"


def results_page(kept: Sequence[dict[str, Any]]) -> str:
    """The page's text."""
    introduction = (
        "# What we found\n\nThis page is written from the results that are shipped with the sources, and "
        "every number in it is theirs. What was claimed was [fixed beforehand](claims.md).\n"
    )
    return "\n".join([introduction, _overview(kept), *map(_section, kept), LIMITS])


def _overview(kept: Sequence[dict[str, Any]]) -> str:
    """How much is decided: a row an experiment, a column a scale; premises apart from effects."""
    scales = [scale for scale in SCALES if any(each["scale"] == scale for each in kept)]
    results = {(each["result"]["name"], each["scale"]): each["result"] for each in kept}
    rows = [f"| | {' | '.join(scales)} |", "|---|" + "---|" * len(scales)]
    for name in dict.fromkeys(name for name, _ in results):
        cells = [_decided([results[name, scale]]) if (name, scale) in results else "" for scale in scales]
        rows.append(f"| `{name}` | {' | '.join(cells)} |")
    sums = [_decided([result for (_, of), result in results.items() if of == scale]) for scale in scales]
    rows.append(f"| **all** | {' | '.join(sums)} |")
    introduction = (
        "How many claims the runs decide, whichever way; in brackets, how many of the decided ones are "
        "supported. Effects first, then the premises under which they are to be seen.\n"
    )
    return "\n".join([introduction, *rows, ""])


def _decided(results: Sequence[dict[str, Any]]) -> str:
    told = []
    for kind in ("effect", "premise"):
        verdicts = [claim["verdict"] for result in results for claim in _of_kind(result, kind)]
        if verdicts:
            decided = len(verdicts) - verdicts.count("inconclusive")
            told.append(f"{decided} of {len(verdicts)} ({verdicts.count('supported')})")
    return "; ".join(told) or "nothing is claimed"


def _section(kept: dict[str, Any]) -> str:
    result, versions = kept["result"], kept["versions"]
    name, seeds = result["name"], _seeds(result)
    effects, premises = _of_kind(result, "effect"), _of_kind(result, "premise")
    after = f", after `{kept['after']}`, whose runs it shares," if "after" in kept else ""
    beside = " beside other work" if kept.get("busy") else ""
    pictured = name in PICTURES
    picture = [f"![{PICTURES[name].shows}]({picture_name(name, kept['scale'])})\n"] if pictured else []
    return "\n".join(
        [
            f"## {result['title']}{'' if kept['scale'] == 'laptop' else ' (night)'}\n",
            f"What `{kept['command']}`{after} gave at commit `{kept['commit'][:12]}` in {kept['seconds']:,} "
            f"seconds{beside}, of seeds {', '.join(map(str, seeds))}, which no choice was made on; "
            f"torch {versions['torch']}, transformers {versions['transformers']}, {versions['machine']}."
            f"{_counted(effects)}\n",
            *picture,
            *([_table(effects)] if effects else _how_far(result)),
            *(
                ["The conditions under which the effects are to be seen, each judged by itself:\n"]
                if premises
                else []
            ),
            *([_table(premises)] if premises else []),
            f"Any run of it again, and with it its dots: `{_again(kept)}`, and so on.\n",
        ]
    )


def _again(kept: dict[str, Any]) -> str:
    """The command for an experiment's first run: of its commit's sources, where seeds have changed since."""
    name, run = kept["result"]["name"], kept["result"]["checkpoints"][0]["run"]
    command = f"isoloss reproduce {name} --scale {kept['scale']} --runs {run} --output one-run"
    planned = {planned.name for planned in EXPERIMENTS[name](_scale(kept["scale"])).runs}
    return command if run in planned else f"git checkout {kept['commit'][:12]} && {command}"


_scale = cache(scale_named)


def _counted(effects: list[dict[str, Any]]) -> str:
    if not effects:
        return " Nothing is claimed: it looks for where a law ends."
    decided = sum(claim["verdict"] != "inconclusive" for claim in effects)
    return f" Of {len(effects)} effects {decided} {'is' if decided == 1 else 'are'} decided."


def _how_far(result: dict[str, Any]) -> Iterator[str]:
    """Of the limits of a clock, a line each thing that was varied."""
    found = distances(pl.DataFrame(result["checkpoints"], infer_schema_length=None))
    for varied in found[VARIED].unique(maintain_order=True).sort():
        yield f"- {varied[0].upper()}{varied[1:]}: {how_far(found.filter(pl.col(VARIED) == varied))}"
    yield ""


def readme_table(kept: Sequence[dict[str, Any]]) -> str:
    """The effects, for README: one experiment's results, a column a scale."""
    scales = [f"{each['scale']}, {_in_words(len(_seeds(each['result'])))} seeds" for each in kept]
    rows = [f"| | the paper | {' | '.join(scales)} |", "|---|---|" + "---|" * len(kept)]
    for claims in zip(*(_of_kind(each["result"], "effect") for each in kept), strict=True):
        cells = [_cells(claim) for claim in claims]
        here = [f"{measured}: {verdict}" for _, _, measured, _, verdict in cells]
        rows.append(f"| {' | '.join([*cells[0][:2], *here])} |")
    return "\n".join(rows) + "\n"


def readme_caption(kept: dict[str, Any]) -> str:
    """What README's picture shows: its models, how much their loss still moves, and the verdicts."""
    result = kept["result"]
    shown = [row for row in result["checkpoints"] if row["run"] == f"width-{row['width']}-seed-{row['seed']}"]
    models, widths = (len({row[name] for row in shown}) for name in ("run", "width"))
    claims = {claim["name"]: claim for claim in result["claims"]}
    _, paper, loss, *_ = _cells(claims["one-loss"])
    sentences = [
        f"{_in_words(models).capitalize()} models of {_in_words(widths)} widths pre-trained on one language.",
        f"Behind the dashed line a run's losses spread by {loss}; the paper: {paper.partition(' (')[0]}.",
        *(f"{claims[name]['sentence'][:-1]}: **{claims[name]['verdict']}**." for name in CAPTION_CLAIMS),
    ]
    return textwrap.fill(" ".join(sentences), 125) + "\n"


def flatness_alone(kept: Sequence[dict[str, Any]]) -> str:
    """What accuracy does where flatness is set at one loss, at the largest scale kept, for README."""
    (*_, last) = (each for each in kept if each["result"]["name"] == "flatness-interventions")
    (claim,) = (each for each in last["result"]["claims"] if each["name"] == "flatter-is-better")
    *_, measured, _, verdict = _cells(claim)
    value, _, interval = measured.partition(" (")
    seeds = _in_words(len(_seeds(last["result"])))
    sentence = (
        "Where [flatness itself](docs/drift.md) is set, from one start to one loss, the probe's accuracy "
        f"changes by {value} of the trace ({interval[:-1]}; {seeds} seeds, {last['scale']}). That it falls "
        f"by a point: {verdict}."
    )
    return textwrap.fill(sentence, 125, break_long_words=False, break_on_hyphens=False)


def _in_words(number: int) -> str:
    return IN_WORDS.get(number, str(number))


def with_results(readme: str, kept: Sequence[dict[str, Any]]) -> str:
    """README's text with caption and table in their places: Figure 1's, and what flatness alone does."""
    first = [each for each in kept if each["result"]["name"] == "figure-1"]
    table = f"{readme_table(first)}\n{flatness_alone(kept)}\n"
    return _placed(_placed(readme, "caption", readme_caption(first[0])), "table", table)


def with_speed(drift_page: str, kept: Sequence[dict[str, Any]]) -> str:
    """The text of the page on the drift with its speed over that predicted, at every scale kept."""
    told = [
        f"at `{each['scale']}`, over {_in_words(len(_seeds(each['result'])))} seeds, {_times(claim)}"
        for each in kept
        if each["result"]["name"] == "drift"
        for claim in each["result"]["claims"]
        if claim["name"] == "speed"
    ]
    sentence = f"The speed along the runs over that predicted, with its interval: {'; '.join(told)}."
    return _placed(drift_page, "speed", textwrap.fill(sentence, 120) + "\n")


def _times(claim: dict[str, Any]) -> str:
    value, low, high = (f"{2 ** claim[name]:.2f}" for name in ("effect", "low", "high"))
    return f"{value} ({low} to {high})"


def _placed(page: str, part: str, written: str) -> str:
    before, begin, rest = page.partition(PLACES[part])
    _, _, after = rest.partition(END)
    return before + begin + written + END + after


def read_kept() -> list[dict[str, Any]]:
    """The results that are shipped, an experiment and scale each, Figure 1 at laptop scale first."""
    return [
        {"scale": scale, **_read(path)}
        for scale in SCALES
        for name in EXPERIMENTS
        if (path := _file(name, scale)).exists()
    ]


def _file(name: str, scale: str) -> Path:
    return KEPT / f"{name}-{scale}.json.gz"


def _read(path: Path) -> dict[str, Any]:
    """A kept result; compressed, since all of them are eight megabytes of repeated column names."""
    kept: dict[str, Any] = json.loads(gzip.decompress(path.read_bytes()))
    return kept


def picture_name(name: str, scale: str) -> str:
    """What the documentation calls an experiment's picture."""
    return f"{name}.png" if scale == "laptop" else f"{name}-{scale}.png"


def _seeds(result: dict[str, Any]) -> list[int]:
    return sorted({row["seed"] for row in result["checkpoints"]})


def _of_kind(result: dict[str, Any], kind: str) -> list[dict[str, Any]]:
    return [claim for claim in result["claims"] if claim["kind"] == kind]


def _table(claims: list[dict[str, Any]]) -> str:
    rows = ["| | the paper | here (interval) | claimed | verdict |", "|---|---|---|---|---|"]
    rows += [f"| {' | '.join(_cells(claim))} |" for claim in claims]
    return "\n".join(rows) + "\n"


def _cells(claim: dict[str, Any]) -> tuple[str, str, str, str, str]:
    """Sentence, the paper's, ours, what was claimed, and the verdict."""
    share = 100 if claim["unit"] == "" and claim["kind"] == "premise" else 1
    unit = " %" if share == 100 else f" {claim['unit']}".rstrip()
    numbers = [claim[name] for name in ("effect", "low", "high")]
    bounds = [
        f"{word} {share * bound:g}{unit if share == 100 else ''}"
        for word, bound in claim["claimed"].items()
        if bound is not None
    ]
    if None in numbers:
        measured = "undefined in a run"
    else:
        measured, low, high = (_two_digits(share * number) for number in numbers)
        measured = f"{measured}{unit} ({low} to {high})"
    verdict = f"**{claim['verdict']}**{_what_would_decide(claim)}"
    return claim["sentence"], claim["paper"], measured, " and ".join(bounds), verdict


def _two_digits(number: float) -> str:
    """Both digits, also of 1.0, which would otherwise look like a count."""
    return f"{number:#.2g}".rstrip(".")


def _what_would_decide(claim: dict[str, Any]) -> str:
    if claim["verdict"] != "inconclusive":
        return ""
    seeds = claim["seeds_needed"]
    return f"; {seeds} seeds would decide it" if seeds else "; no number of seeds in sight would decide it"


def _keep(called: str, name: str, results: Path, seconds: int, *, busy: bool) -> None:
    """Take an experiment of a finished results folder, and its picture, in place of what is kept.

    `called` is what the command named: the experiment, or a group. Of a group, what is kept already and what
    has no runs is left out.
    """
    files, scale = results / "site" / "files", results.name
    result = json.loads((files / f"{name}.json").read_text())
    earlier = _read(_file(name, scale))["result"] if _file(name, scale).exists() else None
    if called != name and (result == earlier or not result["checkpoints"]):
        return
    checkpoint = next((results / "runs" / result["checkpoints"][0]["folder"]).glob("steps/*/checkpoint.json"))
    commit = subprocess.run(
        ["git", "rev-parse", "HEAD"], cwd=results, capture_output=True, text=True, check=True
    )
    kept = {
        "format": 1,
        "command": f"isoloss reproduce {called} --scale {scale}",
        "commit": commit.stdout.strip(),
        "seconds": seconds,
        "busy": busy,
        "versions": json.loads(checkpoint.read_text())["versions"],
        "result": result,
    }
    if called in AFTER[scale]:
        kept["after"] = AFTER[scale][called]
    text = json.dumps(kept, ensure_ascii=False, separators=(",", ":")) + "\n"
    _file(name, scale).write_bytes(gzip.compress(text.encode(), mtime=0))
    if name in PICTURES:
        svg = (files / f"{name}-{PICTURES[name].panel}.svg").read_text()
        (ROOT / "docs" / picture_name(name, scale)).write_bytes(vl_convert.svg_to_png(svg, scale=PIXELS))


if __name__ == "__main__":
    if len(sys.argv) >= 4:
        for name in GROUPS.get(sys.argv[1], (sys.argv[1],)):
            _keep(sys.argv[1], name, Path(sys.argv[2]), int(sys.argv[3]), busy=sys.argv[4:] == ["busy"])
    PAGE.write_text(results_page(read_kept()))
    README.write_text(with_results(README.read_text(), read_kept()))
    DRIFT_PAGE.write_text(with_speed(DRIFT_PAGE.read_text(), read_kept()))
