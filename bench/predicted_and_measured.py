#!/usr/bin/env python3
"""Compares what `penstock plan` predicts for decode with what `penstock bench` measures, in one run.

    bench/predicted_and_measured.py --penstock build/release/src/penstock --model MODEL [--expert-slots 25%,50%] [--rounds 3]
        [--out bench/results/NAME.json]

Each round runs `doctor`, whose profile `plan` predicts from, then decode with everything in RAM (`--load read`), then
with experts on disk and each of --expert-slots. The model's own folder is the disk that doctor measures. Decode is
measured at the place that `plan` predicts for, 2,048 tokens into a sequence.

Slots hold what was used lately, and real or random routing has favourites, so experts are found there more often than
plan's uniform routing has it. What is compared is the prediction with the measured hit rate (`plan --hit-rate`), for
rates are what is tested here; the one with uniform routing stands beside it. A ratio is the prediction over the
measurement; that of a report is the median of the rounds'.
"""
import argparse
import json
import os
import pathlib
import statistics
import sys
import tempfile

from engines import output_of
from measuring import ForeignShare, circumstances, spread, write_report

CONTEXT = 2048     # tokens: kLeastKvTokens of memory/plan/layout.h
WITHIN = 0.15      # of what was measured


def main():
    options = parse_arguments()
    places = ["RAM"] + [f"disk, {slots} in slots" for slots in options.expert_slots]
    rounds = []
    for number in range(options.rounds):
        others = ForeignShare()
        rounds.append(one_round(options) | {"share_of_processors_others_took": others.so_far()})
        for place, row in zip(places, rounds[-1]["rows"]):
            print(f"round {number + 1}/{options.rounds}  {place:22} predicted {row['predicted_tok_s']:.2f}, "
                  f"measured {row['measured_tok_s']:.2f} tok/s", file=sys.stderr)
    write_report(circumstances(options) | {"context": CONTEXT, "load_average": os.getloadavg()}
                 | {"rows": [summary(place, [each["rows"][i] for each in rounds]) for i, place in enumerate(places)],
                    "rounds": rounds}, options.out)


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--penstock", type=pathlib.Path, required=True)
    parser.add_argument("--model", type=pathlib.Path, required=True)
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)), help="those that doctor uses too")
    parser.add_argument("--expert-slots", type=lambda text: [slots for slots in text.split(",") if slots], default=["25%", "50%"],
                        help="with experts on disk; a list [25%%,50%%]")
    parser.add_argument("--decode", type=int, default=128, help="tokens [128]")
    parser.add_argument("--repetitions", type=int, default=3, help="of each measurement in a round; its median counts [3]")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--out", type=pathlib.Path)
    return parser.parse_args()


def one_round(options):
    profile = json.loads(output_of([options.penstock, "doctor", "--json", "--no-save", "--disk", options.model.resolve().parent]))["profile"]
    with tempfile.TemporaryDirectory() as folder:
        machine = pathlib.Path(folder, "machine.json")
        machine.write_text(json.dumps(profile))
        rows = [compared(options, machine, ["--load", "read"], [])]
        for slots in options.expert_slots:
            rows.append(compared(options, machine, ["--expert-slots", slots], ["--expert-slots", slots]))
    return {"profile": profile, "rows": rows}


def compared(options, machine, bench_options, plan_options):
    measured = measured_decode(options, bench_options)
    uniform = predicted_decode(options, machine, plan_options)
    row = {"measured_tok_s": measured["tok_s"]["median"], "predicted_tok_s": uniform["tok_s"], "bound": uniform["bound"]}
    if "experts" in measured:
        hit_rate = measured["experts"]["hit_rate"]
        row |= {"hit_rate": hit_rate, "predicted_tok_s_uniform": uniform["tok_s"],
                "predicted_tok_s": predicted_decode(options, machine, plan_options + ["--hit-rate", hit_rate])["tok_s"]}
    return row


def measured_decode(options, more):
    command = [options.penstock, "bench", options.model, "--threads", options.threads, "--json", "--prefill", 0, "--decode", options.decode,
               "--context", CONTEXT, "--repetitions", options.repetitions, *more]
    (row,) = (row for row in json.loads(output_of(command))["rows"] if row["kind"] == "decode")
    return row


def predicted_decode(options, machine, more):
    command = [options.penstock, "plan", options.model, "--machine", machine, "--gpu", "none", "--json", *more]
    return json.loads(output_of(command))["plan"]["decode"]


def summary(place, rows):
    ratio = statistics.median(row["predicted_tok_s"] / row["measured_tok_s"] for row in rows)
    names = [name for name in rows[0] if name != "bound"]
    return {"place": place, "ratio": round(ratio, 3), "is_within_15_percent": abs(ratio - 1) <= WITHIN,
            "bound": rows[0]["bound"]} | {name: spread([row[name] for row in rows]) for name in names}


if __name__ == "__main__":
    main()
