"""How long gradients of a model take, by its operations, so that no plan depends on the machine.

A gradient is traced, not run, and its operations are counted: products by their multiplications,
factorisations by theirs, everything else by the numbers it makes.
"""

import math
from collections.abc import Iterator
from functools import lru_cache
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.extend import core

from ornstein._base.precision import double_precision
from ornstein._base.types import PyTree
from ornstein.models.contract import Model
from ornstein.models.posterior import Posterior

_MULTIPLICATION, _NUMBER = 2e-10, 1e-10  # seconds, about: of a product, of other operations
_FUNCTION, _SPECIAL = 1e-9, 5e-8  # of an exponential or the like, of a gamma function
_CALL, _FACTORISATION = 2e-8, 1e-6  # of any operation, of a call of LAPACK
_ANCHOR = 1.5  # a remainder's gradient at the anchor, beside gradient and product with the Hessian
_REPEATED = 10  # times that a loop without a known end is gone through
_LINEAR = 2e-6, 3e-10  # of a gradient of linear predictors, and of a multiplication there
_FUNCTIONS = frozenset(
    {
        "acos",
        "acosh",
        "asin",
        "asinh",
        "atan",
        "atan2",
        "atanh",
        "cbrt",
        "cos",
        "cosh",
        "div",
        "erf",
        "erf_inv",
        "erfc",
        "exp",
        "exp2",
        "expm1",
        "log",
        "log1p",
        "logistic",
        "pow",
        "rsqrt",
        "sin",
        "sinh",
        "sqrt",
        "tan",
        "tanh",
    }
)
_SPECIALS = frozenset(
    {
        "bessel_i0e",
        "bessel_i1e",
        "digamma",
        "igamma",
        "igamma_grad_a",
        "igammac",
        "lgamma",
        "polygamma",
        "random_gamma_grad",
        "regularized_incomplete_beta",
        "zeta",
    }
)
# Fused with what uses them.
_FREE = frozenset(
    {
        "broadcast_in_dim",
        "convert_element_type",
        "copy",
        "iota",
        "neg",
        "reshape",
        "slice",
        "squeeze",
        "stop_gradient",
        "transpose",
    }
)
_CUBIC = {"cholesky": 1 / 3, "lu": 2 / 3, "qr": 2.0, "geqrf": 2.0, "eigh": 10.0, "svd": 10.0}
_CUBIC |= {"eig": 25.0, "schur": 25.0, "householder_product": 2.0, "tridiagonal_solve": 0.0}


def gradient_seconds(post: Posterior, batch_size: int, order: int = 1) -> float:
    """About how long the gradient of a batch takes, anchored to that order (X9, X10)."""
    if post.model.factored is not None:
        fixed_part, each = _LINEAR
        return fixed_part + each * batch_size * post.dim
    leaves, tree = jax.tree.flatten(post.data)
    rows = tuple(((batch_size, *leaf.shape[1:]), str(leaf.dtype)) for leaf in leaves)
    numbers, form = jax.tree.flatten(post.hyper)
    fixed = tuple((np.shape(leaf), str(np.asarray(leaf).dtype)) for leaf in numbers)
    return _gradient_seconds(post.model, tree, rows, form, fixed, order)


@lru_cache(maxsize=256)
def _gradient_seconds(
    model: Model, tree: Any, rows: tuple[Any, ...], form: Any, fixed: tuple[Any, ...], order: int
) -> float:
    def slope(theta: Any, data: PyTree, hyper: PyTree) -> Any:
        return model.gradient_sum(theta, data, hyper) + model.prior_gradient(theta, hyper)

    def anchored(theta: Any, data: PyTree, hyper: PyTree) -> Any:
        if order < 2:
            return slope(theta, data, hyper)
        return jax.jvp(lambda t: slope(t, data, hyper), (theta,), (theta,))

    with double_precision():
        theta = jax.ShapeDtypeStruct((model.layout.dim,), jnp.dtype(float))
        data = jax.tree.unflatten(tree, [_shaped(*leaf) for leaf in rows])
        hyper = jax.tree.unflatten(form, [_shaped(*leaf) for leaf in fixed])
        traced = jax.make_jaxpr(anchored)(theta, data, hyper)
    return _LINEAR[0] + (1.0 if order < 2 else _ANCHOR) * _seconds(traced.jaxpr)


def _shaped(shape: tuple[int, ...], dtype: str) -> jax.ShapeDtypeStruct:
    kind = np.dtype(dtype)
    return jax.ShapeDtypeStruct(shape, np.dtype(float) if kind.kind == "f" else kind)


def _seconds(jaxpr: core.Jaxpr) -> float:
    """Of all operations, those of functions that are called included."""
    return sum(_of(equation) for equation in jaxpr.eqns)


def _of(equation: core.JaxprEqn) -> float:
    name, params = equation.primitive.name, equation.params
    inner = [_seconds(part) for part in _parts(params)]
    if inner:
        if name == "cond":
            return max(inner)
        return sum(inner) * {"scan": params.get("length", 1), "while": _REPEATED}.get(name, 1)
    shapes = [_shape(one) for one in (*equation.invars, *equation.outvars)]
    made = max((math.prod(shape) for shape in shapes), default=0)
    if name == "dot_general":
        (contracted, _), _ = params["dimension_numbers"]
        out = math.prod(_shape(equation.outvars[0]))
        length = math.prod(shapes[0][axis] for axis in contracted)
        return _CALL + _MULTIPLICATION * out * length
    if name == "triangular_solve":
        matrix, right = shapes[0], shapes[1]
        calls = math.prod(right[:-2])
        return calls * _FACTORISATION + _MULTIPLICATION * matrix[-1] * math.prod(right)
    if name in _CUBIC:
        calls, sides = math.prod(shapes[0][:-2]), shapes[0][-2:]
        work = _CUBIC[name] * math.prod(sides) * min(sides, default=1)
        return calls * (_FACTORISATION + _MULTIPLICATION * work)
    if name in _FREE:
        return 0.0
    each = _SPECIAL if name in _SPECIALS else _FUNCTION if name in _FUNCTIONS else _NUMBER
    return _CALL + each * made


def _shape(variable: Any) -> tuple[int, ...]:
    return tuple(getattr(variable.aval, "shape", ()))


def _parts(params: dict[str, Any]) -> Iterator[core.Jaxpr]:
    """Jaxprs among an operation's parameters."""
    for value in params.values():
        for one in value if isinstance(value, tuple | list) else (value,):
            if isinstance(one, core.ClosedJaxpr):
                yield one.jaxpr
            elif isinstance(one, core.Jaxpr):
                yield one
