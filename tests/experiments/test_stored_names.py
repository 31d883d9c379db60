from stored_names import FILE, QUANTITIES, stored_names

from isoloss.pretraining.specification import settings_as_json
from isoloss.stored_runs.stored_run import REVISIONS


def test_what_is_stored_keeps_its_names() -> None:
    """Another name makes all its stored results be computed again: rewrite the file only on purpose."""
    assert stored_names().splitlines() == FILE.read_text().splitlines()


def test_revisions_above_one_are_known_without_torch() -> None:
    stored = map(settings_as_json, QUANTITIES)
    revised = {settings["is"]: settings["revision"] for settings in stored if settings["revision"] != 1}
    assert revised == REVISIONS
