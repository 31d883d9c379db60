"""The output of `isoloss sensitivity`: tables for people, JSON, and the file of allocated bits."""

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass

from rich.box import SIMPLE_HEAD
from rich.table import Table
from torch import nn

from isoloss.command_line.flatness_table import about_frozen
from isoloss.command_line.sensitivity import SensitivityOptions
from isoloss.command_line.terminal import in_lines, table_console
from isoloss.files import write_atomically
from isoloss.measurements.fixed_sentences import SampledBatches
from isoloss.measurements.sensitivity import UNIT, WHOLE, AllocatedBits, PartUnderChange
from isoloss.results.estimate import Estimate
from isoloss.results.record import in_digits

READABLE = 0.1
"""The smallest number that is shown without an exponent."""
CHANGES_A_TABLE = 5
CHECKED_A_TABLE = 2
"""How many changes fit into 80 columns, without and with the measured values beside them."""


@dataclass(frozen=True)
class Shown:
    """What was asked and found of a model, part by part, the bits allocated if asked for, and warnings."""

    options: SensitivityOptions
    model: nn.Module
    batches: SampledBatches
    found: Sequence[PartUnderChange]
    best: AllocatedBits | None
    doubts: Sequence[str]


def print_json(shown: Shown) -> None:
    """One JSON object on stdout."""
    asked, settings = shown.options, {"estimand": shown.batches.prediction.estimand}
    rows = [*shown.found, *([] if shown.best is None else [shown.best.whole])]
    content = {
        "records": [
            asdict(record) for row in rows for record in row.records(asked.model, asked.seed, settings)
        ],
        "estimand": settings["estimand"],
        "by": asked.by,
        "allocation": None if shown.best is None else _allocation(shown.best),
        "warnings": list(shown.doubts),
    }
    print(json.dumps(content, ensure_ascii=False, allow_nan=False))


def write_allocation(options: SensitivityOptions, best: AllocatedBits) -> None:
    """The bits of every tensor, as JSON."""
    content = {"model": options.model, **_allocation(best)}
    write_atomically(options.allocation_file, json.dumps(content, ensure_ascii=False, indent=1) + "\n")


def _allocation(best: AllocatedBits) -> dict[str, object]:
    return {
        "mean_bits": best.allocation.mean_bits,
        "group": best.rounding.group,
        "parts": dict(best.allocation.bits),
        "tensors": dict(best.rounding.bits),
        "predicted_kl": best.whole.best.value,
        "predicted_kl_standard_error": best.whole.best.standard_error,
        "predicted_kl_as_sum_of_parts": best.allocation.predicted,
    }


def print_tables(shown: Shown) -> None:
    """The divergence of every part under every change, a few changes a table, and notes below."""
    console = table_console()
    changes = list(dict.fromkeys(each.change for each in shown.found))
    checked = any(each.measured is not None for each in shown.found)
    at_once = CHECKED_A_TABLE if checked else CHANGES_A_TABLE
    for start in range(0, len(changes), at_once):
        console.print(_table(shown, changes[start : start + at_once], checked))
    for line in notes(shown):
        print(in_lines(line))


def _table(shown: Shown, changes: Sequence[str], checked: bool) -> Table:
    table = Table(
        title=f"KL(before || after) by each change of weights, in {UNIT}", box=SIMPLE_HEAD, padding=0
    )
    table.add_column(shown.options.by, overflow="fold")
    for change in changes:
        table.add_column(change, justify="right")
        if checked:
            table.add_column("measured", justify="right")
    by_part = {(each.part, each.change): each for each in shown.found}
    parts = dict.fromkeys(each.part for each in shown.found if each.change in changes)
    for part in sorted(parts, key=lambda part: part == WHOLE):
        cells = []
        for change in changes:
            each = by_part.get((part, change))
            cells.append("" if each is None else _cell(each.best))
            if checked:
                cells.append("" if each is None or each.measured is None else _cell(each.measured))
        table.add_row(part, *cells, style="bold" if part == WHOLE else None)
    return table


def _cell(estimate: Estimate) -> str:
    """A value with two digits, and its standard error in percent of it.

    >>> _cell(Estimate(1.234e-4, 1e-5, 32)), _cell(Estimate(1.9, 0.38, 32))
    ('1.2e-4 ±8%', '1.9 ±20%')
    """
    share = f" ±{100 * estimate.standard_error / estimate.value:.0f}%" if estimate.value > 0 else ""
    if estimate.value >= READABLE:
        return in_digits(estimate.value, 2) + share
    mantissa, exponent = f"{estimate.value:.1e}".split("e")
    return f"{mantissa}e{int(exponent)}{share}"


def notes(shown: Shown) -> list[str]:
    """How it was predicted and on what, and the bits allocated."""
    if not shown.found:
        return ["no weight changes: there is nothing to predict"]
    n = shown.found[0].from_trace.n
    way = (
        "from the trace of each tensor, ½ Σ E[δ²] F_ii, as if the changes δ of weights were independent"
        if shown.found[0].quadratic is None
        else "to second order, ½ δᵀFδ, from the changes δ of the weights and the Fisher information F"
    )
    lines = [
        f"predicted {way}",
        f"on {n:,} sentences; each number is a {shown.batches.prediction.estimand}, ± its standard error",
        *about_frozen(shown.options.model, shown.model),
    ]
    if shown.best is not None:
        lines += _about_bits(shown, shown.best)
    return lines


def _about_bits(shown: Shown, best: AllocatedBits) -> list[str]:
    bits = best.allocation.bits
    groups = {number: [part for part in bits if bits[part] == number] for number in set(bits.values())}
    listed = "; ".join(f"{number} bits: {', '.join(groups[number])}" for number in sorted(groups))
    uniform = [
        f"{each.change} everywhere {_cell(each.best)}"
        for each in shown.found
        if each.part == WHOLE and each.change.endswith(("bits", f"of {best.rounding.group}"))
    ]
    measured = "" if best.whole.measured is None else f", measured {_cell(best.whole.measured)}"
    return [
        listed,
        f"a mean of {best.allocation.mean_bits:.4g} bits: {_cell(best.whole.best)} nats{measured}; "
        f"{', '.join(uniform)}",
        f"the bits of every tensor are in {shown.options.allocation_file}",
    ]
