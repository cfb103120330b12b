"""Records: values and arrays as bytes that show whether they are whole. No pickles.

A record is a line with the format's version and a checksum of all that follows, a line of JSON
(:mod:`ornstein.storage.codec`), and the arrays' own bytes. The first two lines are readable.
"""

import hashlib
import json
import math
from collections.abc import Mapping
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from ornstein._base.checks import shown
from ornstein._base.errors import CheckpointError
from ornstein.storage import codec

VERSION = 2
_NAME = b"ornstein-record"
_KINDS = "fiub"
_LONGEST_LINE = 200


def pack(value: Any) -> bytes:
    """A record of anything that :func:`ornstein.storage.codec.encode` takes.

    Examples
    --------
    >>> unpack(pack({"steps": 3, "at": np.arange(2.0)}))
    {'steps': 3, 'at': array([0., 1.])}
    """
    return b"".join(pieces(value))


def pieces(value: Any) -> list[bytes | memoryview]:
    """The record's bytes in order, large arrays not copied."""
    arrays: list[npt.NDArray[Any]] = []

    def kept(array: npt.NDArray[Any]) -> dict[str, int]:
        if array.dtype.kind not in _KINDS:
            raise TypeError(f"a record holds numbers, found an array of {array.dtype}")
        arrays.append(array)
        return {"$array": len(arrays) - 1}

    tree = codec.encode(value, kept)
    laid = [[array.dtype.str, list(array.shape), _order(array)] for array in arrays]
    line = json.dumps({"value": tree, "arrays": laid}).encode() + b"\n"
    body: list[bytes | memoryview] = [line]
    body.extend(np.ravel(array, _order(array)).view(np.uint8).data for array in arrays)
    return [b"%s %d %s\n" % (_NAME, VERSION, digest(*body).encode()), *body]


def unpack(content: bytes) -> Any:
    """What :func:`pack` was given; a CheckpointError if a single byte was lost or changed."""
    first, _, body = content.partition(b"\n")
    words = first[:_LONGEST_LINE].split(b" ")
    if len(words) != 3 or words[0] != _NAME:
        raise CheckpointError("it is not a record of this library, or has lost its beginning")
    if words[1] != b"%d" % VERSION:
        raise CheckpointError(
            f"its format is {shown(words[1].decode(errors='replace'))}, and this release reads "
            f"{VERSION}: use the release that wrote it"
        )
    if words[2] != digest(body).encode():
        raise CheckpointError("its checksum does not match: it is damaged or cut short")
    line, _, raw = body.partition(b"\n")
    try:
        header = json.loads(line)
        arrays = _arrays(header["arrays"], raw)
        return codec.decode(header["value"], lambda number: arrays[number])
    except (ValueError, TypeError, KeyError, IndexError, OverflowError, RecursionError) as error:
        raise CheckpointError(f"its content is damaged: {error}") from error


def digest(*contents: bytes | memoryview) -> str:
    """A checksum of all of these as one."""
    found = hashlib.blake2b(digest_size=16)
    for content in contents:
        found.update(content)
    return found.hexdigest()


def _order(array: npt.NDArray[Any]) -> Literal["C", "F"]:
    """How it lies in memory, which products' rounding depends on."""
    return "F" if array.flags.f_contiguous and not array.flags.c_contiguous else "C"


def _arrays(laid: Any, raw: bytes) -> list[npt.NDArray[Any]]:
    found, start = [], 0
    for name, shape, order in laid:
        dtype = np.dtype(name)
        if dtype.kind not in _KINDS or not all(type(n) is int and n >= 0 for n in shape):
            raise ValueError(f"not an array of numbers: {name}, {shape}")
        count = math.prod(shape)
        flat = np.frombuffer(raw, dtype, count, start).copy()  # aligned
        found.append(flat.reshape(shape, order=order))
        start += count * dtype.itemsize
    if start != len(raw):
        raise ValueError("its arrays have another length")
    return found


def differences(kept: Any, now: Any, rtol: float = 0.0, where: str = "") -> list[str]:
    """What differs between two trees, one line each: where, what was kept, what is found now.

    Examples
    --------
    >>> differences({"draws": 10, "thin": 2}, {"draws": 20, "thin": 2})
    ['draws was 10, now 20']
    """
    if isinstance(kept, Mapping) and isinstance(now, Mapping):
        parts = [(f".{name}", kept.get(name), now.get(name)) for name in {**kept, **now}]
    elif isinstance(kept, list | tuple) and isinstance(now, list | tuple) and len(kept) == len(now):
        parts = [(f"[{i}]", a, b) for i, (a, b) in enumerate(zip(kept, now, strict=True))]
    else:
        return [] if _agree(kept, now, rtol) else [f"{where} was {shown(kept)}, now {shown(now)}"]
    named = [((where + place).lstrip("."), a, b) for place, a, b in parts]
    return [line for place, a, b in named for line in differences(a, b, rtol, place)]


def _agree(kept: Any, now: Any, rtol: float) -> bool:
    numbers = (int, float, np.ndarray, np.generic)
    if not (isinstance(kept, numbers) and isinstance(now, numbers)):
        return type(kept) is type(now) and bool(kept == now)
    a, b = np.asarray(kept), np.asarray(now)
    if a.shape != b.shape or a.dtype.kind != b.dtype.kind:
        return False
    if a.dtype.kind != "f" or rtol == 0:
        return np.array_equal(a, b, equal_nan=a.dtype.kind == "f")
    largest = float(np.abs(a[np.isfinite(a)]).max(initial=0.0)) if a.ndim else 1.0
    return np.allclose(a, b, rtol=rtol, atol=rtol * largest, equal_nan=True)
