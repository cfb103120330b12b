"""The command line: ``ornstein --help``.

Commands import what they need when they run, JAX above all: help is there at once.
"""

import os
import sys
import warnings

from rich.console import Console

from ornstein._base.compilation import cache_settings
from ornstein._base.errors import InaccuratePlanError, OrnsteinError
from ornstein.cli import (
    calibrating,
    comparing,
    comparing_models,
    effects,
    fitting,
    paper_commands,
    predicting,
    reporting,
)
from ornstein.cli.root import app
from ornstein.cli.wording import in_options, of_the_system, warnings_in_a_line

__all__ = ["app", "main"]

COMMANDS = (
    *(fitting, predicting, reporting, effects, comparing_models),
    *(comparing, calibrating, paper_commands),
)
"""Importing them registers their commands."""

# Processor cycles, as a power of two, that OpenBLAS's threads wait for more work, all cores busy
# meanwhile. By default 2^26, so that every product of small matrices costs a fiftieth of a second.
_BLAS_WAITS = "4"

# Compiles small loops into one kernel each; read when JAX first computes something.
_FAST_LOOPS = "xla_cpu_small_while_loop_byte_threshold"


def main() -> None:
    """Run the command line; a user's mistake ends in one line on standard error."""
    _prepare_libraries()
    try:
        with warnings_in_a_line():
            app()
    except (OrnsteinError, OSError) as error:
        said = f"ornstein: {_in_words(error)}"
        Console(stderr=True).print(said, style="red", markup=False, soft_wrap=True)
        sys.exit(1)
    except KeyboardInterrupt:
        Console(stderr=True).print("ornstein: interrupted", markup=False)
        sys.exit(130)


def _in_words(error: OrnsteinError | OSError) -> str:
    if isinstance(error, InaccuratePlanError):
        return in_options(error.reason)
    return in_options(str(error)) if isinstance(error, OrnsteinError) else of_the_system(error)


def _prepare_libraries() -> None:
    """Settings read from the environment when NumPy and JAX are imported; a user's own stay."""
    os.environ.setdefault("OPENBLAS_THREAD_TIMEOUT", _BLAS_WAITS)
    flags = os.environ.get("XLA_FLAGS", "")
    if "xla_backend_extra_options" not in flags:
        option = f"--xla_backend_extra_options={_FAST_LOOPS}=65536"
        os.environ["XLA_FLAGS"] = f"{flags} {option}".strip()
    settings = cache_settings()
    if "JAX_COMPILATION_CACHE_DIR" in os.environ:  # what is in it is not ours to remove
        settings.pop("jax_compilation_cache_max_size", None)
    for name, value in settings.items():
        os.environ.setdefault(name.upper(), str(value))
    # Code that cannot be kept is compiled again: nothing to tell a user.
    warnings.filterwarnings("ignore", "Error (reading|writing) persistent compilation cache")
