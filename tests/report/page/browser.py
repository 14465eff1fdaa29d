"""A page in headless Chromium, driven over its DevTools protocol.

The browser is one process a test session; messages are JSON with a NUL behind each, on a pair of pipes.
"""

import json
import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.requirements import CHROMIUM

AXE = Path(__file__).parent / "axe-core" / "axe.min.js"
DEADLINE_S = 120


class Browser:
    """Headless Chromium."""

    def __init__(self) -> None:
        program = next(found for name in CHROMIUM if (found := shutil.which(name)))
        self._profile = tempfile.TemporaryDirectory(prefix="chromium-", ignore_cleanup_errors=True)
        their_input, self._output = os.pipe()
        self._input, their_output = os.pipe()
        self._process = subprocess.Popen(
            [
                "bash",  # sh knows only descriptors of one digit
                "-c",
                f'exec "$0" "$@" 3<&{their_input} 4>&{their_output}',
                program,
                "--headless",
                "--no-sandbox",
                "--disable-gpu",
                "--disable-dev-shm-usage",
                f"--user-data-dir={self._profile.name}",
                "--remote-debugging-pipe",
            ],
            pass_fds=(their_input, their_output),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        os.close(their_input)
        os.close(their_output)
        self._messages = self._read()
        self._number = 0
        self.events: list[dict[str, Any]] = []

    def close(self) -> None:
        """End the process."""
        self._process.kill()
        self._process.wait()
        os.close(self._output)
        os.close(self._input)
        self._profile.cleanup()

    def call(self, method: str, session: str | None = None, **parameters: Any) -> dict[str, Any]:
        """A command's result; events that come before it are kept in ``events``."""
        self._number += 1
        message = {"id": self._number, "method": method, "params": parameters}
        if session:
            message["sessionId"] = session
        os.write(self._output, json.dumps(message).encode() + b"\0")
        for answer in self._messages:
            if answer.get("id") == self._number:
                assert "error" not in answer, f"{method}: {answer['error']}"
                return answer["result"]
            self.events.append(answer)
        raise AssertionError(f"Chromium ended during {method}")

    @contextmanager
    def page(self, file: Path, width: int = 1000, height: int = 900, dark: bool = False) -> Iterator["Tab"]:
        """A file in a tab of its own."""
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        tab = Tab(self, session)
        try:
            for domain in ("Page", "Runtime", "Log", "Network"):
                tab.call(f"{domain}.enable")
            tab.resize(width, height)
            scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
            tab.call("Emulation.setEmulatedMedia", features=[scheme])
            tab.call("Page.navigate", url=file.as_uri())
            tab.wait_for("document.readyState === 'complete' && location.protocol === 'file:'")
            yield tab
        finally:
            self.call("Target.closeTarget", targetId=target)

    def _read(self) -> Iterator[dict[str, Any]]:
        rest = b""
        while piece := os.read(self._input, 1 << 20):
            *whole, rest = (rest + piece).split(b"\0")
            yield from map(json.loads, whole)


class Tab:
    """One page."""

    def __init__(self, browser: Browser, session: str) -> None:
        self._browser, self._session = browser, session

    def call(self, method: str, **parameters: Any) -> dict[str, Any]:
        """A command's result."""
        return self._browser.call(method, self._session, **parameters)

    def resize(self, width: int, height: int = 900) -> None:
        """Another size of the window, in CSS pixels."""
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=False)

    def evaluate(self, script: str) -> Any:
        """What JavaScript gives, promises awaited; not subject to the page's security policy."""
        answer = self.call("Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in answer, answer["exceptionDetails"]
        return answer["result"].get("value")

    def wait_for(self, condition: str) -> None:
        """Until a JavaScript expression holds."""
        end = time.monotonic() + DEADLINE_S
        while not self.evaluate(condition):
            assert time.monotonic() < end, f"never held: {condition}"
            time.sleep(0.02)

    def complaints(self) -> list[str]:
        """Errors and warnings on the console: exceptions, refused fetches, violations of the security policy."""
        self.evaluate("0")  # what came before has arrived then
        found = []
        for event in self._browser.events:
            if event.get("sessionId") != self._session:
                continue
            values = event["params"]
            match event["method"]:
                case "Runtime.exceptionThrown":
                    found.append(str(values["exceptionDetails"]))
                case "Runtime.consoleAPICalled" if values["type"] in ("error", "warning", "assert"):
                    found.append(str(values["args"]))
                case "Log.entryAdded" if values["entry"]["level"] in ("error", "warning"):
                    found.append(values["entry"]["text"])
                case "Page.javascriptDialogOpening":
                    found.append(f"dialog: {values['message']}")
        return found

    def requests(self) -> list[str]:
        """The addresses that were fetched, the page's own left out."""
        sent = [
            event["params"]["request"]["url"]
            for event in self._browser.events
            if event["method"] == "Network.requestWillBeSent" and event.get("sessionId") == self._session
        ]
        return sent[1:]

    def violations(self) -> list[str]:
        """What axe-core finds against accessibility, by rule and element."""
        self.evaluate(AXE.read_text(encoding="utf-8") + "\n;0")
        found = self.evaluate("axe.run(document, {resultTypes: ['violations']}).then((found) => found.violations)")
        return [
            f"{rule['id']}: {node['html'][:200]} {node['failureSummary']}" for rule in found for node in rule["nodes"]
        ]
