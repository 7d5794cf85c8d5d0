"""Shared by the check_*.py scripts: running penstock, reading safetensors, and comparing with what the makers expect.

The standard library only: these run as ctest tests wherever Penstock builds.
"""
import array
import json
import os
import pathlib
import re
import struct
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
PATIENCE = float(os.environ.get("PENSTOCK_TEST_PATIENCE", 1))  # slow builds ask for a multiple of every limit
ISAS = ["scalar", "avx2", "avx512", "amx"]  # slowest first: a machine that has one has those before it


def run(penstock, *args, stdin=None, isa=None, status=0):
    """Runs one command and returns its output; an exit status other than expected ends the check."""
    env = {k: v for k, v in os.environ.items() if k != "PENSTOCK_CPU_ISA"}
    if isa:
        env["PENSTOCK_CPU_ISA"] = isa
    done = subprocess.run([penstock, *map(str, args)], input=stdin, env=env, capture_output=True, encoding="utf-8",
                          timeout=600 * PATIENCE)
    if done.returncode != status:
        sys.exit(f"penstock {' '.join(map(str, args))} ended with {done.returncode}, expected {status}:\n{done.stderr}")
    return done.stdout if status == 0 else done.stderr


def isas_here(penstock):
    best = re.search(r"in use: (\w+)", run(penstock, "--version")).group(1)
    return ISAS[: ISAS.index(best) + 1]


def read_safetensors(path):
    """{name: rows} of the f32 tensors in a file; a vector is one row."""
    data = pathlib.Path(path).read_bytes()
    (length,) = struct.unpack_from("<Q", data)
    tensors = {}
    for name, info in json.loads(data[8 : 8 + length]).items():
        if name == "__metadata__" or info["dtype"] != "F32":
            continue
        begin, end = info["data_offsets"]
        values = array.array("f", data[8 + length + begin : 8 + length + end])
        cols = info["shape"][-1]
        tensors[name] = [values[i : i + cols] for i in range(0, len(values), cols)]
    return tensors


def argmax(row):
    return max(range(len(row)), key=row.__getitem__)


def largest_difference(ours, theirs):
    """NaN counts as infinitely far."""
    assert len(ours) == len(theirs), f"{len(ours)} numbers, expected {len(theirs)}"
    return max(d if (d := abs(a - b)) == d else float("inf") for a, b in zip(ours, theirs))
