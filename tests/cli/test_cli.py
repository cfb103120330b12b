"""The command line, and names that must survive being printed."""

import io
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from rich.console import Console
from typer.testing import CliRunner

import ornstein as orn
from ornstein.cli import app
from ornstein.demo import _print_diagnosis, _summary_table
from ornstein.models.families import MODELS
from ornstein.results import plots
from ornstein.storage.folders import claimed

X = np.random.default_rng(0).normal(size=(60, 2))


def run(*arguments: str, folder: Path) -> subprocess.CompletedProcess[str]:
    """The command line in its own process, its output piped."""
    command = [sys.executable, "-m", "ornstein", *arguments]
    return subprocess.run(
        command, capture_output=True, encoding="utf-8", timeout=300, check=False, cwd=folder
    )


def test_version() -> None:
    result = CliRunner().invoke(app, ["--version"])
    assert result.exit_code == 0
    assert result.output.strip() == f"ornstein {orn.__version__}"


@pytest.mark.parametrize("command", [[], ["demo"]])
def test_help(command: list[str]) -> None:
    result = CliRunner().invoke(app, [*command, "--help"])
    assert result.exit_code == 0
    assert "Usage:" in result.output
    assert ("Example: ornstein demo" if command else "demo") in result.output


def test_help_names_every_command_and_every_model() -> None:
    """In one sentence each, and with an example."""
    shown = CliRunner().invoke(app, ["--help"]).output
    for command in ("fit", "predict", "report", "compare", "calibrate", "resume", "demo"):
        told = CliRunner().invoke(app, [command, "--help"]).output
        assert f"Example: ornstein {command}" in told
        assert command in shown
    told = CliRunner().invoke(app, ["fit", "--help"]).output
    told = " ".join(told.replace("\u2502", " ").split())
    assert f"Families: {', '.join(MODELS)}." in told
    assert "named after the table if not given" in told


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["frobnicate"], "No such command 'frobnicate'"),
        (["demo", "--frobnicate"], "No such option"),
        (["demo", "--draws", "0"], "--draws"),
        (["demo", "--draws", "many"], "--draws"),
        (["demo", "--seed", "-1"], "--seed"),
    ],
)
def test_mistakes_in_a_command(arguments: list[str], message: str) -> None:
    result = CliRunner().invoke(app, arguments)
    assert result.exit_code == 2
    assert message in result.stderr
    assert "Traceback" not in result.stderr
    assert not result.stdout


@pytest.mark.parametrize(
    "name",
    [
        "pictures",
        "pictures " * 20,
    ],
    ids=["short", "long"],
)
def test_a_folder_that_cannot_be_made_is_one_line(tmp_path: Path, name: str) -> None:
    (tmp_path / "file").write_text("not a folder")
    done = run("demo", "--out", f"file/{name}", folder=tmp_path)
    assert done.returncode in (1, 2)
    assert done.stderr.startswith("ornstein: ")
    assert done.stderr.count("\n") == 1
    assert (tmp_path / "file").read_text() == "not a folder"


def test_a_folder_that_cannot_be_locked_is_not_called_in_use() -> None:
    message = "cannot be written to|No such file"
    with pytest.raises(OSError, match=message), claimed(Path("/proc/.lock"), "the folder"):
        pass


def test_a_seed_that_is_too_large_is_an_input_error(tmp_path: Path) -> None:
    page = str(tmp_path / "page.html")
    arguments = ["demo", "--out", str(tmp_path), "--report", page, "--draws", "20"]
    arguments += ["--seed", str(2**70)]
    with pytest.raises(orn.InputError, match="key must lie between"):
        CliRunner().invoke(app, arguments, catch_exceptions=False)


def test_datasets_are_listed_and_unknown_ones_refused(tmp_path: Path) -> None:
    listed = run("datasets", "list", "--data-home", str(tmp_path), folder=tmp_path)
    assert listed.returncode == 0
    assert [line.split()[0] for line in listed.stdout.splitlines()] == [
        *orn.datasets.names(),
        *orn.datasets.table_names(),
        "folder:",
    ]
    assert "not downloaded" in listed.stdout
    refused = run("datasets", "download", "wnie", folder=tmp_path)
    assert refused.returncode == 1
    assert "Did you mean 'wine'" in refused.stderr
    assert "Traceback" not in refused.stderr


def test_demo(tmp_path: Path) -> None:
    done = run("demo", "--out", "new/pictures", "--draws", "20", folder=tmp_path)
    assert done.returncode == 0, done.stderr
    assert not done.stderr, "a progress bar belongs to terminals"
    assert "\x1b" not in done.stdout
    assert "Traceback" not in done.stdout
    for told in (
        "Linear regression",
        "Logistic regression",
        "predicted KL",
        "r_hat",
        "stationarity",
    ):
        assert told in done.stdout
    saved = sorted(path.name for path in (tmp_path / "new" / "pictures").glob("*.png"))
    kinds = ("covariances", "intervals", "projection")
    assert saved == [f"{data}-{kind}.png" for data in ("cancer", "diabetes") for kind in kinds]
    page = (tmp_path / "report.html").read_text()
    assert "Hyperparameters" in page
    assert "Predicted and measured covariance" in page


@pytest.mark.parametrize(
    "names",
    [
        ["[bold]x[/bold]", "[/red]"],
        ["<b>a</b>", "<script>alert(1)</script>"],
        ["two\nlines", "carriage\r\treturn"],
        ["same", "same"],
        ["", ""],
        ["$x^", r"$\frac{"],
        ["\x1b[31mred", "\ud800"],
        ["{0}", "%s"],
        ["a, b", "c]"],
    ],
)
def test_odd_column_names_survive_every_way_of_printing(names: list[str]) -> None:
    post = orn.models.linear(X, X[:, 0] + np.cos(9 * X[:, 1]), feature_names=names)
    assert len(set(post.labels)) == 2
    assert all(label.isprintable() for label in post.labels)
    plan = orn.plan(post, batch_size=20)
    result = orn.sample(post, plan, chains=2, draws=20)
    assert str(plan).isprintable() or "\n" in str(plan)
    assert result.summary().index.tolist() == post.labels
    assert result.to_arviz()["posterior"]["coef"].shape == (2, 20, 2)
    assert plots.intervals(result).axes
    console = Console(file=io.StringIO(), width=200)
    console.print(_summary_table(result))
    _print_diagnosis(result.diagnose(), console)
    printed = console.file.getvalue()  # type: ignore[attr-defined]
    assert all(label in printed for label in post.labels)
    twin = orn.models.linear(X[:, [0, 0]], X[:, 0], feature_names=names)
    with pytest.raises(orn.UnstablePlanError) as caught:
        orn.plan(twin, method="sgd", batch_size=20)
    assert str(caught.value).isprintable()


TREES: dict[str, tuple[Any, Callable[[Any], Any], list[str]]] = {
    "tuple": ((0.0, 0.0), jnp.stack, ["0", "1"]),
    "nested": (
        {"layer": {"bias": 0.0, "slope": np.zeros(1)}},
        lambda p: jnp.stack([p["layer"]["bias"], p["layer"]["slope"][0]]),
        ["layer.bias", "layer.slope[0]"],
    ),
}


def test_a_bare_array_of_parameters_is_named() -> None:
    post = orn.Posterior(lambda p, row: row @ p, jnp.sum, X, init=np.zeros(2))
    assert post.labels == ["theta[0]", "theta[1]"]


@pytest.mark.parametrize("kind", TREES)
def test_parameters_of_any_structure_are_named(kind: str) -> None:
    init, vector, labels = TREES[kind]
    data = {"x": np.rint(3 * X).astype(np.int64), "y": np.arange(60)}
    with jax.numpy_dtype_promotion("standard"):  # whole numbers times parameters
        post = orn.Posterior(
            lambda p, r: -0.5 * (r["y"] - r["x"] @ vector(p)) ** 2,
            lambda p: -0.5 * jnp.sum(vector(p) ** 2),
            data,
            init=init,
        )
        result = orn.sample(post, batch_size=20, chains=2, draws=4)
    assert post.labels == labels
    assert result.summary().index.tolist() == labels
    assert jax.tree.map(lambda leaf: leaf.shape[2:], result.draws) == jax.tree.map(np.shape, init)


@pytest.mark.parametrize(
    "init",
    [
        {"a": {"b": np.zeros(2)}, "a.b": np.zeros(2)},
        {"chain": np.zeros(2), "draw": np.zeros(2)},
    ],
)
def test_names_that_collide_lose_no_draws(init: Any) -> None:
    def square(p: Any) -> Any:
        return -0.5 * sum(jnp.sum(leaf**2) for leaf in jax.tree.leaves(p))

    post = orn.Posterior(lambda p, r: r**2 * square(p), square, X[:, 0], init=init)
    result = orn.sample(post, batch_size=20, chains=2, draws=8)
    assert len(result.summary()) == post.dim
