"""`isoloss reproduce`: the paper's figures and tables, and the extensions."""

from isoloss.command_line.language_argument import language_in
from isoloss.command_line.options import refuse_below, refuse_unknown_device
from isoloss.command_line.reproduce_request import ReproduceOptions
from isoloss.command_line.terminal import starting
from isoloss.errors import BadInput
from isoloss.experiments.experiment_names import (
    GROUPS,
    prefixes_of_scale,
    refuse_a_language,
    refuse_unknown,
    refuse_unseeded_runs,
)
from isoloss.files import refuse_file_as_folder
from isoloss.languages.task_names import refuse_unknown_prefix, refuse_unknown_task

FEWEST_TOKENS = 5
"""Of a model: two words and three special tokens."""


def reproduce(options: ReproduceOptions) -> int:
    """Carry out the request; returns the exit code."""
    _check(options)
    with starting("reproduce"):
        from isoloss.device import usable_device

        usable_device(options.device)
        if options.task is not None:
            _refuse_absent_task(options, options.task)
        from isoloss.command_line.reproduction import reproduce_experiments
    return reproduce_experiments(options)


def _check(options: ReproduceOptions) -> None:
    """Refuse what can be refused without torch, which takes long to import."""
    refuse_unknown(options.names)
    refuse_unknown_device(options.device)
    if options.language is not None or options.task is not None:
        refuse_a_language(options.names)
    if options.runs and (len(set(options.names)) > 1 or options.names[0] in GROUPS):
        raise BadInput("--runs names runs of one experiment; name that experiment alone")
    if options.runs and not options.names[0].endswith(".py"):
        refuse_unseeded_runs(options.names[0], options.runs)
    _check_language(options)
    if options.tokens is not None:
        refuse_below(FEWEST_TOKENS, options.tokens, "--tokens")
    if options.output is not None:
        refuse_file_as_folder(options.output)
    if options.processes is not None and options.processes < 1:
        raise BadInput(f"--processes must be at least 1, not {options.processes}")
    if not options.hours > 0:
        raise BadInput(f"--hours must be above 0, some hours of a SLURM job, not {options.hours:g}")
    if options.memory is not None and not options.memory > 0:
        raise BadInput(f"--memory must be above 0, some GB of a SLURM job, not {options.memory:g}")
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
        "--memory": (options.memory, "slurm"),
    }
    for option, (value, place) in belongs.items():
        if value is not None and options.on != place:
            raise BadInput(f"{option} is for --on {place}; leave it out with --on {options.on}")


def _check_language(options: ReproduceOptions) -> None:
    """Raise BadInput for a language that cannot be read, and for a task that it cannot have."""
    if options.language is None:
        if options.maximum_length is not None:
            raise BadInput("--maximum-length needs --language; the scale's own language has a fixed length")
        if options.task is not None:
            refuse_unknown_prefix(options.task, prefixes_of_scale(options.scale))
        return
    written = language_in(options.language)
    if options.task is not None:
        refuse_unknown_task(options.task, written)


def _refuse_absent_task(options: ReproduceOptions, task: str) -> None:
    """Raise BadInput unless the language has the task, before what experiments are made of is imported."""
    from isoloss.experiments.languages import grammar_of_scale
    from isoloss.languages.language_file import read_language
    from isoloss.languages.pcfg import named_task

    if options.language is None:
        named_task(grammar_of_scale(options.scale), task)
    else:
        named_task(read_language(options.language, options.maximum_length), task)
