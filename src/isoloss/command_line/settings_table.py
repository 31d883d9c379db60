"""What `isoloss reproduce --scale paper --dry-run` prints of settings: the paper's, ours, and why."""

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from rich.table import Table

from isoloss.command_line.console import table_console
from isoloss.experiments.paper_settings.setting import SettingsGroup


def settings_as_rows(groups: Sequence[SettingsGroup]) -> list[dict[str, Any]]:
    """A row a setting, for JSON."""
    return [{"of": group.title, **asdict(setting)} for group in groups for setting in group.settings()]


def print_settings(groups: Sequence[SettingsGroup]) -> None:
    """A table on stdout, a section for each group."""
    table = Table(title="Settings", show_lines=False)
    for column in ("setting", "the paper", "here", "why"):
        table.add_column(column, overflow="fold")
    for group in groups:
        table.add_section()
        table.add_row(f"[bold]{group.title}[/bold]")
        for setting in group.settings():
            table.add_row(setting.name, setting.paper, setting.ours, setting.why)
    table_console().print(table)
