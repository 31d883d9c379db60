from dataclasses import replace
from pathlib import Path

import polars as pl
import pytest

from isoloss.errors import BadInput
from isoloss.experiments.experiment_result import experiment_table
from isoloss.experiments.languages import ReadyLanguage
from isoloss.experiments.scale import scale_named
from isoloss.experiments.suite.figure_6 import figure_6
from isoloss.experiments.suite.figure_7 import figure_7, sentence_panels
from isoloss.languages.dyck import dyck
from isoloss.panels import Tree
from isoloss.progress import silent


def test_a_tree_is_that_of_its_sentence() -> None:
    panels = figure_6(scale_named("smoke")).panels(pl.DataFrame())
    assert len(panels) == 3
    for panel in panels:
        (tree,) = (chart for chart in panel.charts if isinstance(chart, Tree))
        assert list(tree.root.words) == panel.data["word"].to_list()  # type: ignore[attr-defined]
        assert panel.data["position"].to_list() == list(range(1, 9))
    assert panels[0].data["word"].to_list() != panels[1].data["word"].to_list()


def test_a_language_without_derivations_is_refused() -> None:
    scale = scale_named("smoke")
    other = replace(scale, grammar=replace(scale.grammar, language=ReadyLanguage(dyck(4))))
    with pytest.raises(BadInput, match="only a grammar"):
        figure_6(other)


def test_sentences_are_drawn_once_and_shown_as_they_read(tmp_path: Path) -> None:
    language = ReadyLanguage(dyck(4))
    experiment = figure_7(language)
    assert sentence_panels(experiment_table(experiment, tmp_path))[0].data.is_empty()
    experiment.references[0].carry_out(tmp_path, "cpu", silent)
    (panel,) = experiment.panels(experiment_table(experiment, tmp_path))
    balanced = {"< > < >", "< < > >", "> < > <", "> > < <", "< > > <", "> < < >"}
    assert panel.data.height == 8
    assert set(panel.data["sentence"]) <= balanced
