"""Records: what goes in comes out, and nothing that was changed does."""

import json
import random
from typing import Any

import jax.numpy as jnp
import numpy as np
import pytest

import ornstein as orn
from ornstein.storage import records

VALUE = {
    "text": "größe\n[red]",
    "numbers": [1, -2.5, True, None, 10**30, float("inf")],
    "nested": {"array": np.arange(6.0).reshape(2, 3), "none": np.empty((0, 4), np.float32)},
    "whole": np.array([1, 2], np.int32),
    "columns": np.asfortranarray(np.arange(6.0).reshape(2, 3)),
    "device": jnp.ones(2),
    "scalar": np.float64(0.1),
}


def test_what_goes_in_comes_out() -> None:
    found = records.unpack(records.pack(VALUE))
    assert not records.differences(
        {**found, "device": None}, {**VALUE, "device": None, "scalar": 0.1}
    )
    assert found["columns"].flags.f_contiguous
    assert found["nested"]["none"].dtype == np.float32
    assert isinstance(found["scalar"], float)


def test_a_record_can_be_read_by_eye() -> None:
    first, second, _ = records.pack({"draws": 3, "at": np.zeros(2)}).split(b"\n", 2)
    assert first.startswith(b"ornstein-record 2 ")
    assert json.loads(second)["value"]["draws"] == 3


def test_every_flipped_byte_and_every_cut_is_seen() -> None:
    whole = records.pack({"a": np.arange(3.0), "b": "text"})
    for place in range(len(whole)):
        spoiled = bytearray(whole)
        spoiled[place] ^= 1 << (place % 8)
        with pytest.raises(orn.CheckpointError):
            records.unpack(bytes(spoiled))
        with pytest.raises(orn.CheckpointError):
            records.unpack(whole[:place])
    with pytest.raises(orn.CheckpointError):
        records.unpack(whole + b"\0")


def test_another_format_is_named() -> None:
    whole = records.pack(1)
    with pytest.raises(orn.CheckpointError, match=r"format is '1'.*reads 2"):
        records.unpack(whole.replace(b"record 2 ", b"record 1 ", 1))


HEADERS: list[Any] = [
    [],
    {"value": 1},
    {"value": {"$array": 3}, "arrays": []},
    {"value": {"$array": 0}, "arrays": [["O", [1], "C"]]},
    {"value": {"$array": 0}, "arrays": [["<f8", [-1], "C"]]},
    {"value": {"$array": 0}, "arrays": [["<f8", [10**15], "C"]]},
    {"value": {"$array": 0}, "arrays": [["<f8", [1.5], "C"]]},
    {"value": {"$array": 0}, "arrays": [["nonsense", [1], "C"]]},
    {"value": 1, "arrays": [["<f8", [1], "C"]]},
    {"value": 1, "arrays": 7},
]


@pytest.mark.parametrize("header", HEADERS)
def test_a_record_that_makes_no_sense_is_refused_though_its_checksum_fits(header: Any) -> None:
    body = json.dumps(header).encode() + b"\n"
    content = b"ornstein-record 2 %s\n%s" % (records.digest(body).encode(), body)
    with pytest.raises(orn.CheckpointError, match="content is damaged"):
        records.unpack(content)


def test_nested_without_end() -> None:
    body = b'{"arrays": [], "value": ' + b"[" * 100_000 + b"]" * 100_000 + b"}\n"
    content = b"ornstein-record 2 %s\n%s" % (records.digest(body).encode(), body)
    with pytest.raises(orn.CheckpointError, match="content is damaged"):
        records.unpack(content)


@pytest.mark.parametrize("value", [object(), np.array(["a"]), {1, 2}, b"x", 1j])
def test_only_numbers_and_texts_are_kept(value: Any) -> None:
    with pytest.raises(TypeError):
        records.pack(value)


def test_differences_name_what_differs() -> None:
    kept = {"a": 1, "b": {"c": [1.0, 2.0]}, "d": np.zeros(2), "e": "x"}
    assert records.differences(kept, kept) == []
    now = {"a": 2, "b": {"c": [1.0, 2.5]}, "d": np.zeros(3), "f": None}
    lines = records.differences(kept, now)
    assert [line.split(" was ")[0] for line in lines] == ["a", "b.c[1]", "d", "e"]
    assert records.differences(1.0, 1 + 1e-9, rtol=1e-6) == []
    assert records.differences(1.0, 1 + 1e-3, rtol=1e-6)
    assert records.differences(True, 1)
    assert records.differences(np.array([1.0, np.nan]), np.array([1.0, np.nan])) == []


def test_random_bytes_are_no_record() -> None:
    rng = random.Random(0)
    for length in range(200):
        with pytest.raises(orn.CheckpointError):
            records.unpack(rng.randbytes(length))
