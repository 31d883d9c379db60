"""`isoloss language grammar-search`, `hierarchy-search` and `hmm-search` rank languages reproducibly."""

import json

import pytest

from isoloss.cli import main

GRAMMARS = (
    "language grammar-search --search 3 --levels 2 --cheapest 0 --dearest 1 --least-room 0.01 --most-chance 1"
)
HIERARCHIES = GRAMMARS.replace("grammar-search", "hierarchy-search") + " --least-decided 0.999"
CHAINS = (
    "language hmm-search --search 2 --words 4 --states 4 --length 4 --cheapest 0 --dearest 1 --least-room 0"
)


def run(arguments: str) -> int:
    with pytest.raises(SystemExit) as leaving:
        main(arguments.split())
    return int(leaving.value.code or 0)


@pytest.mark.parametrize(
    ("command", "task"), [(GRAMMARS, "prefix-4"), (HIERARCHIES, "prefix-4"), (CHAINS, "state-3")]
)
def test_the_ranking_is_reproducible(command: str, task: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(f"{command} --json") == 0
    once = json.loads(capsys.readouterr().out)
    assert run(f"{command} --json") == 0
    assert json.loads(capsys.readouterr().out) == once
    assert once["task"] == task
    rooms = [candidate["room"] for candidate in once["ranked"]]
    assert rooms == sorted(rooms, reverse=True)
    assert rooms
    assert all(0 < candidate["entropy"] < 2 for candidate in once["ranked"])
    decided = [(candidate["largest_probability"], candidate["gap_to_second"]) for candidate in once["ranked"]]
    assert all(0 < gap <= largest <= 1 for largest, gap in decided)
    assert (min(decided) == pytest.approx((1, 1), abs=1e-12)) == ("hierarchy" in command)


def test_the_bound_on_the_decision_is_kept(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(f"{GRAMMARS} --json") == 0
    largest = [c["largest_probability"] for c in json.loads(capsys.readouterr().out)["ranked"]]
    assert run(f"{GRAMMARS} --least-decided {max(largest)} --json") == 0
    kept = json.loads(capsys.readouterr().out)
    assert [candidate["largest_probability"] for candidate in kept["ranked"]] == [max(largest)]
    assert 1 <= kept["decided"] < kept["with_price"] == 3


def test_the_table_shows_the_best(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(f"{GRAMMARS} --json") == 0
    best = json.loads(capsys.readouterr().out)["ranked"][0]["seed"]
    assert run(f"{GRAMMARS} --show 1") == 0
    shown = capsys.readouterr().out
    assert "prefix-4, most room first" in shown
    assert "of 3 languages" in shown
    rows = [line.split()[1] for line in shown.splitlines() if line.startswith("│")]
    assert rows == [str(best)]


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ("grammar-search --search 0", "--search must be at least 1, not 0"),
        ("hmm-search --show -1", "--show must be at least 0, not -1"),
        ("hmm-search --states 0", "--states must be at least 1, not 0"),
        ("grammar-search --roots 0", "--roots must be at least 1, not 0"),
        ("grammar-search --search 2 --task state-3", "no language of this kind has a task 'state-3'"),
        ("hierarchy-search --search 2 --rules-per-symbol 4", "make 9 pairs, too few for 12 right sides"),
        ("hierarchy-search --search 2 --concentration 0", "a concentration of 0 makes no random"),
        ("grammar-search --search 2 --words 40", "cannot use all of 40 words"),
        ("hmm-search --search 1 --transition-concentration 0", "give numbers above 0"),
        ("hmm-search --search 1 --cheapest 1", "swap the bounds"),
        ("hmm-search --search 1 --first-seed -1", "--seed must be from 0"),
    ],
)
def test_mistakes_are_one_sentence(options: str, says: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(f"language {options}") == 2
    shown = capsys.readouterr()
    assert says in shown.err
    assert shown.err.count("\n") == 1
    assert not shown.out
