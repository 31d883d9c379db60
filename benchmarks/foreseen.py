"""Memory and time as `isoloss inspect --for` foresees them, beside those of `isoloss flatness`.

`python -m benchmarks.foreseen [--json] [--length N] [--memory GIB] [--dtype D] [--sentences N]
[NAME ...]`. Each model has random weights, is written to a folder, foreseen from its config.json alone, and
measured on so many sentences, at least as many as it takes for a full pass, each in a process of its own,
forked off one that has imported the libraries. The peak is the largest resident set of the process that
measures. Seconds, foreseen ones too, are the processor's, whatever else it does; those measured are of the
passes, all that is done for a batch included.
"""

import argparse
import json
import os
import random
import tempfile
from collections.abc import Callable
from contextlib import redirect_stdout, suppress
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from time import process_time
from typing import Any

import torch
from transformers import (
    AlbertConfig,
    AlbertForMaskedLM,
    BertConfig,
    BertForMaskedLM,
    BloomConfig,
    BloomForCausalLM,
    DebertaV2Config,
    DebertaV2ForMaskedLM,
    DistilBertConfig,
    DistilBertForMaskedLM,
    ElectraConfig,
    ElectraForMaskedLM,
    FalconConfig,
    FalconForCausalLM,
    GemmaConfig,
    GemmaForCausalLM,
    GPT2Config,
    GPT2LMHeadModel,
    GPTNeoConfig,
    GPTNeoForCausalLM,
    GPTNeoXConfig,
    GPTNeoXForCausalLM,
    LlamaConfig,
    LlamaForCausalLM,
    MPNetConfig,
    MPNetForMaskedLM,
    OlmoConfig,
    OlmoForCausalLM,
    OPTConfig,
    OPTForCausalLM,
    PhiConfig,
    PhiForCausalLM,
    PreTrainedModel,
    Qwen2Config,
    Qwen2ForCausalLM,
    RobertaConfig,
    RobertaForMaskedLM,
    StableLmConfig,
    StableLmForCausalLM,
)

from isoloss import cli
from isoloss.command_line import flatness_table  # noqa: F401 - what `flatness` imports, before forks
from isoloss.curvature.fisher_trace import RunningFisherTrace
from isoloss.measurements import foreseen_cost, inspected_model  # noqa: F401 - likewise

_NEOX = {"hidden_size": 512, "num_hidden_layers": 6, "num_attention_heads": 8, "intermediate_size": 2048}
_LLAMA = {"hidden_size": 768, "num_hidden_layers": 12, "num_attention_heads": 12, "intermediate_size": 2048}
_QWEN = {"hidden_size": 512, "num_hidden_layers": 8, "num_attention_heads": 8, "num_key_value_heads": 2}
_GEMMA = {
    "hidden_size": 512,
    "num_hidden_layers": 4,
    "num_attention_heads": 8,
    "num_key_value_heads": 1,
    "intermediate_size": 2048,
}
_DEBERTA = {"hidden_size": 384, "num_hidden_layers": 6, "num_attention_heads": 6, "intermediate_size": 1536}
MODELS: dict[str, Callable[[], PreTrainedModel]] = {
    "bert-base": partial(BertForMaskedLM, BertConfig()),
    "gpt2-small": partial(GPT2LMHeadModel, GPT2Config()),
    "bert-small": partial(
        BertForMaskedLM, BertConfig(hidden_size=256, num_hidden_layers=4, num_attention_heads=4)
    ),
    "distilbert-base": partial(DistilBertForMaskedLM, DistilBertConfig()),
    "albert-base": partial(
        AlbertForMaskedLM,
        AlbertConfig(hidden_size=768, num_attention_heads=12, intermediate_size=3072),
    ),
    "electra-small": partial(ElectraForMaskedLM, ElectraConfig()),
    "pythia-70m": partial(GPTNeoXForCausalLM, GPTNeoXConfig(vocab_size=50304, **_NEOX)),
    "opt-125m": partial(OPTForCausalLM, OPTConfig(ffn_dim=3072, hidden_size=768, word_embed_proj_dim=768)),
    "llama-135m": partial(LlamaForCausalLM, LlamaConfig(**_LLAMA)),
    "qwen2-small": partial(
        Qwen2ForCausalLM,
        Qwen2Config(vocab_size=151936, intermediate_size=1408, tie_word_embeddings=True, **_QWEN),
    ),
    "roberta-base": partial(RobertaForMaskedLM, RobertaConfig(vocab_size=50265, max_position_embeddings=514)),
    "bloom-small": partial(BloomForCausalLM, BloomConfig(vocab_size=250880, hidden_size=256, n_layer=4)),
    "deberta-v3-xsmall": partial(
        DebertaV2ForMaskedLM,
        DebertaV2Config(relative_attention=True, pos_att_type=["p2c", "c2p"], share_att_key=True, **_DEBERTA),
    ),
    "mpnet-base": partial(MPNetForMaskedLM, MPNetConfig(vocab_size=30527)),
    "gpt-neo-small": partial(
        GPTNeoForCausalLM,
        GPTNeoConfig(hidden_size=512, num_layers=6, num_heads=8, attention_types=[[["global", "local"], 3]]),
    ),
    "gemma-small": partial(GemmaForCausalLM, GemmaConfig(vocab_size=128000, head_dim=64, **_GEMMA)),
    "phi-small": partial(PhiForCausalLM, PhiConfig(vocab_size=51200, **_LLAMA)),
    "stablelm-small": partial(
        StableLmForCausalLM, StableLmConfig(vocab_size=50304, num_key_value_heads=8, **_NEOX)
    ),
    "olmo-small": partial(OlmoForCausalLM, OlmoConfig(vocab_size=50304, **_NEOX)),
    "falcon-small": partial(
        FalconForCausalLM,
        FalconConfig(vocab_size=65024, hidden_size=512, num_hidden_layers=6, num_attention_heads=8),
    ),
}
DEFAULT = (
    *(
        "bert-base",
        "gpt2-small",
        "llama-135m",
        "opt-125m",
        "deberta-v3-xsmall",
        "falcon-small",
        "gemma-small",
    ),
    *("mpnet-base", "phi-small", "gpt-neo-small"),
)


@dataclass(frozen=True)
class Foreseen:
    """Peaks in bytes and seconds a sentence, foreseen and measured."""

    model: str
    parameters: int
    sentences_at_once: int
    foreseen_bytes: int
    measured_bytes: int
    foreseen_seconds: float | None
    measured_seconds: float


def foreseen_and_measured(name: str, length: int, memory: float, dtype: str, at_least: int) -> Foreseen:
    """Build, save, foresee and measure one model, on so many sentences."""
    with tempfile.TemporaryDirectory() as place:
        folder, ids, told = (Path(place) / each for each in ("model", "ids.jsonl", "told.json"))
        _in_fork(partial(_save, name, folder))
        asked = ["--length", str(length), "--for", "1000GB", "--memory", str(memory), "--json"]
        asked += ["--dtype", dtype]
        _in_fork(partial(_ran, ["inspect", str(folder), *asked], told))
        cost = json.loads(told.read_text())["models"][0]
        counted = cost["counted"]
        sentences, chosen = max(at_least, 8 + counted["at_once"]), random.Random(0)
        lines = [
            json.dumps([chosen.randrange(cost["tokens"]) for _ in range(length)]) for _ in range(sentences)
        ]
        ids.write_text("\n".join(lines) + "\n")
        asked = ["--token-ids", str(ids), "--memory", str(memory), "--dtype", dtype, "--json"]
        asked += ["--mask-token-id", "1"] if cost["predicts"] == "masked" else []
        peak = _in_fork(partial(_timed, ["flatness", str(folder), *asked], told))
        return Foreseen(
            name,
            counted["parameters"],
            counted["at_once"],
            cost["peak_bytes"],
            peak,
            cost["seconds_a_sentence"],
            float(told.read_text()) / sentences,
        )


def _save(name: str, folder: Path) -> None:
    torch.manual_seed(0)
    MODELS[name]().save_pretrained(folder)


def _ran(arguments: list[str], output: Path) -> None:
    setattr(foreseen_cost, "perf_counter", process_time)  # noqa: B010
    with output.open("w") as file, redirect_stdout(file), suppress(SystemExit):
        cli.main(arguments)


def _timed(arguments: list[str], output: Path) -> None:
    """Run it, and write how long its passes took."""
    add, spent = RunningFisherTrace.add, []

    def timed(running: RunningFisherTrace, *batch: Any) -> None:
        begun = process_time()
        add(running, *batch)
        spent.append(process_time() - begun)

    setattr(RunningFisherTrace, "add", timed)  # noqa: B010
    _ran(arguments, output)
    output.write_text(str(sum(spent)))


def _in_fork(work: Callable[[], None]) -> int:
    """Do the work in a process of its own; its peak of memory in bytes."""
    child = os.fork()
    if child == 0:
        try:
            work()
        finally:
            os._exit(0)
    _, _, usage = os.wait4(child, 0)
    return 1024 * usage.ru_maxrss


def main() -> None:
    """Print a line per model, or JSON."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", default=DEFAULT)
    parser.add_argument("--length", type=int, default=64)
    parser.add_argument("--memory", type=float, default=0.25)
    parser.add_argument("--dtype", default="float32")
    parser.add_argument("--sentences", type=int, default=72)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    found = []
    for name in options.names:
        each = foreseen_and_measured(name, options.length, options.memory, options.dtype, options.sentences)
        found.append(asdict(each))
        if not options.json:
            print(
                f"{name}: {each.parameters / 1e6:.3g} M, {each.sentences_at_once} sentences at once, peak "
                f"foreseen {each.foreseen_bytes / 1e9:.3g} GB, measured {each.measured_bytes / 1e9:.3g} GB, "
                f"ratio {each.foreseen_bytes / each.measured_bytes:.3f}; {each.foreseen_seconds or 0:.3g} s "
                f"a sentence foreseen, {each.measured_seconds:.3g} s measured",
                flush=True,
            )
    if options.json:
        print(json.dumps(found))


if __name__ == "__main__":
    main()
