"""A server measured by scripts/measure_engine.py: fitted from some requests, checked against others.

Nothing is known of the machine, so all is fitted: the time of an iteration, of each token of a prompt, of each
decoding sequence, and of each token of its context.
"""

import json
import math
import statistics

from .replay import Request, replay
from .tables import NOTHING

OPEN = ["overhead_s", "compute_per_token_s", "per_sequence_s", "per_context_token_s"]
STEPS = 200
KEYS = {"sent_s", "first_s", "last_s", "prompt_tokens", "output_tokens", "concurrency"}


def load(path):
    """The measured requests in order of sending, and how many were under way at once."""
    try:
        with open(path) as file:
            lines = [line for line in file if line.strip()]
    except OSError as e:
        raise SystemExit(f"{path}: {e.strerror}; scripts/measure_engine.py --out {path} writes it") from None
    if not lines:
        raise SystemExit(f"{path}: no requests; write some with scripts/measure_engine.py --out {path}")
    rows = []
    for place, line in enumerate(lines, 1):
        try:
            row = json.loads(line)
            lacking = KEYS - row.keys()
        except (ValueError, AttributeError) as e:
            raise SystemExit(f"{path}: request {place} is no JSON object: {e}") from None
        if lacking:
            raise SystemExit(f"{path}: request {place} lacks {', '.join(sorted(lacking))}")
        rows.append(row)
    rows.sort(key=lambda r: r["sent_s"])
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


def simulate(requests, loop, sizes, c):
    """Times of requests that a closed loop of clients sends: when each was sent, its first and its last token. The
    first come when they came or, to a server that takes a while until it looks at a request, `together`; each of the
    others when one ends."""
    concurrency, together = loop
    begun = [r.queued for r in requests[:concurrency]]
    if together:
        begun = [max(begun)] * len(begun)
    asked = [Request(begun[i] if i < concurrency else 0.0, r.prompt, r.output) for i, r in enumerate(requests)]
    done = replay(asked, *sizes, c, concurrency)
    return [done[i][:3] for i in range(len(requests))]


def distance(requests, loop, sizes, c):
    """Squared relative errors of times to first token, from first to last, and of the whole, which weighs as much as
    a tenth of the others."""
    total, ours = 0.0, simulate(requests, loop, sizes, c)
    for r, (sent, first, last) in zip(requests, ours):
        total += math.log((first - sent) / (r.first - r.queued)) ** 2
        if r.output > 1 and r.last > r.first:
            total += math.log((last - first) / (r.last - r.first)) ** 2
    whole = math.log(max(x[2] for x in ours) / max(r.last for r in requests))
    return total + 0.2 * len(requests) * whole**2


def fit(requests, concurrency, sizes):
    """Coefficients by the simplex search of Nelder and Mead (1965) over their logarithms, and whether the first requests
    count as one batch, whichever fits better."""

    def coefficients(point):
        # Less than a nanosecond is nothing.
        found = {name: math.exp(min(x, 5.0)) for name, x in zip(OPEN, point)}
        return {**NOTHING, **{name: x for name, x in found.items() if x >= 1e-9}}

    def found(together):
        def value(point):
            return distance(requests, (concurrency, together), sizes, coefficients(point))

        point = nelder_mead(value, start)
        return value(point), coefficients(point), together

    # From a token in 20 ms and a prompt of 1,000 tokens a second.
    start = [math.log(x) for x in (10e-3, 1e-3, 2e-3, 1e-6)]
    return min(map(found, (False, True)), key=lambda f: f[0])[1:]


def nelder_mead(value, start):
    """The point with the least value that a simplex of width 1 finds from `start`, starting over from what it finds
    until that gains nothing."""
    best = math.inf
    while True:
        points = [start] + [[x + (i == j) for j, x in enumerate(start)] for i in range(len(start))]
        simplex = sorted((value(p), p) for p in points)
        for _ in range(STEPS):
            simplex = step(value, simplex)
        if simplex[0][0] > 0.999 * best:
            return simplex[0][1]
        best, start = simplex[0]


def step(value, simplex):
    """Reflects the worst corner through the others' middle, farther or nearer as that pays; else draws all together."""
    *others, (worst, corner) = simplex
    middle = [sum(p[i] for _, p in others) / len(others) for i in range(len(corner))]

    def along(factor):
        point = [m + factor * (m - x) for m, x in zip(middle, corner)]
        return value(point), point

    tried = along(1.0)
    if tried < simplex[0]:
        tried = min(tried, along(2.0))
    elif tried >= others[-1]:
        tried = along(0.5 if tried[0] < worst else -0.5)
    if tried[0] < worst:
        return sorted([*others, tried])
    least = simplex[0][1]
    near = [[(x + y) / 2 for x, y in zip(p, least)] for _, p in simplex[1:]]
    return sorted([simplex[0], *((value(p), p) for p in near)])


def predict(requests, loop, sizes, c):
    """Errors of a prediction that knows the requests' sizes and how many are under way, not when each was sent."""
    ours_all = simulate(requests, loop, sizes, c)
    rows = [
        ("time to first token, mean", "ms", 1e3, lambda f, s, l, n: f - s, statistics.fmean),
        ("time per output token, mean", "ms", 1e3, lambda f, s, l, n: (l - f) / max(1, n - 1), statistics.fmean),
        ("makespan", "s", 1, lambda f, s, l, n: l, max),
    ]
    for name, unit, scale, value, combine in rows:
        ours = combine(value(first, sent, last, r.output) for r, (sent, first, last) in zip(requests, ours_all))
        real = combine(value(r.first, r.queued, r.last, r.output) for r in requests)
        yield f"{name}: measured {real * scale:.1f} {unit}, predicted {ours * scale:.1f} {unit} ({ours / real - 1:+.1%})"
