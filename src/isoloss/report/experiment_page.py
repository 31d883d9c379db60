"""The page of each experiment, and the files of its runs: a specification, and all records in one."""

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import polars as pl
from markupsafe import Markup

from isoloss.errors import Damaged
from isoloss.experiments.checks import Range, claim_ranges
from isoloss.experiments.claims import Claim, Judgement
from isoloss.experiments.experiment import Experiment, facts_of
from isoloss.experiments.experiment_jobs import planned_languages
from isoloss.experiments.experiment_result import ExperimentResult
from isoloss.experiments.made_up_runs import World
from isoloss.experiments.planned_folder import is_complete, is_records_alone
from isoloss.experiments.planned_run import PlannedRun
from isoloss.experiments.shared.language_runs import UNJUDGED
from isoloss.experiments.shipped_results import BesideShipped, beside_shipped
from isoloss.files import write_atomically
from isoloss.report.frame import Link, json_link
from isoloss.report.page import DrawnPanel, Page, Section, drawn
from isoloss.report.table import draw_table, every_column, html_table
from isoloss.results.checkpoint import MEASURED_FOLDER, SPECIFICATION_FILE
from isoloss.results.record import ABSENT
from isoloss.results.run_folder import read_run_folder

WORLDS = (
    "Each statistic of accuracy in simulated experiments with these runs, which use no measurement, if "
    "accuracy were exactly −log2 of the trace, exactly −log2 of KL(distribution || model), or independent of "
    "both: its mean and, in brackets, its range over draws of what a width or an update rule adds. A claim "
    "that is true in all of these cases, or in none, decides nothing."
)
WORLD_TITLES = {
    World.FLATNESS: "accuracy is −log2 trace",
    World.KNOWLEDGE: "accuracy is −log2 KL",
    World.NEITHER: "neither",
    World.BY_LANGUAGE: "the one or the other, by language",
}

FAMILY = (
    "The {effects} effects on this page are corrected for multiple testing as one family: by Holm's "
    "procedure, the probability that any of their verdicts is wrong is at most 5 %. Verdicts therefore do "
    "not depend on which other experiments are run; over several pages together, that probability is larger."
)
NOT_TESTED = (
    "These claims were registered and later withdrawn, so they are not judged. Each number is shown with its "
    "own 95 % interval, uncorrected, and the verdict that it would have by that."
)
RECORDS_FILE = "records.jsonl"


@dataclass(frozen=True)
class ExperimentPage:
    """What an experiment's page needs in addition to its result.

    `scale` is its name, `output` contains the runs, `again` gives the command that recomputes one of them,
    `languages` are the pages of languages by digest.
    """

    scale: str
    output: Path
    again: Callable[[Experiment, PlannedRun], str]
    languages: dict[str, Link]

    def of(self, result: ExperimentResult) -> Page:
        """The page, with a notice for everything that deviates from the plan."""
        experiment = result.experiment
        complete = [is_complete(run, self.output) for run in experiment.runs]
        panels, problems = self._panels(result, sum(complete))
        return Page(
            name=experiment.name,
            title=experiment.title,
            text=experiment.text,
            panels=panels,
            judgements=result.tested,
            unregistered="" if experiment.registered else "on this page",
            sections=tuple(self._sections(result, complete)),
            notices=(*problems, *notices_of(result)),
        )

    def _panels(self, result: ExperimentResult, complete: int) -> tuple[tuple[DrawnPanel, ...], list[str]]:
        """The panels, and what is missing from them; `complete` is the number of complete runs."""
        experiment, every = result.experiment, len(result.experiment.runs)
        problems = []
        if complete < every:
            problems.append(f"{complete} of {every} runs are complete; claims are judged only on these.")
        if result.table.is_empty() and (experiment.runs or experiment.references):
            return (), [*problems, "Nothing has been measured yet."]
        try:
            judged = () if self.scale == UNJUDGED else result.tested
            return tuple(drawn(panel, judged) for panel in experiment.drawn(result.table)), problems
        except pl.exceptions.ColumnNotFoundError as error:
            if not problems:
                raise
            missing = f"“{str(error).splitlines()[0]}”, which has not been measured yet."
            return (), [*problems, f"The panels cannot be drawn without {missing}"]

    def _sections(self, result: ExperimentResult, complete: Sequence[bool]) -> list[Section]:
        experiment = result.experiment
        sections = []
        if experiment.paper_numbers:
            sections.append(Section("The paper’s numbers", rows=experiment.paper_numbers))
        pages = [self.languages.get(plan.digest) for plan in planned_languages([experiment])]
        if links := [link for link in pages if link]:
            sections.append(Section("Languages" if len(links) > 1 else "The language", markup=_links(links)))
        if settings := (*facts_of(experiment), *_seeds_and_registration(experiment)):
            sections.append(Section("Settings", rows=settings))
        if possible := claim_ranges(experiment):
            sections.append(
                Section("What the claims could have said", WORLDS, _possible(experiment, possible))
            )
        if effects := sum(claim.role == "effect" for claim in experiment.claims):
            sections.append(Section("Correction for multiple testing", FAMILY.format(effects=effects)))
        if result.withdrawn:
            sections.append(Section("Withdrawn claims", NOT_TESTED, _withdrawn(result.withdrawn)))
        sections.append(Section("All numbers", markup=_numbers(result.table, experiment.name)))
        if experiment.runs:
            text = (
                "Each command recomputes one run in a folder of its own. With the same versions on the same "
                "machine, its numbers are identical to the last bit."
            )
            sections.append(Section("Runs", text=text, markup=self._runs(experiment, complete)))
        if (beside := beside_shipped(result, self.scale)) is not None:
            markup = _beside(result.judgements, beside)
            sections.append(Section("Comparison with the shipped results", beside.sentence, markup))
        return sections

    def _runs(self, experiment: Experiment, complete: Sequence[bool]) -> Markup:
        """A row per run: its name, its steps, whether it is complete, its files, and how to recompute it."""
        code = Markup("<td><code>{}</code></td>")
        rows = (
            (*_run(run, self.output, complete=each), code.format(self.again(experiment, run)))
            for run, each in zip(experiment.runs, complete, strict=True)
        )
        return html_table(("run", "seed", "steps", "state", "files", "to recompute it"), rows)


def notices_of(result: ExperimentResult) -> list[str]:
    """What failed, which seeds verdicts are not about, and what runs reported, one sentence each."""
    failed = [f"{failure.job} failed: {failure.text}" for failure in result.outcome.failures]
    if result.not_judged:
        failed.append(result.not_judged)
    return failed + [f"{notice.job}: {notice.text}" for notice in result.outcome.notices]


def _links(links: Sequence[Link]) -> Markup:
    items = (Markup('<li><a href="{}.html">{}</a></li>').format(link.name, link.title) for link in links)
    return Markup("<ul>{}</ul>").format(Markup("").join(items))


def _seeds_and_registration(experiment: Experiment) -> list[tuple[str, str]]:
    """A user's experiment is registered nowhere, and the scale's pilot runs chose none of its settings."""
    seeds = sorted({run.seed for run in experiment.runs})
    rows = [("seeds", ", ".join(map(str, seeds)))] if seeds else []
    if seeds and experiment.pilot_seeds and experiment.registered:
        pilots = ", ".join(map(str, experiment.pilot_seeds))
        rows.append(("pilot seeds", f"{pilots}; they served to choose the settings and are not shown"))
    if experiment.registered and experiment.claims:
        commit = experiment.registered[:12]
        rows.append(("claims registered in", f"commit {commit}, before these runs: see docs/claims.md there"))
    return rows


def _possible(experiment: Experiment, possible: Mapping[str, Range]) -> Markup:
    """A row per effect that reads accuracy: its statistic in each world, and what is wrong with it, if so."""
    worlds = next(iter(possible.values())).values
    rows = (
        (
            claim.sentence,
            claim.reading.region(claim.claimed),
            *(_over_draws(claim, found, world) for world in worlds),
            f"undecidable by design: {found.fault}" if found.fault else _decidable(found),
        )
        for claim in experiment.claims
        if (found := possible.get(claim.name)) is not None
    )
    return html_table(("claim", "claimed", *(WORLD_TITLES[world] for world in worlds), "so the claim"), rows)


def _decidable(found: Range) -> str:
    return "can be decided" + (", at other levels of accuracy than 0.8" if found.of_one_level else "")


def _over_draws(claim: Claim, found: Range, world: World) -> str:
    """Its mean over the draws, and in brackets the least and the most of them."""
    known = found.known(world)
    return claim.reading.numbers(found.mean(world), known[0], known[-1]) if known else ABSENT


def _withdrawn(judgements: Sequence[Judgement]) -> Markup:
    """A row per claim: its number, what was claimed, the verdict by that, and why nothing is tested by it."""
    rows = (
        (
            _with_unit(judged.claim),
            *_read(judged.claim, judged.effect, judged.low, judged.high),
            judged.claim.reading.region(judged.claim.claimed),
            str(judged.verdict),
            judged.claim.withdrawn,
        )
        for judged in judgements
    )
    return html_table(("claim", "here", "from", "to", "claimed", "would be", "why withdrawn"), rows)


def _with_unit(claim: Claim) -> str:
    unit = f"{claim.reading.sign} {claim.reading.unit}".strip()
    return f"{claim.sentence} ({unit})" if unit else claim.sentence


def _read(claim: Claim, *numbers: float) -> tuple[float, ...]:
    """As they are read, in the unit that `_with_unit` names."""
    return tuple(claim.reading.factor * number for number in numbers)


def _beside(judgements: Sequence[Judgement], beside: BesideShipped) -> Markup:
    """A row per claim: its effect here, the shipped one with its interval, and whether ours lies in it."""
    rows = (
        (
            _with_unit(judged.claim),
            *_read(judged.claim, judged.effect, shipped.effect, shipped.low, shipped.high),
            "within" if shipped.holds(judged.effect) else "outside",
        )
        for judged in judgements
        if (shipped := beside.shipped.claims.get(judged.claim.name)) is not None
    )
    return html_table(("claim", "here", "shipped", "from", "to", "here is"), rows)


def _run(run: PlannedRun, output: Path, *, complete: bool) -> tuple[object, ...]:
    state = "complete" if complete else "not complete"
    if complete and is_records_alone(run, output):
        state = "complete, records alone"
    folder, link = run.folder(output), Markup('<a href="{}/{}">{}</a>')
    begun, measured = (folder / SPECIFICATION_FILE).exists(), any(folder.glob(f"{MEASURED_FOLDER}/*/*.jsonl"))
    there = [SPECIFICATION_FILE] * begun + [RECORDS_FILE] * measured
    links = [link.format(_run_folder(run), name, name.partition(".")[0]) for name in there]
    files = Markup("<td>{}</td>").format(Markup(" · ").join(links))
    return run.name, run.seed, run.steps, state, files


def _run_folder(run: PlannedRun) -> str:
    """The location of the run's files relative to a page."""
    return f"runs/{run.digest[:16]}"


def write_run_files(run: PlannedRun, output: Path, site: Path) -> None:
    """Write a run's specification, and all its records in one file, into the site, without damaged ones.

    Raises IsolossError if it cannot be written.
    """
    described, records = read_run_folder(run.folder(output)), []
    folders = described.folder.glob(f"{MEASURED_FOLDER}/*")
    for step in sorted(int(path.name) for path in folders if path.name.isdecimal()):
        at = described.measurements(step)
        for name in at.names():
            with suppress(Damaged):
                at.records(name)
                records.append(at.file(name).read_bytes())
    if described.specification:
        content = (described.folder / SPECIFICATION_FILE).read_bytes()
        write_atomically(site / _run_folder(run) / SPECIFICATION_FILE, content)
    if records:
        write_atomically(site / _run_folder(run) / RECORDS_FILE, b"".join(records))


def _numbers(table: pl.DataFrame, name: str) -> Markup:
    json = json_link(name)
    if table.is_empty():
        return json
    shown = draw_table(every_column(table), table)
    return Markup("<details><summary>{} rows</summary>{}</details>{}").format(len(table), shown, json)
