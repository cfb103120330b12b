"""Runs pages' blocks of code; started by test_readme.py as a program.

Reads JSON from standard input, for every page a list of ``[kind, code]``, and prints JSON: for
every page what each block printed, and the traceback that ended it, if one did. A page has a
namespace and a folder of its own; all share a process, which imports and compiles once. The command
line's blocks run in it too.
"""

import contextlib
import io
import json
import os
import shlex
import sys
import tempfile
import time
import traceback
from typing import Any

import jax


def main() -> None:
    """Run all pages in order."""
    done = {}
    for page, blocks in json.load(sys.stdin).items():
        began = time.process_time()
        with tempfile.TemporaryDirectory() as folder:
            os.chdir(folder)
            done[page] = run(page, blocks)
            os.chdir("/")
        jax.config.update("jax_enable_x64", False)
        print(f"{page}: {time.process_time() - began:.1f} s of processor time", file=sys.stderr)
    print(json.dumps(done))


def run(page: str, blocks: list[tuple[str, str]]) -> dict[str, Any]:
    """What a page's blocks print, up to the first that fails."""
    namespace: dict[str, Any] = {"__name__": "__main__"}
    printed: list[str] = []
    for number, (kind, code) in enumerate(blocks):
        out = io.StringIO()
        try:
            with contextlib.redirect_stdout(out):
                if kind == "python":
                    exec(compile(code, f"{page}, block {number}", "exec"), namespace)
                else:
                    _command_lines(code)
        except Exception:
            return {"printed": printed, "error": traceback.format_exc()}
        printed.append(out.getvalue())
    return {"printed": printed, "error": None}


def _command_lines(code: str) -> None:
    from ornstein.cli import app

    for line in code.splitlines():
        program, *arguments = shlex.split(line)
        if program != "ornstein":
            raise ValueError(f"a page runs no {program}")
        sys.argv = [program, *arguments]
        app(arguments, standalone_mode=False)


if __name__ == "__main__":
    main()
