"""Long NUTS runs of every family and hierarchy: ``python -m benchmarks references``.

All by NumPyro in double precision, on all rows. Families run in the coordinates in which Laplace's
Gaussian is standard normal, from starts twice as wide; hierarchies as their models are written,
with window adaptation of a diagonal metric. Only summaries are kept, in ``references.json``.
"""

import json
import os
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from time import perf_counter
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
from numpyro.infer import MCMC, NUTS, init_to_value
from rich.console import Console

import ornstein as orn
from benchmarks.distance import SUMMARIES, Estimate, Reference, effective, estimates
from benchmarks.families import FAMILIES, LARGE
from benchmarks.hierarchies import HIERARCHIES, Hierarchy, kept
from ornstein._base.precision import double_precision
from ornstein._base.trees import cast, to_device
from ornstein._base.types import PyTree, Vector
from ornstein.results.arviz import rhat
from ornstein.results.measure import min_ess

PATH = Path(__file__).with_name("references.json")
LARGEST_RHAT = 1.01
CHAINS = 4
POSTERIORS = {**FAMILIES, **LARGE}
_WARMUP = 500
_ROUND = 500  # draws a chain before the ESS is looked at
_ENOUGH = {  # effective draws of the worst parameter
    "rare": 4000.0,
    "large_1e5": 4000.0,
    "large_rare": 4000.0,
    "large_1e6": 1000.0,
    "tall": 5000.0,
    "horseshoe": 5000.0,
}
_OTHERWISE = 10_000.0
_MOST = 40_000  # draws a chain
_DIGITS = 6


@dataclass(frozen=True, eq=False)
class Drawn:
    """Draws (chains, draws, D) and what they took."""

    draws: Vector
    labels: tuple[str, ...]
    gradients: int
    """After warm-up, over all rows, of all chains."""
    divergences: int
    warmup_seconds: float
    """Those of compilation included."""
    sampling_seconds: float

    @property
    def ess(self) -> float:
        """Bulk ESS of the worst parameter."""
        return min_ess(self.draws)

    @property
    def effective(self) -> float:
        """The smaller of bulk and tail ESS of the worst parameter."""
        return effective(self.draws)

    @property
    def rhat(self) -> float:
        """The largest R-hat of ranks."""
        return float(rhat(self.draws).max())


def family_draws(
    post: orn.Posterior, enough: float, most: int = _MOST, chains: int = CHAINS, seed: int = 0
) -> Drawn:
    """Draws of a posterior, in rounds until every parameter has enough effective ones."""
    plan = orn.plan(post, "laplace")
    W = np.linalg.inv(np.linalg.cholesky(plan.posterior_precision)).T
    with double_precision():
        data = to_device(cast(post.data, np.float64))
        center, factor = jnp.asarray(plan.center), jnp.asarray(W)

        def model(data: PyTree) -> None:
            free = dist.ImproperUniform(dist.constraints.real_vector, (), (post.dim,))
            params = post.layout.unravel(center + factor @ numpyro.sample("z", free))
            rows = jax.vmap(lambda row: post.log_likelihood(params, row))(data)
            numpyro.factor("log_density", rows.sum() + post.log_prior(params))

        kernel = NUTS(model, init_strategy=init_to_value(values={"z": jnp.zeros(post.dim)}))
        start = {"z": 2 * jax.random.normal(jax.random.key(seed + 1), (chains, post.dim))}

        def values(samples: dict[str, Any]) -> dict[str, Vector]:
            theta = plan.center + np.asarray(samples["z"]) @ W.T
            return {label: theta[:, :, i] for i, label in enumerate(post.labels)}

        return _rounds(kernel, (data,), values, enough, most, chains, seed, start)


def hierarchy_draws(
    hierarchy: Hierarchy, enough: float, most: int = _MOST, chains: int = CHAINS, seed: int = 0
) -> Drawn:
    """Draws of the sites that a reference keeps."""

    def values(samples: dict[str, Any]) -> dict[str, Vector]:
        parts = (kept(site, np.asarray(samples[site])) for site in hierarchy.sites)
        return {label: value for part in parts for label, value in part.items()}

    with double_precision():
        kernel = NUTS(hierarchy.model, target_accept_prob=hierarchy.target_accept)
        return _rounds(kernel, hierarchy.args, values, enough, most, chains, seed)


def _rounds(
    kernel: Any,
    args: tuple[Any, ...],
    values: Callable[[dict[str, Any]], dict[str, Vector]],
    enough: float,
    most: int,
    chains: int,
    seed: int,
    start: PyTree = None,
) -> Drawn:
    mcmc = MCMC(
        kernel,
        num_warmup=_WARMUP,
        num_samples=min(_ROUND, most),
        num_chains=chains,
        chain_method="sequential",
        progress_bar=False,
        jit_model_args=start is not None,
    )
    began = perf_counter()
    mcmc.warmup(jax.random.key(seed), *args, init_params=start)
    warmup = perf_counter() - began
    parts: list[Vector] = []
    gradients = divergences = 0
    while True:
        fields = ("num_steps", "diverging")
        mcmc.run(mcmc.post_warmup_state.rng_key, *args, extra_fields=fields)
        labelled = values(mcmc.get_samples(group_by_chain=True))
        extra = mcmc.get_extra_fields()
        gradients += int(extra["num_steps"].sum())
        divergences += int(extra["diverging"].sum())
        parts.append(np.stack(list(labelled.values()), axis=-1))
        draws = np.concatenate(parts, axis=1)
        seconds = perf_counter() - began - warmup
        drawn = Drawn(draws, tuple(labelled), gradients, divergences, warmup, seconds)
        if draws.shape[1] >= most or drawn.effective >= enough:
            return drawn
        mcmc.post_warmup_state = mcmc.last_state
        mcmc.num_samples = min(draws.shape[1], most - draws.shape[1])  # every length is compiled


def reference_of(drawn: Drawn, rows: int, sampler: str) -> Reference:
    """The summaries of a long run."""
    flat = drawn.draws.reshape(-1, drawn.draws.shape[-1])
    scaled = (flat - flat.mean(axis=0)) / flat.std(axis=0)
    facts = {
        "sampler": sampler,
        "chains": drawn.draws.shape[0],
        "draws": drawn.draws.shape[1],
        "min_ess": round(drawn.ess),
        "effective": round(drawn.effective),
        "max_rhat": round(drawn.rhat, 4),
        "divergences": drawn.divergences,
        "rows": rows,
        "rows_per_effective": round(drawn.gradients * rows / drawn.effective),
    }
    return Reference(drawn.labels, estimates(drawn.draws), (scaled**3).mean(axis=0), facts)


def load(path: Path = PATH) -> dict[str, Reference]:
    """Every stored reference by name."""
    found = json.loads(path.read_text())["references"]
    return {
        name: Reference(
            tuple(entry["labels"]),
            {part: Estimate(*map(np.array, entry[part])) for part in SUMMARIES},
            np.array(entry["skewness"]),
            entry["facts"],
        )
        for name, entry in found.items()
    }


def names() -> list[str]:
    """Every reference there is to make."""
    return [*FAMILIES, *LARGE, *dict.fromkeys(make().reference for make in HIERARCHIES.values())]


def write(only: Iterable[str] = (), path: Path = PATH) -> None:
    """Make the references again, all or some, and keep each as soon as it is done."""
    console = Console()
    for name in [name for name in names() if not only or name in only]:
        began = perf_counter()
        enough = _ENOUGH.get(name, _OTHERWISE)
        if name in POSTERIORS:
            post = POSTERIORS[name]()
            drawn, rows = family_draws(post, enough), post.num_data
            sampler = "NumPyro's NUTS, whitened by Laplace"
        else:
            hierarchy = HIERARCHIES[name]()
            drawn, rows = hierarchy_draws(hierarchy, enough), hierarchy.rows
            sampler = f"NumPyro's NUTS, target_accept_prob {hierarchy.target_accept}"
        reference = reference_of(drawn, rows, sampler)
        console.print(f"{name}: {reference.facts}, {perf_counter() - began:.0f} s")
        if drawn.rhat >= LARGEST_RHAT:
            console.print(f"[bold]{name} is not kept: R-hat {drawn.rhat:.3f}.")
            continue
        _keep(name, reference, path)
        jax.clear_caches()  # compiled code is memory-mapped, and a process has only so many maps


def _keep(name: str, reference: Reference, path: Path) -> None:
    known = json.loads(path.read_text()) if path.exists() else {"references": {}}
    known["date"] = datetime.now(UTC).date().isoformat()
    known["references"][name] = {
        "facts": reference.facts,
        "labels": list(reference.labels),
        **{part: [_rounded(x) for x in reference.estimates[part]] for part in SUMMARIES},
        "skewness": _rounded(reference.skewness),
    }
    known["references"] = {name: known["references"][name] for name in sorted(known["references"])}
    scratch = path.with_suffix(".partial")
    scratch.write_text(_lines(known))
    os.replace(scratch, path)


def _rounded(values: Vector) -> list[float]:
    return [float(f"{value:.{_DIGITS}g}") for value in values]


def _lines(known: dict[str, Any]) -> str:
    """JSON with one line for every summary of a reference."""
    entries = []
    for name, entry in known["references"].items():
        lines = [f"   {json.dumps(key)}: {json.dumps(value)}" for key, value in entry.items()]
        entries.append(f"  {json.dumps(name)}: {{\n" + ",\n".join(lines) + "\n  }")
    body = ",\n".join(entries)
    return f'{{\n "date": {json.dumps(known["date"])},\n "references": {{\n{body}\n }}\n}}\n'
