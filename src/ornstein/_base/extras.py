"""Packages that only some parts of the library need, and how to install them."""

from importlib.util import find_spec

from ornstein._base.errors import MissingExtraError

_PACKAGES = {
    "numpyro": {"numpyro": "NumPyro"},
    "reference": {"blackjax": "blackjax"},
    "report": {"matplotlib": "Matplotlib", "jinja2": "Jinja2"},
    "sklearn": {"sklearn": "scikit-learn", "pyarrow": "pyarrow"},
    "tables": {"pyarrow": "pyarrow", "formulaic": "formulaic"},
}
"""What an extra of ``pyproject.toml`` installs: modules, and the packages' own names."""


def missing(extra: str) -> list[str]:
    """The packages of an extra that are not installed."""
    return [name for module, name in _PACKAGES[extra].items() if find_spec(module) is None]


def require(extra: str, what: str) -> None:
    """Raise unless an extra is installed; ``what`` needs it, and begins the sentence."""
    if absent := missing(extra):
        raise MissingExtraError(
            f"{what} needs {' and '.join(absent)}, which {'is' if len(absent) == 1 else 'are'} "
            f"not installed: pip install 'ornstein[{extra}]'."
        )
