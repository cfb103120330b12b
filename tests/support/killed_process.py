"""The command line, killed where it calls a function: ``python killed_process.py PLACE fit ...``.

``PLACE`` is ``module:attribute``; the process is killed as the attribute is called.
"""

import os
import signal
import sys
from functools import reduce
from importlib import import_module
from typing import Any


def killed(*_: Any, **__: Any) -> None:
    """Die without a word, as by ``kill -9``."""
    os.kill(os.getpid(), signal.SIGKILL)


if __name__ == "__main__":
    place, *arguments = sys.argv[1:]
    module, way = place.split(":")
    *path, name = way.split(".")
    setattr(reduce(getattr, path, import_module(module)), name, killed)
    sys.argv = ["ornstein", *arguments]
    from ornstein.cli import main

    main()
