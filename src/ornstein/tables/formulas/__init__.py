"""Formulas: R's and lme4's notation, by formulaic, with nothing in them executed but a whitelist.

Read ``parsing`` first: a formula's parts as records. ``expressions`` says what may be written in
it, ``design`` makes the columns, ``encoding`` is what a fitted table keeps.
"""

from ornstein.tables.formulas.encoding import FormulaEncoding
from ornstein.tables.formulas.learning import FormulaTable, learn_formula
from ornstein.tables.formulas.parsing import ParsedFormula, RandomTerm, parse_formula

__all__ = [
    "FormulaEncoding",
    "FormulaTable",
    "ParsedFormula",
    "RandomTerm",
    "learn_formula",
    "parse_formula",
]
