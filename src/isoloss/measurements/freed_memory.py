"""What a process holds of the arrays it has freed, by the rules of the GNU C library's allocator."""

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
