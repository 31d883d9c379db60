import json
import os
import subprocess
import sys
from pathlib import Path

import isoloss
from isoloss.cli import COMMANDS, GROUPS

HEAVY = ("torch", "transformers", "polars", "altair", "scipy", "datasets", "numpy", "tokenizers")
FOR_MODELS = ("transformers", "huggingface_hub", "datasets", "accelerate", "torch._dynamo")
SEPARATOR = "===="
EVERY_HELP = f"""
import sys
from isoloss.cli import main
for asked in {[["--help"], *([name, "--help"] for name in COMMANDS)]}:
    try:
        main(asked)
    except SystemExit as leaving:
        assert not leaving.code, asked
print(*[name for name in {HEAVY} if name in sys.modules], file=sys.stderr)
"""


def _python(*arguments: str) -> subprocess.CompletedProcess[str]:
    # A hub of a name that nobody answers to: what is said does not depend on this machine's network.
    environment = {**os.environ, "HF_ENDPOINT": "https://hub.invalid"}
    for proxy in [name for name in environment if name.lower().endswith("_proxy")]:
        del environment[proxy]
    return subprocess.run(
        [sys.executable, *arguments],
        capture_output=True,
        text=True,
        timeout=120,
        env=environment,
        cwd=Path(__file__).parents[2],
    )


def test_help_imports_nothing_that_takes_long() -> None:
    done = _python("-c", EVERY_HELP)
    assert done.returncode == 0, done.stderr
    assert done.stderr.split() == []
    assert all(f"\n{title}\n" in done.stdout for title in GROUPS)


MISTAKES = (
    ("flatness model", "name what to measure on by one of --text FILE"),
    ("flatness --text a", "no model is named"),
    ("flatness model --text none.txt", "there is no file none.txt"),
    ("compare one two", "say what to compare on: --text FILE"),
    ("compare one one --text a", "one is named twice; name each checkpoint once"),
    ("inspect", "no model is named"),
    ("sensitivity model", "name what to measure on by one of --text FILE"),
    ("flatness model --txt a", "isoloss flatness has no option --txt; did you mean '--text'?"),
    ("describe --language my.pcfg", "has no option --language; give LANGUAGE by itself, without a name"),
    ("reproduce figre-1", "there is no experiment 'figre-1'; did you mean 'figure-1'?"),
    ("reproduce absent.py", "absent.py; name an experiment, or a Python file of your own"),
    ("reproduce figure-1 --on ray --processes 2", "--processes is for --on local"),
    (
        "flatness model --quantity fisher_trase",
        "there is no quantity 'fisher_trase'; did you mean 'fisher_trace'?",
    ),
    ("compare one two --quantity zebra", "there is no quantity 'zebra'; choose ascent_sharpness"),
    ("theory theorem-9.9", "no statement is called 'theorem-9.9'; choose among lemma-3.2"),
    ("theory lemma-3.2 --samples 4", "--length and --samples are for one statement"),
    ("inspect ./none", "there is no folder ./none; name a model's folder"),
    ("flatness ./none --text pyproject.toml", "there is no folder ./none; name a model's folder"),
    ("sensitivity src --text pyproject.toml", "src holds no model: it has no config.json"),
    ("compare ./one ./two --text pyproject.toml", "there is no folder ./one; name a model's folder"),
    (
        "compare one two --text none.txt",
        "there is no file none.txt; name a file that holds what to measure on",
    ),
    ("compare one two --task src", "src is a folder; name the file that holds rows of a text and a label"),
    ("inspect src --text none.txt", "there is no file none.txt; name a file that holds what to measure on"),
    ("task sst2-form --examples -1", "--examples must be at least 0, not -1"),
    ("records pack src x.parquet --most-values -1", "--most-values must be at least 0, not -1"),
    ("enlarge none --width 2 new", "none holds no model: it has no config.json"),
    ("inspect hub/model", "the hub cannot be reached to look for it there"),
    ("describe none.pcfg", "there is no file none.pcfg; name a language's file"),
    ("entropy none.pcfg", "there is no file none.pcfg; name a language's file"),
    ("reproduce figure-1 --language none.pcfg", "there is no file none.pcfg; name a language's file"),
    (
        "corpus nosuch",
        "there is no file or folder nosuch, and the hub cannot be reached to look for a data set",
    ),
    ("corpus ./nosuch", "there is no folder ./nosuch; name a data set's folder, or its name on a hub"),
    ("corpus bookz", "; did you mean 'books'?"),
    ("flatness model --dataset nosuch", "there is no file or folder nosuch, and the hub cannot be reached"),
    ("corpus pyproject.toml --length 1", "--length must be at least 2, not 1"),
    ("corpus pyproject.toml --validation-share 2", "--validation-share must be above 0 and below 1, not 2.0"),
    ("describe src", "src is a folder; name the file inside it that holds a language"),
    ("sample Makefile", "Makefile, line 1: "),
    ("language dyck --output x.json --length 7", "no string of 7 brackets is balanced; give an even length"),
    ("language hmm --output x.json --states 0", "--states must be at least 1, not 0"),
    ("language grammar --output x.pcfg --seed -1", "--seed must be from 0 to"),
    (
        "probabilities tests/data/liu2023-released.pcfg --sentence zebra",
        "word 1, 'zebra', is not in the vocabulary",
    ),
    ("reproduce figure-1 figure-2 --runs a", "--runs names runs of one experiment"),
    ("reproduce figure-1 --tokens 2", "--tokens must be at least 5, not 2"),
    ("reproduce paper --runs a", "--runs names runs of one experiment"),
    ("language grammar --output x.pcfg --rules-per-symbol 99", "cannot have distinct right sides"),
    ("language grammar --output x.pcfg --words 900", "cannot use all of 900 words"),
    ("language hierarchy --output x.pcfg --rules-per-symbol 9", "too few for 27 right sides with one parent"),
    ("language hmm --output x.json --blocks 7", "cannot be cut into 7 equal blocks"),
    ("language hmm --output x.json --emission-concentration 0", "make no random distributions"),
    ("theory theorem-5.1 --length 7", "no string of 7 brackets is balanced"),
    ("theory --output Makefile", "Makefile is a file, where a folder is needed"),
    ("reproduce figure-1 --maximum-length 4", "--maximum-length needs --language"),
    ("language causal-lm --output x.json --model src", "src holds no model: it has no config.json"),
    ("reproduce table-2 --task prefix-4", "--language and --task go with figure-1, adamw-clock, drift"),
    ("reproduce figure-1 drift-grammars --language none.pcfg", "and other-distributions; name no others"),
    ("language dyck --out x", "isoloss language has no option --out; did you mean '--output'?"),
)
EVERY_MISTAKE = f"""
import sys
from isoloss.cli import main
for asked in {[asked for asked, _ in MISTAKES]}:
    try:
        main(asked.split())
    except SystemExit as leaving:
        assert leaving.code == 2, asked
    print({SEPARATOR!r}, file=sys.stderr)
    heavy = [name for name in {HEAVY} if name in sys.modules]
    assert not heavy, (asked, heavy)
"""


def test_a_mistake_is_told_before_anything_that_takes_long() -> None:
    done = _python("-c", EVERY_MISTAKE)
    assert done.returncode == 0, done.stderr
    assert done.stdout == ""
    *told, rest = done.stderr.split(f"{SEPARATOR}\n")
    assert rest == ""
    for (asked, said), one in zip(MISTAKES, told, strict=True):
        assert said in one, asked
        assert (one.startswith("isoloss: "), one.count("\n")) == (True, 1), one


def test_what_imports_for_long_says_so_on_stderr_alone_and_a_language_needs_no_library_of_models(
    tmp_path: Path,
) -> None:
    grammar = tmp_path / "my.pcfg"
    grammar.write_text("S -> 'a' 'b' [0.5] | 'b' 'a' [0.5]\n")
    page = ["describe", str(grammar), "--output", str(tmp_path / "my.html"), "--sentences", "10", "--json"]
    both = f"""
import sys
from isoloss.cli import main
for asked in {[["sample", str(grammar), "--json"], page]}:
    try:
        main(asked)
    except SystemExit as leaving:
        assert not leaving.code
    import vl_convert
    vl_convert.vegalite_to_svg = vl_convert.javascript_bundle = lambda *_, **__: "<svg></svg>"
    vl_convert.svg_to_png = vl_convert.svg_to_pdf = lambda *_, **__: b""
assert not set({FOR_MODELS}) & set(sys.modules)
"""
    done = _python("-c", both)
    assert done.returncode == 0, done.stderr
    first, *later = done.stderr.splitlines()
    assert first == "isoloss sample: starting"
    assert set(later) <= {"isoloss describe: starting"}  # which has less left to import
    sampled, described = done.stdout.splitlines()
    assert set(json.loads(sampled)["sentences"]) == {"a b", "b a"}
    assert json.loads(described)["page"] == str(tmp_path / "my.html")


def test_the_version_is_told() -> None:
    assert _python("-m", "isoloss", "--version").stdout == f"isoloss {isoloss.__version__}\n"
