"""The examples of the README and the docs run, and print what they say they print."""

import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

ROOT = Path(__file__).parent.parent
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
BLOCKS = re.compile(r"```python\n(.*?)```.*?```text\n(.*?)```", flags=re.DOTALL)
EXAMPLES = [
    pytest.param(code, shown, id=f"{page.stem}-{number}")
    for page in PAGES
    for number, (code, shown) in enumerate(BLOCKS.findall(page.read_text()))
]
NUMBER = re.compile(r"-?\d[\d,]*\.?\d*")


def test_no_example_is_left_out() -> None:
    assert sum(page.read_text().count("```python") for page in PAGES) == len(EXAMPLES) >= 3


@pytest.mark.parametrize(("code", "shown"), EXAMPLES)
def test_examples_print_what_they_say(code: str, shown: str, tmp_path: Path) -> None:
    environment = {k: v for k, v in os.environ.items() if not k.startswith("JAX_")}
    run = subprocess.run(
        [sys.executable, "-W", "error::DeprecationWarning:ornstein", "-c", code],
        capture_output=True,
        text=True,
        env=environment,
        cwd=tmp_path,
        check=False,
    )
    assert run.returncode == 0, run.stderr
    assert NUMBER.sub("#", run.stdout).split() == NUMBER.sub("#", shown).split()
    printed, expected = (
        np.array([float(n.replace(",", "")) for n in NUMBER.findall(text)])
        for text in (run.stdout, shown)
    )
    # Another processor rounds otherwise; the figures' digits beyond that are the same draws.
    np.testing.assert_allclose(printed, expected, rtol=0.05, atol=0.005)
