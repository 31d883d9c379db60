"""`isoloss flatness`: what it measures, against dense derivatives, and how it reports it."""

import contextlib
import json
from dataclasses import replace
from functools import partial

import pytest
import torch
from called import answer
from flatness_folders import MASK, TOKENS, save_models
from reader_that_leaves import left_by_its_reader

import isoloss.command_line.flatness as flatness_module
from isoloss.corpora.token_sentences import TokenCorpus
from isoloss.measurements import on_sentences
from isoloss.measurements.quantity import Subject
from isoloss.measurements.sampled_batches import SampledBatches, ShareMasked
from isoloss.models.loading import load_any_language_model
from isoloss.models.transformers import PostLayerNormTransformer, Shape
from isoloss.progress import silent
from isoloss.results.estimate import Estimate
from isoloss.results.record import value_name


@pytest.fixture(scope="module")
def models(tmp_path_factory):
    folder = tmp_path_factory.mktemp("models")
    save_models(folder)
    return folder


@pytest.fixture
def run(models, monkeypatch, capsys):
    monkeypatch.chdir(models)

    return partial(answer, capsys, "flatness")


def records(written):
    return {
        (r["quantity"], r["checkpoint"], r["settings"].get("group")): r
        for r in json.loads(written)["records"]
    }


def dense_trace(model, ids, positions):
    """Σ_y p_y ||∇ log p_y||² of each prediction, from its full Jacobian, and their mean."""
    parameters = list(model.parameters())
    logits = model(torch.tensor(ids)).logits
    total = 0.0
    for row, position in enumerate(positions):
        log_p = logits[row, position].log_softmax(0)
        jacobian = torch.autograd.grad(
            log_p, parameters, torch.eye(TOKENS).double(),
            is_grads_batched=True, retain_graph=True, allow_unused=True, materialize_grads=True,
        )  # fmt: skip
        norms = sum(g.flatten(1).square().sum(1) for g in jacobian)
        total += float((log_p.exp().detach() * norms).sum())
    return total / len(positions)


def test_one_mask_is_the_mean_over_sentences_and_positions(run, models):
    """Against every position of every sentence masked in turn, and every label."""
    code, written, _ = run(
        "bert", "--token-ids", "ids.jsonl", "--one-mask", "--dtype", "float64", "--json",
        "--relative-error", "0.001",
    )  # fmt: skip
    assert code == 0
    found = records(written)["fisher_trace", "bert", None]
    model, _ = load_any_language_model("bert", dtype=torch.float64)
    lines = (models / "ids.jsonl").read_text().splitlines()[:40]
    dense = []
    for ids in map(json.loads, lines):
        masked = [[*ids[:t], MASK, *ids[t + 1 :]] for t in range(len(ids))]
        dense.append(dense_trace(model, masked, range(len(ids))))
    assert abs(found["value"] - sum(dense) / 40) < 4 * found["standard_error"]
    assert found["standard_error"] < 0.04 * found["value"]
    assert found["n"] == 400
    assert found["unit"] == "nats per squared parameter"
    assert json.loads(written)["stopped"] == {"fisher_trace": "the sentences ended"}


def test_causal_models_average_over_predicted_positions(run, models):
    code, written, _ = run(
        "gpt2", "--token-ids", "ids.jsonl", "--dtype", "float64", "--json", "--sentences", "400"
    )
    assert code == 0
    found = records(written)["fisher_trace", "gpt2", None]
    model, _ = load_any_language_model("gpt2", dtype=torch.float64)
    lines = (models / "ids.jsonl").read_text().splitlines()[:40]
    dense = [
        dense_trace(model, [ids] * (len(ids) - 1), range(len(ids) - 1)) for ids in map(json.loads, lines)
    ]
    assert abs(found["value"] - sum(dense) / 40) < 4 * found["standard_error"]
    assert found["standard_error"] < 0.06 * found["value"]


def test_groups_add_up_and_several_models_share_what_they_are_measured_on(run):
    code, written, _ = run("bert", "pre", "other", "--text", "text.txt", "--sentences", "100", "--json")
    assert code == 0
    found = records(written)
    for name in ("bert", "pre", "other"):
        parts = [r["value"] for (q, c, g), r in found.items() if q == "fisher_trace_of_group" and c == name]
        assert sum(parts) == pytest.approx(found["fisher_trace", name, None]["value"], rel=1e-6)
        assert found["fisher_trace", name, None]["n"] == 100
    alone = records(run("pre", "--text", "text.txt", "--sentences", "100", "--json")[1])
    assert alone["fisher_trace", "pre", None] == found["fisher_trace", "pre", None]
    difference = found["fisher_trace_difference", "other", None]
    expected = found["fisher_trace", "other", None]["value"] - found["fisher_trace", "bert", None]["value"]
    assert difference["value"] == pytest.approx(expected)
    assert difference["settings"]["reference"] == "bert"


def test_two_copies_of_a_model_differ_by_nothing(run, models):
    (models / "copy").mkdir(exist_ok=True)
    for path in (models / "bert").iterdir():
        (models / "copy" / path.name).write_bytes(path.read_bytes())
    _, written, _ = run("bert", "copy", "--text", "text.txt", "--sentences", "70", "--json")
    difference = records(written)["fisher_trace_difference", "copy", None]
    assert (difference["value"], difference["standard_error"]) == (0, 0)


def test_every_quantity(run):
    quantities = ("fisher_trace", "hessian_trace", "gradient_norm", "hessian_top_eigenvalue")
    arguments = ("bert", "other", "--text", "text.txt", "--quantity", *quantities, "--sentences")
    code, written, _ = run(*arguments, "12", "--json")
    assert code == 0
    found = records(written)
    for name in ("bert", "other"):
        for quantity in quantities:
            whole = found[quantity, name, None]
            assert whole["standard_error"] > 0
            squared = "gradient_norm_squared" if quantity == "gradient_norm" else quantity
            parts = [r["value"] for (q, c, g), r in found.items() if (q, c) == (f"{squared}_of_group", name)]
            assert sum(parts) == pytest.approx(found[squared, name, None]["value"], rel=1e-5)
        gap = found["hessian_trace", name, None]["value"] - found["fisher_trace", name, None]["value"]
        assert found["hessian_minus_fisher", name, None]["value"] == pytest.approx(gap, rel=1e-5)
    code, written, _ = run(*arguments, "4")
    assert code == 0
    for quantity in quantities:
        assert f"{quantity} in " in written
    assert "a fixed set of 4 sentences was measured" in written


OWN = """
import torch
from dataclasses import dataclass

from isoloss.measurements.fixed_sentences import FixedSentences, draw_sentences
from isoloss.measurements.quantity import LANGUAGES_AND_TEXT, Measurement
from isoloss.results.estimate import mean_over_sentences


@dataclass(frozen=True)
class Length:
    sentences: int
    seed: int
    revision, sources, drawn_as, draw = 1, LANGUAGES_AND_TEXT, FixedSentences, draw_sentences
    column_names = ("length",)

    def measure(self, model, drawn, subject, progress):
        lengths = torch.cat([batch.attention_mask.sum(1).double() for batch in drawn.batches])
        record = subject.record("length", mean_over_sentences(lengths), "tokens", 0)
        return Measurement([record], {"length": lengths})

    def columns(self, records):
        return {"length": records[0].value}


def on_sentences(sentences, seed):
    return Length(sentences, seed)
"""


def test_a_quantity_is_one_file_in_the_folder_or_anywhere(run, tmp_path, monkeypatch):
    (tmp_path / "length.py").write_text(OWN)
    arguments = ("bert", "other", "--text", "text.txt", "--sentences", "9", "--json", "--quantity")
    code, written, _ = run(*arguments, str(tmp_path / "length.py"))
    found = records(written)
    assert code == 0
    assert found["length", "bert", None] == {**found["length", "other", None], "checkpoint": "bert"}
    assert found["length_difference", "other", None]["value"] == 0
    assert run(*arguments, "length")[0] == 2
    monkeypatch.setattr(on_sentences, "__path__", [*on_sentences.__path__, str(tmp_path)])
    assert records(run(*arguments, "length")[1]) == found


def test_what_is_no_quantity_is_refused_in_one_sentence(run, tmp_path):
    wrong = {
        "missing.py": (None, "there is no file"),
        "empty.py": ("", "defines no on_sentences"),
        "broken.py": ("1 / 0", "cannot be imported: ZeroDivisionError"),
        "other.py": (OWN.replace("LANGUAGES_AND_TEXT, FixedS", "(), FixedS"), "cannot be measured on a text"),
    }
    for name, (content, sentence) in wrong.items():
        if content is not None:
            (tmp_path / name).write_text(content)
        code, written, told = run("bert", "--text", "text.txt", "--quantity", str(tmp_path / name))
        assert (code, written, told.count("\n")) == (2, "", 1)
        assert sentence in told


FEWER = {
    "local_learning_coefficient": {"burn_in": 2, "draws": 4},
    "spectral_density": {"probes": 2, "steps": 8},
}
"""Of what is drawn at random, for the quantities that draw most."""


@pytest.mark.parametrize("quantity", on_sentences.quantity_names())
def test_every_quantity_of_the_folder_names_its_columns(quantity):
    """As a quantity of planned runs, on the sentences of a text."""
    corpus = TokenCorpus([[3, 4, 5], [4, 5], [6, 7, 8, 9], [3, 9, 4]] * 4, list(range(1, 17)))
    batches = SampledBatches(corpus, ShareMasked(MASK), seed=0)
    model = PostLayerNormTransformer(Shape(8, 2, 1, 8)).build(TOKENS - 3, 8, 0)
    found = replace(on_sentences.quantity_named(quantity, 8, seed=0), **FEWER.get(quantity, {}))
    drawn = found.draw(batches, batches.objective, silent)
    subject = Subject("m", batches.objective, {}, batches)
    measured = found.measure(model, drawn, subject, silent)
    assert set(found.columns(measured.records)) == set(found.column_names)
    for name, values in measured.values.items():
        records = {value_name(record): record for record in measured.records}
        assert float(values.mean()) == pytest.approx(records[name].value)


def test_a_value_says_which_data_model_or_number(run):
    text = ("bert", "--text", "text.txt", "--sentences", "16", "--seed", "3")
    asked = ("batch_sharpness=4", "directional_sharpness=other", "relative_critical_sharpness=text.txt")
    code, written, told = run(
        *text, "--quantity", *asked, "critical_sharpness", "top_eigenvalues=2", "--json"
    )
    assert code == 0, told
    whole = {
        (r["quantity"], r["settings"].get("rank")): r
        for r in json.loads(written)["records"]
        if "group" not in r["settings"]
    }
    batch = whole["batch_sharpness", None]
    assert (batch["n"], batch["settings"]["batch"], batch["settings"]["sentences"]) == (4, 4, 16)
    towards = whole["directional_sharpness", None]
    assert towards["settings"]["towards"] == "other"
    relative, own = whole["relative_critical_sharpness", None], whole["critical_sharpness", None]
    assert relative["settings"]["along"] == "text.txt"
    assert relative["value"] == pytest.approx(own["value"], rel=1e-6)
    assert own["value"] > 0
    largest, second = (whole["hessian_eigenvalue", rank]["value"] for rank in (1, 2))
    assert largest > second
    assert towards["value"] <= largest * (1 + 1e-3)
    wrong = {
        "fisher_trace=3": "takes nothing after =",
        "batch_sharpness=few": "is no number of sentences in a batch",
        "local_learning_coefficient=-1": "is no localisation",
        "relative_critical_sharpness=missing.txt": "missing.txt",
        "directional_sharpness=missing": "missing",
    }
    for name, sentence in wrong.items():
        code, written, told = run(*text, "--quantity", name)
        assert (code, written, told.count("\n")) == (2, "", 1), told
        assert sentence in told


def test_quantities_of_which_there_are_several_strengths(run):
    quantities = ("normalised_trace", "ascent_sharpness", "noise_sensitivity")
    arguments = ("bert", "other", "--text", "text.txt", "--quantity", *quantities, "--sentences")
    code, written, _ = run(*arguments, "24", "--json")
    assert code == 0
    found = json.loads(written)["records"]
    assert sum(r["quantity"] == "normalised_fisher_trace" for r in found) == 2
    radii = [r["settings"]["radius"] for r in found if r["quantity"] == "ascent_sharpness"]
    assert len(radii) == 2 * len(set(radii)) == 6
    code, written, _ = run(*arguments, "4")
    assert code == 0
    assert "ascent_sharpness, radius 0.05" in written
    assert "noise_sensitivity, noise 0.01" in written


def test_a_verdict_on_two_models_stands_below_the_table(run):
    code, written, _ = run("bert", "other", "--text", "text.txt", "--sentences", "70")
    assert code == 0
    assert "other flatter than bert at the same loss? " in written
    verdict = json.loads(run("bert", "other", "--text", "text.txt", "--sentences", "70", "--json")[1])
    (verdict,) = verdict["verdicts"]
    assert verdict["flatter"] in ("yes", "no", "open")
    told = verdict["flatter"].replace("open", "undecided")
    assert f"at the same loss? {told}: trace " in written
    for warning in verdict["warnings"]:
        assert f"warning: {warning}" in written


def test_what_was_read_is_told_of_the_measurement_and_not_of_the_verdict(run, models):
    lines = ["a b c d " * (60 if number % 2 else 1) for number in range(600)]
    (models / "long.txt").write_text("\n".join(lines))
    asked = ("--text", "long.txt", "--sentences", "600", "--json")
    alone, both = (json.loads(run(*names, *asked)[1]) for names in (("bert",), ("bert", "other")))
    assert len(alone["lines_cut"]) == 300
    for told in ("lines_cut", "lines_too_short", "tokens", "tokens_unknown"):
        assert both[told] == alone[told]


@pytest.mark.usefixtures("_nothing_painted")
def test_checkpoints_of_a_run_are_a_curve_and_parts_a_picture(run, models):
    for step, name in ((100, "bert"), (200, "other")):
        folder = models / f"checkpoint-{step}"
        folder.mkdir()
        for path in (models / name).iterdir():
            (folder / path.name).write_bytes(path.read_bytes())
    (models / "new").mkdir()
    names = ("checkpoint-100", "checkpoint-200")
    few = ("--text", "text.txt", "--sentences", "20")
    assert run(*names, *few, "--output", "new/flat.html")[0] == 0
    page = (models / "new" / "flat.html").read_text()
    for told in (
        "Where in the network",
        "Over the run",
        "outside of the layers",
        "isoloss flatness checkpoint-100",
    ):
        assert told in page
    assert "checkpoint-200 flatter than checkpoint-100 at the same loss?" in page
    run("bert", *few, "--output", "new/one.html")
    page = (models / "new" / "one.html").read_text()
    assert "Where in the network" in page
    assert "Over the run" not in page


def test_the_sign_of_a_hessian_that_nothing_tells_is_called_so(run):
    arguments = ("bert", "--text", "text.txt", "--sentences", "4", "--quantity", "hessian_trace")
    _, written, _ = run(*arguments, "--json")
    whole = records(written)["hessian_trace", "bert", None]
    (_, high) = Estimate(0.0, whole["standard_error"], whole["n"]).interval(0.95)
    undetermined = abs(whole["value"]) < high
    assert ("the sign of hessian_trace of bert is undetermined" in run(*arguments)[1]) == undetermined


def test_the_table(run):
    code, written, _ = run(
        "bert", "--text", "text.txt", "--relative-error", "0.1", "--parameters", "attention|cls"
    )
    assert code == 0
    assert "layer 1 attention" in written
    assert "layer 1 MLP" not in written
    assert "the requested relative error was reached" in written
    assert "tensors are frozen and left out" in written
    assert "15 % of their maskable tokens" in written
    assert "tensors, by how they were measured" in written


def test_a_tied_matrix_is_measured_under_either_name(run):
    head = records(
        run("bert", "--text", "text.txt", "--parameters", "decoder.weight", "--sentences", "9", "--json")[1]
    )
    words = records(
        run("bert", "--text", "text.txt", "--parameters", "word_emb", "--sentences", "9", "--json")[1]
    )
    assert head == words


def test_a_reader_that_has_enough_is_no_failure(models):
    arguments = ("flatness", "bert", "--text", "text.txt", "--sentences", "9")
    assert left_by_its_reader(arguments, models, lines=0)[0] == 141


def test_interrupted_it_shows_what_is_known(run, monkeypatch):
    @contextlib.contextmanager
    def display():
        def progress(task, completed, total, message=""):
            if completed > 128:  # within the third batch
                raise KeyboardInterrupt

        yield progress

    monkeypatch.setattr(flatness_module, "progress_display", display)
    code, written, _ = run("bert", "other", "--text", "text.txt", "--relative-error", "0.001", "--json")
    assert code == 130
    assert json.loads(written)["stopped"] == {"fisher_trace": "interrupted"}
    assert records(written)["fisher_trace", "other", None]["n"] == 128
