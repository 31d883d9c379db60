"""Every public method says what it does, and uses what it takes, unless a protocol of ours speaks for it."""

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

SRC = Path(__file__).parent.parent.parent / "src" / "isoloss"


@cache
def classes() -> tuple[tuple[Path, ast.ClassDef], ...]:
    return tuple(
        (path, node)
        for path in SRC.rglob("*.py")
        if re.search(r"^ *class ", text := path.read_text(), re.MULTILINE)
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.ClassDef)
    )


def methods(of: ast.ClassDef) -> Iterator[ast.FunctionDef]:
    return (each for each in of.body if isinstance(each, ast.FunctionDef))


def is_protocol(of: ast.ClassDef) -> bool:
    return any("Protocol" in ast.unparse(base) for base in of.bases)


def test_a_public_method_is_described_where_it_stands_or_by_its_protocol() -> None:
    by_protocols = {each.name for _, of in classes() if is_protocol(of) for each in methods(of)}
    silent = [
        f"{path.name}: {of.name}.{each.name}"
        for path, of in classes()
        for each in methods(of)
        if not of.name.startswith("_") and not each.name.startswith("_")
        if each.name not in by_protocols or is_protocol(of)
        if ast.get_docstring(each) is None
    ]
    assert len(by_protocols) > 50
    assert not silent


def unused(of: ast.FunctionDef) -> set[str]:
    """Arguments that the body does not name; none of an overload, which has no body."""
    if any(isinstance(each, ast.Name) and each.id == "overload" for each in of.decorator_list):
        return set()
    taken = {each.arg for each in (*of.args.args, *of.args.kwonlyargs)}
    named = {each.id for part in of.body for each in ast.walk(part) if isinstance(each, ast.Name)}
    return {name for name in taken - named - {"self", "cls"} if not name.startswith("_")}


def test_a_method_ignores_only_what_its_protocol_hands_over() -> None:
    protocols = [of for _, of in classes() if is_protocol(of)]
    handed = {"at_checkpoint": {"model"}}  # by `pretrain`
    for each in (each for of in protocols for each in methods(of)):
        handed.setdefault(each.name, set()).update(a.arg for a in each.args.args)
    ignored = [
        f"{path.name}: {of.name}.{each.name} does not use {name}"
        for path, of in classes()
        for each in methods(of)
        for name in unused(each) - handed.get(each.name, set())
        if not of.bases  # which may be another library's
    ]
    assert not ignored
