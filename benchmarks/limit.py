"""The limit: plain SGD as a loop compiled for one model, with nothing general about it.

Numba gives the source to LLVM, which vectorises it. The source is written out for the number of
columns (or classes), so that a step's gradient stays in registers; rows lie as a step reads them,
feature-major for windows and row-major for independent rows; random rows come from a hashed
counter. Every tenth iterate is kept, and chains share the cores as threads. Windows are cut from
one shuffle that is never redrawn: their order costs nothing, and their statistics are not right.
"""

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from time import perf_counter
from typing import Any

import numpy as np
import numpy.typing as npt
from numba import njit

from benchmarks.interleave import Contestant
from benchmarks.workloads import THIN, Table, Workload

_fast = njit(fastmath=True, error_model="numpy", nogil=True)
_inlined = njit(fastmath=True, error_model="numpy", inline="always")
f32, i32, u32, u64 = np.float32, np.int32, np.uint32, np.uint64

_ONE_OUTPUT = """
def step(X, labels, theta, index, rate):
    first = index[0]
    {columns}
    {start}
    for s in range({S}):
        residual = {residual}
        {gather}
    {move}
"""

_SOFTMAX = """
def step(X, labels, theta, index, rate):
    first = index[0]
    {columns}
    residual = np.empty(({S}, {K}), f32)
    for s in range({S}):
        row = {row}
        x = X[row]
        {start}
        for d in range({D}):
            {predict}
        top = max({etas})
        {exponentiate}
        scale = f32(1) / ({total})
        {normalise}
        residual[s, labels[row]] -= f32(1)
    decay, rate = rate * f32(1 / {N}), rate * f32(1 / {S})
    for k in range({K}):
        for d in range({D}):
            theta[k, d] -= decay * theta[k, d]
    for s in range(0, {S}, 4):
        {rows}
        for k in range({K}):
            coef = theta[k]
            {weights}
            for d in range({D}):
                coef[d] -= {gather}
"""


@_inlined
def _exp(x: np.float32) -> np.float32:
    """``2^whole`` by its bits, times the Taylor series of the rest."""
    x = min(max(x, f32(-87)), f32(87))
    whole = np.floor(x * f32(1.4426950408889634) + f32(0.5))
    q = x - whole * f32(0.6931471805599453)
    tail = f32(1 / 24) + q * (f32(1 / 120) + q * f32(1 / 720))
    series = f32(1) + q * (f32(1) + q * (f32(1 / 2) + q * (f32(1 / 6) + q * tail)))
    return series * i32((i32(whole) + i32(127)) << i32(23)).view(f32)


@_inlined
def _sigmoid(x: np.float32) -> np.float32:
    return f32(1) / (f32(1) + _exp(-x))


@_fast
def _draw(counter: np.uint32, index: npt.NDArray[np.uint32], bound: int) -> None:
    """Random rows below ``bound``: the counter through two rounds of multiply and shift."""
    for s in range(index.shape[0]):
        bits = u32(u32(counter + u32(s)) * u32(0x9E3779B9))
        bits = u32(u32(bits ^ (bits >> u32(16))) * u32(0x85EBCA6B))
        bits = u32(u32(bits ^ (bits >> u32(13))) * u32(0xC2B2AE35))
        index[s] = u32((u64(bits ^ (bits >> u32(16))) * u64(bound)) >> u64(32))


@dataclass(frozen=True)
class _Problem:
    """One step compiled, its rows as it reads them, and how many random numbers it needs."""

    step: Callable[..., None]
    rows: Table
    labels: npt.NDArray[np.int32]
    order: npt.NDArray[np.int64]
    drawn: int
    start: Table


def limit(work: Workload, steps: int, windows: bool) -> Contestant:
    """The compiled loop over all chains."""
    problem = _problem(work, windows)
    chain = _chain(problem.step, problem.drawn, len(work.X))
    kept = np.empty((work.chains, steps // THIN, *problem.start.shape), f32)

    def run(number: int) -> None:
        theta, counter = problem.start.copy(), u32(number * 2**32 // work.chains)
        chain(problem.rows, problem.labels, theta, f32(work.step_size), counter, kept[number])

    def rate() -> float:
        began = perf_counter()
        with ThreadPoolExecutor(min(work.chains, os.cpu_count() or 1)) as pool:
            list(pool.map(run, range(work.chains)))
        return kept.shape[0] * kept.shape[1] * THIN / (perf_counter() - began)

    return rate


def check(work: Workload) -> None:
    """Compare a step of both loops with NumPy's gradient of the same rows in double precision."""
    rng = np.random.default_rng(0)
    for windows in (False, True):
        problem = _problem(work, windows)
        theta = rng.normal(size=problem.start.shape).astype(f32) / 10
        index = rng.integers(0, len(work.X), problem.drawn).astype(u32)
        read = index[0] + np.arange(work.batch_size) if windows else index
        expected = _gradient(work, theta.astype(float), problem.order[read])
        moved = theta.copy()
        problem.step(problem.rows, problem.labels, moved, index, f32(1))
        np.testing.assert_allclose(theta - moved, expected, rtol=1e-3, atol=1e-5)


def _gradient(work: Workload, theta: npt.NDArray[Any], rows: npt.NDArray[Any]) -> Any:
    """Of the mean loss of rows, the prior's share included."""
    X, y = work.X[rows].astype(float), work.y[rows]
    eta = X @ theta.T
    if work.family == "softmax":
        p = np.exp(eta - eta.max(axis=1, keepdims=True))
        residual = p / p.sum(axis=1, keepdims=True) - np.eye(work.outputs)[y]
    else:
        residual = (eta if work.family == "linear" else 1 / (1 + np.exp(-eta))) - y
    return residual.T @ X / len(rows) + theta / len(work.X)


def _problem(work: Workload, windows: bool) -> _Problem:
    """Rows laid out, and the step written and compiled for them."""
    order = np.arange(len(work.X))
    if windows:
        np.random.default_rng(0).shuffle(order)
        order = np.concatenate([order, order[: work.batch_size]])
    X, y = work.X[order], work.y[order]
    labels = np.asarray(y, np.int32)
    start = np.zeros((work.outputs, X.shape[1]), f32)
    if work.family == "softmax":
        source = _softmax_source(work, windows)
    else:
        source, start = _one_output_source(work, windows), start[0]
        # With the label's sign in the features, the logistic residual needs no label.
        folded = (1 - 2 * labels[:, None]) * X
        X = np.column_stack([X, y]) if work.family == "linear" else folded
        X = np.ascontiguousarray(X.T if windows else X, f32)
    names: dict[str, Any] = {"np": np, "f32": f32, "exp": _exp, "sigmoid": _sigmoid}
    exec(source, names)
    drawn = 1 if windows else work.batch_size
    return _Problem(_fast(names["step"]), X, labels, order, drawn, start)


def _chain(step: Callable[..., None], drawn: int, num_data: int) -> Callable[..., None]:
    @_fast
    def chain(rows: Table, labels: Any, theta: Table, rate: Any, counter: Any, kept: Table) -> None:
        index = np.empty(drawn, u32)
        for draw in range(kept.shape[0]):
            for _ in range(THIN):
                _draw(counter, index, num_data)
                counter = u32(counter + u32(drawn))
                step(rows, labels, theta, index, rate)
            kept[draw] = theta

    return chain


def _one_output_source(work: Workload, windows: bool) -> str:
    N, D = work.X.shape
    entry = "X{0}[first + s]" if windows else "X[index[s], {0}]"
    eta = _written(f"t{{0}} * {entry}", D, " + ")
    linear = work.family == "linear"
    return _ONE_OUTPUT.format(
        S=work.batch_size,
        columns=_written("X{0} = X[{0}]", D + linear) if windows else "",
        start=_written("t{0} = theta[{0}]; g{0} = f32(0)", D),
        residual=f"{eta} - {entry.format(D)}" if linear else f"sigmoid({eta})",
        gather=_written(f"g{{0}} += residual * {entry}", D),
        move=_written(
            f"theta[{{0}}] -= rate * (g{{0}} * f32({1 / work.batch_size}) + t{{0}} * f32({1 / N}))",
            D,
        ),
    )


def _softmax_source(work: Workload, windows: bool) -> str:
    (N, D), S, K = work.X.shape, work.batch_size, work.outputs
    row = "first + {0}" if windows else "index[{0}]"
    return _SOFTMAX.format(
        N=N,
        D=D,
        S=S,
        K=K,
        columns=_written("W{0} = theta[{0}]", K),
        row=row.format("s"),
        start=_written("e{0} = f32(0)", K),
        predict=_written("e{0} += x[d] * W{0}[d]", K),
        etas=_written("e{0}", K, ", "),
        exponentiate=_written("e{0} = exp(e{0} - top)", K),
        total=_written("e{0}", K, " + "),
        normalise=_written("residual[s, {0}] = e{0} * scale", K),
        rows=_written(f"x{{0}} = X[{row.format('s + {0}')}]", 4),
        weights=_written("r{0} = rate * residual[s + {0}, k]", 4),
        gather=_written("r{0} * x{0}[d]", 4, " + "),
    )


def _written(text: str, count: int, joint: str = "; ") -> str:
    """A piece of source for every column, class or row."""
    return joint.join(text.format(number) for number in range(count))
