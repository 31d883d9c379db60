"""What enlarging costs and changes: `python -m benchmarks.enlarge [--json]`.

Memory: a checkpoint is enlarged to the last shape of Table 4 in a process of its own, whose peak of resident
memory, less what it held once everything was imported, is compared with the result's weights. Traces: the
trace of the Fisher information by group, before and after, in the exact form and in the paper's.
"""

import argparse
import json
import resource
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from pathlib import Path

import torch

from isoloss.curvature.fisher_trace import fisher_trace
from isoloss.languages.sentences import Sentences
from isoloss.models.enlarged_checkpoint import enlarge_checkpoint
from isoloss.models.enlarging import Enlargement, enlarged, enlargement_between, paper_form
from isoloss.models.transformers import (
    TABLE_4,
    PostLayerNormTransformer,
    PreLayerNormTransformer,
    laptop_shape,
)
from isoloss.objectives.masked import MaskedObjective

WORDS, LENGTH = 200, 32
ARCHITECTURES = {"post-LN": PostLayerNormTransformer, "pre-LN": PreLayerNormTransformer}


def peak_bytes() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def memory(row: int, layers: int | None) -> dict[str, float]:
    """Enlarge row `row` of Table 4 to its last, or to `layers` more layers, in a process of its own."""
    small, large = TABLE_4[row], TABLE_4[-1]
    by = enlargement_between(small, large) if layers is None else Enlargement(1, layers)
    with tempfile.TemporaryDirectory() as folder:
        script = "from benchmarks.enlarge import enlarge_here; enlarge_here(*__import__('sys').argv[1:])"
        PreLayerNormTransformer(small).build(WORDS, LENGTH, seed=0).save_pretrained(Path(folder, "small"))
        command = [sys.executable, "-c", script, folder, str(by.width), str(by.layers)]
        return json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)


def enlarge_here(folder: str, width: str, layers: str) -> None:
    torch.set_num_threads(1)
    tiny = PreLayerNormTransformer(laptop_shape(16)).build(WORDS, LENGTH, seed=0)
    tiny.save_pretrained(Path(folder, "tiny"))
    enlarge_checkpoint(Path(folder, "tiny"), Path(folder, "tiny-2"), Enlargement(2))
    before, start = peak_bytes(), time.perf_counter()
    by = Enlargement(int(width), int(layers))
    found = enlarge_checkpoint(Path(folder, "small"), Path(folder, "large"), by)
    taken = time.perf_counter() - start
    weights = 4 * found.large_parameters
    print(
        json.dumps(
            {
                "parameters": found.large_parameters,
                "times the weights": (peak_bytes() - before) / weights,
                "seconds": taken,
                "difference": found.difference,
            }
        )
    )


def traces(name: str, width: int, layers: int) -> dict[str, dict[str, float]]:
    """The trace of each group of a model some way from its start, by form; groups of all layers together."""
    model = ARCHITECTURES[name](laptop_shape(32)).build(12, 8, seed=0).double().eval()
    generator = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter += 0.1 * torch.randn(parameter.shape, generator=generator, dtype=parameter.dtype)
    sentences = Sentences(torch.randint(12, (200, 8), generator=generator), torch.full((200,), 8))
    batch = MaskedObjective().mask_one(sentences, generator)
    by = Enlargement(width, layers)
    models = {
        "before": model,
        "exact form": enlarged(model, by),
        "paper's form": enlarged(model, by, paper_form),
    }
    found: dict[str, dict[str, float]] = defaultdict(lambda: dict.fromkeys(models, 0.0))
    for form, measured in models.items():
        trace = fisher_trace(measured, [batch], MaskedObjective(), seed=0)
        for group, values in trace.groups.items():
            found[of_all_layers(group, small=2)][form] += float(values.mean())
        found["all"][form] = trace.estimate.value
        with torch.no_grad():
            change = measured(batch.input_ids).logits - model(batch.input_ids).logits
        found["largest change of a score"][form] = float(change.abs().max())
    return dict(found)


def of_all_layers(group: str, small: int) -> str:
    """The group's name without its layer's number; groups of layers beyond the small model's are apart."""
    if not group.startswith("layer "):
        return group
    _, number, part = group.split(" ", 2)
    return f"added {part}" if int(number) > small else part


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--json", action="store_true", help="print JSON instead of tables")
    parser.add_argument("--row", type=int, default=3, help="row of Table 4, from 0, to enlarge")
    parser.add_argument("--layers", type=int, help="add so many layers to that row instead")
    parser.add_argument("--no-memory", action="store_true", help="leave the large model out")
    options = parser.parse_args()
    torch.set_num_threads(1)
    found = {f"{name}, width x 4, 2 layers more": traces(name, 4, 2) for name in ARCHITECTURES}
    used = {} if options.no_memory else memory(options.row, options.layers)
    if options.json:
        print(json.dumps({"traces": found, "memory": used}, indent=2))
        return
    for title, groups in found.items():
        print(title)
        for group, values in groups.items():
            print(f"    {group:28}" + "".join(f"{form}: {value:12.4g}   " for form, value in values.items()))
    for quantity, value in used.items():
        print(f"{quantity}: {value:.4g}")


if __name__ == "__main__":
    main()
