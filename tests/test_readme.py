"""The README's examples run, and print what it says they print."""

import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

README = (Path(__file__).parent.parent / "README.md").read_text()
EXAMPLES = re.findall(r"```python\n(.*?)```.*?```text\n(.*?)```", README, flags=re.DOTALL)
NUMBER = re.compile(r"-?\d[\d,]*\.?\d*")


@pytest.mark.parametrize("index", range(2))
def test_examples_print_what_the_readme_shows(index: int) -> None:
    code, shown = EXAMPLES[index]
    environment = {k: v for k, v in os.environ.items() if not k.startswith("JAX_")}
    run = subprocess.run(
        [sys.executable, "-W", "error::DeprecationWarning:ornstein", "-c", code],
        capture_output=True,
        text=True,
        env=environment,
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
