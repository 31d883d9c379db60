"""A user's own language in place of the scale's, as the experiments are planned on it."""

import json
from pathlib import Path

import pytest

from isoloss.command_line.reproduce import ReproduceOptions
from isoloss.command_line.reproduction import Choice, choice
from isoloss.errors import BadInput
from isoloss.experiments.design import builtin_designs
from isoloss.experiments.experiment_names import names_with_a_language
from isoloss.experiments.suite.flatness_interventions import AT as INTERVENTIONS
from isoloss.languages.dyck import dyck, write_dyck
from isoloss.languages.hmm import write_hmm
from isoloss.languages.notation import write_grammar
from isoloss.languages.random_grammar import laptop_grammar
from isoloss.languages.random_hmm import random_hmm
from isoloss.pretraining.flatness_regularised import Sharpened

TAKE_A_LANGUAGE = names_with_a_language()

OF_GRAMMARS = "other-distributions"


def test_the_names_that_take_a_language_are_those_of_the_designs() -> None:
    designs = builtin_designs()
    assert set(TAKE_A_LANGUAGE) == {name for name, each in designs.items() if each.takes_a_language}


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Files of a grammar, an HMM, balanced strings, and balanced strings mixed with uniform ones."""
    hmm = random_hmm(words=5, states=4, blocks=1, length=6, seed=3)
    texts = {
        "grammar": write_grammar(laptop_grammar(3)),
        "hmm": write_hmm(hmm),
        "balanced": write_dyck(dyck(6)),
        "mixed": write_dyck(dyck(6, 0.5)),
    }
    folder = tmp_path_factory.mktemp("languages")
    found = {name: folder / name for name in texts}
    for name, text in texts.items():
        found[name].write_text(text)
    return found


def asked(language: Path | None, *names: str, task: str | None = None, folder: Path = Path()) -> Choice:
    return choice(ReproduceOptions(names, scale="smoke", language=language, task=task, output=folder))


@pytest.mark.parametrize(
    ("kind", "names", "words", "task"),
    [
        pytest.param("grammar", TAKE_A_LANGUAGE, 8, "prefix-4", marks=pytest.mark.thorough),
        ("hmm", tuple(name for name in TAKE_A_LANGUAGE if name != OF_GRAMMARS), 5, "state-3"),
        ("mixed", ("lazy-to-rich", "flatness-interventions"), 2, "mismatches"),
    ],
)
def test_every_experiment_is_planned_on_the_language_alone(
    files: dict[str, Path], kind: str, names: tuple[str, ...], words: int, task: str
) -> None:
    planned = asked(files[kind], *names)
    assert {experiment.name for experiment in planned.experiments} == set(names)
    assert {run.language.words for run in planned.runs} == {words}
    assert len({run.language.digest for run in planned.runs}) == 1
    quantities = [measured.quantity for run in planned.runs for measured in run.measured]
    assert {quantity.task for quantity in quantities if hasattr(quantity, "task")} == {task}


def test_what_is_sharpened_keeps_to_losses_as_far_above_the_entropy(files: dict[str, Path]) -> None:
    """Two words have at most ln 2 nats, half the entropy of the scale's grammar."""
    (planned,) = asked(files["mixed"], "flatness-interventions").experiments
    rules = [run.update_rule for run in planned.runs]
    (window,) = {rule.loss_window for rule in rules if isinstance(rule, Sharpened)}
    low, high = INTERVENTIONS["smoke"].sharpened.loss_window
    assert window[1] / window[0] == pytest.approx(high / low, rel=1e-3)
    assert 0.3 < window[0] / low < 0.55


def test_what_does_not_fit_is_one_sentence(files: dict[str, Path], tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="the language is no grammar; give one, or leave that experiment out"):
        asked(files["hmm"], OF_GRAMMARS)
    one_root = tmp_path / "one-root.pcfg"
    rules = ("S -> P P [1.0]", "P -> A A [0.7] | B B [0.3]", "A -> C D [1.0]", "B -> D C [1.0]")
    rules += ("C -> 'a' [1.0]", "D -> 'b' [0.5] | 'c' [0.5]")
    one_root.write_text("\n".join(rules))
    with pytest.raises(BadInput, match=r"sentences with skewed roots, which the language has already; give"):
        asked(one_root, OF_GRAMMARS)
    with pytest.raises(BadInput, match=r"figure-1, .*, drift, .* and other-distributions; name no others"):
        asked(files["grammar"], "figure-2")
    with pytest.raises(BadInput, match="the language has no task"):
        asked(files["balanced"], "lazy-to-rich")
    one_sentence = {
        **{"words": ["a", "b"], "initial": [1, 0], "length": 4},
        **{"transition": [[0, 1], [1, 0]], "emission": [[1, 0], [0, 1]]},
    }
    (tmp_path / "one.json").write_text(json.dumps(one_sentence))
    with pytest.raises(BadInput, match="state-2 of the language has too few different sentences"):
        asked(tmp_path / "one.json", "drift")
    assert asked(tmp_path / "one.json", "drift-limits").runs  # it draws no sentences of a task
    with pytest.raises(BadInput, match="no task 'state-9'"):
        asked(files["hmm"], "lazy-to-rich", task="state-9")
    assert {run.language.words for run in asked(None, "drift", task="prefix-4", folder=tmp_path).runs} == {6}
