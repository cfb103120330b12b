"""A table of a hundred million rows: written by one process, planned and sampled by another.

``python huge.py write FOLDER ROWS`` prints the closed form's moments as it writes ``X.npy`` and
``y.npy``; ``python huge.py sample FOLDER OUT`` samples, and prints memory, times and rates.
"""

import json
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np

COLUMNS, NOISE, BLOCK = 10, 2.0, 2_000_000


def write(folder: Path, count: int) -> None:
    """Correlated columns, a linear target; moments in double precision."""
    rng = np.random.default_rng(1)
    mix = (np.eye(COLUMNS) + 0.3 * rng.normal(size=(COLUMNS, COLUMNS))).astype(np.float32)
    coef = rng.normal(size=COLUMNS).astype(np.float32)
    gram, cross = np.zeros((COLUMNS, COLUMNS)), np.zeros(COLUMNS)
    X_file, y_file = (folder / f"{name}.npy" for name in "Xy")
    with X_file.open("wb") as X_out, y_file.open("wb") as y_out:
        for out, shape in ((X_out, (count, COLUMNS)), (y_out, (count,))):
            header = {"descr": "<f4", "fortran_order": False, "shape": shape}
            np.lib.format.write_array_header_2_0(out, header)
        for start in range(0, count, BLOCK):
            size = min(BLOCK, count - start)
            X = rng.standard_normal((size, COLUMNS), np.float32) @ mix
            y = X @ coef + np.float32(NOISE) * rng.standard_normal(size, np.float32)
            wide = X.astype(float)
            gram += wide.T @ wide
            cross += wide.T @ y.astype(float)
            X.tofile(X_out)
            y.tofile(y_out)
    precision = gram / NOISE**2 + np.eye(COLUMNS)
    mean = np.linalg.solve(precision, cross / NOISE**2)
    print(json.dumps({"mean": mean.tolist(), "precision": precision.tolist()}))


def peak() -> int:
    """Most memory this process ever held, in bytes."""
    lines = Path("/proc/self/status").read_text().split("\n")
    return 1024 * int(next(line for line in lines if line.startswith("VmHWM")).split()[1])


def sequential(path: Path) -> float:
    """Seconds to read a file from end to end, and do nothing with it."""
    began = perf_counter()
    with path.open("rb", buffering=0) as file:
        buffer = bytearray(2**24)
        while file.readinto(buffer):
            pass
    return perf_counter() - began


def sample(folder: Path, out: Path) -> None:
    import ornstein as orn
    from ornstein.data import on_disk

    reads = [0]

    def counted(function: Callable[..., Any]) -> Callable[..., Any]:
        def call(self: Any, *arguments: Any) -> Any:
            found = function(self, *arguments)
            reads[0] += len(found) if found.ndim == 2 else 0
            return found

        return call

    for name in ("_read", "_take"):
        setattr(on_disk.InFile, name, counted(getattr(on_disk.InFile, name)))
    seconds: dict[str, float] = {}

    @contextmanager
    def timed(name: str) -> Iterator[None]:
        began, rows = perf_counter(), reads[0]
        yield
        seconds[name] = perf_counter() - began
        seconds[f"{name} rows"] = reads[0] - rows

    sequential(folder / "X.npy")
    alone = [sequential(folder / "X.npy")]
    with timed("check"):
        X, y = orn.open_rows(folder / "X.npy"), orn.open_rows(folder / "y.npy")
        post = orn.models.linear(X, y, noise_scale=NOISE)
    with timed("plan"):
        plan = orn.plan(post)
    with timed("sample"):
        result = orn.sample(post, plan, key=1, draws=2000, dtype="float64")
    alone.append(sequential(folder / "X.npy"))
    np.savez(out, flat=result.flat, center=plan.center)
    said = {"peak": peak(), "rows": len(X), "seconds": seconds, "sequential": alone}
    said |= {"batch_size": plan.batch_size, "thin": plan.thin, "status": result.status.message}
    print(json.dumps(said))


if __name__ == "__main__":
    if sys.argv[1] == "write":
        write(Path(sys.argv[2]), int(sys.argv[3]))
    else:
        sample(Path(sys.argv[2]), Path(sys.argv[3]))
