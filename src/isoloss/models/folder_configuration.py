"""Reads a model folder's configuration, and its weights by their names, even if these are nonstandard."""

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
import transformers
from safetensors.torch import load_file
from transformers import AutoConfig, PreTrainedModel
from transformers.models.auto.configuration_auto import CONFIG_MAPPING_NAMES
from transformers.models.auto.modeling_auto import (
    MODEL_FOR_CAUSAL_LM_MAPPING_NAMES,
    MODEL_FOR_MASKED_LM_MAPPING_NAMES,
    MODEL_FOR_PRETRAINING_MAPPING_NAMES,
    MODEL_MAPPING_NAMES,
)

from isoloss.errors import BadInput
from isoloss.models.model_files import MEND, held_in, quiet, refusing, weight_shapes
from isoloss.models.names import (
    hub_is_reachable,
    read_configuration,
    refuse_absent,
    refuse_irregular,
    unreachable,
)
from isoloss.results.checkpoint import refuse_damaged

_CLASSES = (
    MODEL_FOR_MASKED_LM_MAPPING_NAMES,
    MODEL_FOR_CAUSAL_LM_MAPPING_NAMES,
    MODEL_FOR_PRETRAINING_MAPPING_NAMES,
    MODEL_MAPPING_NAMES,
)
_UNPREFIXED = {
    "h.0.attn.c_attn.weight": "gpt2",
    "transformer.h.0.attn.c_attn.weight": "gpt2",
    "encoder.layer.0.attention.self.query.weight": "bert",
}
"""Weights that reveal a type whose names do not begin with it."""

_WRAPPERS = r"^(?:(?:module|_orig_mod|_fsdp_wrapped_module|_forward_module|model)\.)+"
"""What DataParallel, torch.compile, FSDP, DeepSpeed and Lightning put before every name."""
_LM_HEAD = r"^(?:encoder\.|decoder\.|bert\.)?lm_head\."
_RENAMINGS = (
    (_WRAPPERS, ""),
    # Megatron's and NVIDIA's heads of BERT, and Google's own bias
    (_LM_HEAD + r"dense\.", "cls.predictions.transform.dense."),
    (_LM_HEAD + r"(?:layer_?norm|LayerNorm)\.", "cls.predictions.transform.LayerNorm."),
    (_LM_HEAD + r"(?:decoder\.)?bias$", "cls.predictions.bias"),
    (_LM_HEAD + r"(?:decoder\.)?weight$", "cls.predictions.decoder.weight"),
    (r"^cls\.predictions\.output_bias$", "cls.predictions.bias"),
    # fairseq's head of RoBERTa, and one named like BERT's
    (r"^(?:encoder|decoder)\.lm_head\.", "lm_head."),
    (r"^lm_head\.weight$", "lm_head.decoder.weight"),
    (r"^cls\.predictions\.transform\.dense\.", "lm_head.dense."),
    (r"^cls\.predictions\.transform\.LayerNorm\.", "lm_head.layer_norm."),
    (r"^cls\.predictions\.(?:decoder\.)?bias$", "lm_head.bias"),
    (r"^cls\.predictions\.decoder\.weight$", "lm_head.decoder.weight"),
    # output layers of GPT-NeoX and ChatGLM
    (r"^(?:embed_out|output_layer|transformer\.output_layer)\.weight$", "lm_head.weight"),
)
_OF_OTHER_LIBRARIES = {"sentence_encoder.": "fairseq", "language_model.": "Megatron", "gpt_neox.": "NeoX"}
_OTHER_HEADS = re.compile(r"pooler|seq_relationship|classifier|qa_outputs|score\.|binary_head")


def read_config(name: str) -> Any:
    """The configuration of a model of that name. Raises BadInput if there is none, or it is quantised."""
    refuse_absent(name)
    folder = Path(name)
    if folder.is_dir():
        refuse_damaged(folder, "*.json")
        if not (folder / "config.json").is_file():
            _refuse_gguf(sorted(folder.glob("*.gguf")))
            raise BadInput(f"{name} holds no model: it has no config.json; name a checkpoint's folder")
        if not any(any(folder.glob(each)) for each in ("*.safetensors", "*.bin")):
            _refuse_gguf(sorted(folder.glob("*.gguf")))
    elif folder.exists():
        _refuse_gguf([folder] if folder.suffix == ".gguf" else [])
        raise BadInput(f"{name} is a file; name the folder of a model, as save_pretrained writes it")
    else:
        refuse_unreachable_hub(name)
    with refusing("language model", name), quiet():
        if folder.is_dir():
            config = configuration_in(folder)
        else:
            config = AutoConfig.from_pretrained(name, trust_remote_code=False)
    _refuse_quantised(config, name)
    config.return_dict = True  # scores are read by their name
    if str(config._attn_implementation).startswith("flash"):  # kernels of a package for cards alone
        config._attn_implementation = None
    return config


def refuse_unreachable_hub(name: str) -> None:
    """Fail at once, rather than after many retries, unless the model was downloaded before."""
    try:
        with quiet():
            AutoConfig.from_pretrained(name, local_files_only=True, trust_remote_code=False)
    except (OSError, ValueError):
        if not hub_is_reachable():
            raise unreachable(name) from None


def _refuse_gguf(files: Sequence[Path]) -> None:
    if files:
        asked = f"{str(files[0].parent)!r}, gguf_file={files[0].name!r}"
        how = f"{asked}, quantization_config=transformers.GgufConfig(dequantize=True)" if of_gguf() else asked
        raise BadInput(
            f"{files[0]} is a GGUF file, whose weights are rounded; load it by transformers."
            f"AutoModelForCausalLM.from_pretrained({how}), and its tokenizer by transformers."
            f"AutoTokenizer.from_pretrained({asked}), save both to one folder with save_pretrained, and name "
            "that folder"
        )


def of_gguf() -> dict[str, Any]:
    """Settings by which `from_pretrained` unpacks a GGUF file; older releases of transformers do so anyway.

    Newer ones may leave weights in blocks of whole numbers, and save no model that was loaded otherwise.
    """
    packing = getattr(transformers, "GgufConfig", None)
    return {} if packing is None else {"quantization_config": packing(dequantize=True)}


def _refuse_quantised(config: Any, name: str) -> None:
    """Raise BadInput for weights that are whole numbers; through bitsandbytes' an adapter has gradients."""
    stated = getattr(config, "quantization_config", None)
    method = stated.get("quant_method") if isinstance(stated, dict) else getattr(stated, "quant_method", None)
    if stated is not None and str(method) not in ("bitsandbytes", "QuantizationMethod.BITS_AND_BYTES"):
        how = f" ({method})" if method else ""
        raise BadInput(
            f"{name} is quantised{how}: its weights are whole numbers, which have no gradients; measure the "
            "model that it was made from"
        )


def configuration_in(folder: Path) -> Any:
    """The folder's config.json as a configuration of `transformers`; code in the folder is never run.

    If `model_type` is missing, as in files of older libraries, the type is that of the class under
    `architectures`, or else the prefix of the weights' names. Raises BadInput if neither gives a type, for a
    file that `transformers` cannot read, and for pipes and devices among the folder's files.
    """
    refuse_irregular(folder)
    content = read_configuration(folder)
    architectures = content.get("architectures") or []
    if not isinstance(architectures, list) or not all(isinstance(each, str) for each in architectures):
        raise BadInput(f"architectures in {folder / 'config.json'} is no list of names of classes; mend it")
    if content.get("model_type") == "isoloss-lstm":
        import isoloss.models.lstm  # noqa: F401 - makes its classes known to `transformers`
    if content.get("model_type"):
        with refusing("configuration", str(folder / "config.json")):
            return AutoConfig.from_pretrained(folder, local_files_only=True, trust_remote_code=False)
    model_type = _type_of_class(content) or _type_of_weights(folder)
    if model_type is None:
        raise BadInput(
            f"{folder / 'config.json'} does not say of what type the model is; add it, for example "
            '"model_type": "bert"'
        )
    content.pop("model_type", None)
    with refusing("configuration", str(folder / "config.json")):
        return AutoConfig.for_model(model_type, **content)


def states_type(folder: Path) -> bool:
    """Whether the folder's config.json states the model type, or cannot be read at all."""
    try:
        return bool(json.loads((folder / "config.json").read_text("utf-8")).get("model_type"))
    except (OSError, ValueError, RecursionError, AttributeError):
        return True


def renaming(names: Iterable[str], expected: Iterable[str]) -> dict[str, str]:
    """Patterns and replacements that turn more of the names into expected ones; often empty.

    >>> renaming(["module.bert.pooler.bias"], ["bert.pooler.bias"]).values()
    dict_values([''])
    """
    wanted, current = set(expected), list(names)
    chosen: dict[str, str] = {}
    for pattern, target in _RENAMINGS:
        renamed = [re.sub(pattern, target, name) for name in current]
        if len(wanted.intersection(renamed)) > len(wanted.intersection(current)):
            chosen[pattern], current = target, renamed
    return chosen


def renamed_weights(folder: Path, model: PreTrainedModel) -> dict[str, torch.Tensor] | None:
    """The folder's weights, renamed to match `model`; None if no `renaming` helps."""
    patterns = renaming(weight_shapes(folder), model.state_dict())
    if not patterns:
        return None
    weights: dict[str, torch.Tensor] = {}
    for path in sorted(folder.glob("*.safetensors")):
        weights |= load_file(path)
    for path in [] if weights else sorted(folder.glob("pytorch_model*.bin")):
        weights |= held_in(path, "cpu")
    return {_renamed(name, patterns): weight for name, weight in weights.items()}


def _renamed(name: str, patterns: Mapping[str, str]) -> str:
    for pattern, target in patterns.items():
        name = re.sub(pattern, target, name)
    return name


def lacks_head(folder: Path, model: PreTrainedModel) -> bool:
    """Whether the folder has none of the weights that `model` has in addition to its base model.

    Recognises an encoder saved on its own, without reading a weight; False if there are only other files.
    """
    head = {name for name in model.state_dict() if not is_of_body(name, model)}
    held = weight_shapes(folder)
    patterns = renaming(held, model.state_dict())
    names = [_renamed(name, patterns) for name in held]
    return bool(names) and bool(head) and head.isdisjoint(names)


def is_of_body(name: str, model: PreTrainedModel) -> bool:
    """Whether a parameter of the model is one of its base model, not of its head."""
    return name.startswith(f"{model.base_model_prefix}.")


def of_further_layer(unread: Iterable[str], model: PreTrainedModel) -> str | None:
    """The first weight that only a layer beyond the model's last one has; None if all are of other parts.

    Such weights are left out without a word where a configuration asks for fewer layers than were trained.

    >>> from transformers import BertConfig, BertForMaskedLM
    >>> model = BertForMaskedLM(BertConfig(
    ...     hidden_size=4, num_attention_heads=1, num_hidden_layers=1, intermediate_size=4))
    >>> of_further_layer(["qa_outputs.bias", "bert.encoder.layer.1.output.dense.bias"], model)
    'bert.encoder.layer.1.output.dense.bias'
    """
    expected = set(model.state_dict())
    expected |= {name.removeprefix(f"{model.base_model_prefix}.") for name in expected}
    for name in sorted(unread):
        for number in re.finditer(r"(?<=\.)[1-9]\d*(?=\.)|^[1-9]\d*(?=\.)", name):
            if f"{name[: number.start()]}0{name[number.end() :]}" in expected:
                return name
    return None


def about_missing(folder: Path, model: PreTrainedModel, missing: Iterable[str], unread: Iterable[str]) -> str:
    """Advice, as a clause, for a model that lacks weights and uses none of those `unread`."""
    held = weight_shapes(folder) if folder.is_dir() else {}
    library = next(
        (each for begin, each in _OF_OTHER_LIBRARIES.items() if any(begin in n for n in held)), None
    )
    if library is not None:
        return f"its weights are named as {library} names them; convert it to a model of transformers"
    shapes = {name: tuple(value.shape) for name, value in model.state_dict().items()}
    renames: dict[str, str] = {}
    for name in sorted(missing):
        alike = [
            each
            for each in sorted(set(unread).difference(renames))
            if held.get(each) == shapes.get(name) is not None
            and each.rpartition(".")[2] == name.rpartition(".")[2]
            and not _OTHER_HEADS.search(each)
        ]
        renames |= {alike[0]: name} if len(alike) == 1 else {}
    if renames:
        listed = ", ".join(f"{each} to {name}" for each, name in renames.items())
        return f"if it only has other names, rename {listed} in its file of weights"
    if any(is_of_body(name, model) for name in missing):
        return MEND
    other = next((each for each in sorted(unread) if _OTHER_HEADS.search(each)), None)
    beside = "" if other is None else f" (its {other} is of another head)"
    return f"give a model with one{beside}"


def _type_of_class(content: dict[str, Any]) -> str | None:
    named = set(content.get("architectures") or ())
    found = {kind for classes in _CLASSES for kind, name in classes.items() if name in named}
    return found.pop() if len(found) == 1 else None


def _type_of_weights(folder: Path) -> str | None:
    names = [re.sub(_WRAPPERS, "", name) for name in weight_shapes(folder)]
    beginnings = {name.split(".")[0] for name in names}
    spelled = beginnings | {each.replace("_", "-") for each in beginnings}
    found = [kind for kind in spelled if kind in CONFIG_MAPPING_NAMES]
    if not found and "lm_head" not in beginnings.difference(("transformer", "h")):
        found = list({_UNPREFIXED[name] for name in names if name in _UNPREFIXED})
    return found[0] if len(found) == 1 else None
