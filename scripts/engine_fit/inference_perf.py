"""kubernetes-sigs/inference-perf (Apache-2.0): vLLM 0.11 with Llama-3-8B on one H100, seven rates for a minute each.

The stages' files hold means, not requests. The fit takes the efficiencies of the LLMServingSim run for everything that
H100's data sheet scales, and finds the host's time and the rate of arithmetic from the three lowest rates. Prefill
costs nothing extra: iterations here stay below the 512 tokens that vLLM captures CUDA graphs for, or nearly. The
others, among them the knee, are predicted; all of the second run, with more sequences, is by crates/sim/tests/knee.rs.

The tool counts each token twice in `time_per_output_token`, so time per token comes from latency and time to first
token. Prompts share beginnings, but the server ran without a prefix cache.
"""

import json
import math
import random
import statistics

from . import physics
from .replay import TERMS, Request, replay, solve_open

MODEL, GPU = "llama-3-8b", "h100"
RUN, MAX_SEQS = "vllm", 128
FITTED_STAGES = 3
# Of each of them, which is enough and quicker.
FITTED_SHARE = 0.5
CONCURRENCY = 44 * 10
OUTPUT = 64
BATCHED_TOKENS = 8192
ROUNDS = 10
OPEN = ["overhead_s", "compute_per_token_s"]


def load(calib, run):
    """Per stage: rate, requests, prompt tokens, and mean seconds to the first and from first to last token."""
    stages = []
    for path in sorted((calib / "inference-perf" / run).glob("stage_*_lifecycle_metrics.json")):
        stage = json.loads(path.read_text())
        done, latency = stage["successes"], stage["successes"]["latency"]
        first = latency["time_to_first_token"]["mean"]
        stages.append(
            {
                "rate": stage["load_summary"]["requested_rate"],
                "count": stage["load_summary"]["count"],
                "prompt": round(done["prompt_len"]["mean"]),
                "first": first,
                "decode": latency["request_latency"]["mean"] - first,
                "throughput": done["throughput"]["requests_per_sec"],
            }
        )
    return stages


def arrivals(stage, share):
    """A share of the stage's requests, at random times over that share of its minute; random is what the tool sends."""
    draw = random.Random(1)
    gaps = [-math.log(1 - draw.random()) for _ in range(int(stage["count"] * share))]
    scale = len(gaps) / stage["rate"] / math.fsum(gaps)
    now, requests = 0.0, []
    for gap in gaps:
        now += gap * scale
        requests.append(Request(now, stage["prompt"], OUTPUT))
    return requests


def simulate(stage, c, share=1.0):
    """Means over the stage: seconds to the first token, from first to last, requests a second, and the sums of terms
    between first and last token."""
    done = replay(arrivals(stage, share), MAX_SEQS, BATCHED_TOKENS, c, CONCURRENCY).values()
    return {
        "first": statistics.fmean(d[1] - d[0] for d in done),
        "decode": statistics.fmean(d[2] - d[1] for d in done),
        "throughput": len(done) / max(d[2] for d in done),
        "terms": [statistics.fmean(d[4][i] for d in done) for i in range(len(TERMS) + 1)],
    }


def fit(stages, known):
    """Host time and the rate of arithmetic; the time per context token is known here."""
    c = {**known, "overhead_s": known["overhead_s"] + 1e-3, "prefill_s": 0.0}
    for _ in range(ROUNDS):
        measured = [(stage["decode"], simulate(stage, c, FITTED_SHARE)["terms"]) for stage in stages]
        c.update(solve_open(OPEN, c, measured))
    if min(c.values()) < 0:
        raise SystemExit(f"a coefficient came out negative, the model does not fit inference-perf's run: {c}")
    return c


def fits(calib, basis):
    """The entry of this model on one H100; `basis`: efficiencies of the run that it starts from."""
    model, gpu = physics.models()[MODEL], physics.gpus()[GPU]
    start = {**basis, "overhead_s": 0.0, "prefill_layer_s": 0.0}
    found = fit(load(calib, RUN)[:FITTED_STAGES], physics.coefficients(model, gpu, 1, start))
    rate = 2 * model.active_weights / gpu.flops / found["compute_per_token_s"]
    efficiency = physics.with_run(model, gpu, 1, {**basis, "prefill_flops": rate}, found)
    c = physics.coefficients(model, gpu, 1, efficiency)
    notes = []
    for place, stage in enumerate(load(calib, RUN)):
        ours = simulate(stage, c)
        fitted = " (fitted)" if place < FITTED_STAGES else ""
        notes.append(
            f"{stage['rate']:.0f} requests/s{fitted}:"
            + ",".join(
                f" {what} {stage[key] * by:.4g} {unit}, replayed {ours[key] * by:.4g} ({ours[key] / stage[key] - 1:+.1%})"
                for what, key, by, unit in [
                    ("throughput", "throughput", 1, "/s"),
                    ("first token", "first", 1e3, "ms"),
                    ("per token", "decode", 1e3 / (OUTPUT - 1), "ms"),
                ]
            )
        )
    yield {
        "model": MODEL,
        "gpu": GPU,
        "gpus": 1,
        "source": "kubernetes-sigs/inference-perf, vLLM 0.11: the three lowest of seven rates",
        "efficiency": efficiency,
        "coefficients": c,
        "errors": notes,
    }
