"""The tasks that are killed: a pre-training, a reproduction, a corpus, and the job of a Ray node."""

import os
import pickle
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import torch
from byte_flips import KEPT
from kill_points import Scenario
from runs import LANGUAGE, small
from small_corpora import request_for, texts

from isoloss.corpora import tokenisation
from isoloss.corpora.prepared_corpus import prepared_corpus
from isoloss.corpora.vocabulary import NamedTokenizer
from isoloss.executors.job import Work
from isoloss.executors.ray_runner import _work
from isoloss.experiments.experiment_jobs import carry_out
from isoloss.experiments.experiment_result import carry_out_experiments, remove_half_written
from isoloss.experiments.language_description import description_jobs
from isoloss.models.tokenizer import word_tokenizer
from isoloss.pretraining.checkpoint_writing import restore
from isoloss.pretraining.descent import AdamW
from isoloss.pretraining.loop import pretrain
from isoloss.pretraining.running_averages import WeightAverage  # noqa: F401 - so that children need not import it
from isoloss.progress import silent
from isoloss.results.measurement_store import Measurements
from isoloss.results.record import Record
from isoloss.stored_runs.packed_records import pack_records
from isoloss.theory.finding import Statement
from isoloss.theory.suite import SUITE, PlannedStatement, stored_statements, write_statement
from jobs_in_turn import in_turn
from norm_experiments import LANGUAGE as LANGUAGE_PLAN
from norm_experiments import experiment, planned

LOG = Path(os.devnull)
"""Where the experiments' quantities record that they were measured."""

SHORT = {"steps": 6, "checkpoint_steps": (2, 4, 6), "update_rule": AdamW(warm_up_steps=2)}


def train(folder: Path) -> None:
    """Three checkpoints, including averaged weights."""
    pretrain(small(averaging_horizon=2, **SHORT), LANGUAGE, folder / "run")


def reproduce(folder: Path) -> None:
    """Two runs, each measured at two steps, and a reference: all that `reproduce` does but the site."""
    one = experiment(planned(1, LOG, 1.0), planned(2, LOG, 2.0))
    results = carry_out_experiments([one], folder / "results", in_turn)
    if results.outcome.failures:
        raise RuntimeError(results.outcome.failures[0].text)
    assert results.experiments[0].table.drop_nulls("norm").height == 4


def prepare(folder: Path) -> None:
    """A corpus of several shards."""
    tokenisation.SHARD_CHARACTERS = 500
    outside = folder.with_suffix(".words")
    if not (outside / "tokenizer.json").exists():
        word_tokenizer([*"abcdefgh", *map(str, range(60))], 8).save_pretrained(outside)
        (folder.parent / "texts").mkdir(exist_ok=True)
    lines = [" ".join([*"abcdefgh"[: 2 + n % 6], str(n)]) for n in range(len(texts(60)))]
    request = request_for(folder.parent / "texts" / "a.txt", lines, words=NamedTokenizer(str(outside)))
    prepared_corpus(request, folder / "cache")


def run_of_a_node(folder: Path) -> Work:
    """The job of a Ray node: one run, pre-trained and measured."""
    return partial(carry_out, planned(3, LOG, 1.0), folder / "results", "cpu")


def on_a_node(folder: Path) -> None:
    """What a process of a Ray cluster does with it, after what the call that hands it out does."""
    remove_half_written(folder / "results")
    job = pickle.dumps(run_of_a_node(folder))
    deaf = SimpleNamespace(post=SimpleNamespace(remote=lambda report: None))
    here = Path.cwd()
    ended = _work("run", job, str(folder), 1, deaf)
    os.chdir(here)
    if ended.failure:
        raise RuntimeError(ended.failure)


def a_folder_of_everything(folder: Path) -> None:
    """A results folder, a cache and kept measurements: a file of every kind that isoloss writes and reads."""
    folder.mkdir(parents=True)
    reproduce(folder)
    prepare(folder)
    for job in description_jobs([LANGUAGE_PLAN], folder / "results"):
        job.work(silent)
    kept_again(folder)
    entry = SUITE[0]
    write_statement(PlannedStatement(entry, entry.smoke).file(folder / "results" / "theory"), STATEMENT)
    pack_records(folder / "results", folder / "packed.parquet")


STATEMENT = Statement("lemma", "A statement", "Of nothing.", (), (), (), ())


def kept_again(folder: Path) -> None:
    """A measurement as `compare` keeps it, measured where it is not there."""
    record = Record("loss", 2.0, "nats", 0.1, 5, 1, "a", {"x": 1.5})
    kept = Measurements(folder / "kept")
    if not kept.intact(KEPT):
        kept.write(KEPT, [record], {"loss": torch.arange(5.0)})


def statements(results: Path) -> None:
    """What `theory` and `reproduce` read about theory."""
    stored_statements(results / "theory", smoke=True)


def goes_on(checkpoint: Path) -> None:
    """What a pre-training that goes on reads of a checkpoint, though its digests told of damage."""
    deaf: Any = SimpleNamespace(load_state_dict=lambda state: None)
    said: Any = SimpleNamespace(folder=checkpoint)
    restore(said, planned(1, LOG, 1.0).architecture.build(2, 4, 0), deaf)


def all_but_training_state(path: Path) -> bool:
    """Files that must be bitwise the same; pickles of equal states may differ."""
    return not path.name.startswith("training_state")


SCENARIOS = (
    Scenario("pretrain", train, all_but_training_state),
    Scenario("reproduce", reproduce, all_but_training_state),
    Scenario("corpus", prepare, all_but_training_state),
    Scenario("Ray node", on_a_node, all_but_training_state),
)
