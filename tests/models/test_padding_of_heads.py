"""What fills up texts for a classifier of the last token, whose configuration may not say."""

from pathlib import Path

import pytest
from transformers import GPT2Config, PerceiverConfig, PreTrainedConfig

from isoloss.errors import BadInput
from isoloss.models.task_heads import configuration_with_head


@pytest.mark.parametrize(
    ("said", "expected"),
    [
        ({"pad_token_id": 3, "eos_token_id": 5, "bos_token_id": 4}, 3),
        ({"eos_token_id": 5, "bos_token_id": 4}, 4),  # a text's own end would be taken for padding
        ({"eos_token_id": 5, "bos_token_id": None}, 5),
    ],
)
def test_texts_are_filled_up_with_their_beginning_or_end_where_nothing_is_named(
    said: dict[str, int | None], expected: int, tmp_path: Path
) -> None:
    GPT2Config(vocab_size=11, n_layer=1, **said).save_pretrained(tmp_path)
    assert configuration_with_head(str(tmp_path), "text classes").pad_token_id == expected


@pytest.mark.parametrize(
    "config",
    [
        GPT2Config(vocab_size=11, n_layer=1, bos_token_id=None, eos_token_id=None),
        PerceiverConfig(),  # which knows no token for it at all
    ],
)
def test_a_configuration_without_either_is_refused(config: PreTrainedConfig, tmp_path: Path) -> None:
    config.save_pretrained(tmp_path)
    with pytest.raises(BadInput, match="says nothing of padding; add pad_token_id"):
        configuration_with_head(str(tmp_path), "text classes")
