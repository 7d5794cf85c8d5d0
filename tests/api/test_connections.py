"""Clients that leave, dawdle or ask out of turn."""
import time

import raw

ENDLESS = dict(max_tokens=100_000, stream=True, ignore_eos=True)


def seconds_for_a_short_answer(server):
    begun = time.monotonic()
    assert raw.chat(server.port, raw.chat_body(max_tokens=2)).status == 200
    return time.monotonic() - begun


def test_bc_58_leaving_ends_the_request(server):
    """Were any of the 20 still running, each step would carry it along and the short answer would be slow."""
    undisturbed = min(seconds_for_a_short_answer(server) for _ in range(3))
    for i in range(20):
        with raw.Connection(server.port) as connection:
            connection.request("POST", "/v1/chat/completions", raw.chat_body(**{**ENDLESS, "stream": i % 2 == 0}))
            if i % 2 == 0:
                assert connection.header()[0] == 200
    time.sleep(1)
    assert min(seconds_for_a_short_answer(server) for _ in range(3)) < 4 * undisturbed + 0.2


def test_two_requests_sent_before_the_first_answer(server):
    with raw.Connection(server.port) as connection:
        connection.request("POST", "/v1/chat/completions", raw.chat_body(max_tokens=3))
        connection.request("GET", "/health")
        assert connection.response().json()["object"] == "chat.completion"
        assert connection.response().json()["status"] == "ok"


def test_one_connection_for_stream_after_stream(server):
    with raw.Connection(server.port) as connection:
        for _ in range(3):
            connection.request("POST", "/v1/chat/completions", raw.chat_body(max_tokens=3, stream=True))
            assert connection.response().body.endswith(b"data: [DONE]\n\n")


def test_a_request_byte_by_byte(server):
    body = raw.chat_body(max_tokens=2)
    text = f"POST /v1/chat/completions HTTP/1.1\r\nContent-Length: {len(body)}\r\n\r\n".encode() + body
    with raw.Connection(server.port) as connection:
        for i in range(len(text)):
            connection.send(text[i:i + 1])
        assert connection.response().status == 200


def test_what_is_no_http(server):
    with raw.Connection(server.port) as connection:
        connection.send(b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03 a TLS hello\r\n\r\n")
        assert connection.response().status == 400
        assert connection.at_end()
    assert raw.ask(server.port, "GET", "/health").status == 200


def test_prompts_and_keys_are_not_logged(server):
    with server.client() as client:
        client.chat.completions.create(
            model="smollm2", messages=[{"role": "user", "content": "xyzzy plugh"}], max_tokens=2)
    raw.chat(server.port, raw.chat_body("frobozz", temperature="hot"))
    time.sleep(0.2)
    log = server.log()
    assert "/v1/chat/completions" in log
    for secret in ("xyzzy", "frobozz", "sk-secret-key"):
        assert secret not in log
