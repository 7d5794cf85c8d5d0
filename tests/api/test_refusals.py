"""What clients get wrong: each is a 4xx that names the field, and the server lives."""
import json

import openai
import pytest
import raw


@pytest.fixture(autouse=True)
def lives_on(server):
    yield
    assert raw.chat(server.port, raw.chat_body(max_tokens=2)).status == 200


def refused(server, body, status=400):
    answer = raw.chat(server.port, body)
    assert answer.status == status, answer.body
    error = answer.json()["error"]
    assert set(error) == {"message", "type", "param", "code"}
    return error


@pytest.mark.parametrize("body", [b"", b"{", b"not JSON", b'{"messages": [}', b"[" * 500_000, b'{"a":' * 100_000, b'"\xff"'])
def test_no_json(server, body):
    assert "JSON" in refused(server, body)["message"]


@pytest.mark.parametrize("body, param", [
    (b"{}", "messages"),
    (b'{"messages": null}', "messages"),
    (b'{"messages": []}', "messages"),
    (b'{"messages": "hi"}', "messages"),
    (b'{"messages": [{"role": "user", "content": 7}]}', "messages[0].content"),
    (b'{"messages": [{"role": "wizard", "content": "x"}]}', "messages[0].role"),
])
def test_bc_40_no_conversation(server, body, param):
    assert refused(server, body)["param"] == param


@pytest.mark.parametrize("field, value", [
    ("temperature", "hot"), ("temperature", -1), ("temperature", 2.1), ("top_p", 1.5), ("top_k", -2), ("top_k", 0.5),
    ("min_p", 2), ("seed", "x"), ("stream", 1), ("stop", 3), ("stop", [1]), ("stop", [""]), ("stop", ["a"] * 17),
    ("max_tokens", 0), ("max_tokens", -1), ("max_tokens", "5"), ("max_completion_tokens", 0), ("n", 129), ("n", 0),
    ("logprobs", 1), ("logit_bias", {"five": 1}), ("logit_bias", {"5": 101}), ("logit_bias", {"-1": 1}), ("logit_bias", {"999999": 1}),
    ("logit_bias", {"5": "x"}), ("typical_p", 2), ("min_tokens", -1), ("banned_token_ids", ["x"]), ("response_format", {"type": "json_object"}), ("model", 5),
    ("tools", 5), ("stream_options", [])])
def test_bc_53_54_56_fields(server, field, value):
    error = refused(server, raw.chat_body(**{field: value}))
    assert error["param"].startswith(field)
    assert field in error["message"]


def test_unknown_fields_are_ignored(server):
    answer = raw.chat(server.port, raw.chat_body(max_tokens=2, user="u", store=True, metadata={"a": "b"}, x_unknown=[1, {}]))
    assert answer.status == 200


@pytest.mark.parametrize("value", [1, 10**9, 2**63, 2**70, 1e9])
def test_bc_53_huge_max_tokens_is_clamped(server, value):
    answer = raw.chat(server.port, raw.chat_body("What is the capital of France?", max_tokens=value))
    assert answer.status == 200
    assert answer.json()["choices"][0]["message"]["content"]


def test_prompt_longer_than_the_context_names_both_numbers(server):
    limit = raw.ask(server.port, "GET", "/v1/models").json()["data"][0]["max_model_len"]
    error = refused(server, raw.chat_body("word " * (limit + 10)))
    assert str(limit) in error["message"]
    assert error["param"] == "messages"


def test_body_over_the_limit(server):
    error = refused(server, raw.chat_body("x" * 9_000_000), status=413)
    assert "MiB" in error["message"]


def test_a_wide_object_does_not_hold_the_server_up(server):
    refused(server, json.dumps({f"k{i}": 0 for i in range(300_000)}).encode())


def test_images_are_refused_aloud(server):
    with pytest.raises(openai.BadRequestError, match="image_url"):
        server.client().chat.completions.create(model="smollm2", messages=[
            {"role": "user", "content": [{"type": "image_url", "image_url": {"url": "http://x/y.png"}}]}])


def test_unknown_model(server):
    with pytest.raises(openai.NotFoundError, match="gpt-9"):
        server.client().chat.completions.create(model="gpt-9", messages=[{"role": "user", "content": "hi"}])


def test_unknown_routes_and_methods(server):
    assert raw.ask(server.port, "GET", "/v1/nothing").status == 404
    assert raw.ask(server.port, "GET", "/v1/chat/completions").status == 405
    assert raw.ask(server.port, "POST", "/v1/models").status == 405
