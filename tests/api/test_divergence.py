"""Chains of the defaults stay finite: hundreds of one plan, each with its own draws of everything.

As many short runs with different keys, but compiled once: a key decides starts, rows and noise.
"""

from typing import Any

import jax
import pytest
from benchmarks.families import FAMILIES

import ornstein as orn
from support.pages import ROOT, blocks

pytestmark = [pytest.mark.slow, pytest.mark.pilot]

CHAINS, DRAWS = 200, 50
EXAMPLES = {"README.md": 1, "docs/custom-models.md": 0, "docs/numpyro.md": 0}
"""By page, the block that makes a posterior and samples it by the defaults."""


def stays(post: orn.Posterior, **options: Any) -> None:
    """No chain becomes non-finite, not even one that is then drawn again."""
    result = orn.sample(post, chains=CHAINS, draws=DRAWS, key=11, **options)
    assert result.status.ok, result.status.message
    assert result.flat.shape[:2] == (CHAINS, DRAWS)
    assert not len(result.path.get("redrawn", ()))


@pytest.mark.parametrize("name", FAMILIES)
def test_no_chain_of_a_family_diverges(name: str) -> None:
    stays(FAMILIES[name]())


@pytest.mark.parametrize("page", EXAMPLES)
def test_no_chain_of_a_pages_example_diverges(page: str) -> None:
    if "numpyro" in page:
        pytest.importorskip("numpyro")
    with jax.numpy_dtype_promotion("standard"), jax.numpy_rank_promotion("allow"):
        stays(_example(page, EXAMPLES[page]))


def test_no_chain_with_a_drawn_standard_deviation_diverges() -> None:
    post = _example("docs/hyperparameters.md", 2)
    stays(post, hyper="draw", hyper_prior=orn.HalfNormal(1.0))


def _example(page: str, number: int) -> orn.Posterior:
    """The posterior of a page's block, whose code is run up to where it is sampled."""
    code, sampled, _ = blocks(ROOT / page)[number].code.partition("result = orn.sample")
    assert sampled
    namespace: dict[str, Any] = {}
    exec(code, namespace)
    post: orn.Posterior = namespace["post"]
    return post
