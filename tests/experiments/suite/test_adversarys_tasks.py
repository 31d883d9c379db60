"""At the paper's scale the adversary attacks what Tables 1 and 2 test, by a count of its examples."""

from collections import Counter
from dataclasses import replace
from functools import cache

import pytest

from isoloss.experiments.compared_algorithms import ADVERSARIAL
from isoloss.experiments.experiment import Experiment
from isoloss.experiments.languages import ReadyLanguage
from isoloss.experiments.scale import scale_named
from isoloss.experiments.shared.language_runs import ScaleName
from isoloss.experiments.suite.table_1 import table_1
from isoloss.experiments.suite.table_2 import table_2
from isoloss.experiments.suite.table_3 import parameters_with_bert
from isoloss.languages.pcfg import named_task
from isoloss.measurements.accuracy import AccuracyQuantity
from isoloss.measurements.task_sentences import TaskSentences
from isoloss.models.transformers import TABLE_3, TABLE_4, PreLayerNormTransformer, Shape
from isoloss.objectives.masked import MaskedObjective
from isoloss.pretraining.adversarial import Adversarial, AdversarialRule
from isoloss.pretraining.update_rule import Training


def probed_tasks(experiment: Experiment) -> set[str]:
    """The tasks on which the adversary's runs are tested."""
    examples = [
        each.quantity.examples
        for run in experiment.runs
        if dict(run.labels)["rule"] == ADVERSARIAL
        for each in run.measured
        if isinstance(each.quantity, AccuracyQuantity)
    ]
    return {each.task for each in examples if isinstance(each, TaskSentences)}


@cache
def rule(scale: ScaleName) -> AdversarialRule:
    settings = replace(scale_named(scale).compared.adversary, examples=4)
    assert isinstance(settings, Adversarial)
    plan = scale_named(scale).grammar.language
    assert isinstance(plan, ReadyLanguage)
    model = PreLayerNormTransformer(Shape(16, 1, 1, 16)).build(200, 32, seed=0)
    return settings.build(Training(model, MaskedObjective(), plan.ready, 0, 2000, 8))


@pytest.mark.thorough
@pytest.mark.parametrize("scale", [pytest.param("gpu", marks=pytest.mark.thorough), "paper"])
def test_every_step_attacks_a_task_that_the_tables_test_and_each_equally_often(scale: ScaleName) -> None:
    large, attacked = scale_named(scale), rule(scale)
    steps = Counter(attacked.tasks[step % len(attacked.tasks)].name for step in range(1, 31))
    assert set(steps) == probed_tasks(table_1(large)) | probed_tasks(table_2(large))
    assert set(steps.values()) == {10}


@pytest.mark.thorough
def test_the_rare_task_b_is_drawn_with_its_own_labels() -> None:
    (step,) = [n for n, task in enumerate(rule("paper").tasks) if task.name.startswith("prefix-16")]
    drawn = rule("paper").examples(step).train
    assert (drawn.sentences.lengths >= 16).all()
    again = named_task(rule("paper").training.language, "prefix-16-of-all").label(drawn.sentences)
    assert (again.labels == drawn.labels).all()
    assert drawn.posterior.shape[1] == 50


@pytest.mark.thorough
def test_the_small_model_is_the_shape_nearest_to_nine_million_parameters() -> None:
    def millions(shape: Shape) -> float:
        return parameters_with_bert(shape) / 1e6

    nearest = min({*TABLE_3, *TABLE_4}, key=lambda shape: abs(millions(shape) - 9))
    assert scale_named("paper").compared.small.shape == nearest
    assert millions(nearest) == pytest.approx(8.25, abs=0.01)
