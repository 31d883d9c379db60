"""`isoloss flatness`: what it measures, against dense derivatives, and how it reports it."""

import contextlib
import json
import shutil

import pytest
import torch
from called import output_of
from flatness_folders import MASK, TOKENS, records
from reader_that_leaves import left_by_its_reader

import isoloss.command_line.flatness as flatness_module
from isoloss.measurements import measured_models
from isoloss.models.loading import load_any_language_model


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


def test_one_mask_is_the_mean_over_sentences_and_positions(flatness, models):
    """Against every position of every sentence masked in turn, and every label."""
    code, written, _ = flatness(
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


def test_causal_models_average_over_predicted_positions(flatness, models):
    code, written, _ = flatness(
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


def test_groups_add_up_and_several_models_share_what_they_are_measured_on(flatness):
    written = output_of(flatness("bert", "pre", "other", "--text", "text.txt", "--sentences", "4", "--json"))
    found = records(written)
    for name in ("bert", "pre", "other"):
        parts = [r["value"] for (q, c, g), r in found.items() if q == "fisher_trace_of_group" and c == name]
        assert sum(parts) == pytest.approx(found["fisher_trace", name, None]["value"], rel=1e-6)
        assert found["fisher_trace", name, None]["n"] == 4
    alone = records(flatness("pre", "--text", "text.txt", "--sentences", "4", "--json")[1])
    assert alone["fisher_trace", "pre", None] == found["fisher_trace", "pre", None]
    difference = found["fisher_trace_difference", "other", None]
    expected = found["fisher_trace", "other", None]["value"] - found["fisher_trace", "bert", None]["value"]
    assert difference["value"] == pytest.approx(expected)
    assert difference["settings"]["reference"] == "bert"


@pytest.mark.thorough
def test_two_copies_of_a_model_differ_by_nothing(flatness, models):
    shutil.copytree(models / "bert", models / "copy")
    _, written, _ = flatness("bert", "copy", "--text", "text.txt", "--sentences", "20", "--json")
    difference = records(written)["fisher_trace_difference", "copy", None]
    assert (difference["value"], difference["standard_error"]) == (0, 0)


@pytest.mark.thorough
def test_a_verdict_on_two_models_stands_below_the_table(flatness):
    asked = ("bert", "other", "--text", "text.txt", "--sentences", "20")
    written = output_of(flatness(*asked))
    told = json.loads(flatness(*asked, "--json")[1])
    loss, trace, normalised = told["verdicts"]
    assert [each["measured"] for each in told["verdicts"]] == ["loss", "trace", "normalised_trace"]
    assert loss["answer"] in ("yes", "no", "open")
    assert {trace["answer"], normalised["answer"]} <= {"bert", "other", "open"}
    said = f"other against bert: same loss to within 1 %: {loss['answer']} ("
    assert f"); flatter: {trace['answer']} (" in written
    assert told["conclusions"][0].startswith(said)
    assert all(each in " ".join(written.split()) for each in told["conclusions"])


@pytest.mark.thorough
def test_what_was_read_is_told_of_the_measurement_and_not_of_the_verdict(flatness, models, monkeypatch):
    monkeypatch.setattr(measured_models, "FIXED_SENTENCES", 10)  # which it reads anew
    lines = ["a b c d " * (60 if number % 2 else 1) for number in range(40)]
    (models / "long.txt").write_text("\n".join(lines))
    asked = ("--text", "long.txt", "--sentences", "40", "--json")
    alone, both = (json.loads(flatness(*names, *asked)[1]) for names in (("bert",), ("bert", "other")))
    assert len(alone["lines_cut"]) == 20
    for told in ("lines_cut", "lines_too_short", "tokens", "tokens_unknown"):
        assert both[told] == alone[told]


@pytest.mark.thorough
@pytest.mark.parametrize("quantity", ["fisher_trace", "gradient_norm"])
def test_what_was_read_and_not_measured_is_not_counted(quantity, flatness, models):
    (models / "all-long.txt").write_text("\n".join(["a b c d " * 60] * 40))
    asked = ("--text", "all-long.txt", "--sentences", "10", "--quantity", quantity, "--json")
    assert len(json.loads(flatness("bert", *asked)[1])["lines_cut"]) == 10


@pytest.mark.usefixtures("_nothing_painted")
def test_checkpoints_of_a_run_are_a_curve_and_parts_a_picture(flatness, models):
    for step, name in ((100, "bert"), (200, "other")):
        shutil.copytree(models / name, models / f"checkpoint-{step}")
    (models / "new").mkdir()
    names = ("checkpoint-100", "checkpoint-200")
    few = ("--text", "text.txt", "--sentences", "4")
    assert flatness(*names, *few, "--output", "new/flat.html")[0] == 0
    page = (models / "new" / "flat.html").read_text()
    for told in (
        "Where in the network",
        "Over the run",
        "outside of the layers",
        "isoloss flatness checkpoint-100",
    ):
        assert told in page
    assert "checkpoint-200 against checkpoint-100: same loss to within 1 %: " in page
    assert "checkpoint-200 less checkpoint-100</td><td>trace</td>" in page.replace("\n", "")
    assert page.count("Where in the network: the layers</") == 1  # both models on one axis
    assert '"category": "layer 1 attention", "colour": "checkpoint-200"' in page
    assert "95 % intervals" in page
    flatness("bert", *few, "--output", "new/one.html")
    page = (models / "new" / "one.html").read_text()
    assert "Where in the network" in page
    assert "Over the run" not in page


def test_the_table(flatness):
    code, written, _ = flatness(
        "bert", "--text", "text.txt", "--relative-error", "0.1", "--parameters", "attention|cls"
    )
    assert code == 0
    assert "layer 1 attention" in written
    assert "layer 1 MLP" not in written
    assert "the requested relative error was reached" in written
    assert "tensors are frozen and left out" in written
    assert "15 % of their maskable tokens" in written
    assert "tensors, by how they were measured" in written


@pytest.mark.thorough
def test_a_tied_matrix_is_measured_under_either_name(flatness):
    head = records(
        flatness(
            "bert", "--text", "text.txt", "--parameters", "decoder.weight", "--sentences", "9", "--json"
        )[1]
    )
    words = records(
        flatness("bert", "--text", "text.txt", "--parameters", "word_emb", "--sentences", "9", "--json")[1]
    )
    assert head == words


def test_a_reader_that_has_enough_is_no_failure(models):
    arguments = ("flatness", "bert", "--text", "text.txt", "--sentences", "9")
    assert left_by_its_reader(arguments, models, lines=0)[0] == 141


def test_interrupted_it_shows_what_is_known(flatness, monkeypatch):
    @contextlib.contextmanager
    def display():
        def progress(task, completed, total, message=""):
            if completed > 128:  # within the third batch
                raise KeyboardInterrupt

        yield progress

    monkeypatch.setattr(flatness_module, "progress_display", display)
    code, written, _ = flatness("bert", "other", "--text", "text.txt", "--relative-error", "0.001", "--json")
    assert code == 130
    assert json.loads(written)["stopped"] == {"fisher_trace": "interrupted"}
    assert records(written)["fisher_trace", "other", None]["n"] == 128
