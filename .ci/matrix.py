"""The test suite with the oldest and the newest versions of everything, for every Python found.

``make test-matrix`` runs it, and prints a line for each environment; they are kept in ``.matrix``.
``--smoke`` is what ``.ci/run`` adds to the pinned environment: the newest Python with the newest
versions, other libraries of the field installed beside, and the tests that meet most of them.
"""

import argparse
import os
import re
import shutil
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
HOME = ROOT / ".matrix"
MINORS = (11, 12, 13)
RESOLUTIONS = {"oldest": "lowest-direct", "newest": "highest"}
# Old packages meet new ones that they depend on, and use what is deprecated there.
LENIENT = ("-W", "default::DeprecationWarning", "-W", "default::FutureWarning")
SHOWN = ("jax", "numpy", "scipy", "pandas", "xarray", "arviz-base", "arviz", "scikit-learn")
PEERS = ("pymc>=6", "arviz-plots[matplotlib]>=1")
SMOKE = (
    *("tests/_base", "tests/beside", "tests/cli", "tests/estimators", "tests/linalg"),
    *("tests/models", "tests/planning", "tests/results", "tests/storage", "tests/tables"),
)


def interpreters() -> dict[str, Path]:
    """Pythons that run, by version: on the path, or pyenv's."""
    found = {}
    pyenv = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv")) / "versions"
    for minor in MINORS:
        version = f"3.{minor}"
        named = shutil.which(f"python{version}")
        others = sorted(pyenv.glob(f"{version}.*/bin/python"), key=lambda path: len(str(path)))
        for path in [*([Path(named)] if named else []), *reversed(others)]:
            code = "import sys; print('%d.%d' % sys.version_info[:2])"
            done = subprocess.run([path, "-c", code], capture_output=True, text=True, check=False)
            if done.stdout.strip() == version:
                found[version] = path
                break
    return found


def uv(*args: str | Path) -> None:
    """The installer; where it fails, all of its words are shown."""
    command = [str(Path(sys.executable).with_name("uv")), *map(str, args)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(f"{' '.join(command)}\n{done.stdout}{done.stderr}")


def environment(python: Path, name: str, versions: str, further: tuple[str, ...] = ()) -> Path:
    """An environment with the library, its extras and the tools of its tests; its Python."""
    home = HOME / name
    own = home / "bin" / "python"
    wanted = home.with_name(f"{name}.txt")
    HOME.mkdir(exist_ok=True)
    if not own.exists():
        uv("venv", "--quiet", "--clear", "--python", python, home)
    needs = home.with_name(f"{name}.in")
    needs.write_text("\n".join(further))
    uv(
        *("pip", "compile", "--quiet", "--only-binary", ":all:", "--upgrade"),
        *("--resolution", RESOLUTIONS[versions], "--python", own, "--output-file", wanted),
        *("--extra", "all", "--extra", "test", "pyproject.toml", needs),
    )
    uv("pip", "sync", "--quiet", "--python", own, wanted)
    uv("pip", "install", "--quiet", "--python", own, "--no-deps", "--editable", ".")
    return own


def tested(python: Path, args: tuple[str, ...], workers: str, with_peers: bool) -> tuple[bool, str]:
    """Run tests in an environment: whether all passed, and pytest's own summary."""
    name = python.parents[1].name
    log = HOME / f"{name}.log"
    env = os.environ | {
        "JAX_COMPILATION_CACHE_DIR": str(HOME / f"compiled-{pins(name)['jaxlib']}"),
        "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0",
        "JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES": "-1",
    }
    if with_peers:  # and the pinned environment has ArviZ 0.x
        env |= {"ORNSTEIN_REQUIRE_PEERS": "1", "ORNSTEIN_OTHER_PYTHON": sys.executable}
    command = [python, "-m", "pytest", "-n", workers, "--dist", "worksteal", "-q", *args]
    with log.open("w") as output:
        done = subprocess.run(command, cwd=ROOT, env=env, stdout=output, stderr=output, check=False)
    lines = log.read_text().splitlines()
    if done.returncode:
        print(*(line for line in lines if line.startswith(("FAILED", "ERROR"))), sep="\n")
        print(f"all of it: {log}")
    summaries = [line for line in lines if re.search(r"\d (passed|failed|error)", line)]
    return done.returncode == 0, summaries[-1].strip("= ") if summaries else "no summary"


def pins(name: str) -> dict[str, str]:
    """The versions in an environment, by package."""
    found = re.findall(r"^([\w.-]+)==([\w.]+)", (HOME / f"{name}.txt").read_text(), re.M)
    return dict(found)


def main() -> None:
    """Run what was asked for; the exit status tells whether all passed."""
    asked = argparse.ArgumentParser(description=__doc__)
    asked.add_argument("--smoke", action="store_true", help="the short run of .ci/run")
    asked.add_argument("--workers", default="2", help="parallel test processes")
    asked.add_argument("--only", default="", help="environments whose name has this in it")
    options = asked.parse_args()
    found = interpreters()
    runs = [(version, versions) for version in found for versions in RESOLUTIONS]
    if options.smoke:
        runs = [("3.13", "newest")] if "3.13" in found else []
        if not runs:
            print("No Python 3.13 here: the newest versions are not tried.")
    results = []
    for version, versions in runs:
        name = f"{version}-{versions}"
        if options.only not in name:
            continue
        began = time.monotonic()
        beside = PEERS if name == "3.13-newest" else ()
        python = environment(found[version], name, versions, beside)
        args = (*(SMOKE if options.smoke else ()), *(LENIENT if versions == "oldest" else ()))
        ok, summary = tested(python, args, options.workers, bool(beside))
        minutes = (time.monotonic() - began) / 60
        results.append(ok)
        verdict = "ok    " if ok else "FAILED"
        versions_of = pins(name)
        shown = ", ".join(f"{one} {versions_of[one]}" for one in SHOWN if one in versions_of)
        print(f"{verdict} {name}: {summary}; {minutes:.1f} min in all; {shown}", flush=True)
    if not results and not options.smoke:
        sys.exit("No environment was tried: no Python was found, or none that --only names.")
    sys.exit(0 if all(results) else 1)


if __name__ == "__main__":
    main()
