"""Run the measurements: ``python -m benchmarks [rates answer ... page | all]``.

Every section is merged into ``benchmarks/results.json`` as soon as it is done; ``page`` writes
``docs/benchmarks.md`` and its figures from there. ``references`` makes the long NUTS runs anew that
``families`` and ``duel`` are compared with; they are stored, so ``all`` leaves them out.
``--only`` with ``walk`` or ``times`` measures some tables anew, and keeps the others.
"""

import argparse
import json
import os
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.markdown import Markdown

from benchmarks import page
from benchmarks.machine import machine

RESULTS = Path(__file__).with_name("results.json")
SECTIONS = ("rates", "answer", "growth", "learning", "families", "duel", "mixed", "coverage")
SECTIONS += ("walk", "times")
_OF_TABLES = ("walk", "times")
"""Sections of which single tables can be measured anew."""


def main() -> None:
    """Run what is asked for."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("sections", nargs="*", metavar="section", help=", ".join(SECTIONS))
    parser.add_argument("--quick", action="store_true", help="short runs, for trying out")
    parser.add_argument("--repeats", type=int, default=9, help="rounds of the rates")
    parser.add_argument("--only", nargs="+", default=[], help="some references, families or duels")
    options = parser.parse_args()
    asked = options.sections or ["all"]
    unknown = sorted(set(asked) - {*SECTIONS, "references", "page", "all"})
    if unknown:
        known = ", ".join((*SECTIONS, "references", "page"))
        parser.error(f"no section {unknown[0]!r}; there are {known} and all.")
    console = Console()
    if "references" in asked:
        from benchmarks import references

        references.write(options.only)
    for name in SECTIONS:
        if name in asked or "all" in asked:
            console.rule(name)
            found = _section(name, options)()
            if name in _OF_TABLES:
                found = _with_earlier(name, found)
            if not options.only or name in _OF_TABLES:
                merge(RESULTS, name, found)
            console.print(Markdown(page.section(name, found)))
    if {"page", "all"} & set(asked):
        if not RESULTS.exists():
            parser.error("there are no results yet; run a section first.")
        for path in page.write(json.loads(RESULTS.read_text())):
            console.print(f"wrote {path}")


def _section(name: str, options: argparse.Namespace) -> Callable[[], dict[str, Any]]:
    """The function that measures a section; what it needs is imported only here."""
    quick = options.quick

    def keep(found: dict[str, Any]) -> None:
        merge(RESULTS, name, _with_earlier(name, found))

    if name == "rates":
        from benchmarks import rates

        return lambda: rates.run(options.repeats, quick)
    if name == "answer":
        from benchmarks import answer

        return lambda: answer.run(quick)
    if name == "growth":
        from benchmarks import growth

        return lambda: growth.run(quick)
    if name == "families":
        from benchmarks import methods

        return lambda: methods.run(quick, options.only)
    if name == "mixed":
        from benchmarks import mixed

        return lambda: mixed.run(quick)
    if name == "coverage":
        from benchmarks import coverage

        return lambda: coverage.run(quick, options.only)
    if name == "walk":
        from benchmarks import walk

        return lambda: walk.run(quick, options.only, keep)
    if name == "times":
        from benchmarks import times

        return lambda: times.run(options.only, keep)
    if name == "duel":
        from benchmarks import duel

        return lambda: duel.run(quick, options.only)
    from benchmarks import learning

    return lambda: learning.run(quick)


def _with_earlier(name: str, found: dict[str, Any]) -> dict[str, Any]:
    """A section with the tables that were measured before and are not among those found."""
    stored: dict[str, Any] = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}
    return found | {"tables": stored.get(name, {}).get("tables", {}) | found["tables"]}


def merge(path: Path, name: str, found: dict[str, Any]) -> None:
    """Put a section into the results, in one step."""
    results = json.loads(path.read_text()) if path.exists() else {}
    when = datetime.now(UTC).date().isoformat()
    results[name] = {"date": when, "machine": machine()} | found
    scratch = path.with_suffix(".partial")
    scratch.write_text(json.dumps(results, indent=1) + "\n")
    os.replace(scratch, path)


if __name__ == "__main__":
    main()
