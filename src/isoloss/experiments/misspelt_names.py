"""Names in an experiment's claims and panels: of columns, runs and claims that nothing planned has.

They, and text on an axis, are looked for in a table with all of its columns, before anything is measured.
"""

import math
import re
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import fields, is_dataclass
from numbers import Real
from typing import Any

import polars as pl

from isoloss.errors import BadInput, did_you_mean, place_in_users_code
from isoloss.experiments.experiment import Experiment, refuse_what_is_no_panel
from isoloss.experiments.statistics.seed_bootstrap import Statistic
from isoloss.panels import Axis, Bars, Categories, Chart, Dots, Landscape, Lines, Panel, columns_of
from isoloss.results.record import Setting

TEXTS = ("checkpoint", "sentence_")
"""How the columns begin whose cells are no numbers."""
COUNTS = ("_sentences", "_texts", "parameters", "left_out")
"""How the columns end whose cells are whole numbers."""
MADE_WRONGLY = re.compile(r"\w+\.__init__\(\) (missing|takes|got) ")
"""What Python says of a class called with other arguments than it has, such as a panel without data."""


def refuse_misspelt_names(experiment: Experiment) -> None:
    """Raise BadInput, naming the nearest, for a column that no planned run provides, or a rule of no run.

    The same for a claim that a panel shows and the experiment lacks, unless it has none at all, as at smoke
    scale. Claims' statistics and panels are run on the `planned_table`; their results are discarded, and so
    are any other errors, which measured numbers need not cause, but for those of code that is wrong whatever
    the numbers.
    """
    table = planned_table(experiment)
    if table.is_empty():
        return
    rows = {name for run in experiment.runs for name in (run.name, *dict(run.labels).values())}
    judged = table.filter(pl.col("saturated")).partition_by("run", maintain_order=True)
    for claim in experiment.claims if judged else ():
        asker = f"the claim {claim.name} of {experiment.name}"
        _refuse_what_is_not_there(asker, claim.statistic, table, rows)
        value: Any = math.nan
        with _suggesting(asker, table.columns, rows):
            value = claim.statistic(judged)
        if not isinstance(value, Real):
            raise BadInput(f"{asker} has a statistic that returns {value!r}; let it return a number, or nan")
    panels: tuple[Panel, ...] = ()
    with _suggesting(f"a panel of {experiment.name}", table.columns, rows):
        panels = experiment.panels(table)
    refuse_what_is_no_panel(panels, experiment.name)
    names = [panel.name for panel in panels]
    if twice := next((name for name in names if names.count(name) > 1), ""):
        raise BadInput(f"two panels of {experiment.name} are called {twice}; name each for what it shows")
    for panel in panels:
        _refuse_what_it_lacks(panel, experiment)
        refuse_text_on_axes(panel, experiment.name)


def _refuse_what_is_not_there(
    asker: str, statistic: Statistic, table: pl.DataFrame, rows: Collection[Setting]
) -> None:
    """Raise BadInput for a column, or a rule, that a statistic made of dataclasses names: it would be nan."""
    for name in _named(statistic, ("column", "of")):
        if _without_sizes(name) not in map(_without_sizes, table.columns):
            raise _misspelt(asker, name, table.columns)
    for name in _named(statistic, ("rule", "reference")):
        if name not in rows:
            rules = table["rule"] if "rule" in table.columns else pl.Series([], dtype=pl.String)
            known = rules.drop_nulls().unique(maintain_order=True).to_list() or ["no rules"]
            near = did_you_mean(name, known) or f"; there are {', '.join(known)}"
            raise BadInput(f"{asker} is about runs labelled {name!r}, and there are none{near}")


def _refuse_what_it_lacks(panel: Panel, experiment: Experiment) -> None:
    """Raise BadInput if a panel draws a column that its data lack, or shows a claim that there is not."""
    asker = f"the panel {panel.name} of {experiment.name}"
    claims = [claim.name for claim in experiment.claims]
    for chart in panel.charts:
        for name in columns_of(chart):
            if not panel.data.is_empty() and name not in panel.data.columns:
                raise _misspelt(asker, name, panel.data.columns)
    for name in panel.shows if claims else ():
        if name not in claims:
            near = did_you_mean(name, claims) or f"; its claims are {', '.join(claims)}"
            raise BadInput(f"{asker} shows a claim {name!r}, which the experiment does not have{near}")


def refuse_text_on_axes(panel: Panel, experiment: str) -> None:
    """Raise BadInput for a panel with an axis of a column whose cells are no numbers."""
    for axis in (axis for chart in panel.charts for axis in _axes(chart)):
        for name in {axis.column, axis.error} & set(panel.data.columns):
            try:
                panel.data[name].cast(pl.Float64)
            except pl.exceptions.PolarsError as error:
                raise BadInput(
                    f"the panel {panel.name} of {experiment} has the column {name!r} on an axis, whose cells "
                    "are no numbers"
                ) from error


def _axes(chart: Chart) -> tuple[Axis, ...]:
    match chart:
        case Lines() | Dots():
            return chart.x, chart.y
        case Categories() | Bars():
            return (chart.y,)
        case Landscape():
            return chart.x, chart.y, chart.height
        case _:
            return ()


def _named(statistic: object, by: Collection[str]) -> Iterator[str]:
    """What the fields called so hold, where they hold text."""
    if is_dataclass(statistic) and not isinstance(statistic, type):
        for each in fields(statistic):
            part = getattr(statistic, each.name)
            if isinstance(part, str) and each.name in by:
                yield part
            yield from _named(part, by)


def _without_sizes(column: str) -> str:
    """`accuracy_300` is no mistake where a smaller scale has `accuracy_100` alone."""
    return re.sub(r"\d+", "#", column)


@contextmanager
def _suggesting(asker: str, known: Sequence[str], rows: Collection[Setting]) -> Iterator[None]:
    """Turn failed look-ups of columns or attributes into BadInput, but not a KeyError for one of `rows`.

    The same for what is made with the wrong arguments.
    """
    try:
        yield
    except pl.exceptions.ColumnNotFoundError as error:
        quoted = re.search(r"['\"]([^'\"]+)['\"]", str(error))
        raise _misspelt(asker, quoted[1] if quoted else str(error), known) from error
    except KeyError as error:
        (name, *_) = error.args or (None,)
        if isinstance(name, str) and name not in rows:
            if place := place_in_users_code(error):  # a row, or a dict of the user's own
                near = did_you_mean(name, known) or "; mend it and try again"
                raise BadInput(f"{asker} fails in {place}: KeyError: {name!r}{near}") from error
            raise _misspelt(asker, name, known) from error
    except (AttributeError, NameError) as error:
        if getattr(error, "obj", error) is not None:  # else a number that is not made up
            why = f"{type(error).__name__}: {error}"
            raise BadInput(f"{asker} fails: {why}; mend it and try again") from error
    except TypeError as error:
        if (place := place_in_users_code(error)) and MADE_WRONGLY.match(str(error)):
            raise BadInput(f"{asker} fails in {place}: TypeError: {error}; mend it and try again") from error
    except Exception:  # any other error is reported on real numbers, if at all
        pass


def _misspelt(asker: str, name: str, known: Sequence[str]) -> BadInput:
    near = did_you_mean(name, known) or f"; there are {', '.join(known)}"
    return BadInput(f"{asker} asks for a column {name!r} that nothing planned gives{near}")


def planned_table(experiment: Experiment) -> pl.DataFrame:
    """A table with all of the experiment's columns and made-up numbers, distinct and decreasing along a run.

    Of runs with the same labels and measurements, it includes two. Code that reads columns by name can be
    tested on it before anything is measured.
    """
    rows: list[dict[str, Setting]] = []
    alike: Counter[object] = Counter()
    for run in experiment.runs:
        measured = tuple((each.column_names, each.steps) for each in run.measured)
        kind = (run.labels, run.checkpoint_steps, measured)
        alike[kind] += 1
        if alike[kind] > 2:
            continue
        place: dict[str, Setting] = {"run": run.name, "seed": run.first_seed, "folder": run.digest[:16]}
        for number, step in enumerate(run.checkpoint_steps, start=1):
            if names := [name for of_one, steps in measured if step in steps for name in of_one]:
                at: dict[str, Setting] = {"step": step, "saturated": step >= run.saturated_from}
                value = 1 / (1 + number + alike[kind] / 10)
                rows.append(place | at | {"complete": True} | dict(run.labels) | _invented(names, value))
    for reference in experiment.references:
        place = {"run": reference.name, "seed": None, "step": None, "saturated": reference.judged}
        names = list(reference.quantity.column_names)
        rows.append(place | {"complete": True} | dict(reference.labels) | _invented(names, 0.5))
    return pl.DataFrame(rows, infer_schema_length=None)


def _invented(names: Iterable[str], value: float) -> dict[str, Setting]:
    return {
        name: _cell(name.removeprefix("raw_"), value / place) for place, name in enumerate(names, start=1)
    }


def _cell(name: str, value: float) -> Setting:
    return "text" if name.startswith(TEXTS) else 100 if name.endswith(COUNTS) else value
