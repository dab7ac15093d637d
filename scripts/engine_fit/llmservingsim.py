"""casys-kaist/LLMServingSim (MIT): runs of vLLM 0.19 of 300 requests on RTX PRO 6000, and kernel times of the models.

1. Kernel times give what an iteration spends in the dense layers: two straight lines over the number of tokens, one
   where reading the weights binds and one where arithmetic binds; the larger holds. Head and sampler give a line over
   the number of sequences.
2. Attention inside a prompt costs its arithmetic at the rate the dense layers reach. No measurement here isolates it,
   so it is derived, not fitted. So is communication: from the link that the run's configuration states.
3. The rest (host time of an iteration, extra time of one that holds prefill, time per context token) is a
   least-squares fit of the 300 measured times from first to last token. Which requests share an iteration depends on
   the coefficients, so replay and fit alternate until they settle.
"""

import csv
import json
import math
import statistics

from . import physics
from .least_squares import line
from .replay import Request, replay, solve_open

RUNS = [
    ("llama-3.1-8b", 1, "RTXPRO6000_Llama-3.1-8B", "RTXPRO6000_meta-llama_Llama-3.1-8B_bf16_tp1"),
    ("qwen3-32b", 2, "RTXPRO6000_Qwen3-32B", "RTXPRO6000_Qwen_Qwen3-32B_bf16_tp1"),
]
GPU = "rtx-pro-6000"
ONCE = ["embedding", "final_layernorm"]
TWICE = ["layernorm"]
IDLE = ["act_fn", "embedding", "final_layernorm", "layernorm", "qk_norm", "rotary_emb"]
MEMORY_BOUND_TOKENS = 128
COMPUTE_BOUND_TOKENS = 512
ROUNDS = 12
OPEN = ["overhead_s", "prefill_s", "per_context_token_s"]


def kernel_times(path, key):
    times = {}
    with open(path, newline="") as file:
        for row in csv.DictReader(file):
            times.setdefault(row["layer"], {})[int(row[key])] = float(row["time_us"]) * 1e-6
    return times


def fit_kernels(folder, model):
    """Lines through the kernel times of a whole model, and the mean relative error of the dense part."""
    dense = kernel_times(f"{folder}_dense.csv", "tokens")
    head = kernel_times(f"{folder}_per_sequence.csv", "sequences")
    times = {name: (1 if name in ONCE else model.layers * (2 if name in TWICE else 1)) for name in dense}
    total = {n: math.fsum(times[k] * dense[k][n] for k in dense) for n in sorted(dense["o_proj"])}
    found = {
        "memory": line([p for p in total.items() if p[0] <= MEMORY_BOUND_TOKENS]),
        "compute": line([p for p in total.items() if p[0] >= COMPUTE_BOUND_TOKENS]),
        "head": line([(n, head["lm_head"][n] + head["sampler"][n]) for n in sorted(head["lm_head"])]),
        "launch_s": statistics.median(dense[k][1] for k in IDLE if k in dense),
    }
    at = lambda l, n: l[0] + l[1] * n
    error = statistics.fmean(
        abs(max(at(found["memory"], n), at(found["compute"], n)) / t - 1) for n, t in total.items()
    )
    return found, error


def load_run(folder):
    with open(folder / "requests.jsonl") as file:
        rows = sorted((json.loads(row) for row in file), key=lambda r: r["queued_ts"])
    start = rows[0]["queued_ts"]
    requests = [
        Request(
            r["queued_ts"] - start,
            r["input_toks"],
            r["output_toks"],
            r["first_token_ts"] - start,
            r["last_token_ts"] - start,
        )
        for r in rows
    ]
    settings = json.loads((folder / "meta.json").read_text())["engine_kwargs"]
    return requests, settings["max_num_seqs"], settings["max_num_batched_tokens"]


def fit_run(run, known):
    """The open terms. `known` holds the others, and the part of `overhead_s` that is known."""
    requests = run[0]
    c = {**known, "overhead_s": known["overhead_s"] + 1e-3, "prefill_s": 0.0, "per_context_token_s": 1e-7}
    for _ in range(ROUNDS):
        done = replay(*run, c)
        c.update(solve_open(OPEN, c, [(r.last - r.first, done[i][4]) for i, r in enumerate(requests)]))
    if min(c.values()) < 0:
        raise SystemExit(f"a coefficient came out negative, the model does not fit this run: {c}")
    return c


def errors(run, c):
    requests = run[0]
    done = replay(*run, c)

    def compare(name, unit, measure):
        ours = measure([(r.queued, done[i][1], done[i][2], r.output) for i, r in enumerate(requests)])
        real = measure([(r.queued, r.first, r.last, r.output) for r in requests])
        scale = 1e3 if unit == "ms" else 1
        return f"{name}: measured {real * scale:.1f} {unit}, replayed {ours * scale:.1f} {unit} ({ours / real - 1:+.1%})"

    each = statistics.fmean(abs((done[i][2] - done[i][1]) / (r.last - r.first) - 1) for i, r in enumerate(requests))
    return [
        compare("time to first token, mean", "ms", lambda x: statistics.fmean(f - q for q, f, _, _ in x)),
        compare("time per output token, mean", "ms", lambda x: statistics.fmean((z - f) / (n - 1) for _, f, z, n in x)),
        compare("makespan", "s", lambda x: max(z for _, _, z, _ in x)),
        f"time from first to last token, mean error of one request: {each:.1%}",
    ]


def fits(calib):
    """One entry per run."""
    gpu, models = physics.gpus()[GPU], physics.models()
    folder = calib / "llmservingsim"
    for name, tp, run_name, profile in RUNS:
        model, run = models[name], load_run(folder / run_name)
        times, kernel_error = fit_kernels(folder / "profile" / profile, model)
        open_terms = {"context": 1.0, "overhead_s": 0.0, "prefill_layer_s": 0.0}
        e = physics.of_kernels(model, gpu, times)
        c = fit_run(run, physics.coefficients(model, gpu, tp, {**e, **open_terms}))
        yield {
            "model": name,
            "gpu": GPU,
            "gpus": tp,
            "source": "casys-kaist/LLMServingSim, vLLM 0.19: a run of 300 requests and kernel times",
            "efficiency": physics.with_run(model, gpu, tp, e, c),
            "coefficients": c,
            "errors": [f"dense layers over 1 to 2,048 tokens, mean error: {kernel_error:.1%}", *errors(run, c)],
        }
