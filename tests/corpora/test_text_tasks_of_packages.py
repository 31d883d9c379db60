"""Tasks from texts in packages, on a few such texts made here; and GLUE's without its hub."""

import io
import random
import tarfile
from types import SimpleNamespace
from typing import ClassVar

import pytest
from small_corpora import loading

from isoloss.corpora.glue import GlueTask
from isoloss.corpora.glue_forms import (
    SCORED_PATH,
    answering_task,
    claims_task,
    labelled_snippets,
    scored_snippets,
    sentence_spans,
    snippet_task,
)
from isoloss.corpora.labelled_texts import (
    LabelledTexts,
    Shares,
    TaskSizes,
    TextTask,
    distinct,
    example_hashes,
    split_by_hash,
)
from isoloss.errors import BadInput
from isoloss.progress import silent


def one_text_each(numbers: range) -> LabelledTexts:
    return LabelledTexts(tuple(f"text {n}" for n in numbers), None, tuple(n % 2 for n in numbers))


def parts(task: TextTask) -> tuple[LabelledTexts, LabelledTexts, LabelledTexts]:
    return task.train, task.validation, task.test


def assert_no_text_in_two_parts(task: TextTask) -> None:
    hashes = [set(example_hashes(part)) for part in parts(task)]
    assert all(hashes)
    assert not hashes[0] & hashes[1]
    assert not hashes[0] & hashes[2]
    assert not hashes[1] & hashes[2]


def test_where_a_text_belongs_does_not_depend_on_the_others_or_their_order():
    every = one_text_each(range(400))
    order = list(range(400))
    random.Random(0).shuffle(order)
    whole = split_by_hash("n", ("a", "b"), every, Shares(0.1, 0.2))
    mixed = split_by_hash("n", ("a", "b"), every[order], Shares(0.1, 0.2))
    half = split_by_hash("n", ("a", "b"), every[range(200)], Shares(0.1, 0.2))
    assert_no_text_in_two_parts(whole)
    for one, other, fewer in zip(parts(whole), parts(mixed), parts(half), strict=True):
        assert set(one.texts) == set(other.texts) >= set(fewer.texts)


def test_a_group_is_in_one_part():
    every = one_text_each(range(300))
    task = split_by_hash("n", ("a", "b"), every, Shares(0.2, 0.3), [f"group {n // 3}" for n in range(300)])
    where = {text: name for name in ("train", "validation", "test") for text in getattr(task, name).texts}
    assert len(where) == 300
    assert all(len({where[f"text {3 * g + place}"] for place in range(3)}) == 1 for g in range(100))
    assert len(set(where.values())) == 3


def test_copies_count_once_and_not_at_all_where_their_labels_disagree():
    pairs = LabelledTexts(("a", "A ", "a", "b", "b"), ("x", "x", "y", "z", "Z"), (0, 0, 1, 0, 1))
    assert distinct(pairs) == LabelledTexts(("a", "a"), ("x", "y"), (0, 1))


def test_fewer_examples_are_a_part_of_more():
    task = split_by_hash("n", ("a", "b"), one_text_each(range(300)), Shares(0.2, 0.3))
    some, more = TaskSizes(5, 3, 4).of(task), TaskSizes(50, 3, None).of(task)
    assert set(some.train.texts) < set(more.train.texts) < set(task.train.texts)
    assert [len(part) for part in parts(some)] == [5, 3, 4]
    assert set(more.test.texts) == set(task.test.texts)
    with pytest.raises(BadInput, match="at least one example, not 0"):
        TaskSizes(test=0)


def scored(lines: str) -> LabelledTexts:
    content, written = io.BytesIO(), lines.encode()
    with tarfile.open(fileobj=content, mode="w:gz") as archive:
        member = tarfile.TarInfo(SCORED_PATH)
        member.size = len(written)
        archive.addfile(member, io.BytesIO(written))
    return scored_snippets(content.getvalue())


def test_snippets_known_from_training_are_not_in_the_test():
    rows = "".join(f'"film {n} , isn\'t it ""good"" ?",{n % 2},rotten_tomatoes\n' for n in range(60))
    labelled = labelled_snippets(f"text,label,source\n{rows}A long review,1,imdb\n")
    assert len(labelled) == 60
    found = scored(
        "1\t2.5\tFilm 7, isn't it ''good''?\n"  # known, except for its formatting
        "2\t-0.9\tPB&amp;J, again.\n"
        "3\t0.8\tSo so.\n"  # neutral, as 0.8 is in the middle fifth
        "4\t0.81\tRather fine!\n"
    )
    task = snippet_task("films", labelled, found)
    assert task.test == LabelledTexts(("pb&j , again .", "rather fine !"), None, (0, 1))
    assert len(task.train) + len(task.validation) == 60
    assert_no_text_in_two_parts(task)


def article(title: str) -> dict:
    context = f"The hill of {title} is 90 m high. Its town, e.g. the new one, is old. Nobody lives there."
    asked = [
        {"question": f"How high is the hill of {title}?", "answers": [place(context, "90 m")]},
        {"question": f"What is old in {title}?", "answers": [place(context, "town")]},
        {"question": f"What crosses {title}?", "answers": [place(context, "high. Its")]},
    ]
    alone = {"context": "One sentence.", "qas": [{"question": "Why?", "answers": [place("One", "One")]}]}
    return {"title": title, "paragraphs": [{"context": context, "qas": asked}, alone]}


def place(context: str, answer: str) -> dict:
    return {"text": answer, "answer_start": context.index(answer)}


def test_a_question_comes_with_the_sentence_that_answers_it_and_with_the_nearest_other():
    task = answering_task("questions", {"data": [article(f"Place {n}") for n in range(30)]})
    assert_no_text_in_two_parts(task)
    every = [
        (part.texts[row], part.seconds[row], part.labels[row])
        for part in parts(task)
        for row in range(len(part))
    ]
    assert len(every) == 30 * 4  # without questions across sentences, or about paragraphs of one
    of_one = sorted(pair for pair in every if pair[0].endswith("Place 3?") or pair[0].endswith("in Place 3?"))
    assert of_one == [
        ("How high is the hill of Place 3?", "Its town, e.g. the new one, is old.", 1),
        ("How high is the hill of Place 3?", "The hill of Place 3 is 90 m high.", 0),
        ("What is old in Place 3?", "Its town, e.g. the new one, is old.", 0),
        ("What is old in Place 3?", "The hill of Place 3 is 90 m high.", 1),
    ]
    for part in parts(task):
        assert part.labels.count(0) == part.labels.count(1)


def test_sentences_are_cut_without_losing_a_letter():
    text = 'He saw Dr. No. (It was 5 p.m. there.) "Really?" 12 people left... and one stayed!'
    spans = sentence_spans(text)
    assert "".join(text[start:stop] for start, stop in spans) == text
    assert [text[start:stop].strip() for start, stop in spans][-2:] == [
        '"Really?"',
        "12 people left... and one stayed!",
    ]


def test_claims_about_one_page_are_in_one_part():
    verdicts = [
        {"True": int(n % 3 == 0), "False": int(n % 3 == 1), "Neither": int(n % 3 == 2)} for n in range(3)
    ]
    given = [
        {"input": f"Page {n // 3}: fact.\nClaim: claim {n % 3}.", "target_scores": verdicts[n % 3]}
        for n in range(180)
    ]
    task = claims_task("claims", given)
    assert_no_text_in_two_parts(task)
    assert sum(len(part) for part in parts(task)) == 180
    for part in parts(task):
        assert all(
            label == int(claim != "claim 0.") for claim, label in zip(part.seconds, part.labels, strict=True)
        )
    pages = [set(part.texts) for part in parts(task)]
    assert not pages[0] & pages[1]
    assert not pages[0] & pages[2]


@pytest.mark.parametrize("name", ["qnli", "sst2"])
def test_glue_is_read_by_name_and_trains_on_nothing_that_it_is_tested_on(name, monkeypatch, tmp_path):
    class Part(dict):
        features: ClassVar = {"label": SimpleNamespace(names=["no", "yes"])}

    def part(texts: list[str], labels: list[int]) -> Part:
        pairs = {"question": texts, "sentence": ["s"] * len(texts)}
        return Part(pairs if name == "qnli" else {"sentence": texts}, label=labels)

    train = part([f"q {n}" for n in range(200)], [0, 1] * 100)
    test = part(["q 7", "new", "Q  7", "q 8"], [1, 0, 1, 0])
    asked = loading(monkeypatch, {"train": train, "validation": test})
    task = GlueTask(name).task(tmp_path, silent)
    assert asked == [(("nyu-mll/glue", name), {})]
    seconds = ("s",) * 3 if name == "qnli" else None
    assert task.test == LabelledTexts(("q 7", "new", "q 8"), seconds, (1, 0, 0))  # each once
    others = {*task.train.texts, *task.validation.texts}
    assert others == {f"q {n}" for n in range(200)} - {"q 7", "q 8"}
    assert len(task.train) + len(task.validation) == 198
    assert_no_text_in_two_parts(task)
    assert task.classes == ("no", "yes")
