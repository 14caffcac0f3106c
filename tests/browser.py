"""A headless browser that a test drives: one page, by the DevTools protocol over two pipes."""

import base64
import json
import os
import shutil
import subprocess
import tempfile
import time

PROGRAM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")


class Browser:
    """A page of its own in a browser of its own."""

    def __init__(self, width=1200, height=1000, dark=False):
        self._folder = tempfile.TemporaryDirectory(ignore_cleanup_errors=True)
        to_read, self._write = os.pipe()
        self._read, to_write = os.pipe()
        flags = ["--headless", "--no-sandbox", "--disable-gpu", "--remote-debugging-pipe", "--no-first-run"]

        def connect():
            os.dup2(to_read, 3)
            os.dup2(to_write, 4)

        command = [PROGRAM, *flags, f"--user-data-dir={self._folder.name}", f"--window-size={width},{height}"]
        self._process = subprocess.Popen(
            command,
            preexec_fn=connect,
            close_fds=True,
            pass_fds=(3, 4),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        os.close(to_read)
        os.close(to_write)
        self._rest, self._number, self._session = b"", 0, None
        self.logged = []
        target = self._ask("Target.createTarget", url="about:blank")["targetId"]
        self._session = self._ask("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        self._ask("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=False)
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self._ask("Emulation.setEmulatedMedia", features=[scheme])
        self._ask("Runtime.enable")
        self._ask("Log.enable")

    def _ask(self, method, **params):
        self._number += 1
        message = {"id": self._number, "method": method, "params": params}
        if self._session:
            message["sessionId"] = self._session
        os.write(self._write, json.dumps(message).encode() + b"\0")
        while True:
            while b"\0" not in self._rest:
                self._rest += os.read(self._read, 2**20)
            line, self._rest = self._rest.split(b"\0", 1)
            found = json.loads(line)
            if found.get("method") in ("Runtime.exceptionThrown", "Runtime.consoleAPICalled", "Log.entryAdded"):
                self.logged.append(json.dumps(found["params"]))
            if found.get("id") == self._number:
                assert "error" not in found, found
                return found["result"]

    def open(self, address):
        self._ask("Page.navigate", url=address)

    def value(self, expression):
        """Evaluate an expression in the page."""
        return self._ask("Runtime.evaluate", expression=expression, returnByValue=True)["result"].get("value")

    def wait(self, expression, seconds=60):
        """Wait until an expression is true."""
        until = time.monotonic() + seconds
        while not self.value(expression):
            assert time.monotonic() < until, f"{expression} is still false; the page says {self.text()}"
            time.sleep(0.1)

    def mouse(self, kind, x, y, **more):
        self._ask("Input.dispatchMouseEvent", type=kind, x=x, y=y, **more)

    def drag(self, start, stop):
        """Press the button at one place and release it at another."""
        self.mouse("mousePressed", *start, button="left", clickCount=1)
        self.mouse("mouseMoved", *stop, button="left")
        self.mouse("mouseReleased", *stop, button="left", clickCount=1)

    def key(self, name, text=""):
        for kind in ("keyDown", "keyUp"):
            self._ask("Input.dispatchKeyEvent", type=kind, key=name, text=text if kind == "keyDown" else "")

    def print_media(self):
        """Show the page as it is printed."""
        self._ask("Emulation.setEmulatedMedia", media="print")

    def text(self):
        return self.value("document.body.innerText")

    def screenshot(self, path):
        found = self._ask("Page.captureScreenshot", captureBeyondViewport=True)
        path.write_bytes(base64.b64decode(found["data"]))

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self._process.kill()
        self._process.wait()
        os.close(self._write)
        os.close(self._read)
        self._folder.cleanup()
