"""A formula as records: the target, fixed effects, random effects and offsets.

Bars and offsets are taken out here; what is left on the right is formulaic's.
"""

import re
from dataclasses import dataclass, field

from ornstein._base.checks import shown
from ornstein._base.errors import InputError
from ornstein.storage import codec
from ornstein.tables.formulas.expressions import refuse

_LONGEST = 10_000
_RESPONSE = re.compile(r"^(cbind|p|Surv|censored)\s*\((.*)\)$", re.DOTALL)
_HIGHEST = re.compile(r"(?:\*\*|\^)\s*(\d+)")
_NAME = re.compile(r"^(?:`[^`]+`|[^\W\d][\w.]*)$")


@codec.register
@dataclass(frozen=True)
class RandomTerm:
    """Random effects of one bar, such as ``(1 + x | g)``.

    Every combination of levels of ``groups`` has an intercept, if ``intercept``, and a coefficient
    for each of ``slopes``, in formulaic's notation; ``correlated`` if these share a covariance.
    """

    text: str
    intercept: bool
    slopes: tuple[str, ...]
    groups: tuple[str, ...]
    correlated: bool

    @property
    def effects(self) -> tuple[str, ...]:
        """``1`` for an intercept, and the slopes."""
        return (*(("1",) if self.intercept else ()), *self.slopes)

    @property
    def name(self) -> str:
        """Of the grouping, such as ``g:h``."""
        return ":".join(self.groups)


@codec.register
@dataclass(frozen=True)
class ParsedFormula:
    """The parts of ``response ~ fixed + (bars) + offset(...)``.

    ``kind`` is that of a response made of two columns: ``cbind``, ``p``, ``Surv``; empty for one.
    """

    text: str
    kind: str
    response: tuple[str, ...]
    fixed: str
    random: tuple[RandomTerm, ...] = ()
    offsets: tuple[str, ...] = field(default_factory=tuple)


def parse_formula(formula: str) -> ParsedFormula:
    """Read a formula; raises with the place marked where it cannot be read.

    Examples
    --------
    >>> found = parse_formula("y ~ x + (1 + x || g/h) + offset(log(n))")
    >>> found.fixed, found.offsets
    ('x', ('log(n)',))
    >>> [(term.name, term.effects, term.correlated) for term in found.random]
    [('g', ('1', 'x'), False), ('g:h', ('1', 'x'), False)]
    """
    if not formula or not str(formula).strip():
        raise InputError(f"formula must be a text such as 'y ~ x', found {shown(formula)}.")
    text = " ".join(formula.split())
    if len(text) > _LONGEST:
        raise InputError(f"formula has {len(text):,} characters; at most {_LONGEST:,} are read.")
    text = _powers(text)
    sides = _split(text, text, "~")
    if len(sides) != 2 or not sides[0].strip() or not sides[1].strip():
        raise refuse(text, "", "a formula has a target, a ~, and terms, such as 'y ~ x + z'.")
    left, right = sides[0].strip(), sides[1].strip()
    kind, response = _response(text, left)
    kept, random, offsets = "", list[RandomTerm](), list[str]()
    for sign, piece in _signed(text, right):
        bar = _inside(piece, "")
        if bar is not None and len(_split(text, bar, "|")) > 1:
            _only_plus(text, sign, piece)
            random += _random(text, piece, bar)
        elif (shift := _inside(piece, "offset")) is not None:
            _only_plus(text, sign, piece)
            offsets.append(shift)
        else:
            _refuse_stray(text, piece)
            kept += f" {sign} {piece}" if kept or sign == "-" else piece
    names = [(term.name, effect) for term in random for effect in term.effects]
    twice = [name for name in names if names.count(name) > 1]
    if twice:
        raise refuse(text, twice[0][0], f"two bars have the same effects of {shown(twice[0][0])}.")
    return ParsedFormula(text, kind, response, kept.strip() or "1", tuple(random), tuple(offsets))


def _powers(text: str) -> str:
    """R's ``^`` inside a call, such as ``I(age^2)``, as the ``**`` of an expression.

    Outside of calls it is a formula's own: interactions up to a degree.
    """
    found, calls, quote = list[str](), list[bool](), ""
    for at, sign in enumerate(text):
        if sign in "`'\"" and quote in ("", sign):
            quote = "" if quote else sign
        if quote:
            pass
        elif sign == "(":
            before = text[:at].rstrip()
            called = bool(before) and (before[-1].isalnum() or before[-1] in "_.")
            calls.append(called or any(calls))
        elif sign == ")" and calls:
            calls.pop()
        found.append("**" if sign == "^" and not quote and any(calls) else sign)
    return "".join(found)


def _response(text: str, left: str) -> tuple[str, tuple[str, ...]]:
    found = _RESPONSE.match(left)
    if found is None:
        return "", (left,)
    kind = "Surv" if found.group(1) == "censored" else found.group(1)
    parts = tuple(part.strip() for part in _split(text, found.group(2), ","))
    if len(parts) != 2 or not all(parts):
        what = {
            "cbind": "cbind(successes, failures)",
            "p": "p(successes, trials)",
            "Surv": "Surv(time, event)",
        }[kind]
        raise refuse(text, left, f"the target needs two columns: {what}.")
    return kind, parts


def _random(text: str, piece: str, bar: str) -> list[RandomTerm]:
    parts = _split(text, bar, "|")
    double = len(parts) == 3 and not parts[1].strip() and "||" in bar
    if len(parts) != 2 and not double:
        raise refuse(text, piece, f"{shown(piece)} must have one bar, | or ||.")
    effects, grouping = parts[0].strip(), parts[-1].strip()
    if not effects or not grouping:
        raise refuse(text, piece, f"{shown(piece)} needs effects before the bar, a group after.")
    intercept, slopes = True, list[str]()
    for sign, effect in _signed(text, effects):
        if effect in ("0", "1"):
            intercept = (effect == "1") == (sign == "+")
        elif sign == "-":
            raise refuse(text, piece, f"{shown(piece)} leaves out {shown(effect)}; only 1 may be.")
        else:
            _refuse_stray(text, effect)
            slopes.append(effect)
    if not intercept and not slopes:
        raise refuse(text, piece, f"{shown(piece)} has no effects.")
    return [
        RandomTerm(piece, intercept, tuple(slopes), groups, bool(slopes) and not double)
        for groups in _groupings(text, grouping)
    ]


def _groupings(text: str, grouping: str) -> list[tuple[str, ...]]:
    """``g/h`` stands for ``g`` and ``g:h``."""
    nested = [part.strip() for part in _split(text, grouping, "/")]
    found, outer = [], tuple[str, ...]()
    for part in nested:
        names = [name.strip() for name in _split(text, part, ":")]
        for name in names:
            if not _NAME.match(name):
                raise refuse(
                    text, grouping, f"{shown(grouping)} must be columns, as in g, g:h or g/h."
                )
        outer = (*outer, *(name.strip("`") for name in names))
        found.append(outer)
    return found


def _only_plus(text: str, sign: str, piece: str) -> None:
    if sign == "-":
        raise refuse(text, piece, f"{shown(piece)} cannot be subtracted.")


def _refuse_stray(text: str, piece: str) -> None:
    if not piece:
        raise refuse(text, "", "a term is missing between two signs.")
    if len(_split(text, piece, "|")) > 1 or re.search(r"(?<!\|)\|(?!\|)", piece):
        raise refuse(text, piece, f"{shown(piece)}: a bar belongs in parentheses, as in (1|g).")
    if re.search(r"\boffset\s*\(", piece):
        raise refuse(text, piece, f"{shown(piece)}: offset(...) is a term of its own.")
    for power in _HIGHEST.findall(piece):
        if int(power) > 5 and piece.lstrip().startswith("("):
            raise refuse(text, piece, "a power of terms is at most 5.")


def _inside(piece: str, function: str) -> str | None:
    """What stands in the parentheses of a piece that is nothing else; None if it is more."""
    match = re.match(rf"^{function}\s*\(", piece)
    if match is None or not piece.endswith(")"):
        return None
    depth = 0
    for place, letter in enumerate(piece):
        depth += (letter == "(") - (letter == ")")
        if depth == 0 and letter == ")" and place < len(piece) - 1:
            return None
    return piece[match.end() : -1].strip()


def _signed(text: str, side: str) -> list[tuple[str, str]]:
    """Terms with their signs, ``+`` or ``-``."""
    found, sign = list[tuple[str, str]](), "+"
    for number, part in enumerate(_split(text, side, "+-", keep=True)):
        if part in ("+", "-"):
            sign = part
        elif part.strip() or number:
            found.append((sign, part.strip()))
    return found


def _split(text: str, side: str, marks: str, keep: bool = False) -> list[str]:
    """Parts between marks that are outside parentheses, quotes and backticks."""
    parts, last, open_, quote = list[str](), 0, list[str](), ""
    for place, letter in enumerate(side):
        if quote:
            quote = "" if letter == quote else quote
        elif letter in "'\"`":
            quote = letter
        elif letter in "([{":
            open_.append(letter)
        elif letter in ")]}":
            if not open_ or "([{".index(open_.pop()) != ")]}".index(letter):
                raise refuse(text, side[place:], f"{letter!r} closes nothing.")
        elif letter in marks and not open_:
            parts.append(side[last:place])
            parts += [letter] if keep else []
            last = place + 1
    if quote or open_:
        raise refuse(text, side[side.index(quote or open_[-1]) :], "this is never closed.")
    return [*parts, side[last:]]
