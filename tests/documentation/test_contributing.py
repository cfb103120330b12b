"""CONTRIBUTING.md describes the code as it is."""

import re
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src" / "ornstein"
PAGE = (ROOT / "CONTRIBUTING.md").read_text()
PATH = re.compile(r"`([\w./]+(?:\.py|/))`")


def test_every_path_exists() -> None:
    rooms = re.findall(r"^\| `(\w+)/` \|.*\| `([\w/]+\.py)` \|$", PAGE, flags=re.MULTILINE)
    inside = {f"{room}/{first}" for room, first in rooms}
    alone = {first for _, first in rooms}
    for path in (set(PATH.findall(PAGE)) - alone) | inside:
        if "NAME" not in path:
            assert (SOURCE / path).exists() or (ROOT / path).exists(), path


def test_the_table_has_the_rooms_of_the_linter_in_order() -> None:
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]
    *rooms, doors = reversed(settings["contracts"][0]["layers"])
    assert re.findall(r"^\| `(\w+)/` \|", PAGE, flags=re.MULTILINE) == rooms
    (row,) = re.findall(r"^\| front doors: ([^|]*) \|", PAGE, flags=re.MULTILINE)
    named = {name.removesuffix("/").removesuffix(".py") for name in re.findall(r"`([^`]*)`", row)}
    assert named == set(doors.split(" : "))


def test_one_step_is_followed_in_seven_files() -> None:
    section = PAGE.split("## Follow one step")[1].split("\n## ")[0]
    assert 0 < len(re.findall(r"^\d+\. `[\w/]+\.py`", section, flags=re.MULTILINE)) <= 7
