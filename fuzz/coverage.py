#!/usr/bin/env python3
"""Reads what `cov show` prints and says how many lines of the modules that a target fuzzes were reached.

    cov show --instr-profile P --object O | coverage.py TARGET [--missed]

A line counts where the compiler counts it. Tests inside a file are left out: from a line `mod tests {` on.
"""

import re
import sys

# What each target is for: files, or folders of files, below the repository.
MODULES = {
    "stream": ["crates/wire/src/sse.rs", "crates/wire/src/observe.rs", "crates/wire/src/unasked.rs", "crates/wire/src/usage.rs",
               "crates/wire/src/said.rs", "crates/wire/src/fields.rs"],
    "body": ["crates/wire/src/peek.rs", "crates/wire/src/peek/", "crates/wire/src/fields.rs", "crates/wire/src/estimate.rs",
             "crates/wire/src/error/upstream.rs"],
    "form": ["crates/wire/src/form.rs", "crates/wire/src/form/"],
    "http_request": ["crates/gateway/src/client/connection.rs", "crates/gateway/src/client/preface.rs",
                     "crates/gateway/src/client/presence.rs", "crates/gateway/src/client/socket.rs",
                     "crates/gateway/src/client/encrypted.rs",
                     "crates/gateway/src/exchange/intake.rs", "crates/gateway/src/exchange/body.rs",
                     "crates/gateway/src/exchange/upload.rs", "crates/gateway/src/exchange/headers.rs",
                     "crates/wire/src/api.rs"],
    "http_answer": ["crates/gateway/src/upstream/http1.rs", "crates/gateway/src/upstream/link.rs",
                    "crates/gateway/src/exchange/attempt.rs", "crates/gateway/src/exchange/plan.rs",
                    "crates/gateway/src/exchange/waiting.rs", "crates/gateway/src/exchange/held.rs",
                    "crates/gateway/src/exchange/respond.rs", "crates/gateway/src/exchange/relay.rs",
                    "crates/gateway/src/exchange/guard.rs", "crates/gateway/src/exchange/clocks.rs",
                    "crates/gateway/src/exchange/headers.rs", "crates/wire/src/retry_after.rs"],
    "kv_events": ["crates/wire/src/kv_events/", "crates/wire/src/zmtp.rs"],
    "config": ["crates/config/src/"],
    "scheduler": ["crates/core/src/"],
}

LINE = re.compile(r"^ *(\d+)\| *([0-9.kMGT]*)\|(.*)$")


def files(text):
    """Yields each file with its lines: number, count or None, source."""
    name, lines = None, []
    for line in text:
        found = LINE.match(line.rstrip("\n"))
        if found:
            number, count, source = found.groups()
            lines.append((int(number), count, source))
        elif line.strip().endswith(".rs"):
            if name:
                yield name, lines
            name, lines = line.strip(), []
    if name:
        yield name, lines


def reached(lines):
    """How many of a file's counted lines were reached, how many there are, and those that were not."""
    hit, total, missed = 0, 0, []
    for number, count, source in lines:
        if re.match(r"\s*mod tests \{", source):
            break
        if count:
            total += 1
            if count == "0":
                missed.append(f"{number}:{source}")
            else:
                hit += 1
    return hit, total, missed


def main():
    target, show = sys.argv[1], "--missed" in sys.argv
    hits, totals = 0, 0
    for name, lines in files(sys.stdin):
        wanted = [module for module in MODULES[target] if f"/{module}" in name]
        if not wanted or name.endswith("tests.rs") or "/tests/" in name:
            continue
        hit, total, missed = reached(lines)
        if not total:
            continue
        hits, totals = hits + hit, totals + total
        print(f"{100 * hit / total:6.1f} %  {hit:5} of {total:5}  {name[name.index('crates/'):]}")
        if show:
            print("\n".join(missed))
    print(f"{100 * hits / max(totals, 1):6.1f} %  {hits:5} of {totals:5}  {target}")


main()
