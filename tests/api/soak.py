"""Soaks a server: random lengths, random aborts, malformed requests, on all routes at once. At the end pages, file
descriptors and memory are back where they began, and a known prompt still has its known answer.

    PENSTOCK_BIN=... PENSTOCK_TEST_MODEL=... python tests/api/soak.py --minutes 10

Prints its seed; --seed repeats the choices (not the timing). Exits with 1 and says what is wrong.
"""
import argparse
import collections
import json
import os
import pathlib
import random
import sys
import threading
import time

import raw
from conftest import GOLDEN, Server

KEYS = ["sk-soak-one", "sk-soak-two"]
WORDS = "xyzzy plugh frobozz quux grault garply waldo corge wibble wobble".split()  # in no log by chance
KV_TOKENS = 2048  # few enough that requests take pages from each other
RSS_SLACK = 48 * 2**20  # the allocator's arenas, of threads that had been idle at the first look


def headers(key=KEYS[0]):
    return {"Authorization": f"Bearer {key}", "Content-Type": "application/json"}


class Soak:
    def __init__(self, server, seed, golden):
        self.server, self.seed, self.golden = server, seed, golden
        self.counts = collections.Counter()
        self.faults = []
        self.lock = threading.Lock()

    def count(self, what):
        with self.lock:
            self.counts[what] += 1

    def fault(self, what):
        with self.lock:
            self.faults.append(what)

    def ask(self, method, path, body=b"", key=KEYS[0]):
        return raw.ask(self.server.port, method, path, body, headers(key))

    def expect(self, answer, what, *statuses):
        self.count(f"{what} {answer.status}")
        if answer.status not in statuses:
            self.fault(f"{what}: {answer.status} {answer.body[:300]!r}")
        return answer

    # What a client may do. Each takes the thread's own generator of random numbers.

    def generate(self, random_, aborts=False):
        prompt = " ".join(random_.choices(WORDS, k=random_.choice([1, 5, 40, 100, 300])))
        fields = {"max_tokens": random_.choice([1, 2, 8, 30, 80]), "stream": random_.random() < 0.6, "n": random_.choice([1, 1, 1, 2, 3]),
                  "temperature": random_.choice([0, 0.7, 1.5]), "ignore_eos": random_.random() < 0.5}
        if random_.random() < 0.3:
            fields["stop"] = random_.choice(["the", ["\n", "quux"]])
        if random_.random() < 0.5:
            path, body = "/v1/chat/completions", raw.chat_body(prompt, **fields)
        else:
            path, body = "/v1/completions", json.dumps({"prompt": [prompt, "short"], "echo": random_.random() < 0.3, **fields}).encode()
        if not aborts:
            return self.expect(self.ask("POST", path, body, random_.choice(KEYS)), "generate", 200, 429, 503)
        with raw.Connection(self.server.port) as connection:
            connection.request("POST", path, body, headers(random_.choice(KEYS)))
            if random_.random() < 0.5:
                time.sleep(random_.random() * 2)  # queued, in a chunk of the prompt, decoding: wherever it is
            else:
                connection.file.readline()
        self.count("aborted")

    def abort(self, random_):
        self.generate(random_, aborts=True)

    def cancel(self, random_):
        running = self.ask("GET", "/v1/requests").json()["data"]
        if running:
            self.expect(self.ask("DELETE", f"/v1/requests/{random_.choice(running)['id']}"), "cancel", 200, 404)

    def known(self, random_):
        self.known_answer(random_.choice(self.golden))

    def known_answer(self, case):
        body = json.dumps({"messages": case["messages"], "temperature": 0, "max_tokens": len(case["tokens"])}).encode()
        answer = self.expect(self.ask("POST", "/v1/chat/completions", body), "known", 200, 429, 503)
        if answer.status == 200 and answer.json()["choices"][0]["message"]["content"] != case["text"]:
            self.fault(f"a known prompt got {answer.body!r}")

    def malformed(self, random_):
        body = random_.choice([b"", b"{", b"[]", b'{"messages": 5}', b'{"prompt": []}', b'{"prompt": [99999999]}', b"[" * 100_000,
                               b'{"prompt": {}, "tokens": {}}', b"\xff\xfe", random_.randbytes(200)])
        path = random_.choice(["/v1/chat/completions", "/v1/completions", "/tokenize", "/detokenize"])
        self.expect(self.ask("POST", path, body), "malformed", 400)

    def no_http(self, random_):
        with raw.Connection(self.server.port) as connection:
            connection.send(random_.choice([random_.randbytes(100), b"GET /health HT", b"POST / HTTP/1.1\r\nContent-Length: 50\r\n\r\nx",
                                            b"GET / HTTP/1.1\r\nX: " + b"y" * 20_000, b"\r\n\r\n\r\n"]))
            if random_.random() < 0.3:
                time.sleep(0.2)
        self.count("no HTTP")

    def look(self, random_):
        path = random_.choice(["/health", "/metrics", "/v1/models", "/v1/status", "/v1/requests"])
        self.expect(self.ask("GET", path), "look", 200)

    def tokenize(self, random_):
        text = " ".join(random_.choices(WORDS, k=50)) + random_.choice(["", "<|im_end|>", "ö🦙"])
        ids = self.expect(self.ask("POST", "/tokenize", json.dumps({"prompt": text}).encode()), "tokenize", 200).json()["tokens"]
        back = self.expect(self.ask("POST", "/detokenize", json.dumps({"tokens": ids}).encode()), "detokenize", 200).json()["prompt"]
        if back != text:
            self.fault(f"{text!r} came back as {back!r}")

    def stranger(self, random_):
        self.expect(raw.ask(self.server.port, "POST", "/v1/completions", b'{"prompt": "a"}'), "stranger", 401)

    def drop(self, random_):
        self.expect(self.ask("POST", "/v1/cache/drop", b"{}"), "drop", 200)

    def client(self, index, end):
        random_ = random.Random(self.seed * 1000 + index)
        acts = {self.generate: 6, self.abort: 6, self.cancel: 2, self.known: 2, self.malformed: 4, self.no_http: 3, self.look: 3,
                self.tokenize: 2, self.stranger: 1, self.drop: 1}
        while time.monotonic() < end and not self.faults:
            act, = random_.choices(list(acts), weights=list(acts.values()))
            try:
                act(random_)
            except Exception as error:  # the server closed without an answer, or answered nonsense
                self.fault(f"{act.__name__}: {type(error).__name__} {error}")

    def run(self, seconds, n_clients):
        end = time.monotonic() + seconds
        clients = [threading.Thread(target=self.client, args=(i, end)) for i in range(n_clients)]
        for client in clients:
            client.start()
        for client in clients:
            client.join()

    def fill_the_cache(self):
        """Memory that no page has used yet is not there yet: uses all of them."""
        limit = self.ask("GET", "/v1/models").json()["data"][0]["max_model_len"]
        body = json.dumps({"prompt": [i % 1000 for i in range(limit)], "max_tokens": 1}).encode()
        self.expect(self.ask("POST", "/v1/completions", body), "fill", 200)

    def at_rest(self):
        """What is held when nothing runs: (free pages, descriptors, bytes of memory)."""
        for _ in range(1200):
            status = self.ask("GET", "/v1/status").json()
            if status["waiting"] == status["running"] == 0 and status["connections"] == 1:
                break
            time.sleep(0.1)
        else:
            self.fault(f"it does not come to rest: {status}")
        self.ask("POST", "/v1/cache/drop", b"{}")
        status = self.ask("GET", "/v1/status").json()
        if status["pages"]["free"] != status["pages"]["total"]:
            self.fault(f"pages are lost: {status['pages']}")
        process = pathlib.Path(f"/proc/{self.server.process.pid}")
        rss = int(process.joinpath("statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
        return status["pages"]["free"], fewest_descriptors(process), rss


def fewest_descriptors(process):
    """Our own last connection may still be closing."""
    counts = []
    for _ in range(20):
        counts.append(len(list(process.joinpath("fd").iterdir())))
        time.sleep(0.1)
    return min(counts)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--minutes", type=float, default=10)
    parser.add_argument("--clients", type=int, default=8)
    parser.add_argument("--seed", type=int, default=random.randrange(10**6))
    options = parser.parse_args()
    print(f"seed {options.seed}, {options.minutes:g} minutes, {options.clients} clients", flush=True)
    os.environ["PENSTOCK_API_KEY"] = KEYS[1]
    server = Server("--api-key", KEYS[0], "--request-timeout", "120", "--kv-tokens", str(KV_TOKENS))
    try:
        server.wait_until_ready()
        soak = Soak(server, options.seed, json.loads(GOLDEN.read_text(encoding="utf-8"))["chat"])
        soak.fill_the_cache()
        soak.run(min(20, options.minutes * 10), options.clients)  # every buffer has grown once
        before = soak.at_rest()
        soak.run(options.minutes * 60, options.clients)
        after = soak.at_rest()
        for case in soak.golden:
            soak.known_answer(case)
        log = server.log()
    finally:
        server.stop()
    for name, was, now, slack in zip(("free pages", "descriptors", "memory"), before, after, (0, 0, RSS_SLACK)):
        print(f"{name}: {was} before, {now} after")
        if abs(now - was) > slack:
            soak.fault(f"{name}: {was} before, {now} after")
    if any(secret in log for secret in [*KEYS, *WORDS]):
        soak.fault("the log has words of prompts, or keys")
    for what, n in sorted(soak.counts.items()):
        print(f"{n:7d}  {what}")
    print("\n".join(soak.faults) or "nothing was lost")
    return 1 if soak.faults else 0


if __name__ == "__main__":
    sys.exit(main())
