"""The plan: how to run a chain so that its iterates are posterior draws, and how good they are."""

import json
import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

import jax
import numpy as np

from ornstein._base.errors import InputError
from ornstein._base.trees import Layout
from ornstein._base.types import Vector
from ornstein.curvature.control_variates import Anchor
from ornstein.curvature.geometry import Geometry
from ornstein.data.batches import Batches
from ornstein.linalg.operators import Operator
from ornstein.models.contract import Model
from ornstein.models.local import Anchored
from ornstein.planning.rules.contract import LinearChain, Rule
from ornstein.storage.codec import encode, register

GAUSSIAN, NEARLY_GAUSSIAN, PILOT = "the posterior is Gaussian", "nearly Gaussian", "pilot"
"""How a predicted error is known."""


@register
@dataclass(frozen=True)
class PredictedError:
    """How far the draws will be from the posterior itself, not from the Gaussian at its peak.

    Attributes
    ----------
    mean
        The largest error of a parameter's mean, in posterior standard deviations.
    sd
        The largest relative error of a parameter's standard deviation.
    known
        How this is known: ``the posterior is Gaussian``, ``nearly Gaussian`` (both errors are
        bounds), or a ``pilot``, a run as long as the plan suggests, measured by Stein's identities
        (X12).
    mean_mc_error, sd_mc_error
        Monte-Carlo errors of a pilot's figures, which are infinite where its chains became
        non-finite.
    """

    mean: float
    sd: float
    known: str
    mean_mc_error: float = 0.0
    sd_mc_error: float = 0.0

    def to_record(self) -> dict[str, Any]:
        """For JSON, which has no infinite numbers."""
        finite = {name: value for name, value in asdict(self).items() if name != "known"}
        plain = {name: value if math.isfinite(value) else None for name, value in finite.items()}
        return {**plain, "known": self.known}

    def __str__(self) -> str:
        """One line."""
        if not math.isfinite(self.mean + self.sd):
            return "unbounded (the pilot found no draws of the posterior)"
        if self.known != PILOT:
            most = "" if self.known == GAUSSIAN else "at most about "
            return f"means {most}{self.mean:.2g} sd, sds {most}{self.sd:.1%} ({self.known})"
        means = f"means up to {self.mean:.2g} +- {self.mean_mc_error:.1g} sd"
        return f"{means}, sds up to {self.sd:.1%} +- {self.sd_mc_error:.1%} (measured by a pilot)"


@dataclass(frozen=True, repr=False, eq=False)
class Plan:
    """What to run and what to expect; ``print(plan)`` is a readable table.

    Attributes
    ----------
    method, equation, structure
        The recipe, its equation, and the structure of its gain.
    target
        What the draws' covariance aims at: ``posterior`` or ``sandwich``.
    batches
        How minibatches are drawn.
    engine, options
        What makes the draws, a ``chain`` or another engine, and the method's own options.
    gain, injected_cov
        ``K`` and ``Q`` of the update (None: no injected noise).
    rule
        What a step does with them: first order, momentum, decreasing and so on.
    geometry
        A and C at the optimum.
    anchor
        The noise of gradients anchored there (X9, X10); None where they are not.
    noise_share
        The minibatches' largest share of a direction's variance; injected noise makes the rest.
    labels, layout, model
        A name for every parameter, how the parameters lie in a flat vector, and the model the plan
        was made for; None where it was made from statistics.
    predicted
        Covariance of the draws (T2, or what the rule predicts; X7 under an epoch loader), as an
        operator.
    predicted_trace
        Sum of the draws' variances; with ``center`` it gives :attr:`mean_square`.
    limit
        The covariance in the small-step limit (T1).
    predicted_kl
        T3's divergence of that covariance from the posterior, in nats.
    predicted_kl_ou
        The same in the small-step limit, the figure the paper reports.
    relaxation_steps
        Steps in which the slowest direction forgets.
    stability_margin
        1 for infinitesimal steps, 0 at the edge of divergence.
    warmup, thin, draws
        Suggested steps to discard, steps between kept draws, draws per chain.
    warnings
        What to know before running.
    predicted_error
        How far the draws will be from the posterior itself; None where it is not known.
    unmeasured
        Why it is not known.
    tolerance
        The error that was asked for.
    dispersion
        How wide to start, in predicted standard deviations: no wider than what a pilot has seen.
    """

    method: str
    equation: str
    target: str
    structure: str
    batches: Batches
    engine: str
    options: Mapping[str, Any]
    gain: Operator
    injected_cov: Operator | None
    rule: Rule
    geometry: Geometry
    anchor: Anchor | None
    noise_share: float
    labels: tuple[str, ...]
    layout: Layout
    model: Model | None
    predicted: Operator
    predicted_trace: float
    limit: Operator
    predicted_kl: float
    predicted_kl_ou: float
    relaxation_steps: float
    stability_margin: float
    warmup: int
    thin: int
    draws: int
    warnings: tuple[str, ...]
    predicted_error: PredictedError | None = None
    unmeasured: str = ""
    tolerance: float | None = None
    dispersion: float = 2.0

    @property
    def dim(self) -> int:
        """Number of parameters."""
        return len(self.geometry.center)

    @property
    def center(self) -> Vector:
        """The optimum, flat."""
        return self.geometry.center

    @property
    def batch_size(self) -> int:
        """Rows per minibatch."""
        return self.batches.batch_size

    @property
    def num_data(self) -> int:
        """Number of rows."""
        return self.batches.num_data

    @property
    def mean_square(self) -> float:
        """``E ||theta||^2`` over the draws: the centre's, and the sum of the variances."""
        return float(self.center @ self.center) + self.predicted_trace

    @property
    def memory(self) -> int:
        """Bytes of the plan's arrays."""
        parts = (self, self.geometry, self.geometry.along)
        values = (value for part in parts if part for value in vars(part).values())
        leaves = jax.tree.leaves([v for v in values if isinstance(v, Operator | np.ndarray)])
        return sum({id(leaf): np.asarray(leaf).nbytes for leaf in leaves}.values())

    @property
    def predicted_cov(self) -> Vector:
        """The predicted covariance as an array, (D, D); variances (D,) where it is not held."""
        return self._entries(self.predicted)

    @property
    def limit_cov(self) -> Vector:
        """The same in the small-step limit."""
        return self._entries(self.limit)

    def _entries(self, covariance: Operator) -> Vector:
        if self.geometry.approximate:
            return covariance.variances(self.dim)
        return np.asarray(covariance.array)

    @property
    def posterior_precision(self) -> Vector:
        """``N A`` as an array: a matrix, its diagonal, or along the basis of its structure."""
        return np.asarray(self.geometry.precision.array)

    @property
    def noise_cov(self) -> Operator:
        """Covariance over rows of the gradients in use: C, or what control variates leave."""
        return self.geometry.noise_cov if self.anchor is None else self.anchor.noise_cov

    @property
    def anchored(self) -> Anchored | None:
        """What gradients are counted from at the optimum (X9, X10); None for plain gradients."""
        if self.anchor is None:
            return None
        if self.anchor.order == 1:
            return Anchored(self.anchor.slope)
        return Anchored(self.anchor.slope, self.geometry.precision.dense(self.dim))

    @property
    def control_variates(self) -> bool:
        """Whether gradients are anchored at the optimum (X9, X10)."""
        return self.anchor is not None

    @property
    def target_cov(self) -> Vector:
        """The covariance the method aims at: ``(N A)^-1``, or ``A^-1 C A^-1 / N``.

        Where rows depend on one another in clusters, C is that of the clusters' sums.
        """
        if self.geometry.approximate:
            return self.predicted_cov
        if self.target == "posterior":
            return np.asarray(self.geometry.covariance.array)
        inverse, clustered = self.geometry.hessian.inverse(), self.geometry.clustered
        noise_cov = self.geometry.noise_cov if clustered is None else clustered.noise_cov
        return inverse.congruent(noise_cov) / self.num_data

    @property
    def is_chain(self) -> bool:
        """Whether draws are iterates of SGD, rather than those of another engine."""
        return self.engine == "chain"

    def refuse_matrices(self, name: str) -> None:
        """Raise where A is held approximately only."""
        if self.geometry.approximate:
            raise InputError(
                f"{name} compares {self.dim:,} x {self.dim:,} covariances, which this plan does "
                f"not hold: its structure is {self.geometry.structure}. Compare "
                "plan.predicted_trace or plan.predicted_cov (variances) with the draws', or plan "
                "with structure='dense'."
            )

    def covariance_given(self, batch_noise_cov: Vector) -> Vector:
        """What the draws' covariance would be with another minibatch noise, (D, D)."""
        self.refuse_matrices("covariance_given")
        K, A = self.gain.dense(self.dim), self.geometry.hessian.dense(self.dim)
        Q = None if self.injected_cov is None else self.injected_cov.dense(self.dim)
        return self.rule.covariance(LinearChain(K, A, batch_noise_cov, Q))

    def segment_draws(self, thin: int) -> int:
        """Kept draws to make on one permutation of the rows, at most."""
        return self.batches.segment_draws(thin, self.relaxation_steps, self.noise_share)

    def to_json(self) -> str:
        """What was planned, as JSON: settings, predictions and one line per parameter."""
        variances = self.predicted.variances(self.dim)
        record = {
            "method": self.method,
            "structure": self.structure,
            "equation": self.equation,
            "target": self.target,
            "options": encode(self.options, lists=True),
            "rows": self.num_data,
            "batch_size": self.batch_size,
            "batches": self.batches.scheme,
            "control_variates": self.control_variates,
            "rule": encode(self.rule, lists=True),
            "predicted_kl": self.predicted_kl,
            "predicted_kl_ou": self.predicted_kl_ou,
            "predicted_error": self.predicted_error and self.predicted_error.to_record(),
            "relaxation_steps": self.relaxation_steps,
            "stability_margin": self.stability_margin,
            "warmup": self.warmup,
            "thin": self.thin,
            "draws": self.draws,
            "warnings": list(self.warnings),
            "parameters": [
                {"name": name, "optimum": float(at), "predicted_sd": float(np.sqrt(variance))}
                for name, at, variance in zip(self.labels, self.center, variances, strict=True)
            ],
        }
        return json.dumps(record, indent=1)

    def __repr__(self) -> str:
        """One line."""
        return (
            f"Plan({self.method}, {self._form}, batch_size={self.batch_size}, "
            f"predicted_kl={self.predicted_kl:.4g}, thin={self.thin})"
        )

    def __str__(self) -> str:
        """A readable table."""
        S, N = self.batch_size, self.num_data
        injected = "none" if self.injected_cov is None else self.injected_cov.structure
        lines = [
            ("method", f"{self.method}, {self._form} ({self.equation})"),
            ("target", self.target),
            ("rows, parameters", f"{N:,}, {self.dim:,}"),
            ("memory", f"{_size(self.memory)} of matrices and vectors"),
        ]
        if not self.is_chain:
            given = ", ".join(f"{name} {_shown(value)}" for name, value in self.options.items())
            lines += [
                *([("batch", f"{S:,} rows")] if self.engine == "bbvi" else []),
                *([("options", given)] if given else []),
                ("predicted KL", f"{self.predicted_kl:.4f} nats"),
                ("suggested run", f"{self.draws:,} draws a chain"),
            ]
        else:
            lines += [
                ("batch", f"{S:,} rows, {self.batches.scheme}"),
                ("gradients", self._gradients),
                ("injected noise", injected),
                *self.rule.lines(),
                (
                    "predicted KL",
                    f"{self.predicted_kl:.4f} nats ({self.predicted_kl_ou:.4f} in the small-step "
                    "limit)",
                ),
                ("relaxation", f"{self.relaxation_steps:,.1f} steps in the slowest direction"),
                ("stability margin", f"{self.stability_margin:.3f} of 1"),
                (
                    "suggested run",
                    f"warm-up {self.warmup:,}, thin {self.thin:,}, {self.draws:,} draws a chain",
                ),
            ]
        if self.predicted_error is not None:
            lines.append(("predicted error", str(self.predicted_error)))
        elif self.unmeasured:
            lines.append(("predicted error", f"not measured: {self.unmeasured}"))
        lines += [("warning", text) for text in self.warnings]
        width = max(len(name) for name, _ in lines)
        return "\n".join(f"{name:<{width}}  {text}" for name, text in lines)

    @property
    def _gradients(self) -> str:
        if self.anchor is None:
            return "plain"
        if self.anchor.order == 2:
            return "control variates of second order (X10)"
        why = f": {self.anchor.why}" if self.anchor.why else ""
        return f"control variates of first order (X9){why}"

    @property
    def _form(self) -> str:
        return f"{self.structure} gain" if self.is_chain else self.structure


register(Plan, given=("layout", "model"))


def _size(count: int) -> str:
    """Bytes in the largest unit of which there is one."""
    unit = next((n for n in (3, 2) if count >= 1024**n), 1)
    return f"{count / 1024**unit:,.1f} {('KiB', 'MiB', 'GiB')[unit - 1]}"


def _shown(value: Any) -> str:
    return str(value) if isinstance(value, bool) else f"{value:,}"
