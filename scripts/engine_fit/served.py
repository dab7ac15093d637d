"""A server measured by scripts/measure_engine.py: fitted from some requests, checked against others.

Nothing is known of the machine, so all is fitted: the time of an iteration, of each token of a prompt, of each
decoding sequence, and of each token of its context.
"""

import json
import statistics

from .replay import Request, replay, solve_open
from .tables import NOTHING

OPEN = ["overhead_s", "compute_per_token_s", "per_sequence_s", "per_context_token_s"]
ROUNDS = 12


def load(path):
    """The measured requests in order of sending, and how many were under way at once."""
    with open(path) as file:
        rows = sorted((json.loads(line) for line in file if line.strip()), key=lambda r: r["sent_s"])
    if not rows:
        raise SystemExit(f"{path}: no requests; write some with scripts/measure_engine.py --out {path}")
    for place, row in enumerate(rows, 1):
        missing = {"sent_s", "first_s", "last_s", "prompt_tokens", "output_tokens", "concurrency"} - row.keys()
        if missing:
            raise SystemExit(f"{path}: request {place} lacks {', '.join(sorted(missing))}")
    start = rows[0]["sent_s"]
    requests = [
        Request(
            r["sent_s"] - start,
            max(1, r["prompt_tokens"] - r.get("cached_tokens", 0)),
            max(1, r["output_tokens"]),
            r["first_s"] - start,
            r["last_s"] - start,
        )
        for r in rows
    ]
    return requests, rows[0]["concurrency"]


def fit(requests, max_seqs, max_tokens):
    """Coefficients from times to first token and from first to last. The first guess is one token every 10 ms."""
    c = {**NOTHING, "overhead_s": 5e-3, "compute_per_token_s": 1e-3, "per_sequence_s": 4e-3}
    for _ in range(ROUNDS):
        done = replay(requests, max_seqs, max_tokens, c)
        measured = [(r.first - r.queued, done[i][3]) for i, r in enumerate(requests)]
        measured += [(r.last - r.first, done[i][4]) for i, r in enumerate(requests) if r.output > 1]
        c.update(solve_open(OPEN, c, [m for m in measured if m[0] > 0], from_zero_up=True))
    return c


def predict(requests, concurrency, sizes, c):
    """Errors of a prediction that knows the requests' sizes and how many are under way, not when each was sent."""
    max_seqs, max_tokens = sizes
    asked = [Request(0.0, r.prompt, r.output) for r in requests]
    done = replay(asked, max_seqs, max_tokens, c, concurrency)
    rows = [
        ("time to first token, mean", "ms", 1e3, lambda f, s, l, n: f - s, statistics.fmean),
        ("time per output token, mean", "ms", 1e3, lambda f, s, l, n: (l - f) / max(1, n - 1), statistics.fmean),
        ("makespan", "s", 1, lambda f, s, l, n: l, max),
    ]
    for name, unit, scale, value, combine in rows:
        ours = combine(value(done[i][1], done[i][0], done[i][2], r.output) for i, r in enumerate(requests))
        real = combine(value(r.first, r.queued, r.last, r.output) for r in requests)
        yield f"{name}: measured {real * scale:.1f} {unit}, predicted {ours * scale:.1f} {unit} ({ours / real - 1:+.1%})"
