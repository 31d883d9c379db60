import shutil
from dataclasses import replace
from pathlib import Path

import pytest
import safetensors.torch
import torch
from runs import LANGUAGE, optimiser_state, outcome, small
from transformers import AutoModelForMaskedLM, AutoTokenizer

from isoloss.errors import BadInput, IsolossError
from isoloss.models.loading import load_masked_language_model
from isoloss.models.transformers import PreLayerNormTransformer, Shape
from isoloss.pretraining.loop import pretrain
from isoloss.pretraining.running_averages import WeightAverage
from isoloss.pretraining.specification import Compute, PretrainingSpecification
from isoloss.results.checkpoint import Checkpoint, checkpoint_folders, read_checkpoint

HORIZON = 6
AVERAGED = small(averaging_horizon=HORIZON)


def tiny() -> torch.nn.Module:
    return PreLayerNormTransformer(Shape(8, 2, 1, 16)).build(2, 6, seed=0)


def moved(model: torch.nn.Module, steps: int) -> list[torch.Tensor]:
    """The model's parameters after each of several random steps, which are taken on request."""
    generator = torch.Generator().manual_seed(5)
    for _ in range(steps):
        for parameter in model.parameters():
            parameter.data += torch.randn(parameter.shape, generator=generator, dtype=parameter.dtype)
        yield [parameter.detach().clone() for parameter in model.parameters()]


@pytest.mark.parametrize("steps", [1, 3, HORIZON, 20])
def test_the_average_is_the_weighted_sum_written_out(steps: int) -> None:
    model = tiny().double()
    average = WeightAverage(model, HORIZON)
    after = []
    for step, weights in enumerate(moved(model, steps), start=1):
        after.append(weights)
        average.update(step)
    equal = min(steps, HORIZON)
    decayed = [(1 - 1 / HORIZON) ** (steps - max(step, equal)) for step in range(1, steps + 1)]
    shares = [decay / equal for decay in decayed]
    assert sum(shares) == pytest.approx(1)
    expected = [
        sum(share * each for share, each in zip(shares, of_steps, strict=True))
        for of_steps in zip(*after, strict=True)
    ]
    for given, wanted in zip(average.model.parameters(), expected, strict=True):
        torch.testing.assert_close(given, torch.nn.Parameter(wanted), rtol=1e-12, atol=1e-12)


def test_tied_parameters_stay_tied_and_buffers_are_the_models() -> None:
    model = tiny()
    model.register_buffer("seen", torch.zeros(3))
    average = WeightAverage(model, HORIZON)
    model.seen.fill_(7.0)
    average.update(1)
    kept = average.model
    assert kept.get_input_embeddings().weight is kept.get_output_embeddings().weight
    assert kept.get_input_embeddings().weight is not model.get_input_embeddings().weight
    assert kept.seen.tolist() == [7.0] * 3


@pytest.fixture(scope="module")
def averaged(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("averaged")
    pretrain(AVERAGED, LANGUAGE, folder)
    return folder


def test_a_checkpoint_holds_the_average_and_beside_it_the_weights_of_the_plain_run(
    averaged: Path, undisturbed: Path
) -> None:
    for folder, plain in zip(checkpoint_folders(averaged), checkpoint_folders(undisturbed), strict=True):
        ours, theirs = read_checkpoint(folder), read_checkpoint(plain)
        assert ours.raw_digest == theirs.digest != ours.digest
        assert theirs.raw_digest is None
        assert ours.training_loss == theirs.training_loss
    assert all(map(torch.equal, optimiser_state(averaged), optimiser_state(undisturbed)))


@pytest.mark.thorough
def test_the_loops_average_is_that_of_the_weights_after_every_step(tmp_path: Path) -> None:
    every_step = small(steps=12, checkpoint_steps=tuple(range(1, 13)), averaging_horizon=HORIZON)
    pretrain(every_step, LANGUAGE, tmp_path)
    raw = [load_masked_language_model(folder / "raw") for folder in checkpoint_folders(tmp_path)]
    average = WeightAverage(raw[0], HORIZON)
    for step, (folder, model) in enumerate(zip(checkpoint_folders(tmp_path), raw, strict=True), start=1):
        raw[0].load_state_dict(model.state_dict())
        average.update(step)
        kept = load_masked_language_model(folder)
        assert all(map(torch.equal, kept.parameters(), average.model.parameters())), step


def test_transformers_loads_both(averaged: Path) -> None:
    folder = checkpoint_folders(averaged)[-1]
    for place in (folder, folder / "raw"):
        model, found = AutoModelForMaskedLM.from_pretrained(place, output_loading_info=True)
        assert not any(found[kind] for kind in ("missing_keys", "unexpected_keys", "mismatched_keys"))
        assert model.get_input_embeddings().weight is model.get_output_embeddings().weight
        assert len(AutoTokenizer.from_pretrained(place)) > 2


@pytest.mark.thorough
def test_who_is_told_of_a_checkpoint_is_handed_the_model_in_it(averaged: Path, tmp_path: Path) -> None:
    def compare(checkpoint: Checkpoint, model: torch.nn.Module) -> None:
        kept = load_masked_language_model(checkpoint.folder)
        assert all(map(torch.equal, kept.parameters(), model.parameters()))
        assert model.training

    pretrain(AVERAGED, LANGUAGE, tmp_path, at_checkpoint=compare)
    assert outcome(tmp_path) == outcome(averaged)


@pytest.mark.parametrize("name", ["raw/model.safetensors", "raw/config.json"])
def test_a_damaged_raw_file_is_named(name: str, averaged: Path, tmp_path: Path) -> None:
    shutil.copytree(averaged, tmp_path, dirs_exist_ok=True)
    newest = checkpoint_folders(tmp_path)[-1]
    (newest / name).write_bytes(b"harmed")
    with pytest.raises(IsolossError, match=rf"{newest.name} is damaged: {name} is not what"):
        read_checkpoint(newest)
    assert pretrain(AVERAGED, LANGUAGE, tmp_path).resumed_from == 28
    assert outcome(tmp_path) == outcome(averaged)


@pytest.mark.thorough
@pytest.mark.parametrize("compute", [Compute(micro_batch=5), Compute("bfloat16")], ids=repr)
def test_how_the_gradient_is_computed_is_none_of_its_business(compute: Compute, tmp_path: Path) -> None:
    plain = small(steps=10, compute=compute)
    pretrain(plain, LANGUAGE, tmp_path / "plain")
    pretrain(replace(plain, averaging_horizon=4), LANGUAGE, tmp_path / "averaged")
    digests = [read_checkpoint(folder).digest for folder in checkpoint_folders(tmp_path / "plain")]
    folders = checkpoint_folders(tmp_path / "averaged")
    assert [read_checkpoint(folder).raw_digest for folder in folders] == digests
    kept = safetensors.torch.load_file(folders[-1] / "model.safetensors")
    assert all(tensor.dtype == torch.float32 for tensor in kept.values())


@pytest.mark.thorough
def test_a_run_that_continues_starts_from_what_the_folder_holds(averaged: Path, tmp_path: Path) -> None:
    start = read_checkpoint(checkpoint_folders(averaged)[-1])
    after = small(steps=10, seed=1, start_from=start.digest, averaging_horizon=3)
    still = replace(after, update_rule=replace(after.update_rule, learning_rate=1e-30, weight_decay=0.0))
    pretrain(still, LANGUAGE, tmp_path, start_from=start.folder)
    folder = checkpoint_folders(tmp_path)[-1]
    for place in (folder, folder / "raw"):
        model, origin = load_masked_language_model(place), load_masked_language_model(start.folder)
        assert all(map(torch.equal, model.parameters(), origin.parameters()))


def test_a_horizon_names_the_run() -> None:
    digests = {small(averaging_horizon=horizon).digest for horizon in (None, 1, 200)}
    assert len(digests) == 3
    with pytest.raises(BadInput, match="at least one step, not 0"):
        PretrainingSpecification(**{**vars(small()), "averaging_horizon": 0})
