"""Files that are complete or absent (temporary name, fsync, rename), and folders locked by one process."""

import errno
import fcntl
import glob
import hashlib
import os
import platform
import re
import shutil
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext, suppress
from pathlib import Path

from safetensors import SafetensorError

from isoloss.errors import BadInput, FolderHeld, IsolossError

TEMPORARY = r"\..+\.[0-9a-f]{32}\.part"
"""Names of files while they are being written."""


def refuse_endless(path: Path, kind: str) -> None:
    """Raise BadInput for a device, or a pipe that nothing may ever be written to.

    >>> refuse_endless(Path("/dev/zero"), "a grammar")
    Traceback (most recent call last):
    isoloss.errors.BadInput: /dev/zero is a device or a pipe; name a file that holds a grammar
    """
    if path.exists() and not path.is_file() and not path.is_dir():
        raise BadInput(f"{path} is a device or a pipe; name a file that holds {kind}")


COMPRESSED = {b"\x1f\x8b": "gunzip", b"\x28\xb5\x2f\xfd": "unzstd", b"\xfd7zXZ": "unxz"}
"""How files begin that are compressed, and the program that unpacks them; none is UTF-8."""


def refuse_compressed(path: Path, content: bytes) -> None:
    """Raise BadInput if the content, or its beginning, is that of a compressed file."""
    for beginning, program in COMPRESSED.items():
        if content.startswith(beginning):
            raise BadInput(f"{path} is compressed; unpack it ({program}) and name what was in it")


def read_text(path: Path, kind: str) -> str:
    """The text of a UTF-8 file; `kind` says what it should be, for example "a grammar in NLTK's notation".

    Raises BadInput if there is no such file, if it cannot be read, or if it is not text.

    >>> read_text(Path("none.pcfg"), "a grammar")
    Traceback (most recent call last):
    isoloss.errors.BadInput: there is no file none.pcfg; name a file that holds a grammar
    """
    try:
        refuse_endless(path, kind)
        content = path.read_bytes()
    except FileNotFoundError as error:
        raise BadInput(f"there is no file {path}; name a file that holds {kind}") from error
    except IsADirectoryError as error:
        raise BadInput(f"{path} is a folder; name the file inside it that holds {kind}") from error
    except OSError as error:
        raise BadInput(f"cannot read {path}: {error.strerror or error}; check its permissions") from error
    refuse_compressed(path, content)
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise BadInput(f"{path}, line {line}: this is not UTF-8 text; give {kind}") from error
    if "\0" in text:
        line = text.count("\n", 0, text.index("\0")) + 1
        raise BadInput(f"{path}, line {line}: this is binary data; give {kind}")
    return text


def write_atomically(path: Path, content: bytes | str) -> None:
    """Write `content` to `path` so that a reader, or a crash, sees all of it or nothing.

    In a folder that is itself being written, as by `complete_folder`, no reader looks and a crash leaves
    nothing anyway: there the file is written at once, and reaches the disk with the folder. In text, bytes of
    names that are not UTF-8 are written out, as in JSON. Raises IsolossError if the folder cannot be written
    or the disk is full.

    >>> import tempfile
    >>> folder = Path(tempfile.mkdtemp())
    >>> write_atomically(folder / "a.txt", "whole")
    >>> (folder / "a.txt").read_text()
    'whole'
    """
    data = content.encode(errors="backslashreplace") if isinstance(content, str) else content
    with writable(path.parent):
        path.parent.mkdir(parents=True, exist_ok=True)
        if any(is_temporary(folder.name) for folder in path.parents):
            path.write_bytes(data)
            return
        temporary = _temporary_beside(path)
        try:
            with temporary.open("wb") as file:
                with suppress(OSError):  # a file system without locks
                    fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
                temporary.replace(path)  # before the lock, by which `remove_unfinished` leaves it, is gone
        finally:
            temporary.unlink(missing_ok=True)
        sync(path.parent)


@contextmanager
def complete_folder(path: Path) -> Iterator[Path]:
    """A temporary folder to write in, which becomes `path` when the block ends: complete, or absent.

    What killed processes left of the same folder is removed; two may not write it at once. Raises
    IsolossError if the system refuses, also because the folder exists and is not empty.

    >>> import tempfile
    >>> path = Path(tempfile.mkdtemp()) / "new"
    >>> with complete_folder(path) as folder:
    ...     _ = (folder / "a.txt").write_text("whole")
    >>> [file.name for file in path.iterdir()]
    ['a.txt']
    """
    temporary = _temporary_beside(path)
    with writable(path.parent):
        for left in path.parent.glob(f".{glob.escape(path.name)}.*.part"):
            if is_temporary(left.name) and left.is_dir():
                shutil.rmtree(left)
        temporary.mkdir(parents=True)
        try:
            yield temporary
            sync_with_contents(temporary)
            temporary.rename(path)
        finally:
            shutil.rmtree(temporary, ignore_errors=True)
        sync(path.parent)


def remove_folder(path: Path) -> None:
    """Remove a folder so that a reader, or a crash, sees all of it or nothing."""
    shutil.rmtree(path.rename(_temporary_beside(path)))


def _temporary_beside(path: Path) -> Path:
    return path.with_name(f".{path.name}.{uuid.uuid4().hex}.part")


def remove_unfinished(folder: Path) -> None:
    """Remove partial files that killed processes left in the folder itself, under temporary names.

    A file that `write_atomically` is writing in another process, as a cluster's job may, is left. May only be
    called where no other process writes folders.
    """
    with writable(folder):
        for path in folder.glob(".*.part"):
            if is_temporary(path.name) and path.is_dir():
                shutil.rmtree(path)
            elif is_temporary(path.name) and not _is_locked(path):
                path.unlink(missing_ok=True)


def _is_locked(path: Path) -> bool:
    """Whether another process has locked the file."""
    try:
        with path.open("r+b") as file:
            fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:  # it is complete or removed by now, or is on a file system without locks
        return False
    return False


def is_temporary(name: str) -> bool:
    """Whether a file or folder of that name is one that is being written, or was when a process was killed.

    >>> is_temporary(f".a.txt.{'0' * 32}.part"), is_temporary("a.part")
    (True, False)
    """
    return re.fullmatch(TEMPORARY, name) is not None


def file_content(path: Path) -> bytes:
    """A file's content. Raises OSError if it cannot be read, and for a device or pipe, which may not end."""
    _refuse_irregular(path)
    return path.read_bytes()


def file_digest(path: Path) -> str:
    """SHA-256 of a file's content. Raises OSError as `file_content` does."""
    _refuse_irregular(path)
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _refuse_irregular(path: Path) -> None:
    if path.exists() and not (path.is_file() or path.is_dir()):
        raise OSError(errno.EINVAL, "it is a device or a pipe", str(path))


def sync(path: Path) -> None:
    """Make a file's content, or the renames inside a folder, survive a power cut."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def sync_with_contents(folder: Path) -> None:
    """`sync` of all that is in a folder, at any depth, and of the folder."""
    for path in (*folder.rglob("*"), folder):
        sync(path)


@contextmanager
def writable(folder: Path) -> Iterator[None]:
    """Turn the system's refusal to write below `folder` into a sentence."""
    try:
        yield
    except (OSError, SafetensorError) as error:
        if isinstance(error, (FileExistsError, NotADirectoryError)):
            refuse_file_as_folder(folder)
        if isinstance(error, IsADirectoryError):
            raise IsolossError(
                f"{error.filename2 or error.filename} is a folder, where a file is needed; remove it"
            ) from error
        raise IsolossError(
            f"cannot write in {folder}: {getattr(error, 'strerror', None) or error}; "
            "free some space, mend the permissions, or name another folder"
        ) from error


def refuse_file_as_folder(folder: Path) -> None:
    """Raise BadInput if the folder, or one that it lies in, is a file."""
    for each in (folder, *folder.parents):
        if each.is_file():
            raise BadInput(f"{each} is a file, where a folder is needed; name another")


_held_here: set[Path] = set()
"""Record locks do not tell a process's own threads apart, so each process keeps a list."""


@contextmanager
def only_process_in(folder: Path) -> Iterator[None]:
    """Lock `folder`, created if necessary, for this process; the lock ends with the process in any case.

    A folder that was created, and in which nothing has been written, is removed again. It is a record lock,
    which children created by `fork` do not inherit: orphaned workers of a killed run cannot keep it. On a
    shared file system it also works between machines. Raises FolderHeld when another run holds the folder,
    IsolossError when it cannot be written or locked.
    """
    with writable(folder):
        created = not folder.exists()
        folder.mkdir(parents=True, exist_ok=True)
        # Opening and closing the file again in this process would release the first lock.
        if (path := folder.resolve()) in _held_here:
            raise _held(folder, _here())
        handle = os.open(lock := folder / ".lock", os.O_RDWR | os.O_CREAT, 0o644)
    _held_here.add(path)
    try:
        try:
            fcntl.lockf(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except (BlockingIOError, PermissionError):
            raise _held(folder, os.pread(handle, 80, 0).decode().strip() or "unknown") from None
        except OSError as error:  # a file system without locks
            raise IsolossError(
                f"{folder} cannot be locked ({error.strerror}); put it on a file system with locks"
            ) from error
        if not is_still(lock, handle):
            raise FolderHeld(f"another run in {folder} has just ended and removed it; start again")
        os.pwrite(handle, f"{_here():<80}".encode(), 0)
        try:
            yield
        finally:
            if created and list(folder.glob("*")) == [lock]:
                with suppress(OSError):  # another run may begin there at this moment
                    lock.unlink()
                    folder.rmdir()
    finally:
        os.close(handle)
        _held_here.discard(path)


def is_still(path: Path, handle: int) -> bool:
    """Whether the file opened as `handle` is the one at `path`."""
    try:
        return os.path.samestat(path.stat(), os.fstat(handle))
    except FileNotFoundError:
        return False


@contextmanager
def alone_in(folder: Path) -> Iterator[None]:
    """`only_process_in`, or the caller's lock if it already holds `folder`."""
    with nullcontext() if folder.resolve() in _held_here else only_process_in(folder):
        yield


def _here() -> str:
    return f"{os.getpid()} on {platform.node()}"


def _held(folder: Path, process: str) -> FolderHeld:
    return FolderHeld(
        f"another run is working in {folder} (process {process}); "
        "wait for it, stop it, or name another folder"
    )
