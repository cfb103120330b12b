"""Blocks of code of the README and the documentation's pages."""

import re
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
COMMANDS_RUN = {"tutorial"}  # other pages' commands name tables that do not exist
FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", flags=re.DOTALL | re.MULTILINE)


class Block(NamedTuple):
    kind: str
    code: str
    shown: str | None


def blocks(page: Path) -> list[Block]:
    """What is to be run, with the ``text`` that follows as its output."""
    fences = FENCE.findall(page.read_text())
    found = []
    for (kind, code), (next_kind, next_code) in pairwise([*fences, ("", "")]):
        if kind == "python" or (kind == "sh" and page.stem in COMMANDS_RUN):
            found.append(Block(kind, code, next_code if next_kind == "text" else None))
    return found
