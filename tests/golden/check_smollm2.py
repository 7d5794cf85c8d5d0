#!/usr/bin/env python3
"""Compares `penstock eval` with the reference answers of the real SmolLM2-135M: the GGUF, its pack, and its upcycling
to 8 experts as a pack and as a GGUF (bench/make_upcycled_gguf.py), each through the greedy tokens of seven chats; perplexity
of constitution.txt by the GGUF.

usage: check_smollm2.py PENSTOCK [--few]     fetches the model with scripts/fetch_smollm2.sh

--few: the first tokens of two chats and one pass of the perplexity, for builds in which a token takes a minute
"""
import json
import pathlib
import re
import subprocess
import sys
import tempfile

from golden import HERE, run

REFERENCE = json.loads((HERE / "smollm2.json").read_text())


def greedy_faults(penstock, model, folder, few):
    chats = [dict(chat, tokens=chat["tokens"][:4]) for chat in REFERENCE["chat"][:2]] if few else REFERENCE["chat"]
    n = max(len(chat["tokens"]) for chat in chats)
    ids = folder / "ids.json"
    ids.write_text(json.dumps([chat["ids"] for chat in chats]))
    found = json.loads(run(penstock, "eval", model, "--ids", ids, "--greedy", n, "--cpu-precision", "exact"))
    for i, (tokens, chat) in enumerate(zip(found, chats, strict=True)):
        if tokens[: len(chat["tokens"])] != chat["tokens"]:
            yield f"chat {i}: generated {tokens}, expected {chat['tokens']}"


def perplexity_faults(penstock, model, few):
    expected = REFERENCE["perplexity"]
    text = HERE / expected["file"]
    # Each of the arithmetics that a text can be taken in.
    fast = ["--cpu-precision", "fast", "--against", "exact"]
    for options in [fast] if few else [["--cpu-precision", "exact"], fast, [*fast, "--as-generated"]]:
        # The reference is one pass over the whole text.
        out = run(penstock, "eval", model, "--text", text, "--window", 1024, "--stride", 1024, *options)
        found, n_tokens = re.match(r"perplexity ([\d.]+) .* over (\d+) tokens", out).groups()
        if int(n_tokens) != expected["tokens"] - 1:
            yield f"{options}: perplexity over {n_tokens} tokens, expected {expected['tokens'] - 1}"
        if abs(float(found) / expected["perplexity"] - 1) > 0.005:
            yield f"{options}: perplexity {found}, expected {expected['perplexity']} within 0.5 %"
        agreement = re.search(r"most likely token for ([\d.]+) %", out)
        if "--against" in options and float(agreement[1]) < 97:
            yield f"{options}: the same most likely token for {agreement[1]} %, expected 97 or more"


def main(penstock, few):
    gguf = subprocess.run([HERE.parents[1] / "scripts/fetch_smollm2.sh"], stdout=subprocess.PIPE, encoding="utf-8", check=True)
    gguf = pathlib.Path(gguf.stdout.strip())
    n_faults = 0

    def report(name, faults):
        nonlocal n_faults
        faults = list(faults)
        n_faults += len(faults)
        print(f"{name}: {'; '.join(faults) or 'as the reference'}", flush=True)

    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        report("GGUF", greedy_faults(penstock, gguf, folder, few))
        report("perplexity", perplexity_faults(penstock, gguf, few))
        for name, options in {"pack": [], "8 experts": ["--upcycle", 8, "--top-k", 2]}.items():
            run(penstock, "pack", gguf, "-o", folder / name, *options)
            report(name, greedy_faults(penstock, folder / name, folder, few))
        mixture = folder / "8-experts.gguf"
        subprocess.run([HERE.parents[1] / "bench/make_upcycled_gguf.py", mixture, "--source", gguf], stdout=subprocess.DEVNULL, check=True)
        report("8 experts in a GGUF", greedy_faults(penstock, mixture, folder, few))
    return 1 if n_faults else 0


if __name__ == "__main__":
    if len(sys.argv) not in (2, 3) or sys.argv[2:] not in ([], ["--few"]):
        sys.exit(__doc__)
    sys.exit(main(pathlib.Path(sys.argv[1]).resolve(), few="--few" in sys.argv))
