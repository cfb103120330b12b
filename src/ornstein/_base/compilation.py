"""Compiled code kept on disk between processes: JAX's own cache, in a folder per machine."""

import hashlib
import os
import platform
import shutil
import time
from importlib import metadata
from pathlib import Path
from typing import Any

_MOST_BYTES = 2**28  # what was used least recently goes first
_UNUSED = 30 * 24 * 3600  # seconds after which a folder for another processor or JAX goes
_ABOUT_CPU = ("model name", "flags", "CPU part", "Features")  # of Intel and AMD, and of ARM


def cache_compiled_code(folder: str | os.PathLike[str] | None = None) -> Path | None:
    """Keep compiled code on disk, so that later processes need not compile it again.

    Call it once, before the first computation. The command line does so by itself; setting
    ``JAX_COMPILATION_CACHE_DIR`` chooses its folder, and ``JAX_ENABLE_COMPILATION_CACHE=false``
    turns it off.

    Parameters
    ----------
    folder
        Where to; by default below the user's cache folder. Each processor and version of JAX has a
        folder of its own in it, of at most 256 MiB, which goes if it is not used for a month.

    Returns
    -------
    Path or None
        The folder in use; None if it cannot be written to, and nothing is kept.

    Examples
    --------
    >>> import ornstein as orn
    >>> orn.cache_compiled_code()  # doctest: +SKIP
    """
    import jax

    settings = cache_settings(folder)
    for name, value in settings.items():
        jax.config.update(name, value)
    kept = settings.get("jax_compilation_cache_dir")
    return None if kept is None else Path(kept)


def cache_settings(folder: str | os.PathLike[str] | None = None) -> dict[str, Any]:
    """JAX's settings that keep compiled code there; none if the folder cannot be written to."""
    import platformdirs

    home = Path(folder) if folder is not None else platformdirs.user_cache_path("ornstein")
    place = home / f"compiled-{_machine()}"
    try:
        place.mkdir(parents=True, exist_ok=True)
        os.utime(place)
    except OSError:
        return {}
    if not os.access(place, os.W_OK):
        return {}
    for other in home.glob("compiled-*"):
        if time.time() - other.stat().st_mtime > _UNUSED:
            shutil.rmtree(other, ignore_errors=True)
    return {
        "jax_compilation_cache_dir": str(place.absolute()),
        "jax_compilation_cache_max_size": _MOST_BYTES,
        "jax_persistent_cache_min_compile_time_secs": 0.0,
        "jax_persistent_cache_min_entry_size_bytes": -1,
    }


def _machine() -> str:
    """A short name for this processor and JAX: compiled code is for one of each."""
    about = [platform.machine(), platform.processor(), metadata.version("jaxlib")]
    try:
        cpu = Path("/proc/cpuinfo").read_text(errors="replace").split("\n\n", 1)[0]
        about += [line for line in cpu.splitlines() if line.startswith(_ABOUT_CPU)]
    except OSError:
        pass  # not Linux
    return hashlib.sha256("\n".join(about).encode()).hexdigest()[:12]
