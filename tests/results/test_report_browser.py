"""The report in a real browser: it renders, fetches nothing, runs nothing, fits a phone."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import ornstein as orn
from ornstein import tables
from ornstein.results import report
from ornstein.tables.regression_report import regression_sections
from ornstein.tables.toolbox import sample_rows
from support.browser import CONTRAST, Browser

HOSTILE = [
    "<script>window.ran=1</script>",
    "<img src=x onerror='window.ran=1'>",
    '"><svg onload=alert(1)>',
    "javascript:window.ran=1",
    "https://example.com/pixel.png",
    "a" * 300,
]
FIT_SCORES = "Leave-one-out scores"


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(rng.normal(size=(300, len(HOSTILE))), columns=HOSTILE)
    frame["</title><script>window.ran=1</script>"] = frame[HOSTILE[0]] + rng.normal(size=300)
    target = str(frame.columns[-1])
    model = tables.fit_table(tables.learn(frame, target), draws=100)
    X, y = frame[HOSTILE].to_numpy(), frame[target].to_numpy()
    post = orn.models.linear(X, y, feature_names=HOSTILE, intercept=True)
    return report.write(
        tmp_path_factory.mktemp("report") / "report.html",
        orn.sample(post, draws=100, learn_hyper=True),
        title=target,
        about=model.about(),
        remarks=[*model.remarks, *HOSTILE],
        summary=model.summary(),
        sections=[
            report.Section(*model.fit_picture(frame)),
            *regression_sections(model, sample_rows(model.encoding, frame)),
        ],
        command=f"ornstein fit '{HOSTILE[0]}'",
    )


def test_a_page_that_misbehaves_is_noticed(browser: Browser, tmp_path: Path) -> None:
    bad = tmp_path / "bad.html"
    bad.write_text(
        "<p>x<img src='https://example.com/pixel.png'><script>console.log('here'); oops()</script>"
        "<div style='width: 900px'>wide</div>"
    )
    visit = browser.open(bad, width=360)
    assert "https://example.com/pixel.png" in visit.requested
    assert any("here" in said for said in visit.complaints)
    assert any("oops" in said for said in visit.complaints)
    assert browser.ask("document.images[0].naturalWidth") == 0
    assert browser.ask("document.documentElement.scrollWidth") >= 900
    bad.write_text("<body style='background: #fff'><p style='color: #ccc'>pale")
    browser.open(bad)
    assert browser.ask(CONTRAST) < 2


def test_it_renders_and_fetches_and_runs_nothing(browser: Browser, page: Path) -> None:
    visit = browser.open(page)
    assert browser.ask("[...document.images].every(i => i.complete && i.naturalWidth > 100)")
    assert browser.ask("document.images.length") >= 15
    headings = browser.ask(
        "[...document.querySelectorAll('h1, h2')].filter(h => h.checkVisibility() && "
        "h.getBoundingClientRect().height > 10).map(h => h.textContent)"
    )
    assert headings[0] == "</title><script>window.ran=1</script>"
    assert headings[1:] == [
        "How good is the model?",
        "Did it converge?",
        "Can the intervals be trusted?",
        "Does the model fit its rows?",
        "Coefficients",
        "Model and data",
        "Details",
        "Reproduce this run",
    ]
    assert [url for url in visit.requested if not url.startswith("data:")] == [page.as_uri()]
    assert visit.complaints == []
    assert browser.ask("typeof window.ran") == "undefined"
    assert browser.ask("document.scripts.length") == 0
    links = "[...document.querySelectorAll('nav a')]"
    assert browser.ask(f"{links}.every(a => document.querySelector(a.getAttribute('href')))")


def test_effects_and_checks_are_under_their_questions(browser: Browser, page: Path) -> None:
    """Each with pictures that are drawn, or a line for every effect, under any column's name."""
    browser.open(page)
    inside = "[...document.querySelectorAll('#{} h3')].map(h => h.textContent)"
    fit = browser.ask(inside.format("fit"))
    assert fit == ["Residuals and coverage", "Observed and simulated targets", FIT_SCORES]
    assert browser.ask(inside.format("coefficients")) == ["Effects", "Average effects"]
    part = "[...document.querySelectorAll('section section')].find(s => s.querySelector('h3')"
    effects = f"{part}?.textContent === 'Effects')"
    assert browser.ask(f"{effects}.querySelectorAll('img').length") == len(HOSTILE)
    average = f"{part}?.textContent === 'Average effects')"
    names = browser.ask(
        f"[...{average}.querySelectorAll('tbody td:first-child')].map(c => c.textContent)"
    )
    assert names == [f"{name}, slope" for name in HOSTILE]


@pytest.mark.parametrize("width", [320, 360, 768])
def test_nothing_scrolls_sideways(browser: Browser, page: Path, width: int) -> None:
    browser.open(page, width=width)
    assert browser.ask("window.innerWidth") == width
    assert browser.ask("document.documentElement.scrollWidth") <= width
    assert browser.ask("Math.max(...[...document.images].map(i => i.clientWidth))") <= width


def test_all_of_the_coefficients_is_seen_on_a_phone(browser: Browser, page: Path) -> None:
    """Every number under its column's name, and none beyond the edge."""
    browser.open(page, width=360)
    cells = "[...document.querySelectorAll('.stacked td')].filter(c => c.textContent)"
    assert browser.ask(f"{cells}.length") > 20
    assert browser.ask(f"Math.max(...{cells}.map(c => c.getBoundingClientRect().right))") <= 360
    first = "document.querySelector('#coefficients .stacked td[data-label]')"
    label = f"getComputedStyle({first}, '::before').content"
    assert browser.ask(label) == '"mean"'
    browser.open(page, width=1200)
    assert browser.ask(label) == "none"


@pytest.mark.parametrize("dark", [False, True])
def test_text_is_readable_on_light_and_dark_paper(browser: Browser, page: Path, dark: bool) -> None:
    browser.open(page, dark=dark)
    paper = browser.ask("getComputedStyle(document.body).backgroundColor")
    assert (sum(int(part) for part in paper[4:-1].split(",")) < 150) == dark
    assert browser.ask(CONTRAST) >= 4.5


def test_pictures_follow_dark_paper(browser: Browser, page: Path) -> None:
    """The ink of the first picture, by painting it on a canvas."""
    ink = """
    (async () => {
      const image = document.images[0], canvas = document.createElement('canvas');
      await image.decode();
      [canvas.width, canvas.height] = [image.naturalWidth, image.naturalHeight];
      const paint = canvas.getContext('2d');
      paint.drawImage(image, 0, 0);
      const all = paint.getImageData(0, 0, canvas.width, canvas.height).data;
      let sum = 0, count = 0;
      for (let i = 0; i < all.length; i += 4)
        if (all[i + 3] > 200) { sum += all[i] + all[i + 1] + all[i + 2]; count++; }
      return sum / count / 3;
    })()
    """
    browser.open(page)
    light = browser.ask(ink)
    browser.open(page, dark=True)
    assert browser.ask(ink) > light + 60


def test_it_prints(browser: Browser, page: Path) -> None:
    browser.open(page, dark=True)
    printed = browser.pdf()
    assert printed.startswith(b"%PDF")
    assert 2 <= printed.count(b"/Type /Page\n") + printed.count(b"/Type /Page ") <= 12
    browser.send("Emulation.setEmulatedMedia", media="print")
    assert browser.ask("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
    assert browser.ask("document.querySelector('nav').checkVisibility()") is False
    browser.send("Emulation.setEmulatedMedia", media="")


def test_ratios_have_a_table_of_their_own_that_fits_the_page(
    browser: Browser, tmp_path: Path
) -> None:
    X = np.random.default_rng(0).normal(size=(200, 2))
    post = orn.models.logistic(X, X[:, 0] > 0, feature_names=["a long name of a column", "b"])
    result = orn.sample(post, draws=50)
    found = result.summary()
    ends = {"odds ratio": 12.34, "ratio low 90%": 0.001234, "ratio high 90%": 12345.6, "per": 3.521}
    page = report.write(tmp_path / "page.html", result, summary=found.assign(**ends))
    browser.open(page, width=1200)
    heads = "[...document.querySelectorAll('#coefficients table')].map(t => t.tHead.textContent)"
    assert browser.ask(heads) == [
        "meansdlow 90%high 90%effective drawsR-hat",
        "odds ratioratio low 90%ratio high 90%per",
    ]
    tables = "[...document.querySelectorAll('.scroll')]"
    assert browser.ask(f"{tables}.every(t => t.scrollWidth <= t.clientWidth)")
