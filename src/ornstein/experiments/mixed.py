"""Mixed models on the field's own tables: our draws beside NUTS's and lme4's printed figures."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter
from types import MappingProxyType
from typing import Any

import numpy as np
from matplotlib.figure import Figure
from rich.console import Console
from rich.table import Table

import ornstein as orn
from ornstein._base import checks, extras
from ornstein._base.progress import each
from ornstein._base.types import Vector
from ornstein.experiments.divergence import save, write_json
from ornstein.models.random_effects.posterior import MixedPosterior
from ornstein.results.arviz import ess, rhat

_KEY = 2016
_ENDS = 0.05, 0.95
_NEAR = 0.2  # posterior standard deviations from lme4's figure that need no sentence
_CLEAR = 4.0  # Monte-Carlo errors that a difference from NUTS may have, of some forty numbers


@dataclass(frozen=True)
class Example:
    """A table with its model, and what lme4 1.1-31 prints for it, by our names."""

    name: str
    formula: str
    family: str
    lme4: Mapping[str, float]
    nuts: bool = True
    """Whether NUTS draws it in minutes."""

    def posterior(self) -> MixedPosterior:
        """Priors are the library's own."""
        frame = orn.datasets.load_table(self.name)
        post = orn.from_formula(self.formula, frame, family=self.family)
        assert isinstance(post, MixedPosterior)
        return post


_ALL = (
    Example(
        "sleepstudy",
        "Reaction ~ Days + (Days | Subject)",
        "linear",
        {
            "intercept": 251.41,
            "Days": 10.467,
            "sd(Subject: 1)": 24.741,
            "sd(Subject: Days)": 5.9221,
            "cor(Subject: 1, Days)": 0.065551,
            "sigma": 25.592,
        },
    ),
    Example(
        "cbpp",
        "cbind(incidence, size - incidence) ~ C(period) + (1 | herd)",
        "binomial",
        {
            "intercept": -1.3983,
            "C(period)[T.2]": -0.99192,
            "C(period)[T.3]": -1.1282,
            "C(period)[T.4]": -1.5797,
            "sd(herd)": 0.64207,
        },
    ),
    Example(
        "radon",
        "log.radon ~ basement + uranium + (1 | county)",
        "linear",
        {
            "intercept": 1.4658,
            "basement": -0.66824,
            "uranium": 0.72027,
            "sd(county)": 0.15640,
            "sigma": 0.75844,
        },
    ),
    Example(
        "Contraception",
        "use ~ age + I(age**2) + urban + livch + (1 | district)",
        "logistic",
        {
            "intercept": -1.0348,
            "age": 0.0035405,
            "I(age ** 2)": -0.0045626,
            "urban[T.Y]": 0.69721,
            "livch[T.1]": 0.81485,
            "livch[T.2]": 0.91616,
            "livch[T.3+]": 0.91483,
            "sd(district)": 0.47519,
        },
    ),
    Example(
        "grouseticks",
        "TICKS ~ C(YEAR) + cHEIGHT + (1 | BROOD) + (1 | LOCATION)",
        "poisson",
        {
            "intercept": 0.46686,
            "C(YEAR)[T.96]": 1.1656,
            "C(YEAR)[T.97]": -0.97791,
            "cHEIGHT": -0.023546,
            "sd(BROOD)": 0.76965,
            "sd(LOCATION)": 0.57415,
        },
    ),
    Example(
        "VerbAgg",
        "r2 ~ Anger + Gender + btype + situ + (1 | id) + (1 | item)",
        "logistic",
        {
            "intercept": 0.19932,
            "Anger": 0.057408,
            "Gender[T.M]": 0.32061,
            "btype[T.scold]": -1.0587,
            "btype[T.shout]": -2.1051,
            "situ[T.self]": -1.0553,
            "sd(id)": 1.33954,
            "sd(item)": 0.49525,
        },
    ),
    Example(
        "InstEval",
        "y ~ service + (1 | s) + (1 | d) + (1 | dept)",
        "linear",
        {
            "intercept": 3.2826,
            "service": -0.092642,
            "sd(s)": 0.325573,
            "sd(d)": 0.514996,
            "sd(dept)": 0.083138,
            "sigma": 1.177498,
        },
        nuts=False,
    ),
)

PROBLEMS: Mapping[str, Example] = MappingProxyType({example.name: example for example in _ALL})


def mixed(
    folder: Path,
    console: Console,
    draws: int = 2500,
    data: Sequence[str] = tuple(PROBLEMS),
    progress: bool | None = None,
) -> list[dict[str, Any]]:
    """Draw every table's model, by our steps and by NUTS where that takes minutes.

    Writes ``mixed.png`` and ``mixed.json``.
    """
    extras.require("numpyro", "ornstein reproduce mixed")
    for name in data:
        checks.choice("data", name, tuple(PROBLEMS))
    records = []
    with each("mixed models", 2 * len(data), progress) as ready:
        for name in data:
            example = PROBLEMS[name]
            ready(f"{name}, ours")
            post = example.posterior()
            record, ours = _measured(example, post, draws)
            ready(f"{name}, NUTS" if example.nuts else f"{name}, NUTS would take hours: left out")
            reference = _reference(post, draws) if example.nuts else None
            record["parameters"] = _parameters(example, ours, reference)
            records.append(record)
            write_json(folder, "mixed", records)
    for record in records:
        console.print(_table(record))
        for sentence in sentences(record):
            console.print(sentence, markup=False, highlight=False, soft_wrap=True)
    save(folder, "mixed", records, draw(records), console)
    return records


def _measured(
    example: Example, post: MixedPosterior, draws: int
) -> tuple[dict[str, Any], dict[str, Vector]]:
    """Facts of our run, and draws (chains, draws) of coefficients and hyperparameters by name."""
    began = perf_counter()
    plan = orn.plan(post)
    length = draws if example.nuts else min(draws, plan.draws)
    result = orn.sample(post, plan, key=_KEY, draws=length, progress=False)
    record = {
        "dataset": example.name,
        "formula": example.formula,
        "family": example.family,
        "rows": post.num_data,
        "effects": post.dim,
        "method": plan.method,
        "seconds": perf_counter() - began,
        "draws": int(result.lam.shape[0] * result.lam.shape[1]),
    }
    return record, {name: result[name].astype(float) for name in result.names}


def _reference(post: MixedPosterior, draws: int) -> dict[str, Vector]:
    from ornstein.experiments.mixed_nuts import nuts  # needs NumPyro

    return nuts(post, warmup=max(200, min(1000, draws // 2)), draws=draws)


def _parameters(
    example: Example, ours: Mapping[str, Vector], reference: Mapping[str, Vector] | None
) -> list[dict[str, Any]]:
    """Each number's three answers, and how far ours is from NUTS's in posterior sds."""
    found = []
    for name, draws in ours.items():
        own = _described(draws)
        entry: dict[str, Any] = {"name": name, "lme4": example.lme4.get(name), "ours": own}
        if reference is not None:
            theirs = entry["nuts"] = _described(reference[name])
            entry["mean_error"] = (own["mean"] - theirs["mean"]) / theirs["sd"]
            entry["quantile_errors"] = [
                (own[end] - theirs[end]) / theirs["sd"] for end in ("low", "high")
            ]
            entry["mc_error"] = float(np.sqrt(1 / own["ess"] + 1 / theirs["ess"]))
        found.append(entry)
    return found


def _described(draws: Vector) -> dict[str, float]:
    low, high = np.quantile(draws, _ENDS)
    return {
        "mean": float(draws.mean()),
        "sd": float(draws.std()),
        "low": float(low),
        "high": float(high),
        "ess": float(ess(draws)),
        "r_hat": float(rhat(draws)),
    }


def sentences(record: Mapping[str, Any]) -> list[str]:
    """What differs and why, for every difference from lme4, and one on NUTS."""
    own, found = record["parameters"], []
    if "nuts" in own[0]:
        means, ends = _worst(record)
        far = [p for p in own if abs(p["mean_error"]) > _CLEAR * p["mc_error"]]
        chance = (
            "as chance has it" if not far else "beyond chance: " + ", ".join(p["name"] for p in far)
        )
        found.append(
            f"NUTS: the farthest mean is {means:.2f} posterior standard deviations away, the "
            f"farthest 5 % or 95 % quantile {ends:.2f}; {chance}."
        )
    else:
        found.append("NUTS: not run, as it would take hours; chains and lme4 are the check.")
    for p in own:
        if p["lme4"] is None:
            continue
        ours = p["ours"]
        away = (ours["mean"] - p["lme4"]) / ours["sd"]
        if abs(away) > _NEAR:
            found.append(f"{p['name']}: {_reason(p, away, record['family'])}")
    return found


def _reason(parameter: Mapping[str, Any], away: float, family: str) -> str:
    name, side = parameter["name"], "above" if away > 0 else "below"
    start = f"our mean is {abs(away):.2f} posterior standard deviations {side} lme4's figure"
    if name.startswith("sd(") and away > 0:
        return (
            f"{start}, which is a maximum: with few groups the posterior of a standard deviation "
            "is skewed, and its mean lies above its peak"
        )
    if name.startswith("cor("):
        return f"{start}: the prior takes all correlations alike, and few groups say little of one"
    if family in ("logistic", "binomial", "poisson"):
        return (
            f"{start}: lme4 takes the effects' standard deviation as known and approximates their "
            "integral at its peak; means over larger standard deviations move outward"
        )
    return f"{start}: a prior or a skewed posterior moves the mean"


def _worst(record: Mapping[str, Any]) -> tuple[float, float]:
    own = record["parameters"]
    ends = [abs(error) for p in own for error in p["quantile_errors"]]
    return max(abs(p["mean_error"]) for p in own), max(ends)


def _table(record: Mapping[str, Any]) -> Table:
    facts = f"{record['rows']:,} rows, {record['seconds']:.0f} s with compilation"
    title = f"{record['dataset']}: {record['formula']} ({facts})"
    table = Table(
        "", "lme4", "ours: mean", "5 %", "95 %", "ESS", "R-hat", "NUTS: mean", title=title
    )
    for p in record["parameters"]:
        ours, theirs = p["ours"], p.get("nuts")
        table.add_row(
            p["name"].replace("[", r"\["),
            "-" if p["lme4"] is None else f"{p['lme4']:.4g}",
            *(f"{ours[key]:.4g}" for key in ("mean", "low", "high")),
            f"{ours['ess']:,.0f}",
            f"{ours['r_hat']:.3f}",
            "-" if theirs is None else f"{theirs['mean']:.4g}",
        )
    return table


def draw(records: Sequence[Mapping[str, Any]]) -> Figure:
    """A panel a table: 90 % intervals of ours and of NUTS, lme4's figures as crosses.

    In posterior standard deviations from our mean.
    """
    columns = min(4, len(records))
    lines = -(-len(records) // columns)
    figure = Figure(figsize=(3.6 * columns, 2.9 * lines), layout="constrained")
    panels = figure.subplots(lines, columns, squeeze=False).ravel()
    for ax, record in zip(panels, records, strict=False):
        own = record["parameters"]
        for place, p in enumerate(own):
            centre, unit = p["ours"]["mean"], p["ours"]["sd"]
            for key, shift, colour in (("ours", -0.12, "C0"), ("nuts", 0.12, "0.5")):
                if key in p:
                    low, mean, high = ((p[key][e] - centre) / unit for e in ("low", "mean", "high"))
                    ax.plot([low, high], [place + shift] * 2, color=colour)
                    ax.plot(mean, place + shift, "o", color=colour, ms=4)
            if p["lme4"] is not None:
                ax.plot((p["lme4"] - centre) / unit, place, "kx", ms=5)
        ax.set_yticks(range(len(own)), [p["name"] for p in own], fontsize=7)
        ax.set(ylim=(len(own) - 0.5, -0.5), title=record["dataset"], xlim=(-3, 3))
    for ax in panels[len(records) :]:
        ax.axis("off")
    for label, style, colour in (("ours", "o-", "C0"), ("NUTS", "o-", "0.5"), ("lme4", "x", "k")):
        panels[0].plot([], [], style, color=colour, ms=4, label=label)
    figure.legend(loc="outside lower center", ncols=3, frameon=False)
    figure.supxlabel("posterior standard deviations from our mean", fontsize=8)
    return figure
