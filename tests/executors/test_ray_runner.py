"""Runs on a Ray cluster of two nodes on this machine, one of which is killed while a run is training."""

import hashlib
import os
import signal
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest
import torch
from short_jobs import fail_with_a_sentence, write_thread_count

from isoloss.errors import BadInput, IsolossError
from isoloss.executors import ray_runner
from isoloss.executors.job import Job, Notice
from isoloss.executors.ray_runner import ShareOfNode, _refuse_too_large, run_jobs_on_ray
from isoloss.languages.dyck import dyck
from isoloss.models.transformers import PreLayerNormTransformer, laptop_shape
from isoloss.pretraining.descent import AdamW
from isoloss.pretraining.loop import pretrain
from isoloss.pretraining.specification import PretrainingSpecification
from isoloss.progress import Progress
from isoloss.results.checkpoint import checkpoint_folders

LANGUAGE = dyck(4)
SPECIFICATION = PretrainingSpecification(
    architecture=PreLayerNormTransformer(laptop_shape(16)),
    update_rule=AdamW(warm_up_steps=5),
    language_digest=LANGUAGE.digest,
    steps=60,
    batch_size=8,
    seed=0,
    checkpoint_steps=tuple(range(10, 61, 10)),
)


def test_a_share_of_a_node_is_something() -> None:
    with pytest.raises(BadInput, match="at least one core"):
        ShareOfNode(cores=0)


def test_without_ray_or_a_cluster_there_is_a_sentence() -> None:
    with pytest.raises(IsolossError, match=r"isoloss\[ray\]|no Ray cluster answers at 127.0.0.1:1"):
        run_jobs_on_ray([], address="127.0.0.1:1")


def test_a_share_that_no_living_node_has_is_refused() -> None:
    nodes = [
        {"Alive": True, "Resources": {"CPU": 8.0}},
        {"Alive": True, "Resources": {"CPU": 1.0, "GPU": 1.0}},
        {"Alive": False, "Resources": {"CPU": 64.0, "GPU": 8.0}},
    ]
    _refuse_too_large(ShareOfNode(cores=8), nodes)
    _refuse_too_large(ShareOfNode(gpus=0.5), nodes)
    for share in (ShareOfNode(cores=2, gpus=1), ShareOfNode(cores=9), ShareOfNode(gpus=2)):
        with pytest.raises(BadInput, match="no node of the Ray cluster has"):
            _refuse_too_large(share, nodes)


def train(folder: Path, slowly: bool, progress: Progress) -> list[str]:
    def at_checkpoint(*_: object) -> None:
        time.sleep(1.0 if slowly else 0.0)

    report = pretrain(SPECIFICATION, LANGUAGE, folder, progress=progress, at_checkpoint=at_checkpoint)
    return [f"went on from step {report.resumed_from} with {torch.get_num_threads()} thread"]


def kill_itself(path: Path, progress: Progress) -> list[str]:
    with path.open("a") as file:
        file.write("begun\n")
    os.kill(os.getpid(), signal.SIGKILL)
    return []


def digests(run: Path) -> list[str]:
    weights = [folder / "model.safetensors" for folder in checkpoint_folders(run)]
    return [hashlib.sha256(path.read_bytes()).hexdigest() for path in weights]


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch) -> Iterator[object]:
    # The nodes also find the jobs of this file by its name.
    paths = [str(Path(__file__).parent), os.environ.get("PYTHONPATH", "")]
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(paths))
    ray = pytest.importorskip("ray")
    utils = pytest.importorskip("ray.cluster_utils")
    found = utils.Cluster(initialize_head=True, head_node_args={"num_cpus": 1, "resources": {"head": 1}})
    yield found
    ray.shutdown()
    found.shutdown()


@pytest.mark.slow
def test_a_run_whose_node_is_killed_goes_on_on_another_to_the_same_bits(
    cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    node = cluster.add_node(num_cpus=1)
    cluster.wait_for_nodes()
    pretrain(SPECIFICATION, LANGUAGE, tmp_path / "undisturbed")
    seen: list[tuple[str, float, str]] = []

    def report(task: str, completed: float, total: float, message: str = "") -> None:
        nonlocal node
        seen.append((task, completed / total, message))
        steps = tmp_path / "here" / "a", tmp_path / "here" / "b"
        if node is not None and all((run / "steps" / "000020").exists() for run in steps):
            cluster.remove_node(node, allow_graceful=False)
            node = None

    jobs = [
        Job("a", partial(train, Path("a"), True), 5.0),
        Job("b", partial(train, Path("b"), True), 5.0),
        Job("mistake", fail_with_a_sentence, 1.0),
        Job("after a", partial(write_thread_count, Path("after a")), 1.0, after="a"),
        Job("after the mistake", partial(write_thread_count, Path("never")), 1.0, after="mistake"),
    ]
    outcome = run_jobs_on_ray(jobs, report, address=cluster.address)
    assert node is None, outcome
    assert {failure.job: failure.text for failure in outcome.failures} == {
        "mistake": "the seed must not be negative",
        "after the mistake": "it needs “mistake”, which failed",
    }
    assert sorted(path.name for path in Path.cwd().iterdir()) == ["a", "after a", "b"]
    lost = [notice.job for notice in outcome.notices if "lost 1 times" in notice.text]
    assert len(lost) == 1  # one of the two was on the node that was killed
    for job in ("a", "b"):
        texts = [notice.text for notice in outcome.notices if notice.job == job and "step" in notice.text]
        assert len(texts) == 1
        assert ("from step 0 with 1 thread" in texts[0]) == (job not in lost)
        assert digests(Path(job)) == digests(tmp_path / "undisturbed")
    assert any(task in ("a", "b") and 0 < share < 1 for task, share, _ in seen)
    assert seen[-1] == ("all runs", 1.0, "5 of 5 jobs done")


@pytest.mark.slow
def test_a_job_that_kills_its_process_is_not_begun_for_ever(
    cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ray_runner, "MOST_BEGINNINGS", 2)
    path = tmp_path / "begun"
    outcome = run_jobs_on_ray([Job("killed", partial(kill_itself, path), 1.0)], address=cluster.address)
    assert len(path.read_text().splitlines()) == 2
    assert "was lost 2 times" in outcome.failures[0].text


@pytest.mark.slow
def test_an_interrupt_stops_all_jobs(cluster, tmp_path: Path) -> None:
    def interrupt(task: str, completed: float, total: float, message: str = "") -> None:
        if (tmp_path / "a" / "steps" / "000010").exists():
            raise KeyboardInterrupt

    jobs = [Job("a", partial(train, tmp_path / "a", True), 1.0)]
    with pytest.raises(KeyboardInterrupt):
        run_jobs_on_ray(jobs, interrupt, address=cluster.address)
    time.sleep(3)
    left = len(checkpoint_folders(tmp_path / "a"))
    time.sleep(3)
    assert len(checkpoint_folders(tmp_path / "a")) == left < 6
    assert run_jobs_on_ray(jobs, address=cluster.address).notices == (
        Notice("a", f"went on from step {10 * left} with 1 thread"),
    )
