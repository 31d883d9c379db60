import json
import re
import shutil
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from markov_language import MarkovLanguage
from runs import LANGUAGE, FailingLanguage, interrupted_at, outcome, small

import isoloss.pretraining.loop as loop_module
from isoloss.errors import BadInput, IsolossError
from isoloss.models.loading import load_masked_language_model
from isoloss.models.transformers import PostLayerNormTransformer, Shape
from isoloss.objectives.masked import MaskedObjective
from isoloss.pretraining.descent import AdamW
from isoloss.pretraining.loop import pretrain
from isoloss.pretraining.processes import Processes
from isoloss.pretraining.specification import log_spaced_steps
from isoloss.pretraining.stream import Stream
from isoloss.results.checkpoint import checkpoint_folders, read_checkpoint
from isoloss.seeds import caller_randomness_kept, derived_seed, seed_dropout


def test_the_loop_is_the_plain_loop(undisturbed: Path) -> None:
    """Weights and losses of every checkpoint, to the bit, from a loop written out here."""
    model = small().architecture.build(2, LANGUAGE.maximum_length, derived_seed(0, "initialisation")).train()
    weights = [weight for weight in model.parameters() if weight.ndim > 1]
    vectors = [vector for vector in model.parameters() if vector.ndim == 1]
    optimiser = torch.optim.AdamW(
        [{"params": weights}, {"params": vectors, "weight_decay": 0.0}],
        betas=(0.9, 0.98),
        eps=1e-6,
        weight_decay=0.01,
        fused=True,
    )
    stream = Stream(LANGUAGE, MaskedObjective(), 16, 0)
    checkpoints = [read_checkpoint(folder) for folder in checkpoint_folders(undisturbed)]
    assert [checkpoint.step for checkpoint in checkpoints] == [5, 7, 10, 14, 20, 28, 40]
    losses: list[float] = []
    with caller_randomness_kept(torch.device("cpu")):
        for step in range(1, 41):
            batch = stream.batch(step - 1)
            for group in optimiser.param_groups:
                group["lr"] = 0.01 * min(1.0, step / 10)
            seed_dropout(0, step, torch.device("cpu"))
            loss = torch.nn.functional.cross_entropy(MaskedObjective().logits(model, batch), batch.targets)
            optimiser.zero_grad()
            loss.backward()
            optimiser.step()
            losses.append(loss.item())
            if step == checkpoints[0].step:
                checkpoint = checkpoints.pop(0)
                assert checkpoint.training_loss == sum(losses) / len(losses)
                losses.clear()
                loaded = load_masked_language_model(checkpoint.folder)
                assert all(map(torch.equal, loaded.parameters(), model.parameters())), step
    assert not checkpoints


@pytest.mark.thorough
def test_the_loss_falls_to_the_entropy_of_the_masked_word(tmp_path: Path) -> None:
    """A masked end word follows its neighbour; one inside is the geometric mean of two: known entropies."""
    language = MarkovLanguage(stay=0.9, shortest=3, maximum_length=3)
    specification = replace(
        small(steps=280),
        language_digest=language.digest,
        architecture=PostLayerNormTransformer(Shape(16, 2, 1, 32), dropout=0.0),
        batch_size=256,
        checkpoint_steps=(160, 280),
    )
    report = pretrain(specification, language, tmp_path)

    def entropy(p: float) -> float:
        distribution = torch.tensor([p, 1 - p], dtype=torch.float64)
        return float(-(distribution * distribution.log()).sum())

    same = 0.9**2 + 0.1**2
    inner = same * entropy(0.9**2 / same) + (1 - same) * entropy(0.5)
    expected = (2 * entropy(0.9) + inner) / 3
    # 120 steps of 256 sentences: the mean's standard error is about 0.004 nats.
    assert report.last.training_loss == pytest.approx(expected, abs=0.015)


@pytest.mark.thorough
def test_workers_progress_and_the_callers_seed_change_nothing(
    undisturbed: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    said: list[tuple[str, float, float, str]] = []
    monkeypatch.setattr("isoloss.pretraining.loop.SECONDS_BETWEEN_REPORTS", 0.0)
    torch.manual_seed(99)
    before = torch.get_rng_state()
    report = pretrain(small(), LANGUAGE, tmp_path, workers=2, progress=lambda *words: said.append(words))
    assert torch.equal(torch.get_rng_state(), before)
    assert outcome(tmp_path) == outcome(undisturbed)
    assert [(task, step, total) for task, step, total, _ in said] == [
        ("pre-training", step, 40) for step in range(1, 41)
    ]
    assert all(message.startswith("loss ") for *_, message in said)
    assert re.search(r"\d sentences/s, 0:\d\d:\d\d left$", said[0][3])
    assert 0 < report.waiting_seconds < report.seconds
    assert (report.resumed_from, report.last.step, report.damaged) == (0, 40, ())


@pytest.mark.thorough
def test_another_seed_gives_other_weights(undisturbed: Path, tmp_path: Path) -> None:
    pretrain(small(seed=1), LANGUAGE, tmp_path)
    assert not set(outcome(tmp_path).values()) & set(outcome(undisturbed).values())


def test_a_finished_run_is_left_as_it_is(undisturbed: Path, tmp_path: Path) -> None:
    before = outcome(undisturbed)
    report = pretrain(small(), LANGUAGE, undisturbed)
    assert (report.resumed_from, report.last.step) == (40, 40)
    assert outcome(undisturbed) == before


def test_ctrl_c_passes_through_and_the_run_goes_on(undisturbed: Path, tmp_path: Path) -> None:
    with pytest.raises(KeyboardInterrupt):
        pretrain(small(), LANGUAGE, tmp_path, progress=interrupted_at(14))
    assert list(outcome(tmp_path)) == ["000005", "000007", "000010"]
    assert pretrain(small(), LANGUAGE, tmp_path).resumed_from == 10
    assert outcome(tmp_path) == outcome(undisturbed)


@pytest.mark.parametrize("harmed", [["000040"], ["000028", "000040"]])
def test_a_damaged_checkpoint_is_named_and_made_again(
    harmed: list[str], undisturbed: Path, tmp_path: Path
) -> None:
    shutil.copytree(undisturbed, tmp_path, dirs_exist_ok=True)
    for name in harmed:
        weights = tmp_path / "steps" / name / "model.safetensors"
        weights.write_bytes(weights.read_bytes()[:-1])
    said: list[str] = []
    report = pretrain(small(), LANGUAGE, tmp_path, progress=lambda *words: said.append(words[3]))
    assert report.resumed_from == (28 if len(harmed) == 1 else 0)
    assert said[: len(harmed)] == list(report.damaged)
    assert all(name in sentence for name, sentence in zip(reversed(harmed), report.damaged, strict=True))
    assert all("model.safetensors is not what was written" in sentence for sentence in report.damaged)
    assert outcome(tmp_path) == outcome(undisturbed)


@pytest.mark.thorough
def test_a_run_killed_before_damaged_checkpoints_goes_on_from_where_it_was(
    undisturbed: Path, tmp_path: Path
) -> None:
    shutil.copytree(undisturbed, tmp_path, dirs_exist_ok=True)
    for name in ("000028", "000040"):
        weights = tmp_path / "steps" / name / "model.safetensors"
        weights.write_bytes(weights.read_bytes()[:-1])

    for step in (14, 20):
        with pytest.raises(KeyboardInterrupt):
            pretrain(small(), LANGUAGE, tmp_path, progress=interrupted_at(step))
    assert pretrain(small(), LANGUAGE, tmp_path).resumed_from == 14
    assert outcome(tmp_path) == outcome(undisturbed)


def test_another_language_or_device_is_refused(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="language"):
        pretrain(small(), MarkovLanguage(stay=0.5), tmp_path)
    for device in ("toaster", "meta"):
        with pytest.raises(BadInput, match=f"device '{device}'"):
            pretrain(small(), LANGUAGE, tmp_path, device=device)


def test_a_loss_that_is_no_number_stops_the_run_and_keeps_the_last_good_checkpoint(tmp_path: Path) -> None:
    rule = AdamW(learning_rate=1e20, warm_up_steps=0)
    specification = replace(small(seed=4), update_rule=rule, checkpoint_steps=log_spaced_steps(1, 40))
    with pytest.raises(
        IsolossError, match=r"(loss|weight) is .* at step \d+ of the run with seed 4"
    ) as caught:
        pretrain(specification, LANGUAGE, tmp_path)
    step = int(str(caught.value).split("at step ")[1].split()[0])
    assert step < 40
    for folder in checkpoint_folders(tmp_path):
        assert read_checkpoint(folder).step < step
        model = load_masked_language_model(folder)
        assert all(bool(weight.isfinite().all()) for weight in model.parameters())


def test_every_process_has_dropout_of_its_own(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    seeded: list[tuple[object, ...]] = []
    monkeypatch.setattr(loop_module, "seed_dropout", lambda *call: seeded.append(call))
    specification = replace(small(seed=4), steps=2, update_rule=AdamW(warm_up_steps=0), checkpoint_steps=(2,))
    pretrain(specification, LANGUAGE, tmp_path, processes=Processes(number=1))
    assert seeded == [(4, step, torch.device("cpu"), 1) for step in (1, 2)]


def test_weights_that_the_last_step_makes_infinite_are_no_checkpoint(tmp_path: Path) -> None:
    """The loss before that step is finite, and none is computed after it."""
    rule = AdamW(learning_rate=1e39, warm_up_steps=0)
    specification = replace(small(seed=4), steps=1, update_rule=rule, checkpoint_steps=(1,))
    with pytest.raises(IsolossError, match="a weight is infinite or not a number at step 1 of the run with"):
        pretrain(specification, LANGUAGE, tmp_path)
    assert not checkpoint_folders(tmp_path)


def test_what_a_language_refuses_reaches_the_caller_and_the_run_goes_on(
    undisturbed: Path, tmp_path: Path
) -> None:
    failing = FailingLanguage(good=0, error=BadInput)
    with pytest.raises(BadInput, match="cannot be sampled"):
        pretrain(replace(small(), language_digest=failing.digest), failing, tmp_path)
    held = json.loads((tmp_path / "specification.json").read_text())
    assert held["language_digest"] == failing.digest
