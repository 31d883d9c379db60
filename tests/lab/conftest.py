"""A small language, and a run on it that tests share."""

import pytest

from isoloss import lab
from isoloss.experiments.languages import headline_grammar
from isoloss.languages.pcfg import PCFG


@pytest.fixture(scope="session")
def language() -> PCFG:
    return headline_grammar()


@pytest.fixture(scope="session")
def run(language: PCFG) -> lab.Run:
    return lab.train(language, 16, steps=40, seed=1, progress=lab.silent)
