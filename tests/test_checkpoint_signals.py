"""Real processes: killed, interrupted, and two at once."""

import random
import signal
import time
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import child
import ornstein as orn
from ornstein.folders import claimed
from tables import regression

LONG = {"draws": 3_000_000, "chunk": 16, "checkpoint_every": 0.05}


@pytest.fixture(scope="module")
def uninterrupted() -> str:
    return child.digest(orn.sample(regression(rows=240), **child.RUN))


def test_a_run_killed_while_it_writes_loses_nothing(tmp_path: Path, uninterrupted: str) -> None:
    """Before a flush, before a rename, and with half of a file written."""
    options = {"checkpoint": tmp_path / "run", "checkpoint_every": 0, "chunk": 8}
    for deadly in ({"die_in": ["fsync", 4]}, {"die_in": ["replace", 3]}, {"die_in_write": 3}):
        code, _, _ = child.finish(child.start(**options, **deadly))
        assert code == -signal.SIGKILL
    assert (tmp_path / "run" / "lock").exists()  # left behind, and free
    assert len(list((tmp_path / "run").glob("draws-*"))) >= 5
    assert list((tmp_path / "run").glob(".*.part"))
    found = orn.sample(regression(rows=240), **{**child.RUN, **options})  # type: ignore[arg-type]
    assert child.digest(found) == uninterrupted
    assert not list((tmp_path / "run").glob(".*"))


@pytest.mark.slow
def test_a_run_killed_twenty_times_at_random_loses_nothing(tmp_path: Path) -> None:
    rng, folder, killed = random.Random(1), tmp_path / "run", 0
    draws = {"draws": 1_500_000}
    options = {"checkpoint": folder, "checkpoint_every": 0, "chunk": 8, **draws}
    sizes = []
    while killed < 20:
        running = child.start(**options)
        child.wait_until_ready(running)
        time.sleep(rng.uniform(0.0, 0.4))
        running.kill()
        code, last, err = child.finish(running)
        assert code == -signal.SIGKILL, (last, err)
        killed += 1
        sizes.append(sum(path.stat().st_size for path in folder.glob("draws-*")))
    assert sorted(sizes) == sizes
    assert sizes[0] < sizes[10] < sizes[-1]
    code, last, err = child.finish(child.start(**options))
    assert code == 0, err
    whole = orn.sample(regression(rows=240), **{**child.RUN, **draws})
    assert last == f"done 1500000 {child.digest(whole)}"


def test_ctrl_c_keeps_what_was_drawn_and_says_how_to_go_on(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    running = child.start(checkpoint=folder, **LONG)
    child.wait_until_ready(running)
    with pytest.raises(orn.InputError, match=rf"in use by process {running.pid}"):
        orn.sample(regression(rows=240), draws=8, checkpoint=folder)
    running.send_signal(signal.SIGINT)
    code, last, err = child.finish(running)
    assert (code, err) == (0, "")
    assert last.startswith("KeyboardInterrupt: interrupted after")
    assert f"checkpoint={str(folder)!r}, goes on" in last
    assert sum(path.stat().st_size for path in folder.glob("draws-*")) > 16 * 256 * 3 * 8
    again = child.start(checkpoint=folder, **LONG)
    child.wait_until_ready(again)
    again.send_signal(signal.SIGINT)
    _, later, _ = child.finish(again)
    first, second = (
        int(text.split(" after ")[1].split(" ")[0].replace(",", "")) for text in (last, later)
    )
    assert second > first > 0


def test_ctrl_c_without_a_checkpoint_returns_the_draws_so_far() -> None:
    options = {name: value for name, value in LONG.items() if name != "checkpoint_every"}
    running = child.start(**options)
    child.wait_until_ready(running)
    running.send_signal(signal.SIGINT)
    code, last, err = child.finish(running)
    assert (code, err) == (0, "")
    kind, draws, _ = last.split(" ")
    assert kind == "interrupted"
    assert 16 * 128 <= int(draws) < 3_000_000


def test_ctrl_c_on_the_command_line(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    size = rng.uniform(20, 200, 400)
    frame = pd.DataFrame({"size": size, "price": 30 * size + rng.normal(size=400)})
    frame.to_csv(tmp_path / "houses.csv", index=False)
    words = ["fit", f"{tmp_path}/houses.csv", "-t", "price", "-o", f"{tmp_path}/houses"]
    words += ["--method", "sgd", "--batch-size", "4", "--draws", "2000"]
    running = child.start(*words, "--checkpoint", f"{tmp_path}/kept")
    child.wait_until_ready(running)
    running.send_signal(signal.SIGINT)
    code, last, err = child.finish(running)
    assert code == 130, (last, err)
    assert "Traceback" not in err
    assert f"To go on: ornstein resume {tmp_path}/kept" in err
    assert sorted(path.name for path in tmp_path.iterdir()) == ["houses.csv", "kept"]
    code, _, err = child.finish(child.start("resume", f"{tmp_path}/kept"))
    assert code == 0, err
    assert sorted(path.name for path in tmp_path.iterdir()) == ["houses", "houses.csv", "kept"]
    whole = child.start(*words[:-2], "--draws", "2000", "-o", f"{tmp_path}/whole", "--quiet")
    code, _, err = child.finish(whole)
    assert code == 0, err
    for name in ("summary.csv", "plan.json"):
        assert (tmp_path / "houses" / name).read_text() == (tmp_path / "whole" / name).read_text()


def test_two_fits_into_one_folder(tmp_path: Path) -> None:
    """The second is refused while the first lives."""
    frame = pd.DataFrame({"x": np.arange(40.0), "y": np.sin(np.arange(40.0))})
    frame.to_csv(tmp_path / "t.csv", index=False)
    words = ["fit", f"{tmp_path}/t.csv", "-t", "y", "-o", f"{tmp_path}/run", "--draws", "20"]
    with claimed(tmp_path / ".run.lock", "it"):
        code, _, err = child.finish(child.start(*words))
        assert code == 1
        assert f"the folder {tmp_path}/run is in use by process" in err
    assert not (tmp_path / "run").exists()
    code, _, err = child.finish(child.start(*words))
    assert code == 0, err
    assert sorted(path.name for path in tmp_path.iterdir()) == ["run", "t.csv"]


def test_a_lock_is_freed_when_its_holder_is_killed(tmp_path: Path) -> None:
    running = child.start(checkpoint=tmp_path / "run", **LONG)
    child.wait_until_ready(running)
    running.kill()
    running.wait()
    with claimed(tmp_path / "run" / "lock", "it"), pytest.raises(orn.InputError, match="in use"):
        orn.sample(regression(rows=240), draws=8, checkpoint=tmp_path / "run")
