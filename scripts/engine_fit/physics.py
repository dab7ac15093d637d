"""From facts of a model and a GPU and a handful of efficiencies to the coefficients of an iteration, and back.

The same arithmetic as crates/sim/src/catalogue/roofline.rs; a test there compares both.
"""

import json
import pathlib

CATALOGUE = pathlib.Path(__file__).resolve().parent.parent.parent / "crates/sim/src/catalogue"
BYTES = 2
# Kernels of a layer that the kernel tables leave out: attention, and the write to the cache.
ATTENTION_KERNELS = 2


class Model:
    def __init__(self, facts):
        self.__dict__.update(facts)
        query, kv = self.heads * self.head_dim, self.kv_heads * self.head_dim
        attention = self.hidden * (2 * query + 2 * kv)
        expert = self.ffn_matrices * self.hidden * self.ffn
        self.weights = self.layers * (attention + self.experts * expert)
        self.active_weights = self.layers * (attention + self.active_experts * expert)
        self.head_weights = self.hidden * self.vocab
        self.kv_bytes = 2 * BYTES * kv * self.layers
        self.query_width = query * self.layers


class Gpu:
    def __init__(self, facts):
        self.__dict__.update(facts)
        self.bandwidth = self.bandwidth_gb_s * 1e9
        self.flops = self.bf16_tflops * 1e12
        self.link = self.link_gb_s * 1e9
        self.latency = self.link_latency_us * 1e-6


def _table(name, kind):
    rows = json.loads((CATALOGUE / name).read_text())
    return {row["name"]: kind(row) for row in rows}


def models():
    return _table("models.json", Model)


def gpus():
    return _table("gpus.json", Gpu)


def communication(model, gpu, tp):
    """Seconds that splitting a model costs: an iteration, a token, a sequence. Two sums over the GPUs a layer and one
    after the embedding, each a ring: a latency, and 2 (tp − 1) / tp of the hidden state over the link; and the
    gathering of the logits."""
    if tp == 1:
        return 0.0, 0.0, 0.0
    share = (tp - 1) / tp
    return (
        (2 * model.layers + 2) * gpu.latency,
        (2 * model.layers + 1) * model.hidden * BYTES * 2 * share / gpu.link,
        model.vocab * BYTES * share / gpu.link,
    )


def coefficients(model, gpu, tp, e):
    """Coefficients of an iteration from efficiencies `e`."""
    each, token, sequence = communication(model, gpu, tp)
    launches = model.layers * model.kernels_per_layer * e["launch_s"]
    read_s = BYTES * model.weights / tp / gpu.bandwidth
    token_s = 2 * model.active_weights / tp / gpu.flops
    return {
        "memory_s": launches + read_s / e["weights"],
        "memory_per_token_s": token_s / e["decode_flops"] + token,
        "compute_s": launches + read_s / e["prefill_weights"],
        "compute_per_token_s": token_s / e["prefill_flops"] + token,
        "sampling_s": BYTES * model.head_weights / tp / gpu.bandwidth / e["head"],
        "per_sequence_s": model.vocab * e["logit_s"] + sequence,
        "per_prefill_pair_s": 4 * model.query_width / tp / gpu.flops / e["prefill_flops"],
        "overhead_s": e["overhead_s"] + model.layers * ATTENTION_KERNELS * e["launch_s"] + each,
        "prefill_s": model.layers * e["prefill_layer_s"],
        "per_context_token_s": model.kv_bytes / tp / gpu.bandwidth / e["context"],
    }


def of_kernels(model, gpu, times):
    """Efficiencies that kernel times of a whole model on one GPU decide. `times`: intercepts and slopes of the dense
    layers where memory and where arithmetic binds, and of head and sampler, and the time of an idle kernel."""
    launches = model.layers * model.kernels_per_layer * times["launch_s"]
    read_s = BYTES * model.weights / gpu.bandwidth
    token_s = 2 * model.active_weights / gpu.flops
    return {
        "launch_s": times["launch_s"],
        "weights": read_s / (times["memory"][0] - launches),
        "decode_flops": token_s / times["memory"][1],
        "prefill_weights": read_s / (times["compute"][0] - launches),
        "prefill_flops": token_s / times["compute"][1],
        "head": BYTES * model.head_weights / gpu.bandwidth / times["head"][0],
        "logit_s": times["head"][1] / model.vocab,
    }


def with_run(model, gpu, tp, e, fitted):
    """Efficiencies completed by what a run says: the coefficients `overhead_s`, `prefill_s` and
    `per_context_token_s` of this very model and split."""
    base = communication(model, gpu, tp)[0] + model.layers * ATTENTION_KERNELS * e["launch_s"]
    return {
        **e,
        "context": model.kv_bytes / tp / gpu.bandwidth / fitted["per_context_token_s"],
        "overhead_s": fitted["overhead_s"] - base,
        "prefill_layer_s": fitted["prefill_s"] / model.layers,
    }
