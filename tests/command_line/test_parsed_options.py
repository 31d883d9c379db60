"""What the parser of options refuses is told in one sentence, without a box and without Python's words."""

import pytest
from called import Capture, refused

from isoloss.command_line.parsed_options import sentence

MISTAKES = (
    ("flatness model --sentences twelve", "--sentences takes an integer, not 'twelve'; see `isoloss"),
    ("enlarge model new --width two", "--width takes an integer, not 'two'"),
    ("compare-runs a b --at-loss x", "--at-loss takes a number, not 'x'"),
    ("sensitivity m --round a b", "--round cannot be 'a', 'b'"),
    ("reproduce figure-1 --scale huge", "--scale cannot be 'huge'; choose smoke, laptop, night"),
    ("reproduce --compiled maybe", "--compiled cannot be 'maybe'; choose "),
    ("task sst3", "NAME cannot be 'sst3'; did you mean 'sst2'?"),
    ("language hmm --output", "there is no value after --output; give one; see `isoloss language --help`"),
    ("language hmmm --output x.json", "there is no 'hmmm'; did you mean 'hmm'?"),
    ("language", "say which: grammar, hierarchy, hmm, dyck, causal-lm or teacher"),
    ("probabilities my.pcfg", "--sentence STR must be given"),
    ("records pack", "RESULTS and FILE must be given"),
    ("records elsewhere", "there is no 'elsewhere'; choose pack or unpack"),
    ("show a b c", "'b' is one word too many; leave it out"),
    ("runs --results somewhere", "isoloss runs has no option --results; give RESULTS by itself, without a"),
    ("--verison", "did you mean '--version'?"),
)


@pytest.mark.parametrize(("asked", "sentence"), MISTAKES)
@pytest.mark.parametrize("columns", ["40", "80"])
def test_a_mistake_is_one_sentence(
    asked: str, sentence: str, columns: str, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", columns)
    assert sentence in refused(capsys, *asked.split())


def test_a_box_is_read_with_and_without_lines_of_unicode() -> None:
    plain = " Value error   \n ------- \n  Error parsing --width: int() base 10: 'x'  \n  -----\n  more  \n"
    boxed = "╭─ Value error ─╮\n│ Error parsing --width: int() base 10: 'x' │\n│ ─── │\n│ more │\n╰──╯\n"
    assert sentence(plain) == sentence(boxed) == "--width takes an integer, not 'x'"
