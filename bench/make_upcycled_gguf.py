#!/usr/bin/env python3
"""Writes SmolLM2, or another dense llama, as a mixture of experts that computes the same function, for llama.cpp too.

    bench/make_upcycled_gguf.py OUT.gguf [--source SmolLM2.gguf] [--experts 8] [--top-k 2]

The same experts and routers as `penstock pack --upcycle` makes (docs/pack.md, "Upcycling"), but in a GGUF, which both
programs run. Stored blocks move whole. The source is what scripts/fetch_smollm2.sh fetches, unless --source names one.
"""
import argparse
import pathlib
import struct
import sys

from gguf_file import TYPES, U32, GgufFile, Tensor, bytes_per_token, fetched_smollm2, write_gguf

ROOT = pathlib.Path(__file__).resolve().parents[1]
sys.path.append(str(ROOT / "tests/golden"))
from make_upcycle import noise, orders  # noqa: E402  (drawn there from docs/pack.md alone)

BLOCK = 32  # of the intermediate dimension
SEED = 0    # penstock pack's, unless given


def main():
    options = parse_arguments()
    source = GgufFile(options.source or fetched_smollm2())
    upcycled = Upcycled(source, options.experts, options.top_k)
    write_gguf(options.out, upcycled.metadata(), upcycled.tensors(), upcycled.pieces_of)
    made = GgufFile(options.out)
    print(f"{options.out}: {options.out.stat().st_size / 1e6:.0f} MB, {bytes_per_token(made) / 1e6:.1f} MB of weights read for a token")


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=pathlib.Path)
    parser.add_argument("--source", type=pathlib.Path)
    parser.add_argument("--experts", type=int, default=8)
    parser.add_argument("--top-k", type=int, default=2)
    return parser.parse_args()


class Upcycled:
    def __init__(self, source, n_experts, top_k):
        if source.get("general.architecture") != "llama" or source.of_architecture("expert_count", 0):
            raise ValueError(f"{source.path} is no dense llama")
        self.source, self.n_experts, self.top_k = source, n_experts, top_k
        self.hidden = source.of_architecture("embedding_length")
        self.dense = {tensor.name: tensor for tensor in source.tensors}
        for tensor in source.tensors:  # the intermediate dimension: columns of down, rows of gate and up
            if ".ffn_down." in tensor.name and (tensor.type.elements > BLOCK or tensor.dims[0] % BLOCK):
                raise ValueError(f"{tensor.name} is {tensor.type.name} with {tensor.dims[0]} columns, which make no blocks of {BLOCK}")

    def metadata(self):
        return self.source.metadata | {"llama.expert_count": (U32, self.n_experts), "llama.expert_used_count": (U32, self.top_k)}

    def tensors(self):
        found = []
        for tensor in self.source.tensors:
            if not is_mlp(tensor.name):
                found.append(tensor)
                continue
            if ".ffn_gate." in tensor.name:
                found.append(Tensor(tensor.name.replace("ffn_gate", "ffn_gate_inp"), (self.hidden, self.n_experts), TYPES["f32"]))
            found.append(Tensor(tensor.name.replace(".weight", "_exps.weight"), (*tensor.dims, self.n_experts), tensor.type))
        return found

    def pieces_of(self, tensor):
        if tensor.name in self.dense:
            yield self.source.data(tensor)
            return
        layer = int(tensor.name.split(".")[1])
        if ".ffn_gate_inp." in tensor.name:
            for expert in range(self.n_experts):
                yield struct.pack(f"<{self.hidden}f", *noise(SEED, layer, expert, self.hidden))
            return
        dense = self.dense[tensor.name.replace("_exps.weight", ".weight")]
        data, is_down = self.source.data(dense), ".ffn_down_exps." in tensor.name
        n_blocks = dense.dims[0 if is_down else 1] // BLOCK
        # Rows of gate and up move as one run of bytes; in down, each row's blocks move.
        n_runs = dense.dims[1] if is_down else 1
        for order in orders(SEED, layer, self.n_experts, n_blocks):
            yield reordered(data, n_runs, order)


def is_mlp(name):
    return any(f".ffn_{part}.weight" in name for part in ("gate", "up", "down"))


def reordered(data, n_runs, order):
    """Each of the equal runs that `data` consists of, cut in blocks, these in another order: new i is old order[i]."""
    block_bytes = len(data) // n_runs // len(order)
    begins = [run * block_bytes * len(order) + block_bytes * block for run in range(n_runs) for block in order]
    return b"".join([data[begin:begin + block_bytes] for begin in begins])


if __name__ == "__main__":
    main()
