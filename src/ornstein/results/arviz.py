"""ArviZ, imported where it is first needed: that takes a second."""

import tempfile
import warnings
from importlib import import_module
from typing import Any


def arviz_module() -> Any:
    """ArviZ, even where its own notice cannot be shown.

    On the first import of a day some versions show one and keep the date in the user's cache
    folder. That fails where another process does so at the same moment, or nothing can be written
    there; the date is then kept in a temporary folder.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)
        try:
            return import_module("arviz")
        except OSError:
            return _with_temporary_cache()


def _with_temporary_cache() -> Any:
    import platformdirs

    usual = platformdirs.user_cache_dir
    with tempfile.TemporaryDirectory() as folder:
        platformdirs.user_cache_dir = lambda *_, **__: folder
        try:
            return import_module("arviz")
        finally:
            platformdirs.user_cache_dir = usual
