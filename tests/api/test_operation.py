"""Keys, paths, status, cancelling, stopping: what those who run a server do."""
import http.client
import json
import os
import pathlib
import re
import socket
import stat
import tempfile
import time

import openai
import pytest
import raw

JSON_HEADERS = {"Content-Type": "application/json"}
ENDLESS = dict(max_tokens=100_000, stream=True, ignore_eos=True)


def wait_for(condition, seconds=60):
    end = time.monotonic() + seconds * raw.PATIENCE
    while not (result := condition()):
        assert time.monotonic() < end, "it did not happen"
        time.sleep(0.05)
    return result


def requests(port, key=None):
    return raw.ask(port, "GET", "/v1/requests", headers={"Authorization": f"Bearer {key}"} if key else {}).json()["data"]


def test_status_says_where_the_tokens_went(server):
    before = raw.ask(server.port, "GET", "/v1/status").json()
    assert before["state"] == "ready" and before["model"] == "smollm2"
    raw.chat(server.port, raw.chat_body(max_tokens=4, ignore_eos=True))
    after = wait_for(lambda: (now := raw.ask(server.port, "GET", "/v1/status").json())["running"] == 0 and now)
    # The prompt's last step gives the first token, and the last one goes into no step.
    assert after["tokens"]["decode"] - before["tokens"]["decode"] == 3
    assert after["prefix"]["prompt_tokens"] > before["prefix"]["prompt_tokens"]
    assert after["pages"]["free"] + after["pages"]["cached"] <= after["pages"]["total"]


def test_a_request_is_listed_and_cancelled(server):
    with raw.Connection(server.port) as connection:
        connection.request("POST", "/v1/chat/completions", raw.chat_body("plugh", **ENDLESS))
        assert connection.header()[0] == 200
        (listed,) = wait_for(lambda: [r for r in requests(server.port) if r["completion_tokens"] > 1])
        assert set(listed) == {"id", "route", "state", "prompt_tokens", "completion_tokens", "age_s"}
        assert listed["state"] == "decoding"
        answer = raw.ask(server.port, "DELETE", f"/v1/requests/{listed['id']}", headers=JSON_HEADERS)
        assert answer.json() == {"id": listed["id"], "cancelled": True}
        events = b"".join(connection.chunks())
        assert listed["id"].encode() in events
        assert json.loads(events.split(b"data: ")[-1])["error"]["code"] == "cancelled"
    assert raw.ask(server.port, "DELETE", f"/v1/requests/{listed['id']}", headers=JSON_HEADERS).status == 404
    assert requests(server.port) == []


def test_dropping_the_cache_makes_a_prompt_cold_again(server):
    def cached():
        usage = raw.chat(server.port, raw.chat_body("word " * 200, max_tokens=1)).json()["usage"]
        return usage["prompt_tokens_details"]["cached_tokens"]

    cached()
    assert cached() > 128
    wait_for(lambda: raw.ask(server.port, "GET", "/v1/status").json()["running"] == 0)
    dropped = raw.ask(server.port, "POST", "/v1/cache/drop", b"{}", JSON_HEADERS).json()
    assert dropped["pages_freed"] >= 2
    assert cached() == 0


@pytest.mark.parametrize("path", ["/v1/stop", "/v1/cache/drop"])
@pytest.mark.parametrize("headers, status", [
    ({}, 415), ({"Content-Type": "text/plain"}, 415), ({"Content-Type": "application/x-www-form-urlencoded"}, 415),
    ({**JSON_HEADERS, "Origin": "http://evil.example"}, 403), ({**JSON_HEADERS, "Origin": "null"}, 403),
    ({**JSON_HEADERS, "Host": "evil.example"}, 403)])
def test_web_pages_cannot_administer(server, path, headers, status):
    assert raw.ask(server.port, "POST", path, b"{}", headers).status == status
    assert raw.ask(server.port, "GET", "/health").status == 200


def test_keys_open_and_are_nowhere_to_be_seen(own_server, tmp_path):
    (tmp_path / "keys").write_text("# mine\nsk-from-file\n")
    server = own_server("--api-key", "sk-from-flag", "--api-key-file", str(tmp_path / "keys"),
                        environment={"PENSTOCK_API_KEY": "sk-from-environment"}).wait_until_ready()
    command_line = pathlib.Path(f"/proc/{server.process.pid}/cmdline").read_bytes()
    assert b"sk-from-flag" not in command_line and b"--api-key\0xxxxxxxxxxxx\0" in command_line
    for key in ("sk-from-flag", "sk-from-file", "sk-from-environment"):
        client = openai.OpenAI(base_url=f"http://127.0.0.1:{server.port}/v1", api_key=key, max_retries=0)
        assert client.models.list().data[0].id == "smollm2"
        assert client.completions.create(model="smollm2", prompt="xyzzy", max_tokens=1).choices
    for key in ("sk-from", "sk-from-flagg", "SK-FROM-FLAG"):
        client = openai.OpenAI(base_url=f"http://127.0.0.1:{server.port}/v1", api_key=key, max_retries=0)
        with pytest.raises(openai.AuthenticationError):
            client.models.list()
        with pytest.raises(openai.AuthenticationError):
            client.completions.create(model="smollm2", prompt="a", max_tokens=1)
    assert raw.ask(server.port, "GET", "/health").status == 200
    assert raw.ask(server.port, "GET", "/metrics").status == 401
    time.sleep(0.2)
    log = server.log()
    assert "/v1/completions" in log
    for secret in ("sk-from", "SK-FROM", "xyzzy"):
        assert secret not in log


def test_a_path_instead_of_a_port(own_server):
    with tempfile.TemporaryDirectory() as folder:
        path = f"{folder}/socket"
        server = own_server("--unix-socket", path)
        server.wait_for_line("ready: serving")
        assert stat.S_IMODE(os.stat(path).st_mode) == 0o600
        with socket.socket(socket.AF_UNIX) as connection:
            connection.connect(path)
            client = http.client.HTTPConnection("localhost")
            client.sock = connection
            client.request("POST", "/v1/chat/completions", raw.chat_body(max_tokens=2))
            assert json.load(client.getresponse())["choices"]
        server.terminate()
        assert server.process.wait(60 * raw.PATIENCE) == 0
        assert not os.path.exists(path)


def test_stop_drains_like_a_signal(own_server):
    server = own_server("--drain-seconds", str(round(200 * raw.PATIENCE))).wait_until_ready()
    with raw.Connection(server.port) as running:
        running.request("POST", "/v1/chat/completions", raw.chat_body(max_tokens=60, stream=True, ignore_eos=True))
        assert running.header()[0] == 200
        chunks = running.chunks()
        next(chunks)
        assert raw.ask(server.port, "POST", "/v1/stop", b"{}", JSON_HEADERS).status == 202
        assert b"".join(chunks).endswith(b"data: [DONE]\n\n")
    assert server.process.wait(60 * raw.PATIENCE) == 0


def test_draining_has_an_end(own_server):
    # Long enough that a busy machine refuses a request before it is over.
    server = own_server("--drain-seconds", "6").wait_until_ready()
    with raw.Connection(server.port) as running:
        running.request("POST", "/v1/chat/completions", raw.chat_body(**ENDLESS))
        assert running.header()[0] == 200
        server.terminate()
        refused = wait_for(lambda: (a := raw.chat(server.port, raw.chat_body(max_tokens=1))).status == 503 and a)
        assert "retry-after" in refused.headers
        assert server.process.wait(60 * raw.PATIENCE) == 0
        assert "cut off" in server.log()
        assert re.search(r"a single stream decoded [\d.]+ tok/s \(\d+ tokens", server.log())


def test_a_request_may_take_only_so_long(own_server):
    server = own_server("--request-timeout", "1").wait_until_ready()
    begun = time.monotonic()
    answer = raw.chat(server.port, raw.chat_body(**{**ENDLESS, "stream": False}))
    assert answer.status == 503 and answer.json()["error"]["code"] == "cancelled"
    assert 0.9 < time.monotonic() - begun < 30
    assert wait_for(lambda: raw.ask(server.port, "GET", "/v1/status").json()["running"] == 0)


def test_a_stream_that_waits_says_it_is_alive(own_server):
    server = own_server("--keep-alive-seconds", "0.2").wait_until_ready()
    n_words = int(4000 / raw.PATIENCE)  # some seconds of reading
    with raw.Connection(server.port) as connection:
        connection.request("POST", "/v1/chat/completions", raw.chat_body("word " * n_words, max_tokens=1, stream=True))
        events = connection.response().body
    assert b": keep-alive\n\n" in events
    assert events.endswith(b"data: [DONE]\n\n")
    # Comments are none of a client's business.
    with server.client() as client:
        chunks = list(client.completions.create(model="smollm2", prompt="word " * (n_words + 100), max_tokens=2, stream=True))
    assert chunks[-1].choices[0].finish_reason


def test_the_dashboard_asks_for_what_there_is(server):
    raw.chat(server.port, raw.chat_body(max_tokens=3))
    text = raw.ask(server.port, "GET", "/metrics").body.decode()
    there = {line.split("{")[0].split(" ")[0] for line in text.splitlines() if line and not line.startswith("#")}
    dashboard = json.loads((pathlib.Path(__file__).parents[2] / "docs" / "grafana.json").read_text(encoding="utf-8"))
    asked = set()
    for panel in dashboard["panels"]:
        for target in panel.get("targets", []):
            asked |= set(re.findall(r"penstock_\w+", target["expr"]))
    # Told only where experts stay on disk (src/server/admin_test.cc).
    of_experts = {"penstock_expert_uses_total", "penstock_expert_prefetches_total", "penstock_expert_read_bytes_total",
                  "penstock_expert_wait_seconds_total"}
    assert of_experts <= asked
    assert len(asked) > 10
    assert asked - of_experts <= there, asked - there
    # And nothing that is told goes unseen, but for what only dates a process.
    families = {name.removesuffix("_bucket").removesuffix("_sum").removesuffix("_count") for name in there}
    shown = {name.removesuffix("_bucket").removesuffix("_sum").removesuffix("_count") for name in asked}
    assert families - shown <= {"penstock_build_info"}


@pytest.mark.parametrize("sharing, shared", [("all", True), ("key", False), ("off", False)])
def test_prefix_sharing(own_server, sharing, shared):
    server = own_server("--api-key", "sk-a", "--api-key", "sk-b", "--prefix-sharing", sharing)
    wait_for(lambda: server.process.poll() is None and raw.ask(server.port, "GET", "/health").status == 200, 240)

    def cached(key):
        answer = raw.ask(server.port, "POST", "/v1/chat/completions", raw.chat_body("word " * 200, max_tokens=1),
                         {"Authorization": f"Bearer {key}"})
        return answer.json()["usage"]["prompt_tokens_details"]["cached_tokens"]

    assert cached("sk-a") == 0
    assert (cached("sk-b") > 0) == shared
    assert (cached("sk-a") > 0) == (sharing != "off")
