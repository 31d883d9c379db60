"""The page of the paper's settings, docs/paper-scale.md, from the code: `make paper-scale` writes it.

A test compares the two, so that no setting of the paper's scale can change without the change being seen.
"""

from pathlib import Path

from isoloss.experiments.design import every_experiment
from isoloss.experiments.experiment import PaperSetting, SettingsGroup
from isoloss.experiments.paper_settings import settings_of
from isoloss.experiments.scale import scale_named

PAGE = Path(__file__).parent.parent / "paper-scale.md"
INTRODUCTION = """\
# The paper's scale

What the paper says of each setting, what `--scale paper` does, and why. The settings of one figure or table,
with what its runs cost:

```sh
isoloss reproduce figure-1 --scale paper --dry-run
```

This page is written from the code, and a test fails where the two differ. Section numbers are the paper's;
what only its preprint or its authors' released code says is marked so.
"""


def paper_scale_page() -> str:
    """The page's text."""
    return "\n".join([INTRODUCTION, *map(_section, settings_of(every_experiment(scale_named("paper"))))])


def _section(group: SettingsGroup) -> str:
    rows = "\n".join(map(_row, group.settings))
    return f"## {group.title}\n\n| | the paper | here | why |\n|---|---|---|---|\n{rows}\n"


def _row(setting: PaperSetting) -> str:
    return f"| {setting.name} | {setting.paper} | {setting.ours} | {setting.why} |"


if __name__ == "__main__":
    PAGE.write_text(paper_scale_page())
