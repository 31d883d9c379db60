"""The Fisher trace on one GPU, from GPT-2 small to 7 billion parameters: `python -m benchmarks.gpu [--json]`.

Models have random weights and read sentences of 128 random tokens. Of each:

- Passes: every sentence's gradient norm against an ordinary forward and backward pass of the same sentences,
  labels handed over, in one process, in turn; medians.
- To 2 %: seconds that `fisher_trace` takes to a standard error of 2 %; a Hutchinson sample of
  hessian-eigenthings on the same sentences, and its samples to 2 % by their spread, with neither sentences
  nor sampling of them in its error; and one critical sharpness.
- Its value in another precision, on the same sentences and draws.
"""

import argparse
import importlib.util
import json
from collections.abc import Callable
from dataclasses import asdict, dataclass
from functools import partial
from time import perf_counter

import torch
from torch import Tensor, nn
from torch.nn.attention import SDPBackend, sdpa_kernel
from transformers import GPT2Config, GPT2LMHeadModel, LlamaConfig, LlamaForCausalLM, PreTrainedModel

from benchmarks.comparison import Comparison, of_pairs
from isoloss.curvature.critical_sharpness import critical_sharpness
from isoloss.curvature.fisher_trace import fisher_trace
from isoloss.curvature.per_sentence.traces import sentence_fisher_traces
from isoloss.objectives.batch import Batch
from isoloss.objectives.evaluation import KeptBytes
from isoloss.objectives.pretrained import PretrainedCausal, next_token_batch

LENGTH, OBJECTIVE = 128, PretrainedCausal()


@dataclass(frozen=True)
class Case:
    """A model to build, its precision, and how many sentences are passed at once.

    The peers that differentiate twice, or along a direction, read a quarter of them.
    """

    model: Callable[[], PreTrainedModel]
    dtype: torch.dtype
    sentences: int


GPT2 = partial(GPT2LMHeadModel, GPT2Config())
CASES = {
    "GPT-2 small, float32": Case(GPT2, torch.float32, 64),
    "GPT-2 small, bfloat16": Case(GPT2, torch.bfloat16, 64),
    "GPT-2 XL, bfloat16": Case(
        partial(GPT2LMHeadModel, GPT2Config(n_embd=1600, n_layer=48, n_head=25)), torch.bfloat16, 64
    ),
    "LLaMA 7B, bfloat16": Case(partial(LlamaForCausalLM, LlamaConfig()), torch.bfloat16, 32),
}
TINY = {
    "GPT-2, tiny": Case(
        partial(GPT2LMHeadModel, GPT2Config(vocab_size=500, n_embd=64, n_layer=2, n_head=2)),
        torch.float32,
        8,
    )
}


@dataclass(frozen=True)
class Measured:
    """Of one model; times in seconds, `probe_*` of hessian-eigenthings, None where it did not run."""

    name: str
    parameters: int
    norms_of_training: Comparison
    trace: float
    relative_error: float
    trace_sentences: int
    trace_seconds: float
    peak_gibibytes: float
    training_peak_gibibytes: float
    probe_seconds: float | None
    probe_relative_deviation: float | None
    probe_seconds_to_two_percent: float | None
    probe_failure: str | None
    critical_sharpness: float
    critical_sharpness_seconds: float


def built(case: Case, device: str) -> PreTrainedModel:
    """Random weights, made on the device in the case's precision."""
    torch.manual_seed(0)
    before = torch.get_default_dtype()
    torch.set_default_dtype(case.dtype)
    try:
        with torch.device(device):
            return case.model().eval()
    finally:
        torch.set_default_dtype(before)


def sentences(model: PreTrainedModel, n: int, seed: int, device: str) -> Batch:
    generator = torch.Generator().manual_seed(seed)
    ids = torch.randint(5, model.config.vocab_size, (n, LENGTH), generator=generator)
    return next_token_batch(ids.tolist(), pad=0).to(torch.device(device))


def synchronised(work: Callable[[], object]) -> float:
    """Seconds until the device has done it."""
    if torch.cuda.is_available():
        torch.cuda.synchronize()
    begun = perf_counter()
    work()
    if torch.cuda.is_available():
        torch.cuda.synchronize()
    return perf_counter() - begun


def peak_of(work: Callable[[], object]) -> float:
    """The most memory the device held meanwhile, in GiB."""
    if not torch.cuda.is_available():
        work()
        return float("nan")
    torch.cuda.empty_cache()
    torch.cuda.reset_peak_memory_stats()
    work()
    return torch.cuda.max_memory_allocated() / 2**30


def train(model: PreTrainedModel, batch: Batch) -> None:
    model(input_ids=batch.input_ids, labels=batch.input_ids).loss.backward()
    model.zero_grad()


def norms(model: PreTrainedModel, batch: Batch, memory: float, kept_bytes: KeptBytes) -> None:
    """As `fisher_trace` after its first batch, which has found out how much a sentence takes."""
    sentence_fisher_traces(
        model,
        OBJECTIVE,
        batch,
        seed=0,
        first_sentence=1,
        compare=False,
        memory_bytes=int(memory * 2**30),
        kept_bytes=kept_bytes,
    )


def probes(model: PreTrainedModel, batch: Batch, samples: int) -> tuple[float, float]:
    """Seconds of a Hutchinson sample of the Hessian by the peer, and the samples' relative deviation."""
    from hessian_eigenthings import HessianOperator, hutchinson

    def loss(scores: nn.Module, ids: Tensor) -> Tensor:
        value: Tensor = scores(input_ids=ids, labels=ids).loss
        return value

    with sdpa_kernel(SDPBackend.MATH):
        operator = HessianOperator(model, [batch.input_ids], loss)
        hutchinson(operator, num_samples=1, seed=0)
        found: list[Tensor] = []
        each = synchronised(
            lambda: found.append(hutchinson(operator, num_samples=samples, seed=1).samples.double())
        )
    return each / samples, float(found[0].std() / found[0].mean().abs())


def measured(name: str, case: Case, device: str, pairs: int, memory: float, samples: int) -> Measured:
    model = built(case, device)
    batch = sentences(model, case.sentences, 0, device)
    training, own = partial(train, model, batch), partial(norms, model, batch, memory, {})
    training_peak, peak = peak_of(training), peak_of(own)
    times = [(synchronised(own), synchronised(training)) for _ in range(pairs)]
    found = []
    limit = int(memory * 2**30)
    trace_seconds = synchronised(
        lambda: found.append(
            fisher_trace(
                model,
                (sentences(model, case.sentences, seed, device) for seed in range(1, 1000)),
                OBJECTIVE,
                relative_error=0.02,
                memory_bytes=limit,
            ).estimate
        )
    )
    few = batch.part(0, max(2, case.sentences // 4))
    sharpness = []
    sharpness_seconds = synchronised(
        lambda: sharpness.append(critical_sharpness(model, [few], OBJECTIVE).estimate.value)
    )
    probe, deviation, failure = None, None, None
    if importlib.util.find_spec("hessian_eigenthings") is not None and samples:
        try:
            probe, deviation = probes(model, few, samples)
        except RuntimeError as error:  # out of memory, or a kernel without a second derivative
            failure = str(error).splitlines()[0]
    return Measured(
        name,
        model.num_parameters(),
        of_pairs(name, "ordinary forward and backward", times),
        found[0].value,
        found[0].standard_error / found[0].value,
        found[0].n,
        trace_seconds,
        peak,
        training_peak,
        probe,
        deviation,
        None if probe is None or deviation is None else probe * (deviation / 0.02) ** 2,
        failure,
        sharpness[0],
        sharpness_seconds,
    )


def precisions(device: str, n: int) -> dict[str, float]:
    """GPT-2 small's trace on the same sentences and draws in each precision."""
    found = {}
    for dtype in (torch.float64, torch.float32, torch.bfloat16):
        model = built(Case(GPT2, torch.float32, n), device).to(dtype)
        batch = sentences(model, n, 0, device)
        found[str(dtype)] = fisher_trace(model, [batch], OBJECTIVE).estimate.value
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--json", action="store_true", help="print JSON instead of a table")
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--pairs", type=int, default=7, help="how many interleaved pairs a model has")
    parser.add_argument("--memory", type=float, default=32.0, help="GiB for the norms, beside the model")
    parser.add_argument("--samples", type=int, default=8, help="Hutchinson samples of the peer")
    parser.add_argument("--tiny", action="store_true", help="a tiny model only, to see that all runs")
    options = parser.parse_args()
    told = []
    for name, case in (TINY if options.tiny else CASES).items():
        row = measured(name, case, options.device, options.pairs, options.memory, options.samples)
        told.append(row)
        if not options.json:
            print(shown(row), flush=True)
        if torch.cuda.is_available():
            torch.cuda.empty_cache()
    by_precision = {} if options.tiny else precisions(options.device, 32)
    if options.json:
        print(json.dumps({"models": [asdict(row) for row in told], "precisions": by_precision}, indent=2))
    else:
        print(by_precision)


def shown(row: Measured) -> str:
    passes = row.norms_of_training
    probe = (
        row.probe_failure or "not installed"
        if row.probe_seconds is None
        else f"{row.probe_seconds:.2f} s, deviation {row.probe_relative_deviation:.2f}, "
        f"{row.probe_seconds_to_two_percent:.0f} s to 2 %"
    )
    return (
        f"{row.name}, {row.parameters / 1e6:,.0f}M: norms {1e3 * passes.seconds:.0f} ms, training "
        f"{1e3 * passes.peer_seconds:.0f} ms: {1 / passes.times_as_fast:.2f} of it; trace {row.trace:.4g}, "
        f"{100 * row.relative_error:.2f} % of {row.trace_sentences} sentences in {row.trace_seconds:.2f} s; "
        f"peak {row.peak_gibibytes:.1f} GiB, training {row.training_peak_gibibytes:.1f}; Hutchinson {probe}; "
        f"critical sharpness {row.critical_sharpness:.3g} in {row.critical_sharpness_seconds:.2f} s"
    )


if __name__ == "__main__":
    main()
