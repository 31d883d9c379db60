from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from packed_runs import Packed


@pytest.fixture(scope="session")
def packed(tmp_path_factory: pytest.TempPathFactory) -> "Packed":
    from packed_runs import packed_runs

    return packed_runs(tmp_path_factory.mktemp("packed"))
