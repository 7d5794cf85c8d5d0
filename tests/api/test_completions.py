"""/v1/completions, /tokenize and /detokenize: what a chat's prompt says, said as text and as ids."""
import asyncio
import json

import openai
import pytest
import raw


def complete(server, prompt, **fields):
    return server.client().completions.create(model="smollm2", prompt=prompt, temperature=0, **fields)


def post(server, path, **fields):
    answer = raw.ask(server.port, "POST", path, json.dumps(fields).encode())
    assert answer.status == 200, answer.body
    return answer.json()


@pytest.mark.parametrize("index", range(7))
def test_known_answers_from_their_ids(server, golden, index):
    case = golden[index]
    answer = complete(server, case["ids"], max_tokens=len(case["tokens"]))
    assert answer.object == "text_completion"
    assert answer.choices[0].text == case["text"]
    assert answer.choices[0].finish_reason == ("stop" if case["stopped"] else "length")
    assert answer.usage.prompt_tokens == len(case["ids"])


def test_text_that_spells_a_chat_is_that_chat(server, golden):
    case = golden[0]
    text = post(server, "/detokenize", tokens=case["ids"])["prompt"]
    assert "<|im_start|>" in text
    assert post(server, "/tokenize", prompt=text)["tokens"] == case["ids"]
    assert post(server, "/tokenize", messages=case["messages"])["tokens"] == case["ids"]
    assert complete(server, text, max_tokens=len(case["tokens"])).choices[0].text == case["text"]


def test_many_prompts_in_order_whole_and_streamed(server, golden):
    cases = golden[:3]
    prompts = [case["ids"] for case in cases]
    n = min(len(case["tokens"]) for case in cases)
    alone = [complete(server, prompt, max_tokens=n).choices[0].text for prompt in prompts]
    together = complete(server, prompts, max_tokens=n, n=2)
    assert [choice.index for choice in together.choices] == list(range(6))
    assert [choice.text for choice in together.choices] == [text for text in alone for _ in range(2)]
    assert together.usage.prompt_tokens == sum(map(len, prompts))

    texts, usage = [""] * 6, None
    for chunk in complete(server, prompts, max_tokens=n, n=2, stream=True, stream_options={"include_usage": True}):
        usage = chunk.usage or usage
        for choice in chunk.choices:
            texts[choice.index] += choice.text
    assert texts == [choice.text for choice in together.choices]
    assert usage.completion_tokens == together.usage.completion_tokens


def test_async_clients_get_what_one_would(server, golden):
    async def all_at_once():
        async with openai.AsyncOpenAI(
                base_url=f"http://127.0.0.1:{server.port}/v1", api_key="sk-secret-key", max_retries=0) as client:
            return await asyncio.gather(*(client.completions.create(
                model="smollm2", prompt=case["ids"], temperature=0, max_tokens=len(case["tokens"])) for case in golden))

    for case, answer in zip(golden, asyncio.run(all_at_once())):
        assert answer.choices[0].text == case["text"]


def test_bc_55_logprobs_align_with_the_text(server, golden):
    case = golden[0]
    choice = complete(server, case["ids"], max_tokens=len(case["tokens"]), logprobs=3).choices[0]
    logprobs = choice.logprobs
    assert "".join(logprobs.tokens) == choice.text == case["text"]
    for token, logprob, top, offset in zip(
            logprobs.tokens, logprobs.token_logprobs, logprobs.top_logprobs, logprobs.text_offset, strict=True):
        assert choice.text[offset:].startswith(token)
        assert len(top) == 3 and top[token] == logprob == max(top.values()) <= 0  # greedy: the most likely one


def test_echo_and_stop(server):
    answer = complete(server, "One, two, three,", echo=True, max_tokens=12, stop=[" six"])
    assert answer.choices[0].text.startswith("One, two, three,")
    assert " six" not in answer.choices[0].text


def test_a_seed_repeats(server):
    def texts(seed):
        answer = server.client().completions.create(
            model="smollm2", prompt="Once upon a time", temperature=1, top_p=0.9, seed=seed, n=2, max_tokens=10,
            presence_penalty=0.1, frequency_penalty=0.1, user="u", extra_body={"top_k": 50, "min_p": 0.01})
        return [choice.text for choice in answer.choices]

    assert texts(5) == texts(5)
    assert texts(5) != texts(6)
    assert len(set(texts(5))) == 2


@pytest.mark.parametrize("prompt", [None, "", [], [""], [[]], ["a", ""], {}, 5, [1, "a"], [-1], [10**6], [1.5]])
def test_bc_40_prompts_that_are_none(server, prompt):
    answer = raw.ask(server.port, "POST", "/v1/completions", json.dumps({"prompt": prompt}).encode())
    assert answer.status == 400, answer.body
    assert answer.json()["error"]["param"].startswith("prompt")
    assert complete(server, "a", max_tokens=1).choices[0].finish_reason


@pytest.mark.parametrize("field, value", [
    ("max_tokens", 0), ("max_tokens", -1), ("max_tokens", "5"), ("temperature", -1), ("temperature", "NaN"), ("top_p", 1.5),
    ("top_k", -2), ("min_p", -1), ("n", 0), ("n", 129), ("best_of", 2), ("best_of", 0), ("suffix", "x"), ("logprobs", -1),
    ("logprobs", 21), ("logprobs", True), ("echo", "yes"), ("stream", 1), ("stop", [""]), ("seed", "x"),
    ("response_format", {"type": "json_object"})])
def test_bc_53_54_56_fields(server, field, value):
    body = json.dumps({"prompt": "a", "max_tokens": 1, field: value}).encode()
    answer = raw.ask(server.port, "POST", "/v1/completions", body)
    assert answer.status == 400, answer.body
    assert answer.json()["error"]["param"] == field
    assert field in answer.json()["error"]["message"]


def test_bc_53_huge_lengths_are_clamped(server, golden):
    case = next(case for case in golden if case["stopped"])
    for length in (10**9, 2**63, 2**70):
        assert complete(server, case["ids"], max_tokens=length).choices[0].text == case["text"]


def test_tokenize_there_and_back(server):
    text = "Grüße, 世界! <|im_end|> 🦙"
    answer = post(server, "/tokenize", model="smollm2", prompt=text, return_token_strs=True)
    assert answer["count"] == len(answer["tokens"]) == len(answer["token_strs"])
    assert "<|im_end|>" in answer["token_strs"]
    assert answer["max_model_len"] == raw.ask(server.port, "GET", "/v1/models").json()["data"][0]["max_model_len"]
    assert post(server, "/detokenize", tokens=answer["tokens"])["prompt"] == text
