"""`isoloss flatness --quantity`: every quantity, one of the user's own, and values of some."""

import json
from dataclasses import replace
from functools import partial

import pytest
from called import output_of
from flatness_folders import MASK, TOKENS, records

from isoloss.corpora.token_sentences import TokenCorpus
from isoloss.errors import BadInput
from isoloss.measurements import on_sentences
from isoloss.measurements.on_sentences import eigenvalues, local_learning_coefficient
from isoloss.measurements.on_sentences.local_learning_coefficient import LocalLearningCoefficientQuantity
from isoloss.measurements.prediction import MaskedTokens, SpecialTokens
from isoloss.measurements.quantity import Subject
from isoloss.measurements.sampled_batches import SampledBatches
from isoloss.models.transformers import PostLayerNormTransformer, Shape
from isoloss.progress import silent
from isoloss.results.estimate import Estimate
from isoloss.results.record import value_name


@pytest.mark.thorough
def test_every_quantity(flatness):
    quantities = ("fisher_trace", "hessian_trace", "gradient_norm", "hessian_top_eigenvalue")
    arguments = ("bert", "other", "--text", "text.txt", "--quantity", *quantities, "--sentences")
    written = output_of(flatness(*arguments, "8", "--json"))
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
    written = " ".join(output_of(flatness("bert", *arguments[2:], "4")).split())
    for quantity in quantities:
        assert f"│ {quantity}" in written
    assert "fisher_trace in nats per squared parameter" in written
    assert "gradient_norm in " not in written  # its rows differ in their units
    assert "a fixed set of 4 sentences was measured" in written


def test_of_every_model_it_is_said_that_an_eigenvalue_has_not_converged(flatness, monkeypatch):
    few = partial(eigenvalues.hessian_top_eigenvalue, most_products=2)
    arguments = ("bert", "other", "--text", "text.txt", "--quantity", "hessian_top_eigenvalue")
    assert "has not converged" not in output_of(flatness(*arguments, "--sentences", "4"))
    monkeypatch.setattr(eigenvalues, "hessian_top_eigenvalue", few)
    written = " ".join(output_of(flatness(*arguments, "--sentences", "4")).split())
    for name in ("bert", "other"):
        assert f"warning: {name}: the eigenvalue has not converged: residual " in written
    assert written.count("has not converged") == 2


OWN = """
import torch
from dataclasses import dataclass

from isoloss.measurements.fixed_sentences import FixedSentences, draw_sentences
from isoloss.measurements.quantity import LANGUAGES_AND_TEXT, Measurement
from isoloss.results.estimate import sample_mean


@dataclass(frozen=True)
class Length:
    sentences: int
    seed: int
    revision, sources, drawn_as, draw = 1, LANGUAGES_AND_TEXT, FixedSentences, draw_sentences
    column_names = ("length",)

    def measure(self, model, drawn, subject, progress):
        lengths = torch.cat([batch.attention_mask.sum(1).double() for batch in drawn.batches])
        record = subject.record("length", sample_mean(lengths), "tokens", 0)
        return Measurement([record], {"length": lengths})

    def columns(self, records):
        return {"length": records[0].value}


def on_sentences(sentences, seed):
    return Length(sentences, seed)
"""


def test_a_quantity_is_one_file_in_the_folder_or_anywhere(flatness, tmp_path, monkeypatch):
    (tmp_path / "length.py").write_text(OWN)
    arguments = ("bert", "other", "--text", "text.txt", "--sentences", "9", "--json", "--quantity")
    code, written, _ = flatness(*arguments, str(tmp_path / "length.py"))
    found = records(written)
    assert code == 0
    assert found["length", "bert", None] == {**found["length", "other", None], "checkpoint": "bert"}
    assert found["length_difference", "other", None]["value"] == 0
    assert flatness(*arguments, "length")[0] == 2
    monkeypatch.setattr(on_sentences, "__path__", [*on_sentences.__path__, str(tmp_path)])
    assert records(flatness(*arguments, "length")[1]) == found


def test_every_file_of_the_folder_is_a_quantity_or_has_several(tmp_path, monkeypatch):
    shipped = on_sentences.quantity_names()
    one = OWN + "\n\ndef drawn_on_sentences(sentences): ...\n"
    several = OWN.replace("def on_sentences(", "def short_on_sentences(")
    imported = "from isoloss.measurements.on_sentences.pretraining_loss import on_sentences as on_sentences\n"
    for name, content in {"one": one, "lengths": several, "other": imported, "._one": "\xff"}.items():
        (tmp_path / f"{name}.py").write_text(content, encoding="latin-1")
    monkeypatch.setattr(on_sentences, "__path__", [*on_sentences.__path__, str(tmp_path)])
    assert set(on_sentences.quantity_names()) - set(shipped) == {"one", "short", "other"}
    made = {name: type(on_sentences.quantity_named(name, 9, 0)).__name__ for name in ("short", "other")}
    assert made["other"] == "PretrainingLossQuantity" != made["short"]
    (tmp_path / "fisher_trace.py").write_text(OWN)
    with pytest.raises(BadInput, match=r"called fisher_trace, in traces and fisher_trace.py; rename"):
        on_sentences.quantity_named("fisher_trace", 9, 0)


def test_what_is_no_quantity_is_refused_in_one_sentence(flatness, tmp_path):
    wrong = {
        "missing.py": (None, "there is no file"),
        "empty.py": ("", "defines no on_sentences"),
        "broken.py": ("1 / 0", "cannot be imported: ZeroDivisionError"),
        "other.py": (OWN.replace("LANGUAGES_AND_TEXT, FixedS", "(), FixedS"), "cannot be measured on a text"),
    }
    for name, (content, sentence) in wrong.items():
        if content is not None:
            (tmp_path / name).write_text(content)
        code, written, told = flatness("bert", "--text", "text.txt", "--quantity", str(tmp_path / name))
        assert (code, written, told.count("\n")) == (2, "", 1)
        assert sentence in told


def test_an_error_in_a_file_of_ones_own_is_told_with_its_line(flatness, tmp_path):
    fails = OWN.replace(
        "        lengths = ", "        assert subject is None, 'no subject'\n        lengths = "
    )
    (tmp_path / "length.py").write_text(fails)
    arguments = ("bert", "--text", "text.txt", "--sentences", "4", "--quantity", str(tmp_path / "length.py"))
    code, written, told = flatness(*arguments)
    line = 1 + fails[: fails.index("assert")].count("\n")
    assert (code, written) == (2, "")
    last = told.splitlines()[-1]
    assert last == f"isoloss: {tmp_path}/length.py, line {line}, in measure: AssertionError: no subject"
    assert "Traceback" not in told


def test_two_quantities_of_one_name_are_refused(flatness, tmp_path):
    for file in ("one/length.py", "two/length.py"):
        (tmp_path / file).parent.mkdir()
        (tmp_path / file).write_text(OWN)
    named = (str(tmp_path / "one/length.py"), str(tmp_path / "two/length.py"))
    code, written, told = flatness("bert", "--text", "text.txt", "--quantity", *named)
    assert (code, written) == (2, "")
    assert f"{named[0]} and {named[1]} are both called length; name one of them, or rename a file" in told
    assert (
        flatness("bert", "--text", "text.txt", "--sentences", "4", "--quantity", named[0], named[0])[0] == 0
    )


FEWER = {
    "local_learning_coefficient": {"burn_in": 2, "draws": 4},
    "spectral_density": {"probes": 2, "steps": 8},
}
"""Of what is drawn at random, for the quantities that draw most."""


LONGER = ("hessian_top_eigenvalue", "local_learning_coefficient", "top_eigenvalues")


@pytest.mark.parametrize(
    "quantity",
    [
        pytest.param(each, marks=pytest.mark.thorough) if each in LONGER else each
        for each in on_sentences.quantity_names()
    ],
)
def test_every_quantity_of_the_folder_names_its_columns(quantity):
    """As a quantity of planned runs, on the sentences of a text."""
    corpus = TokenCorpus([[3, 4, 5], [4, 5], [6, 7, 8, 9], [3, 9, 4]] * 4, list(range(1, 17)))
    batches = SampledBatches(corpus, MaskedTokens(), 0, SpecialTokens(mask=MASK))
    model = PostLayerNormTransformer(Shape(8, 2, 1, 8)).build(TOKENS - 3, 8, 0)
    found = replace(on_sentences.quantity_named(quantity, 8, seed=0), **FEWER.get(quantity, {}))
    drawn = found.draw(batches, batches.objective, silent)
    subject = Subject("m", batches.objective, {}, batches)
    measured = found.measure(model, drawn, subject, silent)
    assert set(found.columns(measured.records)) == set(found.column_names)
    for name, values in measured.values.items():
        records = {value_name(record): record for record in measured.records}
        assert float(values.mean()) == pytest.approx(records[name].value)


def test_a_value_says_which_data_model_or_number(flatness):
    text = ("bert", "--text", "text.txt", "--sentences", "8", "--seed", "3")
    asked = ("batch_sharpness=4", "directional_sharpness=other", "relative_critical_sharpness=text.txt")
    code, written, told = flatness(
        *text, "--quantity", *asked, "critical_sharpness", "top_eigenvalues=2", "--json"
    )
    assert code == 0, told
    whole = {
        (r["quantity"], r["settings"].get("rank")): r
        for r in json.loads(written)["records"]
        if "group" not in r["settings"]
    }
    batch = whole["batch_sharpness", None]
    assert (batch["n"], batch["settings"]["batch"], batch["settings"]["sentences"]) == (2, 4, 8)
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
        code, written, told = flatness(*text, "--quantity", name)
        assert (code, written, told.count("\n")) == (2, "", 1), told
        assert sentence in told


@pytest.mark.thorough
def test_quantities_of_which_there_are_several_strengths(flatness):
    quantities = ("normalised_trace", "ascent_sharpness", "noise_sensitivity")
    arguments = ("bert", "other", "--text", "text.txt", "--quantity", *quantities, "--sentences")
    written = output_of(flatness(*arguments, "8", "--json"))
    found = json.loads(written)["records"]
    assert sum(r["quantity"] == "normalised_fisher_trace" for r in found) == 2
    radii = [r["settings"]["radius"] for r in found if r["quantity"] == "ascent_sharpness"]
    assert len(radii) == 2 * len(set(radii)) == 6
    written = output_of(flatness("bert", *arguments[2:], "4"))
    assert "ascent_sharpness, radius 0.05" in written
    assert "noise_sensitivity, noise 0.01" in written


def test_it_is_said_what_an_error_is_over(flatness, tmp_path, monkeypatch):
    short = partial(LocalLearningCoefficientQuantity, **FEWER["local_learning_coefficient"])
    monkeypatch.setattr(local_learning_coefficient, "LocalLearningCoefficientQuantity", short)
    own = tmp_path / "length.py"
    own.write_text(OWN.replace("    sentences: int", '    error_over = "lines"\n    sentences: int'))
    arguments = ("bert", "--text", "text.txt", "--sentences", "5", "--quantity")  # as many as chains
    written = output_of(flatness(*arguments, "pretraining_loss", "local_learning_coefficient", str(own)))
    of_loss, of_chains, of_own = " ".join(written.split()).split("stopped after 5 sentences: ")[1:]
    assert "± its standard error over sentences" in of_loss
    assert "± its standard error over 5 chains" in of_chains
    assert "± its standard error over 5 lines" in of_own


def test_the_sign_of_a_hessian_that_nothing_tells_is_called_so(flatness):
    arguments = ("bert", "--text", "text.txt", "--sentences", "4", "--quantity", "hessian_trace")
    _, written, _ = flatness(*arguments, "--json")
    whole = records(written)["hessian_trace", "bert", None]
    (_, high) = Estimate(0.0, whole["standard_error"], whole["n"]).interval(0.95)
    undetermined = abs(whole["value"]) < high
    assert ("the sign of hessian_trace of bert is undetermined" in flatness(*arguments)[1]) == undetermined


def test_a_quantity_without_a_number_does_not_take_the_others_with_it(flatness):
    asked = ("bert", "--text", "text.txt", "--sentences", 2, "--json", "--quantity")
    code, written, told = flatness(*asked, "fisher_trace", "gradient_norm", "pretraining_loss")
    alone = flatness(*asked, "fisher_trace", "pretraining_loss")
    assert code == 2
    assert "gradient_norm: a standard error takes at least 3 sentences, not 2" in told
    assert json.loads(written)["records"] == json.loads(output_of(alone))["records"]
    code, written, told = flatness(*asked, "gradient_norm")
    assert (code, written) == (2, "")
    assert told.endswith("isoloss: a standard error takes at least 3 sentences, not 2\n")
