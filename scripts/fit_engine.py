#!/usr/bin/env python3
"""Fits the coefficients of the engine model to measurements, and prints the errors of each fit.

  scripts/fit_engine.py                    all public measurements: the catalogue's fits as JSON
  scripts/fit_engine.py --write            the same, into crates/sim/src
  scripts/fit_engine.py --measured FILE --slots N [--predict FILE] [--out engine.json]
                                           a server measured by scripts/measure_engine.py, for `weighbridge simulate`

Sources and methods stand in scripts/engine_fit: llmservingsim.py (vLLM on RTX PRO 6000), inference_perf.py (vLLM on
H100), tables.py (Splitwise and DistServe: A100 and H100), served.py (your own server). The data folder is --data, else
$WEIGHBRIDGE_DATA, else ../shared/data beside the repository. Python 3 alone is needed.
"""

import argparse
import json
import os
import pathlib
import sys

from engine_fit import inference_perf, llmservingsim, served, tables

ROOT = pathlib.Path(__file__).resolve().parent.parent
FITS = ROOT / "crates/sim/src/catalogue/fits.json"
DEFAULT = ROOT / "crates/sim/src/coefficients/llama_3_1_8b_rtx_pro_6000.rs"


def rounded(entry):
    """Seven digits, which every version of Python agrees on."""
    for key in ("efficiency", "coefficients"):
        if key in entry:
            entry[key] = {name: float(f"{value:.6e}") for name, value in entry[key].items()}
    return entry


def public_fits(calib):
    runs = list(llmservingsim.fits(calib))
    found = [*runs, *inference_perf.fits(calib, runs[0]["efficiency"]), *tables.splitwise(calib), *tables.distserve(calib)]
    return [rounded(entry) for entry in found]


def rust(entry):
    """The default engine's coefficients, as a constant."""
    notes = "\n".join(f"//! - {note}" for note in entry["errors"])
    fields = "\n".join(f"    {name}: {value:.6e}," for name, value in entry["coefficients"].items())
    return f"""//! Llama-3.1-8B (bf16) on one RTX PRO 6000. Written by `scripts/fit_engine.py --write`; do not edit.
//!
//! Source: casys-kaist/LLMServingSim (MIT), a run of vLLM 0.19 of 300 requests and its kernel times. Fit:
//!
{notes}

use super::Coefficients;

/// Coefficients of Llama-3.1-8B on one RTX PRO 6000.
pub const LLAMA_3_1_8B_RTX_PRO_6000: Coefficients = Coefficients {{
{fields}
}};
"""


def fit_public(args):
    calib = pathlib.Path(args.data) / "calib"
    if not calib.is_dir():
        sys.exit(f"no calibration data in {calib}; set WEIGHBRIDGE_DATA or give --data")
    found = public_fits(calib)
    for entry in found:
        print(f"{entry['model']}@{entry['gpu']}x{entry['gpus']} ({entry['source']})", file=sys.stderr)
        for note in entry["errors"]:
            print(f"  {note}", file=sys.stderr)
    text = json.dumps(found, indent=1, ensure_ascii=False) + "\n"
    if args.write:
        FITS.write_text(text)
        DEFAULT.write_text(rust(found[0]))
    else:
        print(text, end="")


def fit_measured(args):
    requests, concurrency = served.load(args.measured)
    sizes = (args.slots, args.batched_tokens)
    c, together = served.fit(requests, concurrency, sizes)
    print(f"{args.label}: fitted to {len(requests)} requests", file=sys.stderr)
    for name, value in c.items():
        if value:
            print(f"  {name} {value * 1e3:.4g} ms", file=sys.stderr)
    for path in args.predict:
        others, concurrency = served.load(path)
        print(f"  {path}: {len(others)} requests, {concurrency} at once", file=sys.stderr)
        for error in served.predict(others, (concurrency, together), sizes, c):
            print(f"    {error}", file=sys.stderr)
    engine = rounded({"coefficients": c})
    engine = {
        "label": args.label,
        "source": f"measured: {len(requests)} requests",
        "settings": {
            "block_size": 16,
            "kv_blocks": -(-args.cache_tokens // 16),
            "max_num_seqs": args.slots,
            "max_num_batched_tokens": args.batched_tokens,
            "max_model_len": args.cache_tokens,
        },
        **engine,
        "gpus": 1,
        "gpu_hour": 0.0,
        "start_s": 10.0,
    }
    text = json.dumps(engine, indent=1) + "\n"
    if args.out:
        pathlib.Path(args.out).write_text(text)
    else:
        print(text, end="")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", default=os.environ.get("WEIGHBRIDGE_DATA", ROOT.parent / "shared/data"))
    parser.add_argument("--write", action="store_true", help="write the catalogue's fits instead of printing them")
    parser.add_argument("--measured", help="requests of scripts/measure_engine.py to fit to")
    parser.add_argument("--predict", action="append", default=[], help="more such requests, to be predicted")
    parser.add_argument("--slots", type=int, default=4, help="sequences that the server runs at once")
    parser.add_argument("--batched-tokens", type=int, default=2048, help="tokens of one iteration at most")
    parser.add_argument("--cache-tokens", type=int, default=8192, help="tokens that its cache holds")
    parser.add_argument("--label", default="measured", help="name of the engine in reports")
    parser.add_argument("--out", help="file for the engine, instead of standard output")
    args = parser.parse_args()
    if args.measured:
        fit_measured(args)
    else:
        fit_public(args)


if __name__ == "__main__":
    main()
