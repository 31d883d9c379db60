"""What fills up texts for a classifier of the last token, whose configuration may not say."""

from collections.abc import Sequence
from pathlib import Path

import pytest
import torch
from transformers import GPT2Config, GPT2ForSequenceClassification

from isoloss.corpora.token_sentences import TokenSentence
from isoloss.measurements.models_on_text import build_predicting, load_predicting
from isoloss.measurements.on_sentences.traces import RootFisherQuantity
from isoloss.measurements.prediction import SpecialTokens
from isoloss.measurements.sampled_batches import SampledBatches
from isoloss.measurements.task_heads import TextClasses
from isoloss.objectives.pretrained import SentencesApart
from isoloss.objectives.task_heads import SequenceClass, class_batch
from isoloss.progress import silent

TEXTS = [[1, 2, 3, 5, 5], [4, 5], [6, 7, 8], [9, 5, 0, 1, 2, 5]]
"""Several of them end in the token 5, which ends texts."""


@pytest.mark.parametrize(("pad", "expected"), [(3, 3), (None, -1)])
def test_a_named_padding_stays(pad: int | None, expected: int) -> None:
    config = GPT2Config(vocab_size=11, n_layer=1, n_embd=8, n_head=2, pad_token_id=pad)
    assert build_predicting(config, TextClasses(), torch.float32).config.pad_token_id == expected


@pytest.mark.parametrize("begins", [5, 4, None])
def test_without_a_padding_the_last_token_is_read_whatever_it_is(begins: int | None, tmp_path: Path) -> None:
    config = GPT2Config(
        vocab_size=11, n_layer=1, n_embd=8, n_head=2, n_positions=9, bos_token_id=begins, eos_token_id=5
    )
    config.num_labels = 3
    model = GPT2ForSequenceClassification(config).eval()
    model.save_pretrained(tmp_path)
    alone = torch.cat([model(input_ids=torch.tensor([text])).logits for text in TEXTS])
    loaded, batch = load_predicting(str(tmp_path), TextClasses()), class_batch(TEXTS, [0] * 4, pad=0)
    apart = SentencesApart(loaded, SequenceClass())
    torch.testing.assert_close(apart.objective(batch).logits(loaded, batch), alone)
    assert apart.way == "equally long sentences at a time"


class OfLengths:
    """Ten texts of class 0, of 1 to 10 tokens."""

    def __len__(self) -> int:
        return 10

    def sentences(self, numbers: Sequence[int]) -> list[TokenSentence]:
        return [TokenSentence(list(range(1, number + 2)), [], number + 1, answer=[0]) for number in numbers]


def test_a_text_joined_with_longer_ones_is_classified_as_apart_from_them() -> None:
    """Models that read a text's last token recognise it by what fills the text up."""
    config = GPT2Config(vocab_size=12, n_layer=1, n_embd=8, n_head=2, n_positions=10, pad_token_id=11)
    model = GPT2ForSequenceClassification(config).eval()
    batches = SampledBatches(OfLengths(), TextClasses(), 0, SpecialTokens(pad=11))
    drawn = RootFisherQuantity(sentences=10, seed=0).draw(batches, SequenceClass(), silent)
    assert len({batch.input_ids.shape[1] for batch in drawn.batches}) == 2
    apart = torch.cat([SequenceClass().logits(model, batch) for batch in drawn.batches])
    torch.testing.assert_close(SequenceClass().logits(model, drawn.joined), apart)
