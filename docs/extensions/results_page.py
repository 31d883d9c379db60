"""What the shipped runs gave: docs/what-we-found.md, and parts of README and docs/drift.md, from reference/.

`make results` writes them, and a test compares them with what this writes. Handed experiments, a finished
results folder and how it came about, as in `python docs/extensions/results_page.py figure-1 --folder
results/laptop --commit HASH --seconds 465`, it first takes that folder's results in the place of those that
are shipped.
"""

import argparse
from collections import Counter
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import Any

from results_of_drift import DRIFT_PAGE, with_drift
from results_quoted import README, findings, with_results
from results_rounds import decided_by_family, ranges
from results_shipped import (
    ROOT,
    SCALES,
    in_words,
    keep,
    largest_current,
    not_yet_run,
    of_kind,
    picture_name,
    read_shipped,
    seeds_of,
)
from results_theory import theory_section

from isoloss.experiments.claims import Question
from isoloss.experiments.design import builtin_designs, requested_designs
from isoloss.experiments.experiment import Experiment
from isoloss.experiments.experiment_names import GROUPS
from isoloss.experiments.scale import scale_named
from isoloss.results.verdict import Verdict

PAGE = ROOT / "docs" / "what-we-found.md"
PICTURES = (
    "In pictures with bands, thick lines are means over seeds, bands one standard deviation over them, thin "
    "lines single runs. Bars, and what follows ±, are one standard error; of the accuracy of several probes, "
    "one standard deviation over them. A black line over all dots has the mean slope within a start. The "
    "trace is in nats per squared parameter.\n"
)
LIMITS = "What these runs cannot say is on [a page of its own](limits.md).\n"


def results_page(shipped: Sequence[dict[str, Any]]) -> str:
    """The page's text: a summary, then each experiment with its scales side by side."""
    by_name: dict[str, list[dict[str, Any]]] = {}
    for each in shipped:
        by_name.setdefault(each["result"]["name"], []).append(each)
    return "\n".join(
        [
            INTRODUCTION,
            IN_A_MINUTE,
            findings(shipped, ""),
            *_summary(by_name),
            _families(shipped),
            PICTURES,
            *map(_section, by_name.values()),
            theory_section(),
            LIMITS,
        ]
    )


INTRODUCTION = """\
# What we found

Claims were [registered before their runs](claims.md). Brackets: intervals over seeds,
[95 % (Holm)](limits.md).
"""
IN_A_MINUTE = """\
## In a minute

Liu and others (2023), "the paper": of models with one loss the flatter (smaller trace of the Hessian) do
better. KL: divergence from the exact distribution.
"""
KINDS = {"effect": "Others", "premise": "Premises"}


def _summary(by_name: dict[str, list[dict[str, Any]]]) -> Iterator[str]:
    """By question: each experiment's own question, the claim that answers it, one number, and a link."""
    yield "## Question by question\n"
    yield (
        "After each question the claim that answers it, and its verdict at the largest current scale, "
        "`night` unless named: supported if the whole interval agrees, not supported if none of it does "
        "(then the bound is named), inconclusive otherwise. Then the experiment's other effects: supported "
        "(✓), not supported (✗) or inconclusive (?), and premises not supported.\n"
    )
    questions = {name: _experiment(name).question for name in by_name}
    for question in Question:
        asked = [name for name in by_name if questions[name] == question]
        if asked:
            yield f"**{question}**\n"
            yield "\n".join(map(_answer, [by_name[name] for name in asked])) + "\n"


def _answer(scales: list[dict[str, Any]]) -> str:
    shown = largest_current(scales)
    result = shown["result"]
    asked, link = _experiment(result["name"]).title, f"[{result['name']}](#{result['name']})"
    effects = of_kind(result, "effect")
    claims = [*effects, *of_kind(result, "premise")]
    withdrawn = {each["name"]: each["withdrawn"] for each in result["claims"] if each.get("withdrawn")}
    headline = builtin_designs()[result["name"]].headline
    if "findings" in shown and not headline:
        return f"- *{asked}* {shown['findings'][0].partition(':')[0].removesuffix('.')}. {link}"
    if headline in withdrawn and not effects:
        return f"- *{asked}* Not answered here: {withdrawn[headline]}. {link}"
    named = {claim["name"]: claim for claim in claims}
    answer = named.get(headline, claims[0])
    words = in_words(answer)
    bound = f", claimed {words.claimed}" if words.verdict == "not supported" else ""
    scale = "" if shown["scale"] == SCALES[-1] else f", {shown['scale']}"
    found = f"“{words.sentence}” **{words.verdict}**: {words.measured}{bound}{scale}."
    return f"- *{asked}* {found} {_beside(result, answer)}{link}"


def _beside(result: dict[str, Any], answer: dict[str, Any]) -> str:
    """How many other effects have which verdict, and how many premises are not known to hold."""
    found = {
        kind: Counter(each["verdict"] for each in of_kind(result, kind) if each is not answer)
        for kind in KINDS
    }
    del found["premise"]["supported"]
    signs = {
        kind: " ".join(f"{counts[verdict]}{verdict.mark}" for verdict in Verdict if counts[verdict])
        for kind, counts in found.items()
    }
    return "".join(f"{KINDS[kind]}: {counted}. " for kind, counted in signs.items() if counted)


@cache
def _experiment(name: str) -> Experiment:
    return builtin_designs()[name].at(_scale("laptop"))


def _families(shipped: Sequence[dict[str, Any]]) -> str:
    return (
        "## How much is decided\n\n"
        "Within one experiment, the probability of any wrong verdict is at most 5 %, if effects vary about "
        "normally between seeds. Where a round left "
        "claims undecided, they were [judged again on new seeds](limits.md). Fewer remain decided if all "
        "rounds of an experiment share the 5 %, and fewer still if the effects of all experiments are "
        "corrected together; that last number is a lower bound. Withdrawn claims are not counted.\n\n"
        + decided_by_family(shipped, SCALES)
    )


def _section(scales: list[dict[str, Any]]) -> str:
    name = scales[0]["result"]["name"]
    experiment, design = _experiment(name), builtin_designs()[name]
    shown = design.picture
    scale = largest_current(scales)["scale"]
    picture = [f"![{shown.shows}]({picture_name(name, scale)})\n"] if shown else []
    parts = [f"## {name}\n", f"**{experiment.title}**\n", *picture]
    kinds = {kind: _table(scales, kind) for kind in ("effect", "premise")}
    parts += [_found(each) for each in scales if "findings" in each]
    if kinds["effect"]:
        parts.append(kinds["effect"])
    elif not kinds["premise"] and not any("findings" in each for each in scales):
        parts.append("All claims on these runs have been withdrawn, for the reasons given below.\n")
    if design.caution:
        parts.append(f"{design.caution}\n")
    if kinds["premise"]:
        parts += ["Premises, which are conditions for seeing these effects, each judged on its own:\n"]
        parts.append(kinds["premise"])
    origins = "\n".join(
        _origin(each, _link(name, each["scale"]) if each["scale"] != scale else "") for each in scales
    )
    parts.append(f"<details><summary>Seeds, commits and rounds</summary>\n\n{origins}\n\n</details>\n")
    return "\n".join(parts)


def _link(name: str, scale: str) -> str:
    """To a picture that is not shown, if there is one."""
    there = (ROOT / "docs" / picture_name(name, scale)).is_file()
    return f" [Its picture]({picture_name(name, scale)})." if there else ""


def _table(scales: list[dict[str, Any]], kind: str) -> str:
    """A row a claim, a column a scale; below a claim, what it says of its number, and the paper's."""
    found: dict[tuple[str, str], dict[str, dict[str, Any]]] = {}
    for each in scales:
        for claim in of_kind(each["result"], kind):
            # A scale whose results are of an earlier round may have had another statistic of this name.
            found.setdefault((claim["name"], claim["sentence"]), {})[each["scale"]] = claim
    if not found:
        return ""
    names = [each["scale"] for each in scales]
    seeds = {each["scale"]: len(seeds_of(each["result"])) for each in scales}
    rows = [f"| | {' | '.join(names)} |", "|---|" + "---|" * len(names)]
    for of_scale in found.values():
        words = in_words(next(iter(of_scale.values())))
        at = [_judged(of_scale[scale], seeds[scale]) if scale in of_scale else "" for scale in names]
        below = f"Claimed: {words.claimed}. {_of_the_paper(words.paper)}"
        claim = f"{words.sentence}<br><small>{below}</small>".replace("|", r"\|")
        rows.append(f"| {claim} | {' | '.join(at)} |")
    return "\n".join(rows) + "\n"


def _of_the_paper(paper: str) -> str:
    """What the paper has on a claim, or why it has nothing, as a sentence."""
    if paper.startswith("none: "):
        return f"Not in the paper: {paper.removeprefix('none: ')}."
    if paper.startswith("beyond the paper"):
        return f"{paper[0].upper()}{paper[1:]}."
    return f"The paper: {paper}."


def _judged(claim: dict[str, Any], seeds: int) -> str:
    """The verdict and its number; below them how many seeds it is of, unless of all, and what else is known.

    Not every seed has what a claim compares, such as two models whose losses lie close enough together.
    """
    words = in_words(claim)
    before = [verdict for _, verdict in claim["before"]]
    of_fewer = "" if claim["seeds"] in (None, seeds) else f"{claim['seeds']} seeds"
    more = [of_fewer, words.what_would_decide, f"earlier rounds: {_in_turn(before)}" if before else ""]
    below = "; ".join(filter(None, more))
    return f"**{words.verdict}**<br>{words.measured}" + (f"<br><small>{below}</small>" if below else "")


def _in_turn(verdicts: Sequence[str]) -> str:
    """Verdicts of rounds, the first first."""
    if len(verdicts) > 1 and len(set(verdicts)) == 1:
        return f"{verdicts[0]} {'twice' if len(verdicts) == 2 else f'{len(verdicts)} times'}"
    return ", ".join(verdicts)


def _origin(shipped: dict[str, Any], picture: str) -> str:
    """Where a scale's results come from: command, commit, seeds, versions, and the rounds before."""
    result, versions = shipped["result"], shipped["versions"]
    after = f", after `{shipped['after']}`, whose runs it shares" if "after" in shipped else ""
    beside = " on a machine busy with other work" if shipped.get("busy") else ""
    rounds = (
        f" Seeds of earlier rounds: {'; '.join(map(ranges, shipped['earlier_seeds']))}."
        if shipped["earlier_seeds"]
        else ""
    )
    withdrawn = [claim for claim in result["claims"] if claim.get("withdrawn")]
    no_longer = "".join(
        f"\n  - Withdrawn: {claim['sentence']} Measured: {in_words(claim).measured}. {_once_judged(claim)}"
        f"Reason: {claim['withdrawn']}."
        for claim in withdrawn
    )
    return (
        f"- {shipped['scale']}: `{shipped['command']}`{after}, commit `{shipped['commit'][:12]}`, "
        f"{_duration(shipped['seconds'])}{beside}; seeds {ranges(seeds_of(result))}, none of which was used "
        f"to choose settings; "
        f"torch {versions['torch']}, transformers {versions['transformers']}, {versions['machine']}."
        f"{picture}{rounds}{not_yet_run(shipped)} To repeat one of the runs: `{_again(shipped)}`.{no_longer}"
    )


def _once_judged(claim: dict[str, Any]) -> str:
    """The verdicts of a claim before it was withdrawn, as a sentence; empty if there was none."""
    verdicts = [verdict for _, verdict in claim["before"]] + [claim["verdict"]] * claim["judged"]
    return f"Judged before: {_in_turn(verdicts)}. " if verdicts else ""


def _duration(seconds: int) -> str:
    """In minutes, or from two hours on in hours."""
    return f"{seconds / 60:.0f} minutes" if seconds < 7200 else f"{seconds / 3600:.1f} hours"


def _again(shipped: dict[str, Any]) -> str:
    """The command for an experiment's first run: of its commit's sources, where seeds have changed since."""
    name, run = shipped["result"]["name"], shipped["result"]["checkpoints"][0]["run"]
    command = f"isoloss reproduce {name} --scale {shipped['scale']} --runs {run} --output one-run"
    planned = {planned.name for planned in builtin_designs()[name].at(_scale(shipped["scale"])).runs}
    return command if run in planned else f"git checkout {shipped['commit'][:12]} && {command}"


_scale = cache(scale_named)


def _found(shipped: dict[str, Any]) -> str:
    """What the table of an experiment without claims says, a line each."""
    lines = "".join(f"- {line}\n" for line in shipped["findings"])
    return f"At {shipped['scale']}:\n\n{lines}"


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
    PAGE.write_text(results_page(read_shipped()))
    README.write_text(with_results(README.read_text(), read_shipped()))
    DRIFT_PAGE.write_text(with_drift(DRIFT_PAGE.read_text(), read_shipped()))
