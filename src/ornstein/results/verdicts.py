"""What a judgement can be."""

from collections.abc import Iterable

CANNOT_TELL = "cannot tell"
"""The verdict where rows or draws are too few to see what may be wrong."""

VERDICTS = ("ok", CANNOT_TELL, "warn", "fail")
"""From the best to the worst."""


def worst(verdicts: Iterable[str]) -> str:
    """The worst verdict of all."""
    return max(verdicts, key=VERDICTS.index, default="ok")
