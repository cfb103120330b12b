"""What a table does not say is asked, and what is wrong with it is told at once."""

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

import ornstein as orn
from ornstein import tables
from ornstein.cli import app, reading_options
from ornstein.cli.wording import in_options
from ornstein.tables import CategoricalColumn, Encoding
from ornstein.tables.dates import DateColumn
from support.data_frames import N, frame, learn

DIGITS = np.resize(np.arange(10), 60)


# Targets ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "values", "choices"),
    [
        ("number", DIGITS, {"linear", "softmax", "poisson", "ordinal"}),
        ("quality", DIGITS + 3, {"linear", "softmax", "poisson", "ordinal"}),
        ("shift", DIGITS - 4.0, {"linear", "softmax", "ordinal"}),
        ("class", np.resize(np.arange(40), 120), {"linear", "softmax", "poisson"}),
        ("iris_species", [1, 2, 3] * 10, {"linear", "softmax", "poisson", "ordinal"}),
    ],
)
def test_whole_numbers_that_may_be_classes_are_asked_about(
    name: str, values: Any, choices: set[str]
) -> None:
    table = pd.DataFrame({"x": np.sin(np.arange(len(values))), name: values})
    with pytest.raises(orn.AmbiguousTargetError, match=r"distinct whole numbers.*model='") as found:
        tables.learn(table, name)
    assert set(found.value.choices) == choices
    for model in choices:
        assert f"model='{model}'" in str(found.value)
        assert tables.learn(table, name, model).encoding.model == model


@pytest.mark.parametrize(
    "values",
    [np.arange(60) ** 2, np.resize(np.arange(60), 240), np.linspace(0, 1, 60), [1, 2] * 30],
)
def test_other_numbers_are_not(values: Any) -> None:
    tables.guess_model(pd.DataFrame({"y": values}), "y")


def invoked(folder: Path, table: pd.DataFrame, *options: str) -> tuple[int, str]:
    table.to_csv(folder / "t.csv", index=False)
    words = [
        "fit",
        f"{folder}/t.csv",
        "-o",
        f"{folder}/run",
        "--draws",
        "8",
        "--holdout",
        "0",
        *options,
    ]
    done = CliRunner().invoke(app, [*words, "--method", "laplace", "--overwrite"])
    return done.exit_code, f"{done.stderr}{done.exception or ''}"


def test_a_pipe_ends_with_a_sentence_and_a_terminal_asks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = pd.DataFrame({"x": np.sin(np.arange(60)), "digit": DIGITS % 3})
    code, said = invoked(tmp_path, table, "-t", "digit")
    assert code == 1
    assert re.search(r"classes \(model='softmax'\)", said)
    assert not (tmp_path / "run").exists()
    monkeypatch.setattr(reading_options, "_at_terminal", lambda: True)
    monkeypatch.setattr("rich.prompt.Prompt.ask", lambda *_, **kw: kw["choices"][1])
    code, said = invoked(
        tmp_path, table, "-t", "digit", "--checkpoint", f"{tmp_path}/kept", "--seed", "1"
    )
    assert code == 0, said
    assert "What are they?" in said
    assert tables.TableModel.load(tmp_path / "run").encoding.model == "softmax"
    monkeypatch.setattr(reading_options, "_at_terminal", lambda: False)
    done = CliRunner().invoke(app, ["resume", f"{tmp_path}/kept", "-q"])
    assert done.exit_code == 0, "the answer is kept"


Build = Callable[[], object]
REFUSED: list[tuple[Build, str]] = [
    (lambda: tables.learn(frame()[:2], "y", "linear"), "2 rows to learn from: too few"),
    (
        lambda: tables.learn(frame(y=[f"{i},5" for i in range(20)] * 2), "y"),
        "target 'y' contains numbers with commas, such as '0,5'.*decimal=','",
    ),
    (
        lambda: tables.learn(frame(y=[f"{i},5" for i in range(20)] * 2), "y", "softmax"),
        "contains numbers with commas",
    ),
    (lambda: tables.learn(frame(y=["2020-01-01", "2020-01-02", "x"][:1] * N), "y"), "one value"),
    (lambda: tables.learn(frame(y=[f"n{i}" for i in range(N)]), "y"), "40 classes in 40 rows"),
    (lambda: tables.learn(frame(y=np.resize([*map(str, range(99)), "x"], N)), "y"), "40 classes"),
    (lambda: tables.learn(frame(id=range(N)), "id"), "'id' looks like an identifier.*model="),
    (lambda: tables.learn(frame(), "y", drop=["y"]), "target 'y' cannot be left out"),
    (lambda: tables.learn(frame(), "y", keep=["Size"]), "no column 'Size'.*mean 'size'"),
]


@pytest.mark.parametrize(("build", "message"), REFUSED)
def test_what_cannot_be_learned_is_said(build: Build, message: str) -> None:
    with pytest.raises(orn.InputError, match=message):
        build()


def test_columns_that_identify_rows_are_left_out_and_said() -> None:
    table = frame(customer_id=np.random.default_rng(0).permutation(N) + 1000, row=np.arange(N))
    encoding, *_, notes = tables.learn(table, "y", "linear")
    assert [column.name for column in encoding.columns] == ["a", "size", "kind", "row"]
    assert any(re.search("'customer_id'.*keep=\\['customer_id'\\]", note) for note in notes)
    assert any(re.search("'row' counts the rows.*drop=\\['row'\\]", note) for note in notes)
    kept = tables.learn(table, "y", "linear", keep=["customer_id"], drop=["row"]).encoding
    assert [column.name for column in kept.columns] == ["a", "size", "kind", "customer_id"]


def test_codes_are_levels_on_request() -> None:
    encoding = tables.learn(frame(zone_id=np.arange(N) % 4), "y", categorical=["zone_id"]).encoding
    assert isinstance(encoding.columns[3], CategoricalColumn)
    assert encoding.columns[3].levels == ("0", "1", "2", "3")
    notes = learn(zone_id=np.arange(N) % 4).notes
    assert any(re.search("codes.*categorical=\\['zone_id'\\]", note) for note in notes)


# All at once ------------------------------------------------------------------------------------


def test_all_problems_of_a_table_are_told_at_once_each_with_its_option() -> None:
    table = frame(
        when=["2020-01-01", "2021-12-31"] * 20,
        cost=["1,5", "2,25"] * 20,
        total=["1,500", "2,250,000"] * 20,
        name=[f"n{i}" for i in range(N)],
        mixed=[1, "a"] * 20,
        hole=[None, *range(1, N)],
        far=[np.inf, *range(1, N)],
        y=np.arange(N) % 5,
    )
    with pytest.raises(orn.InputError) as found:
        tables.learn(table, "y")
    lines = str(found.value).splitlines()
    assert lines[0] == "The table has 8 problems:"
    for expected in (
        "'mixed' contains .*drop=\\['mixed'\\]",
        r"Missing values in 'hole' \(1\).*missing='drop'",
        "'y' has 5 distinct whole numbers.*model='softmax'",
        "'when' contains dates.*parse_dates=\\['when'\\]",
        "'cost' contains numbers with commas.*decimal=','.*decimal point.*thousands=','",
        "'total' contains numbers with commas.*thousands=','.*thousands.*decimal=','",
        "'name' has 40 levels.*drop=\\['name'\\]",
        "'far' has 1 infinite values.*drop=\\['far'\\]",
    ):
        assert any(re.search(expected, line) for line in lines), expected


def test_the_options_mend_what_they_are_offered_for(tmp_path: Path) -> None:
    days = pd.date_range("2020-01-01", periods=60, freq="D")
    table = pd.DataFrame(
        {
            " when ": days.strftime("%d.%m.%Y"),
            "cost": [f"{i},5" for i in range(60)],
            "total": [f"{i + 1}.{i:03}" for i in range(60)],
            "name": [f"n{i}" for i in range(60)],
            "hole": [None, *np.sin(np.arange(1, 60))],
            "y": [f"{np.cos(i):.3f}".replace(".", ",") for i in range(60)],
        }
    )
    (tmp_path / "t.csv").write_text(table.to_csv(index=False, sep=";", decimal=","))
    words = ["fit", f"{tmp_path}/t.csv", "-t", "y", "-o", f"{tmp_path}/run", "--draws", "8"]
    words += ["--method", "laplace", "--decimal", ",", "--thousands", ".", "--drop", "name"]
    done = CliRunner().invoke(app, [*words, "--missing", "impute", "--parse-dates", "when"])
    assert done.exit_code == 0, f"{done.stderr}{done.exception}"
    model = tables.TableModel.load(tmp_path / "run")
    assert isinstance(model.encoding, Encoding)
    assert [column.name for column in model.encoding.columns] == ["when", "cost", "total", "hole"]
    assert "Dates of 'when' became days since 2020-01-01, weekdays (Tuesday" in done.stderr
    total = model.encoding.columns[2]
    np.testing.assert_allclose(total.centres, [np.mean([1000 * (i + 1) + i for i in range(60)])])
    done = CliRunner().invoke(app, ["predict", f"{tmp_path}/run", f"{tmp_path}/t.csv"])
    assert done.exit_code == 0, f"{done.stderr}{done.exception}"
    assert len(done.stdout.splitlines()) == 61


def test_marks_of_numbers_are_told_apart(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("a;b;c\n1.234,5;1.5;x\n2;2,5;y\n")
    found = tables.read(tmp_path / "t.csv", decimal=",", thousands=".")
    assert found["a"].tolist() == [1234.5, 2.0]
    assert found["b"].tolist() == ["1.5", "2,5"], "1.5 has no group of three digits"
    for decimal, thousands in ((";", ""), (".", "x"), (",", ",")):
        with pytest.raises(orn.InputError, match=r"decimal|thousands"):
            tables.read(tmp_path / "t.csv", decimal=decimal, thousands=thousands)


def test_a_first_column_without_a_name_is_that_of_row_names(tmp_path: Path) -> None:
    frame().to_csv(tmp_path / "t.csv")
    found = tables.read(tmp_path / "t.csv")
    assert list(found.columns) == ["column 1", "a", "size", "kind", "y"]
    assert any("'column 1' counts the rows" in note for note in tables.learn(found, "y").notes)


# Dates ------------------------------------------------------------------------------------------


def hours(rows: int = 2000) -> pd.Series:
    return pd.Series(pd.date_range("2020-02-29 05:00", periods=rows, freq="7h"))


@pytest.mark.parametrize("format", [None, "%d/%m/%Y %H:%M", "%Y-%m-%d %H:%M:%S"])
def test_dates_become_days_weekday_season_and_time_of_day(format: str | None) -> None:
    when = hours()
    table = pd.DataFrame({"when": when if format is None else when.dt.strftime(format)})
    table["y"] = np.sin(np.arange(2000))
    encoding, X, _, _ = tables.learn(table, "y", parse_dates=["when"])
    (column,) = encoding.columns
    assert isinstance(column, DateColumn)
    assert column.features[:2] == ("when (days)", "when=Tuesday")
    assert len(column.features) == 1 + 6 + 2 + 2
    np.testing.assert_allclose(X.mean(axis=0), 0, atol=1e-9)
    own = X * np.array(column.scales) + np.array(column.centres)
    np.testing.assert_allclose(own[:, 0], (when - when[0]).dt.total_seconds() / 86400)
    np.testing.assert_array_equal(own[:, 6] > 0.5, when.dt.day_of_week == 6)
    angle = 2 * np.pi * (when.dt.hour + when.dt.minute / 60) / 24
    np.testing.assert_allclose(
        own[:, 9:], np.column_stack([np.sin(angle), np.cos(angle)]), atol=1e-9
    )
    assert Encoding.from_json(encoding.to_json()) == encoding
    np.testing.assert_allclose(encoding.encode(table[5:9]), X[5:9])
    with pytest.raises(orn.InputError, match=r"not dates written as the others.*'soon'"):
        encoding.encode(pd.DataFrame({"when": ["soon"]}))


@pytest.mark.parametrize(
    ("texts", "options", "message"),
    [
        (["01/02/2020", "03/04/2020"], ["when"], "several ways.*'when=%d/%m/%Y'"),
        (["2020-01-01", "2020-13-01"], ["when"], "not dates in one format.*'2020-13-01'"),
        (["2020-01-01"], ["when"], "one date only.*drop=\\['when'\\]"),
    ],
)
def test_dates_that_leave_a_doubt(texts: list[str], options: list[str], message: str) -> None:
    table = frame(when=np.resize(texts, N))
    with pytest.raises(orn.InputError, match=message):
        tables.learn(table, "y", parse_dates=options)


def test_a_format_settles_the_doubt() -> None:
    table = frame(when=np.resize(["01/02/2020", "03/05/2020"], N))
    spans = []
    for given in (["when=%d/%m/%Y"], {"when": "%m/%d/%Y"}):
        encoding, X, *_ = tables.learn(table, "y", parse_dates=given)
        spans.append(np.ptp(X[:, 4] * encoding.units.scale[4]))
    np.testing.assert_allclose(spans, [92, 63])


# Levels that were not learned -------------------------------------------------------------------


def test_unseen_levels_are_refused_or_predicted_as_asked(tmp_path: Path) -> None:
    model = tables.fit_table(tables.learn(frame(), "y"), draws=50, method="laplace")
    later = frame()[:6].assign(kind=["oak", "fir", "ash", "yew", "fir", "elm"])
    with pytest.raises(orn.InputError, match=r"in 3 rows \(2, 4, 5, .*unseen='average'"):
        model.predict(later)
    assert isinstance(model.encoding, Encoding)
    X = model.encoding.encode(later, "average")
    np.testing.assert_array_equal(X[[1, 3, 4], 2:], 0)
    baseline = model.predict(later, unseen="baseline")
    as_ash = model.predict(later.assign(kind=["oak", "ash", "ash", "ash", "ash", "elm"]))
    pd.testing.assert_frame_equal(baseline, as_ash)
    (new,) = model.new_levels(later)
    assert (new.column, new.levels, new.rows.tolist()) == ("kind", ("fir", "yew"), [1, 3, 4])
    with pytest.raises(orn.InputError, match="unseen='mean' is not known"):
        model.predict(later, unseen="mean")
    model.save(tmp_path / "run")
    later.to_csv(tmp_path / "new.csv", index=False)
    words = ["predict", f"{tmp_path}/run", f"{tmp_path}/new.csv"]
    assert "--unseen average" in in_options(str(CliRunner().invoke(app, words).exception))
    done = CliRunner().invoke(app, [*words, "--unseen", "average"])
    assert done.exit_code == 0
    assert re.search(r"'kind' has levels.* 3 rows \(2, 4, 5, .*'fir', 'yew'", done.stderr)
    assert len(done.stdout.splitlines()) == 7


def test_all_problems_of_rows_to_predict_are_told_at_once() -> None:
    later = frame()[:4].assign(kind="fir", a=["1", "x", "2", "3"], size=[1.0, np.inf, 2.0, 3.0])
    with pytest.raises(orn.InputError, match="has 3 problems"):
        learn().encoding.encode(later)
