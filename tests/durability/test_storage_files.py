from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file

from llm_dec_pomdp.storage.files import Draft, pack, replace_json, unpack, verify

TENSORS = {
    "wide": torch.arange(6, dtype=torch.float64).reshape(2, 3),
    "half": torch.tensor([1.5, -2.0], dtype=torch.float16),
    "brain": torch.randn(3, 5).bfloat16(),
    "turned": torch.arange(6.0).reshape(2, 3).T,
    "part": torch.arange(10.0)[2:7:2],
    "scalar": torch.tensor(3.0),
    "none": torch.zeros(0, 4),
    "flags": torch.tensor([True, False, True]),
    "bytes": torch.tensor([1, 2, 3], dtype=torch.uint8),
    "ids": torch.tensor([-1, 2**40]),
    "grad": torch.nn.Parameter(torch.ones(2)),
}


def written(place: Path, tensors: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    with Draft(place) as draft:
        draft.write_tensors("t.safetensors", tensors)
        draft.publish()
    verify(place)
    return load_file(place / "t.safetensors")


def test_the_library_reads_what_is_written(tmp_path: Path) -> None:
    found = written(tmp_path / "x", TENSORS)
    assert found.keys() == TENSORS.keys()
    for name, tensor in TENSORS.items():
        assert found[name].dtype == tensor.dtype, name
        assert torch.equal(found[name], tensor), name


def test_a_type_without_a_name_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"waves.*complex64"):
        written(tmp_path / "x", {"waves": torch.zeros(1, dtype=torch.complex64)})
    assert list(tmp_path.iterdir()) == []


NESTED: dict[str, Any] = {
    "plain": {"a": [1, 2.5, "x", None, True]},
    "numbers": {0: {"step": torch.tensor(1.0)}, 1: {}},
    "tuple": (0.9, (1, 2)),
    "odd": {"$tensor": 1, "$x": 2},
    "endless": [math.inf, -math.inf],
    "tiny": 5e-324,
    "empty": {"d": {}, "l": [], "t": ()},
}


def test_nested_values_come_back() -> None:
    tensors: dict[str, torch.Tensor] = {}
    assert unpack(pack(NESTED, tensors), tensors) == NESTED
    assert list(tensors) == ["state.numbers.0.step"]
    assert math.isnan(unpack(pack([math.nan], {}), {})[0])


def test_what_cannot_be_saved_is_named() -> None:
    with pytest.raises(TypeError, match=r"state\.a\.1"):
        pack({"a": [1, {2}]}, {})


def test_replacing_leaves_one_file_and_the_old_one_where_it_fails(tmp_path: Path) -> None:
    path = tmp_path / "x.json"
    for value in ({"a": 1}, {"a": 2}):
        replace_json(path, value)
    with pytest.raises(TypeError):
        replace_json(path, {"a": object()})
    assert list(tmp_path.iterdir()) == [path]
    assert path.read_text() == '{\n "a": 2\n}\n'
