"""Mistakes that are found together, and told at once."""

from collections.abc import Iterator
from contextlib import contextmanager

from ornstein._base.errors import InputError


class Problems:
    """Input errors, kept until all that can be looked at has been.

    >>> problems = Problems()
    >>> for name in ("a", "b"):
    ...     with problems.noted():
    ...         raise InputError(f"Column {name} is empty.")
    >>> problems.raise_all("The table")
    Traceback (most recent call last):
        ...
    ornstein._base.errors.InputError: The table has 2 problems:
      1. Column a is empty.
      2. Column b is empty.
    """

    def __init__(self) -> None:
        self.errors: list[InputError] = []

    @contextmanager
    def noted(self) -> Iterator[None]:
        """Keep an input error that is raised inside, and go on after."""
        try:
            yield
        except InputError as error:
            self.errors.append(error)

    def raise_all(self, where: str) -> None:
        """Raise what was found: a single error as it is, several as a numbered list."""
        if len(self.errors) == 1:
            raise self.errors[0]
        if self.errors:
            lines = [f"\n  {i}. {error}" for i, error in enumerate(self.errors, start=1)]
            raise InputError(f"{where} has {len(lines)} problems:{''.join(lines)}")
