"""The texts of a table: CSV, TSV, JSON, lines of JSON or Parquet, of which one column holds them."""

from pathlib import Path

from isoloss.corpora.task_file import COLUMNS, SURROGATE, read_table
from isoloss.errors import BadInput

KIND = "rows with a column 'text'"
_NAMES = tuple(names[0] for names in COLUMNS if len(names) == 1)


def texts_of_table(path: Path) -> list[tuple[int, str]]:
    r"""Each row's number, from 1, and its text, without rows whose text is blank.

    They are in a column 'text' or 'sentence', or in the only one that holds text. Raises BadInput if there is
    no such column, or several, if the file is no table, and for half a surrogate pair.

    >>> import tempfile
    >>> path = Path(tempfile.mkdtemp()) / "reviews.csv"
    >>> _ = path.write_text('stars,review\n3,"good, mostly"\n1,bad\n')
    >>> texts_of_table(path)
    [(1, 'good, mostly'), (2, 'bad')]
    """
    table = read_table(path, KIND)
    cells = {name: table[name].to_list() for name in table.columns}
    named = [name for name in _NAMES if name in cells]
    named = named[:1] or [name for name, column in cells.items() if any(map(_is_text, column))]
    if len(named) != 1:
        there = ", ".join(cells) or "none"
        raise BadInput(
            f"{path} has no column 'text' or 'sentence', but {there}; name the one to measure on so"
        )
    texts = [(row, str(cell)) for row, cell in enumerate(cells[named[0]], start=1) if _is_filled(cell)]
    if broken := [row for row, text in texts if SURROGATE.search(text)]:
        raise BadInput(f"{path}, row {broken[0]}: there is half a surrogate pair; write the file again")
    return texts


def _is_text(cell: object) -> bool:
    if not isinstance(cell, str):
        return False
    try:
        float(cell)
    except ValueError:
        return bool(cell.strip())
    return False


def _is_filled(cell: object) -> bool:
    return cell is not None and bool(str(cell).strip())
