"""Starts `penstock serve` on a free port; the model is SmolLM2 in some form (README.md)."""
import json
import os
import pathlib
import re
import signal
import subprocess
import threading
import time

import openai
import pytest
import raw

GOLDEN = pathlib.Path(__file__).parent.parent / "golden" / "smollm2.json"
START_SECONDS = 120 * raw.PATIENCE
TEST_SECONDS = 300 * raw.PATIENCE


def pytest_collection_modifyitems(items):
    for item in items:
        item.add_marker(pytest.mark.timeout(TEST_SECONDS))


class Server:
    """A running `penstock serve`, and everything it has written to stderr.

    It computes in the class `exact` unless told otherwise: there a request alone equals the same beside others, or behind
    a cached prefix, to the bit (docs/design.md 6a).
    """

    def __init__(self, *arguments, environment=None):
        binary, model = os.environ["PENSTOCK_BIN"], os.environ["PENSTOCK_TEST_MODEL"]
        where = [] if "--unix-socket" in arguments else ["--port", "0"]
        precision = [] if "--cpu-precision" in arguments else ["--cpu-precision", "exact"]
        self.process = subprocess.Popen(
            [binary, "serve", model, *where, "--name", "smollm2", *precision, *arguments], stderr=subprocess.PIPE, text=True,
            env={**os.environ, **(environment or {})})
        self.port = None
        self.lines = []
        self.is_listening = threading.Event()
        self.reader = threading.Thread(target=self._read, daemon=True)
        self.reader.start()
        if not self.is_listening.wait(START_SECONDS):
            raise RuntimeError("the server did not say where it listens:\n" + self.log())

    def _read(self):
        for line in self.process.stderr:
            self.lines.append(line)
            if found := re.search(r"listening on (?:unix:|http://127\.0\.0\.1:(\d+))", line):
                self.port = int(found[1]) if found[1] else None
                self.is_listening.set()

    def log(self):
        return "".join(self.lines)

    def client(self, **options):
        return openai.OpenAI(base_url=f"http://127.0.0.1:{self.port}/v1", api_key="sk-secret-key", max_retries=0, **options)

    def wait_until_ready(self):
        for _ in range(int(START_SECONDS * 10)):
            if self.process.poll() is not None:
                break
            if raw.ask(self.port, "GET", "/health").status == 200:
                return self
            time.sleep(0.1)
        raise RuntimeError("the server did not become ready:\n" + self.log())

    def wait_for_line(self, text):
        for _ in range(int(START_SECONDS * 10)):
            if text in self.log():
                return
            time.sleep(0.1)
        raise RuntimeError(f"the server did not say {text!r}:\n" + self.log())

    def terminate(self):
        self.process.send_signal(signal.SIGTERM)

    def stop(self):
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        self.reader.join()


@pytest.fixture(scope="session")
def server():
    running = Server()
    yield running.wait_until_ready()
    running.stop()


@pytest.fixture
def own_server():
    """Makes servers for one test alone."""
    started = []

    def start(*arguments, **options):
        started.append(Server(*arguments, **options))
        return started[-1]

    yield start
    for running in started:
        running.stop()


@pytest.fixture(scope="session")
def golden():
    return json.loads(GOLDEN.read_text(encoding="utf-8"))["chat"]
