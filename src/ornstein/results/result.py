"""Draws and what they mean."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import jax
import numpy as np

from ornstein._base.checks import choice
from ornstein._base.errors import InputError
from ornstein._base.trees import Layout
from ornstein._base.types import PyTree, Vector
from ornstein.hyper import Learning
from ornstein.linalg.operators import as_operator
from ornstein.models.hyper_targets import DrawnHyper, HyperTarget
from ornstein.models.posterior import Posterior
from ornstein.planning.plans import Plan
from ornstein.results import arviz
from ornstein.results.assumptions import diagnose
from ornstein.results.diagnosis import Diagnosis
from ornstein.results.measure import MeasuredKL, measured_kl
from ornstein.sampling.hyper_steps import drawn_with
from ornstein.sampling.settings import Settings, Status
from ornstein.storage.folders import Writer, write_folder

if TYPE_CHECKING:
    import pandas as pd
    import xarray

    from ornstein.results.row_groups import RowGroups


@dataclass(frozen=True, eq=False)
class Result:
    """Draws of a run, and how it went.

    Attributes
    ----------
    flat
        Draws as vectors, (chains, draws, D), float64.
    status
        How the run ended; ``status.ok`` is False where a chain diverged or the run was
        interrupted, and ``status.kind`` says which.
    plan, posterior, settings
        What was run.
    steps
        Steps made by each chain, warm-up included.
    seconds
        Time in the sampling loop, in all sessions of a checkpointed run.
    path
        What an engine recorded, e.g. the ELBO of ``bbvi`` round by round; ``restarts`` has the
        steps at which chains diverged and all were started again, ``redrawn`` those at which one
        became non-finite and was drawn again from where it was sound.
    learning
        How the hyperparameters were learned; None where they were not.
    hyper
        Draws of hyperparameters on the unconstrained scale, (chains, draws, m); None where they
        were not drawn. :attr:`hyper_draws` has their values.
    hyper_target
        What these draws aim at, given the parameters.
    """

    flat: Vector
    status: Status
    plan: Plan
    posterior: Posterior
    settings: Settings
    steps: int
    seconds: float
    path: Mapping[str, Vector] = field(default_factory=lambda: MappingProxyType({}))
    learning: Learning | None = None
    hyper: Vector | None = None
    hyper_target: HyperTarget | None = None

    @property
    def draws(self) -> PyTree:
        """Draws with the parameters' own structure, every leaf (chains, draws, ...).

        Where the posterior has a ``constrain`` map, what that makes of them.
        """
        return self.unconstrained if self.posterior.constrain is None else self._constrained

    @property
    def unconstrained(self) -> PyTree:
        """Draws of the parameters as they were sampled, whatever ``constrain`` makes of them."""
        return self.posterior.layout.unravel(self.flat)

    @property
    def hyper_draws(self) -> PyTree:
        """Draws of the hyperparameters, every leaf (chains, draws, ...), in their own structure."""
        if self.has_hyper_draws and self.posterior.every_hyper is not None:
            return self.posterior.mapped(self.posterior.every_hyper, self.flat, self.hyper)
        if self.hyper is None:
            raise InputError("the hyperparameters were not drawn: sample with hyper='draw'.")
        return self.posterior.learnable.host_values(self.hyper)

    @property
    def has_hyper_draws(self) -> bool:
        """Whether hyperparameters were drawn."""
        among_parameters = self.posterior.every_hyper is not None
        return self.hyper is not None or (among_parameters and not self.posterior.hyperparameters)

    @cached_property
    def _constrained(self) -> PyTree:
        return self.posterior.constrained(self.flat, self.hyper)

    def __repr__(self) -> str:
        """One line."""
        chains, draws, dim = self.flat.shape
        ending = "" if self.status.ok else f", stopped: {self.status.message}"
        return f"Result(chains={chains}, draws={draws}, parameters={dim}{ending})"

    def require_draws(self) -> None:
        """Raise where the run ended before its first draw."""
        if not self.flat.size:
            raise InputError(
                f"no draws: the run ended before its first one ({self.status.message}). Read "
                "print(result.plan) and its warnings; run again with a larger batch_size, "
                "dispersion=0, or method='nuts'."
            )

    def to_arviz(self) -> Any:
        """The draws for ArviZ, columns named.

        An ``xarray.DataTree``, as ArviZ 1.x has them; an ``InferenceData`` where ArviZ 0.x is
        installed. If the posterior has a ``constrain`` map, draws as they were sampled are in the
        group ``unconstrained_posterior``.
        """
        self.require_draws()
        return arviz.as_installed(self._tree())

    def _tree(self, rows: "RowGroups | None" = None) -> "xarray.DataTree":
        named = _named_leaves(self.draws)
        dims: dict[str, list[str]] = {}
        coords: dict[str, Any] = {}
        for name, last in self.posterior.names.items():
            if name in named and named[name].ndim > 2:
                free = [f"{name}_dim_{i}" for i in range(named[name].ndim - 3)]
                dims[name] = [*free, f"{name}_column"]
                coords[f"{name}_column"] = list(last)
        attrs = {
            "inference_library": "ornstein",
            "method": self.plan.method,
            "batch_size": self.plan.batch_size,
            "sampling_time": self.seconds,
        }
        if self.has_hyper_draws:
            named = {**_named_leaves(self.hyper_draws), **named}
        groups: dict[str, dict[str, Any]] = {"posterior": named}
        if self.posterior.constrain is not None:
            groups["unconstrained_posterior"] = _named_leaves(self.unconstrained)
        if rows is not None:
            groups |= rows.groups
            dims, coords = {**dims, **rows.dims}, {**coords, **rows.coords}
        tree = arviz.to_tree(groups, dims, coords, attrs)
        for name in () if rows is None else rows.groups:
            tree[name].attrs["rows"] = rows.note if rows is not None else ""
        return tree

    def summary(self, interval: float = 0.9) -> "pd.DataFrame":
        """Mean, sd, central interval, MCSE, ESS and R-hat of every parameter.

        Parameters
        ----------
        interval
            Mass of the central interval: as many draws lie below it as above.
        """
        self.require_draws()
        if self.flat.shape[1] < 4:
            raise InputError(
                f"a summary needs at least 4 draws a chain, found {self.flat.shape[1]}."
            )
        draws = self.draws
        one = Layout.of(jax.tree.map(lambda leaf: leaf[0, 0], draws))
        labels = one.labels(self.posterior.names)
        leaves = jax.tree.leaves(draws)
        if self.has_hyper_draws:
            named = _named_leaves(self.hyper_draws)
            beside = {name: leaf for name, leaf in named.items() if name not in one.leaf_names()}
            each = Layout.of(jax.tree.map(lambda leaf: leaf[0, 0], beside))
            names = {} if self.hyper is None else self.posterior.learnable.names
            labels = [*labels, *each.labels(names)]
            leaves = [*leaves, *jax.tree.leaves(beside)]
        return arviz.summary_table(labels, leaves, interval)

    def files(self, rows: "RowGroups | None" = None) -> dict[str, Writer]:
        """Writers of the files of a run folder; with groups of rows, ``draws.nc`` has them too."""
        return {
            "draws.nc": lambda path: arviz.write(self._tree(rows), path),
            "plan.json": lambda path: path.write_text(self.plan.to_json() + "\n"),
            "summary.csv": lambda path: self.summary().to_csv(path),
        }

    def save(self, folder: str | Path, overwrite: bool = False) -> Path:
        """Save the run to a folder: ``draws.nc`` (opens in ArviZ), ``plan.json``, ``summary.csv``.

        The folder appears complete or not at all.
        """
        self.require_draws()
        return write_folder(folder, self.files(), overwrite)

    def measured_kl(self, target: str | Vector = "posterior") -> MeasuredKL:
        """Divergence of the draws' mean and covariance from a Gaussian target around the optimum.

        Parameters
        ----------
        target
            ``posterior`` (``(N A)^-1``), ``predicted`` (the plan's own), ``target`` (what the
            method aims at) or a covariance.

        Returns
        -------
        MeasuredKL
            The value, and its floor: the expected value for draws of the target itself with the
            autocorrelation these draws show.
        """
        self.require_draws()
        return measured_kl(self.flat, self.plan.center, self._target_cov(target))

    def diagnose(self) -> Diagnosis:
        """Measure how far the draws are from the posterior, and check what explains it.

        That is the assumptions A1-A4, stationarity and the plan's prediction, and the model.
        """
        self.require_draws()
        return diagnose(self.posterior, self.plan, self.flat, self._drawn_hyper)

    @property
    def _drawn_hyper(self) -> DrawnHyper | None:
        target = self.hyper_target
        if self.hyper is None or target is None or self.plan.anchor is None:
            return None
        return drawn_with(self.posterior, self.plan, target, self.hyper)

    def _target_cov(self, target: str | Vector) -> Vector:
        if not isinstance(target, str):
            cov = np.asarray(target, float)
            if cov.shape != (self.plan.dim, self.plan.dim):
                raise InputError(
                    f"target must be a {self.plan.dim} x {self.plan.dim} covariance, "
                    f"found shape {cov.shape}."
                )
            return cov
        choice("target", target, ("posterior", "predicted", "target"))
        self.plan.refuse_matrices("measured_kl")
        if target == "posterior":
            return np.linalg.inv(self.plan.geometry.precision.dense(self.plan.dim))
        own = self.plan.predicted_cov if target == "predicted" else self.plan.target_cov
        return as_operator(own).dense(self.plan.dim)


def _named_leaves(draws: PyTree) -> dict[str, Vector]:
    return dict(zip(Layout.of(draws).leaf_names(), jax.tree.leaves(draws), strict=True))
