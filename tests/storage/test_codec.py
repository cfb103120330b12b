"""The codec: registered classes come back as they were, and nothing else is made."""

import json
from dataclasses import dataclass
from importlib import import_module
from typing import Any, Literal, NamedTuple, get_type_hints

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import ornstein as orn
from ornstein._base.types import Vector
from ornstein.storage import codec, records
from support.problems import regression


class Inner(NamedTuple):
    at: Vector
    weight: float = 1.0


@dataclass(frozen=True)
class Outer:
    name: str
    kind: Literal["a", "b"]
    first: Inner
    second: Inner | None
    spans: tuple[tuple[str, int], ...]
    options: dict[str, Any]
    home: Any = None


codec.register(Inner)
codec.register(Outer, given=("home",))

INNER = Inner(np.arange(6.0).reshape(2, 3).T, np.float64(0.1))
OUTER = Outer("größe", "a", INNER, INNER, (("x", 1), ("y", 2)), {"b": (1, [None])}, object())


def test_a_record_keeps_types_sharing_and_memory_order() -> None:
    found = records.unpack(records.pack([OUTER, INNER.at, {1: "one", "$x": 2.5}]))
    outer, at, pairs = found
    assert isinstance(outer, Outer)
    assert outer.first is outer.second
    assert outer.first.at is at
    assert at.flags.f_contiguous
    assert np.array_equal(at, INNER.at)
    assert (outer.spans, outer.options, outer.home) == (OUTER.spans, OUTER.options, None)
    assert pairs == {1: "one", "$x": 2.5}


def test_json_is_readable_and_comes_back() -> None:
    text = codec.to_json(OUTER, version=3)
    assert text.isascii()
    assert json.loads(text)["spans"] == [["x", 1], ["y", 2]]
    found = codec.from_json(text, Outer, 3, "it")
    assert found.spans == OUTER.spans
    assert np.array_equal(found.first.at, INNER.at)
    assert found.second is found.first


def changed(**change: Any) -> Any:
    tree = codec.encode(OUTER)
    return {name: part for name, part in (tree | change).items() if part != "gone"}


BAD: list[tuple[Any, str]] = [
    (changed(**{"$type": "Popen"}), r"\$type must be a known type, found 'Popen'"),
    (changed(**{"$type": ["Outer"]}), r"\$type must be a known type"),
    (changed(name="gone"), "the whole must be an object of name, kind, first"),
    (changed(home=1), "the whole must be an object of name, kind, first"),
    (changed(name=3), "name must be a text, found 3"),
    (changed(kind="c"), "kind must be one of"),
    (changed(first=None), "first must be an object of type Inner, found None"),
    (changed(first={"$same": 7}), r"first must be what \$same stands for"),
    (changed(first={"$same": 0, "x": 1}), r"first must be what \$same stands for"),
    (changed(first={"$eval": "1"}), "first must be of a known kind, found '\\$eval'"),
    (changed(first={"$array": 0}), "first must be of a known kind"),
    (changed(first={"$type": "Inner", "at": ["x"], "weight": 1}), r"first\.at must be an array"),
    (
        changed(first={"$type": "Inner", "at": [1.0], "weight": True}),
        r"first\.weight must be a num",
    ),
    (changed(spans=[["x", 1, 2]]), r"spans\[0\] must be a list of 2"),
    (changed(spans=[["x", 1.5]]), r"spans\[0\]\[1\] must be a whole number, found 1.5"),
    (changed(spans=4), "spans must be a list, found 4"),
    (changed(options=[]), "options must be an object"),
    (changed(options={"a": {"$tuple": 4}}), r"options\.a must be what \$tuple stands for"),
    (changed(options={"a": {"$pairs": [[[], 1]]}}), r"options\.a must be what \$pairs stands for"),
]


@pytest.mark.parametrize(("tree", "message"), BAD)
def test_what_was_not_written_is_refused(tree: Any, message: str) -> None:
    with pytest.raises(codec.DamagedError, match=message):
        codec.decode(tree)


@pytest.mark.parametrize("value", [object(), {1, 2}, b"x", 1j, [OUTER, len]])
def test_what_is_not_registered_is_not_written(value: Any) -> None:
    with pytest.raises(TypeError, match="a file cannot hold a"):
        codec.encode(value)


def test_no_two_classes_of_one_name() -> None:
    class Inner(NamedTuple):
        at: int

    with pytest.raises(ValueError, match="another class is registered as Inner"):
        codec.register(Inner)


def test_every_registered_class_knows_the_types_of_its_fields() -> None:
    import_module("ornstein.estimators")
    import_module("ornstein.tables.encoding")
    assert {"Plan", "Start", "Encoding", "Kept"} <= set(codec._TYPES)
    for kind in codec._TYPES.values():
        assert set(codec._names(kind)) <= set(get_type_hints(kind)), kind


def test_a_plan_comes_back_to_the_last_bit() -> None:
    plan = orn.plan(regression(), batch_size=20)
    again = records.unpack(records.pack(plan))
    exact = codec.encode(again, array=lambda array: array)
    assert not records.differences(codec.encode(plan, array=lambda array: array), exact)
    assert again.memory == plan.memory
    assert isinstance(plan.batches, type(again.batches))


def test_device_arrays_become_host_arrays() -> None:
    shared = jnp.ones(2)
    first, second = records.unpack(records.pack([shared, shared]))
    assert first is second
    assert not isinstance(first, jax.Array)
