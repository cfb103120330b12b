"""Whatever happens to a checkpoint's files: a clear error, or the last good one."""

import errno
import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import ornstein as orn
from ornstein.storage import records
from support import child_process
from support.checkpoints_kept import contents, stop
from support.problems import regression

OPTIONS: dict[str, Any] = {"draws": 64, "chains": 2, "key": 1, "chunk": 1, "thin": 1}
POST = regression(rows=120)


def call(folder: Path) -> orn.Result:
    return orn.sample(POST, checkpoint=folder, checkpoint_every=0, **OPTIONS)


@pytest.fixture(scope="module")
def whole() -> orn.Result:
    return orn.sample(POST, **OPTIONS)


@pytest.fixture(scope="module")
def stopped(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with three checkpoints of a run that did not end."""
    folder = tmp_path_factory.mktemp("stopped") / "run"
    stop(lambda: call(folder), saves=3)
    assert sorted(contents(folder)) == [*(f"draws-0-0000{i}.orn" for i in (1, 2, 3)), "run-0.orn"]
    return folder


@pytest.fixture(scope="module")
def ended(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("ended") / "run"
    call(folder)
    return folder


def damaged(content: bytes) -> list[bytes]:
    """Cut short, emptied, a byte flipped near each end and in the middle, zeros, other bytes."""
    flipped = []
    for place in (0, 40, len(content) // 2, len(content) - 1):
        other = bytearray(content)
        other[place] ^= 0x10
        flipped.append(bytes(other))
    return [b"", content[:-1], content[: len(content) // 2], *flipped, bytes(len(content))]


@pytest.mark.parametrize("state", ["stopped", pytest.param("ended", marks=pytest.mark.slow)])
def test_every_damaged_file_is_refused_or_left_behind(
    state: str,
    whole: orn.Result,
    tmp_path: Path,
    request: pytest.FixtureRequest,
) -> None:
    source: Path = request.getfixturevalue(state)
    for name in contents(source):
        good = (source / name).read_bytes()
        for number, bad in enumerate(damaged(good)):
            folder = tmp_path / f"{name}-{number}"
            shutil.copytree(source, folder)
            (folder / name).write_bytes(bad)
            before = contents(folder)
            if name == "run-0.orn":
                with pytest.raises(
                    orn.CheckpointError, match=r"run-0\.orn is unreadable: .*start again"
                ):
                    call(folder)
                assert contents(folder) == before
                continue
            with pytest.warns(
                orn.CheckpointWarning, match=rf"{name} is unreadable: .*Resuming from"
            ):
                found = call(folder)
            assert np.array_equal(found.flat, whole.flat)
            assert np.array_equal(call(folder).flat, whole.flat)


def test_missing_files_are_made_good(stopped: Path, whole: orn.Result, tmp_path: Path) -> None:
    for name in contents(stopped):
        folder = tmp_path / name
        shutil.copytree(stopped, folder)
        (folder / name).unlink()
        if name == "run-0.orn":
            with pytest.raises(orn.CheckpointError, match="not what they began with"):
                call(folder)
        elif name == "draws-0-00003.orn":
            assert np.array_equal(call(folder).flat, whole.flat)
        else:
            with pytest.warns(orn.CheckpointWarning, match="No such file.*Resuming from"):
                found = call(folder)
            assert np.array_equal(found.flat, whole.flat)


def test_an_end_without_its_draws_is_no_end(ended: Path, whole: orn.Result, tmp_path: Path) -> None:
    shutil.copytree(ended, tmp_path / "run")
    for path in (tmp_path / "run").glob("draws-*"):
        path.unlink()
    assert np.array_equal(call(tmp_path / "run").flat, whole.flat)


def test_draws_of_another_run_are_not_mixed_in(stopped: Path, tmp_path: Path) -> None:
    folder, other = tmp_path / "run", tmp_path / "other"
    shutil.copytree(stopped, folder)
    orn.sample(POST, checkpoint=other, checkpoint_every=0, **{**OPTIONS, "key": 2})
    shutil.copy(other / "draws-0-00002.orn", folder / "draws-0-00002.orn")
    with pytest.warns(orn.CheckpointWarning, match="belongs to another run.*from checkpoint 1"):
        call(folder)


@pytest.mark.parametrize(
    "change",
    [
        {"chains": []},
        {"chains": 3},
        {"chains": [{"at": 1, "state": [], "draws": []}] * 2},
        {"chains": [{"at": "1", "state": 7, "draws": "x"}] * 2},
        {"seconds": "long"},
    ],
)
def test_draws_that_do_not_fit_are_left_behind(
    stopped: Path, whole: orn.Result, tmp_path: Path, change: dict[str, Any]
) -> None:
    """Even with a checksum that fits."""
    shutil.copytree(stopped, tmp_path / "run")
    path = tmp_path / "run" / "draws-0-00002.orn"
    record = records.unpack(path.read_bytes())
    path.write_bytes(records.pack({**record, **change}))
    with pytest.warns(orn.CheckpointWarning, match="Resuming from checkpoint 1"):
        found = call(tmp_path / "run")
    assert np.array_equal(found.flat, whole.flat)


@pytest.mark.parametrize("function", ["fsync", "replace"])
def test_a_disk_that_fails_at_any_call_loses_nothing(
    function: str, whole: orn.Result, tmp_path: Path
) -> None:
    works = getattr(os, function)
    for number in range(1, 100):
        calls = [0]

        def fail(*arguments: Any, calls: list[int] = calls, number: int = number) -> Any:
            calls[0] += 1
            if calls[0] == number:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            return works(*arguments)

        folder, said = tmp_path / str(number), ""
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(os, function, fail)
            try:
                call(folder)
            except orn.CheckpointError as error:
                said = str(error)
        if calls[0] < number:
            break
        assert "could not be written: No space left" in said
        assert "resumes from" in said
        assert not list(folder.glob(".*"))
        assert np.array_equal(call(folder).flat, whole.flat)
    assert 5 < number < 99


def test_a_full_disk_and_a_folder_that_is_shut(tmp_path_factory: pytest.TempPathFactory) -> None:
    """A limit to the size of files binds root too; permissions bind whom a child becomes."""
    home = tmp_path_factory.mktemp("starved")
    for parent in (home, *home.parents):  # which nobody else may enter, so far
        if parent.stat().st_uid == os.geteuid() and not parent.stat().st_mode & 0o001:
            parent.chmod(parent.stat().st_mode | 0o055)
    folder, shut = home / "run", home / "shut"
    shut.mkdir(mode=0o555)
    options = {"checkpoint": folder, "checkpoint_every": 0, "draws": 8000}
    code, said, err = child_process.finish(
        child_process.start(largest_file=20_000, chunk=2, shut=str(shut), **options)
    )
    assert (code, err) == (0, "")
    assert said[-2].startswith("CheckpointError: ")
    assert "could not be written: File too large" in said[-2]
    assert said[-1].startswith("CheckpointError: ")
    assert "cannot be written to: Permission denied" in said[-1]
    assert list(shut.iterdir()) == []
    assert "run-0.orn" in contents(folder)
    post = regression(rows=240)
    found = orn.sample(post, **{**child_process.RUN, **options})
    assert np.array_equal(found.flat, orn.sample(post, **{**child_process.RUN, "draws": 8000}).flat)


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 128 KiB."""
    place = tmp_path / "small"
    place.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=128k", "tmpfs", str(place)]
    done = subprocess.run(mount, capture_output=True, text=True)
    if done.returncode:
        pytest.skip(f"only root may mount a small disk: {done.stderr.strip()}")
    yield place
    subprocess.run(["umount", str(place)], check=True)


def test_a_disk_that_fills_up_loses_nothing(small_disk: Path) -> None:
    """The last good checkpoint stays; with more room, the same call goes on from there."""
    post, folder = regression(rows=240), small_disk / "run"
    run: dict[str, Any] = {**child_process.RUN, "draws": 8000}
    kept: dict[str, Any] = {**run, "checkpoint": folder, "checkpoint_every": 0, "chunk": 2}
    with pytest.raises(orn.CheckpointError, match="could not be written: No space left on device"):
        orn.sample(post, **kept)
    before = contents(folder)
    assert "draws-0-00001.orn" in before
    subprocess.run(["mount", "-o", "remount,size=64m", str(small_disk)], check=True)
    found = orn.sample(post, **kept)
    assert np.array_equal(found.flat, orn.sample(post, **run).flat)
    after = contents(folder)
    assert all(after[name] == content for name, content in before.items() if "part" not in name)
