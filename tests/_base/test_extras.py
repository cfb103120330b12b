"""What is not installed is named with the extra that installs it, in one sentence."""

import subprocess
import sys
from pathlib import Path

import pytest

WITHOUT = """
import importlib.util, sys
hidden = {modules!r}
find_spec = importlib.util.find_spec
class Hide:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in hidden:
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)
importlib.util.find_spec = lambda name, package=None: (
    None if name.split(".")[0] in hidden else find_spec(name, package)
)
sys.meta_path.insert(0, Hide())
import ornstein as orn
"""


def without(modules: list[str], code: str, *args: str) -> subprocess.CompletedProcess[str]:
    """Run code in a process of its own that cannot see some packages."""
    command = [sys.executable, "-c", WITHOUT.format(modules=modules) + code, *args]
    return subprocess.run(command, capture_output=True, text=True, check=False)


OF_THE_LIBRARY = {
    "sklearn": (["sklearn"], "orn.estimators"),
    "tables": (["pyarrow"], "orn.tables"),
    "report": (["matplotlib"], "orn.plots"),
    "numpyro": (["numpyro"], "orn.from_numpyro(lambda: 0)"),
    "tables of Parquet": (["pyarrow"], "orn.open_rows('.')"),
}


@pytest.mark.parametrize("name", OF_THE_LIBRARY)
def test_the_library_names_the_extra(name: str) -> None:
    extra, (modules, code) = name.split()[0], OF_THE_LIBRARY[name]
    done = without(modules, f"try:\n    {code}\nexcept orn.MissingExtraError as e:\n    print(e)")
    assert f"not installed: pip install 'ornstein[{extra}]'." in done.stdout, done.stderr


@pytest.mark.parametrize(
    ("modules", "args", "said"),
    [
        (["sklearn"], ["demo"], "ornstein demo needs scikit-learn, which is not installed"),
        (["jinja2", "matplotlib"], ["demo"], "needs Matplotlib and Jinja2, which are not"),
        (["pyarrow"], ["fit", "t.csv", "--target", "y"], "ornstein.tables needs pyarrow"),
        (["matplotlib"], ["compare", "t.csv", "--target", "y", "--plot", "p.png"], "Matplotlib"),
        (["matplotlib"], ["reproduce", "figure1"], "ornstein reproduce needs Matplotlib"),
    ],
)
def test_the_command_line_ends_with_one_sentence(
    modules: list[str], args: list[str], said: str, tmp_path: Path
) -> None:
    (tmp_path / "t.csv").write_text("x,y\n1,2\n2,3\n")
    code = "import os; os.chdir(sys.argv.pop(1))\nfrom ornstein.cli import main; main()"
    done = without(modules, code, str(tmp_path), *args)
    assert done.returncode == 1
    assert said in done.stderr
    assert "pip install 'ornstein[" in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1, done.stderr


def test_without_any_extra_models_are_sampled_summarised_and_saved(tmp_path: Path) -> None:
    modules = ["blackjax", "jinja2", "matplotlib", "numpyro", "pyarrow", "sklearn"]
    code = """
import numpy as np
X = np.random.default_rng(0).normal(size=(80, 2))
result = orn.sample(orn.models.linear(X, X[:, 0]), draws=20)
print(result.summary().shape, result.save(sys.argv[1] + "/run").name)
print(result.diagnose()["A4"].name)
from ornstein import *
import inspect
print(sample is orn.sample, "tables" in dict(inspect.getmembers(orn)))
"""
    done = without(modules, code, str(tmp_path))
    assert done.stdout == "(2, 9) run\nA4\nTrue False\n", done.stderr
