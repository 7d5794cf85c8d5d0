#!/usr/bin/env python3
"""Chooses and measures the policy of the expert cache: hit rates by policy on recorded and on made-up routing, and tokens a second.

    bench/expert_cache.py --penstock build/release/src/penstock --model smollm2-8x2.pack --text BOOK.txt [--before PENSTOCK]
        [--prefill 64] [--decode 512] [--measured 64] [--rounds 3] [--threads 2] [--note TEXT] [--out bench/results/NAME.json]

  recorded   routing of MODEL, a mixture, over the first tokens of BOOK: its prefill, then its tokens one by one
  synthetic  records of bench/make_routing.py: nobody's model, routers skewed and uniform, with and without repetition
  measured   `penstock bench --expert-slots 25%` and `50%` over the first of the same tokens, run once before, experts read from the
             disk past the page cache; with --before, another build takes turns with ours

A replay counts what the cache would: `penstock plan --replay`.
"""
import argparse
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile

import measuring

HERE = pathlib.Path(__file__).resolve().parent
SYNTHETIC = [{"skew": skew, "repeat": repeat} for skew in (0.0, 1.0) for repeat in (0.0, 0.3)]
SLOTS = ("25%", "50%")


def run(*command):
    return subprocess.run([str(word) for word in command], capture_output=True, encoding="utf-8", check=True).stdout


def replay(penstock, record):
    return json.loads(run(penstock, "plan", "--replay", record, "--json"))


def recorded(options, folder):
    record = folder / "recorded.jsonl"
    run(options.penstock, "bench", options.model, "--text", options.text, "--prefill", options.prefill, "--decode", options.decode,
        "--threads", options.threads, "--repetitions", 1, "--record-routing", record)
    return replay(options.penstock, record)


def synthetic(options, folder, shape):
    record = folder / "synthetic.jsonl"
    run(sys.executable, HERE / "make_routing.py", record, "--skew", shape["skew"], "--repeat", shape["repeat"])
    return replay(options.penstock, record)


def measured(options):
    """Ours and the other build in turn; hit rates do not differ between rounds, rates do."""
    sides = {"penstock": options.penstock} | ({"before": options.before} if options.before else {})
    report = {}
    for slots in SLOTS:
        rows = {side: [] for side in sides}
        for number in range(options.rounds):
            for side in measuring.in_turn(sides, number):
                rows[side] += json.loads(run(sides[side], "bench", options.model, "--text", options.text, "--prefill", 0,
                                             "--decode", options.measured, "--threads", options.threads, "--repetitions", 1,
                                             "--expert-slots", slots, "--json"))["rows"]
        report[slots] = {side: {"tok_s": measuring.spread([row["tok_s"]["median"] for row in taken]),
                                "hit_rate": statistics.median(row["experts"]["hit_rate"] for row in taken),
                                "read_bytes_token": statistics.median(row["experts"]["read_bytes_token"] for row in taken),
                                "wait_s_token": statistics.median(row["experts"]["wait_s_token"] for row in taken)}
                         for side, taken in rows.items()}
    return report


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--penstock", type=pathlib.Path, required=True)
    parser.add_argument("--before", type=pathlib.Path, help="another build, to measure beside ours")
    parser.add_argument("--model", type=pathlib.Path, required=True)
    parser.add_argument("--text", type=pathlib.Path, required=True)
    parser.add_argument("--prefill", type=int, default=64)
    parser.add_argument("--decode", type=int, default=512)
    parser.add_argument("--measured", type=int, default=64, help="tokens of each measurement")
    parser.add_argument("--note", help="what else a reader should know")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--out", type=pathlib.Path)
    options = parser.parse_args()
    foreign = measuring.ForeignShare()
    report = measuring.circumstances(options)
    report |= {"text": options.text.name, "recorded_tokens": {"prefill": options.prefill, "decode": options.decode},
               "measured_tokens": options.measured}
    if options.note:
        report["note"] = options.note
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        report["recorded"] = recorded(options, folder)
        report["synthetic"] = [synthetic(options, folder, shape) for shape in SYNTHETIC]
    report["measured"] = measured(options)
    report["share_of_processors_others_took"] = foreign.so_far()
    measuring.write_report(report, options.out)


if __name__ == "__main__":
    main()
