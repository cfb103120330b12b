"""What was run and how it turned out, in words and a few figures."""

import importlib.metadata
import platform

import jax
import numpy as np
import pandas as pd

from ornstein._base.version import __version__
from ornstein.hyper.learning import Learning, interval
from ornstein.models.hyperparameters import Learnable
from ornstein.planning.plans import Plan
from ornstein.results.accuracy import Accuracy
from ornstein.results.measure import MeasuredKL
from ornstein.results.result import Result

_MOST_DENSE = 400  # parameters whose covariances are compared entry by entry


def compares_matrices(result: Result) -> bool:
    """Whether there are draws and room enough to compare covariances."""
    chains, draws, dim = result.flat.shape
    return dim <= _MOST_DENSE and chains * draws > 2 * dim and not result.plan.geometry.approximate


def measured(result: Result) -> MeasuredKL | None:
    """Divergence of the draws from the posterior; None where it is not compared."""
    return result.measured_kl() if compares_matrices(result) else None


def figures(
    result: Result, effective: float, accuracy: Accuracy | None, seconds: float | None = None
) -> list[tuple[str, str, str]]:
    """The few figures to see first: name, value and a note.

    The time is that of all work where it is known, else that of the sampling loop.
    """
    plan, (chains, draws, dim) = result.plan, result.flat.shape
    steps = f"{result.steps:,} steps a chain" if plan.is_chain else ""
    shown = [
        ("rows", f"{plan.num_data:,}", f"{plan.batch_size:,} a step" if plan.is_chain else ""),
        ("parameters", f"{dim:,}", ""),
        _time(result, steps, seconds),
        (
            "effective draws, at least",
            f"{effective:,.0f}" if np.isfinite(effective) else "-",
            f"of {chains * draws:,}",
        ),
        _predicted(plan),
    ]
    if accuracy is not None:
        mean, sd = (np.abs(part).max() for part in (accuracy.mean_error, accuracy.sd_error))
        known = bool(np.isfinite([mean, sd]).all())
        note = f"in posterior standard deviations; these are off by {sd:.0%}"
        note = note if known else accuracy.verdict
        shown.append(("measured error of means", f"{mean:.2f} sd" if known else "-", note))
    return shown


def _time(result: Result, steps: str, seconds: float | None) -> tuple[str, str, str]:
    if seconds is None:
        return "sampling time", f"{result.seconds:.2g} s", steps
    sampling = f"sampling {result.seconds:.2g} s"
    return "time", f"{seconds:.0f} s", f"{sampling}, {steps}" if steps else sampling


def _predicted(plan: Plan) -> tuple[str, str, str]:
    """How far the plan said that draws would be from the posterior."""
    error = plan.predicted_error
    if error is None:
        return "predicted error", "not measured", plan.unmeasured
    if not np.isfinite([error.mean, error.sd]).all():
        return "predicted error", "unbounded", "the pilot found no draws of the posterior"
    note = f"standard deviations: {error.sd:.0%}; {error.known}"
    return "predicted error of means", f"{error.mean:.2f} sd", note


def plan_in_words(result: Result, found: MeasuredKL | None) -> list[str]:
    """What was tuned, what was predicted, what was run and what was measured."""
    plan, used = result.plan, result.settings
    chains, draws, dim = result.flat.shape
    aim = {
        "posterior": "the posterior's Gaussian at its mode",
        "sandwich": "the sandwich covariance, which is valid even if the model is wrong",
    }[plan.target]
    if plan.geometry.clustered is not None:
        count = plan.geometry.clustered.clusters
        aim += f", with the rows of each of {count:,} clusters taken as dependent"
    lines = [_tuned(plan) if plan.is_chain else f"Method {plan.method} ({plan.equation})."]
    gaussian = {
        "posterior": "the Gaussian at the posterior's mode",
        "sandwich": "the sandwich covariance",
    }[plan.target]
    promise, kept = f"draws {nats(plan.predicted_kl)} away from {gaussian}", ""
    if plan.is_chain:
        promise += (
            f", a relaxation time of {plan.relaxation_steps:,.1f} steps, and a stability margin of "
            f"{plan.stability_margin:.0%} (100% is an infinitesimal step, at 0% chains diverge)"
        )
        every = "every step" if used.thin == 1 else f"every {used.thin:,} steps"
        kept = f", one {every} after a warm-up of {used.warmup:,}"
    lines += [
        f"Before the run, the plan predicted {promise}. It aims at {aim}.",
        f"{chains} chains made {draws:,} draws each of {dim:,} parameters{kept}, in "
        f"{result.seconds:.2g} seconds.",
    ]
    if found is not None:
        lines.append(
            f"Mean and covariance of the draws are {nats(found.value)} away from that Gaussian; as "
            f"many draws of it would be {nats(found.floor)} away by chance."
        )
    return lines


def _tuned(plan: Plan) -> str:
    parts = [f"a {plan.structure} gain ({plan.equation})"]
    if plan.injected_cov is not None:
        parts.append("injected noise")
    parts += [f"{label} {text}" for label, text in plan.rule.lines()]
    *first, last = parts
    tuned = f"{', '.join(first)} and {last}" if first else last
    reads = {
        "windows": "consecutive rows of a shuffled copy",
        "independent": "drawn independently",
        "weighted": "drawn by their leverage",
        "epochs": "by an epoch loader",
    }.get(plan.batches.scheme, plan.batches.scheme)
    text = (
        f"Method {plan.method} with {tuned}, tuned for minibatches of {plan.batch_size:,} of "
        f"{plan.num_data:,} rows, {reads}."
    )
    if plan.control_variates:
        text += " Control variates at the optimum remove most of the gradients' noise."
    return text


def nats(value: float) -> str:
    """A divergence, in nats."""
    return f"{value:.2g} nats" if value >= 1e-4 else "below 0.0001 nats"


def learned(learning: Learning, learnable: Learnable) -> pd.DataFrame:
    """One line per learned hyperparameter: value, Monte-Carlo error, interval."""
    low, value, high = interval(learning, learnable)
    errors = np.concatenate([np.reshape(leaf, -1) for leaf in jax.tree.leaves(learning.errors)])
    columns = {
        "value": value,
        "Monte-Carlo error": errors,
        "low 95%": low,
        "high 95%": high,
    }
    return pd.DataFrame(columns, index=list(learning.labels))


def how_run(result: Result) -> str:
    """The run's settings."""
    used = result.settings
    return (
        f"{used.chains} chains of {used.draws:,} draws, thin {used.thin:,}, warm-up "
        f"{used.warmup:,}, {used.dtype}"
    )


def settings(run: str, key: int | None) -> dict[str, str]:
    """What the same draws need: the key, how it was run, and the versions."""
    return {
        **({} if key is None else {"key": str(key)}),
        "run": run,
        "versions": ", ".join(
            [
                f"ornstein {__version__}",
                *(f"{name} {importlib.metadata.version(name)}" for name in ("jax", "numpy")),
                f"Python {platform.python_version()}",
            ]
        ),
        "machine": f"{platform.system()} {platform.machine()}",
    }
