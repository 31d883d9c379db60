"""Each type measured through `isoloss flatness`, compared with one ordinary backward pass per sentence."""

import contextlib
import io
import json
import tempfile
import warnings
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import torch
from tiny_of_every_type import FIRST_WORD, MASK, TOKENS, tiny_configuration, tiny_language_model
from torch import Tensor
from transformers import AutoModelForCausalLM, AutoModelForMaskedLM, PreTrainedModel

from isoloss.cli import main
from isoloss.corpora.token_sentences import TokenCorpus
from isoloss.curvature.per_sentence.traces import drawn_directions, sign_bits
from isoloss.measurements.fixed_sentences import SampledBatches
from isoloss.measurements.prediction import MaskedTokens, NextToken, SpecialTokens
from isoloss.models.loading import LanguageObjective
from isoloss.models.model_files import quiet
from isoloss.objectives.batch import Batch

LENGTHS = (7, 4, 6, 4, 12, 3, 5, 6)
RATE = 0.3
TOLERANCE = {"float64": 1e-4, "float32": 1e-3}
"""Relative; models with float64 weights compute some steps in float32."""

Answer = Literal["measured", "refused", "skipped", "wrong"]


@dataclass(frozen=True)
class Outcome:
    """The outcome for one type: how its tensors were measured, or a sentence on why it was not."""

    answer: Answer
    how: str


def outcome(model_type: str, predicts: LanguageObjective) -> Outcome:
    """Build, save, measure through the command and compare; skipped if plain transformers cannot."""
    with tempfile.TemporaryDirectory() as name, quiet(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        folder = Path(name) / "model"
        try:
            tiny_language_model(model_type, predicts).save_pretrained(folder)
            dtype, expected = _oracle(folder, model_type, predicts)
        except Exception as error:
            return Outcome("skipped", _first_line(error))
        return _through_the_command(folder, predicts, dtype, expected)


def _oracle(folder: Path, model_type: str, predicts: LanguageObjective) -> tuple[str, list[Tensor]]:
    """The values in float64, or in float32 for types that are written for it alone."""
    try:
        return "float64", _dense_values(folder, predicts, torch.float64)
    except (RuntimeError, ArithmeticError):
        return "float32", _dense_values(folder, predicts, torch.float32)
    except ValueError:  # the text part's own configuration has no known type: the whole one is published
        tiny_configuration(model_type, predicts).save_pretrained(folder)
        return "float64", _dense_values(folder, predicts, torch.float64)


def _through_the_command(
    folder: Path, predicts: LanguageObjective, dtype: str, expected: list[Tensor]
) -> Outcome:
    ids = folder.parent / "ids.jsonl"
    ids.write_text("".join(f"{sentence}\n" for sentence in _sentences()))
    arguments = [str(folder), "--token-ids", str(ids), "--dtype", dtype, "--json"]
    if predicts == "masked":
        arguments += ["--mask-token-id", str(MASK), "--mask-rate", str(RATE)]
    code, written, said = _command("flatness", *arguments)
    if code == 2 and said.count("\n") == 1 and said.startswith("isoloss: "):
        return Outcome("refused", said.removeprefix("isoloss: ").replace(str(folder), "it").strip())
    if code != 0:
        return Outcome("wrong", f"the command left with {code}: {said}")
    shown = json.loads(written)
    whole = next(record for record in shown["records"] if record["quantity"] == "fisher_trace")
    found = torch.tensor([whole["value"], whole["standard_error"]], dtype=torch.float64)
    rtol = TOLERANCE[dtype]
    if not any(torch.allclose(found, _mean_and_error(each), rtol=rtol, atol=0) for each in expected):
        expected_lists = [_mean_and_error(each).tolist() for each in expected]
        return Outcome("wrong", f"{found.tolist()}, but {expected_lists}")
    apart = shown["apart"].get("fisher_trace", {}).get(str(folder))
    how = [_how(shown["ways"]["fisher_trace"]), *([] if apart is None else [apart])]
    return Outcome("measured", "; ".join(how if dtype == "float64" else [*how, "in float32"]))


def _how(ways: dict[str, int]) -> str:
    """The share of the tensors measured in each way."""
    used = Counter({way: count for way, count in ways.items() if way != "not used"})
    alone = used["per-sentence gradients"]
    if not alone:
        return "factors"
    return (
        "per-sentence gradients"
        if alone == used.total()
        else f"factors, {alone} of {used.total()} tensors by per-sentence gradients"
    )


def _command(*arguments: str) -> tuple[int, str, str]:
    written, said = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(written), contextlib.redirect_stderr(said):
        try:
            main(arguments)
        except SystemExit as leaving:
            return int(leaving.code or 0), written.getvalue(), said.getvalue()
        except Exception as error:
            return 1, written.getvalue(), f"{type(error).__name__}: {error}"
    return 0, written.getvalue(), said.getvalue()


def _sentences() -> list[list[int]]:
    generator = torch.Generator().manual_seed(0)
    return [torch.randint(FIRST_WORD, TOKENS, (n,), generator=generator).tolist() for n in LENGTHS]


def _batches(predicts: LanguageObjective) -> Iterator[Batch]:
    prediction = NextToken() if predicts == "causal" else MaskedTokens(RATE)
    corpus = TokenCorpus(_sentences(), list(range(1, 1 + len(LENGTHS))))
    yield from SampledBatches(corpus, prediction, 0, SpecialTokens(mask=MASK))


def _dense_values(folder: Path, predicts: LanguageObjective, dtype: torch.dtype) -> list[Tensor]:
    """Each sentence's value by ordinary gradients, alone and without padding.

    Twice: as drawn, and with the mean of the output layer's part, which is used if that layer is known.
    """
    kind = AutoModelForMaskedLM if predicts == "masked" else AutoModelForCausalLM
    model = kind.from_pretrained(folder, dtype=dtype).eval()
    if model._can_set_experts_implementation():
        model.set_experts_implementation("eager")
    parts = (batch.part(row, row + 1) for batch in _batches(predicts) for row in range(len(batch)))
    found = [_dense_value(model, part, number) for number, part in enumerate(parts)]
    return list(torch.tensor(found, dtype=torch.float64).T)


def _dense_value(model: PreTrainedModel, sentence: Batch, number: int) -> tuple[float, float]:
    read: list[Tensor] = []
    output = model.get_output_embeddings()
    hook = None
    if output is not None:
        hook = output.register_forward_hook(lambda _, inputs, __: read.append(inputs[0].detach()))
    ids = sentence.input_ids[:, : int(sentence.attention_mask.sum())]
    no_cache = {"use_cache": False} if hasattr(model.config, "use_cache") else {}
    logits = model(input_ids=ids, **no_cache).logits[0, sentence.positions]
    if hook is not None:
        hook.remove()
    bits = sign_bits(torch.tensor([number]), torch.tensor([len(logits)]), logits.shape[1], seed=0)
    drawn = drawn_directions(logits.detach(), bits)
    parameters = [p for p in model.parameters() if p.requires_grad]
    gradients = torch.autograd.grad((logits * drawn.cotangents).sum(), parameters, materialize_grads=True)
    value = sum(float(gradient.double().square().sum()) for gradient in gradients)
    if not value < float("inf"):
        raise ArithmeticError("its gradients are not finite")
    if not read:  # the head multiplies by the weights by itself
        return value / len(logits), value / len(logits)
    states = read[0].reshape(-1, read[0].shape[-1])[-ids.shape[1] :][sentence.positions].double()
    if getattr(output, "bias", None) is not None:
        states = torch.cat([states, torch.ones_like(states[:, :1])], dim=1)
    own = drawn.mean_squares @ states.square().sum(1)
    noise = (drawn.cotangents.double().T @ states).square().sum() - own
    return value / len(logits), (value - float(noise)) / len(logits)


def _mean_and_error(values: Tensor) -> Tensor:
    return torch.stack([values.mean(), values.std() / len(values) ** 0.5])


def _first_line(error: Exception) -> str:
    return f"{type(error).__name__}: {(str(error).strip().splitlines() or [''])[0][:120]}"
