"""Experiments' results made by hand: nothing is trained or measured."""

import math
from pathlib import Path

import polars as pl

from isoloss.executors.job import Notice, Outcome
from isoloss.experiments.claims import Claim, Judgement, Question
from isoloss.experiments.experiment import Experiment
from isoloss.experiments.experiment_result import ExperimentResult
from isoloss.experiments.language_description import describe_language
from isoloss.experiments.languages import ReadyLanguage
from isoloss.experiments.planned_run import PlannedRun
from isoloss.languages.dyck import dyck
from isoloss.models.transformers import PreLayerNormTransformer, laptop_shape
from isoloss.panels import Axis, Colour, Dots, Lines, Mark, Panel, Table
from isoloss.pretraining.descent import AdamW
from isoloss.report.site import Site, write_site
from isoloss.results.estimate import Estimate
from isoloss.results.measurement_store import measurements_at
from isoloss.results.record import Record
from isoloss.results.store import write_sealed
from isoloss.results.verdict import above
from isoloss.theory.finding import Finding, Statement

LANGUAGE = ReadyLanguage(dyck(4))
LOSS = Axis("loss", "exact loss (nats)", "loss_error")
ACCURACY = Axis("accuracy", "linear probe accuracy", "accuracy_error")
TRACE = Axis("trace", "trace of the Hessian", "trace_error", logarithmic=True)
STEP = Axis("step", "pre-training step", logarithmic=True)
WIDTH = Colour("width", "width", ordered=True)
STEPS = (1000, 2000, 4000)
MARK = Mark(STEPS[1], "converged")


def run(width: int, seed: int) -> PlannedRun:
    return PlannedRun(
        name=f"width-{width}-seed-{seed}",
        language=LANGUAGE,
        architecture=PreLayerNormTransformer(laptop_shape(width)),
        update_rule=AdamW(),
        steps=STEPS[-1],
        batch_size=4,
        seed=seed,
        checkpoint_steps=STEPS,
        saturated_from=STEPS[1],
        measured=(),
        labels=(("width", width),),
    )


def table(runs: tuple[PlannedRun, ...]) -> pl.DataFrame:
    rows = []
    for planned in runs:
        width = dict(planned.labels)["width"]
        assert isinstance(width, int)
        for step in STEPS:
            trace = 4000 / math.sqrt(step) + width * planned.seed / 9
            rows.append(
                {
                    "run": planned.name, "seed": planned.seed, "step": step, "saturated": step > STEPS[0],
                    "complete": True, "width": width,
                    "loss": 1.5 + 10 / step + width / 1e5, "loss_error": 0.001,
                    "accuracy": 0.9 + step / 1e5 - trace / 1e4, "accuracy_error": 0.004,
                    "trace": trace, "trace_error": trace / 50, "folder": planned.digest[:16],
                }
            )  # fmt: skip
    return pl.DataFrame(rows)


def panels(numbers: pl.DataFrame) -> tuple[Panel, ...]:
    last = numbers.filter(pl.col("step") == STEPS[-1])
    columns = (Axis("run", "run"), LOSS, ACCURACY, TRACE)
    return (
        Panel("dots", "Loss and accuracy", "One bar is one error.", (Dots(LOSS, ACCURACY, WIDTH),), numbers),
        Panel(
            "steps", "Over steps", "A line a run.",
            tuple(Lines(STEP, y, WIDTH, "run", marked=MARK) for y in (ACCURACY, TRACE)), numbers,
        ),
        Panel("table", "As a table", "The last checkpoints.", (Table(columns),), last),
    )  # fmt: skip


WELL = Outcome((), ())
FAILED = Outcome((Notice("figure-8 width-16-seed-1", "its <process> was killed"),), ())


def judgement(name: str, effect: float, standard_error: float) -> Judgement:
    claim = Claim(
        name, f"The claim {name} <holds>.", "8.0 against 19.3 (Table 1)", f"mean of {name}", "doublings",
        above(0.5), lambda runs: 0.0,
    )  # fmt: skip
    return Judgement(claim, Estimate(effect, standard_error, 3), 0.95, 0.01, runs=4)


JUDGEMENTS = (judgement("rises", 1.25, 0.08), judgement("falls", -0.25, 0.05), judgement("stays", 0.4, 0.0))
"""Supported, contradicted, and of too few seeds that agree exactly."""


def experiment_result(name: str, widths: tuple[int, ...], outcome: Outcome = WELL) -> ExperimentResult:
    runs = tuple(run(width, seed) for width in widths for seed in (1, 2))
    experiment = Experiment(
        name=name,
        title=f"What {name} shows",
        text=("The paper shows one thing.", "Here is another."),
        runs=runs,
        panels=panels,
        pilot_seeds=(900,),
        settings=(("steps", "4,000 of 4 <fresh> sentences"),),
        paper_numbers=(("losses", "3.204 to 3.208 nats"),),
        question=Question.FLATNESS if name == "figure-1" else Question.LARGER,
        registered="0123456789abcdef" if name == "figure-1" else "",
    )
    return ExperimentResult(experiment, table(runs), JUDGEMENTS, outcome)


def words_alone(name: str) -> ExperimentResult:
    """An experiment without runs, which has panels all the same."""
    data = pl.DataFrame({"width": [16], "heads": [1]})
    shown = (Panel("shapes", "Shapes", "As printed.", (Table((Axis("width", "width"),)),), data),)
    return ExperimentResult(Experiment(name, "Shapes", (), (), lambda _: shown), pl.DataFrame(), (), WELL)


def statement() -> Statement:
    times = [0.0, 1.0, 2.0]
    data = pl.DataFrame(
        {
            "t": times * 2,
            "u": [1.0, 0.38, 0.13, 1.0, 0.37, 0.135],
            "error": [0.01] * 3 + [0.0] * 3,
            "rate": ["0.1"] * 6,
            "predicted": [False] * 3 + [True] * 3,
        }
    )
    lines = Lines(
        Axis("t", "time"), Axis("u", "u² − v²", "error"), Colour("rate", "rate"), "rate", "predicted"
    )
    return Statement(
        name="theorem-3.3",
        title="SGD drifts towards flat minima",
        text="The exactly solvable coin, against the equation.",
        findings=(
            Finding(
                name="rate", sentence="The rate is the predicted one.", source="Theorem 3.3", predicted=0.5,
                relation="equal to", measured=0.51, standard_error=0.004, n=50, unit="1/s", tolerance=0.05,
            ),
            Finding(
                name="bound", sentence="The bound holds.", source="Lemma G.1", predicted=1.0,
                relation="at least", measured=0.2, n=9, tolerance=0.0, paper="√(4/T)",
            ),
        ),
        panels=(Panel("decay", "Decay", "Dashed: predicted.", (lines,), data),),
        settings=(("seed", "900"),),
        corrections=("The paper’s √(4/T) lacks <factors>.",),
    )  # fmt: skip


def lay_out_run(planned: PlannedRun, output: Path) -> None:
    """The files of a finished run, as far as the report reads them."""
    folder = planned.folder(output)
    (folder / "steps" / f"{planned.steps:06d}").mkdir(parents=True)
    write_sealed(folder / "specification.json", {"seed": planned.seed}, "specification.json")
    write_sealed(folder / "plan.json", {"digest": planned.digest}, "plan.json")
    for step in STEPS:
        record = Record("loss", 1.0, "nats", None, 1, settings={"step": step, "measured_on": "0123"})
        measurements_at(folder, folder.name, step).write("0123", [record])


def written_site(output: Path) -> Path:
    """A site of two figures that share runs, one of which failed in the second, a table, and a theorem."""
    first, second = experiment_result("figure-1", (16,)), experiment_result("figure-8", (16, 32), FAILED)
    for planned in first.experiment.runs:
        lay_out_run(planned, output)
    shown = Site(
        scale="laptop",
        output=output,
        results=(first, second, words_alone("table-3")),
        descriptions={LANGUAGE.digest: describe_language(LANGUAGE.ready, "by <hand>", 20)},
        again=lambda experiment, run: f"isoloss reproduce {experiment.name} --runs {run.name}",
        statements=(statement(),),
        notices=("page of language x failed: no room",),
    )
    assert write_site(shown, output / "site") == output / "site" / "index.html"
    return output / "site"
