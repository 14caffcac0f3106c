"""The report: complete, self-contained, safe with any names, and sound in a browser."""

from __future__ import annotations

import base64
import hashlib
import html
import json
import re
import subprocess
import sys
from html.parser import HTMLParser
from xml.etree import ElementTree

import numpy as np
import pytest

from batch2online.app.cli.app import run_safely
from batch2online.app.report.charts import Axis, Chart, Series
from browser import PROGRAM, Browser

TASKS = {
    "regression": ["--dataset", "diabetes", "--task", "regression"],
    "lowrank": ["--dataset", "breast_cancer", "--task", "lowrank", "--k", "3"],
    "clustering": ["--dataset", "breast_cancer", "--task", "clustering", "--k", "3"],
}


def charts(text):
    """The charts of a page by their titles: what each point says when it is pointed at, in lists by series."""
    found = {}
    for each in re.findall(r'<figure class="chart.*?</figure>', text):
        chart = ElementTree.fromstring(each[each.index("<svg") : each.rindex("</svg>") + 6])
        groups = [[title.text for title in group.iter("title")] for group in chart.iter("g")]
        found[chart.get("aria-label")] = [tips for tips in groups if tips]
    return found


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
    drawn = charts(text)
    assert len(drawn) >= 6
    for tips, key, label in zip(
        drawn["Mean loss per row"], ("optimum", "loss"), ("best in hindsight", "online"), strict=True
    ):
        shown = [re.fullmatch(rf"{label} (\S+), rows seen ([\d,]+)", tip).groups() for tip in tips]
        assert [int(rows.replace(",", "")) for _, rows in shown] == [point["rows"] for point in result["curve"]]
        expected = [point[key] / point["weight"] for point in result["curve"]]
        np.testing.assert_allclose([float(value) for value, _ in shown], expected, rtol=1e-4)
    assert text.count("reason</th>") >= 1
    assert "prefers-color-scheme: dark" in text
    assert "@media print" in text
    svgs = "".join(re.findall(r"<figure.*?</figure>", text, re.DOTALL))
    assert not re.search(r"#[0-9a-f]{3,6}\b|rgb", svgs), "a colour that does not follow the theme"


def test_the_policy_allows_the_script_and_the_style_of_the_page_alone(page):
    text = page.read_text()
    policy = html.unescape(re.search(r'Content-Security-Policy" content="([^"]*)"', text)[1])
    assert "unsafe" not in policy
    assert policy.startswith("default-src 'none'; connect-src 'none'; script-src 'sha256-")
    inline = re.findall(r"<(?:script|style)>(.*?)</(?:script|style)>", text, re.DOTALL)
    hashes = {f"'sha256-{base64.b64encode(hashlib.sha256(each.encode()).digest()).decode()}'" for each in inline}
    assert hashes == set(re.findall(r"'sha256-[^']*'", policy))
    assert len(text) < 80_000


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


@pytest.mark.parametrize("scale", ["linear", "log"])
def test_ticks_are_few_round_and_inside(scale):
    for low, high in ((0.3, 7.0), (2.0, 3e6), (1e-5, 2e-5), (40.0, 900.0)):
        axis = Axis("", low, high, scale)
        assert all(low <= tick <= high for tick in axis.ticks())
        assert 1 <= len(axis.ticks()) <= 8
        np.testing.assert_allclose(axis.place(np.array([low, high])), [0, 1], atol=1e-12)


def test_ticks_are_told_apart_and_of_whole_numbers_if_asked():
    narrow, bins = Axis("", 12.5, 12.62), Axis("", 0.4, 10.6, is_whole=True)
    assert [narrow.shown(tick) for tick in narrow.ticks()] == ["12.5", "12.525", "12.55", "12.575", "12.6"]
    assert bins.ticks() == [2.0, 4.0, 6.0, 8.0, 10.0]


def test_axes_leave_out_rounding_and_outliers():
    assert Axis.of("", [1e-64, 3.0], "log").low > 1e-7
    assert Axis.of("", [1.0] * 50 + [1e9]).high < 2
    assert Axis.of("", [np.nan, np.inf, 2.0, 2.0]).low < 2 < Axis.of("", [2.0]).high


def example(draw="both", tips=()):
    line = Series("</script>", [1, 10, 100], [0.5, np.nan, 1 / 3], draw, tips=tips)
    guide = Series("", [1, 100], [0.4, 0.4], "guide", "second")
    return Chart("t", Axis("rows", 1, 100, "log"), Axis("loss", 0, 1, unit="%"), [line, guide])


@pytest.mark.parametrize("draw", ["line", "both", "dots", "stems", "bars"])
def test_every_point_is_in_its_place_and_says_its_values(draw):
    chart = example(draw)
    root = ElementTree.fromstring(chart.svg())
    assert [title.text for title in root.iter("title")] == ["</script> 0.5 %, rows 1", "</script> 0.33333 %, rows 100"]
    height = int(root.get("height"))
    if draw != "bars":
        places = [(float(each.get("cx")[:-1]), float(each.get("cy"))) for each in root.iter("circle")]
        np.testing.assert_allclose(places, [[0, height / 2], [100, height * 2 / 3]], atol=0.1)
    else:
        tops = [(float(each.get("y")), float(each.get("height"))) for each in root.iter("rect")]
        np.testing.assert_allclose(tops, [[height / 2, height / 2], [height * 2 / 3, height / 3]], atol=0.1)


def test_points_say_what_they_are_told_to_say_and_lines_end_at_gaps():
    root = ElementTree.fromstring(example("line", tips=["a", "b", "<c>"]).svg())
    assert [title.text for title in root.iter("title")] == ["a", "<c>"]
    paths = [path.get("d") for path in root.iter("path")]
    assert any(path.count("M") == 2 and "L" not in path for path in paths)


@pytest.mark.parametrize("scale", ["linear", "log"])
@pytest.mark.parametrize("draw", ["line", "both", "dots", "stems", "bars", "marks"])
def test_matplotlib_draws_the_same_points_on_the_same_axes(draw, scale):
    figure = pytest.importorskip("matplotlib.figure").Figure()
    x, y = Axis("rows", 1.0, 100.0, scale), Axis("loss", 0.1, 1.0, scale, unit="%")
    axes = Chart("t", x, y, [Series("a", [10.0], [0.5], draw, tips=["one"])]).on_axes(figure.add_subplot())
    assert (axes.get_xlabel(), axes.get_ylabel(), axes.get_xlim(), axes.get_ylim()) == (
        "rows",
        "loss",
        (1, 100),
        (0.1, 1),
    )
    assert [axes.xaxis.get_major_formatter()(tick) for tick in axes.get_xticks()] == list(map(x.shown, x.ticks()))
    drawn = {
        "bars": lambda: [(axes.patches[0].get_x() + axes.patches[0].get_width() / 2, axes.patches[0].get_height())],
        "stems": lambda: [axes.collections[0].get_segments()[0].max(axis=0)],
        "marks": lambda: [axes.texts[0].get_position()],
    }
    found = drawn.get(draw, lambda: axes.lines[0].get_xydata())()
    np.testing.assert_allclose(found, [(10.0, 0.5)])


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
    browser.wait("document.readyState === 'complete'")
    browser.value("document.querySelectorAll('details').forEach((each) => { each.open = true; })")
    assert browser.value("document.querySelectorAll('figure').length") >= 6
    assert browser.value("[...document.querySelectorAll('svg.plot')].every((each) => each.clientWidth > 200)")
    assert browser.value("performance.getEntriesByType('resource').length") == 0
    assert browser.value("document.documentElement.scrollWidth <= innerWidth")
    assert browser.logged == []
    ink = browser.value("getComputedStyle(document.body).color")
    paper = browser.value("getComputedStyle(document.body).backgroundColor")
    is_dark = browser.value("matchMedia('(prefers-color-scheme: dark)').matches")
    assert (max(map(int, re.findall(r"\d+", paper))) < 60) == (min(map(int, re.findall(r"\d+", ink))) > 130) == is_dark


SPEAKING = """[...document.querySelectorAll('svg.plot circle, svg.plot rect')].filter((mark) => {
  mark.scrollIntoView({block: 'center'});
  const {x, y, width, height} = mark.getBoundingClientRect();
  const hit = document.elementFromPoint(x + width / 2, y + height / 2);
  return hit !== null && /[0-9]/.test(hit.querySelector('title')?.textContent);
}).length"""
INSIDE = """[...document.querySelectorAll('svg.plot')].flatMap((chart) => {
  const frame = chart.closest('figure').getBoundingClientRect();
  return [...chart.querySelectorAll('text')].map((text) => text.getBoundingClientRect()).filter((text) => text.width &&
    (text.left < frame.left || text.right > frame.right || text.top < frame.top || text.bottom > frame.bottom));
}).length"""


@pytest.mark.parametrize("browser", [(1200, False), (390, True)], indirect=True)
@pytest.mark.few(2)
@pytest.mark.slow
def test_points_are_hit_by_the_pointer_and_labels_stay_in_their_figure(page, browser):
    browser.open(page.as_uri())
    browser.wait("document.readyState === 'complete'")
    browser.value("document.querySelectorAll('details').forEach((each) => { each.open = true; })")
    n_marks = browser.value("document.querySelectorAll('svg.plot circle, svg.plot rect').length")
    assert n_marks > 50
    assert browser.value(SPEAKING) > 0.9 * n_marks  # the others are above the end of their axis
    assert browser.value(INSIDE) == 0


@pytest.mark.few(1)
@pytest.mark.slow
def test_tables_sort_by_keyboard(page, browser):
    browser.open(page.as_uri())
    browser.wait("document.querySelector('table.sortable th button') !== null")
    sort = "document.querySelector('table.sortable th')"
    first = "document.querySelector('table.sortable').tBodies[0].rows[0].cells[0].textContent.replace(',', '')"
    browser.value(f"{sort}.querySelector('button').focus()")
    orders = set()
    for _ in range(2):
        browser.key("Enter", "\r")
        orders.add((browser.value(f"{sort}.getAttribute('aria-sort')"), int(browser.value(first))))
    (_, low), (_, high) = sorted(orders)
    assert {each for each, _ in orders} == {"ascending", "descending"}
    assert low < high


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
