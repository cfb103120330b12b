"""The contract every update rule keeps, a rule that is defined and registered here included."""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import ornstein as orn
from ornstein import theory
from ornstein._base.types import Vector
from ornstein.linalg.eigen import inverse
from ornstein.linalg.operators import Dense, as_operator
from ornstein.planning import methods
from ornstein.planning.methods import Method, Setting, Tuned
from ornstein.planning.rules import (
    RULES,
    Averaged,
    Decreasing,
    FirstOrder,
    Momentum,
    Rotation,
    Rule,
    Running,
)
from ornstein.planning.rules.contract import Info, Inputs, LinearChain, register
from ornstein.storage import codec
from support import method_contract
from support.montecarlo import Floats, assert_covariance, rejects_covariance
from support.problems import regression

# A custom rule ------------------------------------------------------------------------------------


class Here(NamedTuple):
    position: jax.Array


@register
@dataclass(frozen=True)
class HalfSteps(Rule):
    """``theta' = theta - (K/2) ghat(theta)``, then the same from theta', on one batch; then noise.

    Together a first-order step of gain ``K - K A K / 4``.
    """

    name: ClassVar[str] = "half_steps"
    title: ClassVar[str] = "A pair of half steps"

    share: float = 0.5

    def covariance(self, chain: LinearChain) -> Vector:
        return theory.finite_step_covariance(*self._as_one(chain))

    def _as_one(self, chain: LinearChain) -> LinearChain:
        K, A = chain.gain, chain.hessian
        return chain._replace(gain=K - K @ A @ K / 4)

    @property
    def stability_limit(self) -> float:
        return 4.0

    def relaxation_steps(self, rates: Vector) -> Vector:
        return theory.relaxation_steps(rates - rates**2 / 4)

    def begin(self, position: jax.Array) -> Any:
        return Here(position)

    def advance(self, inputs: Inputs, state: Any, batch: Any, noise: Any) -> tuple[Any, Info]:
        position = state.position
        for _ in range(2):
            slope = inputs.gradient(position, batch)
            position = position - self.share * inputs.gain.matvec(slope)
        return Here(position if noise is None else position + noise), Info(slope)

    def lines(self) -> list[tuple[str, str]]:
        return [("steps", "in two halves")]


def tune_half_steps(setting: Setting) -> Tuned:
    """Exact, like X2: ``K = h A^-1`` makes steps of rate ``r = h - h^2 / 4``."""
    A, C_S, N = setting.hessian, setting.batch_noise_cov, setting.num_data
    newton = inverse(A)
    r = 1 / (1 + float(theory.relative_eigenvalues(A, N * C_S).max()))
    injected = (2 * r - r**2) / N * newton - r**2 * newton @ C_S @ newton
    return Tuned(2 * (1 - np.sqrt(1 - r)) * newton, injected, HalfSteps())


@pytest.fixture(scope="module", autouse=True)
def half_steps() -> Iterator[None]:
    recipe = {"dense": ("X2 in half steps", tune_half_steps)}
    with methods.registered(Method("half_steps", "SGD in pairs of half steps", recipe)):
        yield


@pytest.mark.parametrize("check", method_contract.CHECKS)
def test_a_custom_rule_keeps_the_methods_contract(check: Any) -> None:
    check("half_steps", "dense")


def test_a_custom_rule_is_planned_exactly_and_printed() -> None:
    plan = orn.plan(regression(), "half_steps", batch_size=50)
    assert abs(plan.predicted_kl) < 1e-9
    assert "in two halves" in str(plan)
    with pytest.raises(orn.InputError, match="A pair of half steps under an epoch loader"):
        orn.plan(regression(), "half_steps", batch_size=50, batches="epochs")


def test_names_are_taken_once() -> None:
    with pytest.raises(orn.InputError, match="'half_steps' is registered already"):
        register(HalfSteps)
    twice = methods.registered(orn.METHODS["sgd"])
    with pytest.raises(orn.InputError, match="'sgd' is registered already"), twice:
        pass


# Every rule ---------------------------------------------------------------------------------------

A = np.array([[2.0, 0.5, 0.0], [0.5, 1.0, 0.2], [0.0, 0.2, 0.5]])
C = np.array([[1.0, 0.3, 0.0], [0.3, 2.0, 0.0], [0.0, 0.0, 0.5]])
N, S = 1000.0, 20.0
EXTRA = 0.05 * np.eye(3)
FISHER = theory.sgfs_full(C / S, int(N), 1.0, EXTRA)
CHAIN = LinearChain(0.4 * np.eye(3), A, C / S, 0.01 * A)
EXAMPLES: dict[str, tuple[Rule, LinearChain]] = {
    "first_order": (FirstOrder(), CHAIN),
    "momentum": (Momentum(0.7), CHAIN),
    "decreasing": (Decreasing(0.5, 100.0), CHAIN),
    "averaged": (Averaged(4), CHAIN),
    "running": (
        Running("dense", 1.0, N, 1 / S, EXTRA, C),
        LinearChain(FISHER.gain, A, C / S, FISHER.injected_cov),
    ),
    "rotation": (Rotation(0.8, 0.2), CHAIN),
    "half_steps": (HalfSteps(), CHAIN),
}
"""A rule of every kind, and the chain it makes where gradients are ``A theta`` and noise."""
THIN, FIRST, CHAINS = 5, 500, 64

PLANS: dict[str, dict[str, Any]] = {
    "first_order": {"method": "sgd"},
    "momentum": {"method": "momentum", "momentum": 0.8},
    "decreasing": {"method": "sgld", "decay": 0.4},
    "averaged": {"method": "averaged", "window": 7},
    "running": {"method": "sgfs", "estimate": "running"},
    "rotation": {"method": "rotation", "control_variates": False},
    "half_steps": {"method": "half_steps"},
}
"""How to plan for every rule."""


def planned(name: str) -> tuple[orn.Posterior, orn.Plan]:
    post = regression()
    return post, orn.plan(post, batch_size=40, **PLANS[name])


def inputs_of(rule: Rule, chain: LinearChain) -> Inputs:
    """What steps use where a batch is the noise of its gradient."""

    def gradient(position: jax.Array, batch: jax.Array) -> jax.Array:
        return jnp.asarray(A) @ position + batch

    def moments(position: jax.Array, batch: jax.Array) -> tuple[jax.Array, jax.Array]:
        return gradient(position, batch), jnp.asarray(C)

    root = None if chain.injected_cov is None else Dense(chain.injected_cov).sqrt()
    noise = rule.noise_factor(root)
    return Inputs(gradient, as_operator(chain.gain), noise, 3, float, THIN, moments)


def iterates(
    rule: Rule, chain: LinearChain, key: jax.Array, start: Floats, draws: int, quiet: bool
) -> Any:
    """Draws of one chain, and its state's position after each."""
    inputs = inputs_of(rule, chain)
    _, batches, noises = jax.random.split(key, 3)
    root = np.zeros((3, 3)) if quiet else np.linalg.cholesky(C / S)
    steps = draws * THIN
    errors = jax.random.normal(batches, (steps, 3)) @ jnp.asarray(root).T
    noise = None if quiet else inputs.noise(noises, (steps,))

    def draw(state: Any, ready: Any) -> Any:
        state, _ = jax.lax.scan(lambda s, r: (rule.advance(inputs, s, *r)[0], None), state, ready)
        return state, (rule.read(state), state.position)

    ready = jax.tree.map(lambda leaf: leaf.reshape(-1, THIN, 3), (errors, noise))
    return jax.lax.scan(draw, rule.begin(jnp.asarray(start)), ready)[1]


def test_every_rule_is_an_example() -> None:
    assert set(EXAMPLES) == set(PLANS) == set(RULES)


@pytest.mark.parametrize("name", EXAMPLES)
def test_T2_X4_X5_R8_linear_chains_have_the_predicted_covariance(name: str) -> None:
    rule, chain = EXAMPLES[name]
    draws, keys = 1600, jax.random.split(jax.random.key(1), CHAINS)
    stationary = np.linalg.cholesky(rule.covariance(chain))
    starts = np.random.default_rng(0).normal(size=(CHAINS, 3)) @ stationary.T
    run = partial(iterates, rule, chain, draws=draws + FIRST // THIN, quiet=False)
    found = np.asarray(jax.jit(jax.vmap(run))(keys, starts)[0])[:, FIRST // THIN :]
    if rule.stationary:
        predicted = rule.covariance(chain)
    else:
        predicted = rule.run_covariance(FIRST, FIRST + draws * THIN, chain)
    assert_covariance(found, np.zeros(3), predicted)
    assert rejects_covariance(found, np.zeros(3), 1.2 * predicted)


@pytest.mark.parametrize("name", EXAMPLES)
def test_T2_small_steps_reach_their_limit(name: str) -> None:
    rule, chain = EXAMPLES[name]
    K, _, C_S, Q = chain
    tiny = 1e-5
    small = LinearChain(tiny * K, A, C_S, None if Q is None else tiny * Q)
    if name == "averaged":  # whose limit is that of long windows
        rule, small = Averaged(10**7), chain._replace(injected_cov=None)
    gap = rule.covariance(small) / rule.small_step_covariance(small) - 1
    assert np.abs(np.diag(gap)).max() < 1e-3


@pytest.mark.parametrize("name", [name for name in EXAMPLES if name != "running"])
def test_T2_X4_the_stability_limit_is_where_chains_begin_to_grow(name: str) -> None:
    rule, chain = EXAMPLES[name]
    fastest = np.linalg.eigvalsh(A).max()
    if not rule.stationary:
        rule = Decreasing(0.0, 1.0)
    for factor, grows in ((0.98, False), (1.02, True)):
        gain = factor * rule.stability_limit / fastest * np.eye(3)
        faster = chain._replace(gain=gain)
        _, path = iterates(rule, faster, jax.random.key(0), np.ones(3), 100, quiet=True)
        assert bool(jnp.linalg.norm(path[-1]) > 1) == grows
        assert np.isnan(rule.covariance(chain._replace(gain=gain))).all() == grows


@pytest.mark.parametrize("name", [name for name in EXAMPLES if EXAMPLES[name][0].stationary])
def test_T2_X4_chains_forget_within_their_relaxation_time(name: str) -> None:
    rule, chain = EXAMPLES[name]
    slowest = float(rule.relaxation_steps(theory.modes(chain.gain, A).rates).max())
    draws = round(40 * slowest / THIN)
    _, path = iterates(rule, chain, jax.random.key(0), np.ones(3), draws, quiet=True)
    half = len(path) // 2
    shrunk = np.log(jnp.linalg.norm(path[-1]) / jnp.linalg.norm(path[half]))
    steps = (len(path) - 1 - half) * THIN
    assert shrunk / steps == pytest.approx(np.log(1 - 1 / slowest), rel=0.1)


@pytest.mark.parametrize("name", EXAMPLES)
def test_steps_are_pure_functions_of_their_key(name: str) -> None:
    rule, inputs = EXAMPLES[name][0], inputs_of(*EXAMPLES[name])
    state = rule.begin(jnp.array([4.0, -4.0, 1.0]))

    def step(key: jax.Array, state: Any, batch: jax.Array) -> Any:
        return rule.advance(inputs, state, batch, inputs.noise(key, ()))

    assert type(state)._fields[0] == "position"
    assert rule.vectors[0] == "position"
    assert all(np.shape(getattr(state, name)) == (3,) for name in rule.vectors)
    batches = jnp.ones((200, 3))

    @jax.jit
    def steps(seed: int) -> Any:
        keys = jax.random.split(jax.random.key(seed), 200)
        return jax.lax.scan(lambda s, r: step(r[0], s, r[1]), state, (keys, batches))

    (ended, infos), (again, _) = steps(3), steps(3)
    assert jax.tree.all(jax.tree.map(np.array_equal, ended, again))
    assert infos.gradient.shape == (200, 3)
    assert rule.read(ended).shape == (3,)
    several = jax.tree.map(lambda leaf: jnp.stack([leaf, leaf]), state)
    pair = jax.random.split(jax.random.key(1), 2)
    moved, _ = jax.jit(jax.vmap(step))(pair, several, batches[:2])
    with jax.debug_key_reuse(False):
        one, _ = step(pair[1], state, batches[1])
    assert np.allclose(moved.position[1], one.position, rtol=1e-12)
    assert not np.allclose(moved.position[0], moved.position[1])


@pytest.mark.parametrize("name", PLANS)
def test_rules_survive_json(name: str) -> None:
    _, plan = planned(name)
    assert plan.rule.name == name
    kept = codec.decode(json.loads(plan.to_json())["rule"])
    assert type(kept) is type(plan.rule)
    same(kept, plan.rule)


def same(first: Rule, second: Rule) -> None:
    leaves, others = (jax.tree.leaves(rule) for rule in (first, second))
    assert str(jax.tree.structure(first)) == str(jax.tree.structure(second))
    assert all(np.array_equal(a, b) for a, b in zip(leaves, others, strict=True))


@pytest.mark.parametrize("name", PLANS)
def test_rules_survive_a_checkpoint(name: str, tmp_path: Path) -> None:
    post, plan = planned(name)
    run: dict[str, Any] = {"key": 2, "draws": 20, "chains": 2}
    plain = orn.sample(post, plan, **run)
    kept = orn.sample(post, plan, checkpoint=tmp_path / "run", **run)
    read = orn.sample(post, plan, checkpoint=tmp_path / "run", **run)
    for found in (kept, read):
        assert np.array_equal(found.flat, plain.flat)
        same(found.plan.rule, plan.rule)


@pytest.mark.parametrize("name", PLANS)
def test_optax_carries_a_rule_or_is_said_not_to(name: str) -> None:
    _, plan = planned(name)
    if plan.rule.beyond_optax is not None:
        with pytest.raises(orn.InputError, match=f"{plan.rule.beyond_optax}.*ornstein.kernel"):
            orn.as_optax(plan)
        return
    optimiser, params = orn.as_optax(plan, key=1), {"coef": jnp.zeros(3)}
    state = optimiser.init(params)
    updates, _ = jax.jit(optimiser.update)({"coef": jnp.ones(3)}, state)
    assert np.isfinite(updates["coef"]).all()


@pytest.mark.parametrize("name", PLANS)
def test_epoch_loaders_are_planned_for_or_refused(name: str) -> None:
    options = {**PLANS[name], "batch_size": 40, "batches": "epochs"}
    if name in ("first_order", "running"):
        assert np.isfinite(orn.plan(regression(), **options).predicted_kl)
        return
    with pytest.raises(orn.InputError, match=f"{RULES[name].title} under an epoch loader"):
        orn.plan(regression(), **options)
