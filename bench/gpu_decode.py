#!/usr/bin/env python3
"""Decode and prefill on a GPU: with all experts in VRAM and with fewer slots, one sequence and several.

    bench/gpu_decode.py --penstock build/release/src/penstock --model q30-nvfp4 --out bench/results/NAME.json

Each run loads the model anew. Rates are medians of `penstock bench`'s repetitions; hit rates are those of the same runs. Where random weights are
the model, successive tokens are alike and hit rates better than a real model's.
"""
import argparse
import json
import os
import pathlib
import subprocess

from measuring import circumstances, write_report


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--penstock", type=pathlib.Path, required=True)
    parser.add_argument("--model", type=pathlib.Path, required=True)
    parser.add_argument("--gpu", default="0")
    parser.add_argument("--slots", default="all,50%,25%,12.5%", help="shares of the experts that have slots [%(default)s]")
    parser.add_argument("--batches", default="1,4", help="sequences that decode at once [%(default)s]")
    parser.add_argument("--context", type=int, default=512)
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--repetitions", type=int, default=3)
    parser.add_argument("--out", type=pathlib.Path)
    options = parser.parse_args()

    runs = []
    for slots in options.slots.split(","):
        for batch in map(int, options.batches.split(",")):
            runs.append({"slots": slots, **measured(options, slots, batch)})
    unpinned = measured(options, "25%", 1, {"PENSTOCK_NO_PINNED": "1"})
    runs.append({"slots": "25%", "pinned": False, **unpinned})
    write_report({**circumstances(options), "gpu": runs[0].pop("gpu"), "context": options.context,
                  "runs": [{key: value for key, value in run.items() if key != "gpu"} for run in runs]}, options.out)


def measured(options, slots, batch, environment=None):
    """One load and its rates."""
    command = [options.penstock, "bench", options.model, "--gpu", options.gpu, "--json", "--threads", str(options.threads),
               "--repetitions", str(options.repetitions), "--decode", "64", "--context", str(options.context), "--batch", str(batch),
               "--prefill", "512" if batch == 1 else "4096"]
    if slots != "all":
        command += ["--expert-slots", slots]
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, env={**os.environ, **(environment or {})})
    report = json.loads(done.stdout)
    return {"batch": batch, "gpu": report["machine"]["gpu"], "load_s": report["load"]["seconds"], "rows": report["rows"]}


if __name__ == "__main__":
    main()
