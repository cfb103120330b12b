"""The report of a mixed model in a real browser: effects, variances, coefficients."""

from pathlib import Path

import numpy as np
import pytest

import ornstein as orn
from ornstein.models import Effects, FixedEffects
from ornstein.results import report
from support.browser import CONTRAST, Browser

SCHOOLS = ["<script>window.ran=1</script>", "</td><img src=x onerror='window.ran=1'>", "a" * 300]
SCHOOLS += [f"School number {number}" for number in range(9)]
PART = "[...document.querySelectorAll('section section')].find(s => s.querySelector('h3')"


@pytest.fixture(scope="module")
def result() -> orn.MixedResult:
    """A random intercept and slope, and a fixed factor of too many levels to be named."""
    rng = np.random.default_rng(0)
    rows = 900
    X, school, carrier = rng.normal(size=(rows, 1)), rng.integers(0, 12, rows), np.arange(rows) % 50
    effects = rng.normal(size=(2, 12))
    y = X[:, 0] + effects[0][school] + 0.5 * effects[1][school] * X[:, 0] + rng.normal(size=rows)
    groups = {
        "school": Effects(np.array(SCHOOLS)[school], slopes=("hours",)),
        "carrier": FixedEffects(carrier),
    }
    post = orn.models.mixed(X, y, groups, feature_names=["hours"])
    found = orn.sample(post, draws=100, progress=False)
    assert isinstance(found, orn.MixedResult)
    return found


@pytest.fixture(scope="module")
def page(result: orn.MixedResult, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return report.write(tmp_path_factory.mktemp("mixed") / "report.html", result, title="pupils")


def test_it_renders_and_fetches_and_runs_nothing(browser: Browser, page: Path) -> None:
    visit = browser.open(page)
    assert browser.ask("[...document.images].every(i => i.complete && i.naturalWidth > 100)")
    assert [url for url in visit.requested if not url.startswith("data:")] == [page.as_uri()]
    assert visit.complaints == []
    assert browser.ask("typeof window.ran") == "undefined"
    headings = browser.ask(
        "[...document.querySelectorAll('#coefficients h3')].map(h => h.textContent)"
    )
    assert headings == ["Coefficients of carrier", "Effects of school", "Variance components"]


def test_every_group_has_a_caterpillar(browser: Browser, page: Path) -> None:
    """One for each effect of a level; those of few levels are tall enough for all their names."""
    browser.open(page)
    tall = "[...{}.querySelectorAll('img')].map(i => i.clientHeight)"
    schools = browser.ask(tall.format(f"{PART}?.textContent === 'Effects of school')"))
    carriers = browser.ask(tall.format(f"{PART}?.textContent === 'Coefficients of carrier')"))
    assert len(schools) == 2
    assert min(schools) > 12 * len(SCHOOLS)
    assert len(carriers) == 1


def test_variances_and_coefficients_are_in_tables(
    browser: Browser, page: Path, result: orn.MixedResult
) -> None:
    browser.open(page)
    cells = "[...{}.querySelectorAll('tbody tr')].map(r => [...r.cells].map(c => c.textContent))"
    variances = browser.ask(cells.format(f"{PART}?.textContent === 'Variance components')"))
    expected = result.variance_components()
    assert [line[0] for line in variances] == ["school", "noise of a row"]
    shares = [float(line[4]) for line in variances]
    np.testing.assert_allclose(shares, expected["share"], rtol=1e-3)
    assert sum(shares) == pytest.approx(1.0, abs=1e-3)
    lines = browser.ask(cells.format("document.querySelector('#coefficients .stacked')"))
    assert [line[0] for line in lines] == result.names
    means = [float(line[1]) for line in lines]
    np.testing.assert_allclose(means, result.summary()["mean"], rtol=1e-3, atol=1e-6)


@pytest.mark.parametrize("width", [320, 768])
def test_nothing_scrolls_sideways(browser: Browser, page: Path, width: int) -> None:
    browser.open(page, width=width)
    assert browser.ask("document.documentElement.scrollWidth") <= width
    assert browser.ask("Math.max(...[...document.images].map(i => i.clientWidth))") <= width


def test_all_of_the_tables_is_seen_on_a_phone(browser: Browser, page: Path) -> None:
    """No number beyond the edge, those of the variances among them."""
    browser.open(page, width=360)
    cells = "[...document.querySelectorAll('#coefficients td')].filter(c => c.textContent)"
    assert browser.ask(f"{cells}.length") > 60
    assert browser.ask(f"Math.max(...{cells}.map(c => c.getBoundingClientRect().right))") <= 360


@pytest.mark.parametrize("dark", [False, True])
def test_text_is_readable_on_light_and_dark_paper(browser: Browser, page: Path, dark: bool) -> None:
    browser.open(page, dark=dark)
    assert browser.ask(CONTRAST) >= 4.5
