"""The run-time checks active in all other tests find the errors they are meant for."""

import jaxtyping
import numpy as np
import pytest
from jaxtyping import Float

import runtime_types
from isoloss.experiments.statistics.seed_bootstrap import Resamples, cluster_estimate
from isoloss.languages.paper_grammar import mean_length
from isoloss.results.estimate import Estimate


def above(function):
    """As the import hook decorates what stands in a module: not within a function."""
    function.__qualname__ = function.__name__
    return jaxtyping.jaxtyped(typechecker=runtime_types.checked)(function)


def test_arguments_of_another_type_or_shape_are_found() -> None:
    with pytest.raises(TypeError, match="violates type hint"):
        mean_length("S -> 'a' [1.0]")
    with pytest.raises(TypeError, match=r"cluster_estimate(?s:.)* violates type hint"):
        cluster_estimate(1.0, np.zeros((2, 2)), Resamples.of(2))


def test_a_dataclasss_fields_are_looked_at() -> None:
    with pytest.raises(TypeError, match=r"Estimate(?s:.)* violates type hint"):
        Estimate("1.0", 0.1, 50)
    with pytest.raises(TypeError, match="violates type hint"):
        Resamples(np.zeros((3, 2), dtype=np.int64), np.zeros(4))


def test_a_result_of_another_type_or_shape_is_found() -> None:
    def named() -> int:
        return "one"

    def turned(matrix: Float[np.ndarray, "m n"]) -> Float[np.ndarray, "n m"]:
        return matrix

    with pytest.raises(TypeError, match="violates type hint"):
        above(named)()
    for _ in range(2):  # also where the type of the array has been met
        with pytest.raises(TypeError, match=r"turned(?s:.)* return (?s:.)*violates type hint"):
            above(turned)(np.zeros((2, 3)))
        assert above(turned)(np.zeros((2, 2))).shape == (2, 2)


def test_every_call_is_checked_but_those_within_unchecked() -> None:
    def same(number: int) -> int:
        return number

    checked = above(same)
    for _ in range(2):  # the first call makes the checker
        with runtime_types.unchecked():
            assert checked("one") == "one"
        with pytest.raises(TypeError, match="violates type hint"):
            checked("one")
        assert checked(1) == checked(number=1) == 1


def test_functions_defined_anew_share_a_checker_and_not_their_surroundings() -> None:
    def adding(number: int):
        @jaxtyping.jaxtyped(typechecker=runtime_types.checked)
        def add(other: int) -> int:
            return number + other

        return add

    assert [adding(n)(1) for n in range(3)] == [1, 2, 3]
    with pytest.raises(TypeError, match=r"add(?s:.)* violates type hint"):
        adding(1)("1")
