"""The files by which others join: what they call is there."""

import ast
import re
import tomllib
from pathlib import Path

import pytest
import yaml

from page_blocks import MAKE_TARGETS, ROOT, links


def targets_called(text: str) -> set[str]:
    return set(re.findall(r"make\W+([a-z-]+)", text))


def test_the_workflow_calls_what_a_change_must_pass() -> None:
    job = yaml.safe_load((ROOT / ".github" / "workflows" / "test.yml").read_text())["jobs"]["test"]
    called = [step["run"] for step in job["steps"] if "run" in step]
    assert [each.split()[1] for each in called] == ["install", "${{"]
    assert {"test", "docs"} <= set(job["strategy"]["matrix"]["command"]) <= MAKE_TARGETS


@pytest.mark.parametrize("file", sorted((ROOT / "benchmarks").glob("*.py")), ids=lambda file: file.stem)
def test_what_a_benchmark_imports_is_there(file: Path) -> None:
    """Its peers, which it imports too, need not be installed."""
    for node in ast.walk(ast.parse(file.read_text())):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("isoloss"):
            names = [each.name for each in node.names]
            module = __import__(node.module, fromlist=names)
            assert not [name for name in names if not hasattr(module, name)]


def test_the_image_installs_and_reproduces() -> None:
    text = (ROOT / "Dockerfile").read_text()
    assert {"install", "reproduce"} <= targets_called(text) & MAKE_TARGETS
    kept = (ROOT / ".dockerignore").read_text().split()
    assert ".venv*" in kept


def test_the_hooks_call_the_linter_that_is_installed() -> None:
    (repository,) = yaml.safe_load((ROOT / ".pre-commit-config.yaml").read_text())["repos"]
    tools = {hook["entry"].split()[0] for hook in repository["hooks"]}
    assert tools == {".venv/bin/ruff"}
    needed = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]["dev"]
    assert any(each.startswith("ruff") for each in needed)


def test_the_home_has_a_picture_and_few_links() -> None:
    found = links(ROOT / "docs" / "index.md")
    assert sum(link.endswith(".png") for link in found) == 1
    assert 1 <= len(found) - 1 <= 7


def test_every_kind_of_issue_says_what_it_is_for() -> None:
    templates = sorted((ROOT / ".github" / "ISSUE_TEMPLATE").glob("*.md"))
    assert len(templates) == 3
    for path in templates:
        _, head, body = path.read_text().split("---\n", 2)
        assert set(yaml.safe_load(head)) == {"name", "about"}
        assert body.strip()
