"""Tables at hand, as a new user would fit them: scikit-learn's, the paper's, UCI's, mixed ones.

Those of mixed models are without their groups; those that are not in ``$ORNSTEIN_DATA`` are left
out.
"""

import os
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd

from ornstein.data import datasets

_CLASSES = ("iris", "digits", "wine", "breast_cancer")
_UCI = ("concrete", "yacht", "wine-red", "airfoil", "energy", "naval", "power", "kin8nm")
_PAPER = ("wine", "protein", "skin", "mnist", "covertype")
_PIXELS = 40  # of the columns of images, evenly spaced


class Walk(NamedTuple):
    """A table, its target, and what a person would answer to the questions that are asked."""

    frame: pd.DataFrame
    target: str
    answers: tuple[str, ...] = ()


def _without(*columns: str, model: str | None = None) -> tuple[str, ...]:
    """Options that leave columns out, and name a model."""
    dropped = [part for column in ("rownames", *columns) for part in ("--drop", column)]
    return (*dropped, *(() if model is None else ("--model", model)))


_MIXED: Mapping[str, tuple[str, tuple[str, ...]]] = {
    "Contraception": ("use", _without("woman", "district")),
    "VerbAgg": ("r2", _without("id", "resp", "item")),
    "cbpp": ("incidence", _without("herd", model="poisson")),
    "grouseticks": (
        "TICKS",
        _without("INDEX", "BROOD", "LOCATION", "cHEIGHT", model="poisson"),
    ),
    "radon": ("log.radon", _without("county", "county.name")),
    "sleepstudy": ("Reaction", _without("Subject")),
    "InstEval": ("y", _without("s", "d", model="linear")),
}


def tables() -> dict[str, Callable[[], Walk]]:
    """What makes every table, by name."""
    home = Path(os.environ.get("ORNSTEIN_DATA", "."))
    found: dict[str, Callable[[], Walk]] = {}
    for name in (*_CLASSES, "diabetes", "linnerud"):
        found[f"sklearn-{name}"] = partial(_of_sklearn, name)
    for name in set(_PAPER) & set(datasets.available(home)):
        found[f"paper-{name}"] = partial(_of_paper, name)
    for name in _UCI:
        if (home / "uci" / f"{name}.npz").exists():
            found[f"uci-{name}"] = partial(_of_uci, home / "uci" / f"{name}.npz")
    for name in _MIXED:
        for path in (home / "mixed").glob(f"{name}.csv*"):
            found[f"mixed-{name}"] = partial(_of_mixed, path, *_MIXED[name])
    return dict(sorted(found.items()))


def _of_sklearn(name: str) -> Walk:
    from sklearn import datasets as theirs

    found = getattr(theirs, f"load_{name}")(as_frame=True)
    frame, target = found.data, found.target
    if isinstance(target, pd.DataFrame):
        target = target.iloc[:, 0]
    if name in _CLASSES:
        target = pd.Series(np.asarray(found.target_names)[target]).astype(str).radd("is ")
    answers = ("--model", "linear") if name == "diabetes" else ()  # its whole numbers are a score
    return Walk(frame.assign(outcome=target.to_numpy()), "outcome", answers)


def _of_paper(name: str) -> Walk:
    found = datasets.load(name)
    X, names = np.asarray(found.X), list(found.feature_names)
    some = np.linspace(0, X.shape[1] - 1, min(X.shape[1], _PIXELS)).astype(int)
    frame = pd.DataFrame(X[:, some], columns=[names[i] for i in some])
    if name in ("wine", "protein"):
        return Walk(frame.assign(outcome=found.y), "outcome", ("--model", "linear"))
    return Walk(frame.assign(outcome=[f"class {value}" for value in found.y]), "outcome")


def _of_uci(path: Path) -> Walk:
    with np.load(path) as found:
        frame = pd.DataFrame(found["X"], columns=[f"x{i}" for i in range(found["X"].shape[1])])
        return Walk(frame.assign(outcome=found["y"]), "outcome", ("--model", "linear"))


def _of_mixed(path: Path, target: str, answers: tuple[str, ...]) -> Walk:
    return Walk(pd.read_csv(path), target, answers)
