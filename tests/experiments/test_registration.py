import json
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from isoloss.experiments.design import builtin_designs

ROOT = Path(__file__).parents[2]
REWORDED = json.loads((ROOT / "docs" / "extensions" / "reworded_claims.json").read_text())
"""What is said in other words than at registration, and nothing else is: no statistic or bound."""
WITHDRAWN = "- withdrawn: .*\n"
"""What may be said of a claim later: that nothing is tested by it any more, and why."""
FROZEN = "tests/experiments/frozen_plans.json"
CHECKPOINTS = "(?:Checkpoints judged|Saturated checkpoints): .*\n"
"""What the page says of an experiment's plan, which `frozen_plans` holds fast."""


def test_the_registered_claims_are_those_that_are_judged() -> None:
    """If the history is available, unlike in an archive of the sources or a shallow clone."""
    registered_at = {
        name: design.registered for name, design in builtin_designs().items() if design.registered
    }
    sections = _sections((ROOT / "docs" / "claims.md").read_text())
    assert sections.keys() == registered_at.keys()
    commits = set(registered_at.values())
    registered = {commit: _sections(_at(commit, "docs/claims.md")) for commit in commits}
    changed = [
        name
        for name, text in sections.items()
        if registered[registered_at[name]].get(name) != text
        and (name in registered[registered_at[name]] or not _same_digests(name, registered_at[name]))
    ]
    assert not changed, (
        "claims differ from those registered; commit them, then name that commit in their `registered`"
    )


def _same_digests(name: str, commit: str) -> bool:
    """Whether the commit, whose page has not yet the experiment, has the digests of today's claims."""
    then, now = json.loads(_at(commit, FROZEN)), json.loads((ROOT / FROZEN).read_text())
    return all(of.get(name, {}).get("claims") == now[scale][name]["claims"] for scale, of in then.items())


def _at(commit: str, path: str) -> str:
    """The file's text at that commit."""
    command = ["git", "show", f"{commit}:{path}"]
    try:
        found = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    except FileNotFoundError:
        pytest.skip("there is no git")
    if found.returncode:
        pytest.skip("the commit is not at hand")
    return found.stdout


def _sections(page: str) -> dict[str, set[tuple[str, str]]]:
    """Each experiment's claims, with the scale that each is of."""
    _, *sections = page.split("\n## ")
    for before, now in REWORDED:
        sections = [text.replace(before, now) for text in sections]
    sections = [re.sub(f"{WITHDRAWN}|{CHECKPOINTS}", "", text) for text in sections]
    return {text.partition(":")[0]: set(_claims(text.partition("\n")[2])) for text in sections}


def _claims(section: str) -> Iterator[tuple[str, str]]:
    """A claim that the page has once is of both scales; one withdrawn at one of them it has twice."""
    for text in map(str.strip, re.split(r"\n(?=\*\*)", section)):
        scales = re.findall(r", at `(\w+)`\)\n", text) or ("laptop", "night")
        yield from ((re.sub(r", at `\w+`\)\n", ")\n", text), scale) for scale in scales)
