#!/usr/bin/env python3
"""Measures Penstock beside llama.cpp: same machine, same GGUF, same threads, taking turns, in one run.

    bench/compare_llama_cpp.py --penstock build/release/src/penstock --peer DIR/bin/llama-bench \
        --model SmolLM2-135M-Instruct.Q4_1.gguf [--rounds 5] [--threads 2] [--cpu-precision fast] [--prefill 2048] [--out bench/results/NAME.json]

Each round runs ours, then the peer's; a warm-up of each goes before and is not counted. The peer gets its best
settings (flash attention, weights read rather than mapped). The ratio is that of the medians. Other work on
the machine spoils both sides, so its share of the processors is recorded with the numbers.
"""
import argparse
import json
import os
import pathlib
import statistics
import subprocess
import sys

from measuring import ForeignShare, circumstances, spread, write_report

DECODE = 128


def main():
    options = parse_arguments()
    sides = {"penstock": lambda: run_penstock(options), "llama.cpp": lambda: run_peer(options)}
    for measure in sides.values():
        measure()  # warm-up

    samples = {side: {"prefill": [], "decode": []} for side in sides}
    foreign = []
    for number in range(options.rounds):
        for side, measure in sides.items():
            others = ForeignShare()
            rates = measure()
            foreign.append(others.so_far())
            for kind, rate in rates.items():
                samples[side][kind].append(rate)
            shown = ", ".join(f"{kind} {rate:.1f} tok/s" for kind, rate in rates.items())
            print(f"round {number + 1}/{options.rounds}  {side:10} {shown}", file=sys.stderr)

    write_report(make_report(options, samples, foreign), options.out)


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--penstock", type=pathlib.Path, required=True)
    parser.add_argument("--peer", type=pathlib.Path, required=True, help="llama-bench")
    parser.add_argument("--model", type=pathlib.Path, required=True)
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--cpu-precision", default="exact", help="of Penstock: exact or fast [exact]")
    parser.add_argument("--prefill", type=int, default=512, help="tokens of the prompt [512]")
    parser.add_argument("--out", type=pathlib.Path)
    return parser.parse_args()


def run_penstock(options):
    """Tokens per second by kind, from `penstock bench --json`."""
    command = [options.penstock, "bench", options.model, "--threads", str(options.threads), "--json",
               "--prefill", str(options.prefill), "--decode", str(DECODE), "--repetitions", "3",
               "--cpu-precision", options.cpu_precision]
    report = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
    return {row["kind"]: row["tok_s"]["median"] for row in report["rows"]}


def run_peer(options):
    """Tokens per second by kind, from `llama-bench -o jsonl`."""
    command = [options.peer, "-m", options.model, "-t", str(options.threads), "-fa", "on", "-lm", "none",
               "-p", str(options.prefill), "-n", str(DECODE), "-r", "3", "-o", "jsonl"]
    output = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    rates = {}
    for line in output.splitlines():
        row = json.loads(line)
        rates["prefill" if row["n_prompt"] else "decode"] = statistics.median(row["samples_ts"])
    return rates


def make_report(options, samples, foreign):
    rows = []
    for kind, tokens in (("prefill", options.prefill), ("decode", DECODE)):
        ours, peers = samples["penstock"][kind], samples["llama.cpp"][kind]
        rows.append({"kind": kind, "tokens": tokens, "batch": 1, "penstock_tok_s": spread(ours),
                     "llama_cpp_tok_s": spread(peers),
                     "ratio_of_medians": round(statistics.median(ours) / statistics.median(peers), 3)})
    return circumstances(options) | {
        "peer": "llama.cpp of llama-cpp-python 0.3.36: llama-bench -fa on -lm none",
        "cpu_precision": options.cpu_precision,
        "rounds": options.rounds,
        "share_of_processors_others_took": spread(foreign),
        "rows": rows,
    }


if __name__ == "__main__":
    main()
