"""What a measurement ran on."""

import os
import platform
from importlib.metadata import PackageNotFoundError, version

PACKAGES = (
    "jax",
    "jaxlib",
    "numpy",
    "blackjax",
    "optax",
    "numpyro",
    "numba",
    "scikit-learn",
    "ornstein",
)


def machine() -> dict[str, object]:
    """Processor, memory, system, versions and compiler flags."""
    return {
        "cpu": _cpu_model(),
        "cores": os.cpu_count(),
        "memory_gb": _memory_gb(),
        "os": platform.system(),
        "python": platform.python_version(),
        "versions": {name: _version(name) for name in PACKAGES},
        "xla_flags": os.environ.get("XLA_FLAGS", ""),
    }


def _cpu_model() -> str:
    """The model's name where Linux tells it, else the architecture."""
    try:
        with open("/proc/cpuinfo") as lines:
            names = [line.split(":", 1)[1].strip() for line in lines if "model name" in line]
    except OSError:
        names = []
    return names[0] if names else platform.processor() or platform.machine()


def _memory_gb() -> float | None:
    try:
        return round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30, 1)
    except (AttributeError, OSError, ValueError):
        return None


def _version(name: str) -> str | None:
    try:
        return version(name)
    except PackageNotFoundError:
        return None
