import random
from dataclasses import replace

import pytest
import torch
from transformers import ByT5Tokenizer

from isoloss.corpora.fetched_package import default_cache, gutenberg_books
from isoloss.errors import BadInput
from isoloss.experiments.teacher import (
    GivenProse,
    HubPlan,
    Teacher,
    TeacherPlan,
    prose_windows,
    teacher_language,
)
from isoloss.languages.language import Language
from isoloss.models.causal_language import ModelSource
from isoloss.models.loading import load_causal_language_model
from isoloss.models.tokenizer import word_tokenizer
from isoloss.models.transformers import GPT2Transformer, Shape
from isoloss.objectives.next_word import NextWordObjective
from isoloss.objectives.tokens import CLS, FIRST_WORD
from isoloss.pretraining.descent import AdamW
from isoloss.progress import silent
from isoloss.results.checkpoint import checkpoint_folders


def book():
    """Sentences of an invented language in which every verb follows its noun."""
    draw = random.Random(0)
    pairs = [("cats", "purr"), ("dogs", "bark"), ("birds", "sing")]
    return " ".join("The {} {}.".format(*draw.choice(pairs)) for _ in range(300)).replace(". ", ".\n", 50)


@pytest.fixture
def teacher():
    return Teacher(
        words=40,
        length=4,
        architecture=GPT2Transformer(Shape(16, 2, 1, 32), dropout=0.0),
        update_rule=AdamW(learning_rate=1e-2, warm_up_steps=10),
        steps=20,
        batch_size=32,
    )


def test_pieces_join_to_the_text():
    windows = prose_windows([book()], words=40, length=4)
    pieces = "".join(windows.vocabulary[word] for word in windows.text)
    assert pieces.replace("Ġ", " ").split() == book().split()
    assert len(windows.vocabulary) <= 40
    assert prose_windows([book()], words=40, length=4).digest == windows.digest


def test_a_teachers_language_is_its_checkpoints_distribution(teacher, tmp_path):
    text = prose_windows([book()], teacher.words, teacher.length)
    language = teacher_language(teacher, [book()], tmp_path)
    assert isinstance(language, Language)
    assert (language.vocabulary, language.maximum_length) == (text.vocabulary, 4)
    model = load_causal_language_model(str(checkpoint_folders(tmp_path)[-1]))
    sentences = language.sample(5, torch.Generator().manual_seed(0))
    batch = NextWordObjective().every_prediction(sentences)
    with torch.no_grad():
        scores = NextWordObjective().logits(model, batch).view(5, 5, -1)[:, :4, FIRST_WORD:].double()
    torch.testing.assert_close(
        language.next_log_probabilities(sentences)[:, :4, :-1], scores.log_softmax(2), rtol=0, atol=1e-5
    )
    assert language.restriction.bos == CLS
    # The second time nothing is trained.
    assert teacher_language(teacher, [book()], tmp_path).digest == language.digest


@pytest.mark.thorough
def test_a_teacher_learns_what_follows_what(teacher, tmp_path):
    text = prose_windows([book()], words=60, length=4)
    language = teacher_language(replace(teacher, words=60, steps=150), [book()], tmp_path)
    found = text.sample(200, torch.Generator().manual_seed(0))
    learned = float(language.log_probability(found).mean())
    # Windows are "The cats purr ." and similar: three kinds, equally likely.
    assert len(found.ids.unique(dim=0)) == 3
    assert learned == pytest.approx(-1.0986, abs=0.15)


@pytest.mark.slow
def test_the_laptops_teacher_writes_english(tmp_path):
    if not (default_cache() / "gutenberg" / "complete").is_file():
        pytest.skip("the books are not there; `isoloss language teacher` fetches them")
    language = teacher_language(Teacher(steps=300), gutenberg_books(), tmp_path)
    sentences = language.sample(200, torch.Generator().manual_seed(0))
    words = [language.vocabulary[number] for number in sentences.ids.flatten().tolist()]
    # "the" is about one word in twenty of English prose, and one of 2,000 pieces by chance.
    assert 0.01 < words.count("Ġthe") / len(words) < 0.1


def test_a_teachers_whole_tokenizer_is_the_one_its_words_were_cut_from(teacher):
    plan = TeacherPlan(teacher, GivenProse(book()), words=20)
    tokenizer = plan.whole_tokenizer.tokenizer(silent)
    assert set(tokenizer.get_vocab()) == set(prose_windows([book()], teacher.words, 4).vocabulary)
    assert tokenizer.decode(tokenizer.encode("The cats purr.").ids).strip() == "The cats purr."


def test_a_models_whole_tokenizer_is_that_of_its_folder_if_it_is_one_of_tokenizers(tmp_path):
    word_tokenizer(["cats", "purr"], 4).save_pretrained(tmp_path / "words")
    plan = HubPlan(ModelSource(str(tmp_path / "words")))
    assert plan.whole_tokenizer.tokenizer(silent).encode("cats purr").tokens[1:] == ["cats", "purr"]
    ByT5Tokenizer().save_pretrained(tmp_path / "bytes")
    with pytest.raises(BadInput, match="bytes is not of the package `tokenizers`; choose another"):
        HubPlan(ModelSource(str(tmp_path / "bytes"))).whole_tokenizer.tokenizer(silent)
