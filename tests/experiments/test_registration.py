import subprocess
from pathlib import Path

import pytest

from isoloss.experiments.registration import REGISTERED

ROOT = Path(__file__).parents[2]


def test_the_registered_claims_are_those_that_are_judged() -> None:
    """Where the history is at hand, as it is not in an archive of the sources or a shallow clone."""
    command = ["git", "show", f"{REGISTERED}:docs/claims.md"]
    try:
        found = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    except FileNotFoundError:
        pytest.skip("there is no git")
    if found.returncode:
        pytest.skip("the commit is not at hand")
    assert found.stdout == (ROOT / "docs" / "claims.md").read_text(), (
        "claims differ from those registered; commit them, then name that commit in registration.py"
    )
