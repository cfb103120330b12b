"""A and C at a point, estimated from the rows.

In double precision whatever the sampling precision, over all rows in blocks of bounded memory, or
from a subsample with standard errors.
"""

import jax
import numpy as np

from ornstein._base.checks import choice, whole
from ornstein._base.precision import double_precision
from ornstein._base.trees import num_rows
from ornstein._base.types import Key, PyTree, Vector
from ornstein.curvature import structures
from ornstein.curvature.geometry import Geometry
from ornstein.curvature.products import FEW_LANCZOS
from ornstein.curvature.row_sums import chosen_rows
from ornstein.curvature.structures.contract import RowSums, Structure
from ornstein.linalg.bases import Basis
from ornstein.models.local import per_example
from ornstein.models.posterior import Posterior, as_posterior

_GROUPS = 32  # groups of rows whose scatter gives the subsample's standard errors


def geometry(
    post: Posterior, at: PyTree, structure: str = "dense", rows: int | None = None, key: Key = 0
) -> Geometry:
    """Estimate the curvature A and the gradient noise C at a point.

    Parameters
    ----------
    post
        The posterior.
    at
        Parameters at which to estimate; usually the optimum.
    structure
        How A and C are held: ``dense``, ``diagonal``, ``scalar``; ``kronecker`` for a model of
        linear predictors, ``per-class`` for one of classes.
    rows
        Use this many random rows instead of all, with standard errors.
    key
        Chooses the subsample.

    Examples
    --------
    >>> import ornstein as orn
    >>> post = orn.models.linear([[1.0], [2.0], [3.0]], [1.0, 2.0, 3.5])
    >>> orn.geometry(post, at={"coef": np.array([1.0])}).hessian.array
    array([[5.]])
    """
    known = tuple(name for name, one in structures.STRUCTURES.items() if one.estimated)
    chosen = structures.find(choice("structure", structure, known))
    chosen.refuse(as_posterior(post))
    return _estimate(post, at, chosen, _groups(post, rows, key))


def quick_geometry(
    post: Posterior, at: PyTree, structure: str, rows: int | None, near: Geometry | None = None
) -> Geometry:
    """A for means over the posterior: no noise, no standard errors, no ends of relative spectra.

    Along the basis of what was found nearby, if that has the same structure.
    """
    basis = None if near is None or near.structure != structure else basis_of(near)
    some = _joined(_groups(post, rows, 0))
    found = structures.find(structure)
    return _estimate(post, at, found, [some], FEW_LANCZOS, basis, with_noise=False)


def basis_of(geometry: Geometry) -> Basis | None:
    """The basis along which A is held; None where it is held by parameters."""
    basis: Basis | None = getattr(geometry.hessian, "basis", None)
    return basis


def around(post: Posterior, theta: Vector, gain: Structure, rows: int | None, key: Key) -> Geometry:
    """What a gain of some structure is made from: A and C as they are held for it."""
    gain.refuse(post)
    held = gain.held(post)
    found = geometry(post, post.layout.unravel(theta), held.name, rows, key)
    return found if held is gain else gain.attach(post, found)


def under_prior(geometry: Geometry, post: Posterior) -> Geometry:
    """The same curvature of the rows, under the prior of ``post``; what was missed stays."""
    structure = structures.find(geometry.structure)
    _, prior = structure.prior(post, geometry.center, basis_of(geometry))
    return geometry.under_prior(prior / geometry.num_data)


def _estimate(
    post: Posterior,
    at: PyTree,
    structure: Structure,
    groups: list[PyTree],
    products: int | None = None,
    basis: Basis | None = None,
    with_noise: bool = True,
) -> Geometry:
    post = post.at(at)
    theta, N = post.layout.ravel(at), post.num_data
    with double_precision():
        if basis is None and len(groups) > 1:
            basis = structure.fit(post, theta, _joined(groups))
        sums, counts = [], [num_rows(rows) for rows in groups]
        for rows in groups:
            basis, found = structure.sums(post, theta, rows, basis, with_noise)
            sums.append(found)
        gradient, prior = structure.prior(post, theta, basis)
    used = sum(counts)
    pooled = RowSums(*(np.sum(parts, axis=0) for parts in zip(*sums, strict=True)))
    mean = pooled.gradient / used
    mean = mean if basis is None else np.asarray(basis.adjoint(mean))
    hessian, noise = (
        structure.operator(part, basis) for part in structure.finish(pooled, used, prior, mean, N)
    )
    parts = [
        [structure.operator(one, basis).array for one in structure.finish(s, n, prior, mean, N)]
        for s, n in zip(sums, counts, strict=True)
    ]
    scale = np.sqrt(max(0.0, 1 - used / N) / len(parts))
    errors = [
        hessian.like(np.std(group, axis=0, ddof=1) * scale)
        if len(parts) > 1
        else hessian.scaled(0.0)
        for group in zip(*parts, strict=True)
    ]
    with double_precision():
        missed = structure.missed(post, theta, hessian, _joined(groups), products)
    return Geometry(
        center=theta,
        gradient=per_example(pooled.gradient, used, gradient, N),
        hessian=hessian,
        noise_cov=noise,
        prior_hessian=structure.operator(per_example(np.zeros_like(prior), used, prior, N), basis),
        num_data=N,
        rows_used=used,
        hessian_error=errors[0],
        noise_cov_error=errors[1],
        missed=missed,
    )


def _joined(groups: list[PyTree]) -> PyTree:
    if len(groups) == 1:
        return groups[0]
    return jax.tree.map(lambda *leaves: np.concatenate(leaves), *groups)


def _groups(post: Posterior, rows: int | None, key: Key) -> list[PyTree]:
    """All rows as one group, or a subsample in groups."""
    if rows is None:
        return [post.data]
    whole("geometry_rows", rows, low=2 * _GROUPS, high=post.num_data, why="the number of rows")
    parts = [np.sort(part) for part in np.array_split(chosen_rows(post, rows, key), _GROUPS)]
    return [jax.tree.map(lambda leaf, part=part: leaf[part], post.data) for part in parts]
