"""The page of Figure 1: its panels, claims, language, settings, and how to rerun one dot."""

from pathlib import Path

from isoloss.experiments.figure_1 import FigureOne
from isoloss.experiments.figure_1_result import FigureOneResult
from isoloss.experiments.language_portrait import LanguagePortrait
from isoloss.experiments.provenance import machine, versions
from isoloss.measurements.record import Record
from isoloss.report.charts import ACCURACY, KL, LOSS, TRACE, curves, scatter
from isoloss.report.language_page import write_language_page
from isoloss.report.page import Page, Panel, Section, write_page
from isoloss.report.tree import tree_picture

LANGUAGE_PAGE = "language"


def write_figure_1(result: FigureOneResult, folder: Path, again: str) -> Path:
    """Write the page, its pictures and its numbers into `folder`; return the page's path.

    The language's own page stands beside it. `again` is the command that reruns one run.
    """
    write_language_page(result.language.portrait, folder, LANGUAGE_PAGE)
    panels = _panels(result) if not result.checkpoints.is_empty() else ()
    page = Page(
        title="Same pre-training loss, different flatness, different downstream accuracy",
        summary=_summary(result),
        panels=panels,
        judgements=tuple(result.judgements()),
        sections=tuple(_sections(result, again)),
        notices=(
            *(f"{failure.job} failed: {failure.text}" for failure in result.outcome.failures),
            *(f"{notice.job}: {notice.text}" for notice in result.outcome.notices),
        ),
    )
    return write_page(page, folder, "figure-1")


def _summary(result: FigureOneResult) -> str:
    runs = result.checkpoints["run"].n_unique() if not result.checkpoints.is_empty() else 0
    return (
        f"Figure 1 of Liu, Xie, Li and Ma (ICML 2023) at {result.figure.scale} scale: {runs} transformers "
        f"of {len(result.figure.architectures)} sizes, pre-trained on fresh sentences of a grammar whose "
        "exact law is known. Each dot is one checkpoint after the loss has converged. Hover a dot for its "
        "numbers; scroll to zoom, drag to move."
    )


def _panels(result: FigureOneResult) -> tuple[Panel, ...]:
    every, saturated_from = result.checkpoints, result.figure.saturated_from
    dots = every.filter("saturated")
    first = every.row(0, named=True)
    reference = {record.quantity: record for record in result.language.records}
    chance, ceiling = reference["chance_accuracy"], reference["posterior_accuracy"]
    vertical = (
        f"Chance {chance.value:.3f}, ceiling (the exact posterior) {ceiling.value:.3f}. "
        f"Up and down: one standard deviation over {len(result.figure.measurement.probe.seeds)} seeds of the "
        f"probe, each on {first['probe_test_sentences']:,} test sentences. "
    )
    of_loss = (
        f"Across: one standard error of KL(law || model) over {first['loss_sentences']:,} sentences; the "
        "entropy of the law, which all dots share, adds the same to each."
    )
    of_trace = (
        f"Across: one standard error over {first['trace_sentences']:,} sentences. The trace is that of the "
        "Fisher information, the Hessian's own where the model has learnt the law (Lemma 3.2). "
        "Widths are compared as they stand; only the paper's Figure 5 enlarges them to one shape."
    )
    of_steps = (
        "A line a run. The dots above are the checkpoints from the dashed line "
        f"(step {saturated_from:,}) on. Bars as above."
    )
    by_loss, by_trace = scatter(dots, LOSS, ACCURACY), scatter(dots, TRACE, ACCURACY)
    over_steps = tuple(curves(every, axis, saturated_from) for axis in (KL, ACCURACY, TRACE))
    return (
        Panel("loss", "Exact loss against accuracy", vertical + of_loss, (by_loss,), dots),
        Panel("trace", "Trace against accuracy", vertical + of_trace, (by_trace,), dots),
        Panel("steps", "All three over pre-training steps", of_steps, over_steps, every),
    )


def _sections(result: FigureOneResult, again: str) -> list[Section]:
    language, portrait = result.language, result.language.portrait
    where = (("machine", machine()), ("time of this call", f"{result.seconds:,.0f} s"), *versions().items())
    return [
        Section(
            "The language",
            text=f"{portrait.source}: {len(portrait.vocabulary)} words, at most {portrait.maximum_length} a "
            f"sentence. Downstream task: {language.task}. One derivation:",
            markup=_structure(portrait),
            rows=tuple((_title(record), _shown(record)) for record in language.records),
        ),
        Section("Settings", rows=_settings(result.figure)),
        Section("Machine", rows=where),
        Section(
            "Rerun one dot",
            text="One run, into a folder of its own; with the same versions on the same machine its numbers "
            "are the same to the last bit. The runs' names are on the dots.",
            code=again,
        ),
    ]


def _structure(portrait: LanguagePortrait) -> str:
    tree = tree_picture(portrait.derivation) if portrait.derivation else ""
    more = "sentences, the laws of a masked word, every task with its ceiling"
    return f'{tree}<p><a href="{LANGUAGE_PAGE}.html">More of the language</a>: {more}.</p>'


def _settings(figure: FigureOne) -> tuple[tuple[str, str], ...]:
    shapes = [architecture.shape for architecture in figure.architectures]
    named = ", ".join(f"width {s.width} ({s.layers} layers, {s.heads} heads)" for s in shapes)
    rule, measurement = figure.update_rule, figure.measurement
    optimiser = (
        f"learning rate {rule.learning_rate:g}, constant after {rule.warm_up_steps:,} steps of warm-up, "
        f"betas ({rule.first_beta}, {rule.second_beta}), weight decay {rule.weight_decay}"
    )
    probe = (
        f"{measurement.probe_train:,} training sentences, {measurement.probe.epochs} epochs, AdamW "
        f"{measurement.probe.learning_rate:g}, last epoch; contextual vectors of all words, [CLS] left out"
    )
    return (
        ("models", f"{named}; pre-LN, tied embeddings, dropout {figure.architectures[0].dropout}"),
        ("steps", f"{figure.steps:,} of {figure.batch_size:,} fresh sentences, one masked word each"),
        ("AdamW", optimiser),
        ("dots", f"checkpoints from step {figure.saturated_from:,} on"),
        ("seeds", ", ".join(map(str, figure.seeds))),
        ("pilot seeds", ", ".join(map(str, figure.pilot_seeds)) + "; they chose the scale and are not shown"),
        ("linear probe", probe),
        ("measurement seed", str(measurement.seed)),
    )


def _title(record: Record) -> str:
    return record.quantity.replace("_", " ")


def _shown(record: Record) -> str:
    error = f" ± {record.standard_error:.2g}" if record.standard_error is not None else ""
    return f"{record.value:.4g}{error} {record.unit} (n = {record.n:,})"
