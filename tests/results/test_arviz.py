"""ArviZ's notice of the day: neither shown nor in the way."""

import os
import subprocess
import sys
from pathlib import Path

import platformdirs
import pytest

from ornstein.results.arviz import arviz_module

CHILD = """
import platformdirs
from ornstein.results.arviz import arviz_module
usual = platformdirs.user_cache_dir
print(arviz_module().__name__, platformdirs.user_cache_dir is usual)
"""


@pytest.mark.parametrize("taken", [False, True], ids=["writable", "not writable"])
def test_imported_whether_its_cache_folder_can_be_written_or_not(
    taken: bool, tmp_path: Path
) -> None:
    """Where a file has the folder's place nobody can write."""
    cache = tmp_path / "cache"
    if taken:
        cache.touch()
    own = {"HOME": tmp_path, "XDG_CACHE_HOME": cache, "MPLCONFIGDIR": tmp_path}
    env = os.environ | {name: str(path) for name, path in own.items()}
    command = [sys.executable, "-c", CHILD]
    done = subprocess.run(command, env=env, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, "arviz True\n", "")


def test_imported_where_another_process_was_first(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its date is then gone before it has been put into place."""
    tries = []

    def importing(name: str) -> str:
        tries.append(platformdirs.user_cache_dir("arviz"))
        if len(tries) == 1:
            raise FileNotFoundError("daily_warning.tmp")
        return name

    monkeypatch.setattr("ornstein.results.arviz.import_module", importing)
    assert arviz_module() == "arviz"
    assert tries[0] == platformdirs.user_cache_dir("arviz") != tries[1]
    assert not Path(tries[1]).exists()
