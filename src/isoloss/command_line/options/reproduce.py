"""What `isoloss reproduce` and `isoloss theory` take."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

import tyro
from tyro.conf import Positional

ScaleName = Literal["smoke", "laptop", "night", "gpu", "paper"]
Place = Literal["local", "ray", "slurm"]


@dataclass(frozen=True)
class ReproduceOptions:
    """Compute figures and tables of the paper and write their pages; go on where a call stopped.

    Example: isoloss reproduce figure-1 --scale laptop
    """

    names: Positional[tuple[str, ...]]
    """Which experiments, such as figure-1 table-1; or paper, its every figure and table; or all, with what
    goes beyond them. Those that share runs compute them once."""
    scale: ScaleName = "laptop"
    """How large: smoke (seconds), laptop (minutes), night (a night on a laptop), gpu (the paper's four
    smallest sizes, for one card), paper (the paper's own)."""
    output: Path | None = None
    """Folder for runs and site; results/SCALE when not given, and all experiments share it."""
    language: Path | None = None
    """A language of your own instead of the scale's grammar: a grammar in NLTK's notation, or JSON of an HMM
    or a Dyck language; figure-1, drift, and what looks further at the same models (drift-limits, adamw-clock,
    flatness-interventions, lazy-to-rich, roots-or-trace, and of a grammar other-distributions)."""
    maximum_length: int | None = None
    """Longest sentence kept of --language; needed when it has no longest sentence."""
    task: str | None = None
    """Downstream task, such as prefix-4; when not given the scale's own, or of --language the prefix of half
    the longest sentence or an HMM's middle state, and with figure-1 the one with the most room; with the
    experiments that take a --language."""
    any_task: bool = False
    """Take a task for figure-1 that the words alone, or a guess, settle, which is refused otherwise;
    of --language the prefix of half the longest sentence when --task is not given."""
    settings: str | None = None
    """Learning rates and batches of SGD, such as 0.2:32,0.4:128, instead of the scale's; drift alone."""
    runs: tuple[str, ...] = ()
    """Only these runs of one experiment, such as width-32-seed-1; all when not given."""
    processes: int | None = None
    """Runs side by side, one core each; when not given, one for each core, or 1 on cuda."""
    device: str = "cpu"
    """Where models are trained and measured: cpu or cuda."""
    precision: Literal["float32", "bfloat16"] = "float32"
    """Of the matrix products in training; measurements are always in float32. Another precision
    is another run."""
    tokens: int | None = None
    """How many tokens models have, such as 30522, those of the tokenizer by which the paper counts its sizes;
    when not given the words of the language and three."""
    compiled: bool = False
    """Train with the forward pass compiled; another run, too."""
    on: Place = "local"
    """Where runs are done: local (this machine), ray or slurm (a cluster whose nodes share the output)."""
    address: str | None = None
    """HOST:PORT of the Ray cluster's head; the cluster that this machine belongs to when not given."""
    partition: str | None = None
    """SLURM's partition; the cluster's default when not given."""
    account: str | None = None
    """SLURM's account; the cluster's default when not given."""
    hours: float = 24.0
    """After how long a SLURM job that is not done is queued again, to go on where it was."""
    memory: float | None = None
    """Main memory of a SLURM job, in GB; 8 when not given."""
    dry_run: bool = False
    """Print the cost in operations, hours and gigabytes, and stop."""
    measure: bool = False
    """With --dry-run, train each model for some seconds on --device and tell the hours from that."""
    json: bool = False
    """Print the claims and all numbers as JSON on stdout."""

    @property
    def folder(self) -> Path:
        """Where runs and site go."""
        own = f"-{self.language.stem}" if self.language else ""
        return self.output or Path("results") / f"{self.scale}{own}"


@dataclass(frozen=True)
class TheoryOptions:
    """Compute the paper's lemmas and theorems, and say which of their statements hold.

    Results are kept: an interrupted call goes on with the statements that were not finished.

    Example: isoloss theory theorem-5.1 --length 10 --samples 8 --json
    """

    name: Annotated[str | None, tyro.conf.Positional, tyro.conf.arg(metavar="[NAME]")] = None
    """One statement, such as lemma-3.2, theorem-3.3 or appendix-b.4; all when not given."""
    smoke: bool = False
    """A small size of everything, in seconds."""
    output: Path | None = None
    """Folder of the results, which `isoloss reproduce` shares; results/laptop when not given, with
    --smoke results/smoke. Statements go to its folder theory, pages to its site."""
    length: Annotated[int | None, tyro.conf.arg(metavar="T")] = None
    """Brackets of each string, for theorem-5.1 alone."""
    samples: Annotated[int | None, tyro.conf.arg(metavar="N")] = None
    """Downstream strings, for theorem-5.1 alone."""
    processes: Annotated[int | None, tyro.conf.arg(metavar="N")] = None
    """Statements side by side, one core each; when not given, one for each core."""
    json: bool = False
    """Print JSON on stdout: {"records": [...], "statements": [...], "failures": [...]}."""
