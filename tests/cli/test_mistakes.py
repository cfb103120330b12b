"""A user's mistakes at the command line: said at once, in the words of the command line."""

import re
import warnings
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

import ornstein as orn
from ornstein._base.checks import nearest
from ornstein.cli import app, main
from ornstein.cli.wording import in_options, warnings_in_a_line
from ornstein.results.answers import Answer


@pytest.fixture
def table(tmp_path: Path) -> Path:
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"a": rng.normal(size=40), "y": rng.normal(size=40)})
    frame.to_csv(tmp_path / "table.csv", index=False)
    return tmp_path / "table.csv"


@pytest.mark.parametrize(
    ("said", "expected"),
    [
        ("prior_precision must be a number, found -1.0.", "--prior-precision must be"),
        ("method='exakt' is not known", "--method exakt is not known"),
        ("batch_size=9 is too large", "--batch-size 9 is too large"),
        ("use missing='drop' (--missing drop) or", "use --missing drop or"),
        ("numbers (model='linear', --model linear)", "numbers (--model linear)"),
        ("leave out a column with drop (--drop).", "leave out a column with --drop."),
        ("The table has no column 'method'.", "The table has no column 'method'."),
        ("hyper='draw' draws it, and prior_precision gives it.", "and --prior-precision gives"),
        ("The column 'batch_size' is text.", "The column 'batch_size' is text."),
        ("key must be a whole number", "--seed must be a whole number"),
        ("use it: keep=['rownames'] (--keep rownames).", "use it: --keep rownames."),
        ("or drop=['length (cm)'] (--drop 'length (cm)')", "or --drop 'length (cm)'"),
        ("make draws=4000 (--draws 4000); if", "make --draws 4000; if"),
        ("use gamma (--family gamma)", "use --family gamma"),
        ("leave the column out (--drop town)", "leave the column out (--drop town)"),
    ],
)
def test_messages_name_options(said: str, expected: str) -> None:
    assert expected in in_options(said)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["fit", "{table}", "-t", "y", "-o", "{table}/run"], "a file is in the way"),
        (["fit", "{table}", "-t", "y", "--prior-precision", "-1"], "--prior-precision must be"),
        (["fit", "{table}", "-t", "y", "--model", "logistic"], "--model linear"),
        (["fit", "{folder}", "-t", "y"], "is a folder; name one file in it"),
        (["fit", "{table}", "-t", "y", "--method", "sgd-d"], "'sgd-dense' or 'sgd-diagonal'"),
        (["fit", "{table}", "-t", "y", "--method", "nuts", "--batch-size", "9"], "minibatches"),
        (["resume", "{folder}/empty"], "before it kept anything, run it again"),
        (["resume", "{folder}"], "is not a checkpoint of a command"),
        (["fit", "{table}", "-t", "y", "--predict", "none.csv"], "there is no such file"),
        (["compare", "{table}", "-t", "y", "--json", "{folder}/no/x"], "there is no folder"),
        (["compare", "{table}", "-t", "y", "--plot", "{folder}/no/x.png"], "there is no folder"),
        (["compare", "{table}", "-t", "y", "--reference", "x"], "--reference x is not known"),
        (["predict", "{folder}", "{table}", "-o", "{folder}"], "is a folder; name a file in it"),
        (["predict", "{folder}", "{table}", "-o", "{folder}/no/p.csv"], "there is no folder"),
        (["report", "{folder}"], "has no report.json"),
        (["report", "{folder}", "-o", "{folder}"], "is a folder; name a file in it"),
    ],
)
def test_mistakes_are_said_before_work_begins(
    arguments: list[str],
    message: str,
    table: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    given = [part.format(table=table, folder=table.parent) for part in arguments]
    (table.parent / "empty").mkdir()
    monkeypatch.setattr("sys.argv", ["ornstein", *given])
    monkeypatch.chdir(table.parent)
    monkeypatch.setattr("ornstein.cli._prepare_libraries", lambda: None)
    with pytest.raises(SystemExit) as stop:
        main()
    said = capsys.readouterr().err
    assert stop.value.code == 1
    assert message in said
    assert "Errno" not in said
    assert said.count("\n") == 1


def test_a_warning_is_one_sentence(capsys: pytest.CaptureFixture[str]) -> None:
    with warnings_in_a_line():
        said = orn.DivergenceWarning("2 of 9 diverged: use batch_size=5.")
        warnings.showwarning(said, orn.DivergenceWarning, "/far/away.py", 124)
    assert capsys.readouterr().err == "ornstein: 2 of 9 diverged: use --batch-size 5.\n"


@pytest.mark.parametrize("verdict", ["", "ok", "warn", "fail", "cannot tell"])
def test_a_verdict_stands_apart_from_its_question(verdict: str) -> None:
    assert re.match(rf"{verdict} +Does the model", str(Answer("fit", verdict, "As far as seen.")))


def test_words_that_a_mistake_begins_come_first() -> None:
    assert nearest("sgd-d", ["sgd", "sgd-dense", "sgd-diagonal"]) == (
        " Did you mean 'sgd-dense' or 'sgd-diagonal'?"
    )
    assert nearest("zzz", ["sgd"]) == ""


def test_a_target_of_numbers_with_a_stray_text() -> None:
    """It is not made a classification in silence; classes that are asked for are taken."""
    rng = np.random.default_rng(0)
    grade = rng.integers(1, 9, 200).astype(str)
    frame = pd.DataFrame({"a": rng.normal(size=200), "grade": grade})
    frame.loc[7, "grade"] = "ask"
    with pytest.raises(orn.InputError, match=r"most of them numbers, but not 'ask'.*model='soft"):
        orn.tables.learn(frame, "grade")
    assert orn.tables.learn(frame, "grade", "softmax").encoding.target.classes is not None


def test_a_run_keeps_what_its_page_shows(table: Path) -> None:
    """The page that is made again is the same, byte for byte, wherever it is written."""
    run = table.with_name("run")
    fit = ["fit", str(table), "-t", "y", "-o", str(run), "--draws", "50", "-q"]
    assert CliRunner().invoke(app, fit, catch_exceptions=False).exit_code == 0
    page = (run / "report.html").read_bytes()
    (run / "report.html").unlink()
    table.unlink()
    for arguments, place in (([], run / "report.html"), (["-o", "b.html"], run / "b.html")):
        given = [str(run / part) if part.endswith("html") else part for part in arguments]
        done = CliRunner().invoke(app, ["report", str(run), *given], catch_exceptions=False)
        assert f"wrote {place}" in done.stdout
        assert place.read_bytes() == page
    kept = run / "report.json"
    kept.write_text(kept.read_text().replace("data:image/svg+xml;base64,", "https://example.org/"))
    with pytest.raises(orn.InputError, match="is not part of the page"):
        CliRunner().invoke(app, ["report", str(run)], catch_exceptions=False)
