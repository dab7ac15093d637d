"""./quickstart as a newcomer runs it: real engines, one of which dies, Ctrl-C; and the ways it goes without them.

    ./test quickstart       builds what is needed and runs this file

Downloads the packages of examples/engine/requirements.txt once, into .cache/test.
"""

import http.client
import json
import os
import re
import signal
import subprocess
import tempfile
import unittest
from pathlib import Path

from processes import program, wait_for

ROOT = Path(__file__).parents[2]
# Two engines on a busy machine with two cores: loading and three chats take seconds, rarely a minute.
UP_WITHIN_S = 300


def hear_interrupts():
    """What runs in the background may have been started deaf to Ctrl-C, which a shell cannot undo for itself."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


class Quickstart:
    """A running ./quickstart in a session of its own, so that Ctrl-C and what it leaves behind can be told apart."""

    def __init__(self, *options, **environment):
        self.folder = tempfile.TemporaryDirectory(prefix="weighbridge-test-")
        self.output = Path(self.folder.name) / "output"
        with self.output.open("wb") as output:
            self.child = subprocess.Popen(
                [str(ROOT / "quickstart"), "--binary", program("weighbridge"), *options], stdin=subprocess.DEVNULL, stdout=output,
                stderr=subprocess.STDOUT, start_new_session=True, preexec_fn=hear_interrupts, env={**os.environ, "WEIGHBRIDGE_CACHE": ".cache/test", **environment})

    def text(self):
        return self.output.read_text(encoding="utf-8", errors="replace")

    def wait_until_it_says(self, text):
        def said():
            if text in self.text():
                return True
            if self.child.poll() is not None:
                raise AssertionError(f"quickstart ended with {self.child.returncode}:\n{self.text()}")
            return False
        try:
            wait_for(f"quickstart says {text!r}", said, UP_WITHIN_S)
        except AssertionError as error:
            raise AssertionError(f"{error}\n{self.text()}") from None

    def end(self):
        """Waits for the end and gives back the exit code."""
        return self.child.wait(timeout=UP_WITHIN_S)

    def processes(self):
        """What runs in its session, itself included, as lines of `ps`."""
        listing = subprocess.run(["ps", "-A", "-o", "sess=,pid=,stat=,args="], check=True, capture_output=True, text=True).stdout
        rows = [line.split(None, 3) for line in listing.splitlines()]
        return [" ".join(row[1:]) for row in rows if row[0] == str(self.child.pid) and not row[2].startswith("Z")]

    def clean_up(self):
        if self.child.poll() is None:
            self.child.terminate()
            try:
                self.child.wait(timeout=30)
            except subprocess.TimeoutExpired:
                os.killpg(self.child.pid, signal.SIGKILL)
                self.child.wait()
        self.folder.cleanup()


class QuickstartTest(unittest.TestCase):
    def start(self, *options, **environment):
        run = Quickstart(*options, **environment)
        self.addCleanup(run.clean_up)
        return run

    def chat(self, port, session):
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=120)
        try:
            connection.request("POST", "/v1/chat/completions", json.dumps({
                "model": "smollm2", "max_tokens": 4, "messages": [{"role": "user", "content": "Write one sentence about rain."}]}),
                {"content-type": "application/json", "x-session-id": session})
            answer = connection.getresponse()
            return answer.status, answer.headers["x-weighbridge-endpoint"], answer.read()
        finally:
            connection.close()

    def assert_nothing_is_left(self, run):
        wait_for("everything it started has ended", lambda: not run.processes(), 10)

    def test_two_engines_one_dies_and_the_other_answers(self):
        run = self.start("--own-engines")
        run.wait_until_it_says("Ctrl-C stops everything")
        text = run.text()

        answers = re.findall(r"^  answer +(\S.*)$", text, re.M)
        self.assertEqual(len(answers), 3, text)
        served = re.findall(r"^  served by pool smollm2, engine ([ab]), attempts 1$", text, re.M)
        self.assertEqual(len(served), 3, text)
        self.assertEqual(served[0], served[1], "two chats of one session went to two engines")
        self.assertEqual(len(re.findall(r"^  why +smollm2/[ab] was chosen by policy among 2 live of 2 candidates$", text, re.M)), 3, text)
        self.assertIn("session_affinity", text)

        port = int(re.search(r"^Weighbridge is ready on port (\d+)", text, re.M).group(1))
        victim = int(re.search(r"^smol-a is ready on port \d+ \(process (\d+)\)", text, re.M).group(1))
        os.kill(victim, signal.SIGKILL)
        # Eight sessions, so that the dead engine is the first choice of some.
        for session in range(8):
            status, endpoint, body = self.chat(port, f"session {session}")
            self.assertEqual((status, endpoint), (200, "b"), body)

        os.killpg(run.child.pid, signal.SIGINT)  # what Ctrl-C in a terminal does
        self.assertEqual(run.end(), 0, run.text())
        self.assert_nothing_is_left(run)

    def test_simulated_engines(self):
        run = self.start("--simulated")
        run.wait_until_it_says("Simulated engines are up")
        run.child.terminate()
        self.assertEqual(run.end(), 143, run.text())
        self.assert_nothing_is_left(run)

    def assert_demo_instead(self, run, because):
        self.assertEqual(run.end(), 0, run.text())
        self.assertRegex(run.text(), because)
        self.assertIn("The engines that follow are simulated.", run.text())
        self.assert_nothing_is_left(run)

    def test_without_python_it_says_so_and_simulates(self):
        with tempfile.TemporaryDirectory() as folder:
            for name in ["python3", *(f"python3.{minor}" for minor in range(10, 15))]:
                stub = Path(folder) / name
                stub.write_text("#!/bin/sh\nexit 1\n")
                stub.chmod(0o755)
            run = self.start("--own-engines", "--exit-after-checks", PATH=f"{folder}:{os.environ['PATH']}")
            self.assert_demo_instead(run, "there is no Python 3.10 or newer")

    def test_offline_it_says_so_and_simulates(self):
        with tempfile.TemporaryDirectory() as folder:
            run = self.start("--own-engines", "--exit-after-checks", WEIGHBRIDGE_CACHE=folder, PIP_INDEX_URL="http://127.0.0.1:9/",
                             PIP_EXTRA_INDEX_URL="", PIP_FIND_LINKS="", PIP_RETRIES="0", PIP_NO_CACHE_DIR="1")
            self.assert_demo_instead(run, "pip could not install")

    def test_wrong_options_end_with_2(self):
        for options, complaint in [(["--prot", "1"], "unknown option --prot"), (["--port", "x"], "a number from 1"),
                                   (["--port"], "--port needs a value"), (["--binary", "/nonesuch"], "/nonesuch is not a program")]:
            with self.subTest(options=options):
                run = self.start(*options)
                self.assertEqual(run.end(), 2, run.text())
                self.assertIn(complaint, run.text())


if __name__ == "__main__":
    unittest.main()
