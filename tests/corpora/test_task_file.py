import json

import polars as pl
import pytest

from isoloss.corpora.labelled_texts import LabelledTexts, Shares, linked_groups, split_by_hash
from isoloss.corpora.task_file import read_task
from isoloss.corpora.token_sentences import read_text_corpus
from isoloss.errors import BadInput

ROWS = [{"text": f"text {number}", "label": ("bad", "good")[number % 2]} for number in range(200)]
PAIRS = [
    {"question": f"who {number}?", "sentence": f"it was {number // 3}", "label": number % 2}
    for number in range(200)
]


def write(path, rows, columns=None):
    table = pl.DataFrame(rows)
    match path.suffix:
        case ".csv":
            table.write_csv(path)
        case ".tsv":
            table.write_csv(path, separator="\t", quote_style="never")
        case ".parquet":
            table.write_parquet(path)
        case ".jsonl":
            path.write_text("".join(json.dumps(row) + "\n\n" for row in rows))
    return path


def parts(task):
    return {"train": task.train, "validation": task.validation, "test": task.test}


@pytest.mark.parametrize("ending", [".csv", ".tsv", ".parquet", ".jsonl"])
@pytest.mark.parametrize("rows", [ROWS, PAIRS])
def test_every_format_gives_the_same_task(ending, rows, tmp_path):
    task = read_task(write(tmp_path / f"task{ending}", rows)).task
    expected = read_task(write(tmp_path / "other.jsonl", rows)).task
    assert parts(task) == parts(expected)
    assert task.classes == (("bad", "good") if rows is ROWS else ("0", "1"))
    assert sum(map(len, parts(task).values())) == 200
    named = list(rows[0])
    read = {
        (text, *([] if part.seconds is None else [part.seconds[row]]), task.classes[part.labels[row]])
        for part in parts(task).values()
        for row, text in enumerate(part.texts)
    }
    assert read == {tuple(str(row[name]) for name in named) for row in rows}


@pytest.mark.thorough
def test_a_texts_part_is_its_own_and_its_shares_are_as_asked(tmp_path):
    rows = [{"text": f"a {number}", "label": number % 3} for number in range(5000)]
    task = read_task(write(tmp_path / "a.jsonl", rows)).task
    sizes = {name: len(part) for name, part in parts(task).items()}
    # Three standard errors of a share of 5000.
    assert abs(sizes["test"] - 1000) < 85
    assert abs(sizes["validation"] - 500) < 64
    half = read_task(write(tmp_path / "b.jsonl", rows[::-2])).task
    for name, part in parts(half).items():
        assert set(part.texts) < set(parts(task)[name].texts)


def linked_task(pairs, shares):
    examples = LabelledTexts(*map(tuple, zip(*pairs, strict=True)), (0,) * len(pairs))
    return split_by_hash("linked", ("x",), examples, shares, linked_groups(examples))


def test_pairs_that_share_a_text_are_in_one_part():
    pairs = [(f"{number % 50}", ("of ", "OF  ")[number % 2] + str(number // 3)) for number in range(300)]
    found = parts(linked_task(pairs[:10] + pairs[150:160], Shares(0.2, 0.3)))
    sides = [{text.lower().replace(" ", "") for text in part.texts + part.seconds} for part in found.values()]
    assert sum(map(len, found.values())) == 20
    assert sum(map(len, sides)) == len(set().union(*sides))
    every = linked_groups(LabelledTexts(*map(tuple, zip(*pairs, strict=True)), (0,) * 300))
    assert len(set(every)) == 1


def test_joined_pairs_are_divided_in_the_shares_asked():
    """The minimum of several hashes is small; this must not enlarge any part."""
    found = linked_task([(f"{n // 4}", f"of {n}") for n in range(8000)], Shares(0.0, 0.2))
    # 2000 groups of four: three standard errors.
    assert abs(len(found.test) - 1600) < 3 * 4 * (2000 * 0.16) ** 0.5


def test_copies_are_told_by_their_words_and_go_where_their_labels_differ(tmp_path):
    rows = [*ROWS, {"text": "TEXT  3", "label": "good"}, {"text": "Text 5", "label": "bad"}]
    read = read_task(write(tmp_path / "a.jsonl", rows))
    every = [text for part in parts(read.task).values() for text in part.texts]
    assert sorted(every) == sorted(f"text {number}" for number in range(200) if number != 5)
    said = "a.jsonl: 3 of 202 examples are left out; copies count once, and not at all where their labels"
    assert read.notes == (f"{said} differ",)


def test_a_test_file_keeps_its_own_and_takes_them_from_training(tmp_path):
    test = write(tmp_path / "test.csv", ROWS[:20])
    read = read_task(write(tmp_path / "train.csv", [*ROWS[10:], ROWS[50]]), test)
    assert set(read.task.test.texts) == {row["text"] for row in ROWS[:20]}
    others = {*read.task.train.texts, *read.task.validation.texts}
    assert others == {row["text"] for row in ROWS[20:]}
    assert read.notes == (
        "train.csv: 1 of 191 examples are left out; copies count once, and not at all where their labels "
        "differ",
        "train.csv: 10 examples share a text with the test and are left out",
    )


def test_examples_are_limited_by_their_hash_not_their_place(tmp_path):
    few = read_task(write(tmp_path / "a.jsonl", ROWS), examples=20).task
    assert (len(few.train), len(few.validation), len(few.test)) == (20, 10, 20)
    again = read_task(write(tmp_path / "b.jsonl", ROWS[::-1]), examples=20).task
    assert set(few.train.texts) == set(again.train.texts)


def test_few_examples_of_one_class_are_no_task(tmp_path):
    rare = [{"text": f"text {number}", "label": int(number % 20 == 1)} for number in range(400)]
    path = write(tmp_path / "a.jsonl", rare)
    with pytest.raises(BadInput, match=r"all 8 examples of .* have the label '0'; keep more than 8$"):
        read_task(path, examples=8)
    assert set(read_task(path, examples=100).task.train.labels) == {0, 1}


def test_training_examples_of_one_class_are_told_of_by_their_label(tmp_path):
    rows = [{"text": f"text {number}", "label": "usual"} for number in range(400)]
    rows[3]["label"] = "rare"  # a text of the test
    path = write(tmp_path / "a.jsonl", rows)
    said = r"all 264 examples of .* that are for training, .*, have the label 'usual'; give more .* of other"
    with pytest.raises(BadInput, match=said):
        read_task(path)


def test_a_test_file_that_holds_every_text_leaves_none_to_learn_from(tmp_path):
    task = write(tmp_path / "a.jsonl", ROWS)
    for test in (task, write(tmp_path / "b.csv", [*ROWS, {"text": "more", "label": "bad"}])):
        with pytest.raises(BadInput, match=r"every example of .*a\.jsonl shares a text with .*; give a test"):
            read_task(task, test)


def test_columns_may_be_named(tmp_path):
    rows = [{"id": 1, "review": row["text"], "stars": row["label"]} for row in ROWS]
    task = read_task(write(tmp_path / "a.csv", rows), columns=("review", "stars")).task
    assert task.classes == ("bad", "good")
    with pytest.raises(BadInput, match="has no column 'label', but id, review, stars; name"):
        read_task(tmp_path / "a.csv")
    with pytest.raises(BadInput, match="has no column sentence; its columns are id, review, stars"):
        read_task(tmp_path / "a.csv", columns=("sentence", "stars"))
    with pytest.raises(BadInput, match="and then that of the label"):
        read_task(tmp_path / "a.csv", columns=("review",))


@pytest.mark.parametrize(
    ("name", "content", "sentence"),
    [
        ("a.jsonl", '{"text": "a", "label": 1}\n{"text": "b"}\n', "row 2: the label is missing"),
        ("a.jsonl", '{"text": "a", "label": 1}\n{"text": " ", "label": 0}\n', "row 2: the text is missing"),
        ("a.jsonl", '{"text": "a", "label": 1}\n[1]\n', "line 2: this is no JSON object"),
        ("a.jsonl", '{"text": "a", "label": 1}\n' + "[" * 100_000, "line 2: this is no JSON object"),
        ("a.jsonl", '{"text": "\\ud800", "label": 1}\n', "line 1: there is half a surrogate pair"),
        (
            "a.jsonl",
            '{"text": ["a", "b"], "label": 1}\n',
            "row 1: a list is under 'text'; write a row for each",
        ),
        ("a.jsonl", '{"text": "a", "label": {"b": 1}}\n', "row 1: an object is under 'label'"),
        ("a.jsonl", "", "has no examples"),
        ("a.csv", "text,label\n", "has no examples"),
        ("a.csv", "text,label\na,1\nb,1\n", "every example of .* has the label '1'"),
        ("a.csv", "text,label\na,1\nb,2\nc,3\n", "3 different labels for 3 examples"),
        ("a.csv", "text,label\na,--1\nb,1\nc,--1\nd,1\n", "too few for 2 classes"),
        ("a.csv", "text,label\na,1\nb,2\nc,1\nd,2\n", "too few for 2 classes"),
        ("a.csv", "words,label\na,1\n", "has no column 'text', but words, label"),
        ("a.txt", "a 1\n", "a table is read from .jsonl"),
        ("a.parquet", "no parquet", "cannot be read as a table"),
        ("a.csv", b"text,label\n\xff,1\n", "line 2: this is not UTF-8"),
    ],
)
def test_what_is_no_task_is_one_sentence(name, content, sentence, tmp_path):
    (tmp_path / name).write_bytes(content if isinstance(content, bytes) else content.encode())
    with pytest.raises(BadInput, match=sentence) as refusal:
        read_task(tmp_path / name)
    assert "\n" not in str(refusal.value)


def test_bytes_are_no_text(tmp_path):
    path = write(tmp_path / "a.parquet", [{"text": b"a", "label": 0}, {"text": b"b", "label": 1}])
    for read in (read_task, read_text_corpus):
        with pytest.raises(BadInput, match="row 1: 'text' holds bytes; save it as a column of text"):
            read(path)


@pytest.mark.parametrize("columns", [("text", "text"), ("text", "text", "label"), ("label", "label")])
def test_a_column_that_is_named_twice_is_refused(columns, tmp_path):
    with pytest.raises(BadInput, match="name each column once"):
        read_task(write(tmp_path / "a.csv", ROWS), columns=columns)


@pytest.mark.parametrize(
    ("ending", "labels", "classes"),
    [
        (".csv", ("10", "-2"), ("-2", "10")),
        (".csv", ("--1", "1"), ("--1", "1")),
        (".csv", ("9" * 5000, "10"), ("10", "9" * 5000)),
        (".csv", ("1", "01"), ("01", "1")),  # one number: they are ordered as they are written
        (".parquet", (0.0, 1.0), ("0", "1")),  # whole numbers, though a table has them as floats
        (".parquet", range(12), tuple(map(str, range(12)))),
    ],
)
def test_classes_are_in_the_order_of_numbers_where_all_are(ending, labels, classes, tmp_path):
    rows = [{"text": f"text {number}", "label": labels[number % len(labels)]} for number in range(300)]
    assert read_task(write(tmp_path / f"a{ending}", rows)).task.classes == classes


def test_files_that_do_not_fit_are_refused(tmp_path):
    train, pairs = write(tmp_path / "a.csv", ROWS), write(tmp_path / "b.csv", PAIRS)
    with pytest.raises(BadInput, match="both hold texts, or both pairs"):
        read_task(train, pairs)
    other = write(tmp_path / "c.csv", [*ROWS[:4], {"text": "z", "label": "odd"}])
    with pytest.raises(BadInput, match="has the label 'odd', which no training example"):
        read_task(train, other)
    with pytest.raises(BadInput, match="there is no file"):
        read_task(tmp_path / "none.parquet")
    with pytest.raises(BadInput, match="3 examples are too few"):
        read_task(train, examples=3)
