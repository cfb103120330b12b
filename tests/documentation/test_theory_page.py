"""The page on theory: it leaves no function out, and names no test that is not there."""

import ast
import re
from pathlib import Path

import pytest

from ornstein import theory

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "theory.md").read_text()
IDS = [f"T{n}" for n in range(1, 4)] + [f"R{n}" for n in range(1, 9)]
IDS += [f"X{n}" for n in range(1, 15)]
ROWS = [
    tuple(cell.strip() for cell in line.strip("|").split("|"))
    for line in PAGE.splitlines()
    if re.match(r"\| [TRX]\d", line)
]


def named(text: str) -> list[str]:
    return re.findall(r"`(\w+)`", text)


@pytest.fixture(scope="module")
def tests() -> dict[str, str]:
    """The source of the file that each test is in."""
    found = {}
    for path in sorted((ROOT / "tests").rglob("test_*.py")):
        source = path.read_text()
        for node in ast.parse(source).body:
            if isinstance(node, ast.FunctionDef) and node.name.startswith("test_"):
                found[node.name] = source
    return found


def test_every_public_function_is_on_the_page_once() -> None:
    functions = [name for row in ROWS for name in named(row[2])]
    assert sorted(functions) == sorted(theory.__all__)


def test_every_named_test_exists_and_uses_the_function(tests: dict[str, str]) -> None:
    """Types, in capitals, are what functions return."""
    for ids, _, functions, checks in ROWS:
        assert named(checks), f"{functions} names no test"
        for check in named(checks):
            assert check in tests, check
        for function in (name for name in named(functions) if name.islower()):
            word = re.compile(rf"\b{function}\b")
            assert any(word.search(tests[check]) for check in named(checks)), function
        for equation in ids.split(", "):
            assert equation in IDS
    for name in re.findall(r"`(test_\w+)`", PAGE):
        assert name in tests, name


@pytest.mark.parametrize("equation", IDS)
def test_every_equation_has_a_test_of_its_name(equation: str) -> None:
    own = [name for name in re.findall(r"`(test_\w+)`", PAGE) if f"_{equation}_" in name]
    assert own, f"no test on the page has {equation} in its name"


def test_docstrings_name_the_equation_of_their_row() -> None:
    """Of functions that state a formula: what begins with ``T1:`` or ``R1 (`` is in such a row."""
    for ids, _, functions, _ in ROWS:
        for function in named(functions):
            begin = re.match(r"([TRX]\d+)(?::| \()", getattr(theory, function).__doc__ or "")
            if begin:
                assert begin[1] in ids.split(", "), function
