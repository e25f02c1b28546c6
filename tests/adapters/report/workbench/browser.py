"""A headless Chromium, driven through a pipe by the DevTools protocol, so that no further package is needed."""

from __future__ import annotations

import base64
import itertools
import json
import os
import select
import shutil
import subprocess
import time
from pathlib import Path

FLAGS = (
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--hide-scrollbars",
    "--disable-background-networking", "--disable-component-update", "--disable-sync", "--disable-extensions",
    "--disable-dev-shm-usage", "--remote-debugging-pipe",
)  # fmt: skip

SECONDS = 60.0


def chromium() -> str | None:
    """The browser's program; None if it is not installed."""
    return next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)


class Browser:
    """One page of a browser; ``errors`` and ``requests`` gather what it complains about and asks for."""

    def __init__(self, folder: Path) -> None:
        to_browser, self._to = os.pipe()
        self._from, from_browser = os.pipe()
        # the protocol is spoken on the file descriptors 3 and 4
        command = [chromium(), *FLAGS, f"--user-data-dir={folder}", "about:blank"]
        shell = ["bash", "-c", f'exec "$@" 3<&{to_browser} 4>&{from_browser}', "bash", *command]
        self._process = subprocess.Popen(
            shell, pass_fds=(to_browser, from_browser), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        os.close(to_browser)
        os.close(from_browser)
        self._numbers, self._buffer = itertools.count(1), b""
        self._session: str | None = None
        self.errors: list[str] = []
        self.requests: list[str] = []
        target = next(each for each in self("Target.getTargets")["targetInfos"] if each["type"] == "page")
        self._session = self("Target.attachToTarget", targetId=target["targetId"], flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Network", "Log"):
            self(f"{domain}.enable")

    def __call__(self, method: str, **params: object) -> dict:
        number = next(self._numbers)
        message = {"id": number, "method": method, "params": params}
        if self._session is not None:
            message["sessionId"] = self._session
        os.write(self._to, json.dumps(message).encode() + b"\0")
        while True:
            answer = self._read()
            if answer.get("id") == number:
                assert "error" not in answer, f"{method}: {answer['error']}"
                return answer["result"]
            self._note(answer)

    def _read(self) -> dict:
        until = time.monotonic() + SECONDS
        while b"\0" not in self._buffer:
            ready, _, _ = select.select([self._from], [], [], until - time.monotonic())
            assert ready, "the browser does not answer"
            part = os.read(self._from, 1 << 16)
            assert part, "the browser has ended"
            self._buffer += part
        text, self._buffer = self._buffer.split(b"\0", 1)
        return json.loads(text)

    def _note(self, event: dict) -> None:
        params = event.get("params", {})
        if event.get("method") == "Network.requestWillBeSent":
            self.requests.append(params["request"]["url"])
        elif event.get("method") == "Runtime.exceptionThrown":
            about = params["exceptionDetails"]
            self.errors.append(str(about.get("exception", {}).get("description", about["text"])))
        elif event.get("method") == "Runtime.consoleAPICalled" and params["type"] in ("error", "warning", "assert"):
            self.errors.append(str([each.get("value") for each in params["args"]]))
        elif event.get("method") == "Log.entryAdded" and params["entry"]["level"] in ("error", "warning"):
            self.errors.append(params["entry"]["text"])

    def open(self, path: Path, width: int = 1300, height: int = 900, theme: str = "light") -> float:
        """Open a page from the file system, and return the seconds until its views stand."""
        self.errors.clear()
        self.requests.clear()
        self("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=width < 600)
        self("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": theme}])
        self("Page.navigate", url=path.as_uri())
        self.wait(f"location.href === {json.dumps(path.as_uri())} && document.body?.dataset.ready === 'yes'")
        return self.js("performance.now()") / 1000

    def js(self, expression: str) -> object:
        """Evaluate an expression in the page."""
        found = self("Runtime.evaluate", expression=expression, awaitPromise=True, returnByValue=True)
        assert "exceptionDetails" not in found, found["exceptionDetails"]
        return found["result"].get("value")

    def wait(self, condition: str) -> None:
        """Wait until an expression is true."""
        until = time.monotonic() + SECONDS
        while not self.js(condition):
            assert time.monotonic() < until, f"in vain: {condition}; {self.errors}"
            time.sleep(0.02)

    def settle(self) -> None:
        """Wait until the views have drawn what changed."""
        self.js("new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(() => setTimeout(done, 0))))")

    def mouse(self, kind: str, x: float, y: float, **more: object) -> None:
        """Move, press or release the mouse, or turn its wheel."""
        self("Input.dispatchMouseEvent", type=kind, x=x, y=y, **more)

    def click(self, x: float, y: float) -> None:
        """Click at a place of the window."""
        self.mouse("mouseMoved", x, y)
        for kind in ("mousePressed", "mouseReleased"):
            self.mouse(kind, x, y, button="left", clickCount=1)
        self.settle()

    def press(self, key: str) -> None:
        """Press a key."""
        text = key if len(key) == 1 else ""
        self("Input.dispatchKeyEvent", type="keyDown", key=key, text=text)
        self("Input.dispatchKeyEvent", type="keyUp", key=key)
        self.settle()

    def screenshot(self, path: Path, *, whole: bool = False) -> None:
        """Write a picture of the window, or of the whole page."""
        found = self("Page.captureScreenshot", format="png", captureBeyondViewport=whole)
        path.write_bytes(base64.b64decode(found["data"]))

    def close(self) -> None:
        """End the browser."""
        self._session = None
        try:
            self("Browser.close")
        except (AssertionError, OSError):
            self._process.kill()
        self._process.wait(timeout=20)
        os.close(self._to)
        os.close(self._from)
