"""`isoloss reproduce`: the paper's figures and tables, and the extensions; and one of its runs once more."""

import math
import shlex
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import tyro
from tyro.conf import Positional

from isoloss.command_line.language_argument import language_in
from isoloss.command_line.options import File, Folder, Name, Number, refuse_below
from isoloss.command_line.terminal import starting
from isoloss.errors import BadInput
from isoloss.experiments.experiment_names import GROUPS, refuse_a_language, refuse_unknown
from isoloss.files import refuse_file_as_folder

if TYPE_CHECKING:
    from isoloss.experiments.experiment import Experiment
    from isoloss.experiments.planned_run import PlannedRun

ScaleName = Literal["smoke", "laptop", "night", "gpu", "paper"]
Place = Literal["local", "ray", "slurm"]
Precision = Literal["float32", "bfloat16"]
FEWEST_TOKENS = 5
"""Of a model: two words and three special tokens."""


@dataclass(frozen=True)
class ReproduceOptions:
    """Reproduce figures and tables of the paper and write their pages, resuming any interrupted call.

    Example: isoloss reproduce figure-1 --scale laptop
    """

    names: Annotated[Positional[tuple[str, ...]], tyro.conf.arg(metavar="[NAME ...]", help_behavior_hint="")]
    """Which experiments, such as figure-1 table-1; or paper, all its figures and tables; or all, which adds
    the extensions. Runs shared by several experiments are computed once."""
    scale: ScaleName = "laptop"
    """Scale: smoke (seconds), laptop (minutes), night (a night on a laptop), gpu (four of the
    paper's sizes up to 41M, for one GPU), paper (the paper's own)."""
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
        Precision | None, tyro.conf.arg(metavar="{float32,bfloat16}", help_behavior_hint="")
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
    hours: Annotated[float | None, tyro.conf.arg(metavar="HOURS", help_behavior_hint="")] = None
    """Time limit of a SLURM job, after which an unfinished job is requeued and resumes where it stopped; by
    default 24."""
    memory: Annotated[float | None, tyro.conf.arg(metavar="GB", help_behavior_hint="")] = None
    """Memory of a SLURM job, in GB; 8 by default."""
    dry_run: bool = False
    """Print the cost of training in time and gigabytes, with --wide in operations too, and stop."""
    measure: bool = False
    """With --dry-run, train each model on --device for a few seconds and estimate the time from that."""
    wide: bool = False
    """With --dry-run, print every column, however long the lines."""
    json: bool = False
    """Print the claims and all numbers as JSON on stdout."""

    @property
    def folder(self) -> Path:
        """The folder of the runs and the site."""
        ending = f"-{self.language.stem}" if self.language else ""
        return self.output or Path("results") / f"{self.scale}{ending}"


def reproduce(options: ReproduceOptions) -> int:
    """Carry out the request; returns the exit code."""
    _check_without_torch(options)
    with starting("reproduce"):
        from isoloss.command_line.reproduction import reproduce_experiments
    return reproduce_experiments(options)


def _check_without_torch(options: ReproduceOptions) -> None:
    refuse_unknown(options.names)
    if options.language is not None or options.task is not None:
        refuse_a_language(options.names)
    if options.runs and (len(set(options.names)) > 1 or options.names[0] in GROUPS):
        raise BadInput("--runs names runs of one experiment; name that experiment alone")
    if options.language is not None:
        language_in(options.language)  # refuses what cannot be read
    elif options.maximum_length is not None:
        raise BadInput("--maximum-length needs --language; the scale's language has a fixed length")
    refuse_below(FEWEST_TOKENS, options.tokens, "--tokens")
    if options.output is not None:
        refuse_file_as_folder(options.output)
    refuse_below(1, options.processes, "--processes")
    for option, value, unit in (("--hours", options.hours, "hours"), ("--memory", options.memory, "GB")):
        if value is not None and not 0 < value < math.inf:
            raise BadInput(f"{option} must be above 0 and finite, some {unit} of a SLURM job, not {value:g}")
    _refuse_options_of_another_place(options)
    if options.measure and not (options.dry_run and options.on == "local"):
        raise BadInput("--measure goes with --dry-run and --on local: it times the models here, then stops")
    if options.wide and not options.dry_run:
        raise BadInput("--wide is for the table of --dry-run; leave it out")


def _refuse_options_of_another_place(options: ReproduceOptions) -> None:
    belongs = {
        "--processes": (options.processes, "local"),
        "--address": (options.address, "ray"),
        "--partition": (options.partition, "slurm"),
        "--account": (options.account, "slurm"),
        "--hours": (options.hours, "slurm"),
        "--memory": (options.memory, "slurm"),
    }
    for option, (value, place) in belongs.items():
        if value is not None and options.on != place:
            raise BadInput(f"{option} is for --on {place}; leave it out with --on {options.on}")


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
