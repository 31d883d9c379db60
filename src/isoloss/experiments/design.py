"""What an experiment's file exports, and how a user's own is read."""

import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path

from isoloss.errors import BadInput
from isoloss.experiments.experiment import Experiment
from isoloss.experiments.scale import Scale
from isoloss.experiments.shared.language_runs import ScaleName
from isoloss.pretraining.specification import Compute

EXPORTED = "EXPERIMENT"
"""The name under which an experiment's file exports its `Design`."""

Seeds = tuple[int, ...]


@dataclass(frozen=True)
class Picture:
    """The panel of an experiment that the documentation shows, and what it shows."""

    panel: str
    shows: str


@dataclass(frozen=True)
class Design:
    """An experiment at any scale, and what the commands and the documentation have to know of it.

    `plan` makes the experiment at a scale. `registered` is the commit whose docs/claims.md has the claims as
    they are judged; it is older than the first run with a seed that is reported, and is never changed after
    it. `seeds` replace the scale's where claims were registered anew; `earlier_seeds` are those of earlier
    rounds, of which claims were left open or changed. `takes_a_language`: the scale's grammar may be replaced
    by a user's language; `needs_room`: only by one with a task that neither a guess nor the words alone can
    solve. `with_rates` plans it with a user's learning rates and batches.

    >>> from isoloss.experiments.scale import scale_named
    >>> from isoloss.experiments.suite import builtin_designs
    >>> builtin_designs()["figure-9"].at(scale_named("smoke")).title
    'Does the KL divergence converge, as the loss does?'
    """

    plan: Callable[[Scale], Experiment]
    registered: str = ""
    seeds: Mapping[ScaleName, Seeds] = field(default_factory=dict)
    earlier_seeds: Mapping[ScaleName, tuple[Seeds, ...]] = field(default_factory=dict)
    takes_a_language: bool = False
    needs_room: bool = False
    with_rates: Callable[[Scale, str], Experiment] | None = None
    picture: Picture | None = None
    of_the_paper: bool = False

    def at(self, scale: Scale, rates: str | None = None) -> Experiment:
        """The experiment at a scale, with a user's learning rates and batches where it takes them."""
        scale = scale.with_seeds(self.seeds.get(scale.name))
        made = self.with_rates(scale, rates) if rates and self.with_rates else self.plan(scale)
        runs = (
            made.runs
            if scale.compute == Compute()
            else tuple(r.carried_out_by(scale.compute) for r in made.runs)
        )
        return replace(made, runs=runs, registered=self.registered, pilot_seeds=scale.pilot_seeds)


def read_design(path: Path) -> Design:
    """The design in a user's own Python file, which is imported under its own name, as its workers do.

    Raises BadInput if there is no such file, if it fails, now or when it plans, or if it does not export a
    `Design`.
    """
    path = path.resolve()
    if not path.is_file():
        raise BadInput(f"there is no file {path}; name an experiment, or a Python file that defines one")
    if not path.stem.isidentifier() or _file_of(path.stem) not in (None, str(path)):
        raise BadInput(f"{path} cannot be imported as {path.stem!r}: give the file a name of its own")
    sys.path.insert(0, str(path.parent))  # for worker processes too, which inherit the path
    with _failures_named(path):
        module = import_module(path.stem)
    found = getattr(module, EXPORTED, None)
    if not isinstance(found, Design):
        raise BadInput(
            f"{path} does not define {EXPORTED} = Design(...); docs/run-an-experiment.md shows how"
        )

    def plan(scale: Scale) -> Experiment:
        with _failures_named(path):
            return found.plan(scale)

    return replace(found, plan=plan)


def _file_of(module: str) -> str | None:
    """The file of the module of that name, empty for one without; None if there is no such module."""
    known = sys.modules.get(module)
    if known is not None:
        return known.__file__ or ""
    spec = find_spec(module)
    return None if spec is None else spec.origin or ""


@contextmanager
def _failures_named(path: Path) -> Iterator[None]:
    """Turn an error of the file's own code into BadInput with its line."""
    try:
        yield
    except BadInput:
        raise
    except Exception as error:
        where, why = f"{path}{_line_of(error, path)}", error.msg if isinstance(error, SyntaxError) else error
        raise BadInput(f"{where} failed: {type(error).__name__}: {why}; mend it and try again") from error


def _line_of(error: BaseException, path: Path) -> str:
    """Where in the file an error arose, e.g. ", line 3"; empty if it is not known."""
    if isinstance(error, SyntaxError) and error.filename == str(path):
        return f", line {error.lineno}"
    trace, found = error.__traceback__, ""
    while trace is not None:
        if Path(trace.tb_frame.f_code.co_filename) == path:
            found = f", line {trace.tb_lineno}"
        trace = trace.tb_next
    return found
