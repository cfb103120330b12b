"""Runs a page's blocks of code in one namespace; started by test_readme.py as a program.

Reads JSON from standard input, a list of ``[kind, code]``, and prints a JSON list of what each
block printed. The command line's blocks run in the same process.
"""

import contextlib
import io
import json
import shlex
import sys
from typing import Any


def main() -> None:
    """Run all blocks in order."""
    namespace: dict[str, Any] = {"__name__": "__main__"}
    printed = []
    for number, (kind, code) in enumerate(json.load(sys.stdin)):
        out = io.StringIO()
        with contextlib.redirect_stdout(out):
            if kind == "python":
                exec(compile(code, f"block {number}", "exec"), namespace)
            else:
                _command_lines(code)
        printed.append(out.getvalue())
    print(json.dumps(printed))


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
