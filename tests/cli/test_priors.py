"""Priors by name on the command line."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

import ornstein as orn
from ornstein.cli.priors import read_priors
from ornstein.cli.root import app


def test_every_kind_is_read() -> None:
    texts = [
        "x = normal(1, 2)",
        "sd(g: 1)=halfnormal(.5)",
        "sd(h)=HalfStudent(3, 2.5)",
        "sigma=exponential(1e-1)",
        "cor(g)=lkj(2)",
        "C(k)[T.a=b]=normal(0, 1)",
    ]
    assert read_priors(texts) == {
        "x": orn.Normal(1.0, 2.0),
        "sd(g: 1)": orn.HalfNormal(0.5),
        "sd(h)": orn.HalfStudentT(3.0, 2.5),
        "sigma": orn.Exponential(0.1),
        "cor(g)": orn.LKJ(2.0),
        "C(k)[T.a=b]": orn.Normal(0.0, 1.0),
    }
    assert read_priors(None) is None


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("x", "cannot be read: write NAME=KIND"),
        ("x=normal(1)", r"numbers are those of normal\(mean, sd\)"),
        ("x=normal(1, b)", r"numbers are those of normal\(mean, sd\)"),
        ("x=nomal(1, 2)", "Did you mean 'normal'"),
        ("x=__import__('os')", "not known|cannot be read"),
    ],
)
def test_what_is_no_prior_is_refused(text: str, says: str) -> None:
    with pytest.raises(orn.InputError, match=says):
        read_priors([text])


def test_a_name_is_given_once() -> None:
    with pytest.raises(orn.InputError, match="'x' twice"):
        read_priors(["x=normal(0, 1)", "x=normal(0, 2)"])


def test_fit_uses_them_and_the_report_says_so(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    g = np.repeat(np.arange(8), 5)
    frame = pd.DataFrame({"y": rng.normal(size=40), "x": rng.normal(size=40), "g": g.astype(str)})
    frame.to_csv(tmp_path / "t.csv", index=False)
    words = ["fit", str(tmp_path / "t.csv"), "--formula", "y ~ x + (1|g)", "--draws", "50"]
    words += ["--prior", "x=normal(3, 0.001)", "--prior", "sd(g)=halfnormal(0.25)"]
    words += ["-o", str(tmp_path / "run"), "--holdout", "0", "--quiet"]
    done = CliRunner().invoke(app, words)
    assert done.exit_code == 0, done.output
    summary = pd.read_csv(tmp_path / "run" / "summary.csv", index_col=0)
    unit = frame.y.std(ddof=0) / frame.x.std(ddof=0)
    assert summary.loc["x", "mean"] == pytest.approx(3 * unit, rel=0.01)
    page = (tmp_path / "run" / "report.html").read_text()
    assert "HalfNormal(scale=0.25)" in page


def test_a_mistake_ends_before_the_table_is_read(tmp_path: Path) -> None:
    table = tmp_path / "t.csv"
    table.write_text("one column\n")
    done = CliRunner().invoke(app, ["fit", str(table), "-t", "y", "--prior", "x=1"])
    assert isinstance(done.exception, orn.InputError)
    assert "--prior 'x=1' cannot be read" in str(done.exception)
