from stored_names import FILE, stored_names


def test_what_is_stored_keeps_its_names() -> None:
    """Another name makes all stored results of it be computed again: rewrite the file only on purpose."""
    assert stored_names().splitlines() == FILE.read_text().splitlines()
