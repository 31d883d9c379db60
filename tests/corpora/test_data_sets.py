"""Rows of data sets as documents, through the loading common to all data sets."""

import sys
import types

import pytest
from huggingface_hub import constants

from isoloss.corpora.data_sets import HubDataSet
from isoloss.errors import BadInput, IsolossError
from isoloss.progress import silent


def with_rows(monkeypatch, rows):
    asked = []

    def load(*names, **options):
        asked.append((names, options))
        if isinstance(rows, Exception):
            raise rows
        return rows

    monkeypatch.setitem(sys.modules, "datasets", types.SimpleNamespace(load_dataset=load))
    return asked


def test_rows_are_documents(monkeypatch, tmp_path):
    asked = with_rows(monkeypatch, [{"text": "One."}, {"text": " "}, {"text": "Three."}])
    source = HubDataSet("stories:short", streaming=True)
    found = [(document.text, document.place) for document in source.documents(tmp_path, silent)]
    assert found == [("One.", "stories:short, row 1"), ("Three.", "stories:short, row 3")]
    assert asked == [(("stories", "short"), {"split": "train", "streaming": True})]
    assert source.digest == HubDataSet("stories:short").digest != HubDataSet("stories").digest


def test_a_row_without_a_text_is_blank(monkeypatch, tmp_path):
    with_rows(monkeypatch, [{"text": "One."}, {"text": None}, {"text": "Three."}])
    found = [document.place for document in HubDataSet("stories").documents(tmp_path, silent)]
    assert found == ["stories, row 1", "stories, row 3"]


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
    with_rows(monkeypatch, [{"body": "One.", "label": 1}])
    with pytest.raises(
        BadInput, match="stories, row 1: there is no text under 'text', but body, label; name"
    ):
        list(HubDataSet("stories").documents(tmp_path, silent))


def test_a_connection_that_breaks_says_where(monkeypatch, tmp_path):
    def rows():
        yield {"text": "One."}
        raise ConnectionError("timed out")

    with_rows(monkeypatch, rows())
    documents = HubDataSet("stories", streaming=True).documents(tmp_path, silent)
    assert next(documents).text == "One."
    with pytest.raises(IsolossError, match=r"stories cannot be read after row 1 \(timed out\); start again"):
        next(documents)


@pytest.mark.parametrize("reachable", [True, False])
def test_a_hub_that_cannot_be_reached_is_not_tried(monkeypatch, tmp_path, reachable):
    before, seen = constants.HF_HUB_OFFLINE, []
    monkeypatch.setattr("isoloss.corpora.data_sets.hub_is_reachable", lambda: reachable)

    def load(*names, **options):
        seen.append(constants.HF_HUB_OFFLINE)
        return []

    monkeypatch.setitem(sys.modules, "datasets", types.SimpleNamespace(load_dataset=load))
    assert not list(HubDataSet("openwebtext").documents(tmp_path, silent))
    assert seen == [before or not reachable]
    assert before == constants.HF_HUB_OFFLINE


def test_a_hub_that_cannot_be_reached_says_what_to_do_without_it(monkeypatch, tmp_path):
    with_rows(monkeypatch, ConnectionError("Couldn't reach the Hub"))
    with pytest.raises(
        BadInput, match=r"Couldn't reach the Hub; .* fetch the texts elsewhere and give them as"
    ):
        list(HubDataSet("openwebtext").documents(tmp_path, silent))
