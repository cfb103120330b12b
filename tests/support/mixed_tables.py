"""The tables of the field's mixed models, from the folder of real data sets."""

import os
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import ornstein as orn
from ornstein.models import Effects
from ornstein.models.random_effects.posterior import MixedPosterior


def _read(name: str) -> pd.DataFrame:
    folder = os.environ.get("ORNSTEIN_DATA")
    path = Path(folder or "") / "mixed" / name
    if folder is None or not path.exists():
        reason = f"mixed/{name} is not in ORNSTEIN_DATA ({folder or 'not set'})"
        if os.environ.get("ORNSTEIN_REQUIRE_DATA") == "1":
            pytest.fail(reason)
        pytest.skip(reason)
    return pd.read_csv(path)


def _dummies(frame: pd.DataFrame, *columns: str) -> pd.DataFrame:
    return pd.get_dummies(frame[list(columns)].astype(str), drop_first=True).astype(float)


def sleepstudy() -> MixedPosterior:
    """``Reaction ~ Days + (Days | Subject)``."""
    t = _read("sleepstudy.csv")
    groups = {"Subject": Effects(t.Subject, slopes=("Days",))}
    return orn.models.mixed(t[["Days"]], t.Reaction, groups)


def cbpp() -> MixedPosterior:
    """``cbind(incidence, size - incidence) ~ period + (1 | herd)``, counts as weights."""
    t = _read("cbpp.csv")
    twice = pd.concat([t.assign(y=1, w=t.incidence), t.assign(y=0, w=t["size"] - t.incidence)])
    kept = twice[twice.w > 0]
    X = _dummies(kept, "period")
    groups = {"herd": kept.herd}
    return orn.models.mixed(X, kept.y, groups, "bernoulli", sample_weight=kept.w)


def radon() -> MixedPosterior:
    """``log.radon ~ basement + uranium + (1 | county)``."""
    t = _read("radon.csv")
    X = pd.concat([_dummies(t, "basement"), t[["uranium"]]], axis=1)
    return orn.models.mixed(X, t["log.radon"], {"county": t.county})


def contraception() -> MixedPosterior:
    """``use ~ age + age^2 + urban + livch + (1 | district)``."""
    t = _read("Contraception.csv")
    X = pd.concat([t[["age"]], (t[["age"]] ** 2).rename(columns={"age": "age2"})], axis=1)
    X = pd.concat([X, _dummies(t, "urban", "livch")], axis=1)
    y = (t.use == "Y").astype(int)
    return orn.models.mixed(X, y, {"district": t.district}, "bernoulli")


def grouseticks() -> MixedPosterior:
    """``TICKS ~ YEAR + cHEIGHT + (1 | BROOD) + (1 | LOCATION)``."""
    t = _read("grouseticks.csv")
    X = _dummies(t, "YEAR")
    height = t.HEIGHT if "cHEIGHT" not in t else t.cHEIGHT
    X["cHEIGHT"] = np.asarray(height - height.mean(), float)
    groups = {"BROOD": t.BROOD, "LOCATION": t.LOCATION}
    return orn.models.mixed(X, t.TICKS, groups, "poisson")


def verbagg() -> MixedPosterior:
    """``r2 ~ Anger + Gender + btype + situ + (1 | id) + (1 | item)``."""
    t = _read("VerbAgg.csv")
    X = pd.concat([t[["Anger"]], _dummies(t, "Gender", "btype", "situ")], axis=1)
    y = (t.r2 == "Y").astype(int)
    return orn.models.mixed(X, y, {"id": t.id, "item": t.item}, "bernoulli")


def insteval() -> MixedPosterior:
    """``y ~ service + (1 | s) + (1 | d) + (1 | dept)``."""
    t = _read("InstEval.csv.gz")
    groups = {"s": t.s, "d": t.d, "dept": t.dept}
    return orn.models.mixed(t[["service"]].astype(float), t.y.astype(float), groups)


TABLES: dict[str, Callable[[], MixedPosterior]] = {
    made.__name__: made for made in (sleepstudy, cbpp, radon, contraception, grouseticks, verbagg)
}
"""Those that NUTS draws in minutes."""
