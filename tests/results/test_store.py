import json
import pickle
from pathlib import Path

import pytest
import safetensors.torch
import torch

from isoloss.errors import BadInput
from isoloss.results.store import json_digest, read_sealed, write_sealed
from isoloss.results.tensors import read_tensors, write_tensors


class Runs:
    """Pickled, it runs code when it is read."""

    def __reduce__(self) -> tuple[object, ...]:
        return SystemExit, ("code was run",)


TENSORS = {
    "whole": torch.arange(6).reshape(2, 3),
    "real": torch.tensor([0.1, float("-inf"), float("nan")], dtype=torch.float64),
    "flags": torch.tensor([True, False]),
    "column": torch.arange(6).reshape(2, 3)[:, 1],
    "none": torch.zeros(0, 3),
    "number": torch.tensor(7),
}
CONTENT = {"words": ["a", "ü"], "numbers": [0.1, 1e-300, 3], "none": None}


def test_tensors_come_back_as_they_were(tmp_path: Path) -> None:
    path = tmp_path / "new" / "a.safetensors"
    write_tensors(path, TENSORS, "a")
    found = read_tensors(path, "a")
    assert found.keys() == TENSORS.keys()
    for name, tensor in TENSORS.items():
        assert found[name].dtype == tensor.dtype
        torch.testing.assert_close(found[name], tensor, rtol=0, atol=0, equal_nan=True)


def test_what_is_written_twice_is_the_same_file(tmp_path: Path) -> None:
    for name in "ab":
        write_tensors(tmp_path / name, TENSORS, "name")
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()


def test_plain_data_comes_back_as_it_was(tmp_path: Path) -> None:
    write_sealed(tmp_path / "a.json", CONTENT, "a")
    assert read_sealed(tmp_path / "a.json", "a") == CONTENT


@pytest.mark.parametrize("kind", ["tensors", "sealed"])
def test_every_flipped_bit_is_seen_or_changes_nothing(kind: str, tmp_path: Path) -> None:
    path = tmp_path / "a"
    if kind == "tensors":
        write_tensors(path, {"a": torch.arange(3)}, "a")
        read = read_tensors
    else:
        write_sealed(path, CONTENT, "a")
        read = read_sealed
    whole, expected = path.read_bytes(), read(path, "a")
    seen = 0
    for place in range(len(whole)):
        content = bytearray(whole)
        content[place] ^= 1 << place % 8
        path.write_bytes(content)
        try:
            assert str(read(path, "a")) == str(expected)
        except BadInput:
            seen += 1
    # The others are spaces: the padding of a header, and the end of a last line.
    assert seen > 0.95 * len(whole)


@pytest.mark.parametrize("read", [read_tensors, read_sealed])
def test_other_content_is_refused_and_not_run(read: object, tmp_path: Path) -> None:
    path = tmp_path / "a"
    deep = b"[" * 200_000
    for content in (b"", b"[]", b"1", pickle.dumps(Runs()), deep):
        path.write_bytes(content)
        with pytest.raises(BadInput, match="is damaged or not what its name says"):
            read(path, "a")
    torch.save({"a": torch.ones(2)}, path)
    with pytest.raises(BadInput, match="is damaged"):
        read(path, "a")
    with pytest.raises(BadInput, match="is damaged"):
        read(tmp_path / "none", "a")


def test_a_file_under_another_name_or_of_another_format_is_refused(tmp_path: Path) -> None:
    write_sealed(tmp_path / "a.json", CONTENT, "a")
    with pytest.raises(BadInput, match=r"a\.json is damaged or not what its name says"):
        read_sealed(tmp_path / "a.json", "b")
    beside = {"format": "1", "digest": json_digest(["1", "a", CONTENT]), "content": CONTENT}
    (tmp_path / "a.json").write_text(json.dumps(beside))
    with pytest.raises(BadInput, match=r"a\.json is damaged"):
        read_sealed(tmp_path / "a.json", "a")


def test_data_have_one_digest_in_any_order_of_keys() -> None:
    assert json_digest({"a": 1, "b": [2]}) == json_digest({"b": [2], "a": 1}) != json_digest({"a": 1, "b": 2})


def test_tensors_of_another_type_with_the_same_bytes_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "a"
    write_tensors(path, {"a": torch.zeros(2)}, "a")
    with safetensors.safe_open(path, framework="pt") as file:
        metadata = file.metadata()
    path.write_bytes(safetensors.torch.save({"a": torch.zeros(2, dtype=torch.int32)}, metadata))
    with pytest.raises(BadInput, match="is damaged or not what its name says"):
        read_tensors(path, "a")
