"""What the shipped runs gave: docs/what-we-found.md, and parts of README and docs/drift.md, from reference/.

`make results` writes them, and a test compares them with what this writes. Handed experiments, a finished
results folder and how it came about, as in `python docs/extensions/results_page.py figure-1 --folder
results/laptop --commit HASH --seconds 465`, it first takes that folder's results in the place of those that
are kept.
"""

import argparse
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import polars as pl
from results_kept import ROOT, SCALES, cells, keep, not_yet_run, of_kind, picture_name, read_kept, seeds_of
from results_quoted import DRIFT_PAGE, README, with_drift, with_results
from results_rounds import all_rounds_told, ranges, rounds_told

from isoloss.experiments.branches import VARIED
from isoloss.experiments.requested import GROUPS, requested_designs
from isoloss.experiments.scale import scale_named
from isoloss.experiments.suite import builtin_designs
from isoloss.experiments.suite.drift_limits import distances, how_far

PAGE = ROOT / "docs" / "what-we-found.md"
LIMITS = "What these runs cannot say is on [a page of its own](limits.md).\n"


def results_page(kept: Sequence[dict[str, Any]]) -> str:
    """The page's text."""
    introduction = (
        "# What we found\n\nThis page is written from the results that are shipped with the sources, and "
        "every number in it is theirs. What was claimed was [fixed beforehand](claims.md). In brackets: 95 % "
        "intervals over seeds, corrected for a figure's number of effects (Holm): a verdict other than "
        "inconclusive means that the whole interval says so.\n"
    )
    return "\n".join([introduction, _overview(kept), *map(_section, kept), LIMITS])


def _overview(kept: Sequence[dict[str, Any]]) -> str:
    """How much is decided: a row an experiment, a column a scale; premises apart from effects."""
    scales = [scale for scale in SCALES if any(each["scale"] == scale for each in kept)]
    results = {(each["result"]["name"], each["scale"]): each["result"] for each in kept}
    rows = [f"| | {' | '.join(scales)} |", "|---|" + "---|" * len(scales)]
    for name in dict.fromkeys(name for name, _ in results):
        decided = [_decided([results[name, scale]]) if (name, scale) in results else "" for scale in scales]
        rows.append(f"| `{name}` | {' | '.join(decided)} |")
    sums = [_decided([result for (_, of), result in results.items() if of == scale]) for scale in scales]
    rows.append(f"| **all** | {' | '.join(sums)} |")
    introduction = (
        "How many claims the runs decide, whichever way; in brackets, how many of the decided ones are "
        "supported. Effects first, then the premises under which they are to be seen.\n"
    )
    return "\n".join([introduction, *rows, "", all_rounds_told(kept, scales)])


def _decided(results: Sequence[dict[str, Any]]) -> str:
    told = []
    for kind in ("effect", "premise"):
        verdicts = [claim["verdict"] for result in results for claim in of_kind(result, kind)]
        if verdicts:
            decided = len(verdicts) - verdicts.count("inconclusive")
            told.append(f"{decided} of {len(verdicts)} ({verdicts.count('supported')})")
    return "; ".join(told) or "nothing is claimed"


def _section(kept: dict[str, Any]) -> str:
    result, versions = kept["result"], kept["versions"]
    name, seeds = result["name"], seeds_of(result)
    effects, premises = of_kind(result, "effect"), of_kind(result, "premise")
    after = f", after `{kept['after']}`, whose runs it shares," if "after" in kept else ""
    beside = " beside other work" if kept.get("busy") else ""
    shown = builtin_designs()[name].picture
    picture = [f"![{shown.shows}]({picture_name(name, kept['scale'])})\n"] if shown else []
    return "\n".join(
        [
            f"## {result['title']}{'' if kept['scale'] == 'laptop' else ' (night)'}\n",
            f"What `{kept['command']}`{after} gave at commit `{kept['commit'][:12]}` in {kept['seconds']:,} "
            f"seconds{beside}, of seeds {ranges(seeds)}, which no choice was made on; "
            f"torch {versions['torch']}, transformers {versions['transformers']}, {versions['machine']}."
            f"{_counted(effects)}{rounds_told(kept)}{not_yet_run(kept)}\n",
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
    planned = {planned.name for planned in builtin_designs()[name].at(_scale(kept["scale"])).runs}
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


def _table(claims: list[dict[str, Any]]) -> str:
    rows = ["| | the paper | here (interval) | claimed | verdict |", "|---|---|---|---|---|"]
    rows += [f"| {' | '.join(cells(claim))} |" for claim in claims]
    return "\n".join(rows) + "\n"


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("names", nargs="*", help="experiments, or a group of them, that one command computed")
    parser.add_argument("--folder", type=Path, help="its results folder, called as its scale")
    parser.add_argument("--commit", help="the sources that it began with, in full")
    parser.add_argument("--seconds", type=int, help="how long it took")
    parser.add_argument("--after", help="the command before it whose runs it shares")
    parser.add_argument("--busy", action="store_true", help="the machine had other work meanwhile")
    given = parser.parse_args()
    if given.names and not (given.folder and given.commit and given.seconds):
        parser.error("to take results, give --folder, --commit and --seconds")
    return given


def _take(given: argparse.Namespace) -> None:
    origin = {
        "command": f"isoloss reproduce {' '.join(given.names)} --scale {given.folder.name}",
        "commit": given.commit,
        "seconds": given.seconds,
        "busy": given.busy,
        **({"after": given.after} if given.after else {}),
    }
    for called in given.names:
        for name in requested_designs([called]):
            keep(name, given.folder, origin, of_group=called in GROUPS)


if __name__ == "__main__":
    if (given := _arguments()).names:
        _take(given)
    PAGE.write_text(results_page(read_kept()))
    README.write_text(with_results(README.read_text(), read_kept()))
    DRIFT_PAGE.write_text(with_drift(DRIFT_PAGE.read_text(), read_kept()))
