"""Expressions in a formula: what they may hold, and their value.

Formulaic evaluates a factor such as ``log(x)`` as Python. Each is read here first, as a syntax
tree: columns, numbers, arithmetic and calls of listed functions by name are accepted; attributes,
subscripts, lambdas and all other names are refused, with the place marked.
"""

import ast
import re
from collections.abc import Callable, Collection, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from ornstein._base.checks import names_of, nearest, shown
from ornstein._base.errors import InputError

Floats = npt.NDArray[np.float64]

ARITHMETIC: dict[str, Callable[[Any], Any]] = {
    "log": np.log,
    "log2": np.log2,
    "log10": np.log10,
    "log1p": np.log1p,
    "exp": np.exp,
    "sqrt": np.sqrt,
    "abs": np.abs,
}
"""Functions of numbers, row by row."""

STATEFUL = ("bs", "cr", "cs", "cc", "poly", "center", "scale", "standardize")
CODINGS = ("C", "Treatment", "Sum", "Helmert", "Diff", "Poly")
FUNCTIONS = (*ARITHMETIC, *STATEFUL, *CODINGS, "I")

_LARGEST = 1000  # degrees of freedom
_DEEPEST = 50  # levels of a syntax tree
_POWER = 10
_DOTTED = re.compile(r"^[^\W\d][\w.]*$")
_QUOTED = re.compile(r"`([^`]*)`")


def refuse(formula: str, part: str, why: str) -> InputError:
    """An error that marks the place of a part in a formula."""
    at = formula.find(part) if part else -1
    if at < 0:
        return InputError(f"formula: {why}\n  {formula}")
    mark = " " * at + "^" * max(1, len(part))
    return InputError(f"formula: {why}\n  {formula}\n  {mark}")


class Expression:
    """One accepted expression: its syntax tree, and the columns it uses."""

    def __init__(self, text: str, formula: str, columns: Collection[str]) -> None:
        self.text, self.formula, self.columns = text, formula, columns
        self.quoted: dict[str, str] = {}
        whole = bool(_DOTTED.match(text.strip())) and text.strip() in columns  # as log.radon
        source = _QUOTED.sub(self._placeholder, f"`{text.strip()}`" if whole else text.strip())
        try:
            self.tree: ast.AST = ast.parse(source, mode="eval").body
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            raise refuse(formula, text.strip(), f"{shown(text.strip())} cannot be read.") from None
        self.used: list[str] = []
        self._check(self.tree, 0)

    def _placeholder(self, match: re.Match[str]) -> str:
        name = f"_quoted_{len(self.quoted)}_"
        self.quoted[name] = match.group(1)
        return name

    def _check(self, node: ast.AST, depth: int, in_call: str | None = None) -> None:
        if depth > _DEEPEST:
            raise self._refused(node, "is nested too deeply")
        inner = depth + 1
        match node:
            case ast.Name(id=name) if in_call == "C" and name in CODINGS[1:]:
                pass
            case ast.Name(id=name):
                self._check_column(self.quoted.get(name, name))
            case ast.Constant(value=value):
                self._check_constant(node, value, in_call)
            case ast.UnaryOp(op=ast.USub() | ast.UAdd(), operand=operand):
                self._check(operand, inner)
            case ast.BinOp(left=left, op=ast.Pow(), right=right):
                self._check_power(node, left, right)
                self._check(left, inner)
            case ast.BinOp(
                left=left, op=ast.Add() | ast.Sub() | ast.Mult() | ast.Div(), right=right
            ):
                for side in (left, right):
                    if isinstance(side, ast.Constant) and isinstance(side.value, str):
                        raise self._refused(node, "calculates with text")
                    self._check(side, inner)
            case ast.Call(func=ast.Name(id=name), args=args, keywords=keywords):
                if name not in FUNCTIONS or name in self.quoted:
                    known = ", ".join(FUNCTIONS)
                    raise self._refused(node, f"calls {shown(name)}; known are {known}")
                for argument in (*args, *(keyword.value for keyword in keywords)):
                    self._check(argument, inner, name)
                if any(keyword.arg is None for keyword in keywords):
                    raise self._refused(node, "unpacks arguments")
            case ast.List(elts=parts) | ast.Tuple(elts=parts) if in_call is not None:
                for part in parts:
                    if not isinstance(part, ast.Constant | ast.UnaryOp):
                        raise self._refused(part, "must be a number or text here")
                    self._check(part, inner, "C")
            case ast.BinOp(op=ast.BitXor()):
                raise self._refused(node, "uses ^; a power is written **")
            case _:
                raise self._refused(
                    node, "is not allowed: use columns, numbers, + - * / **, and functions by name"
                )

    def _check_column(self, name: str) -> None:
        if name in self.columns:
            if name not in self.used:
                self.used.append(name)
            return
        known = list(self.columns)
        raise refuse(
            self.formula,
            name,
            f"the table has no column {shown(name)}. It has {names_of(known)}."
            + nearest(name, known),
        )

    def _check_constant(self, node: ast.AST, value: object, in_call: str | None) -> None:
        text = isinstance(value, str | bool | type(None)) and in_call is not None
        number = isinstance(value, int | float) and not isinstance(value, bool)
        if not (text or (number and abs(float(value)) < 1e15)):  # type: ignore[arg-type]
            raise self._refused(node, "is not a number")
        if in_call in STATEFUL and isinstance(value, int) and abs(value) > _LARGEST:
            raise self._refused(node, f"is above {_LARGEST:,}")

    def _check_power(self, node: ast.AST, base: ast.AST, exponent: ast.AST) -> None:
        whole = exponent.operand if isinstance(exponent, ast.UnaryOp) else exponent
        value = whole.value if isinstance(whole, ast.Constant) else None
        bounded = isinstance(value, int | float) and abs(value) <= _POWER
        names = any(isinstance(part, ast.Name) for part in ast.walk(base))
        if not bounded or not names:
            raise self._refused(
                node, f"must be a power of columns, by a number of at most {_POWER}"
            )

    def _refused(self, node: ast.AST, why: str) -> InputError:
        text = ast.unparse(node)
        for name, own in self.quoted.items():
            text = text.replace(name, f"`{own}`")
        part = text if text in self.formula else self.text.strip()
        return refuse(self.formula, part, f"{shown(text)} {why}.")

    @property
    def is_arithmetic(self) -> bool:
        """Whether it has functions of numbers only."""
        calls = [node.func for node in ast.walk(self.tree) if isinstance(node, ast.Call)]
        known = (*ARITHMETIC, "I")
        return all(isinstance(func, ast.Name) and func.id in known for func in calls)

    def value(self, numbers: Mapping[str, Floats]) -> Floats:
        """Of every row; of expressions with functions of numbers only."""
        with np.errstate(all="ignore"):
            found = np.asarray(self._value(self.tree, numbers), float)
        rows = len(next(iter(numbers.values()))) if numbers else 1
        if not np.isfinite(found).all():
            wrong = ~np.isfinite(np.broadcast_to(found, (rows,)))
            raise refuse(
                self.formula,
                self.text.strip(),
                f"{shown(self.text.strip())} is not a finite number in {int(wrong.sum()):,} rows, "
                f"the first being row {int(np.argmax(wrong))}.",
            )
        return np.broadcast_to(found, (rows,)).copy()

    def _value(self, node: ast.AST, numbers: Mapping[str, Floats]) -> Any:
        match node:
            case ast.Name(id=name):
                return numbers[self.quoted.get(name, name)]
            case ast.Constant(value=value):
                return value
            case ast.UnaryOp(op=op, operand=operand):
                value = self._value(operand, numbers)
                return -value if isinstance(op, ast.USub) else value
            case ast.BinOp(left=left, op=op, right=right):
                sides = self._value(left, numbers), self._value(right, numbers)
                return _OPERATIONS[type(op)](*sides)
            case ast.Call(func=ast.Name(id=name), args=[argument], keywords=[]):
                if name in ARITHMETIC:
                    return ARITHMETIC[name](self._value(argument, numbers))
                if name == "I":
                    return self._value(argument, numbers)
        raise self._refused(node, f"is not allowed here; functions are {', '.join(ARITHMETIC)}")


_OPERATIONS: dict[type[ast.operator], Callable[[Any, Any], Any]] = {
    ast.Add: np.add,
    ast.Sub: np.subtract,
    ast.Mult: np.multiply,
    ast.Div: np.divide,
    ast.Pow: np.power,
}
