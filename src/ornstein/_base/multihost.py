"""What the processes of one run tell each other: little, all at once, to the last bit."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TypeVar

import jax
import numpy as np
from jax.experimental import multihost_utils

from ornstein._base.types import PyTree

E = TypeVar("E", bound=Exception)


def number() -> int:
    """Which process this is; the first, 0, writes files and shows progress."""
    return int(jax.process_index())


def count() -> int:
    """How many there are."""
    return int(jax.process_count())


def share(length: int) -> range:
    """The part of so many pieces of work that is this process's."""
    return range(number() * length // count(), (number() + 1) * length // count())


def gathered(content: bytes) -> list[bytes]:
    """What every process says, in their order. All must ask."""
    if count() == 1:
        return [content]
    lengths = multihost_utils.process_allgather(np.asarray(len(content), np.int32))
    padded = np.zeros(int(lengths.max()), np.uint8)
    padded[: len(content)] = np.frombuffer(content, np.uint8)
    found = np.asarray(multihost_utils.process_allgather(padded)).reshape(count(), -1)
    return [line[:length].tobytes() for line, length in zip(found, lengths.ravel(), strict=True)]


def total(tree: PyTree) -> PyTree:
    """Sums over processes of host arrays: the same on all, whatever their precision."""
    if count() == 1:
        return tree
    leaves, structure = jax.tree.flatten(tree)
    arrays = [np.asarray(leaf) for leaf in leaves]
    everyone = gathered(b"".join(array.tobytes() for array in arrays))
    sums, at = [], 0
    for array in arrays:
        parts = [
            np.frombuffer(content, array.dtype, array.size, at).reshape(array.shape)
            for content in everyone
        ]
        sums.append(np.sum(parts, axis=0, dtype=array.dtype))
        at += array.nbytes
    return jax.tree.unflatten(structure, sums)


def anyone(asks: bool) -> bool:
    """Whether any process asks for something."""
    return any(content == b"1" for content in gathered(b"1" if asks else b"0"))


@contextmanager
def first_alone(*kinds: type[E]) -> Iterator[bool]:
    """A part of the work that the first process does for all; yields whether to do it.

    The others wait, and raise what it raises, of the kinds named.
    """
    if count() == 1:
        yield True
        return
    failed: Exception | None = None
    try:
        yield number() == 0
    except kinds as error:
        failed = error
    said = gathered(b"" if failed is None else f"{type(failed).__name__}:{failed}".encode())[0]
    if failed is not None:
        raise failed
    if said:
        name, _, message = said.decode().partition(":")
        raise next(kind for kind in kinds if kind.__name__ == name)(message)
