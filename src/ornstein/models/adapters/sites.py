"""Sites of a NumPyro model: handlers that set their values, and checks of what is supported."""

from collections.abc import Mapping
from typing import Any, TypeAlias

import jax.numpy as jnp
import numpy as np
from numpyro.distributions import biject_to
from numpyro.primitives import Messenger

from ornstein._base.checks import nearest
from ornstein._base.errors import InputError
from ornstein._base.types import Array

Site: TypeAlias = dict[str, Any]
Trace: TypeAlias = dict[str, Site]


class Plate(Messenger):  # type: ignore[misc]
    """Gives the named plate a number of rows, or all of them; never a subsample."""

    def __init__(self, name: str, size: int | None) -> None:
        super().__init__()
        self.name, self.size = name, size
        self.sizes: set[int] = set()

    def process_message(self, msg: Site) -> None:
        if msg["type"] == "plate" and msg["name"] == self.name:
            length = msg["args"][0]
            self.sizes.add(length)
            msg["args"] = length, None
            msg["value"] = jnp.arange(length if self.size is None else self.size)


class Free(Messenger):  # type: ignore[misc]
    """Maps parameters on the real line to latent sites' values; refuses unsupported sites."""

    def __init__(self, params: Mapping[str, Any], init: Mapping[str, Any], plate: str) -> None:
        super().__init__()
        self.given, self.init, self.plate = params, init, plate
        self.params: dict[str, Array] = {}
        self.values: dict[str, Array] = {}
        self.log_jacobian: Array | float = 0.0

    def process_message(self, msg: Site) -> None:
        name = str(msg.get("name"))
        if msg["type"] in ("param", "mutable", "control_flow"):
            raise InputError(
                f"the model has a site of type {msg['type']!r} ({name!r}), which is not a random "
                "variable: use numpyro.sample, with a prior."
            )
        if msg["type"] != "sample" or msg["is_observed"]:
            return
        transform = _bijection(msg, self.plate)
        shape = msg["fn"].shape(msg["kwargs"].get("sample_shape", ()))
        if name in self.given:
            free = self.given[name]
        elif name in self.init:
            start = jnp.asarray(self.init[name], float)
            if start.shape != shape:
                raise InputError(f"init[{name!r}] must have shape {shape}, found {start.shape}.")
            free = transform.inv(start)
        else:
            free = jnp.zeros(transform.inverse_shape(shape))
        value = transform(free)
        self.log_jacobian += jnp.sum(transform.log_abs_det_jacobian(free, value))
        self.params[name], self.values[name], msg["value"] = free, value, value


def _bijection(site: Site, plate: str) -> Any:
    """From the real line to the support of a latent site outside the plate."""
    name, support = site["name"], site["fn"].support
    if inside(site, plate):
        raise InputError(
            f"site {name!r} is in plate {plate!r} and not observed. Only latent sites shared by "
            "all rows can be sampled: give its data (obs=), or marginalise it."
        )
    if getattr(support, "is_discrete", False):
        raise InputError(
            f"latent site {name!r} is discrete, but SGD needs gradients: sum over its values in "
            "the model, e.g. with dist.MixtureSameFamily."
        )
    try:
        return biject_to(support)
    except NotImplementedError as error:
        raise InputError(
            f"NumPyro has no bijection from the real line to the support of {name!r}, {support}: "
            "give the site another distribution."
        ) from error


def refuse_outside(start: Mapping[str, Any]) -> None:
    """Raise where a given start is outside a site's support."""
    for name, free in start.items():
        if not np.all(np.isfinite(free)):
            raise InputError(
                f"init[{name!r}] is outside the site's support, or on its boundary; give a value "
                "inside."
            )


def refuse_missing(values: Mapping[str, Any], latent: Mapping[str, Any]) -> None:
    """Raise where draws lack a latent site."""
    missing = [name for name in latent if name not in values]
    if missing:
        raise InputError(
            f"draws lack the site {missing[0]!r}: give those of all latent sites, "
            f"{', '.join(latent)}."
        )


def plate_size(found: Trace, sizes: set[int], plate: str) -> int:
    """Number of rows of the data plate."""
    if not sizes:
        others = [name for name, site in found.items() if site["type"] == "plate"]
        has = f"its plates are {', '.join(others)}" if others else "it has no plates"
        raise InputError(
            f"the model has no plate {plate!r}: {has}. Name the plate of the rows with plate=."
            + nearest(plate, others)
        )
    if len(sizes) > 1:
        raise InputError(
            f"plate {plate!r} has several sizes, {sorted(sizes)}: all observations must share one "
            "plate of rows."
        )
    return next(iter(sizes))


def check_sites(found: Trace, scales: Mapping[str, Any], plate: str, size: int) -> None:
    """Refuse observations that are not rows of the plate, and sites that are scaled already."""
    sites = [site for site in found.values() if site["type"] == "sample"]
    for site in sites:
        name = site["name"]
        if not np.all(scales[name] == 1):
            raise InputError(
                f"site {name!r} is scaled, by handlers.scale or another plate's subsample_size. "
                "The library scales by rows itself: remove the scale (weights: numpyro.factor)."
            )
        if site["is_observed"] and not inside(site, plate):
            if site["infer"].get("is_auxiliary", False):  # numpyro.factor: part of the prior
                continue
            raise InputError(
                f"observed site {name!r} is outside plate {plate!r}: all observations must be "
                "rows of that one plate."
            )
        if site["is_observed"] and not _fits(site, plate, size):
            raise InputError(
                f"plate {plate!r} has {size} rows, but site {name!r} has distributions of batch "
                f"shape {site['fn'].batch_shape} and values of shape {np.shape(site['value'])}: "
                "give all rows."
            )
    if not any(site["is_observed"] and inside(site, plate) for site in sites):
        raise InputError(f"no site in plate {plate!r} is observed: give the data (obs=).")


def captured_axes(single: Trace, plate: str, size: int) -> dict[str, int]:
    """Observed sites whose values are not among the arguments, and their axis of rows."""
    axes = {}
    for name, site in single.items():
        if site["type"] != "sample" or not site["is_observed"] or not inside(site, plate):
            continue
        frame, values = _dim(site, plate), np.shape(site["value"])
        if site["fn"].batch_shape[frame] != 1 or values[_axis(site, plate)] not in (1, size):
            raise InputError(
                f"site {name!r} still has {site['fn'].batch_shape[frame]} rows when the model is "
                "run on one: arrays of rows must be NumPy or JAX arrays among the model's "
                "arguments, their first axis as long as the plate (or named by rows=)."
            )
        if values[_axis(site, plate)] == size:
            axes[name] = _axis(site, plate)
    return axes


def refuse_unknown(argument: str, names: Any, known: Any) -> None:
    """Raise if an argument names something unknown."""
    for name in names:
        if name not in known:
            raise InputError(
                f"{argument} names {name!r}, which is not one of {', '.join(map(str, known))}."
                f"{nearest(name, known)}"
            )


def inside(site: Site, plate: str) -> bool:
    """Whether a site is in the named plate."""
    return any(frame.name == plate for frame in site["cond_indep_stack"])


def _dim(site: Site, plate: str) -> int:
    """The plate's axis among the site's batch axes, from the right."""
    return next(frame.dim for frame in site["cond_indep_stack"] if frame.name == plate)


def _axis(site: Site, plate: str) -> int:
    """The plate's axis in the site's values, from the right."""
    return int(_dim(site, plate) - len(site["fn"].event_shape))


def _fits(site: Site, plate: str, size: int) -> bool:
    shape, axis = np.shape(site["value"]), _axis(site, plate)
    fits = len(shape) >= -axis and shape[axis] == size
    return fits and site["fn"].batch_shape[_dim(site, plate)] == size
