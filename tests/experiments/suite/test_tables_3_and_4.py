import pytest

from isoloss.experiments.scale import scale_named
from isoloss.experiments.suite.table_3 import (
    COUNTS,
    PAPER_LENGTH,
    PAPER_WORDS,
    parameters_with_bert,
    shape_rows,
    table_3,
)
from isoloss.experiments.suite.table_4 import AT, table_4
from isoloss.models.transformers import (
    TABLE_3,
    TABLE_4,
    TABLE_4_PRINTED_INNER,
    WHOLE_TOKENIZER,
    PreLayerNormTransformer,
    Shape,
    parameter_count,
)
from thorough_cases import others_thorough


def test_the_counts_in_words_are_those_computed() -> None:
    for shape, digits in ((TABLE_3[0], 2), (TABLE_3[6], 1), (TABLE_4[-1], 1)):
        count = parameters_with_bert(shape) / 1e6
        assert f"{count:.{digits}f}M" in COUNTS


@pytest.mark.parametrize(
    ("shape", "millions"),
    others_thorough(
        [
            *((TABLE_3[0], 2), (TABLE_4[6], 950)),
            *((TABLE_3[4], 41), (TABLE_3[6], 235), (TABLE_3[8], 730), (TABLE_4[3], 25)),
        ],
        quick=2,
    ),
    ids=lambda value: f"{value.width}x{value.layers}" if isinstance(value, Shape) else f"{value}M",
)
def test_shapes_have_the_sizes_that_the_paper_names_them_by(shape: Shape, millions: int) -> None:
    assert parameters_with_bert(shape) == pytest.approx(1e6 * millions, rel=0.04)
    on_the_grammar = parameter_count(
        PreLayerNormTransformer(shape, tokens=WHOLE_TOKENIZER), PAPER_WORDS, PAPER_LENGTH
    )
    assert on_the_grammar == pytest.approx(1e6 * millions, rel=0.04)


def test_no_printed_inner_width_that_differs_gives_the_papers_largest_size() -> None:
    largest = TABLE_4[-1]
    printed = Shape(largest.width, largest.heads, largest.layers, TABLE_4_PRINTED_INNER[-1])
    assert parameters_with_bert(printed) < 0.8 * 950e6


def test_every_shape_of_the_paper_is_a_row() -> None:
    rows = shape_rows(TABLE_3, PAPER_WORDS, PAPER_LENGTH)
    assert rows["width"].to_list() == [64, 128, 192, 256, 512, 768, 1024, 1280, 1536]
    assert rows.filter(width=512)["parameters"].item() == 25_606_859
    panels = {panel.name: panel for panel in table_3(scale_named("smoke")).panels(rows.clear())}
    assert panels["paper"].data.equals(rows)
    assert panels["scale"].data["width"].to_list() == [16, 32]


def test_enlarged_widths_and_inner_widths_meet() -> None:
    panels = {
        panel.name: panel
        for panel in table_4(scale_named("laptop"), AT["laptop"]).panels(shape_rows(TABLE_4, 8, 8))
    }
    paper, own = panels["paper-enlarged"], panels["scale-enlarged"]
    assert (paper.data["copies"] * paper.data["width"]).unique().to_list() == [1920]
    assert paper.data["enlarged_inner_width"].unique().to_list() == [7680]
    assert "All have an inner width of 7,680" in paper.caption
    assert own.data["enlarged_inner_width"].unique().to_list() == [384]
    assert "All have an inner width of 384" in own.caption
