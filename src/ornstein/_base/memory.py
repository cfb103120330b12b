"""Large arrays that are written once."""

import math
import mmap
import sys
from typing import Any

import numpy as np
import numpy.typing as npt

_LARGE = 2**22  # bytes from which NumPy asks for huge pages


def fresh(shape: tuple[int, ...], dtype: npt.DTypeLike = float) -> npt.NDArray[Any]:
    """Like ``np.empty``, without asking for huge pages.

    NumPy does, and the system may have to move others aside for them while we wait: longer than it
    takes to write the array.

    Examples
    --------
    >>> fresh((2, 3)).shape
    (2, 3)
    """
    size = math.prod(shape) * np.dtype(dtype).itemsize
    if size < _LARGE or sys.platform == "win32":
        return np.empty(shape, dtype)
    memory = mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    return np.frombuffer(memory, dtype).reshape(shape)
