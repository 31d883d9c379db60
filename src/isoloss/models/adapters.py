"""Adapters of peft: folders with weights that are added to those of a base model, named in the folder."""

import json
from pathlib import Path

from transformers import PreTrainedModel

from isoloss.errors import BadInput
from isoloss.files import read_text
from isoloss.models.hub import quiet, refuse_irregular, refusing
from isoloss.models.named_models import ADAPTER_FILE


def base_of_adapter(name: str) -> str | None:
    """The folder or the hub's name of the model that an adapter is added to; None if it is no adapter.

    A folder may also be named relative to the adapter's own. Raises BadInput if the adapter names none.

    >>> import tempfile
    >>> folder = Path(tempfile.mkdtemp())
    >>> base_of_adapter(str(folder)) is None
    True
    >>> _ = (folder / ADAPTER_FILE).write_text('{"base_model_name_or_path": "gpt2"}')
    >>> base_of_adapter(str(folder))
    'gpt2'
    """
    folder = Path(name)
    if not (folder / ADAPTER_FILE).is_file():
        return None
    refuse_irregular(folder)
    try:
        base = json.loads(read_text(folder / ADAPTER_FILE, "an adapter's settings"))[
            "base_model_name_or_path"
        ]
    except (ValueError, KeyError, TypeError, RecursionError):
        base = None
    if not isinstance(base, str) or not base.strip():
        raise BadInput(
            f"{folder / ADAPTER_FILE} names no base model; write its name as base_model_name_or_path"
        )
    inside = folder / base
    found = str(inside) if inside.is_dir() and not Path(base).is_dir() else base
    if (Path(found) / ADAPTER_FILE).is_file():
        raise BadInput(
            f"{name} is an adapter of {found}, itself an adapter; merge that one into its base model"
        )
    return found


def add_adapter(model: PreTrainedModel, name: str) -> None:
    """Add an adapter's weights to its base model, in place; they alone require gradients.

    Raises BadInput if they are not those of an adapter of this model, or if peft is not installed.
    """
    with refusing("adapter", name), quiet():
        try:
            import peft  # noqa: F401 - `transformers` needs it for adapters
        except ImportError as error:
            raise BadInput(
                f"{name} is an adapter, which needs the package peft: pip install 'isoloss[peft]'"
            ) from error
        found = model.load_adapter(str(Path(name).resolve()), is_trainable=True)
    if found is not None and found.missing_keys:
        raise BadInput(f"the adapter {name} lacks {min(found.missing_keys)}; fetch or copy its folder again")
    if not any(parameter.requires_grad for parameter in model.parameters()):
        raise BadInput(f"the adapter {name} has no weights to measure; merge it into its base model")
