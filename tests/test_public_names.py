import ast
import subprocess
import sys
from pathlib import Path

import pytest

import isoloss


def _typed_imports() -> dict[str, str]:
    """The module of each name that type checkers see."""
    tree = ast.parse(Path(isoloss.__file__).with_suffix(".pyi").read_text())
    return {
        alias.name: str(node.module)
        for node in tree.body
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }


def test_the_typed_names_are_the_public_ones() -> None:
    assert sorted(_typed_imports()) == sorted(isoloss.__all__)
    assert sorted(isoloss.__all__) == sorted((*isoloss._MODULES, *isoloss._PACKAGES))
    assert set(isoloss.__all__) <= set(dir(isoloss))


@pytest.mark.parametrize("name", isoloss._MODULES)
def test_each_is_what_its_module_has(name: str) -> None:
    module = _typed_imports()[name]
    assert f"isoloss.{isoloss._MODULES[name]}" == module
    assert getattr(isoloss, name) is getattr(sys.modules[module], name)


def test_a_package_is_there_without_being_imported_by_name() -> None:
    assert isoloss.lab.train.__module__ == "isoloss.lab.training"


def test_what_is_not_there_is_said_as_python_says_it() -> None:
    with pytest.raises(AttributeError, match="module 'isoloss' has no attribute 'nothing'"):
        _ = isoloss.nothing


def test_importing_the_package_imports_nothing_else() -> None:
    asked = """
import sys
before = set(sys.modules)
import isoloss
print(*{name for name in set(sys.modules) - before if name.split(".")[0] not in sys.stdlib_module_names})
from isoloss import Record
print(Record.__module__)
"""
    done = subprocess.run([sys.executable, "-c", asked], check=True, capture_output=True, text=True)
    assert done.stdout.split() == ["isoloss", isoloss.Record.__module__]
