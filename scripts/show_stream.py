#!/usr/bin/env python3
"""Prints a streamed chat completion (server-sent events on standard input) as it comes, then its rate."""
import json
import sys
import time

began = time.monotonic()
first = None
usage = None
for line in sys.stdin:
    if not line.startswith("data: ") or line.strip() == "data: [DONE]":
        continue
    chunk = json.loads(line[len("data: ") :])
    if "error" in chunk:
        sys.exit(f"error: {chunk['error']['message']}")
    usage = chunk.get("usage") or usage
    for choice in chunk.get("choices", []):
        if text := choice["delta"].get("content"):
            first = first or time.monotonic()
            print(text, end="", flush=True)
ended = time.monotonic()
print()
if not usage or not first:
    sys.exit("error: the stream ended early")
tokens = usage["completion_tokens"]
rate = (tokens - 1) / (ended - first) if tokens > 1 else 0
print(f"\n{usage['prompt_tokens']} tokens in, {tokens} out: the first after {first - began:.2f} s, then {rate:.1f} tokens per second")
