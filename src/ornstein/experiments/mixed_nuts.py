"""Long NUTS runs of mixed models, in the non-centred form, by NumPyro."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
from numpyro.infer import MCMC, NUTS

from ornstein._base.precision import double_precision
from ornstein._base.types import Vector
from ornstein.models.hyper_priors import Exponential, HalfNormal, HalfStudentT
from ornstein.models.random_effects.covariances import Covariance
from ornstein.models.random_effects.posterior import MixedPosterior
from ornstein.models.random_effects.specification import Specification

_LIKELIHOODS = {
    "linear": lambda eta, sigma: dist.Normal(eta, sigma),
    "logistic": lambda eta, _: dist.Bernoulli(logits=eta),
    "poisson": lambda eta, _: dist.Poisson(jnp.exp(eta)),
}


def nuts(
    post: MixedPosterior, warmup: int = 1000, draws: int = 2500, chains: int = 4, seed: int = 0
) -> dict[str, Vector]:
    """Draws (chains, draws) of coefficients, standard deviations and correlations, by name.

    The priors are the posterior's own; draws are in the user's units.
    """
    with (
        double_precision(),
        jax.numpy_dtype_promotion("standard"),
        jax.numpy_rank_promotion("allow"),
        jax.debug_key_reuse(False),  # NumPyro does
    ):
        run = MCMC(
            NUTS(_model(post), target_accept_prob=0.9),
            num_warmup=warmup,
            num_samples=draws,
            num_chains=chains,
            chain_method="vectorized",
            progress_bar=False,
        )
        run.run(jax.random.key(seed))
        found = run.get_samples(group_by_chain=True)
    fixed = post.units.fixed(np.asarray(found["beta"]))
    named = dict(zip(post.fixed_labels, np.moveaxis(fixed, 2, 0), strict=True))
    values = [np.asarray(found[name]) for name in sorted(found) if name.startswith("hyper_")]
    hyper = np.concatenate(values, axis=2)
    sizes = post.units.hyper_scale(post.specification.groupings)
    hyper[..., : len(sizes)] *= sizes
    if post.specification.noise_prior is not None:
        hyper[..., -1] *= post.units.target_scale
    return named | dict(zip(post.hyper_labels, np.moveaxis(hyper, 2, 0), strict=True))


def _model(post: MixedPosterior) -> Any:
    spec, rows = post.specification, post.rows.in_memory()
    weight = 1.0 if rows.weight is None else jnp.asarray(rows.weight)

    def model() -> None:
        prior = dist.Normal(jnp.asarray(post.prior_mean), jnp.asarray(post.prior_precision) ** -0.5)
        beta = numpyro.sample("beta", prior.to_event(1))
        eta = jnp.asarray(rows.x) @ beta
        eta = eta if rows.offset is None else eta + jnp.asarray(rows.offset)
        own = zip(spec.groupings, rows.index, rows.design, strict=True)
        for number, (grouping, index, design) in enumerate(own):
            columns = jnp.ones((rows.size, 1)) if design is None else jnp.asarray(design)
            sds, cors, at = [], [], 0
            for part, cov in enumerate(grouping.covariances):
                assert isinstance(cov, Covariance)
                name = f"{number}_{part}"
                sd = jnp.stack(
                    [
                        numpyro.sample(f"sd_{name}_{j}", _prior(one))
                        for j, one in enumerate(cov.priors)
                    ]
                )
                factor = jnp.eye(1)
                if cov.size > 1:
                    lkj = dist.LKJCholesky(cov.size, cov.concentration)
                    factor = numpyro.sample(f"cor_{name}", lkj)
                    matrix = factor @ factor.T
                    cors += [matrix[i, j] for i in range(cov.size) for j in range(i)]
                shape = (grouping.levels, cov.size)
                z = numpyro.sample(f"z_{name}", dist.Normal().expand(shape).to_event(2))
                effects = z @ (sd[:, None] * factor).T
                eta = eta + (columns[:, at : at + cov.size] * effects[index]).sum(axis=1)
                at += cov.size
                sds += list(sd)
            numpyro.deterministic(f"hyper_{number:02d}", jnp.stack([*sds, *cors]))
        sigma = None
        if spec.noise_prior is not None:
            sigma = numpyro.sample("sigma", _prior(spec.noise_prior))
            numpyro.deterministic("hyper_99", sigma[None])
        if spec.family.name in _LIKELIHOODS:
            likelihood: Any = _LIKELIHOODS[spec.family.name](eta, sigma)  # type: ignore[no-untyped-call]
            density = likelihood.log_prob(jnp.asarray(rows.y))
        else:
            density = -spec.family.loss(eta, jnp.asarray(rows.y), _own(spec, beta))
        numpyro.factor("y", (weight * density).sum())

    return model


def _own(spec: Specification, beta: Any) -> dict[str, Any]:
    """A family's own parameters, drawn; cutpoints are reported less the intercept."""
    numbers, reported = {}, []
    for one, auxiliary in zip(spec.auxiliary, spec.family.auxiliary, strict=True):
        prior = dist.Normal(jnp.asarray(one.mean), jnp.asarray(one.sd)).to_event(1)
        value = one.value(numpyro.sample(one.name, prior))
        numbers[one.name] = value
        own = auxiliary.range.compiled(value)
        reported.append(jnp.atleast_1d(own if spec.family.intercept else own - beta[-1]))
    if reported:
        numpyro.deterministic("hyper_98", jnp.concatenate(reported))
    return numbers


def _prior(prior: Any) -> Any:
    if isinstance(prior, HalfNormal):
        return dist.HalfNormal(prior.scale)
    if isinstance(prior, HalfStudentT):
        return dist.FoldedDistribution(dist.StudentT(prior.df, 0.0, prior.scale))
    assert isinstance(prior, Exponential)
    return dist.Exponential(1 / prior.scale)
