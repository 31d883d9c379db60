"""Files that stand in a package's source distribution alone, which pip unpacks and may then refuse."""

import hashlib
import subprocess
from pathlib import Path

import pytest

import isoloss.corpora.fetched_package as fetched_package
from isoloss.corpora.fetched_package import FetchedPackage
from isoloss.errors import IsolossError
from isoloss.progress import silent

CONTENTS = {"data/asked.json": b"[1]", "more/claimed.json": b"[2]"}
PACKAGE = FetchedPackage(
    "a==1.0",
    ("*/data/asked.json", "*/more/claimed.json"),
    "questions",
    hashlib.sha256(b"[1][2]").hexdigest(),
    megabytes=1,
    source=True,
)


@pytest.fixture
def pip(monkeypatch):
    """Unpacks `pip.members` in its temporary folder, and ends with `pip.code`."""

    class Pip:
        code, members, commands = 1, CONTENTS, 0

        def __call__(self, command, env, **settings):
            self.commands += 1
            assert {"--no-clean", "--no-binary"} <= set(command)
            for name, content in self.members.items():
                path = Path(env["TMPDIR"]) / "pip-download-x" / "a-1.0" / name
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_bytes(content)
            return subprocess.CompletedProcess(command, self.code, "", "ERROR: not from an index\n")

    fake = Pip()
    monkeypatch.setattr(fetched_package.subprocess, "run", fake)
    return fake


@pytest.mark.parametrize("code", [0, 1])
def test_what_pip_unpacked_serves_whether_or_not_it_takes_the_package(code, pip, tmp_path):
    pip.code = code
    assert not PACKAGE.is_at_hand(tmp_path)
    for _ in range(2):
        paths = PACKAGE.files(tmp_path, silent)
        assert [path.read_bytes() for path in paths] == [b"[1]", b"[2]"]
    assert pip.commands == 1
    assert PACKAGE.is_at_hand(tmp_path)


def test_where_nothing_was_unpacked_pip_is_quoted(pip, tmp_path):
    pip.members = {}
    with pytest.raises(IsolossError, match=r"questions cannot be fetched \(ERROR: not from an index\)"):
        PACKAGE.files(tmp_path, silent)
    assert not PACKAGE.is_at_hand(tmp_path)
