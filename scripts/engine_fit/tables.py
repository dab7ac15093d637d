"""Fits to published tables of times by batch and prompt, of software of 2023: Splitwise and DistServe.

They give coefficients for their own models, GPUs and splits, and no efficiencies to extrapolate from. What a batch
costs per sequence of a decoding one does not hold for a prompt's tokens, so it counts by sequence, not by token.
"""

import csv
import json
import statistics

from .least_squares import line, solve_from_zero_up

NOTHING = dict.fromkeys(
    [
        "memory_s",
        "memory_per_token_s",
        "compute_s",
        "compute_per_token_s",
        "sampling_s",
        "per_sequence_s",
        "per_prefill_pair_s",
        "overhead_s",
        "prefill_s",
        "per_context_token_s",
    ],
    0.0,
)
SPLITWISE = {
    "models": {"llama2-70b": "llama-2-70b", "bloom-176b": "bloom-176b"},
    "gpus": {"a100-80gb": "a100-80gb", "h100-80gb": "h100"},
}
DISTSERVE = {"facebook/opt-13b": "opt-13b", "facebook/opt-66b": "opt-66b"}
# From so many tokens on a prompt's time is one of arithmetic.
COMPUTE_BOUND_TOKENS = 512


def decode_s(c, batch, context):
    dense = max(c["memory_s"], c["compute_s"] + c["compute_per_token_s"] * batch)
    return dense + c["per_sequence_s"] * batch + c["per_context_token_s"] * context


def prompt_s(c, prompt, batch=1):
    tokens, pairs = prompt * batch, batch * prompt * (prompt + 1) / 2
    dense = max(c["memory_s"], c["compute_s"] + c["compute_per_token_s"] * tokens)
    return dense + c["per_sequence_s"] * batch + c["per_prefill_pair_s"] * pairs


def mean_error(pairs):
    return statistics.fmean(abs(ours / real - 1) for ours, real in pairs)


def splitwise_rows(path):
    """Medians by model, GPU and split, then by prompt, batch and output."""
    groups = {}
    with open(path, newline="") as file:
        for row in csv.DictReader(file):
            model, gpu = SPLITWISE["models"].get(row["model"]), SPLITWISE["gpus"].get(row["hardware"])
            if model and gpu:
                size = tuple(int(row[k]) for k in ("prompt_size", "batch_size", "token_size"))
                times = (float(row["prompt_time"]) * 1e-3, float(row["token_time"]) * 1e-3)
                groups.setdefault((model, gpu, int(row["tensor_parallel"])), {}).setdefault(size, []).append(times)
    for key, sizes in groups.items():
        yield key, {size: tuple(map(statistics.median, zip(*times))) for size, times in sizes.items()}


def without_broken(rows):
    """Without batches whose prompts took less time than a smaller batch's: those ran into something else, such as
    a lack of memory."""
    longest, kept, left_out = {}, {}, 0
    for (prompt, batch, output), (prompt_time, token_time) in sorted(rows.items(), key=lambda r: r[0][1]):
        if prompt_time < 0.9 * longest.get(prompt, 0.0):
            left_out += 1
            continue
        longest[prompt] = max(longest.get(prompt, 0.0), prompt_time)
        kept[prompt, batch, output] = (prompt_time, token_time)
    return kept, left_out


def splitwise(calib):
    path = calib / "splitwise/perf_model.csv"
    for (model, gpu, tp), rows in sorted(splitwise_rows(path)):
        rows, left_out = without_broken(rows)
        decodes = [(b, b * (p + o / 2), t) for (p, b, o), (_, t) in rows.items()]
        c = dict(NOTHING)
        c["memory_s"], c["per_sequence_s"], c["per_context_token_s"] = solve_from_zero_up(
            [[1, b, context] for b, context, _ in decodes], [t for _, _, t in decodes]
        )
        prompts = [(p, b, t) for (p, b, _), (t, _) in rows.items()]
        long = [(p, b, t) for p, b, t in prompts if p * b >= COMPUTE_BOUND_TOKENS]
        c["compute_s"], c["compute_per_token_s"], c["per_prefill_pair_s"] = solve_from_zero_up(
            [[1, p * b, b * p * (p + 1) / 2] for p, b, _ in long], [t for _, _, t in long]
        )
        yield {
            "model": model,
            "gpu": gpu,
            "gpus": tp,
            "source": "Mutinifni/splitwise-sim, software of 2023: prompt and token times by batch and prompt",
            "coefficients": c,
            "errors": [
                f"token time over {len(decodes)} sizes, mean error: "
                f"{mean_error((decode_s(c, b, x), t) for b, x, t in decodes):.1%}",
                f"prompt time over {len(prompts)} sizes, mean error: "
                f"{mean_error((prompt_s(c, p, b), t) for p, b, t in prompts):.1%}",
                f"sizes left out because a larger batch took less time: {left_out}",
            ],
        }


def distserve_times(profile):
    """DistServe's own fit as times: prompts and decoding batches."""
    a, b, square = profile["prefill"]
    prompts = [(n, (a + b * n + square * n * n) * 1e-3) for n in (64, 128, 256, 512, 1024, 1536, 2048)]
    decodes = []
    for batch in (1, 2, 4, 8, 16, 32, 64, 94, 96, 128, 192, 256):
        few = batch < profile["decoding_large_small_bs_threshold"]
        a, per_context, per_batch = profile["decoding_smallbs" if few else "decoding_largebs"]
        for context in (128, 512, 1024):
            decodes.append((batch, batch * context, (a + per_context * batch * context + per_batch * batch) * 1e-3))
    return prompts, decodes


def distserve(calib):
    profiles = json.loads((calib / "distserve/profiler-a100-80g.vllm.json").read_text())
    for name, splits in sorted(profiles.items()):
        for tp, profile in sorted(splits.items()):
            if name not in DISTSERVE:
                continue
            prompts, decodes = distserve_times(profile)
            c = dict(NOTHING)
            c["memory_s"], c["per_sequence_s"], c["per_context_token_s"] = solve_from_zero_up(
                [[1, b, x] for b, x, _ in decodes], [t for _, _, t in decodes]
            )
            long = [(n, t) for n, t in prompts if n >= COMPUTE_BOUND_TOKENS]
            intercept, c["compute_per_token_s"] = line(long)
            # More would count with decoding batches as well.
            c["compute_s"] = min(max(intercept, 0.0), c["memory_s"])
            yield {
                "model": DISTSERVE[name],
                "gpu": "a100-80gb",
                "gpus": int(tp),
                "source": "LLMServe/DistServe, vLLM of 2023: its fitted prefill and decode times",
                "coefficients": c,
                "errors": [
                    "token time over 36 sizes, mean error: "
                    f"{mean_error((decode_s(c, b, x), t) for b, x, t in decodes):.1%}",
                    f"prompt time over {len(prompts)} sizes, mean error: "
                    f"{mean_error((prompt_s(c, n), t) for n, t in prompts):.1%}",
                ],
            }
