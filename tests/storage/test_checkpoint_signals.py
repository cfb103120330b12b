"""Real processes: killed, interrupted, and two at once."""

import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import arviz
import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

import ornstein as orn
from ornstein import tables
from ornstein.cli import app
from ornstein.storage.folders import claimed
from ornstein.tables.model import FILES
from support import child_process
from support.problems import regression

WRITTEN = {*FILES} - {"plan.txt"}  # which is that of mixed models

KILLED = Path(__file__).parents[1] / "support" / "killed_process.py"
KEPT: dict[str, Any] = {"checkpoint_every": 0, "chunk": 1}


@pytest.fixture(scope="module")
def uninterrupted() -> str:
    return child_process.digest(orn.sample(regression(rows=240), **child_process.RUN))


def test_a_run_killed_while_it_writes_loses_nothing(tmp_path: Path, uninterrupted: str) -> None:
    """Before a rename, and with half of a file written."""
    folder = tmp_path / "run"
    deaths: list[dict[str, Any]] = [{"die_in": ["replace", 3]}, {"die_in_write": 3}]
    for deadly in deaths:
        code, _, _ = child_process.finish(child_process.start(checkpoint=folder, **KEPT, **deadly))
        assert code == -signal.SIGKILL
    assert (folder / "lock").exists()  # left behind, and free
    assert len(list(folder.glob("draws-*"))) >= 3
    assert len(list(folder.glob(".*.part"))) == 1
    found = orn.sample(regression(rows=240), checkpoint=folder, **child_process.RUN)
    assert child_process.digest(found) == uninterrupted
    assert not list(folder.glob(".*"))


@pytest.mark.slow
def test_a_run_killed_twenty_times_loses_nothing(tmp_path: Path) -> None:
    """At random moments, and four more before a flush or a rename."""
    rng, folder, sizes = random.Random(1), tmp_path / "run", []
    options = {**KEPT, "draws": 200_000, "checkpoint": folder}
    for kill in range(24):
        deadly = {} if kill < 20 else {"die_in": [["fsync", "replace"][kill % 2], kill - 18]}
        running = child_process.start(pause=0.03, **options, **deadly)
        if kill < 20:
            child_process.wait_until_ready(running)
            time.sleep(rng.uniform(0.0, 0.12))
            running.kill()
        code, said, err = child_process.finish(running)
        assert code == -signal.SIGKILL, (kill, said, err)
        sizes.append(sum(path.stat().st_size for path in folder.glob("draws-*")))
    assert sorted(sizes) == sizes
    assert len(set(sizes)) > 10
    code, said, err = child_process.finish(child_process.start(**options))
    assert code == 0, err
    whole = orn.sample(regression(rows=240), **{**child_process.RUN, "draws": 200_000})
    assert said[-1] == f"done 200000 {child_process.digest(whole)}"


@pytest.mark.slow
def test_ctrl_c_keeps_what_was_drawn_and_says_how_to_go_on(
    tmp_path: Path, uninterrupted: str
) -> None:
    folder = tmp_path / "run"
    running = child_process.start(checkpoint=folder, pause=0.1, chunk=1)
    child_process.wait_until_ready(running)
    with pytest.raises(orn.InputError, match=rf"in use by process {running.pid}"):
        orn.sample(regression(rows=240), checkpoint=folder, **child_process.RUN)
    running.send_signal(signal.SIGINT)
    code, said, err = child_process.finish(running)
    assert (code, err) == (0, "")
    assert said[-1].startswith("KeyboardInterrupt: interrupted after")
    assert f"checkpoint={str(folder)!r}, resumes" in said[-1]
    assert sorted(path.name for path in folder.iterdir()) == ["draws-0-00001.orn", "run-0.orn"]
    assert (folder / "draws-0-00001.orn").stat().st_size > 10_000
    found = orn.sample(regression(rows=240), checkpoint=folder, **child_process.RUN)
    assert child_process.digest(found) == uninterrupted


def test_ctrl_c_without_a_checkpoint_returns_the_draws_so_far(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The signal is real, and comes between the third chunk and the fourth."""
    post = regression(rows=240)

    @contextmanager
    def opened(_total: int) -> Iterator[Callable[[int, int], None]]:
        reports = []

        def report(done: int, _total: int) -> None:
            reports.append(done)
            if len(reports) == 3:
                signal.raise_signal(signal.SIGINT)

        yield report

    whole = orn.sample(post, **child_process.RUN)
    monkeypatch.setattr("ornstein.api.sampling.bar", lambda *_: opened)
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        with pytest.warns(orn.InterruptWarning, match="interrupted after"):
            found = orn.sample(post, chunk=1, **child_process.RUN)
        assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    finally:
        signal.signal(signal.SIGINT, before)
    assert not found.status.ok
    assert found.status.kind == "interrupted"
    assert "stopped: interrupted" in repr(found)
    count = found.flat.shape[1]
    assert 0 < count < child_process.RUN["draws"]
    assert np.array_equal(found.flat, whole.flat[:, :count])


@pytest.mark.slow
def test_ctrl_c_on_the_command_line(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    size = rng.uniform(20, 200, 400)
    frame = pd.DataFrame({"size": size, "price": 30 * size + rng.normal(size=400)})
    frame.to_csv(tmp_path / "houses.csv", index=False)
    words = ["fit", f"{tmp_path}/houses.csv", "-t", "price", "--draws", "2000", "-q"]
    kept = ["-o", f"{tmp_path}/houses", "--checkpoint", f"{tmp_path}/kept"]
    kept += ["--predict", f"{tmp_path}/houses.csv"]
    running = child_process.start(*words, *kept, pause=0.5)
    child_process.wait_until_ready(running)
    running.send_signal(signal.SIGINT)
    code, said, err = child_process.finish(running)
    assert code == 130, (said, err)
    assert err.startswith("ornstein: interrupted after")
    assert f"To continue: ornstein resume {tmp_path}/kept" in err
    assert err.count("\n") == 1
    assert sorted(path.name for path in tmp_path.iterdir()) == ["houses.csv", "kept"]
    other = CliRunner().invoke(app, [*words, *kept, "--seed", "3"])
    assert isinstance(other.exception, orn.InputError)
    assert "holds another command: key was 0, now 3" in str(other.exception)
    done = CliRunner().invoke(app, ["resume", f"{tmp_path}/kept", "-q"], catch_exceptions=False)
    assert done.exit_code == 0, done.stderr
    assert sorted(path.name for path in (tmp_path / "houses").iterdir()) == sorted(WRITTEN)
    learned = tables.learn(tables.read(tmp_path / "houses.csv"), "price")
    model = tables.fit_table(learned, draws=2000)
    kept_draws = arviz.from_netcdf(f"{tmp_path}/houses/draws.nc")["posterior"]["coef"].values
    assert np.array_equal(kept_draws, model.result.draws["coef"])
    predictions = pd.read_csv(tmp_path / "houses" / "predictions.csv")
    pd.testing.assert_frame_equal(predictions, model.predict(frame))
    again = CliRunner().invoke(app, ["resume", f"{tmp_path}/kept"], catch_exceptions=False)
    assert "the fit is complete: see" in again.stderr


def test_resume_wants_a_checkpoint_of_a_command(tmp_path: Path) -> None:
    done = CliRunner().invoke(app, ["resume", str(tmp_path)])
    assert isinstance(done.exception, orn.InputError)
    assert "name the folder that was given as --checkpoint" in str(done.exception)
    helped = CliRunner().invoke(app, ["resume", "--help"])
    assert "Example: ornstein resume houses-run" in helped.output


def test_two_fits_into_one_folder(tmp_path: Path) -> None:
    """The second is refused while the first lives."""
    frame = pd.DataFrame({"x": np.arange(40.0), "y": np.sin(np.arange(40.0))})
    frame.to_csv(tmp_path / "t.csv", index=False)
    words = ["fit", f"{tmp_path}/t.csv", "-t", "y", "-o", f"{tmp_path}/run", "--draws", "20"]
    with claimed(tmp_path / ".run.lock", "it"):
        done = CliRunner().invoke(app, words)
    assert isinstance(done.exception, orn.InputError)
    assert f"the folder {tmp_path}/run is in use by process" in str(done.exception)
    assert [path.name for path in tmp_path.iterdir()] == ["t.csv"]


MOMENTS = {
    "reading": "ornstein.cli.fitting:read_table",
    "the answer": "ornstein.storage.checkpoint:keep_answer",
    "the scores": "ornstein.tables.held_out:score",
    "planning": "ornstein.tables.fitting:fit_rows",
    "the diagnosis": "ornstein.results.result:Result.diagnose",
    "pictures of rows": "ornstein.tables.model:TableModel.fit_picture",
    "pictures of the run": "ornstein.results.report.pictures:of_run",
    "writing draws": "ornstein.results.arviz:write",
    "writing the record": "ornstein.tables.model:write_record",
}


SLOW = [pytest.param(name, marks=pytest.mark.slow) for name in MOMENTS if "run" not in name]


@pytest.mark.parametrize("moment", ["pictures of the run", *SLOW])
def test_a_fit_killed_at_any_moment_is_resumed(tmp_path: Path, moment: str) -> None:
    rng = np.random.default_rng(0)
    size = rng.uniform(20, 200, 200)
    frame = pd.DataFrame({"size": size, "sold": np.where(rng.random(200) < size / 220, "y", "n")})
    frame.to_csv(tmp_path / "t.csv", index=False)
    words = ["fit", f"{tmp_path}/t.csv", "-t", "sold", "--draws", "50", "--hyper", "learn", "-q"]
    words += ["-o", f"{tmp_path}/run", "--checkpoint", f"{tmp_path}/kept"]
    command = [sys.executable, str(KILLED), MOMENTS[moment], *words]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == -signal.SIGKILL, done.stderr
    assert not (tmp_path / "run").exists()
    command = [sys.executable, "-m", "ornstein", "resume", f"{tmp_path}/kept", "-q"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr
    expected = sorted(WRITTEN - {"predictions.csv"})
    assert sorted(path.name for path in (tmp_path / "run").iterdir()) == expected
    assert sorted(path.name for path in tmp_path.iterdir()) == ["kept", "run", "t.csv"]
