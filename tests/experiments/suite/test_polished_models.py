"""Tests for the experiments on polished models, the flagship's and those of other languages."""

import pytest

from isoloss.experiments.design import builtin_designs
from isoloss.experiments.equal_knowledge import EqualKnowledge
from isoloss.experiments.languages import short_grammar, short_hmm
from isoloss.experiments.scale import scale_named
from isoloss.experiments.shared.language_runs import ScaleName
from isoloss.experiments.suite.flatten_polish_causal import CAUSAL, WHY_PLAIN_PROBES_DIFFER
from isoloss.experiments.suite.flatten_polish_dyck import DYCK
from isoloss.experiments.suite.flatten_polish_hmm import SHORT
from isoloss.languages.dyck import dyck
from isoloss.languages.language import Language
from isoloss.languages.pcfg import named_task
from isoloss.measurements.exact_loss import ExactLossQuantity
from isoloss.measurements.room_and_price import RoomSettings, measure_room
from isoloss.progress import silent

POLISHED = ("flatten-polish", "flatten-polish-hmm", "flatten-polish-causal")


@pytest.mark.parametrize(
    ("models", "language"),
    [
        (SHORT, short_hmm()),
        pytest.param(CAUSAL, short_grammar(), marks=pytest.mark.thorough),
        (DYCK, dyck(10, 0.5)),
    ],
)
def test_models_are_sharpened_just_above_the_entropy(models: EqualKnowledge, language: Language) -> None:
    sentences = ExactLossQuantity(20_000, 1, models.predicted)
    entropy = sentences.evaluation(sentences.draw(language, models.predicted, silent)).entropy.mean().item()
    low, high = models.sharpened.loss_window
    assert 0.0004 < low - entropy < 0.0015
    assert low + 0.0015 < high < entropy + 0.021


@pytest.mark.parametrize(
    ("language", "task", "from_words", "by_guessing"),
    [(short_hmm(), "state-3", 0.78, 0.22), (short_grammar(), "prefix-2", 0.61, 0.37)],
)
def test_words_alone_do_not_tell_the_task(
    language: Language, task: str, from_words: float, by_guessing: float
) -> None:
    room = measure_room(language, named_task(language, task), RoomSettings(train=300, test=1500))
    assert 1 - room.room.value == pytest.approx(from_words, abs=0.02)
    assert room.chance.value == pytest.approx(by_guessing, abs=0.02)


@pytest.mark.parametrize("scale", ["laptop", pytest.param("night", marks=pytest.mark.thorough)])
def test_each_language_is_judged_by_the_flagships_claims_on_seeds_of_its_own(scale: ScaleName) -> None:
    pages = [builtin_designs()[name].at(scale_named(scale)) for name in POLISHED]
    claims = [[(claim.name, claim.claimed) for claim in page.claims] for page in pages]
    open_on_five_seeds = {"flatter-is-no-better-from-fewer"} if scale == "laptop" else set()
    assert claims[0] == [(name, bound) for name, bound in claims[1] if name not in open_on_five_seeds]
    of_causal_ones = {claim.name for claim in WHY_PLAIN_PROBES_DIFFER}
    assert claims[1] == [each for each in claims[2] if each[0] not in of_causal_ones]
    seeds = [{run.seed for run in page.runs} for page in pages]
    assert sum(map(len, seeds)) == len(set.union(*seeds))


@pytest.mark.parametrize(
    ("name", "widths", "elsewhere"),
    [("flatten-polish", [48, 64, 48, 64, 48, 64], "gpu"), ("figure-1", [32, 48, 32, 48, 32, 48], "night")],
)
def test_each_seed_has_one_of_the_sizes_in_turn_at_laptop_and_all_elsewhere(
    name: str, widths: list[int], elsewhere: ScaleName
) -> None:
    design = builtin_designs()[name]
    laptop, others = (
        {(run.first_seed, run.architecture.shape.width) for run in design.at(scale_named(scale)).runs}
        for scale in ("laptop", elsewhere)
    )
    assert [width for _, width in sorted(laptop)] == widths
    assert len(others) == len({seed for seed, _ in others}) * len({width for _, width in others})
