"""Runs `penstock bench` and `llama-bench` on the same tests; both report tokens per second.

The peer gets its best settings: flash attention, and weights that are read rather than mapped. `options` have penstock,
peer, model, threads, repetitions and cpu_precision.
"""
import dataclasses
import itertools
import json
import statistics
import subprocess
import sys

PEER = "llama.cpp of llama-cpp-python 0.3.36: llama-bench -fa on -lm none"


@dataclasses.dataclass(frozen=True)
class Test:
    kind: str         # prefill or decode
    tokens: int
    context: int = 0  # tokens that are there already


def penstock_rates(options, tests):
    """Tokens per second of each test. A run of the program has one prompt at most, and one decode."""
    rates = {}
    prefills, decodes = ([test for test in tests if test.kind == kind] for kind in ("prefill", "decode"))
    for prefill, decode in itertools.zip_longest(prefills, decodes):
        report = json.loads(output_of(penstock_command(options, prefill, decode)))
        for test in filter(None, (prefill, decode)):
            (row,) = (row for row in report["rows"] if row["kind"] == test.kind)
            rates[test] = row["tok_s"]["median"]
    return rates


def penstock_command(options, prefill, decode):
    command = [options.penstock, "bench", options.model, "--threads", options.threads, "--load", "read", "--json",
               "--prefill", prefill.tokens if prefill else 0, "--decode", decode.tokens if decode else 0,
               "--repetitions", options.repetitions, "--cpu-precision", options.cpu_precision]
    return command + (["--context", decode.context] if decode and decode.context else [])


def llama_bench_rates(options, tests):
    """Tokens per second of each test. A run of the peer has one context for all its tests."""
    rates = {}
    for context in sorted({test.context for test in tests}):
        there = [test for test in tests if test.context == context]
        by_count = {(test.kind == "prefill" and test.tokens, test.kind == "decode" and test.tokens): test for test in there}
        for line in output_of(llama_bench_command(options, there, context)).splitlines():
            row = json.loads(line)
            rates[by_count[row["n_prompt"], row["n_gen"]]] = statistics.median(row["samples_ts"])
    return rates


def llama_bench_command(options, tests, context):
    def counts(kind):
        return ",".join(str(test.tokens) for test in tests if test.kind == kind) or 0

    return [options.peer, "-m", options.model, "-t", options.threads, "-fa", "on", "-lm", "none", "-p", counts("prefill"),
            "-n", counts("decode"), "-d", context, "-r", options.repetitions, "-o", "jsonl"]


def output_of(command):
    """What it prints; where it fails, what it said is the end of this script."""
    command = list(map(str, command))
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"{' '.join(command)} ended with {done.returncode}:\n{done.stderr}")
    return done.stdout
