#!/usr/bin/env python3
"""How fast weights come into memory: from the disk beside fio, and from the page cache beside memcpy.

    bench/loading.py --penstock build/release/src/penstock --model c12-q4_0.pack --out bench/results/NAME.json

Needs fio (Debian's package of that name). Rounds alternate; the file is dropped from the page cache before each cold load,
which needs no privilege, and read once before each warm one. Rates are those of the reading alone, as `penstock bench --json` tells
them: page faults of fresh memory are in them, interleaving is not. Another load goes before each, uncounted: a virtual machine's memory
that was never touched, or not for long, comes from its host at a fraction of these rates. fio reads into 4 KiB pages (its huge ones fail with
"Bad address" under Debian 12), ours into 2 MiB pages: fewer segments a read.
"""
import argparse
import ctypes
import json
import os
import pathlib
import statistics
import subprocess
import time

from measuring import ForeignShare, circumstances, spread, write_report


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--penstock", type=pathlib.Path, required=True)
    parser.add_argument("--model", type=pathlib.Path, required=True)
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--out", type=pathlib.Path)
    options = parser.parse_args()

    others = ForeignShare()
    files = weight_files(options.model)
    rates = {"fio": [], "cold": [], "memcpy": [], "warm": []}
    for _ in range(options.rounds):
        rates["fio"].append(fio(max(files, key=lambda file: file.stat().st_size)))
        load(options)
        forget(files)
        rates["cold"].append(load(options, expected="disk_bytes"))
        rates["memcpy"].append(memcpy())
        remember(files)
        load(options)
        rates["warm"].append(load(options, expected="cached_bytes"))
    medians = {name: statistics.median(values) for name, values in rates.items()}
    write_report({
        **circumstances(options),
        "bytes": sum(file.stat().st_size for file in files),
        "gb_s": {name: spread(values) for name, values in rates.items()},
        "ratios": {"cold_to_fio": medians["cold"] / medians["fio"], "warm_to_memcpy": medians["warm"] / medians["memcpy"]},
        "rounds": options.rounds,
        "share_of_others": others.so_far(),
    }, options.out)


def weight_files(model):
    """The files that hold nearly all bytes of a model."""
    if model.is_file():
        return [model]
    files = [file for file in model.iterdir() if file.is_file()]
    return [file for file in files if file.stat().st_size > 1 << 20]


def fio(file):
    """GB/s of sequential direct reads of 1 MiB, 32 in flight."""
    done = subprocess.run(
        ["fio", "--name=sequential", f"--filename={file}", "--readonly", "--rw=read", "--bs=1M", "--iodepth=32", "--ioengine=io_uring",
         "--direct=1", "--output-format=json"], capture_output=True, text=True, check=True)
    return json.loads(done.stdout)["jobs"][0]["read"]["bw_bytes"] * 1e-9


def load(options, expected=None):
    """GB/s of a load whose bytes nearly all came from where they should, where that is said."""
    done = subprocess.run(
        [options.penstock, "bench", options.model, "--prefill", "0", "--decode", "1", "--repetitions", "1", "--load", "read", "--threads",
         str(options.threads), "--json"], capture_output=True, text=True, check=True)
    how = json.loads(done.stdout)["load"]
    total = how["cached_bytes"] + how["disk_bytes"]
    if expected and how[expected] < 0.95 * total:
        raise SystemExit(f"of {total} bytes only {how[expected]} were {expected}: the page cache did not do as asked")
    return total / how["seconds"] * 1e-9


def forget(files):
    for file in files:
        with open(file, "rb") as opened:
            os.fsync(opened.fileno())
            os.posix_fadvise(opened.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def remember(files):
    for file in files:
        with open(file, "rb", buffering=0) as opened:
            while opened.read(16 << 20):
                pass


def memcpy():
    """GB/s that one thread copies between two places it has touched, 1 GiB at a time."""
    size = 1 << 30
    source, target = ctypes.create_string_buffer(size), ctypes.create_string_buffer(size)
    ctypes.memset(source, 1, size)
    ctypes.memset(target, 2, size)
    seconds = []
    for _ in range(3):
        began = time.perf_counter()
        ctypes.memmove(target, source, size)
        seconds.append(time.perf_counter() - began)
    return size / min(seconds) * 1e-9


if __name__ == "__main__":
    main()
