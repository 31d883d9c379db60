"""Whether what an experiment's function gives for panels are such, of columns that can be drawn."""

import polars as pl

from isoloss.errors import BadInput
from isoloss.panels import Axis, Bars, Categories, Chart, Dots, Landscape, Lines, Panel


def refuse_what_is_no_panel(panels: object, experiment: str) -> None:
    """Raise BadInput for what is no tuple of panels, each with a tuple of charts and a table."""
    if not isinstance(panels, tuple):
        raise BadInput(f"panels of {experiment} returned {panels!r:.40}; let it return a tuple of panels")
    for panel in panels:
        if not isinstance(panel, Panel):
            raise BadInput(
                f"panels of {experiment} returned a {type(panel).__name__} in its tuple; make it a Panel"
            )
        _refuse_no_charts(f"the panel {panel.name} of {experiment}", panel.charts, panel.data)


def _refuse_no_charts(asker: str, charts: object, data: object) -> None:
    if not isinstance(charts, tuple):
        kind = type(charts).__name__
        raise BadInput(f"{asker} has charts={kind}, which are a tuple; of one: charts=(...,), with a comma")
    for each in charts:
        if not isinstance(each, Chart):
            kind = type(each).__name__
            raise BadInput(f"{asker} has a {kind} among its charts; give Lines, Dots or another chart")
    if not isinstance(data, pl.DataFrame):
        kind = type(data).__name__
        raise BadInput(f"{asker} has data of another kind, {kind}; give it the table, or some of its rows")


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
