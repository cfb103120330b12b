"""X12: verdicts on draws of known error, by long reference runs of posteriors of every shape."""

from collections import Counter
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import pytest
from benchmarks.distance import Distance, Reference, compare_to_reference
from benchmarks.families import FAMILIES
from benchmarks.references import load
from scipy.linalg import eigvalsh

import ornstein as orn
from ornstein._base.types import Vector

BLOCKS = {
    "cancer": 10,
    "separable": 10,
    "zeros": 10,
    "student": 10,
    "classes": 9,
    "sparse": 8,
    "rare": 3,
}
"""Right draws of every family: so many blocks of a long run of NUTS."""

LENGTH = 500  # draws of a block, of each of four chains
SHIFTS = (0.26, 0.3, 0.5, 1.0)  # posterior standard deviations
FACTORS = (0.8, 1.2)


class Pair(NamedTuple):
    """Draws of a posterior, what was done to them, and how far they are from the reference."""

    family: str
    what: str
    draws: Vector
    true: Distance
    spread: float = 0.0
    """The largest error of a standard deviation along any direction, of draws of another
    correlation."""

    @property
    def far(self) -> bool:
        """Whether they must not be trusted."""
        return self.true.wrong() or self.spread > 0.25


def right(family: str, post: orn.Posterior, reference: Reference) -> list[Pair]:
    """Blocks of a run of NUTS."""
    count = BLOCKS[family]
    run = orn.sample(post, method="nuts", draws=count * LENGTH, dispersion=1.0, key=7)
    blocks = np.split(run.flat, count, axis=1)
    return [Pair(family, "right", x, compare_to_reference(x, reference)) for x in blocks]


def wrong(pair: Pair, post: orn.Posterior, reference: Reference, seed: int) -> Iterator[Pair]:
    """Draws moved along a parameter or any direction, or stretched; and those of two methods."""
    rng = np.random.default_rng(seed)
    sd, centre = reference.estimates["sd"].value, pair.draws.mean(axis=(0, 1))
    W = np.linalg.cholesky(np.cov(pair.draws.reshape(-1, post.dim), rowvar=False))
    one, direction = np.eye(post.dim)[rng.integers(post.dim)], rng.normal(size=post.dim)
    moved = W @ direction
    moved /= np.abs(moved / sd).max()  # one standard deviation where it matters most
    around = pair.draws - centre
    made = {
        **{f"{s} sd along one": pair.draws + s * sd * one for s in SHIFTS},
        **{f"{s} sd along any": pair.draws + s * moved for s in SHIFTS},
        **{f"all times {f}": centre + f * around for f in FACTORS},
        **{f"one times {f}": centre + around * np.where(one > 0, f, 1.0) for f in FACTORS},
        "Laplace": orn.sample(post, method="laplace", draws=LENGTH, key=seed).flat,
        "exact": orn.sample(post, method="exact", draws=LENGTH, key=seed).flat,
    }
    for what, draws in made.items():
        yield Pair(pair.family, what, draws, compare_to_reference(draws, reference))


def uncorrelated(pair: Pair, cov: Vector, reference: Reference, seed: int) -> Iterator[Pair]:
    """Draws whose means and standard deviations are right and whose correlations are not.

    Every column shuffled, so that correlations are gone, or all correlations halved; ``cov`` is the
    posterior's covariance.
    """
    chains, count, dim = pair.draws.shape
    flat, sd = pair.draws.reshape(-1, dim), np.sqrt(np.diagonal(cov))
    alone, halved = np.diag(sd**2), 0.5 * (cov + np.diag(sd**2))
    shuffled = np.random.default_rng(seed).permuted(flat, axis=0)
    onto = np.linalg.cholesky(halved) @ np.linalg.inv(np.linalg.cholesky(cov))
    centre = flat.mean(axis=0)
    made = {
        "shuffled": (shuffled, alone),
        "correlations halved": (centre + (flat - centre) @ onto.T, halved),
    }
    for what, (draws, its_cov) in made.items():
        x = draws.reshape(chains, count, dim)
        off = np.abs(np.sqrt(eigvalsh(its_cov, cov)[[0, -1]]) - 1).max()
        yield Pair(pair.family, what, x, compare_to_reference(x, reference), float(off))


def judged(families: dict[str, int] = BLOCKS) -> list[tuple[Pair, orn.Accuracy]]:
    """Every pair and its verdict; of the wrong ones, those of the first two blocks."""
    references, found = load(), []
    for family in families:
        post, reference = FAMILIES[family](), references[family]
        blocks = right(family, post, reference)
        pairs = list(blocks)
        every = np.concatenate([block.draws for block in blocks]).reshape(-1, post.dim)
        for seed, block in enumerate(blocks[:2]):
            pairs += wrong(block, post, reference, seed)
            pairs += uncorrelated(block, np.cov(every, rowvar=False), reference, seed)
        found += [(pair, orn.check(post, pair.draws)) for pair in pairs]
    return found


@pytest.mark.slow
def test_X12_verdicts_are_right_about_draws_of_every_family() -> None:
    """Of sixty right draws at most three are doubted; none is trusted that is far off."""
    found = judged()
    sound = Counter(said.verdict for pair, said in found if pair.what == "right")
    far = [(pair, said) for pair, said in found if pair.what != "right" and pair.far]
    assert sound.total() >= 60
    assert sound["ok"] >= 57
    assert len(far) >= 60
    assert sum(not pair.true.wrong() for pair, _ in far) >= 12  # wrong by correlations alone
    trusted = [(pair.family, pair.what, pair.true) for pair, said in far if said.verdict == "ok"]
    assert not trusted
