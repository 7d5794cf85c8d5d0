#!/usr/bin/env python3
"""Encoding speed of Penstock against Hugging Face's `tokenizers`, in one run on one core.

    cmake --preset cpu && cmake --build --preset cpu --target text_bench
    pip install tokenizers==0.23.3
    python bench/tokenizer_vs_huggingface.py [--bench build/cpu/src/text_bench] [--out bench/results/tokenizer_DATE.json]

Both encode the texts of src/text/tokenizer_bench.cc with SmolLM2's vocabulary, split as five models do. The program and
the package take turns, so that a busy machine slows both; the numbers are the median, fastest and slowest of --rounds
rounds in MB/s of UTF-8 (10^6 bytes). The numbers of tokens must be the same.
"""
import argparse
import datetime
import json
import os
import pathlib
import platform
import statistics
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
GOLDEN = ROOT / "tests/golden/tokenizers"
# tokenizer.json whose splits each benchmark uses; SmolLM2's own are described in smollm2_vocabulary.json's maker
STYLES = {"smollm": None, "qwen2": "qwen2", "llama3": "llama3", "o200k": "o200k", "deepseek": "deepseek"}
TEXTS = ["english", "scripts", "new_words"]


def machine():
    model = "unknown"
    for line in pathlib.Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            model = line.split(":", 1)[1].strip()
            break
    return {"cpu": model, "cores": os.cpu_count(), "system": platform.platform(), "load_at_start": os.getloadavg()[0]}


def reference(style):
    """The same tokenizer in `tokenizers`."""
    from tokenizers import AddedToken, Tokenizer, models, pre_tokenizers
    vocabulary = json.loads((GOLDEN / "smollm2_vocabulary.json").read_text())
    tokens = vocabulary["tokens"]
    merges = [tuple(merge.split(" ")) for merge in vocabulary["merges"]]
    tok = Tokenizer(models.BPE(vocab={t: i for i, t in enumerate(tokens)}, merges=merges, ignore_merges=style == "llama3"))
    if STYLES[style] is None:
        tok.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.Digits(individual_digits=True),
                                                     pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=True)])
    else:
        steps = json.loads((GOLDEN / STYLES[style] / "tokenizer.json").read_text())
        data = json.loads(tok.to_str())
        data["pre_tokenizer"], data["normalizer"] = steps["pre_tokenizer"], steps["normalizer"]
        tok = Tokenizer.from_str(json.dumps(data))
    special = [tokens[i] for i in vocabulary["token_types_but_normal"]["3"]]
    tok.add_special_tokens([AddedToken(t, normalized=False, special=True) for t in special])
    return tok


def run_penstock(bench, text_folder):
    environment = {**os.environ, "PENSTOCK_BENCH_TEXTS": str(text_folder)}
    output = subprocess.run([bench, "--benchmark_filter=^encode/", "--benchmark_format=json", "--benchmark_min_time=0.2"],
                            check=True, capture_output=True, env=environment).stdout
    return {b["name"].removeprefix("encode/"): b for b in json.loads(output)["benchmarks"]}


def run_reference(tok, text, seconds=0.2):
    n, start = 0, time.process_time()
    while True:
        encoding = tok.encode_batch_fast([text], add_special_tokens=False)[0]  # without offsets: the fastest it has
        n += 1
        elapsed = time.process_time() - start
        if elapsed > seconds:
            return len(text.encode()) * n / elapsed, len(encoding.ids)


def spread(values):
    return {"median": round(statistics.median(values), 2), "min": round(min(values), 2), "max": round(max(values), 2)}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bench", type=pathlib.Path, default=ROOT / "build/cpu/src/text_bench")
    parser.add_argument("--out", type=pathlib.Path, default=ROOT / f"bench/results/tokenizer_{datetime.date.today()}.json")
    parser.add_argument("--rounds", type=int, default=5)
    args = parser.parse_args()
    if not args.bench.exists():
        sys.exit(f"error: {args.bench} is not there; build the target text_bench first")
    os.environ["TOKENIZERS_PARALLELISM"] = "false"
    import tokenizers

    tokenizers_by_style = {style: reference(style) for style in STYLES}
    speeds, n_tokens, about = {}, {}, machine()
    with tempfile.TemporaryDirectory() as folder:
        for _ in range(args.rounds):
            ours = run_penstock(args.bench, folder)
            for style, tok in tokenizers_by_style.items():
                for name in TEXTS:
                    text = (pathlib.Path(folder) / f"{name}.txt").read_bytes().decode("utf-8")
                    theirs, count = run_reference(tok, text)
                    row = speeds.setdefault((style, name), {"penstock": [], "tokenizers": []})
                    bench = ours[f"{style}/{name}"]
                    row["penstock"].append(bench["bytes_per_second"] / 1e6)
                    row["tokenizers"].append(theirs / 1e6)
                    n_tokens[style, name] = (int(bench["tokens"]), count, int(bench["bytes"]))
    rows = []
    for (style, name), values in speeds.items():
        mine, reference_count, n_bytes = n_tokens[style, name]
        if mine != reference_count:
            sys.exit(f"error: {style}/{name}: penstock makes {mine} tokens, tokenizers {reference_count}")
        rows.append({"style": style, "text": name, "bytes": n_bytes, "tokens": mine,
                     **{f"{who}_mb_s": spread(v) for who, v in values.items()},
                     "ratio": round(statistics.median(values["penstock"]) / statistics.median(values["tokenizers"]), 2)})
        print(f"{style:9} {name:10} {rows[-1]['penstock_mb_s']['median']:8.1f} MB/s, tokenizers "
              f"{rows[-1]['tokenizers_mb_s']['median']:6.1f} MB/s, ratio {rows[-1]['ratio']:.1f}")
    args.out.parent.mkdir(parents=True, exist_ok=True)
    result = {"date": str(datetime.date.today()), "machine": about, "rounds": args.rounds,
              "tokenizers_version": tokenizers.__version__, "rows": rows}
    args.out.write_text(json.dumps(result, indent=1) + "\n")
    print(f"written to {args.out}")


if __name__ == "__main__":
    main()
