"""The machine: its device, its memory and what a process holds of it, denormal numbers, cores, versions."""

import os
import platform
import re
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.metadata import version
from pathlib import Path

import torch

from isoloss.errors import BadInput, first_line

DEVICES = ("cpu", "cuda", "mps", "xpu", "hpu", "mtia", "xla", "privateuseone")
"""Kinds of device that store numbers and compute, by torch's names, of which some twenty are of no use."""


def refuse_unknown_device(device: str) -> None:
    """Raise BadInput for a name that torch has for no device, on this machine or another."""
    if not re.fullmatch(rf"({'|'.join(DEVICES)})(:\d+)?", device):
        raise BadInput(
            f"the device '{device}' cannot be used (torch knows no device of that name); choose cpu or cuda"
        )


def usable_device(device: str) -> torch.device:
    """The device of that name. Raises BadInput if this machine cannot use it."""
    refuse_unknown_device(device)
    try:
        number = torch.zeros(1, device=device)
        number.item()  # "meta" is a device too, but one that stores no numbers
        return number.device  # with its index, if there are several of a kind
    except (RuntimeError, AssertionError, NotImplementedError) as error:
        reason = first_line(error)
        raise BadInput(f"the device '{device}' cannot be used ({reason}); choose cpu or cuda") from error


def usable_devices(names: str) -> list[torch.device]:
    """The devices of these names, with commas in between.

    Raises BadInput as `usable_device` does, and for a device that is named twice.

    >>> usable_devices("cpu")
    [device(type='cpu')]
    """
    devices = [usable_device(name) for name in names.split(",")]
    if len(set(devices)) < len(devices):
        raise BadInput(f"of the devices '{names}' two are the same; name each once, as in cuda:0,cuda:1")
    return devices


def is_out_of_memory(error: RuntimeError) -> bool:
    """Whether torch's error says that memory is exhausted; on a CPU its type does not tell."""
    of_a_processor = ("can't allocate memory", "not enough memory")
    return isinstance(error, torch.OutOfMemoryError) or any(words in str(error) for words in of_a_processor)


def free_memory(device: torch.device) -> int:
    """Bytes that the device has free, or on a CPU that the system can free for a process.

    >>> free_memory(torch.device("cpu")) > 0
    True
    """
    if device.type == "cuda":
        free: int = torch.cuda.mem_get_info(device)[0]
        return free
    statistics = Path("/proc/meminfo")
    if statistics.is_file():
        for line in statistics.read_text().splitlines():
            if line.startswith("MemAvailable:"):
                return 1024 * int(line.split()[1])
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


@contextmanager
def denormals_flushed() -> Iterator[None]:
    """Within the block, this thread flushes numbers below 1e-38 (float32; 2e-308 in float64) to zero.

    The attention of a model that has been trained for long is so sharp that most of its gradients are
    denormal, and a backward pass takes two to three times as long with them. They are negligible beside the
    numbers to which they are added. Processors that cannot flush them keep them.

    >>> with denormals_flushed():
    ...     float(torch.tensor(1e-30) * 1e-10)
    0.0
    """
    before = _are_flushed()
    torch.set_flush_denormal(True)
    try:
        yield
    finally:
        torch.set_flush_denormal(before)


def _are_flushed() -> bool:
    return float(torch.tensor(1e-30) * 1e-10) == 0.0


@contextmanager
def products_on_tensor_cores(*, exact: bool) -> Iterator[None]:
    """Within the block, if `exact`, a GPU's tensor cores compute products of float32, some ten times as fast.

    They read 10 bits of each mantissa (TF32), which is all that bfloat16 and float16 have: products of such
    numbers, converted to float32, stay exact, and sums are of float32. Other numbers would be rounded.

    >>> settings = torch.backends.cuda.matmul
    >>> with products_on_tensor_cores(exact=True):
    ...     getattr(settings, "fp32_precision", "tf32")
    'tf32'
    >>> settings.allow_tf32
    False
    """
    settings = torch.backends.cuda.matmul
    if not exact or not hasattr(settings, "fp32_precision"):  # torch before 2.9
        yield
        return
    before = settings.fp32_precision
    settings.fp32_precision = "tf32"
    try:
        yield
    finally:
        settings.fp32_precision = before


_PACKAGES = ("isoloss", "torch", "transformers", "numpy", "polars", "altair")


def machine() -> str:
    """The processor, its usable cores, and the operating system, in words.

    >>> "core" in machine()
    True
    """
    return f"{processor()}, {usable_cores()} core(s) usable, {platform.system()} {platform.machine()}"


def processor() -> str:
    """The processor's name, on which a run's last bits depend.

    >>> processor() != ""
    True
    """
    try:
        with open("/proc/cpuinfo", encoding="utf-8") as lines:  # noqa: PTH123
            names = [line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")]
    except OSError:
        names = []
    return names[0] if names else platform.processor() or platform.machine()


def usable_cores() -> int:
    """How many cores this process may run on.

    >>> usable_cores() >= 1
    True
    """
    try:
        return len(os.sched_getaffinity(0))
    except AttributeError:  # not every system has processor affinity
        return os.cpu_count() or 1


def versions() -> dict[str, str]:
    """Versions of Python and of the packages that a number depends on.

    >>> sorted(versions())[0]
    'altair'
    """
    return {"python": platform.python_version(), **{name: version(name) for name in _PACKAGES}}


_LARGEST_THRESHOLD = 32 << 20
_OVERHEAD = 64 + 16
"""Of each array: torch aligns to 64 bytes, and the library keeps its size beside it."""
_PAGE = 4096


class Heap:
    """Follows the sizes of what is allocated and freed: `bytes` that the process holds, at most `peak`.

    An array as large as a threshold has pages of its own, which are returned when it is freed, and then
    raises the threshold to its size, up to 32 MiB. Others come from one stretch: from the smallest freed
    piece that has room, or its end. Freed neighbours are merged; the end is returned once twice the threshold
    is free there, but what is freed before it stays.

    >>> heap = Heap()
    >>> first, second = heap.allocate(100_000), heap.allocate(100_000)
    >>> heap.free(first)
    >>> heap.bytes > 200_000, heap.allocate(50_000) == first
    (True, True)
    """

    def __init__(self) -> None:
        self.peak = 0
        self._threshold = self._kept_at_the_end = 128 << 10
        self._used_end = self._end = self._of_their_own = 0
        self._pieces: dict[int, int] = {}
        self._piece_before: dict[int, int] = {}
        self._sizes: dict[int, int] = {}
        self._numbers = 0

    @property
    def bytes(self) -> int:
        """What the process holds now."""
        return self._end + self._of_their_own

    def allocate(self, size: int) -> int:
        """A place for an array of so many bytes; below zero for one with pages of its own."""
        size = _rounded(size + _OVERHEAD, 16)
        if size >= self._threshold:
            self._numbers += 1
            place, size = -self._numbers, _rounded(size, _PAGE)
            self._of_their_own += size
        else:
            place = self._found(size)
        self._sizes[place] = size
        self.peak = max(self.peak, self.bytes)
        return place

    def free(self, place: int) -> None:
        """Give up the array that was put there."""
        size = self._sizes.pop(place)
        if place < 0:
            self._of_their_own -= size
            if self._threshold < size <= _LARGEST_THRESHOLD:
                self._threshold, self._kept_at_the_end = size, 2 * size
            return
        if (after := place + size) in self._pieces:
            size += self._take(after)
        if (before := self._piece_before.get(place)) is not None:
            size, place = size + self._take(before), before
        if place + size < self._used_end:
            self._put(place, size)
            return
        self._used_end = place
        if self._end - place > self._kept_at_the_end:
            self._end = place

    def _found(self, size: int) -> int:
        with_room = [(each, place) for place, each in self._pieces.items() if each >= size]
        if not with_room:
            place, self._used_end = self._used_end, self._used_end + size
            self._end = max(self._end, self._used_end)
            return place
        _, place = min(with_room)
        left = self._take(place) - size
        if left:
            self._put(place + size, left)
        return place

    def _put(self, place: int, size: int) -> None:
        self._pieces[place] = size
        self._piece_before[place + size] = place

    def _take(self, place: int) -> int:
        size = self._pieces.pop(place)
        del self._piece_before[place + size]
        return size


def _rounded(size: int, unit: int) -> int:
    return -(-size // unit) * unit
