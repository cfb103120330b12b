"""What the library raises and warns of on purpose."""


class OrnsteinError(Exception):
    """Base of every error the library raises on purpose."""


class InputError(OrnsteinError, ValueError):
    """An argument is wrong; the message says which, what was found and what to do."""


class AmbiguousTargetError(InputError):
    """A target can be read in several ways, and only its meaning decides.

    ``choices`` has the models that suit, and what the target is to each.
    """

    def __init__(self, message: str, choices: dict[str, str]) -> None:
        super().__init__(message)
        self.choices = choices


class MissingExtraError(OrnsteinError, ImportError):
    """A package is not installed that only this part of the library needs; says which extra."""


class DatasetError(OrnsteinError, RuntimeError):
    """A data set could not be read, downloaded or stored; the message says what to do."""


class UnstablePlanError(OrnsteinError, ValueError):
    """The chain would diverge (T2's stability test); the message names directions and remedy.

    ``reason`` is the same without symbols, for a list of methods.
    """

    def __init__(self, message: str, reason: str = "") -> None:
        super().__init__(message)
        self.reason = reason or message


class InaccuratePlanError(OrnsteinError, ValueError):
    """The draws would not be the posterior's, as a pilot measured; the message says why.

    ``reason`` is the same without what only Python has to offer.
    """

    def __init__(self, reason: str, in_python: str = "") -> None:
        super().__init__(f"{reason} {in_python}".strip())
        self.reason = reason


class OptimumError(OrnsteinError, RuntimeError):
    """The optimum could not be found to the accuracy the plan needs."""


class CheckpointError(OrnsteinError, RuntimeError):
    """A checkpoint cannot be written, or nothing in it can be read; the message says why."""


class CheckpointWarning(RuntimeWarning):
    """Part of a checkpoint is damaged, and the run resumes from an earlier one."""


class InterruptWarning(RuntimeWarning):
    """A run without a checkpoint was interrupted, and keeps the draws up to there."""


class TargetWarning(RuntimeWarning):
    """A run with ``draws="auto"``, or a variational fit, ended before it reached its targets."""


class DivergenceWarning(RuntimeWarning):
    """A chain became non-finite, and keeps its draws up to there; or NUTS trajectories diverged."""
