"""The examples in the README and the docs run, and print what the page shows."""

import json
import os
import re
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from support.pages import PAGES, ROOT, blocks

RUNNER = ROOT / "tests" / "support" / "page_runner.py"
NUMBER = re.compile(r"-?\d[\d,]*\.?\d*")


RUN = {page.relative_to(ROOT).as_posix(): blocks(page) for page in PAGES if blocks(page)}


def test_no_example_is_left_out() -> None:
    for page in PAGES:
        found = RUN.get(page.relative_to(ROOT).as_posix(), [])
        assert page.read_text().count("```python") == sum(b.kind == "python" for b in found)
    assert {"README.md", "docs/tutorial.md", "docs/custom-models.md"} <= set(RUN)
    assert sum(block.shown is not None for page in RUN.values() for block in page) >= 15


FIRST = ("README.md", "docs/tutorial.md")
"""What a new user reads first; the other pages' examples are run by ``make docs``."""
REST = [page for page in RUN if page not in FIRST]


@pytest.mark.parametrize(
    "named",
    [
        pytest.param(FIRST, id="first pages"),
        pytest.param(REST[::2], id="one half", marks=pytest.mark.examples),
        pytest.param(REST[1::2], id="other half", marks=pytest.mark.examples),
    ],
)
def test_examples_print_what_they_say(named: Sequence[str], tmp_path: Path) -> None:
    """Several pages in one process, which imports and compiles once."""
    environment = {k: v for k, v in os.environ.items() if k != "JAX_ENABLE_X64"}
    command = [sys.executable, "-W", "error::DeprecationWarning:ornstein", str(RUNNER)]
    pages = {page: RUN[page] for page in named}
    run = subprocess.run(
        command,
        input=json.dumps({page: [block[:2] for block in pages[page]] for page in pages}),
        capture_output=True,
        text=True,
        env=environment,
        cwd=tmp_path,
        check=False,
    )
    assert run.returncode == 0, run.stderr
    print(run.stderr)
    for page, done in json.loads(run.stdout).items():
        assert done["error"] is None, done["error"]
        for number, (block, printed) in enumerate(zip(pages[page], done["printed"], strict=True)):
            if block.shown is not None:
                compare(printed, block.shown, f"{page}, block {number}")


def compare(printed: str, shown: str, where: str = "") -> None:
    """The same words; numbers to 1 %, or to the last decimal shown, for another CPU's rounding."""
    assert NUMBER.sub("#", printed).split() == NUMBER.sub("#", shown).split(), where
    for found, expected in zip(NUMBER.findall(printed), NUMBER.findall(shown), strict=True):
        decimals = len(expected.partition(".")[2])
        one, other = (float(number.replace(",", "")) for number in (found, expected))
        within = 0.01 * abs(other) + (1.01 * 10.0**-decimals if decimals else 0.0)
        assert abs(one - other) <= within, f"{where}: printed {found}, shown {expected}"


@pytest.mark.parametrize(
    ("printed", "shown"), [("a 1.0", "b 1.0"), ("a 1.0", "a 1.2"), ("0.522", "0.503"), ("4", "5")]
)
def test_other_output_is_noticed(printed: str, shown: str) -> None:
    with pytest.raises(AssertionError):
        compare(printed, shown)


@pytest.mark.parametrize(("printed", "shown"), [("0.523", "0.522"), ("3,133.2", "3,140.9")])
def test_rounding_is_allowed(printed: str, shown: str) -> None:
    compare(printed, shown)
