"""The processes under test: the scriptable upstream of `test-engine`, and `weighbridge serve`."""

import json
import os
import subprocess
import tempfile
import time
import urllib.request
from pathlib import Path

START_WITHIN_S = 20
POLL_S = 0.01


def program(name):
    """A program of this repository, built before the tests by ./test."""
    folder = os.environ.get("WEIGHBRIDGE_PROGRAMS")
    path = Path(folder or Path(__file__).parents[2] / "target" / "debug") / name
    if not path.is_file():
        raise FileNotFoundError(f"{path} is missing: run ./test, or build it and set WEIGHBRIDGE_PROGRAMS to its folder")
    return str(path)


def wait_for(what, condition, within_s=START_WITHIN_S):
    """Asks until the condition holds and gives back its value."""
    deadline = time.monotonic() + within_s
    while True:
        value = condition()
        if value:
            return value
        if time.monotonic() >= deadline:
            raise AssertionError(f"not within {within_s} s: {what}")
        time.sleep(POLL_S)


class Process:
    """A child process with its output in a folder of its own; ends with the `with` block."""

    def __init__(self, *command):
        self.folder = tempfile.TemporaryDirectory(prefix="weighbridge-test-")
        self.output = Path(self.folder.name) / "output"
        with self.output.open("wb") as output:
            self.child = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT)

    def text(self):
        return self.output.read_text(encoding="utf-8", errors="replace")

    def require_alive(self):
        if self.child.poll() is not None:
            raise AssertionError(f"{self.child.args[0]} ended with {self.child.returncode}:\n{self.text()}")

    def stop(self):
        self.child.terminate()
        try:
            self.child.wait(timeout=10)
        except subprocess.TimeoutExpired:
            self.child.kill()
            self.child.wait()
        self.folder.cleanup()


class Upstream:
    """One port of the scriptable upstream."""

    def __init__(self, name, url):
        self.name, self.url = name, url

    def ask(self, path, body=None):
        data = None if body is None else json.dumps(body).encode()
        with urllib.request.urlopen(urllib.request.Request(self.url + path, data=data), timeout=10) as answer:
            return json.load(answer)

    def log(self):
        return self.ask("/__log")

    def in_flight(self):
        return self.ask("/__stats")["in_flight"]

    def reset(self):
        self.ask("/__reset", {})


class Upstreams(Process):
    """A process with one upstream per name, each on a free port."""

    def __init__(self, *names):
        super().__init__(program("test-engine"), "upstream", "--ports", ",".join("0" for _ in names), "--names", ",".join(names))
        try:
            lines = wait_for("the upstreams listen", lambda: self.lines(len(names)))
            self.all = [Upstream(*line.split()) for line in lines]
        except BaseException:
            self.stop()
            raise

    def lines(self, count):
        self.require_alive()
        lines = self.text().splitlines()
        return lines if len(lines) == count and self.text().endswith("\n") else None


class Gateway(Process):
    """`weighbridge serve` on a config that listens on port 0."""

    def __init__(self, config):
        with tempfile.NamedTemporaryFile("w", suffix=".yaml", delete=False) as file:
            file.write(config)
        self.config = Path(file.name)
        self.ready_file = self.config.with_suffix(".ready.json")
        super().__init__(program("weighbridge"), "serve", "--config", str(self.config), "--ready-file", str(self.ready_file))
        try:
            self.url = "http://" + wait_for("the gateway is ready", self.ready)["listen"]
        except BaseException:
            self.stop()
            raise

    def ready(self):
        self.require_alive()
        try:
            return json.loads(self.ready_file.read_text(encoding="utf-8"))
        except (FileNotFoundError, ValueError):
            return None

    def stop(self):
        super().stop()
        self.config.unlink(missing_ok=True)
        self.ready_file.unlink(missing_ok=True)
