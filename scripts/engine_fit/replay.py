"""A replay of measured requests by the engine model, that says what each spent its time on."""

import math

from .least_squares import solve


# From the last token of a request to the arrival of the next, in a closed loop.
TURNAROUND_S = 1e-4


class Request:
    """One measured request: arrival in seconds since the first, tokens, and seconds of its first and last token."""

    def __init__(self, queued, prompt, output, first=None, last=None):
        self.queued, self.prompt, self.output, self.first, self.last = queued, prompt, output, first, last


class Sequence:
    def __init__(self, index, request):
        self.index, self.prompt, self.output = index, request.prompt, request.output
        self.computed, self.generated, self.step = 0, 0, 0


# What a replay counts: iterations, those that hold prefill, context tokens of decoding sequences, tokens of
# iterations that arithmetic binds, and sequences that get a token. Each has its coefficient; everything else of an
# iteration is one more sum.
TERMS = ["overhead_s", "prefill_s", "per_context_token_s", "compute_per_token_s", "per_sequence_s"]


def iteration_terms(c, tokens, pairs):
    """Tokens that arithmetic binds, and seconds that none of [`TERMS`] counts: the weights' reading or the start of
    arithmetic, the head, attention inside prompts."""
    memory = c["memory_s"] + c["memory_per_token_s"] * tokens
    binds = c["compute_s"] + c["compute_per_token_s"] * tokens > memory
    rest = c["sampling_s"] + c["per_prefill_pair_s"] * pairs
    return (tokens, c["compute_s"] + rest) if binds else (0, memory + rest)


def solve_open(open_terms, c, measured):
    """The `open_terms` among [`TERMS`] by least squares of relative errors; `measured`: seconds with their sums."""
    rows, values = [], []
    for seconds, sums in measured:
        fixed = sums[-1] + math.fsum(c[name] * x for name, x in zip(TERMS, sums) if name not in open_terms)
        rows.append([x / seconds for name, x in zip(TERMS, sums) if name in open_terms])
        values.append((seconds - fixed) / seconds)
    return dict(zip((name for name in TERMS if name in open_terms), solve(rows, values)))


def replay(requests, max_seqs, max_tokens, c, concurrency=None):
    """Continuous batching with chunked prefill and no shortage of cache. At most `concurrency` requests are under way;
    others wait at the client, and are sent when one ends. Returns per request: when it was sent, its first and last
    token, and the sums of [`TERMS`] and of the known seconds from sending to first and from first to last token."""
    now, next_up, running, done, waiting = 0.0, 0, [], {}, []
    sums = [0.0] * (len(TERMS) + 1)
    sent = {}
    full = False
    while len(done) < len(requests):
        if not running:
            now = max(now, sent[waiting[0]][0] if waiting else requests[next_up].queued)
        while (
            next_up < len(requests)
            and requests[next_up].queued <= now
            and (concurrency is None or len(sent) - len(done) < concurrency)
        ):
            # Nobody makes room during an iteration, only at its end; the next has begun when a client has answered.
            sent[next_up] = (now + TURNAROUND_S if full else requests[next_up].queued, sums)
            waiting.append(next_up)
            next_up += 1
        full = concurrency is not None and len(sent) - len(done) >= concurrency
        budget = max_tokens
        decoding = sum(1 for s in running if s.computed >= s.prompt)
        while waiting and sent[waiting[0]][0] <= now and len(running) < max_seqs and budget > decoding:
            running.append(Sequence(waiting[0], requests[waiting.pop(0)]))
            budget -= min(running[-1].prompt, budget)
        now, sums = iterate(running, max_tokens, c, (now, sums))
        running = [s for s in running if not advance(s, now, sums, (sent, done))]
    return done


def iterate(running, max_tokens, c, state):
    """One iteration; the new time and sums."""
    now, sums = state
    budget, pairs, context, sampled, prefill = max_tokens, 0, 0, 0, False
    for s in running:
        rest = s.prompt - s.computed
        s.step = min(rest if rest > 0 else 1, budget)
        budget -= s.step
        if rest > 0:
            prefill = prefill or s.step > 0
            pairs += s.step * (s.computed + (s.step + 1) / 2)
        else:
            context += s.computed + 1
        sampled += s.step > 0 and rest <= s.step
    bound, known = iteration_terms(c, max_tokens - budget, pairs)
    terms = [1, prefill, context, bound, sampled]
    now += known + math.fsum(c[name] * x for name, x in zip(TERMS, terms))
    return now, [a + b for a, b in zip(sums, [*terms, known])]


def advance(s, now, sums, books):
    """Books one iteration's work; says whether the sequence has finished."""
    sent, done = books
    s.computed += s.step
    if s.step == 0 or s.computed < s.prompt:
        return False
    s.generated += 1
    if s.generated == 1:
        s.first, s.sums = now, sums
    if s.generated < s.output:
        return False
    at, before = sent[s.index]
    done[s.index] = (
        at,
        s.first,
        now,
        [b - a for a, b in zip(before, s.sums)],
        [b - a for a, b in zip(s.sums, sums)],
    )
    return True
