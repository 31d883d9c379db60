"""A small language, and a run on it that tests share."""

from typing import TYPE_CHECKING

import pytest

# Imported when it is needed: pytest may read this file before types are checked in what is imported.
if TYPE_CHECKING:
    from isoloss import lab
    from isoloss.languages.pcfg import PCFG


@pytest.fixture(scope="session")
def language() -> "PCFG":
    from isoloss.experiments.languages import headline_grammar

    return headline_grammar()


@pytest.fixture(scope="session")
def run(language: "PCFG") -> "lab.Run":
    from isoloss import lab

    return lab.train(language, 16, steps=40, seed=1, progress=lab.silent)


@pytest.fixture(autouse=True)
def _probed_in_few_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    from isoloss.measurements import linear_probe

    monkeypatch.setattr(linear_probe, "CONVERGED_AFTER", 100)
