"""`isoloss sensitivity`: its tables, JSON and files, and what it refuses before it starts."""

import json
from functools import partial

import pytest
import torch
from called import answer, output_of, refusal_in, refused
from flatness_folders import save
from models_with_heads import BART, ROWS, model_with_head, table_of
from transformers import AutoTokenizer, BartConfig, BartForConditionalGeneration

from isoloss.models.loading import load_any_language_model
from isoloss.models.transformers import PostLayerNormTransformer, Shape


@pytest.fixture(scope="module")
def models(models):
    save(PostLayerNormTransformer(Shape(16, 2, 1, 8)).build(8, 8, 0), models / "wider")
    return models


@pytest.fixture
def run(models, monkeypatch, capsys):
    monkeypatch.chdir(models)
    monkeypatch.setenv("COLUMNS", "80")
    return partial(answer, capsys, "sensitivity")


def told(run, *arguments):
    out = output_of(run(*arguments, "--json"))
    found = json.loads(out)
    return found, {
        (record["quantity"], record["settings"]["part"], record["settings"]["change"]): record
        for record in found["records"]
    }


@pytest.mark.parametrize("name", [pytest.param("bert", marks=pytest.mark.thorough), "gpt2"])
def test_every_layer_is_predicted_and_checked(run, name):
    _, by = told(run, name, "--text", "text.txt", "--sentences", 16, "--round", 10, 8, "--check")
    parts = {part for _, part, _ in by}
    assert {"embeddings", "layer 1", "all"} <= parts
    for part in parts:
        predicted, true = (by[quantity, part, "10 bits"] for quantity in ("kl_quadratic", "kl_measured"))
        assert predicted["n"] == true["n"] == 16
        assert predicted["value"] == pytest.approx(true["value"], rel=0.1)
        assert predicted["unit"] == "nats per prediction"
        assert by["kl_from_trace", part, "10 bits"]["standard_error"] > 0
    assert by["kl_measured", "all", "8 bits"]["value"] > by["kl_measured", "all", "10 bits"]["value"]


@pytest.mark.thorough
def test_a_table_fits_the_terminal_and_tells_what_it_is(run):
    code, out, err = run("bert", "--text", "text.txt", "--sentences", 4)
    assert code == 0
    assert "sensitivity: starting" not in out
    table = out.split("predicted to")[0]
    assert max(map(len, (line.rstrip() for line in table.splitlines()))) <= 80
    assert all(f"{bits} bits" in table for bits in (8, 6, 5, 4, 3))
    assert "on 4 sentences; each number is a mean over sentences" in out
    assert "Traceback" not in err
    _, out, _ = run(
        "bert", "--text", "text.txt", "--sentences", 4, "--by", "kind", "--round", 4, "--trace-only"
    )
    assert "attention.self.query.weight" in out


def test_other_changes_are_shown_alone_and_a_model_may_replace_another(run):
    arguments = ("bert", "--text", "text.txt", "--sentences", 4)
    changes = ("--noise", 0.001, 0.001, "--prune", 0.1, "--replacement", "other")
    found, by = told(run, *arguments, *changes, "--check")
    assert {change for *_, change in by} == {"0.1 % noise", "10 % pruned", "as other"}
    assert len(found["records"]) == len(by)  # what is given twice is measured once
    one, two = (load_any_language_model(name)[0] for name in ("bert", "other"))
    moved = sum(
        int((p != q).any()) * p.numel() for p, q in zip(one.parameters(), two.parameters(), strict=True)
    )
    assert by["kl_measured", "all", "as other"]["settings"]["numbers"] == moved
    noise = (
        by["kl_quadratic", "all", "0.1 % noise"]["value"],
        by["kl_measured", "all", "0.1 % noise"]["value"],
    )
    assert noise[0] == pytest.approx(noise[1], rel=0.05)
    out = output_of(run(*arguments, "--replacement", "bert"))
    assert "no weight changes: there is nothing to predict" in out
    doubt = "of a replacement the trace alone tells nothing reliable"
    code, out, err = run(*arguments, "--trace-only", "--replacement", "other", "--json")
    assert (code, sum(doubt in each for each in json.loads(out)["warnings"])) == (0, 1)
    assert f"warning: {doubt}" in err
    assert doubt not in run(*arguments, "--trace-only", "--noise", 0.001)[2]
    assert doubt not in run(*arguments, "--by", "kind", "--replacement", "other")[2]


def bart_with(folder, bias, weights=0.0):
    """The same at every call, but for the bias of its scores, a buffer, and for what is added to a norm."""
    torch.manual_seed(0)
    model = BartForConditionalGeneration(BartConfig(vocab_size=11, pad_token_id=0, eos_token_id=2, **BART))
    with torch.no_grad():
        model.final_logits_bias += bias * torch.linspace(-1, 1, 11)
        model.model.decoder.layernorm_embedding.weight += weights
    model_with_head("target", folder, model)


def kl_of(before, after, rows):
    """KL(before || after), the mean over sentences of that over predictions, from the models' own output."""
    tokenizer = AutoTokenizer.from_pretrained(before)
    one, two = (
        BartForConditionalGeneration.from_pretrained(each).double().eval() for each in (before, after)
    )
    found = []
    for row in rows:
        source, target = (
            tokenizer(row[side], return_tensors="pt").input_ids for side in ("source", "target")
        )
        with torch.no_grad():
            p, q = (each(input_ids=source, labels=target).logits[0].log_softmax(1) for each in (one, two))
        found.append((p.exp() * (p - q)).sum(1).mean())
    return float(torch.stack(found).mean())


def test_a_buffer_that_differs_is_in_what_is_checked_and_told_of_what_is_predicted(run, tmp_path, capsys):
    here, there, biased = (tmp_path / name for name in ("here", "there", "biased"))
    for folder, bias, weights in ((here, 0.0, 0.0), (there, 1.0, 0.01), (biased, 1.0, 0.0)):
        bart_with(folder, bias, weights)
    table = table_of(tmp_path / "table.jsonl", ROWS["target"])
    asked = (here, "--text", table, "--dtype", "float64", "--json", "--check", "--replacement")
    code, out, err = run(*asked, there)
    assert code == 0
    assert f"{there} and {here} differ in final_logits_bias, too" in err
    of_all = {
        each["quantity"]: each["value"]
        for each in json.loads(out)["records"]
        if each["settings"]["part"] == "all"
    }
    assert of_all["kl_measured"] == pytest.approx(kl_of(here, there, ROWS["target"]), rel=1e-6)
    assert of_all["kl_quadratic"] < 0.01 * of_all["kl_measured"]
    assert "differ in final_logits_bias alone" in refused(capsys, "sensitivity", *asked, biased)


@pytest.mark.usefixtures("_no_charts")
def test_bits_are_allocated_into_a_file(run, models):
    arguments = ("bert", "--text", "text.txt", "--sentences", 8, "--bits", 4.5, "--round", 3, 4, 6)
    out = output_of(run(*arguments, "--check", "--allocation", "bits.json", "--output", "bits.html"))
    written = json.loads((models / "bits.json").read_text())
    model, _ = load_any_language_model(str(models / "bert"))
    sizes = {name: p.numel() for name, p in model.named_parameters() if p.ndim > 1}
    assert written["tensors"].keys() == sizes.keys()
    mean = sum(sizes[name] * bits for name, bits in written["tensors"].items()) / sum(sizes.values())
    assert mean == pytest.approx(written["mean_bits"])
    assert mean <= 4.5
    assert all(
        "the bits of every tensor are in bits.json" in told
        for told in (out, (models / "bits.html").read_text())
    )
    assert "measured" in out.split("a mean of")[1]
    assert "bits.json is there already" in refusal_in(run(*arguments, "--allocation", "bits.json"))


@pytest.mark.usefixtures("_nothing_painted")
def test_the_trace_alone_takes_one_pass_and_a_page_is_drawn(run, models):
    arguments = ("gpt2", "--token-ids", "ids.jsonl", "--sentences", 8, "--trace-only", "--group", 4)
    out = output_of(run(*arguments, "--prune", 0.2, "--round", 4, 6, "--output", "page.html"))
    assert "as if the changes δ of weights were independent" in out
    page = (models / "page.html").read_text()
    assert "isoloss sensitivity gpt2" in page
    assert all(words in page for words in ("Rounding to few bits", "Other changes", "4 bits of 4"))
    assert "from the trace</th>" in page
    assert "measured</th>" not in page  # there is nothing in it without --check


def test_what_is_checked_in_half_precision_comes_with_a_warning(run, models):
    arguments = ("bert", "--text", "text.txt", "--sentences", 4, "--round", 8, "--dtype", "bfloat16")
    for checked, warned in (((), 0), (("--check",), 1)):
        code, _, err = run(*arguments, *checked)
        assert (code, err.count("is rounded to the weights' bfloat16")) == (0, warned)


@pytest.mark.usefixtures("_no_charts")
def test_a_prediction_of_a_large_change_comes_with_a_warning(run, models):
    arguments = ("bert", "--text", "text.txt", "--sentences", 4, "--trace-only")
    code, out, err = run(*arguments, "--noise", 3, "--json", "--output", "far.html")
    assert code == 0
    assert "predictions exceed 0.1 nats (300 % noise of " in err
    assert [f"warning: {each}" in err for each in json.loads(out)["warnings"]] == [True]
    assert "measure it with --check" in err
    assert "predictions exceed 0.1 nats" in (models / "far.html").read_text()
    assert "predictions exceed" not in run(*arguments, "--noise", 0.0001, "--json")[2]


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (("--text", "none.txt"), "there is no file none.txt"),
        (("--text", "text.txt", "--round", 1), "--round takes 2 to 16 bits, not 1"),
        (("--text", "text.txt", "--round", "--check"), "there is no value after --round; give one"),
        (("--text", "text.txt", "--bits", 4, "--allocation", "."), ". is a folder; name a file"),
        (
            ("--text", "text.txt", "--bits", 4, "--allocation", "a.html", "--output", "a.html"),
            "a.html is both --allocation and --output",
        ),
        (("--text", "text.txt", "--noise", 0.1, "--group", 4), "--group is of rounding, and nothing is"),
        (("--text", "text.txt", "--bits", 9), "--bits 9 is no mean of 3 to 8 bits"),
        (("--text", "text.txt", "--bits", "nan"), "is no mean of 3 to 8 bits"),
        (("--text", "text.txt", "--bits", 4, "--by", "kind"), "leave --by kind out"),
        (("--text", "text.txt", "--allocation", "a.json"), "say the mean number of bits with --bits"),
        (("--text", "text.txt", "--prune", 1.5), "--prune takes a share above 0 and at most 1"),
        (("--text", "text.txt", "--noise", -1), "--noise must be above 0"),
        (("--text", "text.txt", "--noise", "nan"), "--noise must be above 0"),
        (("--text", "text.txt", "--noise", "1e300"), "--noise must be above 0 and at most 1000, not 1e+300"),
        (("--text", "text.txt", "--group", 1), "--group must be at least 2"),
        (("--text", "text.txt", "--sentences", 1), "--sentences must be at least 2"),
        (("--text", "text.txt", "--memory", 0), "--memory must be above 0"),
        (("--text", "text.txt", "--seed", -1), "--seed must be from 0"),
        (("--text", "text.txt", "--output", "page.txt"), "--output names an HTML file"),
        (("--text", "text.txt", "--replacement", "wider"), "wider cannot replace the weights of bert"),
        (("--text", "text.txt", "--one-mask", "--mask-rate", 0.2), "give one of the two"),
    ],
)
def test_what_cannot_be_done_is_refused_in_one_sentence(run, arguments, sentence):
    code, out, err = run("bert", *arguments)
    assert (code, out) == (2, "")
    (line,) = (line for line in err.splitlines() if "starting" not in line)
    assert sentence in line


def test_a_run_of_our_own_is_read_as_a_folder(run, models):
    with torch.random.fork_rng():
        code, out, err = run("pre", "--text", "text.txt", "--sentences", 4, "--round", 4, "--one-mask")
    assert code == 0, err
    assert "4 bits" in out
