"""The plan: how to run a chain so that its iterates are posterior draws, and how good they are."""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import jax
import numpy as np
import optax

from ornstein import theory
from ornstein._base.checks import random_key
from ornstein._base.errors import InputError
from ornstein._base.trees import Layout
from ornstein._base.types import Key, PyTree, Vector
from ornstein.curvature.control_variates import Anchor
from ornstein.curvature.estimation import Geometry
from ornstein.data.batches import Batches
from ornstein.linalg.bases import ClassBasis, KroneckerBasis
from ornstein.linalg.operators import AlongBasis, Dense, Diagonal, Operator, as_matrix
from ornstein.models.contract import Model
from ornstein.planning.transform import check_loss, transformation
from ornstein.storage.codec import encode, register
from ornstein.theory import Decay


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
    gain, injected_cov, momentum
        ``K``, ``Q`` (None: no injected noise) and ``mu`` (1: no momentum) of the update.
    window
        Successive iterates whose mean is one draw (X5); 1: iterates themselves.
    decay
        How the step decreases; None: it is constant.
    running
        ``(step size, E E')`` where C is estimated on the way (SGFS); None: it is the optimum's.
    geometry
        A and C at the optimum.
    anchor
        The noise of gradients anchored there (X9); None where they are not.
    noise_share
        The minibatches' largest share of a direction's variance; injected noise makes the rest.
    labels, layout, model
        A name for every parameter, how the parameters lie in a flat vector, and the model the plan
        was made for.
    predicted
        Covariance of the draws by T2 (X4 with momentum, X5 averaged, X7 under an epoch loader), as
        an operator.
    predicted_cov
        The same as an array: (D, D), or the variances (D,) where only diagonals or
        factors are known.
    predicted_trace
        Sum of the draws' variances; with ``center`` it gives :attr:`mean_square`.
    limit_cov
        The same as steps vanish (T1).
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
    momentum: float
    window: int
    decay: Decay | None
    running: tuple[float, Vector] | None
    geometry: Geometry
    anchor: Anchor | None
    noise_share: float
    labels: tuple[str, ...]
    layout: Layout
    model: Model
    predicted: Operator
    predicted_cov: Vector
    predicted_trace: float
    limit_cov: Vector
    predicted_kl: float
    predicted_kl_ou: float
    relaxation_steps: float
    stability_margin: float
    warmup: int
    thin: int
    draws: int
    warnings: tuple[str, ...]

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
        leaves = jax.tree.leaves(
            [self._arrays(part) for part in (self, self.geometry, self.geometry.factors)]
        )
        distinct = {id(leaf): np.asarray(leaf).nbytes for leaf in leaves}
        return sum(distinct.values())

    @staticmethod
    def _arrays(part: object) -> list[Any]:
        held = (Diagonal, Dense, AlongBasis, KroneckerBasis, ClassBasis, np.ndarray)
        return [value for value in vars(part).values() if isinstance(value, held)] if part else []

    @property
    def posterior_precision(self) -> Vector:
        """``N A``, or its diagonal; along the basis where A is known in factors."""
        return self.num_data * self.geometry.hessian

    @property
    def noise_cov(self) -> Vector:
        """Covariance over rows of the gradients in use: C, or what control variates leave."""
        return self.geometry.noise_cov if self.anchor is None else self.anchor.noise_cov

    @property
    def anchor_slope(self) -> Vector | None:
        """Gradient of ``-log p(theta | data)`` at the anchor; None for plain gradients."""
        return None if self.anchor is None else self.anchor.slope

    @property
    def control_variates(self) -> bool:
        """Whether gradients are anchored at the optimum (X9)."""
        return self.anchor is not None

    @property
    def target_cov(self) -> Vector:
        """The covariance the method aims at: ``(N A)^-1``, or ``A^-1 C A^-1 / N``."""
        A, C, N = self.geometry.hessian, self.geometry.noise_cov, self.num_data
        if self.geometry.in_factors:
            return np.asarray(self.predicted_cov)
        inverse: Vector = np.linalg.inv(A) if A.ndim == 2 else 1 / A
        if self.target == "posterior":
            return inverse / N
        return (inverse @ C @ inverse if A.ndim == 2 else inverse * C * inverse) / N

    @property
    def rule(self) -> tuple[str, PyTree]:
        """Name of the kernel whose steps are made, and its constants beside gain and noise."""
        if self.running is not None:
            return "fisher", self.running
        if self.decay is not None:
            return "decreasing", tuple(np.asarray(value, float) for value in self.decay)
        if self.momentum < 1:
            return "momentum", np.asarray(self.momentum)
        return "first_order", ()

    @property
    def is_chain(self) -> bool:
        """Whether draws are iterates of SGD, rather than those of another engine."""
        return self.engine == "chain"

    def refuse_matrices(self, name: str) -> None:
        """Raise where A is known in factors only."""
        if self.geometry.in_factors:
            raise InputError(
                f"{name} compares {self.dim:,} x {self.dim:,} covariances, which this plan does "
                "not hold: A is known in factors. Compare plan.predicted_trace or "
                "plan.predicted_cov (variances) with the draws', or plan with structure='dense'."
            )

    def covariance_given(self, batch_noise_cov: Vector) -> Vector:
        """What the draws' covariance would be with another minibatch noise, (D, D)."""
        self.refuse_matrices("covariance_given")
        K, A = self.gain.dense(self.dim), as_matrix(self.geometry.hessian)
        Q = None if self.injected_cov is None else self.injected_cov.dense(self.dim)
        return theory.chain_covariance(K, A, batch_noise_cov, Q, self.momentum, self.window)

    def as_optax(
        self, key: Key = 0, loss: Callable[[PyTree], Any] | None = None
    ) -> optax.GradientTransformation:
        """The update as an optax transformation: a training loop with it becomes the sampler.

        The loop must give the gradient, over ``batch_size`` rows drawn at random at every step, of

            mean over the batch of ``-log p(x_n | theta)``, less ``(1/N) log p(theta)``.

        Nothing is scaled here. With an epoch loader's batches the draws come out too narrow (X7),
        unless the plan was made for one (``batches="epochs"``).

        Parameters
        ----------
        key
            Of the injected noise; it is kept in the state. One for each chain.
        loss
            ``params -> loss`` of the loop, over all rows: its slope and curvature at the optimum
            are compared with the plan's, so that a sum in place of a mean, or a prior left out, is
            found before the run.

        Raises
        ------
        InputError
            Where the update needs more than a gradient: control variates, a running estimate of
            the noise, means of iterates; or where ``loss`` is not the posterior's.

        Examples
        --------
        >>> import jax.numpy as jnp
        >>> import ornstein as orn
        >>> X = np.linspace(-1, 1, 200)[:, None]
        >>> post = orn.models.linear(X, np.sin(X[:, 0]))
        >>> plan = orn.plan(post, batch_size=20, control_variates=False)
        >>> optimiser = plan.as_optax(key=1, loss=lambda params: post.loss(params, post.data))
        >>> params = {"coef": jnp.zeros(1)}
        >>> state = optimiser.init(params)
        >>> updates, state = optimiser.update({"coef": jnp.ones(1)}, state)
        >>> updates["coef"].shape
        (1,)
        """
        if not self.is_chain:
            raise InputError(f"method={self.method!r} makes no steps of SGD; use method='exact'.")
        if self.control_variates:
            raise InputError(
                "the plan anchors its gradients at the optimum, which a loop of plain gradients "
                "does not. Plan with control_variates=False, or use ornstein.kernel."
            )
        if self.running is not None or self.window > 1:
            needs = "the rows' own gradients" if self.running is not None else "means of iterates"
            raise InputError(f"the plan needs {needs}, beyond optax: use ornstein.kernel.")
        if loss is not None:
            check_loss(loss, self.layout, self.geometry)
        rule, constants = self.rule
        gain, cov = self.gain, self.injected_cov
        return transformation(self.layout, rule, constants, gain, cov, random_key(key))

    def segment_draws(self, thin: int) -> int:
        """Kept draws to make on one reading order of the rows, at most."""
        return self.batches.segment_draws(thin, self.relaxation_steps, self.noise_share)

    def to_json(self) -> str:
        """What was planned, as JSON: settings, predictions and one line per parameter."""
        cov = self.predicted_cov
        variances = np.diag(cov) if cov.ndim == 2 else cov
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
            "momentum": self.momentum,
            "window": self.window,
            "predicted_kl": self.predicted_kl,
            "predicted_kl_ou": self.predicted_kl_ou,
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
            ("memory", f"{self.memory / 2**20:,.1f} MiB of matrices and vectors"),
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
                ("gradients", "control variates (X9)" if self.control_variates else "plain"),
                ("injected noise", injected),
                *self._extras(),
                (
                    "predicted KL",
                    f"{self.predicted_kl:.4f} nats ({self.predicted_kl_ou:.4f} as steps vanish)",
                ),
                ("relaxation", f"{self.relaxation_steps:,.1f} steps in the slowest direction"),
                ("stability margin", f"{self.stability_margin:.3f} of 1"),
                (
                    "suggested run",
                    f"warm-up {self.warmup:,}, thin {self.thin:,}, {self.draws:,} draws a chain",
                ),
            ]
        lines += [("warning", text) for text in self.warnings]
        width = max(len(name) for name, _ in lines)
        return "\n".join(f"{name:<{width}}  {text}" for name, text in lines)

    @property
    def _form(self) -> str:
        return f"{self.structure} gain" if self.is_chain else self.structure

    def _extras(self) -> list[tuple[str, str]]:
        lines = []
        if self.momentum < 1:
            lines.append(("momentum", f"friction {self.momentum:g}"))
        if self.window > 1:
            lines.append(("averaging", f"a draw is the mean of {self.window:,} iterates"))
        if self.decay is not None:
            power, steps = self.decay
            lines.append(("step", f"falls as (1 + t / {steps:,.0f})^-{power:g}"))
        if self.running is not None:
            lines.append(("noise covariance", "estimated on the way"))
        return lines


register(Plan, given=("layout", "model"))


def _shown(value: Any) -> str:
    return str(value) if isinstance(value, bool) else f"{value:,}"
