import stored_names as stored_names_of
from stored_names import FILE, stored_names

from isoloss.stored_runs.stored_run import REVISIONS


def test_what_is_stored_keeps_its_names() -> None:
    """Another name makes all its stored results be computed again: rewrite the file only on purpose."""
    assert stored_names().splitlines() == FILE.read_text().splitlines()


def test_revisions_above_one_are_known_without_torch() -> None:
    classes = {kind for kind in vars(stored_names_of).values() if isinstance(kind, type)}
    revised = {kind.__name__: kind.revision for kind in classes if getattr(kind, "revision", 1) != 1}
    assert revised == REVISIONS
