"""A headless Chromium, spoken to over a pipe in the DevTools protocol."""

import base64
import json
import os
import select
import shutil
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
FLAGS = (
    "--headless=new",
    "--remote-debugging-pipe",
    "--no-sandbox",  # root may not use one; the pages are written by the tests
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-extensions",
    "--disable-sync",
    "--no-first-run",
    "--host-resolver-rules=MAP * ~NOTFOUND",  # no page reaches another machine
)
# DevTools reads from 3 and writes to 4. A second process puts the pipes there.
LAUNCH = """
import fcntl, os, sys
read, write = (fcntl.fcntl(int(n), fcntl.F_DUPFD, 10) for n in sys.argv[1:3])
os.dup2(read, 3)
os.dup2(write, 4)
os.execvp(sys.argv[3], sys.argv[3:])
"""
PATIENCE = 60.0
CONTRAST = """
(() => {
  const channel = v => { v /= 255; return v <= .03928 ? v / 12.92 : ((v + .055) / 1.055) ** 2.4 };
  const light = c => .2126 * channel(c[0]) + .7152 * channel(c[1]) + .0722 * channel(c[2]);
  const rgba = text => text.match(/[\\d.]+/g).map(Number);
  const paper = node => {
    for (; node; node = node.parentElement) {
      const c = rgba(getComputedStyle(node).backgroundColor);
      if (c.length < 4 || c[3] > 0) return c;
    }
    return [255, 255, 255];
  };
  let worst = 99;
  for (const node of document.querySelectorAll('h1, h2, p, li, td, th, dt, dd, a, strong, pre')) {
    if (!node.textContent.trim()) continue;
    const a = light(rgba(getComputedStyle(node).color)), b = light(paper(node));
    worst = Math.min(worst, (Math.max(a, b) + .05) / (Math.min(a, b) + .05));
  }
  return worst;
})()
"""
"""The least contrast of text with the paper behind it, of all of a page."""


def find() -> str | None:
    """The path of a Chromium, if there is one."""
    return next((path for path in map(shutil.which, NAMES) if path), None)


@dataclass
class Visit:
    """What happened while a page was open."""

    requested: list[str] = field(default_factory=list)
    complaints: list[str] = field(default_factory=list)


class Browser:
    """One browser with one tab; use it as a context."""

    def __init__(self, program: str) -> None:
        self._home = tempfile.TemporaryDirectory(prefix="chromium-", ignore_cleanup_errors=True)
        (to_read, self._to), (self._from, to_write) = os.pipe(), os.pipe()
        command = [program, *FLAGS, f"--user-data-dir={self._home.name}", "about:blank"]
        self._process = subprocess.Popen(
            [sys.executable, "-c", LAUNCH, str(to_read), str(to_write), *command],
            pass_fds=(to_read, to_write),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        os.close(to_read)
        os.close(to_write)
        self._rest = b""
        self._number = 0
        self._session: str | None = None
        self.visit = Visit()
        page = next(
            target
            for target in self.send("Target.getTargets")["targetInfos"]
            if target["type"] == "page"
        )
        attached = self.send("Target.attachToTarget", targetId=page["targetId"], flatten=True)
        self._session = attached["sessionId"]
        for domain in ("Page", "Network", "Runtime", "Log"):
            self.send(f"{domain}.enable")

    def __enter__(self) -> "Browser":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        os.close(self._to)
        try:
            self._process.wait(10)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        os.close(self._from)
        self._home.cleanup()

    def send(self, method: str, **params: Any) -> dict[str, Any]:
        """Call a method and wait for its answer; events on the way are noted."""
        self._number += 1
        message: dict[str, Any] = {"id": self._number, "method": method, "params": params}
        if self._session:
            message["sessionId"] = self._session
        os.write(self._to, json.dumps(message).encode() + b"\0")
        while True:
            answer = self._next()
            if answer.get("id") == self._number:
                if "error" in answer:
                    raise RuntimeError(f"{method}: {answer['error']}")
                return dict(answer["result"])
            self._note(answer)

    def _next(self) -> dict[str, Any]:
        until = time.monotonic() + PATIENCE
        while b"\0" not in self._rest:
            ready, _, _ = select.select([self._from], [], [], max(0.0, until - time.monotonic()))
            if not ready:
                raise TimeoutError("the browser does not answer")
            part = os.read(self._from, 2**16)
            if not part:
                raise RuntimeError(f"the browser ended: {self._process.wait()}")
            self._rest += part
        line, self._rest = self._rest.split(b"\0", 1)
        return dict(json.loads(line))

    def _note(self, event: dict[str, Any]) -> None:
        found = event.get("params", {})
        match event.get("method"):
            case "Network.requestWillBeSent":
                self.visit.requested.append(found["request"]["url"])
            case "Runtime.exceptionThrown":
                self.visit.complaints.append(str(found["exceptionDetails"]))
            case "Runtime.consoleAPICalled":
                self.visit.complaints.append(str(found["args"]))
            case "Log.entryAdded":
                self.visit.complaints.append(str(found["entry"]["text"]))
            case "Page.javascriptDialogOpening":
                self.visit.complaints.append(f"dialog: {found['message']}")

    def open(self, page: Path, width: int = 1200, height: int = 900, dark: bool = False) -> Visit:
        """Load a file at a screen's size; returns what happens, also later on."""
        self.visit = Visit()
        mobile = width < 600
        self.send(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=height,
            deviceScaleFactor=1,
            mobile=mobile,
        )
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.send("Emulation.setEmulatedMedia", features=[scheme])
        self.send("Page.navigate", url=page.resolve().as_uri())
        until = time.monotonic() + PATIENCE
        while not self.ask(
            f"document.readyState === 'complete' && location.href === '{page.resolve().as_uri()}'"
        ):
            if time.monotonic() > until:
                raise TimeoutError(f"{page} does not finish loading")
            time.sleep(0.02)
        self.ask("new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))")
        return self.visit

    def ask(self, expression: str) -> Any:
        """The value of a JavaScript expression."""
        found = self.send(
            "Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True
        )
        if "exceptionDetails" in found:
            raise RuntimeError(str(found["exceptionDetails"]))
        return found["result"].get("value")

    def pdf(self) -> bytes:
        """The page as it would be printed."""
        return base64.b64decode(self.send("Page.printToPDF")["data"])

    def screenshot(self, path: Path) -> None:
        """The whole page as PNG, to look at."""
        data = self.send("Page.captureScreenshot", captureBeyondViewport=True)["data"]
        path.write_bytes(base64.b64decode(data))
