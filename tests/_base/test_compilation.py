"""Compiled code is kept between processes, and a folder that cannot be written is no obstacle."""

import os
import subprocess
import sys
import time
from pathlib import Path

from ornstein._base.compilation import cache_settings

OWN = ("JAX_COMPILATION_CACHE", "JAX_PERSISTENT_CACHE")
LIBRARY = """
import ornstein as orn, sys
print(orn.cache_compiled_code(sys.argv[1]))
import jax, jax.numpy as jnp
print(jax.jit(lambda x: jnp.sin(x) @ x)(jnp.ones(3)))
"""
COMMAND_LINE = """
from ornstein.cli import _prepare_libraries
_prepare_libraries()
import jax, jax.numpy as jnp
jax.jit(lambda x: jnp.sin(x) @ x)(jnp.ones(3))
"""


def run(args: list[str], **env: str) -> str:
    """A process of its own, without a cache of the test's."""
    outer = {name: value for name, value in os.environ.items() if not name.startswith(OWN)}
    done = subprocess.run(args, env=outer | env, capture_output=True, text=True, check=True)
    return done.stdout


def kept(folder: Path) -> set[str]:
    return {path.name for path in folder.rglob("*-cache")}


def test_a_second_process_compiles_nothing(tmp_path: Path) -> None:
    command = [sys.executable, "-c", LIBRARY, str(tmp_path)]
    place, value = run(command).splitlines()
    first = kept(tmp_path)
    assert Path(place).parent == tmp_path
    assert any("jit__lambda" in name for name in first)
    assert run(command).splitlines() == [place, value]
    assert kept(tmp_path) == first


def test_the_command_line_keeps_compiled_code(tmp_path: Path) -> None:
    table = tmp_path / "t.csv"
    table.write_text("x,y\n" + "".join(f"{i % 7},{i % 5}.5\n" for i in range(40)))
    command = [sys.executable, "-m", "ornstein", "compare", str(table), "--target", "y", "-q"]
    command += ["--method", "laplace", "--draws", "8"]
    run(command, XDG_CACHE_HOME=str(tmp_path / "home"), HOME=str(tmp_path))
    assert kept(tmp_path)


def test_the_command_line_uses_a_users_own_folder(tmp_path: Path) -> None:
    own, other = tmp_path / "own", tmp_path / "other"
    given = {"JAX_COMPILATION_CACHE_DIR": str(own), "XDG_CACHE_HOME": str(other)}
    run([sys.executable, "-c", COMMAND_LINE], **given)
    assert not kept(other)
    assert kept(own)
    assert not list(own.glob("*-atime")), "nothing is removed from it"


def test_folders_that_are_no_longer_used_go(tmp_path: Path) -> None:
    for name, days in {"compiled-old": 31, "compiled-new": 29, "else": 31}.items():
        (tmp_path / name).mkdir()
        os.utime(tmp_path / name, (time.time() - 24 * 3600 * days,) * 2)
    used = Path(cache_settings(tmp_path)["jax_compilation_cache_dir"]).name
    assert {path.name for path in tmp_path.iterdir()} == {"compiled-new", "else", used}


def test_a_folder_that_cannot_be_made_changes_nothing(tmp_path: Path) -> None:
    taken = tmp_path / "file"
    taken.touch()
    assert cache_settings(taken) == {}
    assert run([sys.executable, "-c", LIBRARY, str(taken)]).startswith("None\n")
