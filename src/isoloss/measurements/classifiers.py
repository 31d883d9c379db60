"""Classifiers of sentences to fine-tune: a model's backbone under a head drawn from a seed."""

import copy
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeAlias

import torch
from jaxtyping import Bool, Int
from safetensors import SafetensorError
from safetensors.torch import save_file
from torch import Tensor, nn
from transformers import AutoModelForSequenceClassification, PreTrainedModel
from transformers.modeling_outputs import SequenceClassifierOutput

from isoloss.errors import BadInput
from isoloss.models.hub import quiet
from isoloss.objectives.tokens import vectors_of_words
from isoloss.results.checkpoint import refuse_damaged

HEAD_FILE = "head.safetensors"


class WordsClassifier(nn.Module):
    """A backbone, fine-tuned with it, under a linear head on its `word_vectors` of up to `words` words.

    The head is drawn from `seed` as `transformers` draws one: N(0, 0.02²), biases zero. `backbone` is not
    copied.
    """

    def __init__(self, backbone: PreTrainedModel, words: int, classes: int, seed: int) -> None:
        super().__init__()
        self.base_model = backbone
        self.head = nn.Linear(words * backbone.config.hidden_size, classes)
        drawn = torch.Generator().manual_seed(seed)
        nn.init.normal_(self.head.weight, std=0.02, generator=drawn)
        nn.init.zeros_(self.head.bias)

    @property
    def device(self) -> torch.device:
        """Where the weights are."""
        return self.head.weight.device

    def forward(
        self, input_ids: Int[Tensor, "n S"], attention_mask: Bool[Tensor, "n S"] | None = None
    ) -> SequenceClassifierOutput:
        """Scores of the classes, `logits` [n, k]; token 0 of each row is [CLS]."""
        vectors = vectors_of_words(self.base_model, input_ids, attention_mask)
        missing = self.head.in_features - vectors.shape[1]
        return SequenceClassifierOutput(logits=self.head(nn.functional.pad(vectors, (0, missing))))

    def save_pretrained(self, folder: Path) -> None:
        """The backbone, which `AutoModel` can load, and the head's weights in a file of their own."""
        self.base_model.save_pretrained(folder)
        save_file(self.head.state_dict(), folder / HEAD_FILE)


Classifier: TypeAlias = PreTrainedModel | WordsClassifier


def load_classifier(folder: Path, classes: tuple[str, ...], seed: int) -> PreTrainedModel:
    """The backbone of a checkpoint folder under `transformers`' own classification head, on the CPU, float32.

    The head (for BERT: [CLS]'s vector, a pooler with tanh, dropout, a linear layer) is initialised as in
    `transformers`, from `seed` alone. Works for any folder that `AutoModelForSequenceClassification` can
    load; never uses the network. Raises BadInput if there is no such model, or part of the backbone is
    missing, Damaged if it is a checkpoint of ours that is not what was written.

    >>> import tempfile
    >>> from isoloss.models.transformers import laptop_shape
    >>> from isoloss.models.transformers import PostLayerNormTransformer
    >>> folder = Path(tempfile.mkdtemp())
    >>> PostLayerNormTransformer(laptop_shape(16)).build(12, 8, seed=0).save_pretrained(folder)
    >>> load_classifier(folder, ("noun", "verb"), seed=0)(input_ids=torch.ones(3, 9).long()).logits.shape
    torch.Size([3, 2])
    """
    refuse_damaged(folder)
    if not (folder / "config.json").is_file():
        raise BadInput(f"{folder} holds no model: it has no config.json; name a checkpoint's folder")
    try:
        with quiet(), _head_from(seed):
            model, found = AutoModelForSequenceClassification.from_pretrained(
                folder,
                local_files_only=True,
                dtype=torch.float32,
                output_loading_info=True,
                **_classifying(classes),
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


def classifier_of(
    model: PreTrainedModel, classes: tuple[str, ...], seed: int, padding: int
) -> PreTrainedModel:
    """A copy of a language model's backbone under `transformers`' own classification head, in float32.

    A masked model's head reads the vector of the first token, [CLS], as in `load_classifier`; a causal
    model's head reads that of the last token that is not `padding`, the only one that has seen the whole
    text. The head is initialised as in `transformers`, from `seed` alone; the copy is on the model's device.
    Raises BadInput for a model type for which `transformers` has no classifier.

    >>> from isoloss.models.transformers import GPT2Transformer
    >>> from isoloss.models.transformers import laptop_shape
    >>> model = GPT2Transformer(laptop_shape(16)).build(12, 8, seed=0)
    >>> classifier = classifier_of(model, ("noun", "verb"), seed=0, padding=0)
    >>> classifier(input_ids=torch.ones(3, 9).long()).logits.shape
    torch.Size([3, 2])
    """
    config = copy.deepcopy(model.config)
    for name, value in {**_classifying(classes), "pad_token_id": padding, "use_cache": False}.items():
        setattr(config, name, value)
    try:
        with quiet(), _head_from(seed):
            classifier = AutoModelForSequenceClassification.from_config(config, dtype=torch.float32)
    except ValueError as error:
        raise BadInput(
            f"{type(model).__name__} has no classifier in transformers, so it cannot be fine-tuned; leave "
            "fine-tuning out and keep the linear probe"
        ) from error
    # A language model lacks the pooler through which some classifiers read [CLS].
    found = classifier.base_model.load_state_dict(model.base_model.state_dict(), strict=False)
    missing = [key for key in found.missing_keys if "pooler." not in key]
    if missing or found.unexpected_keys:
        differing = min([*missing, *found.unexpected_keys])
        raise BadInput(
            f"the classifier of {type(model).__name__} has another backbone ({differing} differs), so it "
            "cannot be fine-tuned; leave fine-tuning out and keep the linear probe"
        )
    return classifier.to(model.device)


def _classifying(classes: tuple[str, ...]) -> dict[str, Any]:
    """The classifier's configuration settings for its classes."""
    return {
        "id2label": dict(enumerate(classes)),
        "label2id": {name: number for number, name in enumerate(classes)},
        "problem_type": "single_label_classification",
    }


@contextmanager
def _head_from(seed: int) -> Iterator[None]:
    """Draw new weights from `seed`, leaving the global generator untouched."""
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(seed)
        yield
