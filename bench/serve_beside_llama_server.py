#!/usr/bin/env python3
"""Measures `penstock serve` beside llama-server: same machine, same GGUF, same threads, same clients, taking turns.

    bench/serve_beside_llama_server.py --penstock build/release/src/penstock --peer DIR/bin/llama-server \
        --model SmolLM2-135M-Instruct.Q4_1.gguf [--rounds 5] [--threads 2] [--cpu-precision exact]
        [--out bench/results/NAME.json]

Each round starts one server, loads it with `penstock bench --url` at 1, 4 and 16 clients, stops it, and does the same
with the other: they never run at once. The order changes from round to round. The peer gets as many slots as the most clients,
each with the context a request needs, and its best settings. Every answer has all its tokens (ignore_eos, which both
know). Ratios are those of the medians over the rounds. The client is one thread that mostly sleeps; other work on the
machine spoils both sides, so its share of the processors is recorded with the numbers.
"""
import argparse
import contextlib
import json
import socket
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request

from measuring import ForeignShare, add_comparison_arguments, circumstances, in_turn, spread, version_of, write_report

START_SECONDS = 120
STOP_SECONDS = 30


def main():
    options = parse_arguments()
    rounds = []
    for number in range(options.rounds):
        for side in in_turn(["penstock", "llama-server"], number):
            others = ForeignShare()
            with server(side, options) as url:
                rows = load(url, number, options)
            rounds.append({"round": number + 1, "side": side, "rows": rows,
                           "share_of_processors_others_took": others.so_far()})
            for row in rows:
                print(f"round {number + 1}/{options.rounds}  {side:12} {row['concurrency']:2} clients  {row['output_tok_s']:7.1f} tok/s  "
                      f"first token p50 {milliseconds(row, 'first_token_ms', 'p50')}  "
                      f"between tokens p99 {milliseconds(row, 'inter_token_ms', 'p99')}", file=sys.stderr)

    write_report(make_report(options, rounds), options.out)


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    add_comparison_arguments(parser, "llama-server")
    parser.add_argument("--clients", type=lambda text: [int(n) for n in text.split(",")], default=[1, 4, 16])
    parser.add_argument("--requests", type=int, default=32, help="for each number of clients")
    parser.add_argument("--prompt-tokens", type=int, default=256)
    parser.add_argument("--output-tokens", type=int, default=64)
    return parser.parse_args()


@contextlib.contextmanager
def server(side, options):
    """Yields the URL of a server that is ready. Its children's time is ours once it has ended, which ForeignShare needs."""
    port = free_port()
    with tempfile.TemporaryFile("w+") as log:
        process = subprocess.Popen(command_of(side, port, options), stdout=log, stderr=log)
        try:
            url = f"http://127.0.0.1:{port}"
            wait_until_ready(url, process, log)
            yield url
        finally:
            process.terminate()
            try:
                process.wait(STOP_SECONDS)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def command_of(side, port, options):
    slots = max(options.clients)
    # Room for the template and for prompts that come out a little longer than asked for.
    tokens_per_slot = (options.prompt_tokens + options.output_tokens) * 5 // 4 + 64
    threads = str(options.threads)
    if side == "penstock":
        return [options.penstock, "serve", options.model, "--port", str(port), "--threads", threads,
                "--cpu-precision", options.cpu_precision, "--kv-tokens", str(slots * tokens_per_slot)]
    return [options.peer, "-m", options.model, "--host", "127.0.0.1", "--port", str(port), "-t", threads, "-tb", threads,
            "-np", str(slots), "-c", str(slots * tokens_per_slot), "-fa", "on", "-lm", "none"]


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def wait_until_ready(url, process, log):
    limit = time.monotonic() + START_SECONDS
    while time.monotonic() < limit:
        if process.poll() is not None:
            break
        try:
            with urllib.request.urlopen(url + "/health", timeout=5):
                return
        except (urllib.error.URLError, OSError):
            time.sleep(0.1)
    log.seek(0)
    sys.exit(f"{process.args[0]} was not ready within {START_SECONDS} s; it said:\n{log.read()[-2000:]}")


def load(url, number, options):
    """The rows of one bench. Another seed in each round: a server must not know the prompts, whatever it has kept on disk."""
    command = [options.penstock, "bench", "--url", url, "--concurrency", ",".join(map(str, options.clients)),
               "--requests", str(options.requests), "--prompt-tokens", str(options.prompt_tokens),
               "--output-tokens", str(options.output_tokens), "--ignore-eos", "--seed", str(number + 1), "--json"]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True)
    if done.returncode:
        sys.exit(f"the load failed: {done.stdout}")
    return json.loads(done.stdout)["rows"]


def milliseconds(row, name, percentile):
    return f"{row[name][percentile]:.0f} ms" if row[name] else "-"


MEASURES = {
    "output_tok_s": lambda row: row["output_tok_s"],
    "input_tok_s": lambda row: row["input_tok_s"],
    "first_token_p50_ms": lambda row: row["first_token_ms"]["p50"],
    "first_token_p99_ms": lambda row: row["first_token_ms"]["p99"],
    "inter_token_p50_ms": lambda row: row["inter_token_ms"]["p50"],
    "inter_token_p99_ms": lambda row: row["inter_token_ms"]["p99"],
    "end_to_end_p50_ms": lambda row: row["end_to_end_ms"]["p50"],
}


def make_report(options, rounds):
    def values(side, clients, measure):
        return [MEASURES[measure](row) for r in rounds if r["side"] == side for row in r["rows"] if row["concurrency"] == clients]

    rows = []
    for clients in options.clients:
        row = {"clients": clients, "requests": options.requests}
        for measure in MEASURES:
            ours, peers = values("penstock", clients, measure), values("llama-server", clients, measure)
            row[measure] = {"penstock": spread(ours), "llama_server": spread(peers),
                            "ratio_of_medians": round(statistics.median(ours) / statistics.median(peers), 3)}
        row["better_than_the_peer"] = {"output_tok_s": row["output_tok_s"]["ratio_of_medians"] > 1,
                                       "inter_token_p99_ms": row["inter_token_p99_ms"]["ratio_of_medians"] < 1}
        rows.append(row)
    return circumstances(options) | {
        "peer": version_of(options.peer),
        "cpu_precision": options.cpu_precision,
        "load": {"prompt_tokens": options.prompt_tokens, "output_tokens": options.output_tokens, "ignore_eos": True},
        "rounds": options.rounds,
        "share_of_processors_others_took": spread([r["share_of_processors_others_took"] for r in rounds]),
        "rows": rows,
        "first_token_p50_at_4_over_at_1": {
            side: ratio_of_clients(values, side, 4, 1) for side in ("penstock", "llama-server")},
    }


def ratio_of_clients(values, side, many, few):
    """How much longer the first token takes when others are there; null where one of the two was not measured."""
    medians = [values(side, clients, "first_token_p50_ms") for clients in (many, few)]
    return round(statistics.median(medians[0]) / statistics.median(medians[1]), 3) if all(medians) else None


if __name__ == "__main__":
    main()
