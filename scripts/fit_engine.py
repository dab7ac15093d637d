#!/usr/bin/env python3
"""Fits the engine model's coefficients to a recorded vLLM run and to kernel times of the same GPU.

Data (casys-kaist/LLMServingSim, MIT): a run of vLLM 0.19 with Llama-3.1-8B on one RTX PRO 6000, 300 requests
with their queued, scheduled, first-token and last-token times, and microbenchmarks of the model's kernels.

Method
  1. Kernel times give what an iteration spends in the dense layers: two straight lines over the number of
     tokens, one where reading the weights binds and one where arithmetic binds; the larger holds. The output
     head and the sampler give a line over the number of sequences.
  2. Attention inside a prompt costs its arithmetic at the rate the dense layers reach. No measurement here
     isolates it, so it is derived, not fitted.
  3. The rest (fixed time per iteration, fixed time of an iteration that holds prefill, time per context token
     of the decoding sequences) is a least-squares fit of the 300 measured times from first to last token.
     Which requests share an iteration depends on the coefficients, so replay and fit alternate until they settle.

Usage: scripts/fit_engine.py [--data DIR] [--write]
  DIR defaults to $WEIGHBRIDGE_DATA, else ../shared/data beside the repository. Prints the Rust file; --write puts
  it in its place. Fit errors go to standard error and into the file's head.
"""

import argparse
import csv
import json
import math
import os
import pathlib
import statistics
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
OUTPUT = ROOT / "crates/sim/src/coefficients/llama_3_1_8b_rtx_pro_6000.rs"
RUN = "RTXPRO6000_Llama-3.1-8B"
PROFILE = "RTXPRO6000_meta-llama_Llama-3.1-8B_bf16_tp1"

LAYERS = 32
HIDDEN = 4096
PER_LAYER = ["qkv_proj", "rotary_emb", "o_proj", "gate_up_proj", "act_fn", "down_proj", "layernorm", "layernorm"]
ONCE = ["embedding", "final_layernorm"]
# Multiply-adds of one token through the matrices of one layer: qkv (grouped: 8 of 32 heads), o, gate and up, down.
MATRIX_WEIGHTS = LAYERS * (HIDDEN * (HIDDEN + 2 * 1024) + HIDDEN * HIDDEN + 3 * HIDDEN * 14336)

MEMORY_BOUND_TOKENS = 128
COMPUTE_BOUND_TOKENS = 512
FITTED = ["overhead_s", "prefill_s", "per_context_token_s"]
ROUNDS = 12


def line(points):
    """Intercept and slope by least squares."""
    return solve([[1, x] for x, _ in points], [y for _, y in points])


def solve(rows, values):
    """Least squares by the normal equations and Gauss-Jordan elimination with pivoting. Sums are exact, so that every
    version of Python gives the same result."""
    size = len(rows[0])
    table = [
        [math.fsum(row[i] * row[j] for row in rows) for j in range(size)]
        + [math.fsum(row[i] * v for row, v in zip(rows, values))]
        for i in range(size)
    ]
    for i in range(size):
        pivot = max(range(i, size), key=lambda r: abs(table[r][i]))
        table[i], table[pivot] = table[pivot], table[i]
        for r in range(size):
            if r != i:
                factor = table[r][i] / table[i][i]
                table[r] = [x - factor * y for x, y in zip(table[r], table[i])]
    return [table[i][size] / table[i][i] for i in range(size)]


def kernel_times(path, key):
    times = {}
    with open(path, newline="") as file:
        for row in csv.DictReader(file):
            times.setdefault(row["layer"], {})[int(row[key])] = float(row["time_us"]) * 1e-6
    return times


def fit_kernels(folder):
    """The coefficients that kernel times alone decide, and the mean relative error of the dense part."""
    dense = kernel_times(folder / f"{PROFILE}_dense.csv", "tokens")
    head = kernel_times(folder / f"{PROFILE}_per_sequence.csv", "sequences")
    total = {
        n: math.fsum(dense[k][n] for k in ONCE) + LAYERS * math.fsum(dense[k][n] for k in PER_LAYER)
        for n in sorted(dense["o_proj"])
    }
    memory_s, memory_per_token_s = line([p for p in total.items() if p[0] <= MEMORY_BOUND_TOKENS])
    compute_s, compute_per_token_s = line([p for p in total.items() if p[0] >= COMPUTE_BOUND_TOKENS])
    sampling_s, per_sequence_s = line([(n, head["lm_head"][n] + head["sampler"][n]) for n in sorted(head["lm_head"])])
    fitted = {
        "memory_s": memory_s,
        "memory_per_token_s": memory_per_token_s,
        "compute_s": compute_s,
        "compute_per_token_s": compute_per_token_s,
        "sampling_s": sampling_s,
        "per_sequence_s": per_sequence_s,
        # Scores and weighted sum: two multiply-adds per hidden unit, layer and pair of tokens.
        "per_prefill_pair_s": compute_per_token_s * 2 * HIDDEN * LAYERS / MATRIX_WEIGHTS,
    }
    error = statistics.fmean(
        abs(max(memory_s + memory_per_token_s * n, compute_s + compute_per_token_s * n) / t - 1) for n, t in total.items()
    )
    return fitted, error


def load_run(folder):
    with open(folder / "requests.jsonl") as file:
        requests = sorted((json.loads(row) for row in file), key=lambda r: r["queued_ts"])
    start = requests[0]["queued_ts"]
    for r in requests:
        r["queued"], r["first"], r["last"] = (r[k] - start for k in ("queued_ts", "first_token_ts", "last_token_ts"))
    settings = json.loads((folder / "meta.json").read_text())["engine_kwargs"]
    return requests, settings["max_num_seqs"], settings["max_num_batched_tokens"]


def known_seconds(c, tokens, sequences, pairs):
    """What the kernel times say about an iteration, without the fitted terms."""
    dense = max(c["memory_s"] + c["memory_per_token_s"] * tokens, c["compute_s"] + c["compute_per_token_s"] * tokens)
    return dense + c["sampling_s"] + c["per_sequence_s"] * sequences + c["per_prefill_pair_s"] * pairs


class Sequence:
    def __init__(self, request, at):
        self.prompt, self.output = request["input_toks"], request["output_toks"]
        self.computed, self.generated, self.step = 0, 0, 0
        self.request, self.scheduled = request, at


def replay(requests, max_seqs, max_tokens, c):
    """Continuous batching with chunked prefill and no shortage of cache. Returns, for each request, the times of
    its first and last token and the sums of the fitted terms and of the known seconds between them."""
    now, waiting, running, done = 0.0, 0, [], {}
    sums = [0.0] * (len(FITTED) + 1)
    while len(done) < len(requests):
        if not running and requests[waiting]["queued"] > now:
            now = requests[waiting]["queued"]
        budget = max_tokens
        while waiting < len(requests) and requests[waiting]["queued"] <= now and len(running) < max_seqs:
            running.append(Sequence(requests[waiting], now))
            waiting += 1
        pairs = context = sampled = 0
        prefill = False
        for s in running:
            rest = s.prompt - s.computed
            s.step = min(rest, budget) if rest > 0 else 1
            budget -= s.step
            if rest > 0:
                prefill = prefill or s.step > 0
                pairs += s.step * (s.computed + (s.step + 1) / 2)
            else:
                context += s.computed + 1
            sampled += s.step > 0 and rest <= s.step
        known = known_seconds(c, max_tokens - budget, sampled, pairs)
        terms = [1, prefill, context]
        sums = [a + b for a, b in zip(sums, [*terms, known])]
        now += known + math.fsum(c[name] * x for name, x in zip(FITTED, terms))
        running = [s for s in running if not advance(s, now, sums, done)]
    return done


def advance(s, now, sums, done):
    """Books one iteration's work; says whether the sequence has finished."""
    s.computed += s.step
    if s.step == 0 or s.computed < s.prompt:
        return False
    s.generated += 1
    if s.generated == 1:
        s.first, s.sums = now, sums
    if s.generated < s.output:
        return False
    done[s.request["request_id"]] = (s.first, now, [b - a for a, b in zip(s.sums, sums)])
    return True


def fit_run(run, c):
    requests, max_seqs, max_tokens = run
    c.update({"overhead_s": 1e-3, "prefill_s": 0.0, "per_context_token_s": 1e-7})
    for _ in range(ROUNDS):
        done = replay(requests, max_seqs, max_tokens, c)
        rows, values = [], []
        for r in requests:
            measured, terms = r["last"] - r["first"], done[r["request_id"]][2]
            rows.append([x / measured for x in terms[:-1]])
            values.append((measured - terms[-1]) / measured)
        c.update(zip(FITTED, solve(rows, values)))
    if min(c.values()) < 0:
        sys.exit(f"a coefficient came out negative, the model does not fit this run: {c}")


def errors(run, c):
    requests, max_seqs, max_tokens = run
    done = replay(requests, max_seqs, max_tokens, c)
    rows = [(r, *done[r["request_id"]][:2]) for r in requests]

    def compare(name, unit, scale, measure):
        ours = measure([(r["queued"], first, last, r["output_toks"]) for r, first, last in rows]) * scale
        real = measure([(r["queued"], r["first"], r["last"], r["output_toks"]) for r, _, _ in rows]) * scale
        return f"{name}: measured {real:.1f} {unit}, replayed {ours:.1f} {unit} ({ours / real - 1:+.1%})"

    each = statistics.fmean(abs((last - first) / (r["last"] - r["first"]) - 1) for r, first, last in rows)
    return [
        compare("time to first token, mean", "ms", 1e3, lambda x: statistics.fmean(f - q for q, f, _, _ in x)),
        compare("time per output token, mean", "ms", 1e3, lambda x: statistics.fmean((z - f) / (n - 1) for _, f, z, n in x)),
        compare("makespan", "s", 1, lambda x: max(z for _, _, z, _ in x)),
        f"time from first to last token, mean error of one request: {each:.1%}",
    ]


def rust(c, notes):
    head = "\n".join(f"//! - {note}" for note in notes)
    fields = "\n".join(f"    {name}: {value:.6e}," for name, value in c.items())
    return f"""//! Llama-3.1-8B (bf16) on one RTX PRO 6000. Written by `scripts/fit_engine.py`; do not edit.
//!
//! Source: casys-kaist/LLMServingSim (MIT), a run of vLLM 0.19 of 300 requests and its kernel times. Fit:
//!
{head}

use super::Coefficients;

/// Coefficients of Llama-3.1-8B on one RTX PRO 6000.
pub const LLAMA_3_1_8B_RTX_PRO_6000: Coefficients = Coefficients {{
{fields}
}};
"""


def main():
    parser = argparse.ArgumentParser(description="Fits the engine model's coefficients to a recorded vLLM run.")
    parser.add_argument("--data", default=os.environ.get("WEIGHBRIDGE_DATA", ROOT.parent / "shared/data"))
    parser.add_argument("--write", action="store_true", help="write the Rust file instead of printing it")
    args = parser.parse_args()
    folder = pathlib.Path(args.data) / "calib/llmservingsim"
    if not folder.is_dir():
        sys.exit(f"no calibration data in {folder}; set WEIGHBRIDGE_DATA or give --data")
    run = load_run(folder / RUN)
    coefficients, kernel_error = fit_kernels(folder / "profile")
    fit_run(run, coefficients)
    notes = [f"dense layers over 1 to 2,048 tokens, mean error: {kernel_error:.1%}", *errors(run, coefficients)]
    print("\n".join(notes), file=sys.stderr)
    text = rust(coefficients, notes)
    if args.write:
        OUTPUT.write_text(text)
    else:
        print(text, end="")


if __name__ == "__main__":
    main()
