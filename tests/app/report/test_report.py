"""The report: complete, self-contained, safe with any names, and sound in a browser."""

from __future__ import annotations

import base64
import hashlib
import html
import json
import re
import subprocess
import sys
import zlib
from html.parser import HTMLParser

import numpy as np
import pytest

from batch2online.app import web
from batch2online.app.cli.app import run_safely
from batch2online.app.report.charts import Axis, Chart, Series, truncated
from batch2online.app.report.figures import principal_components
from browser import PROGRAM, Browser

TASKS = {
    "regression": ["--dataset", "diabetes", "--task", "regression"],
    "lowrank": ["--dataset", "breast_cancer", "--task", "lowrank", "--k", "3"],
    "clustering": ["--dataset", "breast_cancer", "--task", "clustering", "--k", "3"],
}


DATA = re.compile(r'<script type="application/json">(.*?)</script>')


@pytest.fixture(scope="module", params=TASKS)
def page(request, tmp_path_factory):
    out = tmp_path_factory.mktemp("report") / "out"
    assert run_safely(["run", *TASKS[request.param], "--out", str(out)]) == 0
    return out / "report.html"


class Checker(HTMLParser):
    """Collects identifiers, references and the balance of elements."""

    void = frozenset({"meta", "link", "path", "rect"})

    def __init__(self):
        super().__init__()
        self.open, self.ids, self.references, self.outside = [], [], [], []

    def handle_starttag(self, tag, attributes):
        if tag not in self.void:
            self.open.append(tag)
        for name, value in attributes:
            if name == "id":
                self.ids.append(value)
            if name in ("href", "xlink:href", "src"):
                (self.references if value.startswith("#") else self.outside).append(value.lstrip("#"))

    def handle_endtag(self, tag):
        if tag not in self.void:
            assert self.open.pop() == tag


@pytest.mark.slow
def test_page_is_well_formed_and_refers_to_nothing_outside(page):
    text = page.read_text()
    checker = Checker()
    checker.feed(text)
    assert checker.open == []
    assert len(set(checker.ids)) == len(checker.ids)
    assert set(checker.references) <= set(checker.ids)
    assert checker.outside == ["data:,"]
    assert not re.search(
        r"url\(|@import| style=| on[a-z]+=", re.sub(r"<(script|style).*?</\1>", "", text, flags=re.DOTALL)
    )


def test_page_tells_what_the_result_says(page):
    text, result = page.read_text(), json.loads(page.with_name("result.json").read_text())
    for words in (
        f"{result['ratio']:.3f} ",
        f"{result['rows']:,} rows",
        result["command"],
        "Online loss and hindsight",
    ):
        assert words in text
    charts = {chart["title"]: chart for chart in map(json.loads, DATA.findall(text))}
    assert len(charts) >= 6
    loss = charts["Mean loss per row, online and in hindsight, over the rows seen"]
    assert loss["x"] == [point["rows"] for point in result["curve"]]
    for series, key in zip(loss["series"], ("optimum", "loss"), strict=True):
        np.testing.assert_allclose(series["y"], [point[key] / point["weight"] for point in result["curve"]], rtol=1e-4)
    assert text.count("reason</th>") >= 1
    assert "prefers-color-scheme: dark" in text
    assert "@media print" in text
    svgs = "".join(re.findall(r"<figure.*?</figure>", DATA.sub("", text), re.DOTALL))
    assert not re.search(r"#[0-9a-f]{3,6}\b|rgb", svgs), "a colour that does not follow the theme"


def test_the_policy_allows_the_scripts_and_the_style_of_the_page_alone(page):
    text = page.read_text()
    policy = html.unescape(re.search(r'Content-Security-Policy" content="([^"]*)"', text)[1])
    assert "unsafe" not in policy
    assert policy.startswith("default-src 'none'; connect-src 'none'; script-src 'sha256-")
    inline = re.findall(r"<(?:script|style)>(.*?)</(?:script|style)>", text, re.DOTALL)
    packed = re.search(r'<script type="text/plain" id="uplot">(.*?)</script>', text)[1]
    inline.append(zlib.decompress(base64.b64decode(packed), wbits=-15).decode())
    assert inline[-1] == web.asset("uplot.js")
    hashes = {f"'sha256-{base64.b64encode(hashlib.sha256(each.encode()).digest()).decode()}'" for each in inline}
    assert hashes == set(re.findall(r"'sha256-[^']*'", policy))
    assert len(text) < 95_000


@pytest.mark.few(1)
@pytest.mark.slow
def test_equal_runs_give_equal_reports(page, tmp_path):
    command = json.loads(page.with_name("result.json").read_text())["command"]
    task = next(words for words in TASKS.values() if " ".join(words) in command)
    assert run_safely(["run", *task, "--chunk", "13", "--out", str(tmp_path / "again")]) == 0
    assert timeless(tmp_path / "again" / "report.html") == timeless(page)


def timeless(page):
    """The page without its date and duration."""
    text, count = re.subn(r"<tr><th>(date|duration)</th>.*?</tr>", "", page.read_text())
    assert count == 2
    return text


@pytest.mark.slow
def test_names_cannot_break_the_page(tmp_path):
    path = tmp_path / "odd.csv"
    names = ["<script>alert(1)</script>", "</script>", "a&b", "naïve ☃"]
    rows = np.random.default_rng(0).standard_normal((200, 4))
    path.write_text(",".join(names) + "\n" + "\n".join(",".join(map(str, row)) for row in rows) + "\n")
    out = tmp_path / "out"
    assert run_safely(["run", str(path), "--task", "regression", "--target", "a&b", "--out", str(out)]) == 0
    text = (out / "report.html").read_text()
    assert "<script>alert" not in text
    assert "&lt;script&gt;alert(1)" in text
    checker = Checker()
    checker.feed(text)
    assert checker.open == []


@pytest.mark.slow
def test_a_stream_too_short_for_a_model_has_a_report(tmp_path):
    path = tmp_path / "short.csv"
    path.write_text("a,b,y\n1,2,3\n4,5,7\n")
    out = tmp_path / "out"
    assert run_safely(["run", str(path), "--task", "regression", "--target", "y", "--out", str(out)]) == 0
    assert "has not changed" in (out / "report.html").read_text()


def test_principal_axes_are_those_of_the_weighted_points():
    rng = np.random.default_rng(0)
    points = rng.standard_normal((50, 3)) * [1, 5, 2]
    weights = rng.integers(1, 4, 50)
    mean, axes, share = principal_components(points, weights.astype(float))
    values, vectors = np.linalg.eigh(np.cov(np.repeat(points, weights, axis=0).T, bias=True))
    np.testing.assert_allclose(mean, np.repeat(points, weights, axis=0).mean(axis=0))
    np.testing.assert_allclose(np.abs(np.sum(axes * vectors[:, :0:-1].T, axis=1)), 1)
    assert share == pytest.approx(values[1:].sum() / values.sum())


def test_labels_are_short():
    assert truncated("price") == "price"
    assert len(truncated("x" * 100)) == 24


@pytest.mark.parametrize("scale", ["linear", "log", "asinh"])
def test_ticks_are_few_round_and_inside(scale):
    for low, high in ((0.3, 7.0), (2.0, 3e6), (1e-5, 2e-5), (40.0, 900.0)):
        axis = Axis("", low, high, scale)
        assert all(low <= tick <= high for tick in axis.ticks())
        assert scale == "asinh" or 1 <= len(axis.ticks()) <= 8
        np.testing.assert_allclose(axis.place(np.array([low, high])), [0, 1], atol=1e-12)


def test_axes_leave_out_rounding_and_outliers():
    assert Axis.of("", [1e-64, 3.0], "log").low > 1e-7
    assert Axis.of("", [1.0] * 50 + [1e9]).high < 2
    assert Axis.of("", [np.nan, np.inf, 2.0, 2.0]).low < 2 < Axis.of("", [2.0]).high


def test_a_chart_is_the_same_as_json_and_as_svg():
    line = Series("</script>", [1, 10, 100], [0.5, np.nan, 1 / 3], "both", tips=["a", "b", "c"])
    chart = Chart("t", Axis("rows", 1, 100, "log"), Axis("loss", 0, 1), [line])
    assert "<" not in chart.json()
    found = json.loads(chart.json())
    assert found["series"][0]["y"] == [0.5, None, 0.33333]
    assert found["axes"]["x"]["scale"] == "log"
    drawn = re.findall(r"([\d.]+) ([\d.]+)", re.search(r'class="both accent" d="([^"]*)"', chart.svg())[1])
    width, height = map(float, re.search(r'<svg x=.*?width="(\d+)" height="(\d+)"', chart.svg()).groups())
    np.testing.assert_allclose(np.array(drawn, float), [[0, height / 2], [width, height * 2 / 3]], atol=1)


@pytest.fixture
def browser(request):
    if PROGRAM is None:
        pytest.skip("no Chromium on this machine")
    if sys.platform == "win32":
        pytest.skip("pipes of the browser are those of POSIX")
    width, dark = getattr(request, "param", (1200, False))
    with Browser(width, dark=dark) as found:
        yield found


@pytest.mark.parametrize("browser", [(1200, False), (390, False), (1200, True)], indirect=True)
@pytest.mark.few(3)
@pytest.mark.slow
def test_a_browser_draws_it_without_errors_or_requests(page, browser):
    browser.open(page.as_uri())
    browser.wait("document.querySelectorAll('figure.live').length >= 3")
    browser.value("document.querySelectorAll('details').forEach((each) => { each.open = true; })")
    browser.wait("document.querySelectorAll('figure.live').length === document.querySelectorAll('figure').length")
    assert browser.value("document.querySelectorAll('figure').length") >= 6
    assert browser.value("[...document.querySelectorAll('canvas')].every((each) => each.clientWidth > 200)")
    assert browser.value("performance.getEntriesByType('resource').length") == 0
    assert browser.value("document.documentElement.scrollWidth <= innerWidth")
    assert browser.logged == []
    ink = browser.value("getComputedStyle(document.body).color")
    paper = browser.value("getComputedStyle(document.body).backgroundColor")
    is_dark = browser.value("matchMedia('(prefers-color-scheme: dark)').matches")
    assert (max(map(int, re.findall(r"\d+", paper))) < 60) == (min(map(int, re.findall(r"\d+", ink))) > 130) == is_dark


@pytest.mark.few(1)
@pytest.mark.slow
def test_charts_show_values_and_zoom_and_tables_sort(page, browser):
    browser.open(page.as_uri())
    browser.wait("document.querySelectorAll('figure.live').length >= 3")
    read = "[...document.querySelectorAll('figure.live')][1].querySelector('.u-legend').innerText"
    over = "[...document.querySelectorAll('figure.live')][1].querySelector('.u-over')"
    browser.value(f"{over}.scrollIntoView({{block: 'center'}})")
    x, y, width = browser.value(f"(({{x, y, width}}) => [x, y + 40, width])({over}.getBoundingClientRect())")
    before = browser.value(read)
    browser.mouse("mouseMoved", x + width / 2, y)
    browser.wait(f"{read} !== {json.dumps(before)}")
    assert re.search(r"\d", browser.value(read))
    limits = "charts[1].scales.x.max - charts[1].scales.x.min"
    all_rows = browser.value(limits)
    browser.drag((x + 0.3 * width, y), (x + 0.6 * width, y))
    browser.wait(f"{limits} < {0.9 * all_rows}")
    sort = "document.querySelector('table.sortable th')"
    first = (
        "[...document.querySelectorAll('table.sortable')][0].tBodies[0].rows[0].cells[0].textContent.replace(',', '')"
    )
    browser.value(f"{sort}.querySelector('button').focus()")
    orders = set()
    for _ in range(2):
        browser.key("Enter", "\r")
        orders.add((browser.value(f"{sort}.getAttribute('aria-sort')"), int(browser.value(first))))
    (_, low), (_, high) = sorted(orders)
    assert {each for each, _ in orders} == {"ascending", "descending"}
    assert low < high


@pytest.mark.few(1)
@pytest.mark.slow
def test_without_scripts_and_on_paper_the_charts_are_svg(page, browser):
    shown = "[...document.querySelectorAll('figure > svg')].filter((each) => each.clientWidth > 200).length"
    browser.open(page.as_uri())
    browser.wait("document.querySelectorAll('figure.live').length >= 3")
    assert browser.value(shown) < browser.value("document.querySelectorAll('figure').length")
    browser.print_media()
    assert browser.value(shown) >= 3
    assert browser.value("document.querySelector('.uplot').clientWidth") == 0


def test_the_browser_test_sees_requests_and_errors(tmp_path, browser):
    """A planted defect: a page that fetches a picture and throws."""
    page = tmp_path / "bad.html"
    page.write_text('<img src="http://localhost:9/x.png"><script>throw Error("planted")</script>')
    browser.open(page.as_uri())
    browser.wait("document.readyState === 'complete' && performance.getEntriesByType('resource').length > 0")
    assert any("planted" in line for line in browser.logged)


@pytest.mark.slow
def test_no_report_needs_matplotlib(tmp_path):
    code = "import sys; from batch2online.app.cli.app import run_safely as run; run(sys.argv[1:]); print(*sys.modules)"
    command = [sys.executable, "-c", code, "run", *TASKS["regression"], "--out", str(tmp_path / "out")]
    loaded = subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()
    assert "batch2online.app.report.page" in loaded
    assert "matplotlib" not in loaded
