"""The page about a run: whole, self-contained, and safe whatever a table's names are."""

import base64
import re
from html.parser import HTMLParser
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pandas as pd
import pytest

import ornstein as orn
from ornstein import tables
from ornstein.results import plots, report

GROUPS = pd.DataFrame({"mean": [1.25], "where": ["<i>north</i>"]}, index=["<b>one</b>"])
VOID = {"meta", "link", "img", "br"}
NASTY = ["<script>alert(1)</script>", "a&b", '"quoted"', "{{ 7 * 7 }}", "$x^2$", "größe"]


class Page(HTMLParser):
    """Tags, attributes and text of a page; counts what is not closed."""

    def __init__(self, text: str) -> None:
        super().__init__(convert_charrefs=True)
        self.open: list[str] = []
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.words = ""
        self.headings: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.words += data
        if self.open and self.open[-1] in ("h1", "h2", "h3"):
            self.headings.append(data)


@pytest.fixture(scope="module")
def page() -> Page:
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(rng.normal(size=(300, len(NASTY))), columns=NASTY)
    frame["</title>target"] = frame[NASTY[0]] + rng.normal(size=300)
    model = tables.fit_table(tables.learn(frame, "</title>target"), draws=100)
    text = report.render(
        model.result,
        title="</title>target",
        about=model.about(),
        remarks=model.remarks,
        summary=model.summary(),
        sections=[
            report.Section("Groups", "Where.", table=GROUPS, under="coefficients"),
            report.Section(*model.fit_picture(frame)),
        ],
        command="ornstein fit '<b>'",
    )
    return Page(text)


def test_the_page_is_whole(page: Page) -> None:
    assert page.open == []
    headings = [
        "How good is the model?",
        "Did it converge?",
        "Traces and ranks",
        "Can the intervals be trusted?",
        "Does the model fit its rows?",
        "Residuals and coverage",
        "Coefficients",
        "Groups",
        "Model and data",
        "Details",
        "The plan and the run",
        "Checks of the assumptions",
        "Hyperparameters",
        "Predicted and measured covariance",
        "Reproduce this run",
    ]
    assert page.headings[1:] == headings
    assert "nats" in page.words
    # forest; residuals, coverage; three traces with ranks; two maps, spread; paths of two
    # hyperparameters; the noise of a linear model is taken off whole
    assert sum(tag == "img" for tag, _ in page.tags) == 1 + 2 + 6 + 3 + 2


def test_names_are_text_never_markup(page: Page) -> None:
    assert not [tag for tag, _ in page.tags if tag in ("script", "b", "iframe")]
    for name in NASTY:
        assert name in page.words
    assert "49" not in re.findall(r"\{\{ 7 \* 7 \}\}|\b49\b", page.words)
    assert "ornstein fit '<b>'" in page.words
    for cell in ("<b>one</b>", "1.25", "<i>north</i>"):
        assert cell in page.words


def test_nothing_is_fetched_from_outside(page: Page) -> None:
    for tag, attributes in page.tags:
        for name in ("src", "href"):
            assert (attributes.get(name) or "data:").startswith(("data:", "#")), tag
    policy = [a for tag, a in page.tags if a.get("http-equiv") == "Content-Security-Policy"]
    assert "default-src 'none'" in str(policy[0]["content"])


def test_pictures_are_well_formed_and_hold_no_scripts(page: Page) -> None:
    for tag, attributes in page.tags:
        if tag == "img":
            source = str(attributes["src"]).removeprefix("data:image/svg+xml;base64,")
            picture = ElementTree.fromstring(base64.b64decode(source))
            assert picture.tag.endswith("svg")
            assert not [node for node in picture.iter() if node.tag.endswith("script")]
            assert attributes["alt"]


def test_a_failed_run_says_so(tmp_path: Path) -> None:
    rng = np.random.default_rng(1)
    X = rng.normal(size=(200, 1))
    post = orn.models.linear(X, X[:, 0] + 5 * rng.normal(size=200))
    result = orn.sample(post, draws=60)
    report.write(tmp_path / "page.html", result)
    words = Page((tmp_path / "page.html").read_text()).words
    assert re.search(r"Does the model fit its rows\?\s*fail No", words)


def test_pictures_of_calibration_show_what_is_there() -> None:
    rng = np.random.default_rng(0)
    chances = rng.uniform(size=5000)
    figure = plots.reliability(chances, (rng.uniform(size=5000) < chances).astype(float))
    said, came = figure.axes[0].lines[1].get_data()
    assert np.abs(np.asarray(said) - np.asarray(came)).max() < 0.1
    mean = rng.normal(size=5000)
    _, figure = plots.residuals(mean, np.full(5000, 2.0), mean + 2 * rng.normal(size=5000))
    mass, held = figure.axes[0].lines[1].get_data()
    assert np.abs(np.asarray(mass) - np.asarray(held)).max() < 0.04
