"""What was learned from a table serves later ones, and survives in JSON."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

import ornstein as orn
from ornstein import tables
from ornstein.tables import CategoricalColumn, Encoding, NumericColumn, Target
from support.data_frames import ODD_NAMES, N, frame, holed, learn, target_of
from support.strategies import theory_settings

# Encoding later tables --------------------------------------------------------------------------


def test_the_same_table_is_encoded_the_same() -> None:
    encoding, X, y, _ = learn()
    shuffled = frame(more="x")[["more", "size", "y", "a", "kind"]].set_axis(range(5, N + 5))
    np.testing.assert_array_equal(encoding.encode(shuffled), X)
    np.testing.assert_array_equal(encoding.encode_target(shuffled), y)
    np.testing.assert_array_equal(encoding.encode(shuffled[3:4]), X[3:4])
    as_text = shuffled.assign(a=[repr(value) for value in shuffled["a"].tolist()])
    np.testing.assert_array_equal(encoding.encode(as_text), X)


def test_codes_survive_a_later_file(tmp_path: Path) -> None:
    table = frame(code=np.resize(["01", "02", "x", "01"], N))
    encoding = tables.learn(table, "y", "linear").encoding
    path = tmp_path / "later.csv"
    table[table["code"] != "x"].to_csv(path, index=False)
    with pytest.raises(orn.InputError, match="not learned"):
        encoding.encode(tables.read(path))
    later = encoding.encode(tables.read(path, text=encoding.text_columns))
    np.testing.assert_allclose(later, encoding.encode(table[table["code"] != "x"]))


BAD_LATER: list[tuple[Callable[[pd.DataFrame], object], str]] = [
    (lambda t: t.drop(columns=["a", "kind"]), r"no column 'a', 'kind'\. It has 'size', 'y'"),
    (lambda t: t.rename(columns={"size": "Size"}), r"no column 'size'.*Did you mean 'Size'"),
    (lambda t: t.assign(a=holed(t["a"], 4)), r"Missing values in 'a' \(1\)"),
    (lambda t: t.assign(a=["1", "x", "y", "1.5"] * 10), r"'a' must hold numbers: 20 .*first.*'x'"),
    (lambda t: t.assign(a=np.inf), r"'a' has 40 infinite"),
    (lambda t: t.assign(a=["1", "-inf"] * 20), r"'a' has 20 infinite"),
    (lambda t: t.assign(a=pd.Timestamp("2020")), r"'a' contains dates"),
    (
        lambda t: t.assign(kind=["oak", "fir"] * 20),
        r"'kind' has levels.*20 rows \(2, 4, 6, 8, 10 and 15 more.*'fir'.*'ash'.*unseen='average'",
    ),
    (lambda t: t.assign(kind=1.5), r"'kind' has levels.*40 rows.*'1\.5'"),
    (lambda t: t.to_numpy(), r"DataFrame, found ndarray"),
]


@pytest.mark.parametrize(("change", "message"), BAD_LATER)
def test_bad_later_tables(change: Callable[[pd.DataFrame], Any], message: str) -> None:
    encoding = learn().encoding
    with pytest.raises(orn.InputError, match=message):
        encoding.encode(change(frame()))


def test_values_beyond_reach_are_refused() -> None:
    encoding = Encoding("linear", "refuse", (NumericColumn("a", 0.0, 1e-50),), Target("y"))
    with pytest.raises(orn.InputError, match=r"'a' has the value 1e\+300, too far"):
        encoding.encode(pd.DataFrame({"a": [1e300]}))


def test_bad_later_targets() -> None:
    encoding = learn("logistic", y=target_of("logistic")).encoding
    for y, message in (
        ("maybe", "classes that were not learned in 40 rows.*'maybe'.*'no', 'yes'"),
        (None, r"'y' \(40\)"),
    ):
        with pytest.raises(orn.InputError, match=message):
            encoding.encode_target(frame(y=y))
    with pytest.raises(orn.InputError, match="no column 'y'"):
        encoding.encode_target(frame().drop(columns="y"))


# Names ------------------------------------------------------------------------------------------


def test_odd_names_are_only_names() -> None:
    table = frame(**{name: np.arange(N) ** (i + 2.0) for i, name in enumerate(ODD_NAMES)})
    table["7"] = np.resize(ODD_NAMES, N)
    encoding, X, y, _ = tables.learn(table, "y", "linear")
    assert set(ODD_NAMES) < {column.name for column in encoding.columns}
    post = tables.posterior(X, y, encoding)
    assert post.names["coef"] == encoding.features
    assert len(set(encoding.features)) == X.shape[1]
    assert all(name.isprintable() for name in encoding.features)
    assert Encoding.from_json(encoding.to_json()) == encoding


def test_names_that_are_not_text_become_text() -> None:
    encoding = tables.learn(frame().set_axis([1, 2.5, None, "y"], axis=1), "y", "linear").encoding
    assert [column.name for column in encoding.columns] == ["1", "2.5", "None"]
    with pytest.raises(orn.InputError, match=r"same name: '1' \(2\)"):
        tables.learn(frame().set_axis([1, "1", "b", "y"], axis=1), "y", "linear")


# JSON -------------------------------------------------------------------------------------------

finite = st.floats(-1e300, 1e300)
words = st.text(max_size=8)


@st.composite
def encodings(draw: st.DrawFn) -> Encoding:
    """Any encoding the writer may meet."""
    names = draw(st.lists(words, min_size=2, max_size=5, unique=True))
    columns: list[NumericColumn | CategoricalColumn] = []
    for name in names[1:]:
        if draw(st.booleans()):
            columns.append(NumericColumn(name, draw(finite), draw(st.floats(1e-99, 1e99))))
            continue
        levels: list[str | None] = [*draw(st.lists(words, min_size=2, max_size=4, unique=True))]
        levels += [None] * draw(st.booleans())
        shares = [draw(st.floats(0, 1)) for _ in levels[1:]]
        columns.append(CategoricalColumn(name, tuple(levels), tuple(shares)))
    model = draw(st.sampled_from(["linear", "logistic", "softmax", "poisson"]))
    target = {
        "linear": Target(names[0], None, draw(finite), draw(st.floats(1e-99, 1e99))),
        "logistic": Target(names[0], ("", "b")),
        "softmax": Target(names[0], ("c", "a", "é")),
        "poisson": Target(names[0]),
    }[model]
    missing = draw(st.sampled_from(["refuse", "drop", "impute"]))
    return Encoding(model, missing, tuple(columns), target)


@theory_settings
@given(encodings())
def test_json_loses_nothing(encoding: Encoding) -> None:
    text = encoding.to_json()
    assert text.isascii()
    assert Encoding.from_json(text) == encoding


RECORD = json.loads(learn("logistic", y=target_of("logistic")).encoding.to_json())


def changed(path: str, value: Any) -> str:
    """The record with one entry replaced, as JSON."""
    record = json.loads(json.dumps(RECORD))
    *way, last = [int(step) if step.isdigit() else step for step in path.split(".")]
    place = record
    for step in way:
        place = place[step]
    place[last] = value
    return json.dumps(record)


BAD_JSON: list[tuple[Any, str]] = [
    ("", "not JSON"),
    ("{", "not JSON"),
    ("[" * 100_000, "not JSON"),
    (None, "not JSON"),
    ('{"version": 1, "version": 1}', "key twice"),
    ("[]", r"must be an object, found \[\]"),
    ("{}", "version None; this release reads version 2"),
    (changed("version", 1), "version 1; this release reads version 2"),
    (changed("version", True), "version True"),
    (changed("version", "2"), "version '2'"),
    (changed("extra", 1), "an object of model, missing, columns, target"),
    (changed("model", "probit"), "model='probit' is not known; choose one of linear"),
    (changed("model", ["linear"]), "model must be a text"),
    (changed("missing", "keep"), "missing='keep' is not known; choose one of refuse"),
    (changed("missing", None), "missing must be a text"),
    (changed("columns", {}), "columns must be a list"),
    (changed("columns", []), "columns must be one column or more"),
    (changed("columns.0", 3), r"columns\[0\] must be an object"),
    (changed("columns.0.name", 3), r"columns\[0\]\.name must be a text, found 3"),
    (changed("columns.0.name", "size"), "distinct names"),
    (changed("columns.0.name", "y"), "distinct names"),
    (changed("columns.0.kind", "date"), r"columns\[0\] must be an object of name, centre, scale"),
    (changed("columns.2.$type", "date"), r"columns\[2\]\.\$type must be a known type"),
    (changed("columns.2.$type", "Target"), r"columns\[2\] must be an object of name, classes"),
    (changed("columns.0.centre", "1"), r"columns\[0\]\.centre must be a number, found '1'"),
    (changed("columns.0.centre", True), r"columns\[0\]\.centre must be a number"),
    (changed("columns.0.centre", float("nan")), r"columns\[0\]: centre must be a finite number"),
    (changed("columns.0.centre", 10**400), r"columns\[0\]: centre must be a finite number"),
    (changed("columns.0.scale", 0), r"columns\[0\]: scale must be a finite number above 0"),
    (changed("columns.0.scale", -1.5), r"columns\[0\]: scale must be a finite number above 0"),
    (changed("columns.2.levels", "ab"), r"columns\[2\]\.levels must be a list"),
    (changed("columns.2.levels", ["a"]), r"two or more distinct texts"),
    (changed("columns.2.levels", ["a", "a", "b"]), r"two or more distinct texts"),
    (changed("columns.2.levels", ["a", "b", 3]), r"levels\[2\] must be a text"),
    (changed("columns.2.levels", [None, "a", "b"]), r"two or more distinct texts"),
    (changed("columns.2.levels", ["a", [], "b"]), r"levels\[1\] must be a text"),
    (changed("columns.2.centres", [0.5]), r"columns\[2\]: centres must be 2 numbers"),
    (changed("columns.2.centres", [0.5, "x"]), r"columns\[2\]\.centres\[1\] must be a number"),
    (changed("columns.2.centres", [0.5, 2.0]), r"between 0 and 1"),
    (changed("target", None), "target must be an object"),
    (changed("target.name", None), r"target\.name must be a text"),
    (changed("target.classes", None), "target's classes must be two distinct texts"),
    (changed("target.classes", ["a", "b", "c"]), "two distinct texts"),
    (changed("target.classes", ["a", 1]), r"target\.classes\[1\] must be a text"),
    (changed("target.classes", ["a", "a"]), "two distinct texts"),
    (changed("target.scale", 2.0), "0 and 1 for a logistic model"),
    (changed("model", "poisson"), "None for a poisson model"),
]


@pytest.mark.parametrize(("text", "message"), BAD_JSON)
def test_bad_json(text: Any, message: str) -> None:
    with pytest.raises(orn.InputError, match=message):
        Encoding.from_json(text)
