"""The pages of the site: all in its contents, and no link that leads nowhere."""

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted(DOCS.rglob("*.md"))]
LINK = re.compile(r"(?:\]\(|href=\"|src=\")([^)\s\"]+)")
FENCE = re.compile(r"^```.*?^```$", flags=re.DOTALL | re.MULTILINE)


def listed(entry: Any) -> list[str]:
    """The files that a part of the contents names."""
    if isinstance(entry, str):
        return [entry]
    parts = entry.values() if isinstance(entry, dict) else entry
    return [name for part in parts for name in listed(part)]


def anchors(page: Path) -> set[str]:
    """The anchors of a page's headings."""
    headings = re.findall(r"^#+ (.*)$", FENCE.sub("", page.read_text()), flags=re.MULTILINE)
    plain = [re.sub(r"[^\w\s-]", "", heading).strip().lower() for heading in headings]
    return {re.sub(r"[\s]+", "-", heading) for heading in plain}


def test_the_contents_name_every_page_once() -> None:
    contents = yaml.safe_load((ROOT / "mkdocs.yml").read_text())["nav"]
    pages = [page.relative_to(DOCS).as_posix() for page in DOCS.rglob("*.md")]
    assert sorted(listed(contents)) == sorted(pages)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_links_lead_somewhere(page: Path) -> None:
    for link in LINK.findall(FENCE.sub("", page.read_text())):
        if link.startswith(("https://", "mailto:")):
            continue
        assert not link.startswith(("http:", "/")), link
        name, _, anchor = link.partition("#")
        target = (page.parent / name).resolve() if name else page
        assert target.is_file(), link
        inside = DOCS in target.parents
        assert inside or DOCS not in page.parents, f"{link} leaves the site"
        if anchor:
            assert anchor in anchors(target), link


def test_the_reference_names_everything_public() -> None:
    import ornstein

    text = "\n".join(page.read_text() for page in (DOCS / "api").glob("*.md"))
    named = set(re.findall(r"^::: ornstein(?:\.\w+)*?\.(\w+)$", text, flags=re.MULTILINE))
    assert set(ornstein.__all__) - named == {
        "METHODS",
        "VARIANTS",
        "__version__",
        "estimators",
        "models",
    }
    assert set(ornstein.models.__all__) <= named
