"""`isoloss reproduce figure-1`: checks what was asked for, carries it out, shows the result."""

import shlex
from dataclasses import dataclass
from pathlib import Path

from isoloss.command_line.figure_summary import print_cost, print_summary, result_as_json
from isoloss.command_line.progress_display import progress_display
from isoloss.command_line.reproduce import Scale
from isoloss.errors import BadInput
from isoloss.experiments.figure_1 import FigureOne, choose_task, figure_runs, only_named
from isoloss.experiments.figure_1_result import carry_out_figure
from isoloss.experiments.provenance import usable_cores
from isoloss.experiments.scales import laptop, laptop_language, paper, paper_language, smoke
from isoloss.languages.pcfg import PCFG, read_pcfg
from isoloss.pretraining.loop import usable_device
from isoloss.pretraining.run_folder import only_process_in
from isoloss.report.figure_1_page import write_figure_1


@dataclass(frozen=True)
class Request:
    """The options of `isoloss reproduce`; see its help."""

    scale: Scale
    output: Path | None
    language: Path | None
    maximum_length: int | None
    task: str | None
    runs: tuple[str, ...]
    processes: int | None
    device: str
    dry_run: bool
    json: bool


def reproduce_figure_1(request: Request) -> int:
    """Carry out the request; 0 when all is well, 1 when some run failed and the rest was done."""
    if request.processes is not None and request.processes < 1:
        raise BadInput(f"--processes must be at least 1, not {request.processes}")
    usable_device(request.device)
    figure, language = _figure(request.scale), _language(request)
    task = choose_task(language, request.task)
    runs = only_named(figure_runs(figure, language), request.runs)
    if request.dry_run:
        print_cost(figure, runs, language, as_json=request.json)
        return 0
    folder = request.output or _default_folder(request)
    with only_process_in(folder), progress_display() as progress:
        result = carry_out_figure(
            figure,
            language,
            task,
            folder,
            runs,
            processes=request.processes or _processes(request.device),
            device=request.device,
            progress=progress,
        )
    page = write_figure_1(result, folder, _command_of_one_run(request, runs[0].name))
    judgements = result.judgements()
    if request.json:
        print(result_as_json(result, judgements, page))
    print_summary(result, judgements, page)
    return 1 if result.outcome.failures else 0


def _processes(device: str) -> int:
    # Several processes on one accelerator would only take its memory from one another.
    return usable_cores() if device == "cpu" else 1


def _figure(scale: Scale) -> FigureOne:
    match scale:
        case "smoke":
            return smoke()
        case "laptop":
            return laptop()
        case "paper":
            return paper()


def _language(request: Request) -> PCFG:
    if request.language is not None:
        return read_pcfg(request.language, request.maximum_length)
    if request.maximum_length is not None:
        raise BadInput("--maximum-length needs --language; the scale's own language has a fixed length")
    return paper_language() if request.scale == "paper" else laptop_language()


def _default_folder(request: Request) -> Path:
    own = f"-{request.language.stem}" if request.language else ""
    return Path("results") / f"figure-1-{request.scale}{own}"


def _command_of_one_run(request: Request, run: str) -> str:
    words = [
        "isoloss",
        "reproduce",
        "figure-1",
        "--scale",
        request.scale,
        "--runs",
        run,
        "--output",
        "one-dot",
    ]
    options = {
        "--language": request.language,
        "--maximum-length": request.maximum_length,
        "--task": request.task,
        "--device": None if request.device == "cpu" else request.device,
    }
    for name, value in options.items():
        words += [name, str(value)] if value is not None else []
    return shlex.join(words)
