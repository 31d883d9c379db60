"""Enlarges checkpoint folders: read, tile tensor by tensor, write, read back and compare."""

import shutil
from dataclasses import dataclass
from pathlib import Path

import torch
from jaxtyping import Float
from safetensors.torch import save_file
from torch import Tensor
from transformers import PreTrainedModel
from transformers.models.auto.modeling_auto import MODEL_FOR_MASKED_LM_MAPPING_NAMES

from isoloss.errors import BadInput
from isoloss.files import complete_folder
from isoloss.models.enlarging import (
    Enlargement,
    Form,
    enlarged_parameters,
    enlarging_plan,
    exact_form,
    parameters_by_name,
)
from isoloss.models.folder_configuration import read_config
from isoloss.models.loading import load_masked_language_model
from isoloss.models.tokenizer import longest_sentence, tokenizer_files
from isoloss.models.transformers import Shape
from isoloss.progress import Progress, silent

SENTENCES, LONGEST = 8, 32
"""How many random sentences the scores are compared on, and the most tokens that one has."""
TASK = "enlarging"


@dataclass(frozen=True)
class EnlargedCheckpoint:
    """The original and the enlarged checkpoint, and how much the scores changed.

    `difference` is the largest absolute difference of any score (logit) at any position of 8 sentences of
    random tokens, computed in the precision of the weights, `largest_score` the largest absolute score there.
    """

    small: Shape
    large: Shape
    small_parameters: int
    large_parameters: int
    dtype: str
    difference: float
    largest_score: float


def enlarge_checkpoint(
    checkpoint: Path,
    out: Path,
    by: Enlargement,
    form: Form = exact_form,
    progress: Progress = silent,
    most_parameters: int | None = None,
) -> EnlargedCheckpoint:
    """Write the enlarged checkpoint to a folder `out` for `from_pretrained`, completely or not at all.

    Weights keep their precision, and the tokenizer's files are copied as they are. The scores are those of
    the written folder, read back. Memory: the large model once, and a pass over the sentences; the small
    model's tensors are released as the large ones are created. Raises BadInput if there is no complete
    BertForMaskedLM or RobertaPreLayerNormForMaskedLM to read, if the result would have more than
    `most_parameters`, and if `out` exists; IsolossError if it cannot be written.
    """
    if out.exists() or out.is_symlink():
        raise BadInput(f"{out} exists already; name a folder that does not, or delete it")
    if by == Enlargement():
        raise BadInput("width 1 and 0 layers more change nothing; ask for a larger model")
    model = _to_be_enlarged(checkpoint, by, most_parameters)
    plan = enlarging_plan(model, by, form)
    progress(TASK, 1, 4, "scores before")
    small, dtype, before = Shape.of(model.config), model.dtype, _scores(model)
    small_parameters, parameters = model.num_parameters(), parameters_by_name(model)
    del model
    with complete_folder(out) as folder:
        progress(TASK, 2, 4, "tiling and writing")
        tensors = plan.made(parameters)
        save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})
        large_parameters = sum(tensor.numel() for tensor in tensors.values())
        del tensors
        plan.config.save_pretrained(folder)
        for path in tokenizer_files(checkpoint):
            shutil.copyfile(path, folder / path.name)
        progress(TASK, 3, 4, "scores after")
        after = _scores(load_masked_language_model(folder))
    progress(TASK, 4, 4)
    return EnlargedCheckpoint(
        small,
        by.of(small),
        small_parameters,
        large_parameters,
        str(dtype).removeprefix("torch."),
        float((after - before).abs().max()),
        float(before.abs().max()),
    )


def _to_be_enlarged(checkpoint: Path, by: Enlargement, most_parameters: int | None) -> PreTrainedModel:
    """The model of the folder. Raises BadInput as `enlarge_checkpoint`."""
    kind = read_config(str(checkpoint)).model_type
    if kind not in MODEL_FOR_MASKED_LM_MAPPING_NAMES:
        raise BadInput(
            f"{checkpoint} is of the type {kind} and cannot be enlarged; give a BertForMaskedLM or a "
            "RobertaPreLayerNormForMaskedLM"
        )
    model = load_masked_language_model(checkpoint)
    needed = enlarged_parameters(model, by)
    if most_parameters is not None and needed > most_parameters:
        raise BadInput(
            f"the enlarged model would have {needed:,} parameters, more than "
            f"{most_parameters:,}; enlarge by less, or take them with --most-parameters {needed}"
        )
    return model


@torch.inference_mode()
def _scores(model: PreTrainedModel) -> Float[Tensor, "n S v"]:
    """The model's scores at every position of sentences of random tokens, the same for equal vocabularies."""
    config, padding = model.config, model.config.pad_token_id
    length = min(LONGEST, longest_sentence(model) or LONGEST)
    generator = torch.Generator().manual_seed(0)
    tokens = torch.randint(config.vocab_size - 1, (SENTENCES, length), generator=generator)
    if padding is not None:
        tokens += tokens >= padding
    scores: Tensor = model(input_ids=tokens).logits
    if not bool(scores.isfinite().all()):
        raise BadInput("the model has scores that are not finite: its weights have diverged")
    return scores.double()
