"""The anchor of a mixed model by turns: where to begin, and how strongly groupings are coupled.

Optimum and hyperparameters are found by turns, too: the model of every turn has an exact arrow with
a small head (X14), and is improved given the others. How quickly turns forget where they began is
known from the coupling of the groupings' effects.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import jax.numpy as jnp
import numpy as np

from ornstein._base.precision import double_precision
from ornstein._base.types import Vector
from ornstein.curvature import arrow_sums
from ornstein.curvature.arrow_anchor import (
    MixedAnchor,
    around,
    auxiliary_widths,
    improved,
    learned,
    spread,
    start,
)
from ornstein.linalg.arrow import ArrowRoot
from ornstein.linalg.eigen import lanczos
from ornstein.models.random_effects.posterior import MixedPosterior
from ornstein.models.random_effects.turn_rows import TurnModel
from ornstein.models.random_effects.turns import Place, turns_of

_ROUNDS = 15
_SETTLED = 0.05  # change of a hyperparameter on the real line,
_STILL = 0.03  # and of predictors, in posterior standard deviations
_PRODUCTS = 24  # of Lanczos' method


@dataclass(frozen=True, eq=False)
class TurnsAnchor:
    """Parameters and hyperparameters, and around them every turn's own model to second order.

    Attributes
    ----------
    phi, b, lam
        Head, leaves and hyperparameters of the whole model.
    models, posts
        Every turn's rows, and its own model with the held effects at the anchor.
    parts
        The anchors of these.
    """

    phi: Vector
    b: Vector
    lam: Vector
    models: tuple[TurnModel, ...]
    posts: tuple[MixedPosterior, ...]
    parts: tuple[MixedAnchor, ...]

    @property
    def passes(self) -> int:
        """Passes over the rows that the last round took."""
        return sum(part.passes for part in self.parts)

    def moved(self, post: MixedPosterior, lam: Vector) -> "TurnsAnchor":
        """To other hyperparameters, the optimum found again."""
        place = Place.of(post.specification, self.phi, self.b)
        return _improved(post, self.models, place, np.asarray(lam, float), False)

    def auxiliary_widths(self, post: MixedPosterior) -> Vector:
        """About the standard deviations of the family's own parameters, given the effects."""
        del post
        return auxiliary_widths(self.posts[0], self.parts[0])


def find_turns(post: MixedPosterior) -> TurnsAnchor:
    """From nothing."""
    spec = post.specification
    models = tuple(TurnModel.of(post, turn) for turn in turns_of(spec))
    effects = tuple(np.zeros((one.width, one.levels)) for one in spec.groupings)
    return _improved(post, models, Place(post.prior_mean, effects), start(post), True)


def _improved(
    post: MixedPosterior,
    models: Sequence[TurnModel],
    place: Place,
    lam: Vector,
    learn: bool,
) -> TurnsAnchor:
    """Round by round until neither predictors nor, where they are learned, ``lam`` change."""
    lam = lam.copy()
    found: list[MixedAnchor | None] = [None] * len(models)
    spreads = np.zeros(len(models))
    still, last = _STILL * np.sqrt(post.dim), None
    for _ in range(_ROUNDS):
        before = lam.copy()
        for number, model in enumerate(models):
            turn, known, own = model.turn, found[number], model.given(place)
            data = None if known is None else known.data
            here = improved(own, *turn.taken(place), lam[turn.hyper], data)
            if learn:
                here = learned(own, here, spreads.sum() - spreads[number])
                spreads[number] = spread(own, here)
            found[number] = here
            place, lam[turn.hyper] = turn.put(place, here.phi, here.b), here.lam
        rows = own.rows.in_memory()
        predictor = arrow_sums.predictor(own.specification, rows, here.phi, here.b)
        if last is not None:
            at = arrow_sums.rows_at(own.specification, rows, here.phi, here.b, here.lam)
            power = _power(models[-1], here.lam)
            moved = np.sqrt(power * (at.curvature * (predictor - last) ** 2).sum())
            if moved < still and np.abs(lam - before).max(initial=0.0) < _SETTLED:
                break
        last = predictor
    posts = tuple(model.given(place) for model in models)
    parts = []
    for own, model, known in zip(posts, models, found, strict=True):
        turn = model.turn
        assert known is not None
        parts.append(around(own, *turn.taken(place), lam[turn.hyper], known.passes, known.data))
    return TurnsAnchor(*place.joined(), lam, tuple(models), posts, tuple(parts))


def _power(model: TurnModel, lam: Vector) -> float:
    with double_precision():
        return float(model.turn.spec.power(jnp.asarray(lam)))


def coupling(post: MixedPosterior, anchor: TurnsAnchor) -> float:
    """By how much the groupings' effects depend on each other, the others averaged over.

    The largest correlation of a direction of one with the others' best guess of it: 0 where turns
    are independent of each other, near 1 where they hardly move. With the turns' own covariances as
    units, the whole Hessian is the identity and what couples them; its lowest eigenvalue, by
    Lanczos' method, is 1 less the coupling.
    """
    spec = post.specification
    turns = [model.turn for model in anchor.models]
    roots = [
        part.precision(own).root() for part, own in zip(anchor.parts, anchor.posts, strict=True)
    ]
    nothing = Place(
        np.zeros(spec.fixed), tuple(np.zeros((g.width, g.levels)) for g in spec.groupings)
    )
    ends = np.cumsum([turn.spec.dim for turn in turns])[:-1]

    def units(z: Vector) -> tuple[Vector, Vector]:
        """Parameters: every turn's own, added up."""
        parts = [
            turn.put(nothing, *_split(root, own))
            for turn, root, own in zip(turns, roots, np.split(z, ends), strict=True)
        ]
        fixed = sum(part.fixed for part in parts)
        effects = tuple(sum(own) for own in zip(*(part.effects for part in parts), strict=True))
        return Place(fixed, effects).joined()

    def back(phi: Vector, b: Vector) -> Vector:
        place = Place.of(spec, phi, b)
        return np.concatenate(
            [
                _flat(*root.transposed(*turn.taken(place)))
                for turn, root in zip(turns, roots, strict=True)
            ]
        )

    rows = post.rows.in_memory()
    curvature = arrow_sums.rows_at(spec, rows, anchor.phi, anchor.b, anchor.lam).curvature

    def product(lines: Vector) -> Vector:
        return np.stack(
            [back(*_hessian_product(post, anchor, curvature, *units(z))) for z in lines]
        )

    # Where turns share a direction of the head, units have null vectors, which no product has.
    random = np.random.default_rng(0).normal(size=(1, sum(turn.spec.dim for turn in turns)))
    (spectrum,) = lanczos(product, product(random), min(_PRODUCTS, post.dim))
    return float(np.clip(1 - spectrum.nodes.min(), 0.0, 1.0))


def left_by_round(coupling: float, turns: int) -> float:
    """Of a Gaussian's slowest direction, what a round of turns leaves.

    Of two groupings it is the coupling's square, of more at most ``c / (2 - c)``.
    """
    c = min(coupling, 1 - 1e-6)
    return c**2 if turns == 2 else c / (2 - c)


def _hessian_product(
    post: MixedPosterior, anchor: TurnsAnchor, curvature: Vector, phi: Vector, b: Vector
) -> tuple[Vector, Vector]:
    """Of the whole Hessian, at the anchor, with parameters."""
    spec, rows = post.specification, post.rows.in_memory()
    with double_precision():
        lam = jnp.asarray(anchor.lam)
        prior = {"precision": post.prior_precision, "mean": np.zeros(spec.fixed)}
        by_phi = np.array(spec.head_prior_gradient(lam, jnp.asarray(phi), prior))
        by_b = np.asarray(spec.leaf_precision(lam)) @ b
        power = float(spec.power(lam))
    change = arrow_sums.change(spec, rows, phi, b)
    arrow_sums.add_gradient(spec, rows, power * curvature * change, by_phi, by_b)
    return by_phi, by_b


def _split(root: ArrowRoot, z: Vector) -> tuple[Vector, Vector]:
    m, q = root.head.shape[0], root.blocks.shape[0]
    phi, b = root.apply(z[:m], z[m:].reshape(q, -1))
    return phi, b


def _flat(phi: Vector, b: Vector) -> Vector:
    return np.concatenate([phi, b.reshape(-1)])
