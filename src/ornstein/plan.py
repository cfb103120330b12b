"""The plan: how to run a chain so that its iterates are posterior draws, and how good they are."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from inspect import signature
from typing import Any

import numpy as np

from ornstein import _check, advice, methods, theory
from ornstein._check import InputError, UnstablePlanError
from ornstein._tree import Layout
from ornstein._types import Key, PyTree, Vector
from ornstein.anchor import Anchor, anchor, plain_batch_size
from ornstein.anchor import batch_size as anchored_batch_size
from ornstein.data import SCHEMES, Batches
from ornstein.geometry import Geometry, geometry
from ornstein.methods import Method, Setting
from ornstein.model import Model
from ornstein.operators import Operator, as_operator
from ornstein.optimum import MAX_DENSE, find_optimum
from ornstein.posterior import Posterior
from ornstein.theory import Recipe

_WARMUP = 7  # relaxation times; an over-dispersed start's excess variance is down to e^-14
_DRAWS = 1000
_WORTH_ARRANGING = 2  # passes over the rows that a reading order must serve to be worth making
_PASSES = 20  # to find the covariance over which anchored noise is averaged
_SETTLED = 1e-3  # relative to the variances


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
    gain, injected_cov, momentum
        ``K``, ``Q`` (None: no injected noise) and ``mu`` (1: no momentum) of the update.
    geometry
        A and C at the optimum.
    anchor
        The noise of gradients anchored there (X9); None where they are not.
    noise_share
        The minibatches' largest share of a direction's variance; injected noise makes the rest.
    labels, layout, model
        A name for every parameter, how the parameters lie in a flat vector, and the model the plan
        was made for.
    predicted_cov
        Covariance of the draws by T2 (X4 with momentum, X7 under an epoch loader): (D, D), or
        the variances (D,) where only diagonals are known.
    predicted_kl
        T3's divergence of that covariance from the posterior, in nats.
    predicted_kl_ou
        The same in the small-step limit (T1), the figure the paper reports.
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
    gain: Operator
    injected_cov: Operator | None
    momentum: float
    geometry: Geometry
    anchor: Anchor | None
    noise_share: float
    labels: tuple[str, ...]
    layout: Layout
    model: Model
    predicted_cov: Vector
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
    def posterior_precision(self) -> Vector:
        """``N A``, or its diagonal."""
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
        inverse: Vector = np.linalg.inv(A) if A.ndim == 2 else 1 / A
        if self.target == "posterior":
            return inverse / N
        return (inverse @ C @ inverse if A.ndim == 2 else inverse * C * inverse) / N

    def segment_draws(self, thin: int) -> int:
        """Kept draws to make on one reading order of the rows, at most."""
        return self.batches.segment_draws(thin, self.relaxation_steps, self.noise_share)

    def __repr__(self) -> str:
        """One line."""
        return (
            f"Plan({self.method}, {self.structure} gain, batch_size={self.batch_size}, "
            f"predicted_kl={self.predicted_kl:.4g}, thin={self.thin})"
        )

    def __str__(self) -> str:
        """A readable table."""
        S, N = self.batch_size, self.num_data
        injected = "none" if self.injected_cov is None else self.injected_cov.structure
        lines = [
            ("method", f"{self.method}, {self.structure} gain ({self.equation})"),
            ("target", self.target),
            ("rows, parameters", f"{N:,}, {self.dim:,}"),
            ("batch", f"{S:,} rows, {self.batches.scheme}"),
            ("gradients", "control variates (X9)" if self.control_variates else "plain"),
            ("injected noise", injected),
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
        if self.momentum < 1:
            lines.insert(6, ("momentum", f"friction {self.momentum:g}"))
        lines += [("warning", text) for text in self.warnings]
        width = max(len(name) for name, _ in lines)
        return "\n".join(f"{name:<{width}}  {text}" for name, text in lines)


def plan(
    post: Posterior,
    method: str = "exact",
    structure: str | None = None,
    batch_size: int | None = None,
    at: PyTree | None = None,
    batches: str = "auto",
    control_variates: bool | None = None,
    geometry_rows: int | None = None,
    key: Key = 0,
    **options: Any,
) -> Plan:
    """Find the optimum, look at the loss around it, and tune a method to sample the posterior.

    Parameters
    ----------
    post
        The posterior.
    method
        One of ``ornstein.METHODS``.
    structure
        Structure of the gain; the method's default, or ``diagonal`` where a matrix would be too
        large.
    batch_size
        Rows per minibatch. By default those that make the quickest draws (with control variates as
        few as the rows' leverages allow), or 100 for methods that want small steps; at most a
        quarter of the rows.
    at
        Parameters to plan at; the optimum is found if not given.
    batches
        ``windows``, ``independent``, ``epochs`` or ``auto`` (see :mod:`ornstein.data`).
    control_variates
        Anchor the gradients at the optimum (X9): mixing then takes a few steps however many rows
        there are. The method's default if not given: on for ``exact`` at an optimum that was found.
    geometry_rows
        Estimate A and C from this many random rows instead of all.
    key
        Chooses those rows.
    **options
        The method's own options, e.g. ``rho`` for ``exact``.

    Raises
    ------
    InputError
        For an argument that does not fit.
    UnstablePlanError
        If the chain would diverge, before any step is made.

    Examples
    --------
    >>> import ornstein as orn
    >>> X = np.linspace(-1, 1, 200)[:, None]
    >>> post = orn.models.linear(X, np.sin(X[:, 0]))
    >>> plan = orn.plan(post, method="exact", batch_size=20)
    >>> bool(plan.predicted_kl < 1e-9), plan.structure
    (True, 'dense')
    """
    if not isinstance(post, Posterior):
        raise InputError(
            f"post must be an ornstein Posterior, found {type(post).__name__}. "
            "Make one with ornstein.models or ornstein.Posterior."
        )
    chosen = methods.find(method)
    N = post.num_data
    _check.random_key(key)
    if batch_size is not None:
        _check.whole("batch_size", batch_size, high=N, why=f"the data has {N} rows")
    _check.choice("batches", batches, ("auto", *SCHEMES))
    if at is not None:
        post = post.at(at)
    structure = _structure(chosen, structure, post.dim)
    dense = post.dim <= MAX_DENSE or structure == "dense"
    if control_variates and batches == "epochs":
        raise InputError(
            "control_variates under an epoch loader are not planned for; use windows, or leave "
            "them out."
        )
    likely = at is None and structure == "dense" and batches != "epochs"
    anchored = _whether_anchored(chosen, control_variates, likely, dense)
    if batches == "weighted" and not anchored:
        raise InputError(
            "batches='weighted' draw rows by the leverage they have on control variates: use "
            "control_variates=True, or other batches."
        )
    theta = find_optimum(post) if at is None else post.layout.ravel(at)
    known = geometry(
        post, post.layout.unravel(theta), "dense" if dense else "diagonal", geometry_rows, key
    )
    make = partial(_make, chosen, structure, batches, batch_size, known, post, options)
    if anchored and advice.ill_conditioned(known):
        if control_variates:
            raise InputError(
                "control_variates need a curvature that double precision can resolve, and some "
                "columns are too nearly collinear or unequal in scale: standardise X, or drop some."
            )
        anchored = False
    if not anchored:
        return make(None)
    look = partial(
        anchor, post, known, rows=geometry_rows, key=key, scheme=batches, size=batch_size
    )
    return _self_consistent(make, look, known)


def _whether_anchored(method: Method, wanted: bool | None, likely: bool, dense: bool) -> bool:
    """Whether to use control variates; if not said, where the method likes them and they fit."""
    if wanted is None:
        return bool(method.control_variates) and likely
    if not isinstance(wanted, bool | np.bool_):
        raise InputError(f"control_variates must be True or False, found {wanted!r}.")
    if wanted and method.control_variates is None:
        raise InputError(
            f"method={method.name!r} lives on the noise of plain gradients, which control variates "
            "take away; leave control_variates out."
        )
    if wanted and not dense:
        raise InputError(
            "control_variates need the dense curvature, to know how far draws are from the "
            "anchor; use structure='dense' if its matrices fit memory, or leave them out."
        )
    return bool(wanted)


def _self_consistent(
    make: Callable[[Anchor], Plan], look: Callable[[Vector], Anchor], known: Geometry
) -> Plan:
    """A plan whose anchored noise is averaged over the very covariance it predicts (X9)."""
    cov: Vector = theory.recipes.inverse(known.num_data * known.hessian)
    for _ in range(_PASSES):
        made = make(look(cov))
        change = made.predicted_cov - cov
        scale = np.sqrt(np.diag(cov))
        if np.abs(change / scale[:, None] / scale).max() < _SETTLED:
            return made
        cov = made.predicted_cov
    raise UnstablePlanError(
        f"method={made.method!r} with control variates does not settle: away from the anchor "
        "their noise grows faster than the chain forgets. Raise batch_size, or leave "
        "control_variates out."
    )


def _structure(method: Method, structure: str | None, dim: int) -> str:
    if structure is None:
        structure = method.structures[0]
        if structure == "dense" and dim > MAX_DENSE and "diagonal" in method.structures:
            structure = "diagonal"
    return _check.choice("structure", structure, method.structures)


def _make(
    method: Method,
    structure: str,
    scheme: str,
    batch_size: int | None,
    known: Geometry,
    post: Posterior,
    options: dict[str, Any],
    anchored: Anchor | None,
) -> Plan:
    """The plan, reading windows unless another scheme is asked for or would be quicker."""
    N = known.num_data
    S = batch_size or _default_batch_size(method, known, anchored)
    if anchored is not None and anchored.multiplicity is not None:
        weighted = Batches("weighted", N, S, int(anchored.multiplicity.sum()))
        return _tune(method, structure, weighted, known, post, options, anchored)
    batches = Batches("windows" if scheme == "auto" else scheme, N, S)
    made = _tune(method, structure, batches, known, post, options, anchored)
    steps = min(made.segment_draws(made.thin) * made.thin, made.warmup + made.draws * made.thin)
    # Arranging takes time by the column, gathering a batch hardly so.
    if scheme == "auto" and steps * S < (_WORTH_ARRANGING + post.dim / 4) * N:
        independent = Batches("independent", N, S)
        made = _tune(method, structure, independent, known, post, options, anchored)
    return made


def _default_batch_size(method: Method, known: Geometry, anchored: Anchor | None) -> int:
    if anchored is not None:
        return anchored_batch_size(known, anchored)[0]
    if method.any_step and known.structure == "dense":
        return plain_batch_size(known)
    return max(1, min(100, known.num_data // 4))


def _tune(
    method: Method,
    structure: str,
    batches: Batches,
    known: Geometry,
    post: Posterior,
    options: dict[str, Any],
    anchored: Anchor | None,
) -> Plan:
    N, labels = batches.num_data, tuple(post.labels)
    noise_cov = known.noise_cov if anchored is None else anchored.noise_cov
    factor = batches.noise_factor
    setting = Setting(known.hessian, noise_cov * factor, factor, N, anchored is not None)
    recipe = method.recipe(structure, setting, options, tuple(signature(plan).parameters))
    if anchored is not None and recipe.injected_cov is None:
        raise InputError(
            "control_variates leave no noise at the optimum, and rho=0 injects none: the chain "
            "would come to rest. Use rho=1, or control_variates=False."
        )
    K, A, C_S, Q = _as_problem(recipe, setting)
    mu = recipe.momentum
    modes = theory.modes(K, A)
    advice.refuse_unstable(method, modes, mu, A, labels)
    cov = _predict(recipe, batches, K, A, C_S, Q)
    limit = theory.ou_covariance(K, A, C_S / mu if mu < 1 else C_S, Q)
    relaxation = float(np.max(theory.relaxation_steps(modes.rates, mu)))
    advice.refuse_endless(relaxation)
    thin = _stride(relaxation, batches)
    flat = cov[:, 0, 0] if known.structure == "diagonal" else cov
    kl = theory.posterior_kl(cov, A, N)
    return Plan(
        method=method.name,
        equation=method.variants[structure][0],
        target=method.target,
        structure=structure,
        batches=batches,
        gain=as_operator(recipe.gain),
        injected_cov=None if recipe.injected_cov is None else as_operator(recipe.injected_cov),
        momentum=mu,
        geometry=known,
        anchor=anchored,
        noise_share=float(np.max(theory.noise_shares(modes, C_S, Q))),
        labels=labels,
        layout=post.layout,
        model=post.model,
        predicted_cov=flat,
        predicted_kl=kl,
        predicted_kl_ou=theory.posterior_kl(limit, A, N),
        relaxation_steps=relaxation,
        stability_margin=float(1 - modes.rates.max() / (2 * (2 - mu))),
        warmup=_WARMUP * thin,
        thin=thin,
        draws=_DRAWS,
        warnings=tuple(
            advice.warnings(method, structure, batches, known, anchored, labels, kl, relaxation)
        ),
    )


def _stride(relaxation: float, batches: Batches) -> int:
    """Steps between kept draws: a relaxation time."""
    steps = max(1, round(relaxation))
    if batches.scheme == "epochs":  # draws that see every phase of an epoch
        while math.gcd(steps, batches.per_epoch) > 1:
            steps += 1
        return steps
    return steps if steps <= 256 else -(-steps // 64) * 64  # splits evenly into blocks


def _as_problem(recipe: Recipe, setting: Setting) -> tuple[Vector, Vector, Vector, Vector | None]:
    """K, A, C_S, Q as matrices, or as a batch of 1 x 1 problems where only diagonals are known."""
    dim = len(setting.hessian)
    if setting.hessian.ndim == 2:
        K = as_operator(recipe.gain).dense(dim)
        Q = None if recipe.injected_cov is None else as_operator(recipe.injected_cov).dense(dim)
        return K, setting.hessian, setting.batch_noise_cov, Q

    def single(values: Vector) -> Vector:
        return np.broadcast_to(values, (dim,))[:, None, None]

    injected = None if recipe.injected_cov is None else single(recipe.injected_cov)
    return single(recipe.gain), single(setting.hessian), single(setting.batch_noise_cov), injected


def _predict(
    recipe: Recipe, batches: Batches, K: Vector, A: Vector, C_S: Vector, Q: Vector | None
) -> Vector:
    if recipe.momentum < 1:
        if batches.scheme == "epochs":
            raise InputError("Momentum under an epoch loader is not planned for; use windows.")
        return theory.momentum_covariance(K, A, C_S, recipe.momentum, Q)
    if batches.scheme == "epochs":
        return theory.epoch_covariance(K, A, C_S, batches.per_epoch, Q)
    return theory.finite_step_covariance(K, A, C_S, Q)
