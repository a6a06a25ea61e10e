"""A headless Chromium that does as it is told, over the pipe of the DevTools protocol."""

from __future__ import annotations

import base64
import json
import os
import select
import shutil
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

_NAMES = ("chromium", "chromium-browser", "google-chrome", "chrome")
_PATIENCE = 120.0
_QUIET = ("--no-first-run", "--disable-gpu", "--disable-dev-shm-usage", "--hide-scrollbars")


def find_browser() -> str:
    """The first Chromium on the path."""
    found = next((path for name in _NAMES if (path := shutil.which(name))), None)
    assert found, f"This test needs a browser, one of {', '.join(_NAMES)}: see docs/reports.md."
    return found


class Tab:
    """One page, what it complained about and what it asked the network for."""

    def __init__(self, commands: int, answers: int) -> None:
        self._commands, self._answers = commands, answers
        self._rest = b""
        self._count = 0
        self._session: str | None = None
        self.events: list[dict[str, Any]] = []
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        attached = self.call("Target.attachToTarget", targetId=target, flatten=True)
        self._session = attached["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(f"{domain}.enable")

    def call(self, method: str, **parameters: Any) -> dict[str, Any]:
        """Send one command and wait for its answer."""
        self._count += 1
        message: dict[str, Any] = {"id": self._count, "method": method, "params": parameters}
        if self._session is not None:
            message["sessionId"] = self._session
        data = json.dumps(message).encode() + b"\0"
        while data:
            data = data[os.write(self._commands, data) :]
        while True:
            answer = self._next()
            if answer.get("id") == self._count:
                assert "error" not in answer, f"{method}: {answer['error']}"
                return dict(answer["result"])
            self.events.append(answer)

    def _next(self) -> dict[str, Any]:
        deadline = time.monotonic() + _PATIENCE
        while b"\0" not in self._rest:
            ready, _, _ = select.select([self._answers], [], [], deadline - time.monotonic())
            assert ready, f"The browser has not answered for {_PATIENCE:.0f} s."
            piece = os.read(self._answers, 1 << 20)
            assert piece, "The browser has ended."
            self._rest += piece
        line, self._rest = self._rest.split(b"\0", 1)
        return dict(json.loads(line))

    def show(self, page: Path, width: int = 1280, height: int = 900, scheme: str = "light") -> None:
        """Load a file and wait until it has loaded."""
        self.events.clear()
        phone = width < 600
        self.call(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=height,
            deviceScaleFactor=1,
            mobile=phone,
        )
        self.call("Emulation.setTouchEmulationEnabled", enabled=phone)
        features = [{"name": "prefers-color-scheme", "value": scheme}]
        self.call("Emulation.setEmulatedMedia", features=features)
        self.call("Page.navigate", url=page.resolve().as_uri())
        while not any(event.get("method") == "Page.loadEventFired" for event in self.events):
            self.events.append(self._next())
        self.evaluate("new Promise(done => requestAnimationFrame(() => setTimeout(done, 50)))")

    def evaluate(self, script: str) -> Any:
        """The value of a JavaScript expression, awaited if it is a promise."""
        answer = self.call(
            "Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True
        )
        assert "exceptionDetails" not in answer, answer["exceptionDetails"]
        return answer["result"].get("value")

    def complaints(self) -> list[str]:
        """Errors and warnings that a reader would find in the console."""
        found = []
        for event in self.events:
            name, said = event.get("method"), event.get("params", {})
            logged = name == "Runtime.consoleAPICalled" and said["type"] in ("error", "warning")
            entry = name == "Log.entryAdded" and said["entry"]["level"] in ("error", "warning")
            if logged or entry or name == "Runtime.exceptionThrown":
                found.append(json.dumps(said))
        return found

    def requests(self) -> list[str]:
        """Everything that was fetched, the page itself and what it carries inside left out."""
        urls = [
            event["params"]["request"]["url"]
            for event in self.events
            if event.get("method") == "Network.requestWillBeSent"
        ]
        return [url for url in urls[1:] if not url.startswith(("data:", "blob:"))]

    def screenshot(self, path: Path, whole: bool = False) -> None:
        """What is to be seen, or the page from top to bottom."""
        answer = self.call("Page.captureScreenshot", captureBeyondViewport=whole)
        path.write_bytes(base64.b64decode(answer["data"]))

    def pdf(self, path: Path) -> None:
        """The page as it is printed."""
        path.write_bytes(base64.b64decode(self.call("Page.printToPDF")["data"]))


@contextmanager
def open_tab(profile: Path) -> Iterator[Tab]:
    """Start a browser of our own and end it again."""
    command_out, command_in = os.pipe()
    answer_out, answer_in = os.pipe()
    arguments = [find_browser(), "--headless=new", "--remote-debugging-pipe", *_QUIET]
    arguments.append(f"--user-data-dir={profile}")
    if os.geteuid() == 0:
        arguments.append("--no-sandbox")  # Chromium refuses to run as root with it
    # The protocol wants descriptors 3 and 4.
    wrap = f'exec "$@" 3</dev/fd/{command_out} 4>/dev/fd/{answer_in}'
    process = subprocess.Popen(
        ["sh", "-c", wrap, "sh", *arguments],
        pass_fds=(command_out, answer_in),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    os.close(command_out)
    os.close(answer_in)
    try:
        yield Tab(command_in, answer_out)
    finally:
        os.close(command_in)  # which ends it
        try:
            process.wait(20)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        os.close(answer_out)
