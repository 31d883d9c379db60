"""What a process holds of freed arrays, on sequences whose end can be followed by hand."""

import pytest

from isoloss.device import Heap

KIB, MIB = 1 << 10, 1 << 20


def roughly(size: int) -> object:
    return pytest.approx(size, rel=0.02)


def test_an_array_with_pages_of_its_own_gives_them_back() -> None:
    heap = Heap()
    place = heap.allocate(50 * MIB)
    assert heap.bytes == roughly(50 * MIB)
    heap.free(place)
    assert (heap.bytes, heap.peak) == (0, roughly(50 * MIB))


def test_once_such_an_array_was_freed_smaller_ones_leave_gaps() -> None:
    heap = Heap()
    heap.free(heap.allocate(10 * MIB))
    first, second = heap.allocate(4 * MIB), heap.allocate(MIB)
    heap.free(first)
    assert heap.bytes == roughly(5 * MIB)
    heap.allocate(6 * MIB)  # has no room in the gap
    assert heap.bytes == roughly(11 * MIB)
    heap.allocate(3 * MIB)
    assert heap.bytes == roughly(11 * MIB)
    heap.free(second)
    assert heap.bytes == roughly(11 * MIB)


def test_freed_neighbours_are_one_piece() -> None:
    heap = Heap()
    heap.free(heap.allocate(10 * MIB))
    places = [heap.allocate(MIB) for _ in range(4)]
    for place in (places[0], places[2], places[1]):
        heap.free(place)
    assert heap.allocate(3 * MIB) == places[0]
    assert heap.bytes == roughly(4 * MIB)


def test_the_smallest_piece_with_room_is_taken() -> None:
    heap = Heap()
    heap.free(heap.allocate(10 * MIB))
    places = [heap.allocate(size * MIB) for size in (3, 1, 2, 1)]
    heap.free(places[0])
    heap.free(places[2])
    assert heap.allocate(2 * MIB) == places[2]


def test_the_end_is_given_back_once_twice_the_threshold_is_free_there() -> None:
    heap = Heap()
    heap.free(heap.allocate(MIB))
    places = [heap.allocate(900 * KIB) for _ in range(3)]
    heap.free(places.pop())
    heap.free(places.pop())
    assert heap.bytes == roughly(2700 * KIB)
    heap.free(places.pop())
    assert heap.bytes == 0
