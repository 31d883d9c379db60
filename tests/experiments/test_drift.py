"""The drift, carried out in seconds."""

from pathlib import Path

from isoloss.experiments.drift.experiment import drift
from isoloss.experiments.experiment_result import carry_out_experiments
from isoloss.experiments.scales.smoke import DRIFT as SMOKE
from isoloss.experiments.scales.smoke import smoke
from jobs_in_turn import in_turn


def test_the_experiment_is_carried_out_and_drawn(tmp_path: Path) -> None:
    scale = smoke()
    experiment = drift(scale, scale.grammar.tasks[1])
    result = carry_out_experiments([experiment], tmp_path, in_turn).experiments[0]
    assert result.outcome.failures == ()
    paces = len(SMOKE.paces) + 1
    table = result.table
    assert table.height == len(scale.seeds) * (1 + 3 * (paces - 1) + 2)
    assert table["predicted_descent"].drop_nulls().len() == len(scale.seeds)
    assert table["complete"].all()
    assert table.filter(drift="drift")["raw_loss"].null_count() == 0
    judged = {judgement.claim.name: judgement.effect for judgement in result.judgements}
    assert all(
        effect == effect for name, effect in judged.items() if name not in ("quarter-speed", "speed")
    ), judged
    assert [panel.name for panel in experiment.panels(table)] == ["clock-grammar-16", "distance-grammar-16"]
