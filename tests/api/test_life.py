"""How a server starts and ends."""
import os
import signal
import subprocess
import time

import raw


def test_bc_64_loading_is_a_503_and_readiness_is_real(own_server):
    server = own_server()
    statuses = set()
    while 200 not in statuses:
        answer = raw.ask(server.port, "GET", "/health")
        statuses.add(answer.status)
        if answer.status == 503:
            assert answer.json()["status"] == "loading"
            early = raw.chat(server.port, raw.chat_body(max_tokens=1))
            assert early.status in (503, 200)
            if early.status == 503:
                assert "retry-after" in early.headers
                assert "loading" in early.json()["error"]["message"]
    assert raw.chat(server.port, raw.chat_body(max_tokens=1)).status == 200
    assert statuses <= {200, 503}


def test_sigterm_finishes_what_runs_and_refuses_what_comes(own_server):
    server = own_server("--drain-seconds", str(round(200 * raw.PATIENCE))).wait_until_ready()
    with raw.Connection(server.port) as running:
        running.request("POST", "/v1/chat/completions", raw.chat_body(max_tokens=150, stream=True, ignore_eos=True))
        assert running.header()[0] == 200
        chunks = running.chunks()
        next(chunks)
        server.terminate()
        refusals = set()
        events = b""
        for chunk in chunks:
            events += chunk
            if not refusals:
                refusals.add(raw.chat(server.port, raw.chat_body(max_tokens=1)).status)
        assert events.endswith(b"data: [DONE]\n\n")
        assert b'"finish_reason":"length"' in events
        assert refusals <= {200, 503}  # 200 only if it came before the signal did
    assert server.process.wait(60 * raw.PATIENCE) == 0


def test_a_second_signal_does_not_wait(own_server):
    server = own_server().wait_until_ready()
    with raw.Connection(server.port) as running:
        running.request("POST", "/v1/chat/completions", raw.chat_body(max_tokens=100_000, stream=True, ignore_eos=True))
        assert running.header()[0] == 200
        server.terminate()
        time.sleep(0.5)
        assert server.process.poll() is None, "it did not wait for the running answer"
        server.process.send_signal(signal.SIGINT)
        server.process.wait(30)


def test_idle_servers_end_at_once(own_server):
    server = own_server().wait_until_ready()
    begun = time.monotonic()
    server.terminate()
    assert server.process.wait(30) == 0
    assert time.monotonic() - begun < 15


def test_bc_29_a_port_in_use_is_said(own_server, server):
    second = subprocess.run(
        [os.environ["PENSTOCK_BIN"], "serve", os.environ["PENSTOCK_TEST_MODEL"], "--port", str(server.port)],
        capture_output=True, text=True, timeout=120 * raw.PATIENCE)
    assert second.returncode == 1
    assert str(server.port) in second.stderr.strip().splitlines()[-1]
