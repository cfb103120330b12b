"""The switch between single and double precision."""

from pathlib import Path

import jax.numpy as jnp

import ornstein
from ornstein._base.precision import double_precision, precision_of


def test_both_are_contexts_and_decorators() -> None:
    with precision_of("float32"):
        assert jnp.ones(1).dtype == "float32"
        with double_precision():
            assert jnp.ones(1).dtype == "float64"
        assert double_precision()(jnp.ones)(1).dtype == "float64"
        assert jnp.ones(1).dtype == "float32"


def test_the_switch_stands_in_one_file() -> None:
    root = Path(ornstein.__file__).parent
    switching = [path.name for path in root.rglob("*.py") if "enable_x64" in path.read_text()]
    assert switching == ["precision.py"]
