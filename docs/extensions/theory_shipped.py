"""Takes the statements that `isoloss theory` has computed into a folder: `python ... FOLDER COMMIT`."""

import sys
from pathlib import Path

from isoloss.theory.suite import FILE, SUITE, stored_statements, write_shipped

REFERENCE = Path(__file__).parent.parent.parent / "src" / "isoloss" / "reference"


def keep_theory(folder: Path, commit: str) -> None:
    """Write src/isoloss/reference/theory.json from all statements at full size in `folder`."""
    statements, damages = stored_statements(folder, smoke=False)
    missing = {entry.name for entry in SUITE} - {each.name for each in statements}
    if missing or damages:
        raise SystemExit(f"not there: {', '.join(sorted(missing))} {' '.join(damages)}")
    write_shipped(statements, commit, REFERENCE / FILE)


if __name__ == "__main__":
    keep_theory(Path(sys.argv[1]), sys.argv[2])
