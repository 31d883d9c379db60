import pytest

from isoloss.experiments.scales import laptop, smoke
from isoloss.experiments.shape_table import (
    BERT_POSITIONS,
    BERT_TOKENS,
    COUNTS,
    PAPER_LENGTH,
    PAPER_WORDS,
    parameters,
    shape_rows,
)
from isoloss.experiments.table_3 import table_3
from isoloss.experiments.table_4 import table_4
from isoloss.models.shapes import TABLE_3, TABLE_4, Shape
from isoloss.models.transformers import PreLayerNormTransformer, parameter_count
from isoloss.objectives.tokens import FIRST_WORD


@pytest.mark.parametrize("shape", [TABLE_3[0], TABLE_4[2], Shape(32, 2, 2, 96)])
def test_the_formula_counts_what_the_model_has(shape: Shape) -> None:
    built = parameter_count(PreLayerNormTransformer(shape), words=200, maximum_length=32)
    assert parameters(shape, 200 + FIRST_WORD, 33) == built


def test_the_counts_in_words_are_those_computed() -> None:
    smallest, table_1, largest = TABLE_3[0], TABLE_3[6], TABLE_4[-1]
    four_times = Shape(largest.width, largest.heads, largest.layers, 4 * largest.width)
    for shape, digits in ((smallest, 2), (table_1, 1), (four_times, 1), (largest, 1)):
        count = parameters(shape, BERT_TOKENS, BERT_POSITIONS) / 1e6
        assert f"{count:.{digits}f}M" in COUNTS


def test_every_shape_of_the_paper_is_a_row() -> None:
    rows = shape_rows(TABLE_3, PAPER_WORDS, PAPER_LENGTH)
    assert rows["width"].to_list() == [64, 128, 192, 256, 512, 768, 1024, 1280, 1536]
    assert rows.filter(width=512)["parameters"].item() == 25_606_859
    panels = {panel.name: panel for panel in table_3(smoke()).panels(rows.clear())}
    assert panels["paper"].data.equals(rows)
    assert panels["scale"].data["width"].to_list() == [16, 32]


def test_enlarged_widths_meet_and_the_papers_inner_widths_do_not() -> None:
    panels = {panel.name: panel for panel in table_4(laptop()).panels(shape_rows(TABLE_4, 8, 8))}
    paper, own = panels["paper-enlarged"], panels["scale-enlarged"]
    assert (paper.data["copies"] * paper.data["width"]).unique().to_list() == [1920]
    assert paper.data["enlarged_inner_width"].to_list() == [7680, 7680, 6144, 10240, 9216, 8192, 5120]
    assert "do not meet" in paper.caption
    assert own.data["enlarged_inner_width"].unique().to_list() == [768]
    assert "All have an inner width of 768" in own.caption
