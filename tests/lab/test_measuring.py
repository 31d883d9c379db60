"""Numbers of the laboratory against exact ones, and against what they are thin over."""

import json
import math
import re

import pytest
import torch
from small_networks import bert
from torch import Tensor, nn

from isoloss import lab
from isoloss.curvature.fisher_trace import fisher_trace
from isoloss.errors import BadInput
from isoloss.lab import measuring
from isoloss.lab.words import OneLine
from isoloss.languages.pcfg import PCFG
from isoloss.languages.random_hmm import random_hmm
from isoloss.measurements.exact_loss import EvaluationSet, exact_loss
from isoloss.measurements.linear_probe import ProbeSettings
from isoloss.models.tokenizer import word_tokenizer
from isoloss.objectives.masked import MaskedObjective


class Constant(nn.Module):
    """The same scores everywhere, which are its only weights."""

    def __init__(self) -> None:
        super().__init__()
        self.scores = nn.Parameter(torch.zeros(9))

    def forward(self, ids: Tensor) -> Tensor:
        return self.scores.expand(*ids.shape, 9)


class WordsAlone(nn.Module):
    """Its vectors are one-hot words, which a linear layer reads."""

    def __init__(self) -> None:
        super().__init__()
        self.head = nn.Linear(6, 9)

    def forward(self, ids: Tensor) -> Tensor:
        return self.head(nn.functional.one_hot(ids, 9)[..., 3:].float())


def test_the_loss_of_uniform_scores_is_known(language: PCFG) -> None:
    found = lab.loss(Constant(), on=language, sentences=50, seed=0, progress=lab.silent)
    assert found[0].estimate.value == pytest.approx(math.log(9), abs=1e-6)
    assert found.kl is not None
    (_, entropy), *_ = found.beside
    assert found.kl[0].estimate.value == pytest.approx(math.log(9) - entropy.value, abs=1e-6)


@pytest.mark.thorough
def test_a_loss_has_its_own_entropy_in_each_sentence(run: lab.Run, language: PCFG) -> None:
    """Its error bar is that of losses, of which the entropies' spread is a part."""
    module, objective = run.last.module, MaskedObjective()
    expected = exact_loss(module, objective, EvaluationSet.draw(language, 40, 2, objective=objective)).loss
    found = lab.loss(run.last, sentences=40, seed=2, progress=lab.silent)[0]
    torch.testing.assert_close(found.values, expected)
    assert found.estimate.standard_error == pytest.approx(float(expected.std()) / 40**0.5)


def test_a_text_is_cut_to_what_every_model_reads_in_words_that_all_know() -> None:
    words, others = word_tokenizer(["a", "b"], 20), word_tokenizer(["a", "c"], 20)
    long, short = (bert(vocab_size=5, max_position_embeddings=n) for n in (16, 6))
    models = [lab.model(each, name=str(n), tokenizer=words) for n, each in enumerate((long, short))]
    text = ["a b " * 5, "b a " * 6]
    assert len(lab.loss(models, on=text, sentences=2, seed=0, progress=lab.silent)) == 2
    mixed = [models[0], lab.model(short, tokenizer=others)]
    with pytest.raises(BadInput, match="the models have different vocabularies"):
        lab.loss(mixed, on=text, sentences=2, seed=0, progress=lab.silent)


def test_the_trace_of_uniform_scores_is_known(language: PCFG) -> None:
    found = lab.trace(Constant(), on=language, sentences=400, seed=0, progress=lab.silent)[0].estimate
    assert abs(found.value - 8 / 9) < 4 * found.standard_error + 1e-6


def test_the_trace_is_that_of_the_estimator(run: lab.Run, language: PCFG) -> None:
    generator = torch.Generator().manual_seed(3)
    batch = MaskedObjective().draw(language.sample(30, generator), generator)
    known = fisher_trace(run.last.module, [batch], MaskedObjective(), seed=3).estimate
    found = lab.trace(run.last, sentences=30, seed=3, progress=lab.silent)[0].estimate
    assert (found.value, found.standard_error) == (known.value, known.standard_error)


def test_a_probe_of_words_is_the_control_of_words(language: PCFG) -> None:
    found = lab.probe(WordsAlone(), "prefix-8", on=language, examples=200, seed=0, progress=lab.silent)
    assert found[0].estimate == dict(found.beside)["the words alone"]
    assert found.rows[0].estimate.n == 200


def test_heads_are_trained_until_they_have_converged(language: PCFG, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []

    def settings(examples: int) -> ProbeSettings:
        asked.append(examples)
        return ProbeSettings(epochs=1)

    monkeypatch.setattr(measuring, "converged_probe", settings)
    lab.probe(WordsAlone(), "prefix-8", on=language, examples=50, seed=0, progress=lab.silent)
    assert asked == [50, 50]  # on the model's features, and on words


def test_a_module_without_a_linear_layer_has_no_probe(language: PCFG) -> None:
    with pytest.raises(BadInput, match="no last linear layer whose inputs a probe could read"):
        lab.probe(Constant(), "prefix-8", on=language, examples=20, seed=0, progress=lab.silent)


def test_differences_are_paired(run: lab.Run) -> None:
    found = lab.loss(run, sentences=40, seed=0, progress=lab.silent)
    change = found.differences()
    assert len(change) == len(run) - 1
    values = found.rows[-1].values - found.rows[0].values
    assert change.rows[-1].estimate.value == pytest.approx(float(values.mean()))
    assert change.rows[-1].estimate.standard_error == pytest.approx(float(values.std() / 40**0.5))


def test_a_table_has_every_error(run: lab.Run) -> None:
    found = lab.loss(run, sentences=40, seed=0, progress=lab.silent)
    assert found.frame.columns == ["model", "step", "loss", "loss_error", "kl", "kl_error"]
    assert found.frame["step"].to_list() == list(run.steps)
    lines = str(found).splitlines()
    assert lines[0] == "loss (nats), 40 sentences, seed 0"
    assert all(line.count(" ± ") == 2 for line in lines[1:-1])
    assert "the entropy" in lines[-1]


def test_models_read_text(run: lab.Run, language: PCFG) -> None:
    text = list(lab.sentences(language, 30, seed=5))
    found = lab.loss(run, on=text, sentences=30, seed=0, progress=lab.silent)
    assert [row.estimate.n for row in found.rows] == [30] * len(run)
    assert found.rows[0].estimate.value > found.rows[-1].estimate.value
    assert lab.trace(run.last, on=text, sentences=30, seed=0, progress=lab.silent)[0].estimate.value > 0


def test_what_is_known_of_a_model_can_be_said_afterwards(run: lab.Run, language: PCFG) -> None:
    text = list(lab.sentences(language, 30, seed=5))
    known = lab.model(WordsAlone(), name="words")
    named = lab.model(known, name="alone", language=language, tokenizer=run.last.tokenizer)
    assert (named.name, named.module) == ("alone", known.module)
    on_language = lab.loss(named, sentences=20, seed=0, progress=lab.silent)
    assert on_language[0].label == "alone"
    assert lab.loss(named, on=text, sentences=20, seed=0, progress=lab.silent)[0].estimate.n == 20
    again = lab.model(run.last, name="wide")
    assert (again.label, again.language, again.seeds) == ("wide, step 40", run.last.language, (1,))
    assert again.tokenizer is run.last.tokenizer


def test_a_model_of_more_tokens_is_measured_on_a_language_before_and_after_it_is_trained(
    language: PCFG,
) -> None:
    torch.manual_seed(0)
    given = bert(vocab_size=30)
    before = lab.loss(given, on=language, sentences=20, seed=0, progress=lab.silent)
    flat = lab.flatten(lab.model(given, language=language), steps=1, seed=1, progress=lab.silent)
    along = lab.loss(flat, sentences=20, seed=0, progress=lab.silent)
    assert along[0].estimate == before[0].estimate
    assert not hasattr(given.config, "language_words")
    assert before.kl is not None
    # Its scores are nearly those of fresh weights: all 30 tokens are about equally probable.
    assert before[0].estimate.value == pytest.approx(math.log(30), abs=0.1)
    wider = random_hmm(words=27, states=4, blocks=1, length=8, seed=0)  # takes all tokens of the same model
    lab.loss(flat, on=wider, sentences=5, seed=0, progress=lab.silent)


def test_a_torch_module_shows_that_it_reads_a_language_in_little_memory_and_is_left_as_it_was() -> None:
    language = random_hmm(words=500, states=4, blocks=1, length=8, seed=0)

    class Normalised(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.read: list[Tensor] = []
            self.words, self.norm = nn.Embedding(503, 4), nn.BatchNorm1d(4)

        def forward(self, ids: Tensor) -> Tensor:
            self.read.append(ids)
            return self.norm(self.words(ids).flatten(0, 1)).view(*ids.shape, 4) @ self.words.weight.T

    module = Normalised()
    lab.model(module, language=language)
    assert set(torch.cat(module.read).flatten().tolist()) == set(range(503))
    assert {ids.shape[1] for ids in module.read} == {9}
    assert max(ids.numel() for ids in module.read) < 100  # places, each of which has 503 scores
    assert module.training
    assert module.norm.num_batches_tracked == 0


def test_a_chart_shows_the_range_of_the_loss(run: lab.Run) -> None:
    found = lab.loss(run.models[-2:], sentences=40, seed=0, progress=lab.silent)
    (chart,) = json.loads(lab.plot(found).to_json())["vconcat"]
    axis = chart["layer"][0]["encoding"]["y"]
    low, high = axis["scale"]["domainMin"], axis["scale"]["domainMax"]
    values = [row.estimate.value for row in found.rows]
    assert axis["scale"]["zero"] is False
    assert 0 < low <= min(values) <= max(values) <= high
    assert high - low < 5 * (max(values) - min(values))


def test_one_quantity_is_plotted_against_another(run: lab.Run) -> None:
    some = run.models[-2:]
    traces = lab.trace(some, sentences=20, seed=0, progress=lab.silent)
    losses = lab.loss(some, sentences=20, seed=0, progress=lab.silent)
    chart = json.loads(lab.plot(losses, against=traces).to_json())
    (rows,) = chart["datasets"].values()
    assert len(rows) == len(some)
    assert rows[0]["x"] == pytest.approx(traces[0].estimate.value)
    assert rows[0]["y_high"] - rows[0]["y"] == pytest.approx(losses.kl[0].estimate.standard_error)
    with pytest.raises(BadInput, match="loss and trace are not of the same models"):
        lab.plot(losses, against=lab.trace(run.last, sentences=20, seed=0, progress=lab.silent))


@pytest.mark.thorough
def test_what_is_plotted_against_another_quantity_is_of_the_same_weights(
    run: lab.Run, language: PCFG
) -> None:
    other = lab.train(language, 16, steps=40, at=[40], seed=2, progress=lab.silent)
    losses = lab.loss(run.last, sentences=20, seed=0, progress=lab.silent)
    with pytest.raises(BadInput, match="loss and trace are not of the same models"):
        lab.plot(losses, against=lab.trace(other, sentences=20, seed=0, progress=lab.silent))
    again = lab.model(run.last, name="the same")
    lab.plot(losses, against=lab.trace(again, sentences=20, seed=0, progress=lab.silent))


def test_a_model_without_a_step_has_no_place_over_steps(run: lab.Run) -> None:
    mean = lab.average(run.models[-2:])
    with pytest.raises(BadInput, match="a model without a step has no place over steps"):
        lab.plot(lab.trace(mean, sentences=20, seed=0, progress=lab.silent))


def test_two_models_of_one_name_and_step_are_not_joined_to_a_line(run: lab.Run, language: PCFG) -> None:
    other = lab.train(language, 16, steps=2, at=[1, 2], seed=2, progress=lab.silent)
    traces = lab.trace([run.models[0], *other], sentences=20, seed=0, progress=lab.silent)
    with pytest.raises(BadInput, match=r"two models are called train, step 1, .* lab.train\(..., name="):
        lab.plot(traces)
    apart = lab.train(language, 16, steps=3, at=[3], seed=2, progress=lab.silent)
    with pytest.raises(BadInput, match=r"two runs are called train, .* lab.train\(..., name="):
        lab.plot(lab.trace([run.last, *apart], sentences=20, seed=0, progress=lab.silent))
    flat = lab.flatten(run.last, steps=2, seed=3, progress=lab.silent)
    lab.plot(lab.trace([*run.models[-2:], *flat], sentences=20, seed=0, progress=lab.silent))


def test_a_number_prints_without_its_sentences(run: lab.Run) -> None:
    found = lab.trace(run.last, sentences=20, seed=1, progress=lab.silent)[0]
    assert re.fullmatch(r"train, step 40  [\d.]+ ± [\d.]+", repr(found)), found


def test_progress_is_one_line_that_is_rewritten_seldom_and_wiped_out_at_the_end(
    capsys: pytest.CaptureFixture[str],
) -> None:
    progress = OneLine()
    progress("pre-training", 1, 4, "loss 2.1")
    progress("pre-training", 2, 4, "loss 1.9")  # too soon after the first
    progress("pre-training", 4, 4, "loss 1.5")
    told = capsys.readouterr()
    assert told.out == ""
    assert told.err == f"\r{'pre-training: 25%  loss 2.1':<100}\r{'':<100}\r"
