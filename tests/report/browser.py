"""Headless Chromium, controlled over a pipe in its DevTools protocol, which needs no further package."""

import json
import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

PROGRAMS = ("chromium", "chromium-browser", "google-chrome", "chrome")


def browser_program() -> str | None:
    """The path of a Chromium, if there is one."""
    return next((found for name in PROGRAMS if (found := shutil.which(name))), None)


class Browser:
    """One window. Raises RuntimeError if the browser refuses a command, or is gone."""

    def __init__(self, program: str, profile: Path) -> None:
        read, self._write = os.pipe()
        self._read, write = os.pipe()
        options = (
            "--headless --no-sandbox --disable-gpu --hide-scrollbars --no-first-run --remote-debugging-pipe"
        )
        command = f'exec "$0" {options} --user-data-dir="$1" 3<&{read} 4>&{write}'
        self._process = subprocess.Popen(
            ["bash", "-c", command, program, profile],
            pass_fds=(read, write),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        os.close(read)
        os.close(write)
        self._rest, self._sent, self._session = b"", 0, ""
        target = self.tell("Target.createTarget", url="about:blank")["targetId"]
        self._session = self.tell("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        self.tell("Page.enable")

    def tell(self, method: str, **parameters: Any) -> dict[str, Any]:
        """Its answer to a command."""
        self._sent += 1
        session = {"sessionId": self._session} if self._session else {}
        message = {"id": self._sent, "method": method, "params": parameters, **session}
        os.write(self._write, json.dumps(message).encode() + b"\0")
        while (answer := self._next()).get("id") != self._sent:
            pass
        if "error" in answer:
            raise RuntimeError(f"{method}: {answer['error']}")
        result: dict[str, Any] = answer["result"]
        return result

    def open(self, page: Path, width: int, scheme: str) -> None:
        """Show a page of that width in a light or dark scheme, and wait until everything is loaded."""
        size = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": False}
        self.tell("Emulation.setDeviceMetricsOverride", **size)
        features = [{"name": "prefers-color-scheme", "value": scheme}]
        self.tell("Emulation.setEmulatedMedia", features=features)
        self.tell("Page.navigate", url=page.as_uri())
        while self._next().get("method") != "Page.loadEventFired":
            pass

    def evaluate(self, expression: str) -> Any:
        """The value of an expression on the page, after waiting for it if it is a promise."""
        found = self.tell(
            "Runtime.evaluate", expression=expression, awaitPromise=True, returnByValue=True, timeout=60_000
        )
        if "exceptionDetails" in found:
            raise RuntimeError(str(found["exceptionDetails"]))
        return found["result"].get("value")

    def press(self, key: str, text: str = "") -> None:
        """Press and release a key."""
        code = {"Tab": 9, "Enter": 13}[key]
        about = {"key": key, "code": key, "windowsVirtualKeyCode": code}
        self.tell("Input.dispatchKeyEvent", type="keyDown", text=text, **about)
        self.tell("Input.dispatchKeyEvent", type="keyUp", **about)

    def close(self) -> None:
        """End the browser."""
        self._process.kill()
        self._process.wait()
        os.close(self._write)
        os.close(self._read)

    def _next(self) -> dict[str, Any]:
        while b"\0" not in self._rest:
            if not (read := os.read(self._read, 1 << 16)):
                raise RuntimeError("the browser is gone")
            self._rest += read
        message, _, self._rest = self._rest.partition(b"\0")
        found: dict[str, Any] = json.loads(message)
        return found
