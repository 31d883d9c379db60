"""The notebook for teachers: executed, and stored with the output of its cells."""

import json
from typing import Any

import pytest

from page_blocks import ROOT


@pytest.fixture(scope="module")
def notebook() -> dict[str, Any]:
    content: dict[str, Any] = json.loads((ROOT / "docs" / "laboratory.ipynb").read_text())
    return content


def outputs(notebook: dict[str, Any]) -> list[list[str]]:
    """The kinds of output of each code cell."""
    return [
        [kind for output in cell["outputs"] for kind in output.get("data", {"text": ""})]
        for cell in notebook["cells"]
        if cell["cell_type"] == "code"
    ]


def test_the_notebook_is_stored_with_its_outputs_and_its_plots(notebook: dict[str, Any]) -> None:
    kinds = outputs(notebook)
    assert sum("image/png" in kind for kind in kinds) == 3
    assert all(kinds)
    counts = [cell["execution_count"] for cell in notebook["cells"] if cell["cell_type"] == "code"]
    assert counts == list(range(1, len(counts) + 1))


def test_the_page_shows_text_code_outputs_and_pictures(notebook: dict[str, Any]) -> None:
    from laboratory import as_markdown

    page = as_markdown(notebook)
    assert page.startswith("# A laboratory: what the loss does not tell you")
    assert page.count("](data:image/png;base64,") == 3
    assert page.count("`````python\n") == sum(cell["cell_type"] == "code" for cell in notebook["cells"])
    (printed,) = [
        "".join(output["text"])
        for cell in notebook["cells"]
        for output in cell.get("outputs", [])
        if "flattened" in "".join(output.get("text", []))
    ]
    assert printed.rstrip() in page


@pytest.mark.slow
def test_the_notebook_carried_out_again_says_what_it_says(notebook: dict[str, Any]) -> None:
    from laboratory import carried_out

    assert outputs(carried_out(notebook)) == outputs(notebook)
