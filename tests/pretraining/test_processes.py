"""Several processes that train one model: gradients, runs and errors are those of one process."""

import sys
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
import safetensors.torch
import torch
from processes_together import in_processes
from rule_cases import OBJECTIVE, QUICK, RULES, trained
from runs import LANGUAGE, small

from isoloss.errors import BadInput
from isoloss.files import only_process_in
from isoloss.models.transformers import PreLayerNormTransformer, Shape
from isoloss.objectives.batch import Batch
from isoloss.objectives.masked import ManyMasksObjective
from isoloss.pretraining.descent import Descent, GradientRule
from isoloss.pretraining.flatness_regularised import SAM
from isoloss.pretraining.loop import pretrain
from isoloss.pretraining.other_optimisers import Lion, Sophia
from isoloss.pretraining.processes import ALONE, Processes, launched_processes
from isoloss.pretraining.update_rule import Training
from isoloss.results.checkpoint import checkpoint_folders, read_checkpoint
from isoloss.seeds import caller_randomness_kept, seed_dropout

CPU = torch.device("cpu")
SENTENCES = 17  # an odd number, so that shares differ in size
CASES = {
    **{rule: (settings, OBJECTIVE) for rule, settings in RULES.items()},
    # Sentences with different numbers of predictions: the mean over shares still is that over sentences.
    "AdamW, many masks": (QUICK, ManyMasksObjective(share=0.4)),
    "SAM, many masks": (RULES["SAM"], ManyMasksObjective(share=0.4)),
}


def everything(processes: Processes) -> dict[str, Any]:
    return {case: trained(rule, objective, processes) for case, (rule, objective) in CASES.items()}


@pytest.mark.thorough
def test_every_rule_ends_where_one_process_does(tmp_path: Path) -> None:
    alone = everything(ALONE)
    for of_one in in_processes(3, everything, tmp_path):
        for case, (weights, losses, readings) in of_one.items():
            # Muon multiplies in bfloat16, in which the last digit of a sum may change a rounding.
            tolerance = 1e-3 if "Muon" in case else 1e-9
            expected_weights, expected_losses, expected_readings = alone[case]
            assert losses == pytest.approx(expected_losses, rel=tolerance), case
            assert readings == pytest.approx(expected_readings, rel=tolerance), case
            for weight, expected in zip(weights, expected_weights, strict=True):
                torch.testing.assert_close(weight, expected, rtol=tolerance, atol=tolerance, msg=case)
    assert alone["adversarial"][2]["lambda"] > 0


@pytest.mark.thorough
def test_rules_whose_steps_are_no_smooth_function_of_the_gradient_agree_among_processes(
    tmp_path: Path,
) -> None:
    """Lion uses signs, Sophia drawn labels; SOAP's bases rotate. All processes still hold equal weights."""
    rules = (Lion(1e-3, warm_up_steps=0), Sophia(warm_up_steps=0, clipping=0.01, estimate_steps=2))

    def work(processes: Processes) -> list[Any]:
        with caller_randomness_kept(CPU):
            seed_dropout(0, 1, CPU, processes.number)
            return [trained(rule, OBJECTIVE, processes)[:2] for rule in rules]

    for (weights, losses), (others_weights, others_losses) in zip(
        *in_processes(2, work, tmp_path), strict=True
    ):
        assert all(map(torch.equal, weights, others_weights))
        assert losses == others_losses


def without_dropout(**changes: Any) -> Any:
    architecture = PreLayerNormTransformer(Shape(8, 2, 1, 16), dropout=0.0)
    run = small(steps=20, architecture=architecture, checkpoint_steps=(5, 10, 20))
    return replace(run, **({"batch_size": SENTENCES} | changes))


@pytest.mark.thorough
def test_a_run_is_one_processs_run_and_goes_on_with_another_number(tmp_path: Path) -> None:
    specification, told = without_dropout(), tmp_path / "told"
    pretrain(specification, LANGUAGE, tmp_path / "alone")

    def work(processes: Processes) -> tuple[int, int]:
        def note(*_: object) -> None:
            told.write_text(
                told.read_text() + f"{processes.number}" if told.exists() else f"{processes.number}"
            )

        folder = tmp_path / "together"
        report = pretrain(
            specification, LANGUAGE, folder, processes=processes, at_step=note, at_checkpoint=note
        )
        return report.resumed_from, report.last.step

    assert in_processes(2, work, tmp_path / "first") == [(0, 20), (0, 20)]
    assert told.read_text() == "0" * (20 + 3)  # only the main process, at every step and checkpoint
    assert_alike(tmp_path / "alone", tmp_path / "together", steps=[5, 10, 20])

    def lose(name: str) -> None:
        (tmp_path / "together" / "steps" / name / "model.safetensors").write_bytes(b"lost")

    lose("000020")
    report = pretrain(specification, LANGUAGE, tmp_path / "together")
    assert (report.resumed_from, len(report.damaged)) == (10, 1)
    assert_alike(tmp_path / "alone", tmp_path / "together", steps=[5, 10, 20])
    lose("000020")
    assert in_processes(3, work, tmp_path / "second") == [(10, 20)] * 3
    assert_alike(tmp_path / "alone", tmp_path / "together", steps=[5, 10, 20])


def assert_alike(run: Path, other: Path, steps: list[int]) -> None:
    pairs = list(zip(checkpoint_folders(run), checkpoint_folders(other), strict=True))
    assert [int(folder.name) for folder, _ in pairs] == steps
    assert sorted(path.name for path in other.iterdir()) == sorted(path.name for path in run.iterdir())
    for folder, others in pairs:
        first, second = read_checkpoint(folder), read_checkpoint(others)
        assert first.training_loss == pytest.approx(second.training_loss, rel=1e-5)
        weights, others_weights = (
            safetensors.torch.load_file(checkpoint.folder / "model.safetensors")
            for checkpoint in (first, second)
        )
        for name, weight in weights.items():
            torch.testing.assert_close(others_weights[name], weight, rtol=1e-3, atol=1e-4)


def refused(processes: Processes, folder: Path, **changes: Any) -> None:
    pretrain(without_dropout(**changes), LANGUAGE, folder, processes=processes)


@pytest.mark.thorough
def test_what_the_main_process_is_refused_all_say(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    with only_process_in(folder):
        texts = in_processes(2, lambda processes: refused(processes, folder), tmp_path / "held")
    assert texts[0] == texts[1]
    assert "another run is working in" in texts[0]
    assert not (folder / "specification.json").exists()


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"batch_size": 1}, "a batch of 1 sentences cannot be shared by 2 processes"),
        ({"batch_size": 3, "update_rule": SAM(optimiser=QUICK)}, "batches of at least 4 sentences"),
    ],
    ids=["batch", "SAM"],
)
def test_batches_that_cannot_be_shared_are_refused(changes: Any, words: str, tmp_path: Path) -> None:
    work: Callable[[Processes], None] = lambda processes: refused(processes, tmp_path / "run", **changes)  # noqa: E731
    assert all(words in text for text in in_processes(2, work, tmp_path / "meet"))


def test_a_process_that_dies_leaves_the_other_a_sentence(tmp_path: Path) -> None:
    def work(processes: Processes) -> None:
        def die(*_: object) -> None:
            raise BadInput("the tracker is full")

        pretrain(without_dropout(), LANGUAGE, tmp_path / "run", processes=processes, at_step=die)

    first, second = in_processes(2, work, tmp_path / "meet")
    assert first == "the tracker is full"
    assert "another of the processes that train together has ended" in second


@dataclass(frozen=True)
class OwnGradient:
    """A rule that ignores the other processes."""

    def build(self, training: Training) -> GradientRule:
        def gradient(batch: Batch, step: int) -> torch.Tensor:
            loss = training.loss(batch)
            loss.backward()
            return loss.detach()

        optimiser = torch.optim.SGD(training.model.parameters(), lr=0.1)
        return GradientRule(Descent([optimiser], 0, training.steps), gradient)


def test_processes_that_drift_apart_are_noticed_before_a_checkpoint_is_written(tmp_path: Path) -> None:
    def work(processes: Processes) -> None:
        pretrain(without_dropout(update_rule=OwnGradient()), LANGUAGE, tmp_path / "run", processes=processes)

    for text in in_processes(2, work, tmp_path / "meet"):
        assert "at step 5 the processes hold different weights: GradientRule" in text
    assert not checkpoint_folders(tmp_path / "run")


def test_one_bit_is_a_difference(tmp_path: Path) -> None:
    def work(processes: Processes) -> list[bool]:
        answers = []
        for dtype in (torch.float64, torch.float32, torch.bfloat16):
            weights = [torch.linspace(-1, 1, 7, dtype=dtype), torch.ones((), dtype=dtype)]
            answers.append(processes.hold_the_same(weights))
            if processes.number:
                weights[0].view(torch.int16)[3] += 1
            answers.append(processes.hold_the_same(weights))
        return answers

    assert in_processes(2, work, tmp_path) == [[True, False] * 3] * 2


def test_the_same_numbers_in_another_order_are_a_difference(tmp_path: Path) -> None:
    def work(processes: Processes) -> bool:
        numbers = [1.0, 2.0] if processes.number else [2.0, 1.0]
        return processes.hold_the_same([torch.tensor(numbers)])

    assert in_processes(2, work, tmp_path) == [False, False]


def test_a_program_started_by_itself_is_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "accelerate", None)
    with launched_processes("mps") as processes:
        assert processes is ALONE
    monkeypatch.setenv("WORLD_SIZE", "2")
    with pytest.raises(BadInput, match=r"isoloss\[accelerate\]"), launched_processes():
        pass
    with pytest.raises(BadInput, match="on cpu or cuda, not on 'mps'"), launched_processes("mps"):
        pass
