import pytest

from isoloss.errors import BadInput
from isoloss.models.shapes import LAPTOP, TABLE_3, TABLE_4, Shape, laptop_shape


def test_the_papers_shapes_have_heads_of_64_and_rise() -> None:
    for table in (TABLE_3, TABLE_4):
        assert {shape.head_size for shape in table} == {64}
        assert [shape.width for shape in table] == sorted({shape.width for shape in table})
        assert {shape.inner_width / shape.width for shape in table} == {4}
    # B.3: the largest width is a common multiple of the smaller ones.
    assert all(TABLE_4[-1].width % shape.width == 0 for shape in TABLE_4)


def test_laptop_shapes() -> None:
    for shape in LAPTOP:
        assert (shape.layers, shape.head_size, shape.inner_width) == (2, 16, 4 * shape.width)


@pytest.mark.parametrize("numbers", [(0, 1, 1, 1), (8, 3, 1, 32), (8, 2, -1, 32), (8, 0, 1, 32)])
def test_impossible_shapes_are_refused(numbers: tuple[int, int, int, int]) -> None:
    with pytest.raises(BadInput, match="Shape"):
        Shape(*numbers)


@pytest.mark.parametrize("width", [0, 8, 40])
def test_a_laptop_shape_has_whole_heads(width: int) -> None:
    with pytest.raises(BadInput, match=f"not {width}"):
        laptop_shape(width)
