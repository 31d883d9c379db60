"""Inputs that nobody would give: files of every kind mutated or made up, options with useless numbers."""

import json
import os
import random
import resource
import signal
import traceback
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st

SECONDS, BYTES = 20, 4 << 30
AT_ONCE = 25
"""Inputs for one child, which ends at the first that it does not survive."""

TWO_STATES = {"initial": [0.5, 0.5], "transition": [[0.5, 0.5]] * 2, "emission": [[0.5, 0.5]] * 2}
FILES: dict[str, bytes] = {
    "a.pcfg": b"S -> A B [0.5] | 'x' [0.5]\nA -> 'a' [1.0]\nB -> 'b' [0.25] | S 'c' [0.75]\n",
    "hmm.json": json.dumps({"words": ["a", "b"], **TWO_STATES, "length": 4}).encode(),
    "dyck.json": b'{"dyck": {"length": 8}}\n',
    "a.txt": "One line.\nAnother, längere line.\n".encode(),
    "a.jsonl": b'{"text": "one"}\n{"text": "two"}\n',
    "a.parquet": b"PAR1",
    "task.csv": b"text,label,split\none,0,train\ntwo,1,test\n",
}
NASTY = (
    "-1",
    "0",
    "1",
    "2",
    "7",
    "1e9",
    "1e30",
    "nan",
    "inf",
    "-inf",
    "99999999999999999999",
    "",
    "²",
    "a\0b",
    "x" * 5000,
)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=12,
)
"""Any JSON, including NaN."""

PIECES = (
    b"\0",
    b"\xff\xfe",
    b"[" * 50_000,
    b'{"a":' * 20_000,
    b"1e999",
    b"-1",
    b"9" * 5000,
    b"\r",
    b"\n",
    b'"',
    b"->",
    b"[1.0]",
)


@dataclass(frozen=True)
class Input:
    """A command and the contents of the file that it reads."""

    arguments: list[str]
    file: str
    content: bytes


@dataclass(frozen=True)
class Fuzzed:
    """One input, and what was wrong with how it ended, if anything."""

    input: Input
    wrong: str | None


def commands(results: Path) -> dict[str, list[list[str]]]:
    """By the damaged file, the commands that read it; `{}` is replaced by its path."""
    language = [
        ["sample", "{}", "--sentences", "2"],
        ["entropy", "{}", "--sentences", "5"],
        ["probabilities", "{}", "--sentence", "a b"],
        ["sample", "{}", "--json", "--trees"],
    ]
    own = dict.fromkeys(("a.pcfg", "hmm.json", "dyck.json"), language)
    corpus = ["corpus", "{}", "--vocabulary", "100", "--length", "8", "--cache", "cache"]
    texts = {name: [corpus, [*corpus, "--document", "file"]] for name in ("a.txt", "a.jsonl", "a.parquet")}
    folder = str(results)
    reading = [["runs", folder], ["runs", folder, "--json"], ["compare-runs", *_two(results), "--json"]]
    reading += [["show", _two(results)[0]], ["records", "pack", folder, "packed.parquet"]]
    stored = {
        path.relative_to(results.parent).as_posix(): reading
        for path in sorted(results.rglob("*"))
        if path.is_file() and path.suffix in (".json", ".jsonl", ".npz")
    }
    return {**own, **texts, **stored}


def _two(results: Path) -> list[str]:
    return [str(path) for path in sorted((results / "runs").iterdir())[:2]]


OPTIONS: tuple[tuple[list[str], tuple[str, ...]], ...] = (
    (["sample", "a.pcfg"], ("--sentences", "--seed", "--maximum-length", "--longest")),
    (["entropy", "hmm.json"], ("--sentences", "--seed", "--longest")),
    (["describe", "dyck.json"], ("--sentences", "--seed", "--longest")),
    (["probabilities", "a.pcfg"], ("--sentence", "--maximum-length", "--longest")),
    (
        ["language", "grammar", "--output", "new"],
        ("--words", "--levels", "--symbols-per-level", "--roots", "--seed"),
    ),
    (
        ["language", "hmm", "--output", "new"],
        ("--words", "--states", "--blocks", "--length", "--emission-concentration"),
    ),
    (["language", "dyck", "--output", "new"], ("--length",)),
    (["corpus", "a.txt", "--cache", "cache"], ("--vocabulary", "--length", "--validation-share")),
    (["task", "none"], ("--examples", "--seed")),
    (["runs", "results"], ("--where", "--sort")),
    (["show", "aaaa"], ("--results",)),
    (
        ["reproduce", "figure-1", "--scale", "smoke", "--dry-run"],
        ("--hours", "--seeds", "--runs", "--processes"),
    ),
)


def inputs(count: int, results: Path) -> Iterator[Input]:
    """`count` inputs: a third with options, a third with made-up and a third with mutated files."""
    readers, made = commands(results), []
    files = {name: FILES.get(name) or (results.parent / name).read_bytes() for name in readers}

    @seed(0)
    @settings(
        max_examples=count // 3, database=None, deadline=None, phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )  # fmt: skip
    @given(
        st.sampled_from(sorted(readers)), st.integers(0), JSON | st.text(max_size=60) | st.binary(max_size=60)
    )
    def invent(name: str, which: int, content: Any) -> None:
        each = content if isinstance(content, bytes) else _text(content).encode(errors="surrogatepass")
        made.append(Input(readers[name][which % len(readers[name])], name, each))

    invent()
    yield from made
    draw = random.Random(0)
    for number in range(count - len(made)):
        if number % 2:
            command, options = draw.choice(OPTIONS)
            asked = [
                part
                for option in draw.sample(options, draw.randint(1, len(options)))
                for part in (option, draw.choice(NASTY))
            ]
            yield Input([*command, *asked], "a.txt", FILES["a.txt"])
        else:
            name = draw.choice(sorted(readers))
            yield Input(draw.choice(readers[name]), name, _mutated(files[name], draw))


def _text(content: Any) -> str:
    return content if isinstance(content, str) else json.dumps(content)


def _mutated(content: bytes, draw: random.Random) -> bytes:
    for _ in range(draw.randint(1, 4)):
        start = draw.randrange(len(content) + 1)
        stop = min(len(content), start + draw.choice((0, 1, 1, 8, 100)))
        more = draw.choice(
            (b"", content[start:stop] * 3, bytes(draw.randrange(256) for _ in range(3)), draw.choice(PIECES))
        )
        content = content[:start] + more + content[stop:]
    return content


def fuzzed(given_inputs: Iterator[Input], place: Path) -> Iterator[Fuzzed]:
    """Give each input to the command line, in forked children, with good files beside the bad one."""
    pending = list(given_inputs)
    while pending:
        some, pending = pending[:AT_ONCE], pending[AT_ONCE:]
        told = place.with_suffix(".told")
        told.write_text("")
        child = os.fork()
        if child == 0:
            try:
                _give(some, place, told)
            finally:
                os._exit(0)
        _, status, usage = os.wait4(child, 0)
        found = [json.loads(line) for line in told.read_text().splitlines()]
        if usage.ru_maxrss * 1024 > BYTES + resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024:
            found[-1:] = ["more than 4 GB"]
        if len(found) < len(some):  # the one after the last that was told of ended the child
            found.append(f"ended with {os.waitstatus_to_exitcode(status)}")
            pending = some[len(found) :] + pending
        yield from map(Fuzzed, some, found)


def _give(some: list[Input], place: Path, told: Path) -> None:
    from isoloss.cli import main

    silent = os.open(os.devnull, os.O_WRONLY)
    os.dup2(silent, 1)
    os.dup2(silent, 2)
    os.chdir(place)
    signal.signal(signal.SIGPROF, _too_long)
    resource.setrlimit(resource.RLIMIT_DATA, (2 * BYTES, 2 * BYTES))
    resource.setrlimit(resource.RLIMIT_CPU, (SECONDS * AT_ONCE, SECONDS * AT_ONCE))
    for each in some:
        path = place / each.file
        before = path.read_bytes() if path.exists() else None
        path.write_bytes(each.content)
        signal.setitimer(signal.ITIMER_PROF, SECONDS)
        wrong: str | None = None
        try:
            main([part.replace("{}", str(path)) for part in each.arguments])
        except SystemExit as leaving:
            wrong = None if leaving.code in (None, 0, 1, 2) else f"code {leaving.code}"
        except BaseException:
            wrong = traceback.format_exc().strip()[-600:]
        finally:
            signal.setitimer(signal.ITIMER_PROF, 0)
        if before is None:
            path.unlink(missing_ok=True)
        else:
            path.write_bytes(before)
        with told.open("a") as file:
            file.write(json.dumps(wrong) + "\n")


class TooLong(BaseException):
    """An input took more than `SECONDS` of processor time."""


def _too_long(number: int, frame: object) -> None:
    raise TooLong(f"more than {SECONDS} s")


def good_files(place: Path) -> None:
    """Write the files that accompany inputs."""
    for name, content in FILES.items():
        (place / name).write_bytes(content)
