import importlib
import re
import tomllib

from page_blocks import ROOT

PAGE = (ROOT / "docs" / "architecture.md").read_text()


def test_every_path_is_there() -> None:
    paths = re.findall(r"`(src/isoloss/[\w/.]+)`", PAGE)
    assert len(paths) > 12
    assert [path for path in paths if not (ROOT / path).exists()] == []


def test_every_name_is_there() -> None:
    for name in re.findall(r"`(isoloss\.[\w.]+)`", PAGE):
        module, _, last = name.rpartition(".")
        if last[0].isupper():
            assert hasattr(importlib.import_module(module), last), name
        else:
            importlib.import_module(name)


def test_the_packages_are_in_the_order_of_the_layers() -> None:
    """The page's table starts at the top, as the contract does; packages on one level are in any order."""
    contract = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"][0]
    floor = {
        name: number for number, row in enumerate(contract["layers"]) for name in re.findall(r"\w+", row)
    }
    told = re.findall(r"(?m)^\| `isoloss\.(\w+)` ", PAGE)
    packages = {path.parent.name for path in (ROOT / "src" / "isoloss").glob("*/__init__.py")}
    assert set(told) == packages
    assert [floor[name] for name in told] == sorted(floor[name] for name in told)
