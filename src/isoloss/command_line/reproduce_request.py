"""A request to reproduce experiments: the options, and the command that makes one of its runs again."""

import shlex
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import tyro
from tyro.conf import Positional

from isoloss.command_line.options import File, Folder, Name, Number

if TYPE_CHECKING:
    from isoloss.experiments.experiment import Experiment
    from isoloss.experiments.planned_run import PlannedRun

ScaleName = Literal["smoke", "laptop", "night", "gpu", "paper"]
Place = Literal["local", "ray", "slurm"]
Precision = Literal["float32", "bfloat16"]


@dataclass(frozen=True)
class ReproduceOptions:
    """Reproduce figures and tables of the paper and write their pages, resuming any interrupted call.

    Example: isoloss reproduce figure-1 --scale laptop
    """

    names: Annotated[Positional[tuple[str, ...]], tyro.conf.arg(metavar="[NAME ...]", help_behavior_hint="")]
    """Which experiments, such as figure-1 table-1; or paper, all its figures and tables; or all, which adds
    the extensions. Runs shared by several experiments are computed once."""
    scale: ScaleName = "laptop"
    """Scale: smoke (seconds), laptop (minutes), night (a night on a laptop), gpu (the paper's four smallest
    sizes, for one GPU), paper (the paper's own)."""
    output: Folder = None
    """Folder for the runs and the site, shared by all experiments; results/SCALE by default."""
    language: File = None
    """A language of your own instead of the scale's grammar: a grammar in NLTK's notation, or JSON of an HMM
    or a Dyck language. For figure-1 and others on the models of that grammar, which are named if it is asked
    of another."""
    maximum_length: Number = None
    """Keep only sentences of --language up to this length; required if its sentences are unbounded."""
    task: Name = None
    """Downstream task, such as prefix-4, for the experiments that take a --language. By default the scale's
    own; with --language, the prefix of half the longest sentence or an HMM's middle state, or for figure-1
    the task with the most room."""
    any_task: bool = False
    """Allow figure-1 to use a task that the words alone, or a guess, can solve, which is refused otherwise;
    with --language but no --task, the prefix of half the longest sentence."""
    runs: Annotated[tuple[str, ...], tyro.conf.arg(metavar="RUN", help_behavior_hint="")] = ()
    """Only these runs of one experiment, such as width-32-seed-1; all by default."""
    processes: Number = None
    """Number of parallel runs, one core each; by default one per core, or 1 on cuda."""
    device: str = "cpu"
    """Where models are trained and measured: cpu or cuda."""
    precision: Annotated[
        Precision | None,
        tyro.conf.arg(metavar="{float32,bfloat16}", help_behavior_hint=""),
    ] = None
    """Precision of matrix products in training: float32, or bfloat16 at the scale gpu. Measurements are
    always in float32. Changing it makes a different run."""
    tokens: Number = None
    """Vocabulary size of the models, such as 30522, the size of the tokenizer with which the paper counts its
    parameters; by default the number of words of the language plus three."""
    compiled: Annotated[bool | None, tyro.conf.arg(metavar="{True,False}", help_behavior_hint="")] = None
    """Whether to train with a compiled forward pass, by default at the scale gpu alone; this, too, makes a
    different run."""
    on: Place = "local"
    """Where to run: local (this machine), ray or slurm (a cluster whose nodes share the output folder)."""
    address: Annotated[str | None, tyro.conf.arg(metavar="HOST:PORT", help_behavior_hint="")] = None
    """HOST:PORT of the Ray cluster's head node; by default the cluster this machine belongs to."""
    partition: Name = None
    """SLURM partition; the cluster's default if not given."""
    account: Name = None
    """SLURM account; the cluster's default if not given."""
    hours: float = 24.0
    """Time limit of a SLURM job, after which an unfinished job is requeued and resumes where it stopped."""
    memory: Annotated[float | None, tyro.conf.arg(metavar="GB", help_behavior_hint="")] = None
    """Memory of a SLURM job, in GB; 8 by default."""
    dry_run: bool = False
    """Print the cost in operations, hours and gigabytes, and stop."""
    measure: bool = False
    """With --dry-run, train each model on --device for a few seconds and estimate the hours from that."""
    wide: bool = False
    """With --dry-run, print every column, however long the lines."""
    json: bool = False
    """Print the claims and all numbers as JSON on stdout."""

    @property
    def folder(self) -> Path:
        """The folder of the runs and the site."""
        own = f"-{self.language.stem}" if self.language else ""
        return self.output or Path("results") / f"{self.scale}{own}"


def command_again(request: ReproduceOptions, experiment: "Experiment", run: "PlannedRun") -> str:
    """The command that recomputes one run, in a folder of its own."""
    from isoloss.experiments.design import name_of, requested_designs

    named = {name_of(requested): requested for requested in request.names}
    asked = named.get(experiment.name, experiment.name)
    design = requested_designs([asked])[experiment.name]
    given = request.language is not None or (request.task is not None and experiment.name in named)
    words = ["isoloss", "reproduce", asked, "--scale", request.scale]
    words += ["--runs", run.name, "--output", "one-run"]
    options = {
        "--language": request.language,
        "--maximum-length": request.maximum_length,
        "--task": _probed_task(run) if given else None,
        "--device": None if request.device == "cpu" else request.device,
        "--tokens": request.tokens,
        "--precision": request.precision,
        "--compiled": request.compiled,
    }
    for name, value in options.items():
        words += [name, str(value)] if value is not None else []
    words += ["--any-task"] if request.any_task and given and design.needs_room else []
    return shlex.join(words)


def _probed_task(run: "PlannedRun") -> str | None:
    """The downstream task of the run's probe, which for a language depends on the rest of the request."""
    from isoloss.measurements.task_sentences import TaskSentences

    quantities = (measured.quantity for measured in run.measured)
    examples = (getattr(quantity, "examples", None) for quantity in quantities)
    return next((each.task for each in examples if isinstance(each, TaskSentences)), None)
