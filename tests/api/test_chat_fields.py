"""Every field of /v1/chat/completions that the `openai` package can send: it does what it says, or is refused by name."""
import json

import openai
import pytest
import raw

TOOLS = [{"type": "function", "function": {
    "name": "read", "description": "Reads a file.",
    "parameters": {"type": "object", "properties": {"path": {"type": "string"}}, "required": ["path"]}}}]
# A template of ChatML takes no tools, and so the model has none to call; the fields are accepted all the same.


def create(server, **fields):
    return server.client().chat.completions.create(
        **{"model": "smollm2", "messages": [{"role": "user", "content": "Say hi."}], "max_tokens": 8, "temperature": 0, **fields})


def error_of(server, body):
    answer = raw.chat(server.port, body)
    assert answer.status == 400, answer.body
    return answer.json()["error"]


def test_bc_55_log_probabilities_align_with_the_text(server, golden):
    case = golden[0]
    answer = create(server, messages=case["messages"], max_tokens=len(case["tokens"]), logprobs=True, top_logprobs=5)
    items = answer.choices[0].logprobs.content
    assert b"".join(bytes(item.bytes) for item in items).decode() == answer.choices[0].message.content == case["text"]
    for item in items:
        assert len(item.top_logprobs) == 5
        assert item.logprob <= 0
        # Greedy: what was chosen is the most likely.
        assert (item.token, item.logprob) == (item.top_logprobs[0].token, item.top_logprobs[0].logprob)
        assert [other.logprob for other in item.top_logprobs] == sorted((other.logprob for other in item.top_logprobs), reverse=True)


def test_bc_55_a_stream_has_the_same_log_probabilities(server):
    whole = create(server, logprobs=True, top_logprobs=2).choices[0]
    items, text = [], ""
    for chunk in create(server, logprobs=True, top_logprobs=2, stream=True):
        text += chunk.choices[0].delta.content or ""
        if chunk.choices[0].logprobs:
            items += chunk.choices[0].logprobs.content
    assert text == whole.message.content
    assert items == whole.logprobs.content


def test_bc_55_without_top_logprobs_there_are_none(server):
    items = create(server, logprobs=True).choices[0].logprobs.content
    assert items and all(item.top_logprobs == [] for item in items)
    assert create(server).choices[0].logprobs is None


def test_bc_55_stays_valid_json_when_one_token_is_left(server):
    body = raw.chat_body(max_tokens=4, temperature=1, top_k=1, logprobs=True, top_logprobs=20)
    text = raw.chat(server.port, body).body
    assert b"NaN" not in text and b"Infinity" not in text
    assert len(json.loads(text)["choices"][0]["logprobs"]["content"][0]["top_logprobs"]) == 20


@pytest.mark.parametrize("fields, param", [
    ({"logprobs": True, "top_logprobs": 21}, "top_logprobs"), ({"logprobs": True, "top_logprobs": -1}, "top_logprobs"),
    ({"top_logprobs": 3}, "top_logprobs"), ({"logprobs": "yes"}, "logprobs"),
    ({"parallel_tool_calls": 1}, "parallel_tool_calls"), ({"tool_choice": "always"}, "tool_choice"),
    ({"tools": TOOLS, "tool_choice": "required"}, "tool_choice"),
    ({"tools": TOOLS, "tool_choice": {"type": "function", "function": {"name": "read"}}}, "tool_choice"),
    ({"tools": [{"type": "function"}]}, "tools[0].function"), ({"tools": [7]}, "tools[0]"),
    ({"tools": [{"type": "function", "function": {"name": 5}}]}, "tools[0].function.name")])
def test_refused_by_name(server, fields, param):
    error = error_of(server, raw.chat_body(**fields))
    assert error["param"] == param
    assert param in error["message"]


@pytest.mark.parametrize("schema", [
    {"type": "string", "pattern": "^\\d+$"}, {"type": "string", "pattern": "(?=x)"}, {"type": "string", "pattern": "("},
    {"$ref": "#"}, {"patternProperties": {"a": {}}}, [], "text"])
def test_bc_57_schemas_are_refused_not_ignored(server, schema):
    error = error_of(server, raw.chat_body(response_format={"type": "json_schema", "json_schema": {"name": "x", "schema": schema}}))
    assert error["param"] == "response_format"
    assert "json_schema" in error["message"]


def test_bc_57_json_object_is_refused_and_text_is_text(server):
    assert "json_object" in error_of(server, raw.chat_body(response_format={"type": "json_object"}))["message"]
    assert create(server, response_format={"type": "text"}).choices[0].message.content


def test_bc_56_choices_are_apart_and_the_prompt_counts_once(server):
    one = create(server, temperature=1.2, seed=3)
    three = create(server, temperature=1.2, seed=3, n=3)
    assert [choice.index for choice in three.choices] == [0, 1, 2]
    texts = [choice.message.content for choice in three.choices]
    assert texts[0] == one.choices[0].message.content
    assert len(set(texts)) > 1
    assert three.usage.prompt_tokens == one.usage.prompt_tokens
    assert three.usage.completion_tokens > one.usage.completion_tokens

    streamed = ["", "", ""]
    for chunk in create(server, temperature=1.2, seed=3, n=3, stream=True):
        for choice in chunk.choices:
            streamed[choice.index] += choice.delta.content or ""
    assert streamed == texts


def test_usage_says_what_was_cached(server):
    fields = {"messages": [{"role": "user", "content": "Count with me. " + "one two three " * 60}]}
    create(server, **fields)
    usage = create(server, **fields).usage
    assert 0 < usage.prompt_tokens_details.cached_tokens < usage.prompt_tokens


def test_tools_are_accepted_and_nothing_is_made_up(server):
    for choice in ("auto", "none"):
        answer = create(server, tools=TOOLS, tool_choice=choice, parallel_tool_calls=False)
        assert answer.choices[0].message.content
        assert answer.choices[0].message.tool_calls is None
        assert answer.choices[0].finish_reason in ("stop", "length")


def test_bc_36_37_histories_with_calls(server):
    call = {"id": "c1", "type": "function", "function": {"name": "read", "arguments": "{\"path\": \"a\"}"}}
    sizes = set()
    for content in ({"content": None}, {"content": ""}, {}):
        answer = create(server, messages=[
            {"role": "user", "content": "Read a."}, {"role": "assistant", "tool_calls": [call], **content},
            {"role": "tool", "tool_call_id": "c1", "content": "42"}])
        sizes.add(answer.usage.prompt_tokens)
    assert len(sizes) == 1
    for calls in ([], None):
        body = json.loads(raw.chat_body(max_tokens=1))
        body["messages"] = [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b", "tool_calls": calls},
                            {"role": "user", "content": "c"}]
        assert raw.chat(server.port, json.dumps(body).encode()).status == 200


def test_bc_38_system_messages_anywhere(server):
    for roles in (("user", "assistant", "system", "user"), ("system", "system", "user"), ("developer", "user")):
        answer = create(server, messages=[{"role": role, "content": "x"} for role in roles])
        assert answer.choices[0].finish_reason


def test_bc_40_only_an_assistant_message(server):
    assert create(server, messages=[{"role": "assistant", "content": "Hello"}]).choices


def test_fields_that_change_nothing_here(server):
    plain = create(server)
    answer = create(server, user="u", store=False, metadata={"a": "b"}, service_tier="auto", logit_bias={}, modalities=["text"],
                    stop=None, frequency_penalty=0, presence_penalty=0, top_p=1, n=1, logprobs=False)
    assert answer.choices[0].message.content == plain.choices[0].message.content


def test_bc_53_the_new_name_goes_before_the_old(server):
    assert create(server, max_tokens=8, max_completion_tokens=2).usage.completion_tokens == 2


def test_deprecated_functions_are_refused(server):
    with pytest.raises(openai.BadRequestError, match="functions"):
        create(server, functions=[{"name": "f", "parameters": {}}])
