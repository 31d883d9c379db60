import fcntl
import os
import subprocess
import sys
from pathlib import Path

import pytest

from isoloss.errors import BadInput, FolderHeld, IsolossError
from isoloss.files import complete_folder, only_process_in, read_text, remove_unfinished, write_atomically


def test_a_failed_write_leaves_the_old_file_and_no_litter(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "a"
    write_atomically(path, "old")

    def disk_full(handle: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", disk_full)
    with pytest.raises(IsolossError, match="No space left on device; free some space"):
        write_atomically(path, "new")
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]


def test_text_is_not_read_without_end(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for endless in (tmp_path / "pipe", Path("/dev/zero")):
        with pytest.raises(BadInput, match=f"{endless} is a device or a pipe; name a file that holds a text"):
            read_text(endless, "a text")


def test_folders_are_made_on_the_way_and_bytes_kept(tmp_path: Path) -> None:
    write_atomically(tmp_path / "b" / "c", b"\0\xff")
    assert (tmp_path / "b" / "c").read_bytes() == b"\0\xff"
    write_atomically(tmp_path / "text", os.fsdecode(b"caf\xe9"))  # a name in Latin-1
    assert (tmp_path / "text").read_text() == "caf\\udce9"


def test_a_locked_folder_in_which_nothing_was_written_is_not_left_behind(tmp_path: Path) -> None:
    (tmp_path / "old").mkdir()
    for name in ("new", "old", "written"):
        with only_process_in(tmp_path / name):
            if name == "written":
                (tmp_path / name / "a").touch()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["old", "written"]


def test_a_lock_whose_folder_was_removed_meanwhile_is_not_taken(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def removed_meanwhile(*_: int) -> None:
        (tmp_path / ".lock").unlink()

    monkeypatch.setattr(fcntl, "lockf", removed_meanwhile)
    with pytest.raises(FolderHeld, match="has just ended and removed it"), only_process_in(tmp_path):
        pass


@pytest.mark.parametrize("below", ["a", "a/b"])
def test_a_file_in_place_of_a_folder_is_named(below: str, tmp_path: Path) -> None:
    (tmp_path / "a").write_text("kept")
    with pytest.raises(BadInput, match="a is a file, where a folder is needed; name another"):
        write_atomically(tmp_path / below / "c", "lost")
    assert (tmp_path / "a").read_text() == "kept"


def test_all_of_a_folder_reaches_the_disk_once_before_it_has_its_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced: list[tuple[int, bool]] = []
    folder = tmp_path / "new"
    monkeypatch.setattr(os, "fsync", lambda handle: synced.append((os.fstat(handle).st_ino, folder.exists())))
    with complete_folder(folder) as place:
        write_atomically(place / "below" / "a", "whole")
        (place / "b").write_text("whole")
    inside = [folder, folder / "below", folder / "below" / "a", folder / "b"]
    assert sorted(synced[:-1]) == sorted((path.stat().st_ino, False) for path in inside)
    assert synced[-1] == (tmp_path.stat().st_ino, True)


def test_what_another_process_is_writing_is_not_removed_as_unfinished(tmp_path: Path) -> None:
    """A cluster's job may outlive the call that submitted it, and write while the next call begins."""
    (tmp_path / f".killed.{'0' * 32}.part").touch()
    script = (
        "import os, sys; from pathlib import Path; from isoloss.files import write_atomically\n"
        "def slow(handle): print(flush=True); sys.stdin.read()\n"
        "os.fsync = slow; write_atomically(Path(sys.argv[1]), 'whole')"
    )
    asked = [sys.executable, "-c", script, str(tmp_path / "a")]
    with subprocess.Popen(asked, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as writer:
        assert writer.stdout is not None
        writer.stdout.readline()
        remove_unfinished(tmp_path)
        assert [path.name.split(".")[1] for path in tmp_path.iterdir()] == ["a"]
        writer.communicate()
    assert writer.returncode == 0
    assert [(path.name, path.read_text()) for path in tmp_path.iterdir()] == [("a", "whole")]
