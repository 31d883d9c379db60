"""Tiny masked and causal models with tokenizers that read words, alone and in pairs."""

from tokenizers import Tokenizer, models, pre_tokenizers, processors
from transformers import BertConfig, BertForMaskedLM, GPT2Config, GPT2LMHeadModel, PreTrainedTokenizerFast

from tiny_models import far_from_the_start

WORDS = tuple("abcdefgh")
SPECIAL = ("[PAD]", "[CLS]", "[SEP]", "[MASK]", "[UNK]")
NUMBERS = {word: number for number, word in enumerate((*SPECIAL, *WORDS))}


def text_tokenizer(causal=False):
    """As BERT's, or as GPT-2's, which adds nothing to a text; a line break is a separate token there."""
    numbers = NUMBERS | ({"\n": len(NUMBERS)} if causal else {})
    tokenizer = Tokenizer(models.WordLevel(numbers, unk_token="[UNK]"))
    if causal:
        newline = pre_tokenizers.Split("\n", "isolated")
        tokenizer.pre_tokenizer = pre_tokenizers.Sequence([newline, pre_tokenizers.Split(" ", "removed")])
        return PreTrainedTokenizerFast(tokenizer_object=tokenizer, unk_token="[UNK]", eos_token="[SEP]")
    tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    tokenizer.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]",
        pair="[CLS] $A [SEP] $B:1 [SEP]:1",
        special_tokens=[("[CLS]", 1), ("[SEP]", 2)],
    )
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        pad_token="[PAD]",
        cls_token="[CLS]",
        sep_token="[SEP]",
        mask_token="[MASK]",
        unk_token="[UNK]",
    )


def text_model(causal=False, seed=1, width=16, positions=24):
    """With weights far from their small start."""
    tokens = len(NUMBERS) + causal
    if causal:
        model = GPT2LMHeadModel(
            GPT2Config(vocab_size=tokens, n_embd=width, n_layer=1, n_head=2, n_positions=positions,
                       bos_token_id=2, eos_token_id=2)
        )  # fmt: skip
    else:
        model = BertForMaskedLM(
            BertConfig(vocab_size=tokens, hidden_size=width, num_hidden_layers=1, num_attention_heads=2,
                       intermediate_size=16, max_position_embeddings=positions, pad_token_id=0)
        )  # fmt: skip
    return far_from_the_start(model, seed=seed).eval()
