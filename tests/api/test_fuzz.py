"""Whatever comes in: a documented error or an answer, no hang, nothing half-written."""

import gzip
import io
import json
import shutil
import warnings
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

import narwhals as nw
import numpy as np
import pandas as pd
import pytest
from hypothesis import strategies as st

import ornstein as orn
from ornstein import tables
from ornstein.storage import records
from ornstein.storage.checkpoint import Saved, kept_command, opened
from ornstein.tables import TableModel
from support.checkpoints_kept import contents, stop
from support.fuzzing import arrays, changes, frames, fuzz, operated, spoiled, surgeries, texts
from support.problems import regression

ERRORS = (orn.InputError, orn.CheckpointError)
POST = regression(rows=60, columns=2)
OPTIONS: dict[str, Any] = {"draws": 16, "chains": 2, "chunk": 1, "thin": 1}


class Home(NamedTuple):
    """What is good, to be spoiled."""

    folder: Path
    stopped: Path
    fitted: Path
    parquet: bytes


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Home:
    folder = tmp_path_factory.mktemp("fuzz")
    stop(
        lambda: orn.sample(POST, checkpoint=folder / "stopped", checkpoint_every=0, **OPTIONS),
        saves=2,
    )
    frame = pd.DataFrame(
        {"a": np.arange(30.0) ** 0.5, "kind": list("xyz") * 10, "y": np.sin(np.arange(30.0))}
    )
    model = tables.fit_table(tables.learn(frame, "y"), draws=8, method="laplace")
    model.save(folder / "fitted")
    buffer = io.BytesIO()
    frame.to_parquet(buffer)
    return Home(folder, folder / "stopped", folder / "fitted", buffer.getvalue())


def check_record(home: Home, case: Any) -> None:
    whole = (home.stopped / "draws-0-00001.orn").read_bytes()
    bad = spoiled(whole, case)
    try:
        found = records.unpack(bad)
    except orn.CheckpointError:
        return
    assert bad == whole
    assert not records.differences(records.unpack(whole), found)


def check_checkpoint(home: Home, case: Any) -> None:
    """Every file of a folder, read as a run would."""
    name, todo = case
    folder = home.folder / "spoiled"
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(home.stopped, folder)
    whole = (folder / name).read_bytes()
    bad = spoiled(whole, todo)
    (folder / name).write_bytes(bad)
    block = records.unpack((home.stopped / "draws-0-00001.orn").read_bytes())
    like = [Saved(0, chain.state, [np.empty((0, 2))], []) for chain in block["chains"]]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", orn.CheckpointWarning)
        with opened(folder) as kept:
            assert kept is not None
            try:
                assert kept.begun() is not None
            except orn.CheckpointError:
                assert name == "run-0.orn"
                assert len(contents(folder)) == 3
                return
            found = kept.restore(like)
    expected = 2 if bad == whole or name == "run-0.orn" else int(name[-5]) - 1
    assert kept.number == expected
    assert (found is None) == (expected == 0)


def check_start(home: Home, case: Any) -> None:
    """Records whose checksums fit, and whose values do not."""
    folder = home.folder / "operated"
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(home.stopped, folder)
    name, todo = case
    _, line, raw = (folder / name).read_bytes().split(b"\n", 2)
    header = json.loads(line)
    header["value"] = operated(header["value"], todo)
    body = json.dumps(header).encode() + b"\n" + raw
    first = f"ornstein-record {records.VERSION} {records.digest(body)}\n"
    (folder / name).write_bytes(first.encode() + body)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", orn.CheckpointWarning)
        with suppress(*ERRORS):
            found = orn.sample(POST, checkpoint=folder, checkpoint_every=0, **OPTIONS)
            assert np.isfinite(found.flat).all()


def check_command(home: Home, case: Any) -> None:
    folder = home.folder / "command"
    folder.mkdir(exist_ok=True)
    good = records.pack({"target": "y", "draws": 100, "table": "t.csv"})
    (folder / "command.orn").write_bytes(spoiled(good, case))
    with suppress(*ERRORS):
        assert kept_command(folder)["draws"] == 100


def check_table(home: Home, case: Any) -> None:
    suffix, content = case
    path = home.folder / f"table{suffix}"
    path.write_bytes(gzip.compress(content) if suffix.endswith(".gz") else content)
    with suppress(orn.InputError):
        found = tables.read(path)
        assert len(found) > 0
        assert len(set(found.columns)) == len(found.columns)


def check_damaged_table(home: Home, case: Any) -> None:
    suffix, todo = case
    text = b"a,b,y\n" + b"".join(b"%d,%d.5,x%d\n" % (i, i, i % 2) for i in range(40))
    whole = {".parquet": home.parquet, ".csv.gz": gzip.compress(text, mtime=0)}.get(suffix, text)
    path = home.folder / f"damaged{suffix}"
    path.write_bytes(spoiled(whole, todo))
    with suppress(orn.InputError):
        assert len(tables.read(path)) > 0


def check_encoding(home: Home, case: Any) -> None:
    good = json.loads(TableModel.load(home.fitted).encoding.to_json())
    text = json.dumps(operated(good, case))
    with suppress(orn.InputError):
        encoding = tables.Encoding.from_json(text)
        assert tables.Encoding.from_json(encoding.to_json()) == encoding


def check_fitted(home: Home, case: Any) -> None:
    name, todo = case
    folder = home.folder / "loaded"
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(home.fitted, folder)
    (folder / name).write_bytes(spoiled((folder / name).read_bytes(), todo))
    with suppress(orn.InputError):
        assert np.isfinite(TableModel.load(folder).draws.coef).all()


def check_learn(home: Home, case: Any) -> None:
    del home
    frame, model, missing = case
    with suppress(orn.InputError):
        encoding, X, y, _ = tables.learn(frame, "y", model, missing)
        assert np.isfinite(X).all()
        assert len(X) == len(y) > 0
        again = tables.Encoding.from_json(encoding.to_json())
        complete = nw.from_native(frame).filter(encoding.complete(frame).tolist()).to_native()
        np.testing.assert_array_equal(again.encode(complete), encoding.encode(complete))


def check_models(home: Home, case: Any) -> None:
    del home
    name, X, y, options = case
    with suppress(orn.InputError):
        post = getattr(orn.models, name)(X, y, **options)
        assert post.num_data == len(np.asarray(y)) or np.ndim(y) == 2
        assert post.dim > 0


def check_sample(home: Home, case: Any) -> None:
    """Odd options on one posterior, so that little is compiled; nothing is left behind."""
    folder = home.folder / "sampled"
    shutil.rmtree(folder, ignore_errors=True)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        try:
            found = orn.sample(POST, **{**OPTIONS, **case}, checkpoint=folder)
        except orn.OrnsteinError:
            assert not (folder / "end-0.orn").exists()
            return
    assert np.isfinite(found.flat).all()
    assert (folder / "end-0.orn").exists()


odd = st.sampled_from(
    [None, True, 0, 1, -1, 2, 3.5, float("nan"), float("inf"), "x", "auto", [], [1], b"", 10**30]
)
SAMPLED = st.fixed_dictionaries(
    {},
    optional={
        "draws": st.one_of(st.sampled_from([8, 16]), odd.filter(lambda v: v != 10**30)),
        "chains": st.one_of(st.sampled_from([1, 2]), odd.filter(lambda v: v != 10**30)),
        "thin": st.one_of(st.sampled_from([1, 4]), odd),
        "warmup": st.one_of(st.sampled_from([0, 8]), odd.filter(lambda v: v != 10**30)),
        "dispersion": odd,
        "dtype": st.sampled_from([None, "float32", "float64", "f2", "int", 3]),
        "key": odd,
        "method": st.sampled_from(["exact", "sgd", "laplace", "exakt", None, 3]),
        "structure": st.sampled_from([None, "dense", "diagonal", "kronecker", "per-class", "x"]),
        "batch_size": st.one_of(st.sampled_from([None, 10]), odd),
        "batches": st.sampled_from(["auto", "windows", "epochs", "weighted", "x", None]),
        "control_variates": st.sampled_from([None, True, False, "yes"]),
        "on_divergence": st.sampled_from(["stop", "restart", "x", None]),
        "checkpoint_every": st.sampled_from([None, 0, 1.0, -1, "x"]),
        "chunk": st.one_of(st.just(1), odd.filter(lambda v: v != 10**30)),
    },
)
FILES = st.sampled_from(["run-0.orn", "draws-0-00001.orn", "draws-0-00002.orn"])
SUFFIX = st.sampled_from([".csv", ".tsv", ".csv.gz"])
SCALES = st.sampled_from([1.0, 0, -1, "x", None, float("nan"), [1.0], [1.0, 2.0]])

Check = Callable[[Home, Any], None]
TARGETS: dict[str, tuple[Check, st.SearchStrategy[Any], int, int]] = {
    "records": (check_record, changes, 100, 2000),
    "checkpoints": (check_checkpoint, st.tuples(FILES, changes), 60, 1200),
    "starts": (check_start, st.tuples(FILES, surgeries), 15, 400),
    "commands": (check_command, changes, 30, 300),
    "texts": (check_table, st.tuples(SUFFIX, texts.map(str.encode)), 40, 1500),
    "bytes": (check_table, st.tuples(SUFFIX, st.binary(max_size=200)), 50, 500),
    "damaged tables": (
        check_damaged_table,
        st.tuples(st.sampled_from([".csv", ".csv.gz", ".parquet"]), changes),
        80,
        1500,
    ),
    "encodings": (check_encoding, surgeries, 100, 1500),
    "fitted": (
        check_fitted,
        st.tuples(st.sampled_from(["table.json", "draws.nc"]), changes),
        40,
        1000,
    ),
    "frames": (
        check_learn,
        st.tuples(
            frames(),
            st.sampled_from([None, "linear", "logistic", "softmax", "poisson", "x"]),
            st.sampled_from(["refuse", "drop", "impute", "x"]),
        ),
        60,
        1200,
    ),
    "models": (
        check_models,
        st.tuples(
            st.sampled_from(["linear", "logistic", "softmax", "poisson"]),
            arrays(),
            arrays(),
            st.fixed_dictionaries({}, optional={"prior_precision": SCALES}),
        ),
        60,
        1500,
    ),
    "samples": (check_sample, SAMPLED, 6, 120),
}


@pytest.mark.parametrize("name", TARGETS)
def test_a_few_odd_inputs(name: str, home: Home) -> None:
    check, cases, few, _ = TARGETS[name]
    assert fuzz(lambda case: check(home, case), cases, few) >= few


def test_there_are_many() -> None:
    assert sum(many for *_, many in TARGETS.values()) >= 10_000


@pytest.mark.slow
@pytest.mark.parametrize("name", TARGETS)
def test_many_odd_inputs(name: str, home: Home) -> None:
    check, cases, _, many = TARGETS[name]
    assert fuzz(lambda case: check(home, case), cases, many) >= many
