import shutil
from pathlib import Path

import pytest
from published_folders import MODELS


@pytest.fixture(scope="module")
def published(tmp_path_factory):
    folder = tmp_path_factory.mktemp("published")
    for name, build in MODELS.items():
        build().save_pretrained(folder / name)
    return folder


@pytest.fixture
def folder(published, tmp_path, request):
    return Path(shutil.copytree(published / request.param, tmp_path / "model"))
