#!/usr/bin/env python3
"""Measures Penstock beside llama.cpp: same machine, same GGUF, same threads, taking turns, in one run.

    bench/compare_llama_cpp.py --penstock build/release/src/penstock --peer DIR/bin/llama-bench --model MODEL.gguf
        [--prefill 512,2048] [--decode 128] [--context 16384] [--rounds 5] [--threads 2] [--cpu-precision exact]
        [--out bench/results/NAME.json]

Each round runs ours and the peer's, in turns first, and then measures what the machine can do (`penstock bench kernels`); a warm-up of each
goes before and is not counted. The ratio is that of the medians. Other work on the machine spoils both sides, so its
share of the processors is recorded with the numbers.

Decode is also stated as a share of the machine's read bandwidth: bytes of weights that a token reads, as the file has them, and
of the keys and values before it. That means something for models that do not fit the last-level cache: from about
500 MB a token. Prefill is stated as a share of what AMX does in bf16, the products with weights counted.
"""
import argparse
import json
import statistics
import sys

from engines import PEER, Test, llama_bench_rates, output_of, penstock_rates
from gguf_file import GgufFile, bytes_per_token, kv_numbers_per_token, operations_per_token
from measuring import ForeignShare, add_comparison_arguments, circumstances, in_turn, spread, write_report

PEER_KV_BYTES = 2  # f16
OUR_KV_BYTES = {"exact": 4, "fast": 2}


def main():
    options = parse_arguments()
    tests = [Test("prefill", tokens) for tokens in options.prefill]
    if options.decode:
        tests.append(Test("decode", options.decode, options.context))
    sides = {"penstock": penstock_rates, "llama.cpp": llama_bench_rates}
    for measure in sides.values():
        measure(options, tests)  # warm-up

    samples = {side: {test: [] for test in tests} for side in sides}
    limits, foreign = [], []
    for number in range(options.rounds):
        for side in in_turn(sides, number):
            others = ForeignShare()
            rates = sides[side](options, tests)
            foreign.append(others.so_far())
            for test in tests:
                samples[side][test].append(rates[test])
            shown = ", ".join(f"{test.kind} {test.tokens} {rates[test]:.1f} tok/s" for test in tests)
            print(f"round {number + 1}/{options.rounds}  {side:10} {shown}", file=sys.stderr)
        limits.append(machine_limits(options))

    model = GgufFile(options.model)
    report = make_report(options, model, samples, limits)
    write_report(circumstances(options) | {"share_of_processors_others_took": spread(foreign)} | report, options.out)


def parse_arguments():
    def numbers(text):
        return [int(number) for number in text.split(",") if int(number)]

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add_comparison_arguments(parser, "llama-bench")
    parser.add_argument("--repetitions", type=int, default=3, help="of each test in a round; its median counts [3]")
    parser.add_argument("--prefill", type=numbers, default=[512], help="tokens of prompts: a number, or some, or 0 for none [512]")
    parser.add_argument("--decode", type=int, default=128, help="tokens, or 0 for none [128]")
    parser.add_argument("--context", type=int, default=0, help="tokens that are there before decode begins [0]")
    return parser.parse_args()


def machine_limits(options):
    """Bytes read and bf16 tile operations, a second; 0 for tiles where the processor has none. One small operation goes along."""
    command = [options.penstock, "bench", "kernels", "--filter", "^rms-norm", "--threads", options.threads, "--json"]
    (limits,) = json.loads(output_of(command))["limits"]
    return {"read_bytes_s": limits["read_bytes_s"]["huge"], "bf16_tiles_s": limits["operations_s"]["bf16 tiles"] or 0}


def make_report(options, model, samples, limits):
    """Each quantity is the median of the rounds; so is what it is a share of."""
    limit = {name: statistics.median(entry[name] for entry in limits) for name in limits[0]}
    kv_bytes = {"penstock": OUR_KV_BYTES[options.cpu_precision], "llama.cpp": PEER_KV_BYTES}
    rows = []
    for test in samples["penstock"]:
        row = {"kind": test.kind, "tokens": test.tokens, "context": test.context, "batch": 1}
        for side, found in samples.items():
            rate = statistics.median(found[test])
            entry = {"tok_s": spread(found[test])}
            if test.kind == "decode":
                n_bytes = decode_bytes(model, test, kv_bytes[side])
                entry |= {"bytes_per_token": n_bytes, "share_of_read_bandwidth": round(rate * n_bytes / limit["read_bytes_s"], 3)}
            elif limit["bf16_tiles_s"]:
                entry["share_of_bf16_tiles"] = round(rate * operations_per_token(model) / limit["bf16_tiles_s"], 4)
            row[side] = entry
        row["ratio_of_medians"] = round(row["penstock"]["tok_s"]["median"] / row["llama.cpp"]["tok_s"]["median"], 3)
        rows.append(row)
    return {
        "peer": PEER,
        "cpu_precision": options.cpu_precision,
        "rounds": options.rounds,
        "limits": {name: spread([entry[name] for entry in limits]) for name in limits[0]},
        "rows": rows,
    }


def decode_bytes(model, test, number_bytes):
    """Weights, and the keys and values of a context that grows while it is measured."""
    mean_context = test.context + test.tokens / 2
    return round(bytes_per_token(model) + mean_context * kv_numbers_per_token(model) * number_bytes)


if __name__ == "__main__":
    main()
