"""Differences between runs, on folders whose per-sentence values are drawn by hand."""

import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from hand_made_runs import write_measurement, write_run
from isoloss.errors import BadInput
from isoloss.results.estimate import jackknifed
from isoloss.results.measurement_store import measurements_at
from isoloss.results.record import STRENGTHS, Record
from isoloss.stored_runs.run_comparison import differences_at_loss, differences_at_steps, different_settings
from isoloss.stored_runs.stored_run import measurement_key, stored_run

STEPS = (10, 20, 40)
N = 50


def standard_error(values: np.ndarray) -> float:
    return float(values.std(ddof=1) / len(values) ** 0.5)


def test_settings_that_differ_are_named_with_both_values(tmp_path: Path) -> None:
    first = stored_run(write_run(tmp_path, "first", width=32))
    second = stored_run(write_run(tmp_path, "second", width=64, seed=2))
    assert different_settings(first, second) == [("architecture.shape.width", 32, 64), ("seed", 1, 2)]
    assert different_settings(first, first) == []


def test_on_the_same_sentences_the_error_is_that_of_the_difference(tmp_path: Path) -> None:
    generator = np.random.default_rng(0)
    common, small = generator.normal(size=N), 0.01 * generator.normal(size=N)
    values = {"first": dict.fromkeys(STEPS, 2 + common), "second": {20: 1.5 + common + small, 40: common}}
    runs = [stored_run(write_run(tmp_path, name, loss=loss, kept=True)) for name, loss in values.items()]
    found = differences_at_steps(*runs)
    assert [each.steps for each in found] == [(20, 20), (40, 40)]
    assert all(each.paired for each in found)
    assert found[0].difference.value == pytest.approx(-0.5 + small.mean())
    assert found[0].difference.standard_error == pytest.approx(standard_error(small))
    assert found[0].difference.standard_error < found[0].first.standard_error / 20
    assert found[0].difference.n == N


def test_without_kept_values_the_errors_are_taken_as_independent(tmp_path: Path) -> None:
    generator = np.random.default_rng(0)
    first, second = generator.normal(size=N), generator.normal(size=N // 2)
    runs = [
        stored_run(write_run(tmp_path, "first", loss={40: first})),
        stored_run(write_run(tmp_path, "second", loss={40: second}, kept=False)),
    ]
    (found,) = differences_at_steps(*runs)
    assert not found.paired
    expected = math.hypot(standard_error(first), standard_error(second))
    assert found.difference.standard_error == pytest.approx(expected)
    assert found.difference.n == N // 2


def test_each_strength_is_compared_with_its_own() -> None:
    record = Record("ascent_sharpness", 1.0, "nats", 0.1, 9, settings={"measured_on": "a", "radius": 0.05})
    others = [replace(record, settings={**record.settings, key: 0.1}) for key in STRENGTHS]
    assert len({measurement_key(each) for each in (record, *others)}) == 1 + len(STRENGTHS) == 6


def test_what_several_bits_leave_is_compared_for_each(tmp_path: Path) -> None:
    runs = []
    for name, kl in (("first", 0.25), ("second", 0.75)):
        folder = write_run(tmp_path, name, loss={40: [1.0, 2.0]})
        settings = [{"step": 40, "measured_on": "on-damage", "bits": bits} for bits in (8, 4)]
        found = [Record("kl_after_rounding", kl, "nats", 0.1, 9, settings=dict(each)) for each in settings]
        measurements_at(folder, name, 40).write("on-damage", found)
        runs.append(stored_run(folder))
    rounded = [each for each in differences_at_steps(*runs) if "bits" in each.record.settings]
    assert [(each.record.settings["bits"], each.difference.value) for each in rounded] == [(8, 0.5), (4, 0.5)]


def test_of_one_quantity_the_plainest_comes_first(tmp_path: Path) -> None:
    """Whatever the name of its set: a run's own trace before the enlarged model's."""
    runs = []
    for name, own in (("first", 5.0), ("second", 4.0)):
        folder = write_run(tmp_path, name, trace={40: [own, own + 1]})
        settings = {"step": 40, "measured_on": "aa-enlarged", "enlarged_to": 48}
        enlarged = Record("fisher_trace", 10 * own, "nats", 0.1, 2, settings=settings)
        measurements_at(folder, name, 40).write("aa-enlarged", [enlarged])
        runs.append(stored_run(folder))
    assert [each.difference.value for each in differences_at_steps(*runs)] == [-1.0, -10.0]


def test_what_is_not_measured_on_one_set_is_not_compared(tmp_path: Path) -> None:
    first = write_run(tmp_path, "first", loss={40: [1.0, 2.0]})
    second = write_run(tmp_path, "second")
    loss = "masked_loss_sentence_averaged"
    write_measurement(second, 40, loss, "on-another", np.array([1.0, 2.0]), kept=True)
    assert differences_at_steps(stored_run(first), stored_run(second)) == []
    with pytest.raises(BadInput, match="no exact loss measured on one set"):
        differences_at_loss(stored_run(first), stored_run(second), None)


def draw(generator: np.random.Generator) -> dict[str, dict[str, dict[int, np.ndarray]]]:
    """Two runs whose losses fall with the step's logarithm, whose traces follow, with common errors.

    The loss at 10, 20, 40 is 3, 2, 1 and 2.5, 1.75, 1; the trace 9, 6, 3 and 8, 6, 4.
    """
    of_loss, of_trace = generator.normal(size=(2, 2, N))
    own = generator.normal(size=(2, 2, 3, N))
    levels = {"first": ((3.0, 2.0, 1.0), (9.0, 6.0, 3.0)), "second": ((2.5, 1.75, 1.0), (8.0, 6.0, 4.0))}
    runs = {}
    for run, (name, (losses, traces)) in enumerate(levels.items()):
        scale = 0.5 + run
        runs[name] = {
            "loss": {
                step: losses[i] + 0.1 * scale * of_loss[0] + 0.02 * own[run, 0, i]
                for i, step in enumerate(STEPS)
            },
            "trace": {
                step: traces[i] + 0.1 * scale * of_trace[0] + 0.02 * own[run, 1, i]
                for i, step in enumerate(STEPS)
            },
        }
    return runs


@pytest.mark.slow
def test_the_error_at_one_loss_is_the_spread_over_repetitions(tmp_path: Path) -> None:
    """Against the differences' own spread over 60 draws of the sentences."""
    generator = np.random.default_rng(1)
    wanted = (1.6, None)  # the traces there: 4.8 and 5.6; 3 and 4 where the losses end
    values, errors = np.zeros((2, 60)), np.zeros((2, 60))
    for repetition in range(60):
        place = tmp_path / str(repetition)
        runs = [stored_run(write_run(place, name, **drawn)) for name, drawn in draw(generator).items()]
        for row, loss in enumerate(wanted):
            matched, (trace,) = differences_at_loss(*runs, loss)
            assert trace.paired
            assert trace.steps == tuple(point.step for point in matched.points)
            values[row, repetition] = trace.difference.value
            errors[row, repetition] = trace.difference.standard_error
    spread = values.std(axis=1, ddof=1)
    assert (abs(values.mean(axis=1) - (0.8, 1.0)) < 4 * spread / 60**0.5 + 0.01).all()
    assert errors.mean(axis=1) == pytest.approx(spread, rel=0.3)


@pytest.mark.parametrize(
    ("loss", "expected", "seed"),
    [(1.6, 0.8, 0), (None, 1.0, 0), (None, 1.0, 4)],
    ids=["a loss given", "the second's lowest", "the first's lowest"],
)
def test_at_one_loss_errors_are_of_the_same_sentences(
    loss: float | None, expected: float, seed: int, tmp_path: Path
) -> None:
    """Against the jackknife over the sentences of either set."""
    drawn = draw(np.random.default_rng(seed))
    runs = [stored_run(write_run(tmp_path, name, **drawn[name])) for name in ("first", "second")]
    matched, (trace,) = differences_at_loss(*runs, loss)
    assert trace.paired
    assert trace.steps == tuple(point.step for point in matched.points)
    assert trace.difference.n == N
    error = trace.difference.standard_error
    assert abs(trace.difference.value - expected) < 4 * error
    losses, traces = (by_run_and_step(drawn, what) for what in ("loss", "trace"))
    assert trace.difference.value == pytest.approx(trace_difference(losses, traces, loss))
    of_losses = [trace_difference(np.delete(losses, one, axis=2), traces, loss) for one in range(N)]
    of_traces = [trace_difference(losses, np.delete(traces, one, axis=2), loss) for one in range(N)]
    parts = (jackknifed(0.0, torch.tensor(each)).standard_error for each in (of_losses, of_traces))
    assert error == pytest.approx(math.hypot(*parts), rel=1e-3)


@pytest.mark.parametrize("kept", [True, False])
def test_the_run_whose_lowest_loss_it_is_has_its_own_numbers_there(kept: bool, tmp_path: Path) -> None:
    drawn = draw(np.random.default_rng(0))
    runs = [stored_run(write_run(tmp_path, name, kept=kept, **drawn[name])) for name in ("first", "second")]
    matched, (trace,) = differences_at_loss(*runs, None)
    (place,) = (place for place, point in enumerate(matched.points) if point.step == 40)
    shown, values = (trace.first, trace.second)[place], list(drawn.values())[place]["trace"][40]
    assert shown.value == pytest.approx(values.mean())
    assert shown.standard_error == pytest.approx(standard_error(values))


def test_at_the_same_loss_the_error_of_the_step_is_that_of_kl(tmp_path: Path) -> None:
    """The entropy is the same for both: without values per sentence too, it is no part of the difference."""
    drawn, errors = draw(np.random.default_rng(0)), []
    for place in (tmp_path / "loss", tmp_path / "kl"):
        runs = []
        for name, of_run in drawn.items():
            folder = write_run(place, name, kept=False, trace=of_run["trace"])
            for step in STEPS:
                settings = {"step": step, "measured_on": "on-loss"}
                found = [Record("masked_loss_sentence_averaged", of_run["loss"][step].mean(), "nats", 0.5, N)]
                if place.name == "kl":
                    found.append(Record("masked_kl_sentence_averaged", 0.1, "nats", 0.003, N))
                records = [replace(record, settings=dict(settings)) for record in found]
                measurements_at(folder, name, step).write("on-loss", records)
            runs.append(stored_run(folder))
        errors.append(
            [differences_at_loss(*runs, loss)[1][0].difference.standard_error for loss in (None, 1.6)]
        )
    assert errors[0][0] > 0.5
    assert errors[1][0] < 0.1
    assert errors[0][1] == errors[1][1]  # a given loss is known as well as it was measured


def test_what_is_measured_on_the_sentences_of_the_loss_moves_with_them(tmp_path: Path) -> None:
    """Against the jackknife over the sentences, each of which is left out of loss and trace."""
    drawn, runs = draw(np.random.default_rng(3)), []
    for name, of_run in drawn.items():
        folder = write_run(tmp_path, name)
        for step in STEPS:
            values = {
                "masked_loss_sentence_averaged": of_run["loss"][step],
                "fisher_trace": of_run["trace"][step],
            }
            settings = {"step": step, "measured_on": "on-both"}
            records = [
                Record(quantity, float(each.mean()), "nats", standard_error(each), N, settings=dict(settings))
                for quantity, each in values.items()
            ]
            measurements_at(folder, name, step).write("on-both", records, values)
        runs.append(stored_run(folder))
    _, (trace,) = differences_at_loss(*runs, 1.6)
    losses, traces = (by_run_and_step(drawn, what) for what in ("loss", "trace"))
    without = [
        trace_difference(np.delete(losses, one, axis=2), np.delete(traces, one, axis=2), 1.6)
        for one in range(N)
    ]
    assert trace.difference.value == pytest.approx(trace_difference(losses, traces, 1.6))
    error = jackknifed(0.0, torch.tensor(without)).standard_error
    assert trace.difference.standard_error == pytest.approx(error, rel=1e-2)


def by_run_and_step(drawn: dict[str, dict[str, dict[int, np.ndarray]]], what: str) -> np.ndarray:
    return np.array([[run[what][step] for step in STEPS] for run in drawn.values()])


def trace_difference(losses: np.ndarray, traces: np.ndarray, loss: float | None) -> float:
    """Of two runs where their mean losses fall to `loss`; both (run, step, sentence)."""
    curves, log_steps = losses.mean(axis=2), np.log(STEPS)
    wanted = curves.min(axis=1).max() if loss is None else loss
    there = [np.interp(-wanted, -curve, log_steps) for curve in curves]
    first, second = (
        np.interp(log_step, log_steps, values.mean(axis=1))
        for log_step, values in zip(there, traces, strict=True)
    )
    return float(second - first)


def test_what_one_run_has_not_around_the_loss_is_not_compared(tmp_path: Path) -> None:
    drawn = draw(np.random.default_rng(0))
    del drawn["first"]["trace"][40]  # its loss falls to 1.6 after the step 20
    runs = [stored_run(write_run(tmp_path, name, **drawn[name])) for name in ("first", "second")]
    assert differences_at_loss(*runs, 1.6)[1] == []


def test_the_loss_of_raw_weights_is_not_that_of_the_run(tmp_path: Path) -> None:
    settings = {"step": 40, "measured_on": "on-loss", "weights": "raw"}
    raw = Record("masked_loss_sentence_averaged", 1.0, "nats", 0.1, 9, settings=dict(settings))
    runs = []
    for name in ("first", "second"):
        folder = write_run(tmp_path, name)
        measurements_at(folder, name, 40).write("on-loss-raw", [raw])
        runs.append(stored_run(folder))
    assert len(differences_at_steps(*runs)) == 1
    with pytest.raises(BadInput, match="no exact loss measured on one set"):
        differences_at_loss(*runs, None)


def test_at_one_loss_without_kept_values(tmp_path: Path) -> None:
    drawn = draw(np.random.default_rng(2))
    runs = [stored_run(write_run(tmp_path, name, kept=False, **drawn[name])) for name in ("first", "second")]
    _, (trace,) = differences_at_loss(*runs, 1.6)
    assert not trace.paired
    assert trace.difference.value == pytest.approx(0.8, abs=0.2)
    expected = math.hypot(trace.first.standard_error, trace.second.standard_error)
    assert trace.difference.standard_error == pytest.approx(expected)
    with pytest.raises(BadInput, match=r"not every run falls to a loss of 0\.5"):
        differences_at_loss(*runs, 0.5)
