"""The report: complete, self-contained, safe with any names, and sound in a browser."""

from __future__ import annotations

import base64
import json
import re
import shutil
import subprocess
from html.parser import HTMLParser

import numpy as np
import pytest

from batch2online.app.cli.app import run_safely
from batch2online.app.report.figures import plain, principal_components

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
TASKS = {
    "regression": ["--dataset", "diabetes", "--task", "regression"],
    "lowrank": ["--dataset", "breast_cancer", "--task", "lowrank", "--k", "3"],
    "clustering": ["--dataset", "breast_cancer", "--task", "clustering", "--k", "3"],
}


@pytest.fixture(scope="module", params=TASKS)
def page(request, tmp_path_factory):
    out = tmp_path_factory.mktemp("report") / "out"
    assert run_safely(["run", *TASKS[request.param], "--out", str(out)]) == 0
    return out / "report.html"


class Checker(HTMLParser):
    """Collects identifiers, references and the balance of elements."""

    void = frozenset({"meta", "link", "br", "use", "path"})

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
    assert not re.search(r"url\((?!#)|@import|<script", text)
    clips = set(re.findall(r"url\(#([^)]*)\)", text))
    assert clips <= set(checker.ids)


def test_page_tells_what_the_result_says(page):
    text, result = page.read_text(), json.loads(page.with_name("result.json").read_text())
    for words in (
        f"{result['ratio']:.3f} ",
        f"{result['rows']:,} rows",
        result["command"],
        "Online loss and hindsight",
    ):
        assert words in text
    assert text.count("<svg") >= 6
    assert text.count("reason</th>") >= 1
    assert "prefers-color-scheme: dark" in text
    assert "@media print" in text
    assert not re.search(r"#0[1-6]fe0[1-6]", text), "a colour that does not follow the theme"


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
    names = ["<script>alert(1)</script>", "cost_$x^2$", "a&b", "naïve ☃"]
    rows = np.random.default_rng(0).standard_normal((200, 4))
    path.write_text(",".join(names) + "\n" + "\n".join(",".join(map(str, row)) for row in rows) + "\n")
    out = tmp_path / "out"
    assert run_safely(["run", str(path), "--task", "regression", "--target", "a&b", "--out", str(out)]) == 0
    text = (out / "report.html").read_text()
    assert "<script" not in text
    assert "&lt;script&gt;alert(1)" in text
    Checker().feed(text)


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


def test_labels_are_short_and_hold_no_mathematics():
    assert plain("price_$") == r"price_\$"
    assert len(plain("x" * 100)) == 24


PROBE = """<!doctype html><body><pre id="found">waiting</pre><script>
const seen = [];
new PerformanceObserver(list => list.getEntries().forEach(entry => seen.push(entry.name)))
  .observe({type: "resource", buffered: true});
const frame = document.createElement("iframe");
frame.style.width = "WIDTHpx"; frame.style.height = "3000px"; frame.style.border = "0";
frame.srcdoc = new TextDecoder().decode(Uint8Array.from(atob("CONTENT"), c => c.charCodeAt(0)));
const errors = [];
frame.onload = () => {
  const inner = frame.contentDocument;
  frame.contentWindow.addEventListener("error", event => errors.push(event.message));
  const boxes = [...inner.querySelectorAll("svg")].map(svg => svg.getBoundingClientRect());
  const ink = inner.querySelector("svg text");
  document.getElementById("found").textContent = JSON.stringify({
    title: inner.title,
    requests: [...seen, ...frame.contentWindow.performance.getEntriesByType("resource").map(entry => entry.name)],
    errors,
    overflow: inner.documentElement.scrollWidth - frame.clientWidth,
    figures: boxes.length,
    drawn: boxes.filter(box => box.width > 200 && box.height > 60).length,
    text: getComputedStyle(ink).fill,
    page: getComputedStyle(inner.body).backgroundColor,
  });
};
document.body.append(frame);
</script>"""


def browse(page, folder, width, *flags):
    """What a browser finds in the page at this width, and what it wrote to its log."""
    probe = folder / "probe.html"
    content = base64.b64encode(page.read_bytes()).decode()
    probe.write_text(PROBE.replace("WIDTH", str(width)).replace("CONTENT", content))
    base = [CHROMIUM, "--headless", "--no-sandbox", "--disable-gpu", f"--user-data-dir={folder / 'profile'}"]
    log = ["--enable-logging=stderr", "--virtual-time-budget=5000", "--dump-dom", f"--window-size={width + 40},3100"]
    run = subprocess.run(
        [*base, *log, *flags, probe.as_uri()], capture_output=True, text=True, timeout=120, check=True, encoding="utf-8"
    )
    console = [line for line in run.stderr.splitlines() if ":CONSOLE" in line]
    found = re.search(r'<pre id="found">(.*?)</pre>', run.stdout, re.DOTALL)
    return json.loads(found.group(1).replace("&amp;", "&")), console


@pytest.mark.skipif(CHROMIUM is None, reason="no Chromium on this machine")
@pytest.mark.parametrize(
    ("width", "flags"), [(1200, ()), (390, ()), (1200, ("--blink-settings=preferredColorScheme=0",))]
)
@pytest.mark.few(3)
@pytest.mark.slow
def test_a_browser_draws_it_without_errors_or_requests(page, tmp_path, width, flags):
    found, console = browse(page, tmp_path, width, *flags)
    assert console == []
    assert found["errors"] == []
    assert found["requests"] == []
    assert found["overflow"] <= 0
    assert found["figures"] == found["drawn"] >= 6
    is_dark = max(map(int, re.findall(r"\d+", found["page"]))) < 60
    is_light_text = min(map(int, re.findall(r"\d+", found["text"]))) > 130
    assert is_dark == is_light_text == bool(flags)


@pytest.mark.skipif(CHROMIUM is None, reason="no Chromium on this machine")
def test_the_browser_test_sees_requests_and_errors(tmp_path):
    """A planted defect: a page that fetches a picture, throws, and has no figures."""
    page = tmp_path / "bad.html"
    page.write_text(
        '<svg><text>x</text></svg><img src="http://localhost:9/x.png"><script>throw Error("planted")</script>'
    )
    found, console = browse(page, tmp_path, 390)
    assert any("planted" in line for line in console)
    assert found["requests"]
    assert found["drawn"] == 0 or found["figures"] != found["drawn"] or found["figures"] < 6
