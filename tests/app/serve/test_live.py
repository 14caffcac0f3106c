"""The live page in a browser: figures and changes appear without a reload, also after the service was restarted."""

import os
import subprocess
import sys
import time

import pytest

from browser import PROGRAM, Browser

service = pytest.importorskip("app.serve.test_service", reason="needs the extra serve and httpx2")
httpx = pytest.importorskip("httpx2", reason="needs httpx2")

REGRESSION, ROWS = service.REGRESSION, service.ROWS

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(PROGRAM is None, reason="needs Chromium"),
    pytest.mark.skipif(sys.platform == "win32", reason="pipes of the browser are those of POSIX"),
]


def started(folder, port):
    command = [sys.executable, "-m", "batch2online", "serve", str(folder), "--port", str(port)]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, env=os.environ)
    for _ in range(600):
        try:
            httpx.get(f"http://127.0.0.1:{port}/v2/health/ready")
            return process
        except httpx.TransportError:
            assert process.poll() is None, process.stderr.read()
            time.sleep(0.1)
    raise AssertionError("the service did not start")


def ended(process):
    start = time.monotonic()
    process.terminate()
    process.wait(30)
    assert time.monotonic() - start < 5
    process.stderr.close()


def learn(port, rows):
    assert httpx.post(f"http://127.0.0.1:{port}/models/price/learn", json=rows, timeout=60).status_code == 200


def test_figures_appear_and_come_back_after_a_restart(tmp_path):
    port = 18_000 + os.getpid() % 10_000
    server = started(tmp_path, port)
    try:
        httpx.put(f"http://127.0.0.1:{port}/models/price", json=REGRESSION)
        with Browser() as browser:
            browser.open(f"http://127.0.0.1:{port}/")
            browser.wait("document.querySelectorAll('article').length === 1")
            for _ in range(10):
                learn(port, ROWS)
            browser.wait("document.querySelector('[data-f=rows]').textContent === '10,000'")
            browser.wait("document.querySelectorAll('.changes li').length > 0")
            n_changes = browser.value("document.querySelectorAll('.changes li').length")
            ended(server)
            browser.wait("document.getElementById('state').textContent.includes('lost')")
            server = started(tmp_path, port)
            learn(port, ROWS)
            browser.wait("document.querySelector('[data-f=rows]').textContent === '11,000'")
            assert browser.value("document.querySelectorAll('.changes li').length") >= n_changes
            texts = browser.value("[...document.querySelectorAll('.changes li')].map((each) => each.textContent)")
            assert len(set(texts)) == len(texts), "a change is listed twice"
    finally:
        ended(server)


@pytest.mark.parametrize("width", [1200, 390])
def test_the_page_fits_its_width(width, tmp_path):
    port = 8_100 + os.getpid() % 10_000  # below the ports that connections of other programs take
    server = started(tmp_path, port)
    try:
        httpx.put(f"http://127.0.0.1:{port}/models/price", json=REGRESSION)
        learn(port, ROWS)
        with Browser(width) as browser:
            browser.open(f"http://127.0.0.1:{port}/")
            browser.wait("document.querySelectorAll('.changes li').length > 0")
            browser.wait("document.querySelectorAll('[data-chart=rate] circle').length >= 2")
            assert browser.value("document.documentElement.scrollWidth") <= width
            assert "rows a second " in browser.value("document.querySelector('[data-chart=rate] title').textContent")
            assert browser.logged == []
    finally:
        ended(server)
