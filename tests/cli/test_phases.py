"""Every part of a fit that may be long has a phase, which says what it is."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

from ornstein._base import progress
from ornstein.cli import app, reading_options


def test_a_fit_says_what_takes_long_from_its_start_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    said = list[str]()
    running = list[str]()

    @contextmanager
    def phase(title: str, show: bool | None, patience: float | None = None) -> Iterator[None]:
        del show, patience
        said.append(title)
        running.append(title)
        yield
        running.pop()

    def within(work: Any, title: str) -> Any:
        def seen(*arguments: Any) -> Any:
            assert running == [title]
            return work(*arguments)

        return seen

    encoding = "turning columns into numbers"
    monkeypatch.setattr(progress, "phase", phase)
    learn = within(reading_options.learn_table, encoding)
    monkeypatch.setattr("ornstein.cli.fitting.learn_table", learn)
    frame = pd.DataFrame({"x": np.arange(60.0), "y": np.arange(60) % 7.0})
    frame.to_csv(tmp_path / "t.csv", index=False)
    words = ["fit", f"{tmp_path}/t.csv", "-t", "y", "--family", "linear", "--method", "laplace"]
    done = CliRunner().invoke(app, [*words, "--draws", "50", "-q", "-o", f"{tmp_path}/run"])
    assert done.exit_code == 0, done.output
    expected = [
        "loading",
        "reading t.csv",
        encoding,
        "checking the draws",
        "comparing predictions with the rows",
        "drawing pictures and writing the folder",
    ]
    assert [title for title in said if title in expected] == expected
