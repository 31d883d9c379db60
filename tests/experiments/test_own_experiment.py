"""A user's own experiment: the file of the documentation, run by its path, and files that fail."""

import json
import re
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from isoloss.cli import main
from isoloss.command_line import reproduction
from isoloss.command_line.reproduce import ReproduceOptions, command_again
from isoloss.command_line.reproduction import choice
from isoloss.errors import BadInput
from isoloss.experiments.design import read_design
from isoloss.experiments.experiment_result import gathered
from isoloss.experiments.misspelt_names import refuse_misspelt_names
from isoloss.experiments.scale import scale_named
from isoloss.languages.dyck import dyck, write_dyck
from jobs_in_turn import reproduce_in_this_process
from page_blocks import ROOT, blocks
from planned_suite import planned_suite
from tiny_scale import tiny_scale

WEIGHT_DECAY = next(
    block.text for block in blocks(ROOT / "docs" / "run-an-experiment.md") if block.file == "weight_decay.py"
)
MOST_LINES = 60
PANELS = 'over_steps(KL, TRACE, ACCURACY, by=Colour("rule", "weight decay"))'
SEEDS = "(601, 602, 603, 604, 605)"


@pytest.fixture(autouse=True)
def _imports_are_forgotten(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(sys, "path", [*sys.path])
    monkeypatch.chdir(tmp_path)
    monkeypatch.delitem(sys.modules, "weight_decay", raising=False)  # of the guide's own test
    yield
    for name, module in [*sys.modules.items()]:
        if str(getattr(module, "__file__", None)).startswith(str(tmp_path)):
            del sys.modules[name]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """The file of two weight decays."""
    found = tmp_path / "weight_decay.py"
    found.write_text(WEIGHT_DECAY)
    return found


@pytest.mark.usefixtures("_nothing_painted")
def test_one_short_file_is_run_judged_and_shown(
    path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert len(WEIGHT_DECAY.splitlines()) <= MOST_LINES
    reproduce_in_this_process(monkeypatch)
    tiny = tiny_scale((1, 2))
    short = replace(tiny, grammar=replace(tiny.grammar, steps=12, checkpoint_steps=(6, 12), saturated_from=6))
    monkeypatch.setattr(reproduction, "scale_named", lambda name: short)
    with pytest.raises(SystemExit) as leaving:
        main(["reproduce", "./weight_decay.py", "--scale", "smoke", "--output", "out", "--json"])
    assert not leaving.value.code
    content = json.loads(capsys.readouterr().out)
    (told,) = content["experiments"]
    assert content["failures"] == []
    assert {row["rule"] for row in told["checkpoints"]} == {"no decay", "decay 0.1"}
    assert len(told["checkpoints"]) == 2 * 2 * 2
    page = Path(content["report"]).read_text()
    assert "Does weight decay lead to a flatter minimum?" in page
    assert "isoloss reproduce ./weight_decay.py --scale smoke --runs no-decay-seed-1" in page
    experiment = read_design(path).at(short)
    (result,) = gathered([experiment], Path(content["report"]).parent.parent)
    assert [judged.claim.name for judged in result.judgements] == ["decays-have-one-loss", "decay-is-flatter"]
    assert all(judged.runs == 4 and judged.seeds == 2 for judged in result.judgements)
    (panel,) = experiment.drawn(result.table)
    assert [chart.y.column for chart in panel.charts] == ["kl", "trace", "accuracy"]


@pytest.mark.parametrize("scale", ["laptop", "night", "paper"])
def test_it_is_planned_at_every_scale_with_seeds_that_nothing_else_has(scale: str, path: Path) -> None:
    experiment = read_design(path).at(scale_named(scale))
    refuse_misspelt_names(experiment)
    seeds = {run.first_seed for run in experiment.runs}
    assert len(experiment.runs) == 2 * len(seeds)
    if scale != "paper":
        others = {run.first_seed for each in planned_suite(scale) for run in each.runs}
        assert not seeds & others


def test_the_command_for_a_run_names_the_file_as_it_was_named(path: Path, tmp_path: Path) -> None:
    (tmp_path / "mine.dyck").write_text(write_dyck(dyck(6, 0.5)))
    request = ReproduceOptions((str(path),), "smoke", language=tmp_path / "mine.dyck")
    chosen = choice(request)
    (experiment,) = chosen.experiments
    assert experiment.name == "weight-decay"
    assert {run.language.words for run in chosen.runs} == {2}
    again = command_again(request, experiment, chosen.runs[0])
    assert again.startswith(f"isoloss reproduce {path} --scale smoke --runs no-decay-seed-1 --output one-run")
    assert f"--language {tmp_path / 'mine.dyck'}" in again


def edited(old: str, new: str) -> str:
    assert old in WEIGHT_DECAY
    return WEIGHT_DECAY.replace(old, new)


@pytest.mark.parametrize(
    ("name", "text", "says"),
    [
        ("absent.py", None, r"there is no file .*absent\.py; name an experiment, or a Python file of"),
        (
            "half.py",
            "EXPERIMENT = Design(",
            r"half\.py, line 1 failed: SyntaxError: '\(' was never closed; mend",
        ),
        ("raises.py", "\n\n1 / 0", r"raises\.py, line 3 failed: ZeroDivisionError: division by zero; mend"),
        ("lacks.py", "import no_such_module", r"lacks\.py, line 1 failed: ModuleNotFoundError"),
        ("imports.py", "\nimport broken", r"imports\.py, line 2 failed: SyntaxError: '\(' was never closed"),
        ("empty.py", "", r"empty\.py does not define EXPERIMENT = Design\(\.\.\.\); docs/run-an-exp"),
        ("other.py", "EXPERIMENT = 3", r"other\.py does not define EXPERIMENT = Design"),
        ("json.py", WEIGHT_DECAY, r"json\.py cannot be imported as 'json': give the file a name of its own"),
        ("my-own.py", WEIGHT_DECAY, r"my-own\.py cannot be imported as 'my-own'"),
        ("my.own.py", WEIGHT_DECAY, r"my\.own\.py cannot be imported as 'my\.own'"),
        ("figure_1.py", WEIGHT_DECAY, r"figure_1\.py would be called figure-1, as a built-in experiment is"),
        (
            "wide.py",
            edited("weight_decay=decay", "wait_decay=decay"),
            r"wide\.py, line 36 failed: TypeError: .*'wait_decay'; mend",
        ),
        (
            "bound.py",
            edited("below(0.0)", "below(float('inf'))"),
            r"bound\.py, line \d+: a claim must leave some",
        ),
        (
            "words.py",
            edited('("The same transformer', '"The same transformer').replace(
                'sentences.",),', 'sentences.",'
            ),
            r"text of \S+ must be a tuple",
        ),
        ("seeds.py", edited(SEEDS, "601"), r"seeds\.py, line \d+: the seeds at laptop must"),
        (
            "scale.py",
            edited('"laptop": (', '"latpop": ('),
            r"seeds are given for a scale 'latpop'; there are smoke",
        ),
        ("asks.py", edited("Question.ALGORITHM", "'algorithm'"), r"take one of Question\.LOSS"),
        (
            "twice.py",
            edited(SEEDS, "(601, 601)"),
            r"twice\.py, line \d+: the seeds at laptop must be a tuple of different whole numbers",
        ),
        (
            "number.py",
            edited("claimed=below(0.0)", "claimed=0.0"),
            r"number\.py, line \d+: the claim decay-is-flatter must claim a range",
        ),
        (
            "same.py",
            edited('name="decay-is-flatter"', 'name="decays-have-one-loss"'),
            r"two claims of weight-decay are called decays-have-one-loss",
        ),
        (
            "night.py",
            edited("rule = scale", "{'night': 9}[scale.name]\n    rule = scale"),
            r"night\.py, line 35: it sets nothing for the scale smoke; add that, or choose another --scale",
        ),
        (
            "shown.py",
            edited('by=Colour("rule", "weight decay")', 'by=Colour("rule", ""), shows=("decay-is-flater",)'),
            r"the panel steps of shown shows a claim 'decay-is-flater', which .* mean 'decay-is-flatter'\?",
        ),
        (
            "columns.py",
            edited('WITHOUT, "trace"', 'WITHOUT, "trase"'),
            r"the claim decay-is-flatter of columns asks for a column 'trase' .* mean 'trace'\?",
        ),
        (
            "labels.py",
            edited("WITH, WITHOUT,", "'decay 0.2', WITHOUT,"),
            r"decay-is-flatter of labels is about runs labelled 'decay 0\.2', and .* mean 'decay 0\.1'\?",
        ),
        (
            "panels.py",
            edited(PANELS, "lambda table: None"),
            r"panels of panels returned None; let it return a tuple of panels",
        ),
        (
            "attribute.py",
            edited(PANELS, "lambda table: table.nonsense()"),
            r"a panel of attribute fails: AttributeError: .*'nonsense'; mend it and try again",
        ),
        ("index.py", WEIGHT_DECAY, r"index\.py would have the page index\.html, which a site has; rename"),
        (
            "kind.py",
            edited("claimed=below(0.0),", "claimed=below(0.0), kind='premisse',"),
            r"kind\.py, line \d+: the kind of the claim \S+ is one of .*'premise', .* not 'premisse'",
        ),
        (
            "unit.py",
            edited('unit="doublings"', "unit=None"),
            r"unit\.py, line \d+: the unit of the claim decay-is-flatter is a text",
        ),
        (
            "drawn.py",
            edited(PANELS, "()"),
            r"drawn\.py, line \d+: panels of \S+ is a function from a table to panels, not \(\)",
        ),
        (
            "columns_twice.py",
            edited("scale.followed)", "(*scale.followed, replace(scale.followed[0], seed=7)))"),
            r"two quantities of the run \S+ have the column loss at step",
        ),
        (
            "empty_seeds.py",
            edited(SEEDS, "()"),
            r"empty_seeds\.py, line \d+: the seeds at laptop must be a tuple .* such as \(1, 2\), not \(\)",
        ),
        (
            "own_dict.py",
            edited('MeanAtSameLoss(WITH, WITHOUT, "trace", doublings)', "lambda runs: {'a': 1}['b']"),
            r"fails in \S+own_dict\.py, line \d+, in <lambda>: KeyError: 'b'; mend it and try again",
        ),
        (
            "none.py",
            edited("return Experiment(", "Experiment("),
            r"none\.py plans None where an Experiment should",
        ),
    ],
)
def test_a_file_that_is_no_experiment_is_one_sentence(
    name: str, text: str | None, says: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "broken.py").write_text("\n\n\n(")
    if text is not None:
        (tmp_path / name).write_text(text)
    for stop in ([], ["--dry-run"]):
        with pytest.raises(SystemExit) as leaving:
            main(["reproduce", f"./{name}", "--scale", "smoke", *stop])
        told = capsys.readouterr()
        assert leaving.value.code == 2
        assert re.search(says, told.err), told.err
        assert len(told.err.strip().splitlines()) == 1
    assert not (tmp_path / "results").exists()


def test_a_dry_run_refuses_a_claim_that_decides_nothing(
    path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """It is defined in a few of the made-up experiments only: the pairs of the others have no common loss."""
    path.write_text(edited("below(0.0)", "below(-50.0)").replace('"trace", doubl', '"accuracy", doubl'))
    with pytest.raises(SystemExit) as leaving:
        main(["reproduce", "./weight_decay.py", "--dry-run"])
    assert leaving.value.code == 2
    assert "decay-is-flatter of weight-decay decides nothing: whatever accuracy" in capsys.readouterr().err


def test_a_mistake_in_its_plan_is_that_plans_own_sentence(path: Path) -> None:
    """Seeds that chose the scale, and a column that nothing measures, are refused before the first run."""
    path.write_text(edited("601, 602, 603, 604, 605", "900, 901"))
    with pytest.raises(BadInput, match=r"seeds \[900, 901\] chose the scale"):
        read_design(path).at(scale_named("laptop"))


STATISTIC = 'MeanAtSameLoss(WITH, WITHOUT, "trace", doublings)'
ALONG_RUNS = "__import__('isoloss.experiments.statistics.along_runs', fromlist=['Slope'])"


@pytest.mark.parametrize(
    ("statistic", "says"),
    [
        ('MeanAtSameLoss(WITH, WITHOUT, "trase", doublings)', r" .* 'trase' .* did you mean 'trace'"),
        (f"{ALONG_RUNS}.Spread('trase')", r" .* 'trase' .* did you mean 'trace'"),
        ("lambda runs: None", r" .* returns None; let it return a number"),
    ],
)
def test_a_column_that_nothing_measures_is_named_and_what_is_no_number(
    statistic: str, says: str, path: Path
) -> None:
    path.write_text(edited(STATISTIC, statistic))
    with pytest.raises(BadInput, match=f"the claim decay-is-flatter{says}"):
        refuse_misspelt_names(read_design(path).at(scale_named("laptop")))
