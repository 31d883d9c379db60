"""Folders of models that `isoloss compare` is called with, a text and a task."""

import json
import random
import shutil

from tiny_text_models import WORDS, text_model, text_tokenizer

TEXT = ("--text", "text.txt", "--sentences", "12")
TASK = ("--task", "task.jsonl")


def save(model, folder, causal=False):
    model.save_pretrained(folder)
    text_tokenizer(causal).save_pretrained(folder)


def save_compared(folder):
    """Write them into `folder`; the task's label is the half of the vocabulary that a text is from."""
    for name, settings in {
        "a": {},
        "b": {"seed": 2},
        "wide": {"width": 24},
        "causal": {"causal": True},
    }.items():
        save(text_model(**settings), folder / name, name == "causal")
    shutil.copytree(folder / "a", folder / "copy-of-a")
    save(text_model().bert, folder / "mute")
    text_model(seed=3).save_pretrained(folder / "maskless")
    maskless = text_tokenizer()
    maskless.mask_token = None
    maskless.save_pretrained(folder / "maskless")
    chosen = random.Random(900)

    def texts(words, count):
        return [" ".join(chosen.choices(words, k=chosen.randint(3, 9))) for _ in range(count)]

    (folder / "text.txt").write_text("\n".join(texts(WORDS, 90)))
    (folder / "blank.txt").write_text("\n \n")
    (folder / "one.txt").write_text("a b c\n")
    rows = [{"text": text, "label": "early"} for text in texts(WORDS[:4], 100)]
    rows += [{"text": text, "label": "late"} for text in texts(WORDS[4:], 90)]
    for name, kept in {"task": rows, "single": rows[:100], "unlabelled": [{"text": "a"}]}.items():
        (folder / f"{name}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in kept))
