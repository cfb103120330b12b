"""The whole way in one call: learn or plan, run, restart where a chain diverged, and the result."""

import warnings
from collections.abc import Mapping
from inspect import signature
from pathlib import Path
from typing import Any, Literal, overload

from jax.sharding import Mesh

from ornstein._base import checks, errors
from ornstein._base.errors import InputError
from ornstein._base.progress import bar
from ornstein._base.types import Key
from ornstein.api.attempts import attempt, first_start, with_restarts
from ornstein.api.mixed import sample_mixed
from ornstein.api.planning import plan as make_plan
from ornstein.api.request import Asked, over_mesh, with_shapes
from ornstein.api.resuming import as_arguments, begun, keep
from ornstein.models.hyper_priors import HyperPrior
from ornstein.models.hyper_targets import hyper_target
from ornstein.models.likelihood_hyper import as_parameters
from ornstein.models.posterior import Posterior
from ornstein.models.random_effects.posterior import MixedPosterior
from ornstein.planning.methods import AUTO
from ornstein.planning.mixed import MixedPlan
from ornstein.planning.plans import Plan
from ornstein.results.mixed import MixedResult
from ornstein.results.result import Result
from ornstein.sampling.restarts import MOST
from ornstein.sampling.settings import Goal, Run, check_dtype
from ornstein.storage.checkpoint import opened


@overload
def sample(
    post: Posterior,
    plan: Plan | None = None,
    key: Key = 0,
    chains: int = 4,
    draws: int | Literal["auto"] | None = None,
    thin: int | None = None,
    warmup: int | None = None,
    dispersion: float | None = None,
    dtype: str | None = None,
    progress: bool | None = None,
    chunk: int | None = None,
    target_ess: float | None = None,
    target_kl_error: float | None = None,
    learn_hyper: bool | Mapping[str, Any] = False,
    hyper: Literal["fixed", "learn", "draw"] | None = None,
    hyper_prior: HyperPrior = None,
    checkpoint: str | Path | None = None,
    checkpoint_every: float | None = None,
    on_divergence: Literal["stop", "restart"] = "stop",
    mesh: Mesh | None = None,
    **plan_options: Any,
) -> Result: ...


@overload
def sample(
    post: MixedPosterior,
    plan: MixedPlan | None = None,
    key: Key = 0,
    chains: int = 4,
    draws: int | None = None,
    *,
    progress: bool | None = None,
    batch_size: int | None = None,
) -> MixedResult: ...


def sample(
    post: Posterior | MixedPosterior,
    plan: Plan | MixedPlan | None = None,
    key: Key = 0,
    chains: int = 4,
    draws: int | Literal["auto"] | None = None,
    thin: int | None = None,
    warmup: int | None = None,
    dispersion: float | None = None,
    dtype: str | None = None,
    progress: bool | None = None,
    chunk: int | None = None,
    target_ess: float | None = None,
    target_kl_error: float | None = None,
    learn_hyper: bool | Mapping[str, Any] = False,
    hyper: Literal["fixed", "learn", "draw"] | None = None,
    hyper_prior: HyperPrior = None,
    checkpoint: str | Path | None = None,
    checkpoint_every: float | None = None,
    on_divergence: Literal["stop", "restart"] = "stop",
    mesh: Mesh | None = None,
    **plan_options: Any,
) -> Result | MixedResult:
    """Draw from a posterior.

    Parameters
    ----------
    post
        The posterior. That of a mixed model takes ``plan``, ``key``, ``chains``, ``draws``,
        ``progress`` and ``batch_size``, and gives a :class:`ornstein.MixedResult`.
    plan
        From :func:`ornstein.plan`; made with ``plan_options`` if not given.
    key
        An integer or a JAX key; the same key gives the same draws, whatever the chunking.
    chains
        Independent chains, spread over the machine's cores.
    draws
        Kept draws per chain; the plan's suggestion by default. ``"auto"`` doubles them until the
        targets below are met.
    thin
        Steps per kept draw; the plan's suggestion by default.
    warmup
        Steps to discard first (rounded up to whole segments); the plan's suggestion by default.
    dispersion
        Chains start this many predicted standard deviations wide: above 1 over-dispersed, 1 in
        stationarity, 0 at the optimum. By default 2; 1 where the plan took a pilot, so that starts
        are no wider than what it has seen.
    dtype
        ``float32`` or ``float64``; JAX's own default if not given.
    progress
        Show a progress bar; on terminals only if not given.
    chunk
        Segments per dispatch; affects progress reports, never the draws.
    target_ess
        With ``draws="auto"``: the bulk effective sample size every parameter is to have. By
        default the one at which a mean's Monte-Carlo error is half the plan's tolerance,
        ``4 / tolerance^2``: 1,600.
    target_kl_error
        With ``draws="auto"``: what Monte-Carlo error alone may add to a measured KL, in nats.
    learn_hyper
        Learn the posterior's hyperparameters first, then sample at the learned values: see
        :func:`ornstein.learn`, whose options may be given by name. ``result.learning`` says how.
    hyper
        What to do with the posterior's hyperparameters: ``fixed`` keeps them (the default),
        ``learn`` is ``learn_hyper=True``, and ``draw`` draws them with the parameters (X13), so
        that intervals include their uncertainty: see ``result.hyper_draws``.
    hyper_prior
        The prior of hyperparameters that are drawn. Of a ready-made model, one of
        ``ornstein.HalfNormal``, ``HalfStudentT``, ``Exponential``, ``LogUniform`` for the standard
        deviation of its coefficients, ``prior_precision ** -0.5``, or a mapping by name; by default
        ``HalfStudentT(3, 2.5)``, and ``LogUniform()`` for the noise scale. Of a custom model, a
        function of the hyperparameters that returns their log-density.
    checkpoint
        A folder to keep the run in as it goes. The same call resumes where it stopped, to the draws
        of an uninterrupted run, bit for bit; once it has ended, it returns the result.
    checkpoint_every
        Seconds between checkpoints, which are made at the end of a chunk; 30 by default.
    on_divergence
        What to do when a chain becomes non-finite: ``stop``, and keep the draws up to there; or
        ``restart`` all chains, nearer the optimum or with shorter steps, three times at most.
        ``result.status`` and ``result.path`` say so.
    mesh
        Devices to spread over, of this host or of many (:func:`ornstein.distributed.mesh`): whole
        chains along its axis ``chains``, the rows of every batch along ``rows``. The draws do not
        depend on how many devices there are, but for rounding.
    **plan_options
        Passed to :func:`ornstein.plan` where no plan is given.

    Returns
    -------
    Result
        Draws, summary, diagnosis. A chain that becomes non-finite for once is drawn again from
        where it was sound; one that does so again, or Ctrl-C, ends the run early: see
        ``result.status``.

    Raises
    ------
    InputError
        For an argument that does not fit, or a checkpoint of another run.
    InaccuratePlanError
        If the draws of a pilot are far from the posterior, and nothing more careful helps. A plan,
        a method or its options that are given are run all the same.
    CheckpointError
        If a checkpoint cannot be written, or none of it can be read.
    KeyboardInterrupt
        On Ctrl-C with a checkpoint, which is written first.

    Examples
    --------
    >>> import numpy as np
    >>> import ornstein as orn
    >>> X = np.linspace(-1, 1, 200)[:, None]
    >>> result = orn.sample(orn.models.linear(X, X[:, 0]), batch_size=20, draws=50)
    >>> result
    Result(chains=4, draws=50, parameters=1)
    >>> result.draws["coef"].shape
    (4, 50, 1)
    """
    if isinstance(post, MixedPosterior):
        others: dict[str, Any] = {
            "thin": thin,
            "warmup": warmup,
            "dispersion": dispersion,
            "dtype": dtype,
        }
        others |= {"chunk": chunk, "target_ess": target_ess, "hyper": hyper, "mesh": mesh}
        others |= {"target_kl_error": target_kl_error, "learn_hyper": learn_hyper or None}
        others |= {"hyper_prior": hyper_prior, "checkpoint": checkpoint}
        return sample_mixed(post, plan, key, chains, draws, progress, others, plan_options)
    if isinstance(plan, MixedPlan):
        raise InputError("the plan was made for a mixed model. Plan again for this posterior.")
    post = with_shapes(post, plan, plan_options)
    if hyper is None and learn_hyper is False and plan is None and post.hyper_prior is not None:
        hyper = "draw"
        hyper_prior = post.hyper_prior if hyper_prior is None else hyper_prior
        _refuse_other_methods(plan_options)
    learn_hyper = _learning(learn_hyper, hyper, hyper_prior)
    if hyper == "draw" and post.hyper_of_rows:
        post = as_parameters(post, hyper_prior)
        hyper_prior = post.hyper_prior
        if hyper_prior is None:  # none is left to draw beside the parameters
            hyper, learn_hyper = None, False
    target = hyper_target(post, hyper_prior) if hyper == "draw" else None
    if mesh is not None:
        plan_options = over_mesh(post, plan, plan_options)
    asked = Asked(
        chains=checks.whole("chains", chains),
        draws=draws,
        thin=thin,
        warmup=warmup,
        dispersion=None if dispersion is None else checks.non_negative("dispersion", dispersion),
        dtype=check_dtype(dtype),
        target_ess=target_ess,
        target_kl_error=target_kl_error,
        on_divergence=checks.choice("on_divergence", on_divergence, ("stop", "restart")),
        chunk=None if chunk is None else checks.whole("chunk", chunk),
        key=checks.random_key(key),
        progress=progress,
        mesh=mesh,
    )
    _refuse_mixture(plan, plan_options, learn_hyper)
    with opened(checkpoint, checkpoint_every) as folder:
        start, arguments = None, {}
        if folder is not None:
            options = dict(learn_hyper) if isinstance(learn_hyper, Mapping) else learn_hyper
            given = {**asked.decisive(), "learn_hyper": options, "plan_options": plan_options}
            given |= {"plan_given": plan is not None, "on_mesh": mesh is not None}
            given |= {"hyper": hyper, "hyper_prior": repr(target)}
            arguments = as_arguments(asked.key, given)
            start = begun(folder, post, arguments, plan)
        if start is None:
            start = first_start(asked, post, plan, learn_hyper, plan_options, target)
            start = start if folder is None else keep(folder, post, arguments, start)
        shown = bar("sampling", progress)
        while True:
            plan, settings, goal, done = attempt(asked, start, shown, folder, target)
            again = asked.again(start, settings, done.status)
            if again is None:
                break
            news = f"{len(again.restarts)} of {MOST} at most: {again.restarts[-1][0]}."
            message = f"{done.status.message} Restarting, {news}"
            warnings.warn(message, errors.DivergenceWarning, stacklevel=2)
            start = again if folder is None else keep(folder, post, arguments, again)
    done = with_restarts(done, start)
    _tell(done, goal, None if folder is None else folder.folder)
    return Result(
        done.flat,
        done.status,
        plan,
        start.post,
        settings,
        done.steps,
        done.seconds,
        done.path,
        start.learning,
        done.hyper,
        target,
    )


def _tell(done: Run, goal: Goal | None, folder: Path | None) -> None:
    """Warn of a run that ended early or missed its goal; raise where a checkpoint can resume it."""
    if done.status.kind == "interrupted":
        if folder is not None:
            raise KeyboardInterrupt(
                f"{done.status.message} They are in {folder}: the same call, with "
                f"checkpoint={str(folder)!r}, resumes from there."
            )
        warnings.warn(done.status.message, errors.InterruptWarning, stacklevel=3)
    elif not done.status.ok:
        warnings.warn(done.status.message, errors.DivergenceWarning, stacklevel=3)
    elif goal is not None and done.flat.shape[1] >= goal.most and not goal.reached(done.flat):
        warnings.warn(
            f"{goal.most:,} draws a chain did not reach the targets, and more would not fit "
            "memory: raise thin, or lower the targets.",
            errors.TargetWarning,
            stacklevel=3,
        )


def sample_whole(post: Posterior, plan: Plan | None = None, **options: Any) -> Result:
    """Like :func:`sample`, for callers that cannot use half a run: Ctrl-C ends them too."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", errors.InterruptWarning)
        result = sample(post, plan, **options)
    if result.status.kind == "interrupted":
        raise KeyboardInterrupt(result.status.message)
    return result


def _learning(
    learn_hyper: bool | Mapping[str, Any], hyper: str | None, hyper_prior: object
) -> bool | Mapping[str, Any]:
    """Whether and how hyperparameters are learned, or anchored before they are drawn."""
    if not isinstance(learn_hyper, Mapping):
        learn_hyper = checks.flag("learn_hyper", learn_hyper)
    if hyper_prior is not None and hyper != "draw":
        raise InputError("hyper_prior is for hyperparameters that are drawn: use hyper='draw'.")
    if hyper is None:
        return learn_hyper
    if checks.choice("hyper", hyper, ("fixed", "learn", "draw")) == "fixed":
        if learn_hyper is not False:
            raise InputError("hyper='fixed' contradicts learn_hyper; leave one out.")
        return False
    if hyper == "learn" or learn_hyper is not False:
        return learn_hyper or True
    return {"moments": "plan"}  # near enough for an anchor, which a pilot moves


def _refuse_other_methods(plan_options: Mapping[str, Any]) -> None:
    """Raise where hyperparameters with a prior of their own would stay as they are."""
    method = plan_options.get("method", AUTO)
    if method not in (AUTO, "rotation"):
        raise InputError(
            f"method={method!r} does not draw hyperparameters, and this posterior has a prior of "
            "its own for them. Leave method out; or use hyper='fixed', or for a NumPyro model "
            "from_numpyro(..., hierarchical=False), where all sites are parameters."
        )


def _refuse_mixture(
    plan: Plan | None, plan_options: Mapping[str, Any], learn_hyper: bool | Mapping[str, Any]
) -> None:
    """Raise where a plan is given together with what would make another."""
    if plan is None:
        return
    if learn_hyper is not False:
        raise InputError(
            "a plan holds for one value of the hyperparameters: leave plan out, and give its "
            "options, to learn them."
        )
    if not isinstance(plan, Plan):
        raise InputError(f"plan must be made by ornstein.plan, found {type(plan).__name__}.")
    if plan_options:
        unknown = sorted(plan_options)[0]
        if unknown in signature(make_plan).parameters:
            raise InputError(f"{unknown!r} belongs to plan, but a plan was given.")
        near = checks.nearest(unknown, signature(sample).parameters)
        raise InputError(f"sample has no argument {unknown!r}.{near}")
