import json
import multiprocessing
import os
import shutil
import signal
import time
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
import torch
from markov_language import MarkovLanguage
from runs import LANGUAGE, FailingLanguage, outcome, small

from isoloss.errors import BadInput, IsolossError
from isoloss.languages.sentences import Sentences
from isoloss.models.loading import load_masked_language_model
from isoloss.models.shapes import Shape
from isoloss.models.transformers import PostLayerNormTransformer
from isoloss.objectives.masked import MaskedObjective
from isoloss.pretraining.adamw import AdamW
from isoloss.pretraining.checkpoint import checkpoint_folders, read_checkpoint
from isoloss.pretraining.loop import pretrain
from isoloss.pretraining.run_folder import only_process_in
from isoloss.pretraining.seeds import caller_randomness_kept, derived_seed, seed_dropout
from isoloss.pretraining.specification import log_spaced_steps
from isoloss.pretraining.stream import Stream

FORK = multiprocessing.get_context("fork")


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("undisturbed")
    pretrain(small(), LANGUAGE, folder)
    return folder


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


def test_the_loss_falls_to_the_entropy_of_the_masked_word(tmp_path: Path) -> None:
    """A masked end word follows its neighbour; one inside is the geometric mean of two: known entropies."""
    language = MarkovLanguage(stay=0.9, shortest=3, maximum_length=3)
    specification = replace(
        small(steps=400),
        language_digest=language.digest,
        architecture=PostLayerNormTransformer(Shape(16, 2, 1, 32), dropout=0.0),
        batch_size=256,
        checkpoint_steps=(280, 400),
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
    assert "sentences/s, 0:00:" in said[0][3]
    assert 0 < report.waiting_seconds < report.seconds
    assert (report.resumed_from, report.last.step, report.damaged) == (0, 40, ())


def test_another_seed_gives_other_weights(undisturbed: Path, tmp_path: Path) -> None:
    pretrain(small(seed=1), LANGUAGE, tmp_path)
    assert not set(outcome(tmp_path).values()) & set(outcome(undisturbed).values())


def test_a_finished_run_is_left_as_it_is(undisturbed: Path, tmp_path: Path) -> None:
    before = outcome(undisturbed)
    report = pretrain(small(), LANGUAGE, undisturbed)
    assert (report.resumed_from, report.last.step) == (40, 40)
    assert outcome(undisturbed) == before


def test_ctrl_c_passes_through_and_the_run_goes_on(undisturbed: Path, tmp_path: Path) -> None:
    def interrupt(task: str, completed: float, total: float, message: str = "") -> None:
        if completed == 14:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        pretrain(small(), LANGUAGE, tmp_path, progress=interrupt)
    assert list(outcome(tmp_path)) == ["000005", "000007", "000010"]
    assert pretrain(small(), LANGUAGE, tmp_path).resumed_from == 10
    assert outcome(tmp_path) == outcome(undisturbed)


@pytest.mark.parametrize("harmed", [["000040"], ["000028", "000040"]])
def test_a_damaged_checkpoint_is_named_and_made_again(
    harmed: list[str], undisturbed: Path, tmp_path: Path
) -> None:
    pretrain(small(), LANGUAGE, tmp_path)
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


LONG = small(steps=200)


def _train_long(folder: Path, workers: int) -> None:
    torch.set_num_threads(1)
    pretrain(LONG, LANGUAGE, folder, workers=workers)


@pytest.mark.parametrize("workers", [0, 1])
def test_killed_at_random_moments_a_run_ends_with_the_undisturbed_bits(workers: int, tmp_path: Path) -> None:
    _train_long(tmp_path / "undisturbed", workers=0)
    generator = torch.Generator().manual_seed(workers)
    folder = tmp_path / "killed"
    for _ in range(3):
        before = len(checkpoint_folders(folder))
        process = FORK.Process(target=_train_long, args=(folder, workers))
        process.start()
        # A random moment after the next checkpoint: the run gets on, however slow the machine.
        while len(checkpoint_folders(folder)) == before and process.is_alive():
            time.sleep(0.001)
        process.join(timeout=0.1 * float(torch.rand((), generator=generator)))
        process.kill()
        process.join()
        assert process.exitcode == -signal.SIGKILL
    process = FORK.Process(target=_train_long, args=(folder, workers))
    process.start()
    process.join()
    assert process.exitcode == 0
    assert outcome(folder) == outcome(tmp_path / "undisturbed")
    assert all(path.name.isdigit() for path in (folder / "steps").iterdir())


def _killed_while_writing(folder: Path, name: str) -> None:
    """Kill this process as it writes the file `name` of its third checkpoint."""
    seen = 0
    plain = Path.open

    def deadly(path: Path, *arguments: object, **keywords: object) -> object:
        nonlocal seen
        if path.name == name and path.parent.name.endswith(".part") and arguments[:1] != ("rb",):
            seen += 1
            if seen == 3:
                os.kill(os.getpid(), signal.SIGKILL)
        return plain(path, *arguments, **keywords)

    Path.open = deadly  # type: ignore[method-assign, assignment]
    pretrain(small(), LANGUAGE, folder)


@pytest.mark.parametrize("name", ["model.safetensors", "training_state.pt", "checkpoint.json"])
def test_killed_in_the_middle_of_a_checkpoint(name: str, undisturbed: Path, tmp_path: Path) -> None:
    process = FORK.Process(target=_killed_while_writing, args=(tmp_path, name))
    process.start()
    process.join()
    assert process.exitcode == -signal.SIGKILL
    assert any(path.name.endswith(".part") for path in (tmp_path / "steps").iterdir())
    assert pretrain(small(), LANGUAGE, tmp_path).resumed_from == 7
    assert outcome(tmp_path) == outcome(undisturbed)


def test_a_second_run_in_the_folder_is_refused_while_the_first_lives(tmp_path: Path) -> None:
    def hold(ready: object) -> None:
        with only_process_in(tmp_path):
            ready.set()
            signal.pause()

    ready = FORK.Event()
    process = FORK.Process(target=hold, args=(ready,))
    process.start()
    ready.wait()
    with pytest.raises(IsolossError, match=rf"another run is training in .* \(process {process.pid} on "):
        pretrain(small(), LANGUAGE, tmp_path)
    assert not (tmp_path / "specification.json").exists()
    process.kill()
    process.join()
    with only_process_in(tmp_path), pytest.raises(IsolossError, match=rf"process {os.getpid()} on "):
        pretrain(small(), LANGUAGE, tmp_path)
    pretrain(small(steps=10), LANGUAGE, tmp_path)


def test_another_specification_is_refused_with_what_differs(undisturbed: Path) -> None:
    before = outcome(undisturbed)
    for changed, words in (
        (replace(small(), batch_size=17), "its batch_size is 16, not 17"),
        (small(seed=3), "its seed is 0, not 3"),
        (
            replace(small(), update_rule=AdamW(warm_up_steps=10)),
            "its update_rule.learning_rate is 0.01, not 0.001",
        ),
    ):
        with pytest.raises(BadInput, match=words):
            pretrain(changed, LANGUAGE, undisturbed)
    assert outcome(undisturbed) == before


def test_another_language_or_device_is_refused(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="language"):
        pretrain(small(), MarkovLanguage(stay=0.5), tmp_path)
    for device in ("toaster", "meta"):
        with pytest.raises(BadInput, match=f"device '{device}'"):
            pretrain(small(), LANGUAGE, tmp_path, device=device)


def test_a_damaged_specification_is_written_anew_where_nothing_speaks_against_it(
    undisturbed: Path, tmp_path: Path
) -> None:
    folder = shutil.copytree(undisturbed, tmp_path / "run")
    path = folder / "specification.json"
    whole = path.read_text()
    path.write_text(whole.replace("40", "41", 1))
    with pytest.raises(BadInput, match=r"is damaged, and checkpoints in .* are of another run than this"):
        pretrain(small(seed=9), LANGUAGE, folder)
    assert pretrain(small(), LANGUAGE, folder).resumed_from == 40
    assert path.read_text() == whole


def test_a_file_in_the_way_gives_a_sentence(tmp_path: Path) -> None:
    (tmp_path / "taken").write_text("a file")
    with pytest.raises(IsolossError, match="cannot write in"):
        pretrain(small(), LANGUAGE, tmp_path / "taken" / "run")


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


def test_what_a_language_refuses_reaches_the_caller_and_the_run_goes_on(
    undisturbed: Path, tmp_path: Path
) -> None:
    failing = FailingLanguage(good=0, error=BadInput)
    with pytest.raises(BadInput, match="cannot be sampled"):
        pretrain(replace(small(), language_digest=failing.digest), failing, tmp_path)
    held = json.loads((tmp_path / "specification.json").read_text())
    assert held["language_digest"] == failing.digest


@dataclass(frozen=True)
class _DiesInAWorker(MarkovLanguage):
    parent: int = 0
    digest: str = "dies"

    def sample(self, n: int, generator: torch.Generator) -> Sentences:
        if os.getpid() != self.parent:
            os.kill(os.getpid(), signal.SIGKILL)
        return super().sample(n, generator)


def test_a_run_whose_worker_was_killed_says_so_and_goes_on_without(tmp_path: Path) -> None:
    language = _DiesInAWorker(parent=os.getpid())
    specification = replace(small(), language_digest="dies")
    with pytest.raises(IsolossError, match="worker process that prepares batches was killed"):
        pretrain(specification, language, tmp_path, workers=1)
    assert pretrain(specification, language, tmp_path, workers=0).last.step == 40
