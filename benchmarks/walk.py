"""What a new user meets: ``ornstein fit`` with defaults on tables at hand, and its advice followed.

Every table is fitted as it is. If an answer warns, the first remedy that is an option is followed
once, to see whether the warning goes away. Three cross-checks that are no part of the verdicts say
whether a warning was needed: what 90 % intervals cover (or how far probabilities are from shares)
on rows that were kept aside, whether those rows are predicted better by the remedy, and how far
draws of a sample of the rows are from those of NUTS.
"""

import re
import shlex
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from rich.console import Console
from typer.testing import CliRunner

from benchmarks.distance import estimates
from benchmarks.walk_tables import Walk, tables
from ornstein import tables as encoded
from ornstein._base.errors import OrnsteinError
from ornstein.cli import app
from ornstein.results import report
from ornstein.results.scores import Scores
from ornstein.tables import TableModel

ROWS, _QUICK_ROWS = 5000, 500  # of a table, at most
NUTS_ROWS, _NUTS_COEFFICIENTS = 300, 60  # that NUTS draws, at most
_OFF = 0.15  # posterior standard deviations between means, beyond which draws are not right
_LEVEL = 0.9  # of intervals
_BINS = 10  # in which probabilities are compared with shares
_BETTER = 0.01  # nats for a row, by which a remedy predicts better
_OPTION = re.compile(r"--(?:method|family|model|formula|drop|draws) (?:'[^']*'|[^\s,;:()]+)")
_BAD = ("warn", "fail")

Record = dict[str, Any]


def run(
    quick: bool = False, only: Sequence[str] = (), keep: Callable[[Record], object] = id
) -> Record:
    """All tables, or those that are named; ``keep`` takes what is known after each."""
    found = {}
    rows = _QUICK_ROWS if quick else ROWS
    with tempfile.TemporaryDirectory() as scratch:
        for name, make in tables().items():
            if not only or name in only:
                found[name] = walk(name, make(), rows, Path(scratch))
                Console().print(f"{name}: {found[name]}", markup=False, highlight=False)
                keep({"quick": quick, "rows": rows, "tables": dict(found)})
    return {"quick": quick, "rows": rows, "tables": found}


def walk(name: str, made: Walk, rows: int, out: Path) -> Record:
    """Fit one table, follow what it advises, and fit again."""
    frame = made.frame
    if len(frame) > rows:
        frame = frame.sample(rows, random_state=0)
    table = out / f"{name}.csv"
    frame.to_csv(table, index=False)
    first = _fitted(table, ["-t", made.target, *made.answers], out / name)
    first |= {"columns": frame.shape[1] - 1, "nuts": from_nuts(frame, made)}
    options = next((option for advice in first["advice"] if (option := followed(advice))), None)
    if options is not None:
        target = [] if options[0] == "--formula" else ["-t", made.target]
        again = _fitted(table, [*target, *_without(made.answers, options[0]), *options], out / name)
        first["followed"] = {"options": shlex.join(options), **again}
    return first


def from_nuts(frame: pd.DataFrame, made: Walk) -> Record:
    """How far the default's draws of some of the rows are from those of NUTS, at one prior.

    The largest difference of means, in posterior standard deviations, and its Monte-Carlo error.
    """
    pairs = list(zip(made.answers[::2], made.answers[1::2], strict=True))
    drop = [value for option, value in pairs if option == "--drop"]
    some = frame.sample(min(len(frame), NUTS_ROWS), random_state=1)
    try:
        table = encoded.learn(some, made.target, dict(pairs).get("--model"), drop=drop)
        if len(table.encoding.features) > _NUTS_COEFFICIENTS:
            return {}
        ours, theirs = (
            estimates(encoded.fit_table(table, 1.0, hyper="learn", method=method).result.flat)
            for method in ("auto", "nuts")
        )
    except OrnsteinError as error:
        return {"refused": str(error)}
    off = np.abs(ours["mean"].value - theirs["mean"].value) / theirs["sd"].value
    worst = int(off.argmax())
    errors = np.hypot(ours["mean"].mc, theirs["mean"].mc) / theirs["sd"].value
    return {"mean": float(off[worst]), "mc": float(errors[worst])}


def followed(remedy: str) -> list[str] | None:
    """The first option that a remedy names with its value; None if there is none."""
    found = _OPTION.search(remedy)
    return None if found is None else shlex.split(found[0])


def _without(answers: Sequence[str], option: str) -> list[str]:
    """What was answered, less what an option says anew: families and formulas stand for models."""
    pairs = zip(answers[::2], answers[1::2], strict=True)
    gone = {"--family": {"--model"}, "--model": {"--model"}, "--formula": {"--drop"}}
    return [part for pair in pairs if pair[0] not in gone.get(option, set()) for part in pair]


def _fitted(table: Path, options: Sequence[str], run_folder: Path) -> Record:
    """What a command says of a table."""
    command = ["fit", str(table), "-o", str(run_folder), "--overwrite", "-q", *options]
    began, busy = time.perf_counter(), time.process_time()
    done = CliRunner().invoke(app, command)
    took = {
        "seconds": time.perf_counter() - began,
        "processor": time.process_time() - busy,
    }
    if done.exception is not None and not isinstance(done.exception, SystemExit):
        return took | {"refused": str(done.exception), "verdicts": {}, "advice": []}
    page, model = report.kept(run_folder), TableModel.load(run_folder)
    points = [point for reply in page.answers[1:] for point in reply.points]
    return {
        **took,
        "model": model.encoding.model,
        "verdicts": {reply.name: reply.verdict for reply in page.answers[1:]},
        "said": [point.sentence for point in points if point.verdict in _BAD],
        "advice": [point.remedy for point in points if point.verdict in _BAD and point.remedy],
        "held_out": _held_out(model.scores),
    }


def _held_out(scores: Scores | None) -> Record:
    """How many rows were kept aside, and how well they are predicted."""
    if scores is None:
        return {}
    names = ("log score", "log loss", "90% coverage", "calibration error")
    values = {name: scores.values[name] for name in names if name in scores.values}
    return {"rows": scores.rows, **values}


def warns(found: Record) -> list[str]:
    """The questions whose answers warn or fail."""
    return [name for name, verdict in found["verdicts"].items() if verdict in _BAD]


def looks_right(found: Record) -> bool | None:
    """Whether what was kept aside says that intervals or probabilities are right.

    Within three standard errors and 3 %; of probabilities, within what chance gives ten bins.
    None where nothing says so.
    """
    held = found.get("held_out", {})
    if "90% coverage" in held:
        error = np.sqrt(_LEVEL * (1 - _LEVEL) / held["rows"])
        return bool(abs(held["90% coverage"] - _LEVEL) < 0.03 + 3 * error)
    if "calibration error" in held:
        chance = 0.4 * np.sqrt(_BINS / held["rows"])  # in each bin a half times a normal's mean
        return bool(held["calibration error"] < 0.03 + 1.5 * chance)
    return None


def agrees(found: Record) -> bool | None:
    """Whether draws are where those of NUTS are, but for chance; None if NUTS was not run."""
    off = found.get("nuts", {})
    return bool(off["mean"] < _OFF + 3 * off["mc"]) if "mean" in off else None


def gain(found: Record) -> float | None:
    """Nats for a row of those kept aside, by which the remedy predicts better."""
    before, after = (one.get("held_out", {}) for one in (found, found.get("followed", {})))
    for name, sign in (("log score", 1), ("log loss", -1)):
        if name in before and name in after:
            return float(sign * (after[name] - before[name]))
    return None


def without_need(found: Record) -> bool:
    """Whether a table warns, and no cross-check finds anything wrong."""
    better = gain(found)
    helped = better is not None and better > _BETTER
    right = bool(looks_right(found)) and agrees(found) is not False
    return bool(warns(found)) and right and not helped


def went_away(found: Record) -> bool | None:
    """Whether following the remedy leaves no answer that warned; None if none was followed."""
    if "followed" not in found:
        return None
    again = found["followed"]
    return "refused" not in again and not set(warns(found)) & set(warns(again))
