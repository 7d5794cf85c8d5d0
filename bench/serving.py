#!/usr/bin/env python3
"""Measures what serving many at once costs: bookkeeping, streams side by side, cached prompts, long prompts.

    bench/serving.py --penstock build/release/src/penstock --model MODEL [--rounds 3] [--threads 2] [--out bench/results/NAME.json]

Starts `penstock serve` and talks to it as clients do, from this process (whose own share of the processors is in the
numbers: both run on the same cores). Each ratio compares two measurements of one round; what is printed are medians over
the rounds.

  bookkeeping   processor time of everything but kernels (planning, sampling, the server's threads) per decode step, as a
                share of the step, with 1 and with 8 streams
  streams       tokens per second of 8 streams over those of one
  cached        time to the first token of a prompt whose first 1,000 tokens are cached, over the same prompt cold
  long_prompt   the speed a stream keeps while 8,000 tokens are prefilled, and the longest gap over its usual step, which is
                measured before the prompt comes and after it is done
"""
import argparse
import http.client
import json
import pathlib
import re
import statistics
import subprocess
import sys
import threading
import time

from measuring import ForeignShare, circumstances, write_report

WORDS = ("the river runs past old stone houses and green fields where children play until evening comes and boats return "
         "with fish for every table in town").split()


def main():
    options = parse_arguments()
    rounds = []
    for number in range(options.rounds):
        others = ForeignShare()
        with Server(options) as server:
            result = {"bookkeeping": {str(n): bookkeeping(server, n) for n in (1, 8)}, "streams": streams(server),
                      "cached": cached(server), "long_prompt": long_prompt(server)}
        result["share_of_processors_others_and_clients_took"] = others.so_far()
        rounds.append(result)
        print(f"round {number + 1}/{options.rounds}  {json.dumps(result)}", file=sys.stderr, flush=True)
    write_report(circumstances(options) | {"medians": medians(rounds), "rounds": rounds}, options.out)


def bookkeeping(server, n_streams):
    """One measurement over the middle of n streams' answers: differences of counters, after the prompts are done."""
    clients = [threading.Thread(target=server.ask, args=(f"Tell me story number {i}.", 400)) for i in range(n_streams)]
    for client in clients:
        client.start()
    time.sleep(1.0)
    before = server.counters()
    time.sleep(1.5)
    after = server.counters()
    for client in clients:
        client.join()
    spent = {name: after[name] - before[name] for name in after}
    step_seconds = spent["plan"] + spent["model"] + spent["sample"]
    return {"steps": spent["steps"], "step_s": step_seconds / spent["steps"], "engine": spent["engine"] / step_seconds,
            "server_threads": spent["server_threads"] / step_seconds,
            "share_of_step": (spent["engine"] + spent["server_threads"]) / step_seconds}


def streams(server):
    def rate(n):
        began = time.monotonic()
        clients = [threading.Thread(target=server.ask, args=(f"Tell me tale {n} {i}.", 128)) for i in range(n)]
        for client in clients:
            client.start()
        for client in clients:
            client.join()
        return n * 128 / (time.monotonic() - began)
    one, eight = rate(1), rate(8)
    return {"one_tok_s": one, "eight_tok_s": eight, "ratio": eight / one}


def cached(server):
    server.drop_cache()
    known, ending = prose(930, seed=1), " ".join(reversed(prose(38, seed=2).split()))
    cold = server.ask(f"{known} {ending}", 1)
    server.drop_cache()
    server.ask(known, 1)
    hit = server.ask(f"{known} {ending}", 1)
    return {"prompt_tokens": hit["usage"]["prompt_tokens"],
            "cached_tokens": hit["usage"]["prompt_tokens_details"]["cached_tokens"],
            "cold_s": cold["times"][0], "hit_s": hit["times"][0], "ratio": hit["times"][0] / cold["times"][0]}


def long_prompt(server):
    server.drop_cache()
    talk, enough = {}, threading.Event()
    speaker = threading.Thread(target=lambda: talk.update(server.ask("Tell me a very long story.", 8000, enough)))
    speaker.start()
    time.sleep(1.5)
    began = time.monotonic()
    long = server.ask(prose(7600, seed=3), 1)
    ended = time.monotonic()
    time.sleep(1.5)
    if not speaker.is_alive():
        raise RuntimeError("the answer beside the long prompt ended before it")
    enough.set()
    speaker.join()
    moments = [talk["began"] + at for at in talk["times"]]
    steps = list(zip(moments, moments[1:]))
    before = statistics.median(b - a for a, b in steps if b < began)
    after = statistics.median(b - a for a, b in steps if a > ended)
    during = [b - a for a, b in steps if began < a and b < ended]
    # The answer grows meanwhile, and so does what a step of it takes when nothing disturbs it.
    usual = [before + (after - before) * i / len(during) for i in range(len(during))]
    gaps = sorted(step / usual_step for step, usual_step in zip(during, usual))
    return {"prompt_tokens": long["usage"]["prompt_tokens"], "prompt_s": long["times"][0], "usual_step_s": [before, after],
            "steps_during": len(during), "speed_kept": sum(usual) / sum(during), "longest_gap_in_steps": gaps[-1],
            "p99_gap_in_steps": gaps[int(0.99 * len(gaps))]}


def prose(n_words, seed):
    return " ".join(WORDS[(i * 7 + i // 11 * seed + seed * 13) % len(WORDS)] for i in range(n_words))


def medians(rounds):
    if isinstance(rounds[0], list):
        return [medians(entries) for entries in zip(*rounds)]
    if isinstance(rounds[0], dict):
        return {name: medians([entry[name] for entry in rounds]) for name in rounds[0]}
    return statistics.median(rounds)


class Server:
    def __init__(self, options):
        self.options = options

    def __enter__(self):
        command = [self.options.penstock, "serve", self.options.model, "--port", "0", "--kv-tokens", "32768", "--threads", str(self.options.threads)]
        self.process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
        log = ""
        for line in self.process.stderr:
            log += line
            if " ready: " in line:
                break
        self.port = int(re.search(r" on http://127\.0\.0\.1:(\d+)", log).group(1))
        threading.Thread(target=self.process.stderr.read, daemon=True).start()
        self.name = self.get("/v1/models")["data"][0]["id"]
        self.ask("Hello.", 8)
        return self

    def __exit__(self, *_):
        self.process.terminate()
        self.process.wait()

    def request(self, method, path, body=None):
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=600)
        connection.request(method, path, None if body is None else json.dumps(body), {"Content-Type": "application/json"})
        return connection.getresponse()

    def get(self, path):
        return json.loads(self.request("GET", path).read())

    def drop_cache(self):
        self.request("POST", "/v1/cache/drop", {}).read()

    def ask(self, prompt, max_tokens, enough=None):
        """One greedy stream, to its full length or until `enough` is set; when each token's event came, in seconds from its beginning."""
        began = time.monotonic()
        response = self.request("POST", "/v1/completions", {
            "model": self.name, "prompt": prompt, "max_tokens": max_tokens, "temperature": 0, "ignore_eos": True, "stream": True,
            "stream_options": {"include_usage": True}})
        times, usage = [], None
        for line in response:
            if enough is not None and enough.is_set():
                response.close()
                break
            if not line.startswith(b"data: {"):
                continue
            event = json.loads(line[6:])
            if "error" in event:
                raise RuntimeError(event["error"]["message"])
            usage = event.get("usage") or usage
            if event["choices"] and event["choices"][0].get("text"):
                times.append(time.monotonic() - began)
        return {"began": began, "times": times, "usage": usage}

    def counters(self):
        metrics = self.request("GET", "/metrics").read().decode()
        found = {part: float(re.search(rf'^penstock_step_seconds_total\{{part="{part}"\}} (\S+)$', metrics, re.M).group(1))
                 for part in ("plan", "model", "sample")}
        found["engine"] = float(re.search(r"^penstock_bookkeeping_cpu_seconds_total (\S+)$", metrics, re.M).group(1))
        found["steps"] = float(re.search(r"^penstock_steps_total (\S+)$", metrics, re.M).group(1))
        found["server_threads"] = sum(seconds for name, seconds in self.threads() if name.startswith("http"))
        return found

    def threads(self):
        """Each thread's name and processor time in seconds, to the nanosecond."""
        for task in pathlib.Path(f"/proc/{self.process.pid}/task").iterdir():
            yield (task / "comm").read_text().strip(), int((task / "schedstat").read_text().split()[0]) / 1e9


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--penstock", required=True)
    parser.add_argument("--model", required=True)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--out", type=pathlib.Path)
    return parser.parse_args()


if __name__ == "__main__":
    main()
