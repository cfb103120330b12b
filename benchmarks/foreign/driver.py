"""Make the foreign environments and run their scripts.

``python -m benchmarks.foreign.driver --install`` makes ``.bench/posteriors``, ``.bench/tfp`` and so
on, all or those that are named after ``--install``.
"""

import argparse
import json
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from benchmarks.foreign.clock import Task, save
from benchmarks.workloads import load

ROOT = Path(__file__).resolve().parents[2]
PACKAGES = {
    "posteriors": [["torch==2.13.0", "numpy"], ["posteriors"]],
    "tfp": [["tensorflow-cpu", "tensorflow-probability", "tf-keras"]],
    "pymhss": [["pymhss", "jax"]],
    "gpboost": [["gpboost", "numpy"]],
    "statsmodels": [["statsmodels", "numpy"]],
    "bambi": [["bambi"]],
}
"""What to install, in order."""

RATES = ("posteriors", "tfp")
"""Those with rates on W1 to W3."""

TIMEOUT = 600


def install(only: Sequence[str] = ()) -> None:
    """Make the environments, all or some, anew where they exist."""
    for name in only or PACKAGES:
        orders = PACKAGES[name]
        subprocess.run([sys.executable, "-m", "venv", "--clear", _home(name)], check=True)
        for packages in orders:
            subprocess.run([_python(name), "-m", "pip", "install", "-q", *packages], check=True)


def run(repeats: int) -> dict[str, dict[str, object]]:
    """Rates of W1 to W3 by script, or under ``unavailable`` the reason why there are none.

    The scripts run one after another, in processes of their own: unlike the other rates, these are
    not interleaved.
    """
    with TemporaryDirectory() as folder:
        for name in ("W1", "W2", "W3"):
            work = load(name)
            task = {key: getattr(work, key) for key in Task.__annotations__}
            save(Path(folder) / f"{name}.npz", Task(**task))
        return {name: _run(name, folder, repeats) for name in RATES}


def _run(name: str, folder: str, repeats: int) -> dict[str, object]:
    found = call(name, f"{name}_rate", folder, str(repeats))
    return found if "unavailable" in found else {"rates": found}


def call(name: str, script: str, *arguments: str) -> dict[str, Any]:
    """What a script says last, as JSON; or under ``unavailable`` the reason why it says nothing."""
    if not _python(name).exists():
        return {"unavailable": "not installed; see python -m benchmarks.foreign.driver --help"}
    environ = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}
    environ |= {"TF_USE_LEGACY_KERAS": "1", "TF_CPP_MIN_LOG_LEVEL": "3"}
    return _said([str(_python(name)), "-m", f"benchmarks.foreign.{script}", *arguments], environ)


def ours(module: str, *arguments: str) -> dict[str, Any]:
    """The same of a module of this environment, in a process of its own."""
    return _said([sys.executable, "-m", module, *arguments], dict(os.environ))


def _said(command: list[str], environ: dict[str, str]) -> dict[str, Any]:
    try:
        done = subprocess.run(
            command, cwd=ROOT, env=environ, capture_output=True, text=True, timeout=TIMEOUT
        )
    except subprocess.TimeoutExpired:
        return {"unavailable": f"no answer in {TIMEOUT} seconds"}
    if done.returncode:
        return {"unavailable": (done.stderr.strip() or "no message").splitlines()[-1]}
    said: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return said


def _home(name: str) -> Path:
    return ROOT / ".bench" / name


def _python(name: str) -> Path:
    return _home(name) / ("Scripts/python.exe" if os.name == "nt" else "bin/python")


def main() -> None:
    """Install if asked, or else print the rates."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--install", nargs="*", help="make the environments, all or some")
    parser.add_argument("--repeats", type=int, default=3)
    options = parser.parse_args()
    if options.install is not None:
        install(options.install)
    else:
        print(json.dumps(run(options.repeats), indent=2))


if __name__ == "__main__":
    main()
