"""Priors by name on the command line, such as ``--prior "age=normal(0, 1)"``."""

import re
from collections.abc import Sequence
from typing import Any

from ornstein._base.errors import InputError

_WRITTEN = re.compile(r"\s*(?P<name>.+?)\s*=\s*(?P<kind>\w+)\s*\((?P<numbers>[^()]*)\)\s*")
_MEANINGS = {
    "normal": ("Normal", "normal(mean, sd)", 2),
    "halfnormal": ("HalfNormal", "halfnormal(scale)", 1),
    "halfstudent": ("HalfStudentT", "halfstudent(degrees of freedom, scale)", 2),
    "exponential": ("Exponential", "exponential(mean)", 1),
    "lkj": ("LKJ", "lkj(concentration)", 1),
}
KINDS = ", ".join(written for _, written, _ in _MEANINGS.values())


def read_priors(texts: Sequence[str] | None) -> dict[str, Any] | None:
    """What ``priors=`` takes, or None if there is nothing.

    Examples
    --------
    >>> read_priors(["age=normal(0, 1)", "sd(school)=halfnormal(0.5)"])
    {'age': Normal(mean=0.0, sd=1.0), 'sd(school)': HalfNormal(scale=0.5)}
    """
    found: dict[str, Any] = {}
    for text in texts or ():
        name, prior = _read(text)
        if name in found:
            raise InputError(f"--prior names {name!r} twice: leave one out.")
        found[name] = prior
    return found or None


def _read(text: str) -> tuple[str, Any]:
    import ornstein as orn
    from ornstein._base.checks import choice  # loads JAX

    matched = _WRITTEN.fullmatch(text)
    if matched is None:
        raise InputError(f"--prior {text!r} cannot be read: write NAME=KIND, with one of {KINDS}.")
    kind = choice("--prior", matched["kind"].lower(), tuple(_MEANINGS))
    made, written, count = _MEANINGS[kind]
    parts = [part.strip() for part in matched["numbers"].split(",") if part.strip()]
    try:
        numbers = [float(part) for part in parts]
    except ValueError:
        numbers = []
    if len(numbers) != count or len(parts) != count:
        raise InputError(f"--prior {text!r}: its numbers are those of {written}.")
    return matched["name"], getattr(orn, made)(*numbers)
