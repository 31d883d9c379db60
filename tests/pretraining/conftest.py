from pathlib import Path

import pytest


@pytest.fixture(scope="session")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the `small` run, trained at once."""
    # Imported now: pytest may read this file before types are checked in what is imported.
    from runs import LANGUAGE, small

    from isoloss.pretraining.loop import pretrain

    folder = tmp_path_factory.mktemp("undisturbed")
    pretrain(small(), LANGUAGE, folder)
    return folder
