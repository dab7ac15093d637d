"""The page of `weighbridge simulate --html`, in headless Chromium: whole, readable, light and dark, wide and narrow."""

import html
import json
import os
import re
import subprocess
import tempfile
import unittest
from pathlib import Path

from processes import program

HERE = Path(__file__).parent
CHROMIUM = os.environ.get("CHROMIUM", "chromium")
RENDERED_WITHIN_S = 120

# Added to a copy of the page: measures the boxes of all texts and writes what it found into the document.
PROBE = (HERE / "report_probe.js").read_text(encoding="utf-8")


def simulate(folder, *options):
    """One run of the command; gives back the page's path and the text on standard output."""
    page = Path(folder) / "report.html"
    command = [program("weighbridge"), "simulate", "--html", str(page), *options]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, cwd=folder)
    if done.returncode != 0:
        raise AssertionError(f"{' '.join(command)} ended with {done.returncode}:\n{done.stderr}")
    return page, done.stdout


def browse(page, width, dark, *more):
    """Runs Chromium on the page; gives back its standard output and error."""
    with tempfile.TemporaryDirectory(prefix="weighbridge-chromium-") as profile:
        command = [
            CHROMIUM, "--headless=new", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--disable-extensions",
            f"--user-data-dir={profile}", f"--window-size={width},1000", "--enable-logging=stderr",
            f"--blink-settings=preferredColorScheme={0 if dark else 1}", *more, page.as_uri(),
        ]
        done = subprocess.run(command, capture_output=True, text=True, timeout=RENDERED_WITHIN_S)
    if done.returncode != 0:
        raise AssertionError(f"{CHROMIUM} ended with {done.returncode}:\n{done.stderr}")
    return done.stdout, done.stderr


# Chromium's windows are at least 500 px wide, so the page is shown in a frame; what its probe finds goes into this document.
FRAME = """<!doctype html><meta charset="utf-8"><body style="margin:0"><iframe width="{width}" height="1000" style="border:0"
srcdoc="{page}"></iframe><script>addEventListener("message", (event) => {{
const result = document.createElement("script"); result.id = "probe-result"; result.type = "application/json";
result.textContent = JSON.stringify(event.data).replace(/</g, "\\u003c"); document.body.appendChild(result); }});</script>"""


def measure(page, width, dark):
    """What the probe finds in the page at this width, and what was written to the console."""
    probed = page.read_text(encoding="utf-8").replace("</body>", f"<script>{PROBE}</script></body>")
    frame = page.with_name("frame.html")
    frame.write_text(FRAME.format(width=width, page=html.escape(probed)), encoding="utf-8")
    dom, errors = browse(frame, width, dark, "--virtual-time-budget=5000", "--dump-dom")
    found = re.search(r'<script id="probe-result" type="application/json">(.*?)</script>', dom, re.DOTALL)
    if not found:
        raise AssertionError(f"the probe did not run:\n{errors[-2000:]}")
    console = [line for line in errors.splitlines() if "CONSOLE" in line]
    return json.loads(found.group(1)), console


class Report(unittest.TestCase):
    """`weighbridge simulate` without any option but where the page goes, as a newcomer runs it."""

    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory(prefix="weighbridge-report-")
        cls.page, cls.text = simulate(cls.folder.name)

    @classmethod
    def tearDownClass(cls):
        cls.folder.cleanup()

    def check(self, page, width, dark):
        found, console = measure(page, width, dark)
        self.assertEqual(console, [], "nothing is written to the console")
        self.assertEqual(found["width"], width)
        self.assertEqual(found["problems"], [], f"{width} px, {'dark' if dark else 'light'}")
        self.assertGreater(found["texts"], 100, "the texts were looked at")
        self.assertEqual(found["dark"], dark)
        return found

    def test_readable_at_every_width_and_in_both_schemes(self):
        for width in (1280, 390):
            for dark in (False, True):
                with self.subTest(width=width, dark=dark):
                    self.check(self.page, width, dark)

    def test_a_large_fleet_with_faults_and_seeds_is_readable_too(self):
        with tempfile.TemporaryDirectory(prefix="weighbridge-report-") as folder:
            options = ["--endpoints", "30", "--seeds", "2", "--first", "300", "--fault", "die:gpus/e1@20s+30s", "--slo", "ttft_p95=1s"]
            page, _ = simulate(folder, *options)
            self.check(page, 1280, False)
            self.check(page, 390, True)
            self.assertIn("30 endpoints", page.read_text(encoding="utf-8"))

    def test_the_page_says_what_a_newcomer_needs(self):
        page = self.page.read_text(encoding="utf-8")
        self.assertLess(len(page), 1_000_000)
        for text in ("round robin", "least in flight", "session affinity", "What the figures mean", "Goodput", "shop"):
            self.assertIn(text, page)
        # The table on the terminal says the same.
        for text in ("round robin", "session affinity", "goodput", "hit ratio", "GPU-seconds", "One seed"):
            self.assertIn(text, self.text)
        self.assertLessEqual(max(len(line) for line in self.text.splitlines() if "report.html" not in line), 100)

    def test_it_can_be_printed(self):
        with tempfile.TemporaryDirectory(prefix="weighbridge-report-") as folder:
            pdf = Path(folder) / "report.pdf"
            browse(self.page, 1280, False, "--no-pdf-header-footer", f"--print-to-pdf={pdf}")
            self.assertGreater(pdf.stat().st_size, 10_000)


if __name__ == "__main__":
    unittest.main()
