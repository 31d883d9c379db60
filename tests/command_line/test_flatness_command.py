import contextlib
import json
import random
import subprocess
import sys

import pytest
import torch
from safetensors.torch import load_file, save_file

import isoloss.command_line.flatness_request as request_module
from isoloss.cli import main
from isoloss.models.any_language_model import load_any_language_model
from isoloss.models.causal import GPT2Transformer
from isoloss.models.shapes import Shape
from isoloss.models.tokenizer import word_tokenizer
from isoloss.models.transformers import PostLayerNormTransformer, PreLayerNormTransformer

WORDS = list("abcdefgh")
TOKENS = len(WORDS) + 3
MASK = 2
KINDS = {"bert": PostLayerNormTransformer, "other": PostLayerNormTransformer, "pre": PreLayerNormTransformer}


def save(model, folder, tokenizer=True):
    generator = torch.Generator().manual_seed(len(folder.name))
    with torch.no_grad():
        for parameter in model.parameters():
            parameter += 0.2 * torch.randn(parameter.shape, generator=generator)
    model.save_pretrained(folder)
    if tokenizer:
        word_tokenizer(WORDS, 8).save_pretrained(folder)


@pytest.fixture(scope="module")
def models(tmp_path_factory):
    """Folders of models, a text and a file of token numbers of 40 sentences, ten times over."""
    folder = tmp_path_factory.mktemp("models")
    for seed, (name, architecture) in enumerate(KINDS.items()):
        save(architecture(Shape(8, 2, 1, 8)).build(len(WORDS), 8, seed), folder / name)
    save(GPT2Transformer(Shape(8, 2, 1, 8)).build(len(WORDS), 8, 3), folder / "gpt2")
    save(PostLayerNormTransformer(Shape(8, 2, 1, 8)).build(4, 8, 0), folder / "small", tokenizer=False)
    chosen = random.Random(0)
    texts = [" ".join(chosen.choices(WORDS, k=chosen.randint(2, 5))) for _ in range(40)] * 10
    (folder / "text.txt").write_text("\n".join(texts) + "\n")
    ids = [[WORDS.index(word) + 3 for word in text.split()] for text in texts]
    (folder / "ids.jsonl").write_text("".join(json.dumps(each) + "\n" for each in ids))
    (folder / "few.jsonl").write_text("[3, 4]\n[4, 5]\n")
    (folder / "one.txt").write_text("a b c\n")
    (folder / "empty").mkdir()
    odd_folders(folder)
    return folder


def odd_folders(folder):
    """A BERT without its head, and a model that needs code of its own."""
    model, _ = load_any_language_model(str(folder / "bert"))
    model.bert.save_pretrained(folder / "mute")
    config = json.loads((folder / "mute" / "config.json").read_text())
    (folder / "mute" / "config.json").write_text(json.dumps({**config, "architectures": ["BertForMaskedLM"]}))
    (folder / "odd").mkdir()
    config = {"model_type": "odd", "architectures": ["OddForMaskedLM"], "auto_map": {"AutoConfig": "c.C"}}
    (folder / "odd" / "config.json").write_text(json.dumps(config))


@pytest.fixture
def run(models, monkeypatch, capsys):
    monkeypatch.chdir(models)

    def command(*arguments):
        with pytest.raises(SystemExit) as leaving:
            main(["flatness", *arguments])
        written = capsys.readouterr()
        return int(leaving.value.code or 0), written.out, written.err

    return command


def records(written):
    return {
        (r["quantity"], r["checkpoint"], r["settings"].get("group")): r
        for r in json.loads(written)["records"]
    }


def dense_trace(model, ids, positions):
    """Σ_y p_y ||∇ log p_y||² of each prediction, from its whole Jacobian, and their mean."""
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
    code, written, _ = run(*arguments, "24", "--json")
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
    assert f"at the same loss? {verdict['flatter']}: trace " in written
    for warning in verdict["warnings"]:
        assert f"warning: {warning}" in written


def test_checkpoints_of_a_run_are_a_curve_and_parts_a_picture(run, models):
    for step, name in ((100, "bert"), (200, "other")):
        folder = models / f"checkpoint-{step}"
        folder.mkdir()
        for path in (models / name).iterdir():
            (folder / path.name).write_bytes(path.read_bytes())
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
    undetermined = abs(whole["value"]) < 1.96 * whole["standard_error"]
    assert ("the sign of hessian_trace of bert is undetermined" in run(*arguments)[1]) == undetermined


def test_the_table(run):
    code, written, _ = run(
        "bert", "--text", "text.txt", "--relative-error", "0.1", "--parameters", "attention|cls"
    )
    assert code == 0
    assert "layer 1 attention" in written
    assert "layer 1 MLP" not in written
    assert "the relative error asked was reached" in written
    assert "tensors are frozen and left out" in written
    assert "15 % of their maskable tokens" in written
    assert "parameter tensors by the method that gave their part" in written


def test_a_tied_matrix_is_measured_under_either_name(run):
    head = records(
        run("bert", "--text", "text.txt", "--parameters", "decoder.weight", "--sentences", "9", "--json")[1]
    )
    words = records(
        run("bert", "--text", "text.txt", "--parameters", "word_emb", "--sentences", "9", "--json")[1]
    )
    assert head == words


def test_lines_too_long_are_cut_and_said(run, models):
    (models / "long.txt").write_text("a b c d e f g h a b c\n" + "a b\n" * 30)
    code, written, _ = run("bert", "--text", "long.txt")
    assert code == 0
    assert "1 sentences were cut to the model's longest" in written
    _, written, _ = run("bert", "--text", "long.txt", "--json")
    assert json.loads(written)["lines_cut"] == [1]


def test_what_a_text_does_not_tell_is_said(run, models):
    """The tokenizer of the tests refuses words that it has no token for; this one replaces them."""
    (models / "unsure").mkdir(exist_ok=True)
    for path in (models / "bert").iterdir():
        (models / "unsure" / path.name).write_bytes(path.read_bytes())
    path = models / "unsure" / "tokenizer.json"
    content = json.loads(path.read_text())
    content["model"]["unk_token"] = "h"
    path.write_text(json.dumps(content))
    path = models / "unsure" / "tokenizer_config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"unk_token": "h"}))
    (models / "foreign.txt").write_text("a b c\n" * 9 + "a x y\n" * 9 + "z\n")
    code, written, _ = run("unsure", "--text", "foreign.txt", "--sentences", "19")
    assert code == 0
    assert "warning: 1 sentences have nothing to predict and were left out (5.3 %)" in written
    assert "warning: 19 of 74 tokens are unknown to the tokenizer (26 %)" in written
    (models / "foreign.txt").write_text("x y z\n" * 9)
    code, _, error = run("unsure", "--text", "foreign.txt")
    assert code == 2
    assert "nothing can be predicted: 27 of 36 tokens are unknown to the tokenizer" in error


def test_token_numbers_nested_without_end_are_refused(run, models):
    (models / "deep.jsonl").write_text("[3, 4]\n" + "[" * 100_000 + "\n")
    code, _, error = run("bert", "--token-ids", "deep.jsonl")
    assert code == 2
    assert "deep.jsonl, line 2: this is not a list of whole numbers" in error


def test_a_reader_that_has_enough_is_no_failure(models):
    command = [
        sys.executable,
        "-m",
        "isoloss.cli",
        "flatness",
        "bert",
        "--text",
        "text.txt",
        "--sentences",
        "9",
    ]
    with subprocess.Popen(command, cwd=models, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as process:
        process.stdout.close()
        assert process.wait(timeout=300) == 141


def test_interrupted_it_shows_what_is_known(run, monkeypatch):
    @contextlib.contextmanager
    def display():
        def progress(task, completed, total, message=""):
            if completed >= 128:
                raise KeyboardInterrupt

        yield progress

    monkeypatch.setattr(request_module, "progress_display", display)
    code, written, _ = run("bert", "other", "--text", "text.txt", "--relative-error", "0.001", "--json")
    assert code == 130
    assert json.loads(written)["stopped"] == {"fisher_trace": "interrupted"}
    assert records(written)["fisher_trace", "other", None]["n"] == 128


def test_scores_that_are_not_finite_are_named_by_line(run, models):
    save(PostLayerNormTransformer(Shape(8, 2, 1, 8)).build(len(WORDS), 8, 0), models / "diverged")
    path = models / "diverged" / "model.safetensors"
    weights = load_file(path)
    embeddings = weights["bert.embeddings.word_embeddings.weight"]
    weights["cls.predictions.decoder.weight"] = embeddings.clone()  # the scores of the bad word are whole
    weights["cls.predictions.decoder.bias"] = weights["cls.predictions.bias"].clone()
    embeddings[WORDS.index("h") + 3] = torch.nan
    save_file(weights, path, metadata={"format": "pt"})
    config = json.loads((models / "diverged" / "config.json").read_text())
    (models / "diverged" / "config.json").write_text(json.dumps({**config, "tie_word_embeddings": False}))
    # Equally long, since padding would let what is not finite reach the sentences beside it.
    (models / "named.txt").write_text("a b a\n" * 20 + "h h h\n" + "a b a\n" * 5)
    code, _, error = run("diverged", "--text", "named.txt")
    assert code == 2
    assert "the model's scores for the sentence of line 21 are not finite" in error


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["--text", "text.txt"], "no model is named"),
        (["bert"], "by one of --text FILE, --token-ids FILE and --dataset NAME"),
        (["bert", "--text", "text.txt", "--token-ids", "ids.jsonl"], "by one of --text FILE"),
        (["./nowhere", "--text", "text.txt"], "there is no folder ./nowhere"),
        (["a/b/c", "--text", "text.txt"], "there is no folder a/b/c"),
        (["text.txt", "--text", "text.txt"], "text.txt is a file"),
        (["bert", "bert", "--text", "text.txt"], "a model is named twice"),
        (["bert", "gpt2", "--text", "text.txt"], "models that predict differently are not compared"),
        (["bert", "small", "--token-ids", "ids.jsonl"], "different numbers of tokens are not compared"),
        (["small", "--text", "text.txt"], "no tokenizer can be read from small"),
        (["small", "--token-ids", "ids.jsonl"], "line 1: there is no token"),
        (["small", "--token-ids", "few.jsonl"], "names a mask token; say its number with --mask-token-id"),
        (["bert", "--text", "nothing.txt"], "there is no file nothing.txt"),
        (["small", "--text", "text.txt"], "or give token numbers with --token-ids"),
        (["bert", "--text", "text.txt", "--relative-error", "0"], "must be above 0"),
        (["bert", "--text", "text.txt", "--relative-error", "2"], "must be above 0 and below 1, not 2.0"),
        (["bert", "--text", "text.txt", "--output", "a.pdf"], "--output names an HTML file"),
        (["bert", "--text", "text.txt", "--memory", "0"], "--memory must be above 0 gibibytes, not 0.0"),
        (["bert", "--text", "text.txt", "--mask-rate", "0"], "mask rate must be above 0 and at most 1"),
        (["bert", "--text", "text.txt", "--mask-rate", "1.1"], "mask rate must be above 0 and at most 1"),
        (["bert", "--text", "text.txt", "--one-mask", "--mask-rate", "0.1"], "give one of the two"),
        (["bert", "--text", "text.txt", "--mask-token-id", "11"], "the mask token 11 is none"),
        (["bert", "--text", "text.txt", "--parameters", "("], "is no regular expression"),
        (["bert", "--text", "text.txt", "--parameters", "nothing"], "no parameter of bert matches"),
        (["bert", "--text", "text.txt", "--objective", "causal"], "would see the next token"),
        (["gpt2", "--text", "text.txt", "--objective", "masked"], "no masked language model can be read"),
        (["gpt2", "--text", "text.txt", "--one-mask"], "leave the options of masks out"),
        (["bert", "--text", "text.txt", "--sentences", "1"], "no standard error"),
        (["bert", "--text", "one.txt"], "1 sentences have no standard error"),
        (["bert", "--text", "text.txt", "--seed", "-1"], "--seed must be from 0"),
        (["bert", "--text", "text.txt", "--device", "toaster"], "the device 'toaster' cannot be used"),
        (["mute", "--text", "text.txt"], "mute has no trained language head: it lacks cls."),
        (["odd", "--text", "text.txt"], "comes with code of its own, which isoloss does not run"),
        (["empty", "--text", "text.txt"], "empty holds no model: it has no config.json"),
    ],
)
def test_mistakes_are_one_sentence(run, arguments, sentence):
    code, written, error = run(*arguments)
    assert (code, written) == (2, "")
    assert error.startswith("isoloss: ")
    assert sentence in error
    assert error.count("\n") == 1
