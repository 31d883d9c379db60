"""`isoloss compare`: what it measures, keeps and tells."""

import json
import re
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path

import pytest
from called import output_of, refusal_in
from compared_folders import TASK, TEXT, save

import isoloss.measurements.comparison_plan as plan_module
import isoloss.measurements.on_sentences.local_learning_coefficient as llc_module
from isoloss.cli import main
from isoloss.results.record import read_records
from tiny_text_models import text_model


def records(written):
    return {
        (record["quantity"], record["checkpoint"]): record
        for record in json.loads(written)["records"]
        if "group" not in record["settings"]
    }


def answers(written):
    return {
        (each["measured"], each["first"], each["second"]): each["answer"]
        for each in json.loads(written)["verdicts"]
    }


def test_everything_is_measured_side_by_side_in_one_file(compare, capsys, tmp_path, monkeypatch):
    settings = plan_module.fine_tuning_settings
    short = {"seeds": (0, 1), "epochs": 1, "warm_up_steps": 1}
    monkeypatch.setattr(plan_module, "fine_tuning_settings", lambda n: replace(settings(n), **short))
    heads, asked = plan_module.converged_probe, []
    monkeypatch.setattr(plan_module, "converged_probe", lambda n: asked.append(n) or heads(n))
    written = output_of(compare("a", "b", *TEXT, *TASK, "--fine-tune", "--json"))
    (examples,) = asked
    assert 100 < examples < 190  # of the 190 rows of the task
    found = records(written)
    for quantity in (
        "pretraining_loss",
        "fisher_trace",
        "linear_probe_accuracy",
        "fine_tuning_best_accuracy",
    ):
        difference = found[f"{quantity}_difference", "b"]
        expected = found[quantity, "b"]["value"] - found[quantity, "a"]["value"]
        assert difference["value"] == pytest.approx(expected, abs=1e-9)
        assert difference["settings"]["reference"] == "a"
    assert found["majority_accuracy", ""]["value"] < 0.7 < found["linear_probe_accuracy", "a"]["value"]
    assert {name for name, _, _ in answers(written)} == {"loss", "trace", "probe", "fine-tuning"}
    # The trace is that of `isoloss flatness`, its difference with the same pairs.
    with pytest.raises(SystemExit):
        main(["flatness", "a", "b", *TEXT, "--json"])
    flatness = records(capsys.readouterr().out)
    for key in (("fisher_trace", "a"), ("fisher_trace", "b"), ("fisher_trace_difference", "b")):
        assert found[key]["value"] == pytest.approx(flatness[key]["value"], rel=1e-6)
        assert found[key]["standard_error"] == pytest.approx(flatness[key]["standard_error"], rel=1e-6)
    assert {path.name for path in tmp_path.iterdir()} == {"report.html", "report.jsonl", "report.measured"}
    written_too = [asdict(record) for record in read_records(tmp_path / "report.jsonl", "report.jsonl")]
    assert written_too == json.loads(written)["records"]
    html = re.sub(r"<script>.*?</script>", "", (tmp_path / "report.html").read_text(), flags=re.DOTALL)
    outside = {place[:5] for place in re.findall(r"(?:src|href)=\"([^\"]*)\"", html)}
    assert outside == {"data:"}
    assert "isoloss compare a b --text text.txt --task task.jsonl --fine-tune" in html
    assert "Not everything" not in html


def loss_of_first(written):
    return records(written)["pretraining_loss", "a"]["value"]


def examples_cut(written):
    return records(written)["linear_probe_accuracy", "a"]["settings"]["cut"]


def same_loss(written):
    return answers(written)["loss", "a", "b"]


@pytest.mark.usefixtures("_no_charts")
@pytest.mark.parametrize(
    ("measured_on", "changes"),
    [
        (
            ("--text", "text.txt", "--sentences", "16", "--quantity", "pretraining_loss"),
            {"--mask-rate 0.6": loss_of_first, "--seed 7": loss_of_first, "--same-loss 0.9": same_loss},
        ),
        (TASK, {"--task-length 8": examples_cut}),
    ],
)
def test_an_option_changes_what_is_measured_or_told(measured_on, changes, compare):
    usual = output_of(compare("a", "b", *measured_on, "--json"))
    for option, told in changes.items():
        other = output_of(compare("a", "b", *measured_on, *option.split(), "--json"))
        assert told(other) != told(usual), option


@pytest.mark.thorough
@pytest.mark.usefixtures("_nothing_painted")
def test_models_of_different_lengths_read_what_the_shortest_can(compare, tmp_path):
    short = str(tmp_path / "short")
    save(text_model(positions=8), short)
    found = records(output_of(compare("a", short, *TEXT, "--json")))
    cut = [found["pretraining_loss", name]["settings"]["cut"] for name in ("a", short)]
    assert cut[0] == cut[1] > 0


@pytest.mark.thorough
@pytest.mark.usefixtures("_nothing_painted")
def test_models_of_other_kinds_are_compared_in_the_task_alone(compare):
    written = output_of(compare("a", "wide", "causal", *TEXT, *TASK, "--json"))
    found = answers(written)
    assert found["trace", "a", "wide"] == "not asked, their parameters are not the same ones"
    assert found["loss", "a", "wide"] in ("yes", "no", "open")
    assert found["loss", "a", "causal"] == "not asked, a is masked and causal causal"
    assert {("probe", "a", "causal"), ("probe", "wide", "causal")} <= set(found)
    assert ("fisher_trace", "wide") in records(written)
    assert ("fisher_trace_difference", "wide") not in records(written)
    models = json.loads(written)["models"]
    assert [each["prediction"] for each in models] == ["masked", "masked", "causal"]


@pytest.mark.usefixtures("_nothing_painted")
def test_other_quantities_of_the_text_are_measured_and_compared_where_they_can_be(compare, tmp_path):
    own = tmp_path / "loss_of_mine.py"
    own.write_text(
        "from isoloss.measurements.on_sentences.pretraining_loss import PretrainingLossQuantity\n"
        "on_sentences = PretrainingLossQuantity\n"
    )
    quantities = ("--quantity", "hessian_trace", "gradient_norm", own)
    code, written, _ = compare("a", "b", "--text", "text.txt", "--sentences", "4", *quantities, "--json")
    found, answered = records(written), answers(written)
    assert code == 0
    assert {("hessian_trace", "b"), ("gradient_norm", "a"), ("hessian_trace_difference", "b")} <= set(found)
    assert not any(quantity.startswith("fisher_trace") for quantity, _ in found)
    assert answered["hessian_trace", "a", "b"] in ("a", "b", "open")
    assert answered["gradient_norm", "a", "b"].startswith("not asked, it has no values per sentence")
    html = (tmp_path / "report.html").read_text()
    assert "Hessian trace" in html
    assert "flatter (hessian_trace)" in html
    assert "lower (loss_of_mine)" in html, "nobody said that a smaller value is flatter"
    asked = {each["measured"]: each["question"] for each in json.loads(written)["verdicts"]}
    assert (asked["gradient_norm"], asked["loss_of_mine"]) == ("lower", "lower")


@pytest.mark.thorough
@pytest.mark.usefixtures("_nothing_painted")
def test_the_loss_that_is_asked_for_too_is_measured_once_and_kept(compare, monkeypatch, tmp_path):
    measured = []
    measure = plan_module.measure

    def counted(quantity, models, *arguments):
        measured.extend(models)
        return measure(quantity, models, *arguments)

    monkeypatch.setattr(plan_module, "measure", counted)
    first = compare("a", "b", *TEXT, "--quantity", "pretraining_loss", "--json")
    assert measured == ["a", "b"]
    assert compare("a", "b", *TEXT, "--quantity", "pretraining_loss", "--json") == first
    assert measured == ["a", "b"]
    assert first[0] == 0
    assert "Not everything" not in (tmp_path / "report.html").read_text()


@pytest.mark.parametrize(
    ("files", "sentence"),
    [
        (["loss.py"], "loss.py would be taken for the loss of isoloss compare; rename the file"),
        (["pretraining_loss.py"], "pretraining_loss.py would be taken for the loss"),
        (["fisher_trace.py"], "fisher_trace.py would be taken for the trace"),
        (["probe.py"], "probe.py would be taken for the probe"),
        (["fine-tuning with seed 0.py"], "would be taken for the fine-tuning with seed 0"),
        (["one/own.py", "two/own.py"], "two/own.py are both called own; name one of them"),
    ],
)
def test_a_quantity_of_a_name_that_is_taken_is_refused(files, sentence, compare, tmp_path):
    for file in files:
        own = tmp_path / file
        own.parent.mkdir(exist_ok=True)
        own.write_text("from isoloss.measurements.on_sentences.pretraining_loss import on_sentences\n")
    named = [tmp_path / file for file in files]
    assert sentence in refusal_in(compare("a", "b", *TEXT, "--quantity", *named))
    assert not (tmp_path / "report.html").exists()


@pytest.mark.usefixtures("_no_charts")
def test_interrupted_it_keeps_what_is_done_and_measures_only_what_is_missing(compare, monkeypatch, tmp_path):
    probes = []
    probe = plan_module.task_features

    def stopping(*arguments, **options):
        if len(probes) == 1:
            raise KeyboardInterrupt
        probes.append(1)
        return probe(*arguments, **options)

    monkeypatch.setattr(plan_module, "task_features", stopping)
    code, _, told = compare("a", "b", *TEXT, *TASK)
    assert code == 130
    assert "goes on from there" in told
    html = (tmp_path / "report.html").read_text()
    assert "Not everything has been measured yet" in html
    assert "b against a: same loss" in html
    monkeypatch.setattr(plan_module, "task_features", probe)
    measured = []
    kept = plan_module.measure

    def counted(quantity, models, *arguments):
        measured.extend(models if quantity == "pretraining_loss" else ())
        return kept(quantity, models, *arguments)

    monkeypatch.setattr(plan_module, "measure", counted)
    code, resumed, _ = compare("a", "b", *TEXT, *TASK, "--json")
    assert (code, measured) == (0, [])
    code, more, _ = compare("a", "b", "wide", *TEXT, *TASK, "--json")
    assert (code, measured) == (0, ["wide"])
    assert records(more)["pretraining_loss", "b"] == records(resumed)["pretraining_loss", "b"]


@pytest.mark.thorough
@pytest.mark.usefixtures("_nothing_painted")
def test_a_report_never_tells_less_than_the_one_before(compare, monkeypatch, tmp_path):
    def stopped(*_):
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(plan_module, "measure", stopped)
        assert compare("a", "b", *TEXT, *TASK)[0] == 130
        assert not (tmp_path / "report.html").exists()  # nothing is known that it could tell
    assert compare("a", "b", *TEXT, *TASK)[0] == 0
    monkeypatch.setattr(plan_module, "measure", stopped)
    assert compare("a", "b", "wide", *TEXT, *TASK)[0] == 130
    html = (tmp_path / "report.html").read_text()
    assert "Not everything has been measured yet" in html
    sentence = re.search(r"b against a: [^<]*", html)[0]
    assert all(named in sentence for named in ("same loss", "flatter", "better (probe)"))


@pytest.mark.usefixtures("_no_charts")
def test_texts_that_are_truncated_or_left_out_are_told_of_wherever_the_numbers_are(compare, tmp_path):
    text, task = tmp_path / "long.txt", tmp_path / "copies.jsonl"
    text.write_text("\n".join(["a b c d " * 9] * 3 + ["a b c d"] * 4 + ["[PAD] [SEP]"]))
    task.write_text(Path("task.jsonl").read_text() + '{"text": "A", "label": "early"}\n' * 2)
    asked = ("a", "b", "--text", text, "--sentences", "8", "--task", task, "--task-length", "8")
    told = [f"{task.name}: 4 of 192 examples are left out; copies count once"]
    for name in ("a", "b"):
        told.append(f"{name}: 3 of 7 sentences of the text were truncated to what the model can read.")
        told.append(f"{name}: 1 of 8 sentences of the text have nothing to predict and are left out.")
        told.append(f"{name}: 10 of 30 examples of the test were truncated.")
    code, written, _ = compare(*asked, "--json")
    assert code == 0
    notes, page = json.loads(written)["notes"], (tmp_path / "report.html").read_text()
    shown = " ".join(output_of(compare(*asked)).split())
    for sentence in told:
        assert sentence in " ".join(notes)
        assert sentence in page
        assert sentence in shown


@pytest.mark.usefixtures("_no_charts")
def test_a_quantity_with_a_value_is_told_with_its_warnings_in_lines_of_80_columns(
    compare, tmp_path, monkeypatch
):
    monkeypatch.setenv("COLUMNS", "80")
    few = ("--text", "text.txt", "--sentences", "8")
    short = partial(llc_module.LocalLearningCoefficientQuantity, burn_in=1, draws=2)
    monkeypatch.setattr(llc_module, "LocalLearningCoefficientQuantity", short)
    written = output_of(compare("a", "b", *few, "--quantity", "local_learning_coefficient=50"))
    found = read_records(tmp_path / "report.jsonl", "report.jsonl")
    sampled = [each for each in found if each.quantity == "local_learning_coefficient"]
    assert [each.settings["localisation"] for each in sampled] == [50.0, 50.0]
    warnings = [each.settings["warning"] for each in sampled if each.settings["warning"]]
    assert warnings  # of models that were never trained
    below = written[written.index("b against a") :].splitlines()
    assert below[-1].startswith("page: ")
    assert max(map(len, below[:-1])) <= 80
    assert all(f": {warning}" in " ".join(below) for warning in warnings)
    assert "open question" in " ".join(below).lower()
    assert all(warning in (tmp_path / "report.html").read_text() for warning in warnings)
