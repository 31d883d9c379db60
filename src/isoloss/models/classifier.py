"""Pre-trained models with a fresh head that classifies sentences from the vector of [CLS] (paper A.5)."""

from pathlib import Path

import torch
from safetensors import SafetensorError
from transformers import AutoModelForSequenceClassification, PreTrainedModel

from isoloss.errors import BadInput
from isoloss.models.reading import quiet


def load_classifier(folder: Path, classes: tuple[str, ...], seed: int) -> PreTrainedModel:
    """The backbone of a checkpoint folder under `transformers`' own classification head, on the CPU, float32.

    The head (for BERT: [CLS]'s vector, a pooler with tanh, dropout, a linear layer) starts as `transformers`
    has it, from `seed` alone. Any folder that `AutoModelForSequenceClassification` reads; never from the
    network. Raises BadInput when it reads none there, or where part of the backbone is missing.

    >>> import tempfile
    >>> from isoloss.models.shapes import laptop_shape
    >>> from isoloss.models.transformers import PostLayerNormTransformer
    >>> folder = Path(tempfile.mkdtemp())
    >>> PostLayerNormTransformer(laptop_shape(16)).build(12, 8, seed=0).save_pretrained(folder)
    >>> load_classifier(folder, ("noun", "verb"), seed=0)(input_ids=torch.ones(3, 9).long()).logits.shape
    torch.Size([3, 2])
    """
    if not (folder / "config.json").is_file():
        raise BadInput(f"{folder} holds no model: it has no config.json; name a checkpoint's folder")
    try:
        with quiet(), torch.random.fork_rng(devices=[]):
            torch.default_generator.manual_seed(seed)
            model, found = AutoModelForSequenceClassification.from_pretrained(
                folder,
                local_files_only=True,
                dtype=torch.float32,
                id2label=dict(enumerate(classes)),
                label2id={name: number for number, name in enumerate(classes)},
                problem_type="single_label_classification",
                output_loading_info=True,
            )
    except (OSError, ValueError, RuntimeError, KeyError, SafetensorError) as error:
        reason = str(error).splitlines()[0]
        raise BadInput(f"no model to fine-tune can be read from {folder}: {reason}") from error
    missing = [
        key for key in found["missing_keys"] if not key.startswith("classifier.") and ".pooler." not in key
    ]
    if missing:
        raise BadInput(f"the model in {folder} lacks {min(missing)}: its backbone is not complete")
    return model
