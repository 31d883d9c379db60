"""The page of all architectures, docs/architectures.md: `python docs/extensions/architectures_page.py`.

Each type of the masked and causal mappings of `transformers` is measured, which takes minutes; where types
are named after the command only those are measured anew, and the other rows stay as they are.
"""

import sys
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import transformers

PAGE = Path(__file__).parent.parent / "architectures.md"
SWEEP = Path(__file__).parents[2] / "tests" / "architectures"
INTRODUCTION = """\
# Which models can be measured

Every type in the masked and causal mappings of `transformers` {version}: a tiny model of it, drawn at random,
was saved, measured by `isoloss flatness` on eight sentences of six lengths, and held to one ordinary backward
pass a sentence, of each sentence alone and without padding. `make architectures` writes this page.

- *factors*: sentences' gradients are normed by the factors that they are products of, all at once;
  *per-sentence gradients*: one gradient a sentence, which takes longer. The number is the same.
- *equally long sentences at a time*: padding would change the model's scores, so it gets none.
- *float64* or *float32*: the precision of both sides.
- *refused*: the command says why in one sentence. *Skipped*: `transformers` alone does not build, run or
  differentiate the model.
- `hrm_text` cuts off the gradients through its first cycles (`torch.no_grad` in its own code), as in
  training: its trace is of the gradients that are left. `isoloss sensitivity` counts every cycle.
- `yoso` has a backward pass of its own, which approximates the derivative of its forward pass: all but its
  loss is of that.
- Encoders with decoders (`bart`, `mbart`, `t5`, ...) are refused as masked or causal models alone. With
  tables of sources and targets they are measured by the loss of the target's tokens, with the special
  tokens of their tokenizers: see [flatness](flatness.md), under the head of a task.
"""


@dataclass(frozen=True)
class Row:
    """One type: what came of it, how it was measured or why not, and what the number was held to."""

    model_type: str
    answer: str
    how: str
    against: str


Table = dict[str, dict[str, Row]]
"""Rows by what the model predicts and by its type."""


def architectures_page(version: str, table: Table) -> str:
    """The page's text."""
    return "\n".join([INTRODUCTION.format(version=version), *(_section(*each) for each in table.items())])


def table_of(page: str) -> Table:
    """The rows that a page shows."""
    table: Table = {}
    rows: dict[str, Row] = {}
    for line in page.splitlines():
        if line.startswith("## "):
            rows = table.setdefault(line.removeprefix("## ").split()[0].lower(), {})
        elif line.startswith("| `"):
            cells = [cell.strip() for cell in line.strip("|").split("|")]
            rows[cells[0].strip("`")] = Row(cells[0].strip("`"), *cells[1:])
    return table


def _section(predicts: str, rows: dict[str, Row]) -> str:
    counts = Counter(row.answer for row in rows.values())
    counted = ", ".join(f"{counts[answer]} {answer}" for answer in ("measured", "refused", "skipped"))
    lines = [f"## {predicts.capitalize()} language models: {counted}\n"]
    lines += ["| type | | how, or why not | checked against |", "|---|---|---|---|"]
    lines += [f"| `{row.model_type}` | {row.answer} | {row.how} | {row.against} |" for row in rows.values()]
    return "\n".join([*lines, ""])


def _measured(names: Sequence[str], known: Table) -> Table:
    sys.path.insert(0, str(SWEEP))
    from measured_types import outcome
    from tiny_of_every_type import TYPES

    table: Table = {}
    for predicts, types in TYPES.items():
        rows = table.setdefault(predicts, {})
        for name in types:
            kept = known.get(predicts, {}).get(name)
            if names and name not in names and kept is not None:
                rows[name] = kept
                continue
            found = outcome(name, predicts)
            how, _, precision = found.how.partition("; in ")
            against = f"{precision or 'float64'} gradients" if found.answer == "measured" else ""
            rows[name] = Row(name, found.answer, how.replace("|", "/"), against)
    return table


if __name__ == "__main__":
    rows = table_of(PAGE.read_text()) if PAGE.exists() else {}
    PAGE.write_text(architectures_page(transformers.__version__, _measured(sys.argv[1:], rows)))
