"""Pre-training on a packed corpus: the same loop, its tokenizer beside the weights, reproducible bits."""

import pytest
import torch
from runs import outcome
from transformers import AutoModelForMaskedLM, AutoTokenizer

from isoloss.corpora.documents import local_files
from isoloss.corpora.prepared_corpus import CorpusRequest, prepared_corpus
from isoloss.corpora.vocabulary import OwnVocabulary
from isoloss.measurements.corpus_loss import validation_loss
from isoloss.models.transformers import PreLayerNormTransformer, Shape
from isoloss.objectives.masked import ManyMasksObjective
from isoloss.pretraining.descent import AdamW
from isoloss.pretraining.loop import pretrain
from isoloss.pretraining.specification import Compute, PretrainingSpecification
from isoloss.results.estimate import paired_difference


@pytest.mark.thorough
def test_a_run_on_real_text_learns_reads_text_and_can_be_repeated(tmp_path):
    (tmp_path / "a.txt").write_text(
        "\n".join(f"the cat number {n} sat on the mat number {n}" for n in range(120))
    )
    request = CorpusRequest(
        local_files([tmp_path / "a.txt"]), OwnVocabulary(100), length=16, validation_share=0.2
    )
    corpus = prepared_corpus(request, tmp_path)
    specification = PretrainingSpecification(
        PreLayerNormTransformer(Shape(32, 2, 1, 64)),
        AdamW(learning_rate=1e-2, warm_up_steps=5),
        corpus.digest,
        steps=30,
        batch_size=24,
        seed=0,
        checkpoint_steps=(1, 30),
        objective=ManyMasksObjective(),
        compute=Compute(micro_batch=10),
    )
    report = pretrain(specification, corpus, tmp_path / "run")

    def loss(step):
        model = AutoModelForMaskedLM.from_pretrained(tmp_path / "run" / "steps" / f"{step:06d}")
        return validation_loss(model, corpus.validation_sequences(), corpus.validation_documents(), seed=1)

    first, last = loss(1), loss(30)
    learned = paired_difference(first.document_values, last.document_values)
    assert learned.n == corpus.counts.validation.documents
    assert learned.value > 1 + 5 * learned.standard_error
    tokenizer = AutoTokenizer.from_pretrained(report.last.folder)
    assert tokenizer.decode(tokenizer("The cat sat", add_special_tokens=False).input_ids) == "the cat sat"
    masked = tokenizer("the cat number 7 [MASK] on the mat number 7", return_tensors="pt")
    with torch.no_grad():
        scores = AutoModelForMaskedLM.from_pretrained(report.last.folder)(**masked).logits
    assert scores.shape[-1] == len(tokenizer)
    pretrain(specification, corpus, tmp_path / "again", workers=1)
    assert outcome(tmp_path / "again") == outcome(tmp_path / "run")
