"""Data sets as corpora, through the one function that loads them."""

import sys
from dataclasses import replace
from types import SimpleNamespace

import pytest
from huggingface_hub import constants
from small_corpora import loading

from isoloss.corpora.data_sets import HubDataSet, read_data_set
from isoloss.corpora.glue import GlueTask
from isoloss.errors import BadInput, IsolossError
from isoloss.models.tokenizer import word_tokenizer
from isoloss.progress import silent

TOKENIZER = word_tokenizer(["the", "cat", "a", "dog"], 7)


def test_rows_are_documents(monkeypatch, tmp_path):
    asked = loading(monkeypatch, [{"text": "One."}, {"text": " "}, {"text": None}, {"text": "Four."}])
    source = HubDataSet("stories:short", streaming=True)
    found = [(document.text, document.place) for document in source.documents(tmp_path, silent)]
    assert found == [("One.", "stories:short, row 1"), ("Four.", "stories:short, row 4")]
    assert asked == [(("stories", "short"), {"split": "train", "streaming": True})]
    assert source.digest == HubDataSet("stories:short").digest != HubDataSet("stories").digest
    assert HubDataSet("stories", revision="v1").digest != HubDataSet("stories").digest


def test_a_folder_is_read_wherever_it_is_named_from(monkeypatch, tmp_path):
    asked = loading(monkeypatch, [{"text": "One."}])
    monkeypatch.chdir(tmp_path)
    assert [document.place for document in HubDataSet(".").documents(tmp_path, silent)] == ["., row 1"]
    assert asked[0][0] == (str(tmp_path), None)


def test_a_folders_data_set_is_named_by_its_files(tmp_path):
    digests = set()
    for folder, text in (("a", "One."), ("b", "Two.")):
        (tmp_path / folder / "train").mkdir(parents=True)
        (tmp_path / folder / "train" / "x.txt").write_text(text)
        digests.add(HubDataSet(str(tmp_path / folder)).digest)
    (tmp_path / "a" / "train" / "x.txt").write_text("Three.")
    digests.add(HubDataSet(str(tmp_path / "a")).digest)
    (tmp_path / "a" / "train" / "x.txt").write_text("One.")
    digests.add(HubDataSet(str(tmp_path / "a")).digest)
    assert len(digests) == 3


def test_rows_without_the_column_are_named(monkeypatch, tmp_path):
    loading(monkeypatch, [{"body": "One.", "label": 1}])
    with pytest.raises(
        BadInput, match="stories, row 1: there is no text under 'text', but body, label; name"
    ):
        list(HubDataSet("stories").documents(tmp_path, silent))


def test_a_connection_that_breaks_says_where(monkeypatch, tmp_path):
    def rows():
        yield {"text": "One."}
        raise ConnectionError("timed out")

    loading(monkeypatch, rows())
    documents = HubDataSet("stories", streaming=True).documents(tmp_path, silent)
    assert next(documents).text == "One."
    with pytest.raises(IsolossError, match=r"stories cannot be read after row 1 \(timed out\); start again"):
        next(documents)


class Part:
    """One split of a data set, given its columns."""

    def __init__(self, **columns):
        self.columns = columns
        self.column_names = list(columns)

    def __len__(self):
        return len(next(iter(self.columns.values())))

    def __getitem__(self, key):
        if isinstance(key, str):
            return self.columns[key]
        return {name: column[key] for name, column in self.columns.items()}


def test_a_data_sets_validation_part_is_read(monkeypatch):
    parts = {"train": Part(text=["a"]), "validation": Part(label=[0, 1, 1], text=["the cat", " ", "a dog"])}
    asked = loading(monkeypatch, parts)
    corpus = replace(read_data_set("stories:short"), tokenizer=TOKENIZER)
    assert asked == [(("stories", "short"), {})]
    assert [sentence.line for sentence in corpus.sentences([0, 1])] == [1, 3]


def test_a_missing_first_text_does_not_hide_its_column(monkeypatch):
    loading(monkeypatch, {"train": Part(label=["x", "x"], text=[None, "a dog"])})
    corpus = replace(read_data_set("stories"), tokenizer=TOKENIZER)
    assert [sentence.line for sentence in corpus.sentences([0])] == [2]


@pytest.mark.parametrize(
    ("part", "sentence"),
    [
        (
            Part(question=["a"], answer=["a"]),
            "no column 'text' and not just one column of strings, but question",
        ),
        (Part(number=[1]), "no column 'text'"),
        (Part(text=["", ""]), "has no texts in its train part"),
    ],
)
def test_data_sets_without_texts_are_refused(monkeypatch, part, sentence):
    loading(monkeypatch, {"train": part})
    with pytest.raises(BadInput, match=sentence):
        read_data_set("odd")


def as_sentences(name, cache):
    read_data_set(name)


def as_documents(name, cache):
    list(HubDataSet(name).documents(cache, silent))


def as_task(name, cache):
    GlueTask("sst2").task(cache, silent)


@pytest.mark.parametrize(
    ("read", "name"), [(as_sentences, "none"), (as_documents, "none"), (as_task, "nyu-mll/glue:sst2")]
)
def test_a_hub_out_of_reach_is_one_sentence_that_says_what_to_do(monkeypatch, tmp_path, read, name):
    loading(monkeypatch, ConnectionError("Couldn't find it.\nAnd more."))
    with pytest.raises(
        BadInput,
        match=f"no data set can be read from {name}: Couldn't find it; give a folder, .* carry its cache "
        "here and name that in HF_HOME, or fetch the texts elsewhere and give them as files",
    ):
        read(name, tmp_path)
    monkeypatch.setitem(sys.modules, "datasets", None)
    with pytest.raises(BadInput, match=f"the data set {name} needs the package `datasets`"):
        read(name, tmp_path)


def caused(message, cause):
    error = ValueError(message)
    error.__cause__ = cause
    return error


@pytest.mark.parametrize(
    ("raised", "says"),
    [
        (
            OSError(
                "404 Client Error. (Request ID: a)\n\nEntry Not Found for url: http://hub/a.parquet.\nMore."
            ),
            ".*a.parquet; give a folder",
        ),
        (OSError("Config name is missing.\nPlease pick one: ['a', 'b']"), r".*\['a', 'b'\]; give a folder"),
        (
            caused("An error occurred while generating the dataset", OSError("No space left on device")),
            "No space left on device; give a folder",
        ),
        # `datasets` itself finds no configuration of a script's Parquet files in its cache.
        (
            ValueError("Couldn't find cache for two for config 'tales'\nAvailable: default"),
            ".* can be reached, as it has to be for a configuration .* script, or f",
        ),
    ],
)
def test_what_an_error_is_of_is_told(monkeypatch, raised, says):
    loading(monkeypatch, raised)
    with pytest.raises(BadInput, match=f"from two:tales: {says}"):
        read_data_set("two:tales")


def test_a_folder_needs_the_package_too(monkeypatch, tmp_path):
    monkeypatch.setitem(sys.modules, "datasets", None)
    with pytest.raises(BadInput, match="as a data set, needs the package `datasets`"):
        as_sentences(str(tmp_path), tmp_path)


@pytest.mark.parametrize("reachable", [True, False])
def test_a_hub_that_cannot_be_reached_is_not_tried(monkeypatch, tmp_path, reachable):
    before, seen = constants.HF_HUB_OFFLINE, []
    monkeypatch.setattr("isoloss.corpora.data_sets.hub_is_reachable", lambda: reachable)

    def load(*names, **options):
        seen.append(constants.HF_HUB_OFFLINE)
        return []

    monkeypatch.setitem(
        sys.modules, "datasets", SimpleNamespace(load_dataset=load, are_progress_bars_disabled=lambda: True)
    )
    as_documents("openwebtext", tmp_path)
    assert seen == [before or not reachable]
    assert before == constants.HF_HUB_OFFLINE
