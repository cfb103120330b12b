"""What the command line sets before NumPy and JAX are imported."""

import os
import subprocess
import sys

import pytest

_SCRIPT = """
import os, sys
from ornstein import cli
print(any(name in sys.modules for name in ("numpy", "jax")))
sys.argv = ["ornstein", "--version"]
try:
    cli.main()
except SystemExit:
    pass
print(os.environ["OPENBLAS_THREAD_TIMEOUT"])
"""


@pytest.mark.parametrize(("given", "expected"), [(None, "4"), ("9", "9")])
def test_idle_threads_of_openblas_sleep(given: str | None, expected: str) -> None:
    """By default they keep every core busy for a fiftieth of a second after each product."""
    env = {name: value for name, value in os.environ.items() if name != "OPENBLAS_THREAD_TIMEOUT"}
    if given is not None:
        env["OPENBLAS_THREAD_TIMEOUT"] = given
    command = [sys.executable, "-c", _SCRIPT]
    ran = subprocess.run(command, env=env, capture_output=True, text=True, check=True)
    imported, _, timeout = ran.stdout.split("\n")[:3]
    assert (imported, timeout) == ("False", expected)
