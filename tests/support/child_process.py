"""A run in a process of its own, to be killed, interrupted, starved and shut out.

``python child.py '{"checkpoint": "run", ...}'`` prints ``ready`` when chains have begun to move,
and a digest of the draws, or the error, as its last line.
"""

import hashlib
import json
import os
import resource
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from typing import Any

import jax
import numpy as np

import ornstein as orn
from ornstein.storage import checkpoint, folders
from support.problems import regression

RUN: dict[str, Any] = {"draws": 60_000, "chains": 2, "thin": 1, "key": 7, "dtype": "float64"}
NOBODY = 65534


def digest(result: orn.Result) -> str:
    return hashlib.sha256(np.ascontiguousarray(result.flat).tobytes()).hexdigest()


def start(*words: str, **options: Any) -> subprocess.Popen[str]:
    """A child whose output is piped; ``words`` are a command line of ornstein instead."""
    command = [sys.executable, __file__, json.dumps({"words": words, **options}, default=str)]
    # A cache of compiled code would be written under the limits that a child sets itself.
    alone = {k: v for k, v in os.environ.items() if k != "JAX_COMPILATION_CACHE_DIR"}
    tests = str(Path(__file__).parents[1])  # where the children find this package
    alone["PYTHONPATH"] = os.pathsep.join([tests, *sys.path[1:]])
    return subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        encoding="utf-8",
        env=alone,
    )


def wait_until_ready(child: subprocess.Popen[str]) -> None:
    """Read what it prints, up to the word; it may have ended before."""
    assert child.stdout is not None
    for line in child.stdout:
        if line.strip() == "ready":
            return


def finish(child: subprocess.Popen[str]) -> tuple[int, list[str], str]:
    """Its return code, the lines it printed, and what it said on standard error."""
    out, err = child.communicate(timeout=300)
    return child.returncode, out.strip().split("\n"), err


def _announce(name: str, pause: float) -> None:
    """Print ``ready`` at the first progress report, and take one's time at each."""

    @contextmanager
    def opened(total: int) -> Iterator[Callable[[int, int], None]]:
        del total
        said = False

        def report(done: int, total: int) -> None:
            nonlocal said
            if not said:
                print("ready", flush=True)
            said = True
            del done, total
            time.sleep(pause)

        yield report

    setattr(import_module(name), "bar", lambda *_: opened)  # noqa: B010


def die_in_write(number: int) -> None:
    """Kill this process when half of the nth file is written."""
    count, write = [0], folders.write_file

    def half(path: Path, pieces: Iterable[bytes | memoryview]) -> None:
        count[0] += 1
        if count[0] < number:
            write(path, pieces)
            return
        content = b"".join(pieces)
        with path.with_name(folders.part_of(path.name)).open("wb") as file:
            file.write(content[: len(content) // 2])
            file.flush()
            os.kill(os.getpid(), signal.SIGKILL)

    checkpoint.write_file = half  # type: ignore[attr-defined]


def _die_in(name: str, number: int) -> None:
    """Kill this process before its nth call of a function of ``os``."""
    count, function = [0], getattr(os, name)

    def counted(*arguments: Any) -> Any:
        count[0] += 1
        if count[0] == number:
            os.kill(os.getpid(), signal.SIGKILL)
        return function(*arguments)

    setattr(os, name, counted)


def _drop_rights() -> None:
    """Become nobody, whom permissions bind; others are bound already."""
    if os.geteuid() == 0:
        os.setegid(NOBODY)
        os.seteuid(NOBODY)


def main() -> None:
    options = json.loads(sys.argv[1])
    jax.config.update("jax_enable_x64", True)  # as in the parent
    signal.signal(signal.SIGINT, signal.default_int_handler)  # not inherited from a background job
    words = options.pop("words")
    _announce("ornstein.api.sampling", options.pop("pause", 0.0))
    if words:
        from ornstein.cli import main as command

        sys.argv[1:] = words
        command()
    if "die_in_write" in options:
        die_in_write(options.pop("die_in_write"))
    if "die_in" in options:
        _die_in(*options.pop("die_in"))
    post, shut = regression(rows=240), options.pop("shut", None)
    if "largest_file" in options:
        most = options.pop("largest_file")
        resource.setrlimit(resource.RLIMIT_FSIZE, (most, most))
    if shut is not None:
        print(_outcome(post, options))
        _drop_rights()
        options["checkpoint"] = shut
    print(_outcome(post, options))


def _outcome(post: orn.Posterior, options: dict[str, Any]) -> str:
    try:
        result = orn.sample(post, **{**RUN, **options})
    except (orn.OrnsteinError, KeyboardInterrupt) as error:
        return f"{type(error).__name__}: {error}"
    return f"{result.status.kind} {result.flat.shape[1]} {digest(result)}"


if __name__ == "__main__":
    main()
