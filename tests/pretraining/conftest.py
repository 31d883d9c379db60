from pathlib import Path

import pytest
from runs import LANGUAGE, small

from isoloss.pretraining.loop import pretrain


@pytest.fixture(scope="session")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the `small` run, trained at once."""
    folder = tmp_path_factory.mktemp("undisturbed")
    pretrain(small(), LANGUAGE, folder)
    return folder
