"""The program under test, and what its tests have in common."""
import json
import os
import pathlib
import pty
import re
import select
import signal
import subprocess
import sys
import tempfile
import time
import unittest
import urllib.request

PENSTOCK = str(pathlib.Path(sys.argv.pop(1)).resolve())  # what every test script takes as its first argument
ROOT = pathlib.Path(__file__).resolve().parents[2]
TINY = ROOT / "tests/golden/models/llama"  # a random model of 96 tokens, without a tokenizer
MIXTURE = ROOT / "tests/golden/models/qwen3_moe"
PATIENCE = float(os.environ.get("PENSTOCK_TEST_PATIENCE", 1))  # slow builds ask for a multiple of every limit
REFERENCE = json.loads((ROOT / "tests/golden/smollm2.json").read_text())["chat"][0]
QUESTION, ANSWER = REFERENCE["messages"][0]["content"], REFERENCE["text"]


def penstock(*args, stdin="", env=None):
    return subprocess.run([PENSTOCK, *map(str, args)], input=stdin, capture_output=True, encoding="utf-8", timeout=300 * PATIENCE,
                          env=os.environ | (env or {}))


def smollm2():
    fetched = subprocess.run([ROOT / "scripts/fetch_smollm2.sh"], stdout=subprocess.PIPE, encoding="utf-8", check=True)
    return fetched.stdout.strip()


class Folder(unittest.TestCase):
    """A test with a folder of its own."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def file(self, name, content):
        path = self.folder / name
        path.write_text(content)
        return path

    def refused(self, done, status, *words):
        """One readable message on stderr, nothing on stdout."""
        self.assertEqual((done.returncode, done.stdout), (status, ""), done.stderr)
        self.assertTrue(done.stderr.startswith("error: "), done.stderr)
        for word in words:
            self.assertIn(str(word), done.stderr)
        self.assertEqual(len(done.stderr.strip().splitlines()), 2 if status == 2 else 1, done.stderr)


class Terminal:
    """A command on a pseudo-terminal."""

    def __init__(self, *args, state, **env):
        self.screen = ""
        self.pid, self.fd = pty.fork()
        if self.pid == 0:
            os.execve(PENSTOCK, [PENSTOCK, *args], os.environ | {"TERM": "xterm", "XDG_STATE_HOME": str(state)} | env)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        os.close(self.fd)
        if self.pid:
            os.kill(self.pid, signal.SIGKILL)
            os.waitpid(self.pid, 0)

    def type(self, keys):
        os.write(self.fd, keys.encode())

    def expect(self, text, seconds=60):
        """Waits until `text` shows, and forgets the screen up to its end."""
        limit = time.monotonic() + seconds * PATIENCE
        while text not in self.screen:
            if not select.select([self.fd], [], [], max(0, limit - time.monotonic()))[0]:
                raise AssertionError(f"no {text!r} within {seconds * PATIENCE} s in {self.screen!r}")
            self.screen += os.read(self.fd, 4096).decode(errors="replace")
        self.screen = self.screen.split(text, 1)[1]

    def status(self):
        pid, status = os.waitpid(self.pid, 0)
        self.pid = None
        return os.waitstatus_to_exitcode(status)


class Server:
    """`penstock serve` with SmolLM2 on a free port, ready."""

    def __enter__(self):
        self.process = subprocess.Popen([PENSTOCK, "serve", smollm2(), "--port", "0"], stderr=subprocess.PIPE, encoding="utf-8")
        self.log = ""
        for line in self.process.stderr:
            self.log += line
            if " ready: " in line:
                break
        self.port = int(re.search(r"listening on http://127\.0\.0\.1:(\d+)", self.log).group(1))
        return self

    def __exit__(self, *_):
        if self.process.poll() is None:
            self.process.kill()
        self.process.communicate()

    @property
    def url(self):
        return f"http://127.0.0.1:{self.port}"

    def open(self, messages, **fields):
        body = {"model": "SmolLM2-135M-Instruct.Q4_1", "messages": messages, "temperature": 0, **fields}
        request = urllib.request.Request(f"{self.url}/v1/chat/completions", json.dumps(body).encode(),
                                         {"Content-Type": "application/json"})
        return urllib.request.urlopen(request, timeout=60 * PATIENCE)
