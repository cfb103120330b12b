"""How long ``ornstein fit`` takes from a file to a page, on tables that took longest.

Each runs in a process of its own, whose processor time and largest memory the system counts.
Compiled programs are kept between runs, as they are for users; the first run compiles.
"""

import os
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from rich.console import Console

from benchmarks.large_tables import LargeTable, large_tables, write
from ornstein.tables.folders import DRAWS, read_record
from ornstein.tables.model import TableRecord


def run(only: Sequence[str] = (), keep: Callable[[dict[str, Any]], object] = id) -> dict[str, Any]:
    """All tables, or those that are named; ``keep`` takes what is known after each."""
    found = {}
    with tempfile.TemporaryDirectory() as scratch:
        for name, table in large_tables().items():
            if not only or name in only:
                path = Path(scratch) / f"{name}.csv"
                write(table, path)
                found[name] = measured(table, path, Path(scratch) / name)
                Console().print(f"{name}: {found[name]}", markup=False, highlight=False)
                keep({"tables": dict(found)})
                path.unlink()
    return {"tables": found}


def measured(table: LargeTable, path: Path, out: Path) -> dict[str, Any]:
    """What one fit takes, and the precision that it drew or learned."""
    command = [sys.executable, "-m", "ornstein", "fit", str(path), "-t", "outcome", "-o", str(out)]
    began = time.perf_counter()
    child = os.spawnv(os.P_NOWAIT, sys.executable, [*command, "-q", *table.options])
    _, status, used = os.wait4(child, 0)
    took = time.perf_counter() - began
    if status:
        raise RuntimeError(f"{path.stem}: the fit ended with status {status}.")
    numbers = read_record(out / "table.json", TableRecord, (DRAWS,)).hyperparameters
    return {
        "seconds": took,
        "processor": used.ru_utime + used.ru_stime,
        "bytes": used.ru_maxrss * 1024,
        "prior_precision": numbers["prior_precision"]["value"],
        "limit_seconds": table.seconds,
        "limit_bytes": table.bytes,
    }
