import json
import random
import re
import shutil
from dataclasses import asdict, replace
from functools import partial

import pytest
import torch
from called import answer, output_of
from transformers import AutoModelForMaskedLM

import isoloss.measurements.compared_checkpoints as compared_module
import isoloss.measurements.comparison_plan as plan_module
import isoloss.measurements.on_sentences.local_learning_coefficient as llc_module
from isoloss.cli import main
from isoloss.models.transformers import GPT2Transformer, Shape
from isoloss.results.record import read_records
from tiny_text_models import WORDS, text_model, text_tokenizer

TEXT = ("--text", "text.txt", "--sentences", "12")
TASK = ("--task", "task.jsonl")


def save(model, folder, causal=False):
    model.save_pretrained(folder)
    text_tokenizer(causal).save_pretrained(folder)


@pytest.fixture(scope="module")
def models(tmp_path_factory):
    """Folders of models, a text and a task whose label is the half of the vocabulary that a text is from."""
    folder = tmp_path_factory.mktemp("models")
    for name, settings in {
        "a": {},
        "b": {"seed": 2},
        "wide": {"width": 24},
        "causal": {"causal": True},
    }.items():
        save(text_model(**settings), folder / name, name == "causal")
    shutil.copytree(folder / "a", folder / "copy-of-a")
    save(text_model().bert, folder / "mute")
    text_model(seed=3).save_pretrained(folder / "maskless")
    maskless = text_tokenizer()
    maskless.mask_token = None
    maskless.save_pretrained(folder / "maskless")
    chosen = random.Random(900)

    def texts(words, count):
        return [" ".join(chosen.choices(words, k=chosen.randint(3, 9))) for _ in range(count)]

    (folder / "text.txt").write_text("\n".join(texts(WORDS, 90)))
    (folder / "blank.txt").write_text("\n \n")
    (folder / "one.txt").write_text("a b c\n")
    rows = [{"text": text, "label": "early"} for text in texts(WORDS[:4], 100)]
    rows += [{"text": text, "label": "late"} for text in texts(WORDS[4:], 90)]
    for name, kept in {"task": rows, "single": rows[:100], "unlabelled": [{"text": "a"}]}.items():
        (folder / f"{name}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in kept))
    return folder


@pytest.fixture
def run(models, monkeypatch, capsys, tmp_path):
    monkeypatch.chdir(models)

    def command(*arguments, output=tmp_path / "report.html"):
        return answer(capsys, "compare", *arguments, "--output", output)

    return command


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


def test_everything_is_measured_side_by_side_in_one_file(run, capsys, tmp_path, monkeypatch):
    settings = plan_module.fine_tuning_settings
    short = {"seeds": (0, 1), "epochs": 1, "warm_up_steps": 1}
    monkeypatch.setattr(plan_module, "fine_tuning_settings", lambda n: replace(settings(n), **short))
    written = output_of(run("a", "b", *TEXT, *TASK, "--fine-tune", "--json"))
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


@pytest.mark.usefixtures("_nothing_painted")
def test_models_of_other_kinds_are_compared_in_the_task_alone(run):
    written = output_of(run("a", "wide", "causal", *TEXT, *TASK, "--json"))
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
def test_other_quantities_of_the_text_are_measured_and_compared_where_they_can_be(run, tmp_path):
    own = tmp_path / "loss_of_mine.py"
    own.write_text(
        "from isoloss.measurements.on_sentences.pretraining_loss import PretrainingLossQuantity\n"
        "on_sentences = PretrainingLossQuantity\n"
    )
    quantities = ("--quantity", "hessian_trace", "gradient_norm", own)
    code, written, _ = run("a", "b", "--text", "text.txt", "--sentences", "8", *quantities, "--json")
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


@pytest.mark.usefixtures("_nothing_painted")
def test_the_loss_that_is_asked_for_too_is_measured_once_and_kept(run, monkeypatch, tmp_path):
    measured = []
    measure = plan_module.measure

    def counted(quantity, models, *arguments):
        measured.extend(models)
        return measure(quantity, models, *arguments)

    monkeypatch.setattr(plan_module, "measure", counted)
    first = run("a", "b", *TEXT, "--quantity", "pretraining_loss", "--json")
    assert measured == ["a", "b"]
    assert run("a", "b", *TEXT, "--quantity", "pretraining_loss", "--json") == first
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
def test_a_quantity_of_a_name_that_is_taken_is_refused(files, sentence, run, tmp_path):
    for file in files:
        own = tmp_path / file
        own.parent.mkdir(exist_ok=True)
        own.write_text("from isoloss.measurements.on_sentences.gradient_norm import on_sentences\n")
    named = [tmp_path / file for file in files]
    code, written, told = run("a", "b", *TEXT, "--quantity", *named)
    assert (code, written, told.count("\n")) == (2, "", 1)
    assert sentence in told
    assert not (tmp_path / "report.html").exists()


@pytest.mark.usefixtures("_nothing_painted")
def test_interrupted_it_keeps_what_is_done_and_measures_only_what_is_missing(run, monkeypatch, tmp_path):
    probes = []
    probe = plan_module.task_features

    def stopping(*arguments, **options):
        if len(probes) == 1:
            raise KeyboardInterrupt
        probes.append(1)
        return probe(*arguments, **options)

    monkeypatch.setattr(plan_module, "task_features", stopping)
    code, _, told = run("a", "b", *TEXT, *TASK)
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
    code, resumed, _ = run("a", "b", *TEXT, *TASK, "--json")
    assert (code, measured) == (0, [])
    code, more, _ = run("a", "b", "wide", *TEXT, *TASK, "--json")
    assert (code, measured) == (0, ["wide"])
    assert records(more)["pretraining_loss", "b"] == records(resumed)["pretraining_loss", "b"]


@pytest.mark.usefixtures("_nothing_painted")
def test_a_report_never_tells_less_than_the_one_before(run, monkeypatch, tmp_path):
    def stopped(*_):
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(plan_module, "measure", stopped)
        assert run("a", "b", *TEXT, *TASK)[0] == 130
        assert not (tmp_path / "report.html").exists()  # nothing is known that it could tell
    assert run("a", "b", *TEXT, *TASK)[0] == 0
    monkeypatch.setattr(plan_module, "measure", stopped)
    assert run("a", "b", "wide", *TEXT, *TASK)[0] == 130
    html = (tmp_path / "report.html").read_text()
    assert "Not everything has been measured yet" in html
    sentence = re.search(r"b against a: [^<]*", html)[0]
    assert all(named in sentence for named in ("same loss", "flatter", "better (probe)"))


@pytest.mark.usefixtures("_nothing_painted")
def test_a_quantity_with_a_value_is_told_with_its_warnings_in_lines_of_80_columns(run, tmp_path, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    few = ("--text", "text.txt", "--sentences", "8")
    short = partial(llc_module.LocalLearningCoefficientQuantity, burn_in=2, draws=4)
    monkeypatch.setattr(llc_module, "LocalLearningCoefficientQuantity", short)
    written = output_of(run("a", "b", *few, "--quantity", "local_learning_coefficient=50"))
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


@pytest.mark.parametrize("wrong", ["none/of/these", "mute", "maskless"])
def test_a_mistake_in_the_last_name_is_told_before_the_first_weights_are_read(wrong, run, monkeypatch):
    def read(*_):
        raise AssertionError("weights were read")

    monkeypatch.setattr(compared_module.Models, "load", read)
    code, _, told = run("a", "b", wrong, *TASK)
    assert (code, told.count("\n")) == (2, 1)
    assert wrong in told


@pytest.mark.usefixtures("_nothing_painted")
def test_a_checkpoint_that_diverged_is_named_and_the_others_are_kept(run, models, tmp_path):
    model = AutoModelForMaskedLM.from_pretrained(models / "b")
    with torch.no_grad():
        model.cls.predictions.bias[:] = float("nan")
    save(model, tmp_path / "diverged")
    code, _, told = run("a", str(tmp_path / "diverged"), *TEXT)
    assert code == 2
    assert told.count("\n") == 1
    assert re.search(r"scores for \S*diverged, the sentence of line \d+, are not finite", told)
    assert (tmp_path / "report.html").exists()


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["a", *TASK], "name two checkpoints or more"),
        (["a", "b"], "say what to compare on"),
        (["a", "./a", *TASK], "a and ./a are one checkpoint"),
        (["a", "copy-of-a", *TASK], "a and copy-of-a hold the same weights"),
        (["a", "mute", *TASK], "mute has no trained language head"),
        (["a", "none/of/these", *TASK], "there is no folder none/of/these"),
        (["a", "text.txt", *TASK], "text.txt is a file"),
        (["a", "maskless", *TASK], "the tokenizer of maskless has no mask token"),
        (["a", "b", "--text", "blank.txt"], "blank.txt is empty"),
        (["a", "b", "--text", "one.txt"], "has a single sentence"),
        (["a", "b", "--text", "none.txt"], "there is no file none.txt"),
        (["a", "b", "--text", "text.txt", "--dataset", "x"], "--text or --dataset"),
        (["a", "b", "--task", "unlabelled.jsonl"], "has no column 'label'"),
        (["a", "b", "--task", "single.jsonl"], "every example of single.jsonl has the label 'early'"),
        (["a", "b", "--text", "text.txt", "--fine-tune"], "there is no task"),
        (["a", "b", "--text", "text.txt", "--task-examples", "8"], "there is no task"),
        (["a", "b", "--text", "text.txt", "--task-length", "64"], "there is no task"),
        (["a", "b", *TASK, "--task-length", "7"], "--task-length must leave at least 8 tokens"),
        (["a", "b", *TASK, "--sentences", "9"], "there is no text to measure on: give --text FILE"),
        (["a", "b", *TASK, "--quantity", "unit_trace"], "there is no text to measure on"),
        (["a", "b", *TASK, "--seed", "-1"], "--seed must be"),
        (["a", "b", *TEXT, "--mask-rate", "0"], "mask rate must be above 0"),
        (["a", "b", *TEXT, "--same-loss", "2"], "share of the loss"),
        (["a", "b", *TEXT, "--seconds", "0"], "--seconds must be above 0"),
    ],
)
def test_mistakes_are_one_sentence_each_before_any_work(arguments, sentence, run, tmp_path):
    code, written, told = run(*arguments)
    assert (code, written) == (2, "")
    assert sentence in told
    assert told.count("\n") == 1
    assert list(tmp_path.iterdir()) == []


def test_the_report_is_html_that_can_be_written(run, tmp_path):
    assert "names an HTML file" in run("a", "b", *TASK, output=tmp_path / "report")[2]
    (tmp_path / "file").write_text("")
    assert (
        "is a file, where a folder is needed"
        in run("a", "b", *TASK, output=tmp_path / "file" / "report.html")[2]
    )


def test_a_text_of_the_name_of_the_records_is_not_replaced(run, tmp_path):
    text = tmp_path / "report.jsonl"
    text.write_text('{"text": "a b"}\n{"text": "c d"}\n')
    code, written, told = run("a", "b", "--text", text)
    assert (code, written, told.count("\n")) == (2, "", 1)
    assert "report.jsonl would be replaced by the page's records, and is no whole file of records" in told
    assert text.read_text() == '{"text": "a b"}\n{"text": "c d"}\n'


def test_words_that_a_tokenizer_does_not_know_are_named(run, models, tmp_path):
    """Only a language's own words: its tokenizer replaces none."""
    from isoloss.models.tokenizer import word_tokenizer

    folders = []
    for seed in (0, 1):
        folders.append(str(tmp_path / f"language-{seed}"))
        GPT2Transformer(Shape(8, 2, 1, 8)).build(4, 8, seed).save_pretrained(folders[-1])
        word_tokenizer(list("wxyz"), 8).save_pretrained(folders[-1])
    code, _, told = run(*folders, *TASK)
    assert code == 2
    assert "cannot encode" in told
    assert told.count("\n") == 1
