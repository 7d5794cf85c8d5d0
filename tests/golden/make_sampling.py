"""Distributions that the sampling options leave, from their published definitions.

    python make_sampling.py OUT.json

Plain Python in float64: whole sorts, whole sums, one option after the other, nothing shared and nothing saved. `rows`: logits.
Per case: the name of its row, `options` in the OpenAI API's and vLLM's names, `tokens` of which the first `n_prompt` are the prompt,
`end_ids`; and what comes out: `edited`, {id: logit} of the logits that penalties and biases changed (null: banned), `ids` that
may be drawn, most likely first, and their probabilities `p`. No set is decided by less than 1e-6 of probability, except among
equals, where the lower id is taken first.

Sources: repetition penalty, Keskar et al., arXiv:1909.05858; presence and frequency penalties, logit_bias and top_p, OpenAI's API
reference; min_tokens, vLLM's SamplingParams; min_p, Nguyen et al., arXiv:2407.01082; typical_p, Meister et al., arXiv:2202.00666.
"""
import json
import math
import pathlib
import random
import sys

MARGIN = 1e-6


def gauss_row(seed, n, deviation):
    """Multiples of 1/256, exact in float32, with equals among them."""
    source = random.Random(seed)
    return [round(source.gauss(0.0, deviation) * 256) / 256 for _ in range(n)]


def peaked_row(seed, n):
    """As of a model that is fairly sure: a few tokens far above the many."""
    row = gauss_row(seed, n, 2.0)
    for i, lead in enumerate([14.0, 12.75, 12.5, 11.0, 10.5, 9.0, 9.0, 8.0]):
        row[(i * 397 + 11) % n] = lead
    return row


ROWS = {
    "small": gauss_row(1, 48, 3.0),
    "flat": gauss_row(2, 700, 0.5),
    "spread": gauss_row(3, 1100, 2.5),
    "peaked": peaked_row(4, 1100),
    "equal": [1.5] * 600,
    "padded": gauss_row(5, 30, 2.0) + [None] * 6,  # -inf: rows that only fill up the vocabulary
}


# ------------------------------------------------------------------------------------------------- edits of the logits

def penalize(logits, options, tokens, n_prompt):
    window = options.get("penalty_window", 0) or len(tokens)
    first = max(0, len(tokens) - window)
    prompt = [t for i, t in enumerate(tokens) if first <= i < n_prompt]
    answer = [t for i, t in enumerate(tokens) if max(first, n_prompt) <= i]
    for token in set(prompt + answer):
        z = logits[token]
        r = options.get("repetition_penalty", 1.0)
        z = z / r if z > 0 else z * r
        times = answer.count(token)
        z -= options.get("frequency_penalty", 0.0) * times
        z -= options.get("presence_penalty", 0.0) * (times > 0)
        logits[token] = z


def edit(row, options, tokens, n_prompt, end_ids):
    logits = [-math.inf if z is None else z for z in row]
    penalize(logits, options, tokens, n_prompt)
    for token, bias in options.get("logit_bias", {}).items():
        logits[int(token)] += bias
    for token in options.get("banned_token_ids", []):
        logits[token] = -math.inf
    if len(tokens) - n_prompt < options.get("min_tokens", 0):
        for token in end_ids:
            logits[token] = -math.inf
    return logits


# ------------------------------------------------------------------------------------------------------------- cuts

def normalized(weights):
    total = math.fsum(weights.values())
    return {token: w / total for token, w in weights.items()}


def fewest(p, order, wanted):
    """The fewest tokens in this order whose probabilities sum to `wanted` or more."""
    kept, held = {}, 0.0
    for token in order:
        equal = len({p[t] for t in order}) == 1
        assert equal or abs(held + p[token] - wanted) > MARGIN, "decided by a rounding"
        kept[token] = p[token]
        held = math.fsum(kept.values())
        if held >= wanted - 1e-12:
            break
    return kept


def distribution(logits, options):
    t = options.get("temperature", 1.0)
    largest = max(logits)
    p = {i: math.exp((z - largest) / t) for i, z in enumerate(logits)}
    p = normalized({token: w for token, w in p.items() if (logits[token] - largest) / t > -87.0})
    by_logit = sorted(p, key=lambda token: (-logits[token], token))
    if options.get("top_k", 0):
        p = normalized({token: p[token] for token in by_logit[:options["top_k"]]})
    if options.get("top_p", 1.0) < 1.0:
        p = normalized(fewest(p, [token for token in by_logit if token in p], options["top_p"]))
    if options.get("min_p", 0.0) > 0.0:
        line = options["min_p"] * max(p.values())
        assert all(q == max(p.values()) or abs(q - line) > 1e-9 for q in p.values())
        p = normalized({token: q for token, q in p.items() if q >= line})
    if options.get("typical_p", 1.0) < 1.0:
        entropy = -math.fsum(q * math.log(q) for q in p.values())
        # Rounded, so that equal logits stay equals.
        distance = {token: round(abs(-math.log(q) - entropy), 11) for token, q in p.items()}
        p = normalized(fewest(p, sorted(p, key=lambda token: (distance[token], token)), options["typical_p"]))
    return p


# ------------------------------------------------------------------------------------------------------------ cases

HISTORY = dict(tokens=[5, 7, 7, 9, 5, 11, 7, 3, 3], n_prompt=4)

CASES = [
    ("small", {}, {}),
    ("small", {"temperature": 0.5}, {}),
    ("small", {"temperature": 2.0, "top_k": 5}, {}),
    ("small", {"top_p": 0.9}, {}),
    ("small", {"min_p": 0.1}, {}),
    ("small", {"typical_p": 0.9}, {}),
    ("small", {"typical_p": 0.2}, {}),
    ("small", {"temperature": 1.5, "top_k": 12, "top_p": 0.9, "min_p": 0.05}, {}),
    ("small", {"temperature": 1.5, "top_k": 20, "top_p": 0.95, "min_p": 0.02, "typical_p": 0.8}, {}),
    ("small", {"top_k": 48}, {}),
    ("small", {"top_k": 1000000000, "top_p": 0.5}, {}),
    ("small", {"top_p": 0.0}, {}),
    ("small", {"typical_p": 0.0}, {}),
    ("small", {"min_p": 1.0}, {}),
    ("flat", {}, {}),
    ("equal", {"temperature": 2.0}, {}),
    ("spread", {}, {}),
    ("flat", {"top_p": 0.95}, {}),
    ("flat", {"top_p": 0.3, "temperature": 0.7}, {}),
    ("flat", {"typical_p": 0.5}, {}),
    ("flat", {"top_k": 200}, {}),
    ("flat", {"top_k": 40, "typical_p": 0.6}, {}),
    ("flat", {"min_p": 0.25, "typical_p": 0.7}, {}),
    ("spread", {"top_k": 40}, {}),
    ("spread", {"top_k": 10, "top_p": 0.8}, {}),
    ("spread", {"top_p": 0.9}, {}),
    ("spread", {"top_p": 0.9, "min_p": 0.1}, {}),
    ("spread", {"top_p": 0.999, "temperature": 0.3}, {}),
    ("spread", {"typical_p": 0.95}, {}),
    ("spread", {"typical_p": 0.3}, {}),
    ("spread", {"temperature": 0.02}, {}),
    ("peaked", {"top_p": 0.95}, {}),
    ("peaked", {"top_p": 0.5}, {}),
    ("peaked", {"min_p": 0.05}, {}),
    ("peaked", {"typical_p": 0.9}, {}),
    ("peaked", {"typical_p": 0.2}, {}),
    ("peaked", {"temperature": 1.8, "top_k": 64, "top_p": 0.97, "min_p": 0.005}, {}),
    ("equal", {"top_k": 70}, {}),
    ("equal", {"top_p": 0.25}, {}),
    ("equal", {"min_p": 1.0}, {}),
    ("equal", {"typical_p": 0.25}, {}),
    ("padded", {"temperature": 2.0}, {}),
    ("padded", {"top_p": 0.99}, {}),
    ("padded", {"typical_p": 0.9, "temperature": 1.3}, {}),
    ("padded", {"top_k": 33}, {}),
    ("small", {"repetition_penalty": 1.3}, HISTORY),
    ("small", {"repetition_penalty": 0.5, "top_p": 0.8}, HISTORY),
    ("small", {"presence_penalty": 1.5}, HISTORY),
    ("small", {"frequency_penalty": 0.75}, HISTORY),
    ("small", {"repetition_penalty": 1.2, "presence_penalty": -0.5, "frequency_penalty": 0.25, "top_k": 8}, HISTORY),
    ("small", {"repetition_penalty": 1.2, "presence_penalty": 0.5, "frequency_penalty": 0.25, "penalty_window": 3}, HISTORY),
    ("small", {"repetition_penalty": 1.2, "frequency_penalty": 0.5, "penalty_window": 7}, HISTORY),
    ("small", {"repetition_penalty": 1.2, "presence_penalty": 0.5, "penalty_window": 100}, HISTORY),
    ("small", {"logit_bias": {"3": 5.0, "20": -100.0, "47": 2.5}, "top_p": 0.9}, {}),
    ("small", {"logit_bias": {"0": 100.0}, "repetition_penalty": 2.0, "top_k": 4}, dict(tokens=[0, 1], n_prompt=1)),
    ("small", {"banned_token_ids": [0, 13, 47], "top_k": 45}, {}),
    ("small", {"banned_token_ids": [5], "logit_bias": {"5": 100.0}, "top_p": 0.95}, {}),
    ("small", {"min_tokens": 6, "top_k": 30}, dict(HISTORY, end_ids=[2, 9])),
    ("small", {"min_tokens": 5, "top_k": 30}, dict(HISTORY, end_ids=[2, 9])),  # the answer has five
]


def make_case(row, options, extra):
    tokens, n_prompt, end_ids = extra.get("tokens", []), extra.get("n_prompt", 0), extra.get("end_ids", [])
    logits = edit(ROWS[row], options, tokens, n_prompt, end_ids)
    p = distribution(logits, options)
    ids = sorted(p, key=lambda token: (-p[token], token))
    edited = {str(i): None if z == -math.inf else z for i, z in enumerate(logits) if z != ROWS[row][i] and ROWS[row][i] is not None}
    return {"row": row, "options": options, "tokens": tokens, "n_prompt": n_prompt, "end_ids": end_ids,
            "edited": edited, "ids": ids, "p": [float(f"{p[i]:.9g}") for i in ids]}


def main():
    cases = [make_case(*case) for case in CASES]
    lines = ",\n".join(json.dumps(case) for case in cases)
    rows = ",\n".join(f"{json.dumps(name)}: {json.dumps(row)}" for name, row in ROWS.items())
    pathlib.Path(sys.argv[1]).write_text(f'{{"rows": {{\n{rows}}},\n"cases": [\n{lines}]}}\n')


if __name__ == "__main__":
    main()
