#!/usr/bin/env python3
"""Measures how much of its decode speed an engine keeps while a compile job wants every processor.

    bench/decode_beside_a_compile_job.py --penstock build/release/src/penstock --peer DIR/bin/llama-bench --model MODEL.gguf
        [--rounds 5] [--threads 2] [--cpu-precision exact] [--out bench/results/NAME.json]

In each round ours and the peer's decode quietly, one after the other, and then each beside the job: as many compilers as there
are processors, over and over, with no lower priority. An engine whose threads wait for each other by spinning keeps far less
than the half that is its due. What counts is the share of an engine's own quiet speed.
"""
import argparse
import contextlib
import os
import signal
import statistics
import subprocess
import sys

from engines import PEER, Test, llama_bench_rates, penstock_rates
from measuring import ForeignShare, add_comparison_arguments, circumstances, in_turn, spread, write_report

SIDES = {"penstock": penstock_rates, "llama.cpp": llama_bench_rates}
# Takes a second or so: regular expressions and hash tables of strings, with everything the optimiser does.
SOURCE = """
#include <map>
#include <regex>
#include <string>
#include <unordered_map>
int main(int argc, char** argv) {
  std::map<std::string, std::regex> rules;
  std::unordered_map<std::string, int> counts;
  for (int i = 1; i < argc; ++i) rules.emplace(argv[i], std::regex(argv[i]));
  for (const auto& [name, rule] : rules) counts[name] += std::regex_search(name, rule);
  return static_cast<int>(counts.size());
}
"""


def main():
    options = parse_arguments()
    test = Test("decode", options.decode)
    for rates in SIDES.values():
        rates(options, [test])  # warm-up

    samples = {side: {"quiet": [], "beside_the_job": []} for side in SIDES}
    foreign = []
    for number in range(options.rounds):
        for side in in_turn(SIDES, number):
            others = ForeignShare()
            samples[side]["quiet"].append(SIDES[side](options, [test])[test])
            foreign.append(others.so_far())
        for side in in_turn(SIDES, number):
            with compile_job(options.compiler):
                samples[side]["beside_the_job"].append(SIDES[side](options, [test])[test])
        shown = ", ".join(f"{side} {found['quiet'][-1]:.1f} and {found['beside_the_job'][-1]:.1f} tok/s" for side, found in samples.items())
        print(f"round {number + 1}/{options.rounds}  {shown}", file=sys.stderr)

    head = circumstances(options) | {"share_of_processors_others_took_when_quiet": spread(foreign)}
    write_report(head | make_report(options, samples), options.out)


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add_comparison_arguments(parser, "llama-bench")
    parser.add_argument("--repetitions", type=int, default=3, help="in a round; the median counts [3]")
    parser.add_argument("--decode", type=int, default=128, help="tokens [128]")
    parser.add_argument("--compiler", default="g++")
    return parser.parse_args()


@contextlib.contextmanager
def compile_job(compiler):
    """One endless row of compilations for each processor, until the block is left."""
    command = ["sh", "-c", 'while printf "%s" "$2" | "$1" -std=c++17 -O2 -x c++ - -o /dev/null; do :; done', "sh", compiler, SOURCE]
    rows = [subprocess.Popen(command, start_new_session=True) for _ in os.sched_getaffinity(0)]
    try:
        yield
        if any(row.poll() is not None for row in rows):
            sys.exit(f"{compiler} failed, so there was no job to decode beside")
    finally:
        for row in rows:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(row.pid, signal.SIGKILL)
            row.wait()


def make_report(options, samples):
    sides = {}
    for side, found in samples.items():
        quiet, beside = (statistics.median(found[when]) for when in ("quiet", "beside_the_job"))
        sides[side] = {when: {"tok_s": spread(found[when])} for when in found} | {"kept": round(beside / quiet, 3)}
    return {"peer": PEER, "cpu_precision": options.cpu_precision, "rounds": options.rounds, "decode": options.decode,
            "job": f"{len(os.sched_getaffinity(0))} x {options.compiler} -O2, over and over", "sides": sides}


if __name__ == "__main__":
    main()
