"""The kernels that need nothing but a minibatch gradient, by the name of their rule."""

from ornstein._base.types import PyTree
from ornstein.linalg.operators import Operator
from ornstein.planning.kernels import decreasing, first_order, momentum
from ornstein.planning.kernels.contract import Gradient, Kernel


def build(
    rule: str,
    gradient: Gradient,
    dim: int,
    dtype: object,
    gain: Operator,
    noise_factor: Operator | None,
    constants: PyTree,
) -> Kernel:
    """The kernel of a rule; ``constants`` are its own, beside gain and noise."""
    if rule == "momentum":
        return momentum.build(gradient, dim, dtype, gain, noise_factor, constants)
    if rule == "decreasing":
        return decreasing.build(gradient, dim, dtype, gain, noise_factor, *constants)
    return first_order.build(gradient, dim, dtype, gain, noise_factor)
