"""Long phases say what they are."""

import time

import pytest

from ornstein._base.progress import bar, phase


def test_a_phase_speaks_only_if_it_is_long(capsys: pytest.CaptureFixture[str]) -> None:
    with phase("quick [b]", True, patience=5.0):
        pass
    with phase("silent", False, patience=0.0):
        time.sleep(0.05)
    with phase("piped", None, patience=0.0):
        time.sleep(0.05)
    with phase("long [b]", True, patience=0.0):
        time.sleep(0.3)
    said = capsys.readouterr().err
    assert "long [b] ..." in said
    assert said.count("...") == 1


def test_a_bar_speaks_for_its_phase(capsys: pytest.CaptureFixture[str]) -> None:
    with phase("planning", True, patience=0.2), bar("sampling", True)(10) as report:
        report(10, 10)
        time.sleep(0.4)
    assert "planning" not in capsys.readouterr().err
