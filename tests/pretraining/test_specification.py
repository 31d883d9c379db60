import json
from dataclasses import replace
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st
from runs import small

from isoloss.errors import BadInput
from isoloss.models.transformers import PostLayerNormTransformer, PreLayerNormTransformer, laptop_shape
from isoloss.pretraining.descent import AdamW
from isoloss.pretraining.specification import first_difference, log_spaced_steps, settings_as_json

SPECIFICATION = small()
CHANGED = [
    replace(SPECIFICATION, seed=1),
    replace(SPECIFICATION, batch_size=17),
    replace(SPECIFICATION, language_digest="another"),
    replace(SPECIFICATION, architecture=PreLayerNormTransformer(laptop_shape(16))),
    replace(SPECIFICATION, architecture=PostLayerNormTransformer(SPECIFICATION.architecture.shape)),
    replace(SPECIFICATION, update_rule=AdamW(learning_rate=0.01, warm_up_steps=11)),
    replace(SPECIFICATION, checkpoint_steps=(40,)),
    replace(SPECIFICATION, steps=41, checkpoint_steps=(41,)),
]
DIFFERENCES = [
    "seed is 0, not 1",
    "batch_size is 16, not 17",
    "language_digest is ",
    "architecture.shape.width is 8, not 16",
    "architecture.is is PreLayerNormTransformer, not PostLayerNormTransformer",
    "update_rule.warm_up_steps is 10, not 11",
    "checkpoint_steps is [5, 7, 10, 14, 20, 28, 40], not [40]",
    "steps is 40, not 41",
]


def test_equal_specifications_have_equal_digests_and_others_do_not() -> None:
    assert small().digest == SPECIFICATION.digest
    assert len({changed.digest for changed in CHANGED} | {SPECIFICATION.digest}) == len(CHANGED) + 1
    assert settings_as_json((1.0, 0.5)) == settings_as_json((1, 0.5)) == [1, 0.5]
    assert json.dumps(settings_as_json((1.0,))) == json.dumps(settings_as_json((1,)))


@pytest.mark.parametrize(("changed", "difference"), list(zip(CHANGED, DIFFERENCES, strict=True)))
def test_the_first_difference_is_named(changed: object, difference: str) -> None:
    there, here = settings_as_json(SPECIFICATION), settings_as_json(changed)
    assert first_difference(json.loads(json.dumps(there)), here).startswith(difference)
    assert first_difference(there, there) is None


def test_a_setting_that_one_side_lacks_is_a_difference() -> None:
    assert first_difference({"a": 1, "b": 2}, {"a": 1}) == "b is 2, not None"
    assert first_difference({"a": 1}, {"a": 1, "b": 2}) == "b is None, not 2"
    assert first_difference([], {"a": 1}) is not None


@pytest.mark.parametrize(
    "wrong",
    [
        {"steps": 0},
        {"batch_size": 0},
        {"checkpoint_steps": ()},
        {"checkpoint_steps": (0, 40)},
        {"checkpoint_steps": (20, 10, 40)},
        {"checkpoint_steps": (10, 10, 40)},
        {"checkpoint_steps": (10, 39)},
        {"checkpoint_steps": (10, 41)},
    ],
    ids=repr,
)
def test_numbers_that_make_no_run_are_refused(wrong: dict[str, object]) -> None:
    with pytest.raises(BadInput):
        replace(SPECIFICATION, **wrong)


def test_settings_are_plain_data() -> None:
    with pytest.raises(BadInput, match="object"):
        settings_as_json(object())


@given(st.integers(1, 500), st.integers(0, 5000), st.integers(1, 6))
def test_log_spaced_steps(first: int, more: int, per_doubling: int) -> None:
    last = first + more
    steps = log_spaced_steps(first, last, per_doubling)
    assert list(steps) == sorted(set(steps))
    assert (steps[0], steps[-1]) == (first, last)
    ratio = 2 ** (1 / per_doubling)
    # Rounding moves a step by at most one half.
    assert all(after <= before * ratio + (1 + ratio) / 2 for before, after in pairwise(steps))


@pytest.mark.parametrize("wrong", [(0, 10, 1), (11, 10, 1), (1, 10, 0)])
def test_impossible_schedules_are_refused(wrong: tuple[int, int, int]) -> None:
    with pytest.raises(BadInput):
        log_spaced_steps(*wrong)
