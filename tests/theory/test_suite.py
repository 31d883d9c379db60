import json
import math
from dataclasses import replace

import polars as pl
import pytest
from polars.testing import assert_frame_equal

from isoloss.errors import BadInput
from isoloss.panels import Axis, Categories, Colour, Dots, Landscape, Lines, Mark, Panel, Table
from isoloss.progress import silent
from isoloss.results.verdict import Verdict
from isoloss.theory import STATEMENTS
from isoloss.theory.finding import Finding, Statement, vanishing
from isoloss.theory.suite import (
    SUITE,
    PlannedStatement,
    named,
    read_statement,
    shipped_statements,
    write_shipped,
    write_statement,
)

X, Y = Axis("n", "strings", logarithmic=True), Axis("y", "error", error="e")
COLOUR = Colour("word", "word", ordered=True)


def statement():
    frame = pl.DataFrame(
        {
            "n": [1, None, 3],
            "y": [0.1 + 0.2, float("inf"), float("nan")],
            "e": [None, 1e-300, -0.0],
            "word": ["a", "µ", None],
            "real": [True, False, None],
        }
    )
    charts = (
        Dots(X, Y, COLOUR),
        Lines(X, Y, COLOUR, "word", predicted="real", marked=Mark(0.5, "half")),
        Categories("word", Y, COLOUR),
        Table((X, Y)),
        Landscape(X, Y, Y, COLOUR),
    )
    finding = Finding(
        name="f", sentence="It is.", source="Lemma", predicted=1.0, relation="at least",
        measured=float("nan"), n=3, unit="nats", tolerance=1e-9, paper="2",
    )  # fmt: skip
    return Statement(
        "s", "Title", "Text.", (finding, replace(finding, measured=1.5, standard_error=0.1)),
        (Panel("p", "Panel", "Caption.", charts, frame), Panel("q", "", "", (), pl.DataFrame())),
        (("seed", "901"),), ("A correction.",),
    )  # fmt: skip


def test_a_statement_is_read_back_as_it_was(tmp_path):
    path = tmp_path / "new" / "s.json"
    written = statement()
    write_statement(path, written)
    read = read_statement(path)
    for before, after in zip(written.panels, read.panels, strict=True):
        assert_frame_equal(before.data, after.data, check_exact=True)
        assert replace(after, data=before.data) == before
    assert read.findings[0].measured != read.findings[0].measured
    assert repr(read.findings) == repr(written.findings)
    assert replace(read, panels=(), findings=()) == replace(written, panels=(), findings=())
    content = json.loads(path.read_text(), parse_constant=lambda name: pytest.fail(name))
    assert [finding["verdict"] for finding in content["findings"]] == ["not supported", "supported"]


@pytest.mark.parametrize("gaps", [[math.nan, 0.0], [0.0, math.nan, 1e-12]])
def test_numbers_of_which_one_is_undefined_do_not_vanish(gaps):
    assert vanishing("gap", "It vanishes.", "", gaps, tolerance=1e-9).verdict == Verdict.NOT_SUPPORTED
    defined = [gap for gap in gaps if not math.isnan(gap)]
    assert vanishing("gap", "It vanishes.", "", defined, tolerance=1e-9).verdict == Verdict.SUPPORTED


def test_the_names_that_are_told_without_the_programs_are_theirs():
    assert tuple(entry.name for entry in SUITE) == STATEMENTS


def test_a_table_of_lists_is_refused_and_nothing_is_written(tmp_path):
    odd = Panel("p", "", "", (), pl.DataFrame({"n": [[1]]}))
    with pytest.raises(BadInput, match="'n' holds List"):
        write_statement(tmp_path / "s.json", replace(statement(), panels=(odd,)))
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"name": 1', '{"name": "s", "title": "", "text": ""}'])
def test_a_damaged_file_is_named(text, tmp_path):
    path = tmp_path / "s.json"
    path.write_text(text)
    with pytest.raises(BadInput, match=r"s\.json does not hold a statement"):
        read_statement(path)


def test_what_is_there_is_not_computed_again_and_what_is_damaged_is(tmp_path):
    (entry,), calls = named("theorem-g.6"), []

    def compute(settings, progress):
        calls.append(settings)
        return statement()

    planned = PlannedStatement(replace(entry, compute=compute), entry.smoke)
    other = PlannedStatement(planned.entry, replace(entry.smoke, seed=902))
    assert planned.read(tmp_path)[0] is None
    for each in (planned, planned, other):
        each.carry_out(tmp_path, lambda *_: None)
    assert calls == [entry.smoke, other.settings]
    planned.file(tmp_path).write_text("{")
    assert planned.read(tmp_path)[0] is None
    planned.carry_out(tmp_path, lambda *_: None)
    assert len(calls) == 3
    assert planned.read(tmp_path)[0] is not None


QUICK = ("hidden-units",)
SECONDS = ("lemma-g.3", "theorem-g.6")


def test_every_statement_is_shipped_once_in_the_order_in_which_they_are_shown() -> None:
    assert [each.name for each in shipped_statements().statements] == [entry.name for entry in SUITE]
    assert all(each.findings for each in shipped_statements().statements)


@pytest.mark.parametrize(
    "name",
    [
        *QUICK,
        pytest.param("fact-g.2", marks=pytest.mark.thorough),
        *(pytest.param(name, marks=pytest.mark.slow) for name in SECONDS),
    ],
)
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
