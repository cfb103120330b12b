"""The wheel, installed into an empty environment outside the checkout, as a user would."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

import ornstein as orn

ROOT = Path(__file__).resolve().parents[2]
UV = Path(sys.executable).with_name("uv")
OUTER = ("PYTHONPATH", "VIRTUAL_ENV", "PYTEST_CURRENT_TEST")
TYPED = """
import numpy as np
import ornstein as orn

result: orn.Result = orn.sample(orn.models.linear(np.ones((4, 1)), np.ones(4)), draws=8)
reveal_type(result.plan)
orn.sample("a posterior")
"""


def run(args: list[str | Path], home: Path) -> subprocess.CompletedProcess[str]:
    """A command in a folder outside the checkout."""
    env = {name: value for name, value in os.environ.items() if name not in OUTER}
    return subprocess.run(args, cwd=home, env=env, capture_output=True, text=True, check=False)


def ok(args: list[str | Path], home: Path) -> str:
    done = run(args, home)
    assert done.returncode == 0, f"{args}\n{done.stdout}\n{done.stderr}"
    return done.stdout


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the wheel in it, and an environment into which nothing else was installed."""
    home = tmp_path_factory.mktemp("outside")
    built = run([UV, "build", "--wheel", "--quiet", "--out-dir", home / "dist", ROOT], home)
    if built.returncode and os.environ.get("ORNSTEIN_REQUIRE_WHEEL") != "1":
        pytest.skip(f"the wheel could not be built here: {built.stderr.splitlines()[-1:]}")
    assert built.returncode == 0, built.stderr
    ok([UV, "venv", "--quiet", "--python", sys.executable, home / "env"], home)
    return home


def install(home: Path, *packages: str) -> None:
    """Install the wheel with extras, such as ``[all]``, and other packages."""
    (wheel,) = (home / "dist").glob("*.whl")
    named = [f"{wheel}{extras}" if extras.startswith("[") else extras for extras in packages]
    freeze = ok([UV, "pip", "freeze", "--python", sys.executable, "--exclude-editable"], home)
    (home / "here.txt").write_text(freeze)  # the same versions as here
    into: list[str | Path] = [
        "--python",
        home / "env" / "bin" / "python",
        "--constraints",
        home / "here.txt",
    ]
    ok([UV, "pip", "install", "--quiet", *into, *named], home)


def test_the_citation_has_the_version() -> None:
    assert f"\nversion: {orn.__version__}\n" in (ROOT / "CITATION.cff").read_text()


def test_from_a_bare_install_to_all_extras(home: Path) -> None:
    """One environment that grows: the core alone, then everything."""
    install(home, "[]")
    env = home / "env" / "bin"
    assert ok([env / "ornstein", "--version"], home) == f"ornstein {orn.__version__}\n"
    refused = run([env / "ornstein", "demo", "--quick"], home)
    assert refused.returncode == 1
    assert len(refused.stderr.strip().splitlines()) == 1
    assert "pip install 'ornstein[" in refused.stderr
    code = "import ornstein as o; print(o.sample(o.models.linear([[1.], [2]], [1., 2]), draws=8))"
    assert "Result(chains=4, draws=8" in ok([env / "python", "-c", code], home)

    install(home, "[all]", "mypy")
    ok([env / "ornstein", "demo", "--quick"], home)
    assert (home / "report.html").stat().st_size > 10_000
    rows = "".join(f"{i % 9},{'ab'[i % 2]},{i % 9 + 2 * (i % 2) + i % 4 / 8}\n" for i in range(120))
    (home / "houses.csv").write_text("rooms,town,price\n" + rows)
    ok([env / "ornstein", "fit", "houses.csv", "--target", "price", "--draws", "50"], home)
    predicted = ok([env / "ornstein", "predict", "houses", "houses.csv"], home)
    assert predicted.startswith("mean,low 90%,high 90%,sd\n")
    assert len(predicted.splitlines()) == 121

    (home / "typed.py").write_text(TYPED)
    checked = run([env / "mypy", "--strict", "typed.py"], home)
    assert 'Revealed type is "ornstein.planning.plans.Plan"' in checked.stdout, checked.stdout
    assert 'No overload variant of "sample" matches argument type "str"' in checked.stdout
    assert "Found 1 error" in checked.stdout
