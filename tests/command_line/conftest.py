from functools import partial

import pytest
from called import answer
from flatness_folders import save_models


@pytest.fixture(scope="module")
def models(tmp_path_factory):
    """The folder of `save_models`."""
    folder = tmp_path_factory.mktemp("models")
    save_models(folder)
    return folder


@pytest.fixture
def flatness(models, monkeypatch, capsys):
    """`isoloss flatness` in that folder, called with its arguments."""
    monkeypatch.chdir(models)
    return partial(answer, capsys, "flatness")
