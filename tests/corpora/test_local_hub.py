"""The code that loads data sets, end to end, from a hub on this machine: OpenWebText's form, and GLUE's."""

import io
import json
from collections.abc import Iterator
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
from small_corpora import texts

import isoloss.corpora.tokenisation as tokenisation
from isoloss.command_line.corpus import CorpusOptions
from isoloss.command_line.corpus import corpus as prepare
from isoloss.corpora.data_sets import HubDataSet
from isoloss.corpora.glue import GlueName, GlueTask
from isoloss.corpora.prepared_corpus import CorpusRequest, prepared_corpus
from isoloss.corpora.vocabulary import OwnVocabulary
from isoloss.errors import BadInput, IsolossError
from isoloss.experiments.planned_folder import store_plan
from isoloss.experiments.planned_run import CorpusPlan
from isoloss.models.names import refuse_absent_data_set
from isoloss.progress import silent
from local_hub import commit, local_hub
from norm_experiments import RUN

pa = pytest.importorskip("pyarrow")
pq = pytest.importorskip("pyarrow.parquet")
pytestmark = pytest.mark.skipif(find_spec("datasets") is None, reason="there is no package datasets")

OWNER_NAME = "someone/pages"
PARQUET = "refs/convert/parquet"
SCRIPT = b"raise SystemExit('a script of the data set was run')\n"
LINES = texts()
SENTENCES = {"train": texts(40, seed=1), "validation": texts(20, seed=2), "test": texts(10, seed=3)}
COLUMNS = {"sst2": ("sentence",), "qnli": ("question", "sentence"), "rte": ("sentence1", "sentence2")}
CLASSES = {
    "sst2": ["negative", "positive"],
    "qnli": ["entailment", "not_entailment"],
    "rte": ["entailment", "not_entailment"],
}


def parquet(**columns: object) -> bytes:
    file = io.BytesIO()
    pq.write_table(pa.table(columns), file)
    return file.getvalue()


def glue() -> dict[str, bytes]:
    """GLUE as the hub has it: a folder a task, a file a split, and what is in them in the card."""
    files: dict[str, bytes] = {}
    card = ["---", "configs:"]
    information = ["dataset_info:"]
    for task, columns in COLUMNS.items():
        card += [f"- config_name: {task}", "  data_files:"]
        information += [f"- config_name: {task}", "  features:"]
        information += [line for name in columns for line in (f"  - name: {name}", "    dtype: string")]
        names = [f"          '{number}': {name}" for number, name in enumerate(CLASSES[task])]
        information += ["  - name: label", "    dtype:", "      class_label:", "        names:", *names]
        for split, lines in SENTENCES.items():
            path = f"{task}/{split}-00000-of-00001.parquet"
            card += [f"  - split: {split}", f"    path: {task}/{split}-*"]
            labels = [-1 if split == "test" else number % 2 for number in range(len(lines))]
            files[path] = parquet(**{name: [f"{name} {x}" for x in lines] for name in columns}, label=labels)
    files["README.md"] = "\n".join([*card, *information, "---", ""]).encode()
    return files


def broken_glue() -> dict[str, bytes]:
    """GLUE with a file that ends too soon, and without one that the card names."""
    files = glue()
    files["sst2/validation-00000-of-00001.parquet"] = files["sst2/validation-00000-of-00001.parquet"][:200]
    del files["qnli/validation-00000-of-00001.parquet"]
    return files


WHOLE = parquet(text=LINES)
HUB = {
    OWNER_NAME: {
        "main": {"pages.py": SCRIPT, "README.md": b""},
        PARQUET: {"plain_text/train/0000.parquet": WHOLE},
    },
    "someone/large": {
        "main": {"large.py": SCRIPT, "README.md": b""},
        PARQUET: {
            "tales/partial-train/0000.parquet": WHOLE,
            "songs/train/0000.parquet": parquet(text=["a song"]),
            "songs-and-tales/partial-train/0000.parquet": WHOLE,
        },
    },
    "someone/torn": {
        "main": {"torn.py": SCRIPT, "README.md": b""},
        PARQUET: {"plain_text/train/0000.parquet": WHOLE, "plain_text/train/0001.parquet": WHOLE[:-30]},
    },
    "nyu-mll/glue": {"main": glue()},
    "someone/two": {
        "main": {"two.py": SCRIPT, "README.md": b""},
        PARQUET: {
            "tales/train/0000.parquet": parquet(text=LINES[:5]),
            "tales/train/0001.parquet": parquet(text=LINES[5:]),
            "songs/train/0000.parquet": parquet(text=["a song"]),
        },
    },
    "someone/tables": {
        "main": {
            "README.md": b"---\nconfigs:\n- config_name: a\n  data_files: a.parquet\n"
            b"- config_name: b\n  data_files: b.parquet\n---\n",
            "a.parquet": parquet(text=["a"]),
            "b.parquet": parquet(text=["b"]),
        }
    },
}


@pytest.fixture
def _hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    import datasets

    with local_hub(HUB) as hub:
        hub.is_asked(monkeypatch, tmp_path / "hub")
        for name, value in {"HF_ENDPOINT": hub.address, "HF_DATASETS_CACHE": tmp_path / "sets"}.items():
            monkeypatch.setattr(datasets.config, name, value)
        yield


@pytest.mark.thorough
@pytest.mark.usefixtures("_hub")
def test_documents_are_read_from_the_hub_at_the_commit_of_a_revision(tmp_path: Path) -> None:
    source = HubDataSet(OWNER_NAME, streaming=True, revision=PARQUET)
    assert [document.text for document in source.documents(tmp_path, silent)] == LINES
    assert source.commit == commit(OWNER_NAME, PARQUET, HUB[OWNER_NAME][PARQUET])
    assert HubDataSet(OWNER_NAME).commit == commit(OWNER_NAME, PARQUET, HUB[OWNER_NAME][PARQUET])
    assert HubDataSet("someone/tables:a").commit == commit(
        "someone/tables", "main", HUB["someone/tables"]["main"]
    )
    absent = HubDataSet("someone/nothing").documents(tmp_path, silent)
    with pytest.raises(BadInput, match="no data set can be read from someone/nothing: "):
        next(absent)


@pytest.mark.usefixtures("_hub")
@pytest.mark.parametrize("revision", [pytest.param(None, marks=pytest.mark.thorough), PARQUET])
def test_a_configuration_is_a_folder_of_the_hubs_own_parquet_files(
    revision: str | None, tmp_path: Path
) -> None:
    """`datasets` would read songs and tales as one data set."""

    def read(name: str) -> list[str]:
        source = HubDataSet(name, streaming=True, revision=revision)
        return [document.text for document in source.documents(tmp_path, silent)]

    assert read("someone/two:tales") == LINES
    assert read("someone/two:songs") == ["a song"]
    for name, says in (("someone/two", "several conf"), ("someone/two:none", "no configuration 'none'")):
        with pytest.raises(BadInput, match=f"the data set someone/two has {says}.*name one of songs, tales"):
            read(name)


@pytest.mark.thorough
@pytest.mark.usefixtures("_hub")
def test_a_configuration_that_has_to_be_named_is_told(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match=r"someone/tables: Config name is missing\. .*\['a', 'b'\]"):
        next(HubDataSet("someone/tables").documents(tmp_path, silent))


@pytest.mark.usefixtures("_hub")
@pytest.mark.parametrize("streaming", [False, pytest.param(True, marks=pytest.mark.thorough)])
def test_a_file_that_ends_too_soon_is_told_and_nothing_is_made_of_it(streaming: bool, tmp_path: Path) -> None:
    source = HubDataSet("someone/torn", streaming=streaming)
    request = CorpusRequest(source, OwnVocabulary(100), length=8, validation_share=0.2)
    with pytest.raises(IsolossError, match=r"someone/torn.*Parquet magic bytes not found"):
        prepared_corpus(request, tmp_path)
    assert not list((tmp_path / "corpora").glob("*/corpus.json"))


@pytest.mark.thorough
@pytest.mark.usefixtures("_hub")
def test_the_first_part_of_a_large_data_set_is_told_to_be_no_more(tmp_path: Path) -> None:
    """Of more than some gigabytes the hub makes Parquet files of the first ones, which look like all."""

    def told(name: str) -> list[str]:
        reports: list[str] = []
        source = HubDataSet(name, streaming=True, revision=PARQUET)
        _ = list(source.documents(tmp_path, lambda *report: reports.append(report[-1])))
        return reports

    (report,) = told("someone/large:tales")
    assert report == "someone/large:tales: the hub has only the first part of it as Parquet files"
    assert told("someone/large:songs") == told(OWNER_NAME) == []


@pytest.mark.usefixtures("_hub")
def test_the_command_says_that_a_corpus_is_a_first_part(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for name, is_first in (("someone/large:tales", True), (OWNER_NAME, False)):
        asked = CorpusOptions((name,), vocabulary=100, length=8, validation_share=0.2, cache=tmp_path)
        prepare(asked)
        assert ("the first part of the data set alone" in capsys.readouterr().out) == is_first


@pytest.mark.usefixtures("_hub")
@pytest.mark.parametrize(
    ("task", "says"),
    [
        pytest.param("sst2", "Parquet magic bytes not found", marks=pytest.mark.thorough),
        ("qnli", '"validation" corresponds to no data'),
    ],
)
def test_a_task_of_which_a_file_is_torn_or_missing_is_told(
    task: str, says: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setitem(HUB, "nyu-mll/glue", {"main": broken_glue()})
    with pytest.raises(BadInput, match=f"nyu-mll/glue:{task}: .*{says}"):
        GlueTask(task).task(tmp_path, silent)


@pytest.mark.usefixtures("_hub")
@pytest.mark.parametrize("commit_changes", [pytest.param(False, marks=pytest.mark.thorough), True])
def test_an_interrupted_preparation_goes_on_with_the_commit_that_it_began_with_alone(
    commit_changes: bool, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Half of a corpus from one commit and half from the next would be neither."""
    monkeypatch.setattr(tokenisation, "SHARD_CHARACTERS", 500)
    after = texts(seed=9) if commit_changes else LINES
    request = CorpusRequest(HubDataSet(OWNER_NAME), OwnVocabulary(100), length=8, validation_share=0.2)
    encode, calls = tokenisation._encoded, iter(range(3))

    def interrupted(*arguments: Any) -> Any:
        if next(calls, None) is None:
            raise KeyboardInterrupt
        return encode(*arguments)

    with monkeypatch.context() as patch:
        patch.setattr(tokenisation, "_encoded", interrupted)
        with pytest.raises(KeyboardInterrupt):
            prepared_corpus(request, tmp_path / "cut")
    changed = {
        "main": HUB[OWNER_NAME]["main"],
        PARQUET: {"plain_text/train/0000.parquet": parquet(text=after)},
    }
    monkeypatch.setitem(HUB, OWNER_NAME, changed)
    told: list[str] = []
    again = replace(request, source=HubDataSet(OWNER_NAME))  # as another process asks
    made = prepared_corpus(again, tmp_path / "cut", lambda *report: told.append(report[-1]))
    assert made.digest == prepared_corpus(again, tmp_path / "whole").digest
    assert ("the data set has changed on the hub: the corpus is prepared anew" in told) == commit_changes
    sealed = json.loads((made.folder / "corpus.json").read_text())
    assert sealed["commit"] == made.commit == commit(OWNER_NAME, PARQUET, changed[PARQUET])
    run = replace(RUN, language=CorpusPlan(again, len(made.vocabulary)), measured=())
    store_plan(run, made, tmp_path)
    assert json.loads((run.folder(tmp_path) / "plan.json").read_text())["language"]["commit"] == made.commit
    assert not {"commit", "journal.json"} & {path.name for path in made.folder.iterdir()}


@pytest.mark.thorough
@pytest.mark.usefixtures("_hub")
def test_a_scripted_data_set_is_read_from_its_parquet_files_and_no_bars_are_written(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """No bars of progress, since no terminal shows them."""
    request = CorpusRequest(HubDataSet(OWNER_NAME, revision=PARQUET), OwnVocabulary(100), 8, 0.2)
    corpus = prepared_corpus(request, tmp_path / "cache")
    assert [each.text for each in HubDataSet(OWNER_NAME).documents(tmp_path, silent)] == LINES
    assert corpus.counts.documents == len(LINES)
    assert corpus.commit == commit(OWNER_NAME, PARQUET, HUB[OWNER_NAME][PARQUET])
    assert "Generating" not in capfd.readouterr().err


@pytest.mark.usefixtures("_hub")
def test_a_data_set_that_the_hub_has_not_is_told_before_it_is_read() -> None:
    refuse_absent_data_set(OWNER_NAME)
    with pytest.raises(BadInput, match="no data set of that name on the hub"):
        refuse_absent_data_set("someone/nothing")


@pytest.mark.thorough
@pytest.mark.usefixtures("_hub")
@pytest.mark.parametrize("task", COLUMNS)
def test_glue_is_split_by_hash_and_tested_on_its_validation_part(task: GlueName, tmp_path: Path) -> None:
    source = GlueTask(task)
    read = source.task(tmp_path, silent)
    assert read.classes == tuple(CLASSES[task])
    assert source.commit == commit("nyu-mll/glue", "main", HUB["nyu-mll/glue"]["main"])
    first, *second = COLUMNS[task]
    lines = SENTENCES["validation"]
    assert read.test.texts == tuple(f"{first} {line}" for line in lines)
    assert read.test.seconds == (tuple(f"{second[0]} {line}" for line in lines) if second else None)
    assert read.test.labels == tuple(number % 2 for number in range(len(lines)))
    others = sorted(read.train.texts + read.validation.texts)
    assert others == sorted(f"{first} {line}" for line in SENTENCES["train"])
