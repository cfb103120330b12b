"""Mixed models of the field's tables beside NUTS and lme4."""

import json
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from ornstein.experiments import mixed
from support.field_tables import require


@pytest.mark.slow
def test_sleepstudy_agrees_with_nuts_and_lme4(tmp_path: Path) -> None:
    """In the table's own units, whichever the model was drawn in."""
    require("sleepstudy")
    console = Console(record=True, width=200, quiet=False)
    found = mixed.mixed(tmp_path, console, 200, ("sleepstudy",), progress=False)
    (record,) = json.loads((tmp_path / "mixed.json").read_text())
    assert found == [record]
    assert (record["rows"], record["effects"]) == (180, 38)
    own = {p["name"]: p for p in record["parameters"]}
    assert list(own) == [
        "Days",
        "intercept",
        "sd(Subject: 1)",
        "sd(Subject: Days)",
        "cor(Subject: 1, Days)",
        "sigma",
    ]
    for name, p in own.items():
        assert abs(p["mean_error"]) < 5 * p["mc_error"], name
        assert p["lme4"] is not None
    assert abs(own["intercept"]["nuts"]["mean"] - 251.4) < 4
    assert abs(own["sigma"]["nuts"]["mean"] - 25.6) < 1.5
    text = console.export_text()
    assert "NUTS: the farthest mean is" in text
    assert "sd(Subject: 1): our mean is" in text
    assert (tmp_path / "mixed.png").stat().st_size > 5000


def _record(**changes: Any) -> dict[str, Any]:
    ours = {"mean": 1.5, "sd": 1.0, "low": 0.0, "high": 3.0, "ess": 400.0, "r_hat": 1.0}
    parameter = {
        "name": "sd(g)",
        "lme4": 1.0,
        "ours": ours,
        "nuts": ours | {"mean": 1.48},
        "mean_error": 0.02,
        "quantile_errors": [0.05, -0.1],
        "mc_error": 0.07,
    }
    return {"family": "linear", "parameters": [parameter | changes]}


def test_every_difference_has_a_sentence() -> None:
    nuts, lme4 = mixed.sentences(_record())
    assert "farthest mean is 0.02" in nuts
    assert "quantile 0.10" in nuts
    assert "as chance has it" in nuts
    assert "0.50 posterior standard deviations above lme4's figure" in lme4
    far, _ = mixed.sentences(_record(mean_error=0.5))
    assert "beyond chance: sd(g)" in far
    assert len(mixed.sentences(_record(lme4=1.4))) == 1
    assert len(mixed.sentences(_record(lme4=None))) == 1


def test_tables_without_nuts_say_so() -> None:
    record = _record()
    for key in ("nuts", "mean_error", "quantile_errors", "mc_error"):
        del record["parameters"][0][key]
    assert mixed.sentences(record)[0].startswith("NUTS: not run")


def test_names_are_those_of_the_models() -> None:
    """Every figure of lme4 has a parameter of ours."""
    for example in mixed.PROBLEMS.values():
        require(example.name)
        post = example.posterior()
        assert set(example.lme4) == {*post.fixed_labels, *post.hyper_labels}, example.name


def test_an_unknown_table_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="Did you mean 'radon'"):
        mixed.mixed(tmp_path, Console(quiet=True), 200, ("radonn",))
