"""The shipped statements are what the programs compute, and all of them are there."""

import pytest

from isoloss.progress import silent
from isoloss.theory.shipped import shipped_statements, write_shipped
from isoloss.theory.suite import SUITE, named

QUICK = ("fact-g.2", "lemma-g.3", "theorem-g.6", "hidden-units")


def test_every_statement_is_shipped_once_in_the_order_in_which_they_are_shown() -> None:
    assert [each.name for each in shipped_statements().statements] == [entry.name for entry in SUITE]
    assert all(each.findings for each in shipped_statements().statements)


@pytest.mark.parametrize("name", QUICK)
def test_the_findings_are_those_that_the_program_gives(name: str) -> None:
    (entry,) = named(name)
    (shipped,) = [each for each in shipped_statements().statements if each.name == name]
    computed = entry.compute(entry.full, silent)
    assert shipped.settings == computed.settings
    for there, here in zip(shipped.findings, computed.findings, strict=True):
        assert (there.name, there.sentence, there.verdict) == (here.name, here.sentence, here.verdict)
        assert there.measured == pytest.approx(here.measured, rel=1e-6, abs=1e-9)


def test_the_race_of_the_transformer_is_judged_where_sgd_returns_during_it() -> None:
    (race,) = [each for each in shipped_statements().statements if each.name == "theorem-3.3-transformer"]
    assert "fall of the trace" in {finding.name for finding in race.findings}
    assert "too short" not in race.text


def test_what_is_written_is_what_is_read(tmp_path) -> None:
    shipped = shipped_statements()
    write_shipped(shipped.statements, shipped.commit, tmp_path / "theory.json")
    from importlib.resources import files

    packed = files("isoloss.reference").joinpath("theory.json").read_text()
    assert (tmp_path / "theory.json").read_text() == packed
