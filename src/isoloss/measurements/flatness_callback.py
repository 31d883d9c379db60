"""Flatness measured while a model trains by `transformers.Trainer`."""

from collections.abc import Callable, Sequence
from typing import Any, Literal

from torch import nn
from transformers import TrainerCallback

from isoloss.curvature.fisher_trace import fisher_trace
from isoloss.errors import BadInput
from isoloss.objectives.batch import Batch, Objective


class FlatnessCallback(TrainerCallback):
    """Logs `fisher_trace` and `fisher_trace_standard_error` on fixed batches, to the configured tracker.

    It runs at every `every`-th evaluation, or step, with the same signs. `log` is the trainer's method,
    so add the callback after creating it: `trainer.add_callback(FlatnessCallback(trainer.log, batches,
    objective))`. Of several processes, the first measures its copy; sharded parameters are not supported.
    """

    def __init__(
        self,
        log: Callable[[dict[str, float]], None],
        batches: Sequence[Batch],
        objective: Objective,
        *,
        every: int = 1,
        at: Literal["evaluation", "step"] = "evaluation",
        seed: int = 0,
    ) -> None:
        if every < 1:
            raise BadInput(f"flatness is measured every so many {at}s, at least 1, not {every}")
        self._log, self._batches, self._objective = log, list(batches), objective
        self._every, self._at, self._seed = every, at, seed
        self._evaluations = 0

    def on_evaluate(self, args: Any, state: Any, control: Any, **now: Any) -> None:
        """Called by the trainer after an evaluation."""
        self._evaluations += 1
        if self._at == "evaluation" and self._evaluations % self._every == 0:
            self._measure(state, now["model"])

    def on_step_end(self, args: Any, state: Any, control: Any, **now: Any) -> None:
        """Called by the trainer after a step."""
        if self._at == "step" and state.global_step % self._every == 0:
            self._measure(state, now["model"])

    def _measure(self, state: Any, model: nn.Module) -> None:
        if not state.is_world_process_zero:
            return
        trace = fisher_trace(model, self._batches, self._objective, seed=self._seed).estimate
        self._log({"fisher_trace": trace.value, "fisher_trace_standard_error": trace.standard_error})
