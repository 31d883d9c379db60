"""The laboratory, docs/laboratory.ipynb: as a page, and carried out; `make laboratory` stores its outputs.

A notebook's cells are lines of Python in one namespace, and need no Jupyter to be run: what they print, the
value of their last line, and charts as PNG are stored as Jupyter stores them.
"""

import ast
import base64
import io
import json
import os
import tempfile
from contextlib import chdir, redirect_stdout
from pathlib import Path
from typing import Any

import altair as alt
import vl_convert

PAGE = Path(__file__).parent.parent / "laboratory.ipynb"


FENCE = "`````"
"""Longer than any fence that a cell contains."""


def as_markdown(notebook: dict[str, Any]) -> str:
    """The notebook's text, code, printed output and pictures, one below the other, for the site."""
    parts = []
    for cell in notebook["cells"]:
        source = "".join(cell["source"])
        if cell["cell_type"] == "markdown":
            parts.append(source)
            continue
        parts.append(f"{FENCE}python\n{source}\n{FENCE}")
        parts += [_as_markdown(output) for output in cell["outputs"]]
    return "\n\n".join(parts) + "\n"


def _as_markdown(output: dict[str, Any]) -> str:
    data = output.get("data", {"text/plain": output.get("text", [])})
    if "image/png" in data:
        return f"![What the cell plots](data:image/png;base64,{''.join(data['image/png'].split())})"
    return f"{FENCE}text\n{''.join(data['text/plain']).rstrip()}\n{FENCE}"


def carried_out(notebook: dict[str, Any]) -> dict[str, Any]:
    """The notebook with the outputs of its code cells, run in order in an empty folder."""
    names: dict[str, Any] = {"__name__": "laboratory"}
    with tempfile.TemporaryDirectory() as folder, chdir(folder):
        cells, number = [], 0
        for cell in notebook["cells"]:
            if cell["cell_type"] == "code":
                number += 1
                outputs = _outputs("".join(cell["source"]), names, number)
                cell = {**cell, "execution_count": number, "outputs": outputs}
            cells.append(cell)
    return {**notebook, "cells": cells}


def _outputs(source: str, names: dict[str, Any], number: int) -> list[dict[str, Any]]:
    *lines, last = ast.parse(source).body
    printed, value = io.StringIO(), None
    with redirect_stdout(printed):
        if isinstance(last, ast.Expr):
            exec(compile(ast.Module(lines, []), f"cell {number}", "exec"), names)
            value = eval(compile(ast.Expression(last.value), f"cell {number}", "eval"), names)
        else:
            exec(compile(source, f"cell {number}", "exec"), names)
    outputs: list[dict[str, Any]] = []
    if text := printed.getvalue():
        outputs.append({"output_type": "stream", "name": "stdout", "text": text.splitlines(keepends=True)})
    if value is not None:
        result = {"output_type": "execute_result", "execution_count": number, "metadata": {}}
        outputs.append({**result, "data": _shown(value)})
    return outputs


def _shown(value: object) -> dict[str, Any]:
    if not isinstance(value, alt.TopLevelMixin):
        return {"text/plain": repr(value).splitlines(keepends=True)}
    png = vl_convert.vegalite_to_png(value.to_dict(), scale=1.5)  # type: ignore[attr-defined]
    return {"image/png": base64.b64encode(png).decode(), "text/plain": ["a chart"]}


if __name__ == "__main__":
    os.environ.setdefault("OMP_NUM_THREADS", "2")
    written = json.dumps(carried_out(json.loads(PAGE.read_text())), indent=1, ensure_ascii=False)
    PAGE.write_text(written + "\n")
