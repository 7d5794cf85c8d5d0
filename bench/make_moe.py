#!/usr/bin/env python3
"""Writes a GGUF in the shape of Qwen3-30B-A3B with random weights, for measuring speed: what it says has no meaning.

    bench/make_moe.py OUT.gguf --experts-format q4_0|mxfp4|q8_0|nvfp4|q4_k [--layers 12] [--tokenizer SmolLM2.gguf]

2,048 wide, 128 experts of 768, 8 at work on a token, 32 heads of 128 with 4 of keys and values. Routed experts are in the
format asked for, the other matrices Q8_0, norms and routers float32. The tokenizer, and with it the vocabulary of 49,152,
is that of SmolLM2 (scripts/fetch_smollm2.sh fetches it, unless --tokenizer names a file): so texts can be run too.

Activations neither grow nor vanish (rms_of), tokens stay different from each other, so that they go to different experts,
every code of a format occurs, and scales differ from group to group. Rows are cut at random places from a stretch of
random blocks, which is drawn once for each format and size: a file is written as fast as the disk takes it, with little
memory.
"""
import argparse
import math
import pathlib
import random
import struct

from gguf_file import F32, STRING, TYPES, U32, GgufFile, Tensor, bytes_per_token, fetched_smollm2, write_gguf

HIDDEN, HEADS, KV_HEADS, HEAD_DIM = 2048, 32, 4, 128
EXPERTS, TOP_K, EXPERT_DIM = 128, 8, 768
STRETCH_BYTES = 8 << 20  # of random blocks; a row of Q4_0 is 1,152 bytes
PIECE_BYTES = 4 << 20
FILE_TYPES = {"q4_0": 2, "q8_0": 7, "q4_k": 15, "mxfp4": 38, "nvfp4": 39}


def main():
    options = parse_arguments()
    tokenizer = GgufFile(options.tokenizer or fetched_smollm2())
    maker = Maker(options.experts_format, options.layers, options.seed, tokenizer)
    write_gguf(options.out, maker.metadata(), maker.tensors(), maker.pieces_of)
    made = GgufFile(options.out)
    print(f"{options.out}: {options.out.stat().st_size / 1e9:.2f} GB, {bytes_per_token(made) / 1e6:.1f} MB of weights read for a token")


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=pathlib.Path)
    parser.add_argument("--experts-format", choices=sorted(FILE_TYPES), required=True)
    parser.add_argument("--layers", type=int, default=12)
    parser.add_argument("--tokenizer", type=pathlib.Path, help="a GGUF to take the tokenizer from")
    parser.add_argument("--seed", type=int, default=1)
    return parser.parse_args()


class Maker:
    def __init__(self, experts_format, n_layers, seed, tokenizer):
        self.experts_format, self.n_layers, self.tokenizer = experts_format, n_layers, tokenizer
        self.random = random.Random(seed)
        self.stretches = {}

    def metadata(self):
        model = {
            "block_count": (U32, self.n_layers), "context_length": (U32, 40960), "embedding_length": (U32, HIDDEN),
            "feed_forward_length": (U32, 6144), "attention.head_count": (U32, HEADS), "attention.head_count_kv": (U32, KV_HEADS),
            "attention.key_length": (U32, HEAD_DIM), "attention.value_length": (U32, HEAD_DIM),
            "attention.layer_norm_rms_epsilon": (F32, 1e-6), "rope.freq_base": (F32, 1e6), "vocab_size": (U32, self.vocab_size()),
            "expert_count": (U32, EXPERTS), "expert_used_count": (U32, TOP_K), "expert_feed_forward_length": (U32, EXPERT_DIM)}
        return {
            "general.architecture": (STRING, "qwen3moe"), "general.type": (STRING, "model"),
            "general.name": (STRING, f"Random weights in the shape of Qwen3-30B-A3B, {self.n_layers} layers"),
            "general.file_type": (U32, FILE_TYPES[self.experts_format]), "general.quantization_version": (U32, 2),
        } | {f"qwen3moe.{name}": value for name, value in model.items()} | {
            name: value for name, value in self.tokenizer.metadata.items() if name.startswith("tokenizer.")}

    def vocab_size(self):
        return len(self.tokenizer.get("tokenizer.ggml.tokens")[1])

    def tensors(self):
        dense, experts, f32 = TYPES["q8_0"], TYPES[self.experts_format], TYPES["f32"]
        found = [Tensor("token_embd.weight", (HIDDEN, self.vocab_size()), dense)]
        for layer in range(self.n_layers):
            parts = [("attn_norm.weight", (HIDDEN,), f32), ("attn_q.weight", (HIDDEN, HEADS * HEAD_DIM), dense),
                     ("attn_k.weight", (HIDDEN, KV_HEADS * HEAD_DIM), dense), ("attn_v.weight", (HIDDEN, KV_HEADS * HEAD_DIM), dense),
                     ("attn_q_norm.weight", (HEAD_DIM,), f32), ("attn_k_norm.weight", (HEAD_DIM,), f32),
                     ("attn_output.weight", (HEADS * HEAD_DIM, HIDDEN), dense), ("ffn_norm.weight", (HIDDEN,), f32),
                     ("ffn_gate_inp.weight", (HIDDEN, EXPERTS), f32), ("ffn_gate_exps.weight", (HIDDEN, EXPERT_DIM, EXPERTS), experts),
                     ("ffn_up_exps.weight", (HIDDEN, EXPERT_DIM, EXPERTS), experts),
                     ("ffn_down_exps.weight", (EXPERT_DIM, HIDDEN, EXPERTS), experts)]
            if self.experts_format == "nvfp4":  # a factor for each expert beside the tensor
                parts += [(f"ffn_{part}_exps.scale", (EXPERTS,), f32) for part in ("gate", "up", "down")]
            found += [Tensor(f"blk.{layer}.{name}", dims, kind) for name, dims, kind in parts]
        return found + [Tensor("output_norm.weight", (HIDDEN,), f32), Tensor("output.weight", (HIDDEN, self.vocab_size()), dense)]

    def pieces_of(self, tensor):
        if tensor.type.name != "f32":
            yield from self.rows_of(tensor)
        elif len(tensor.dims) == 2:  # a router: scores of the mean square 1
            yield from (self.uniform(tensor.dims[0], 0, math.sqrt(3 / tensor.dims[0])) for _ in range(tensor.dims[1]))
        elif tensor.name.endswith(".scale"):
            yield self.uniform(tensor.dims[0], NVFP4_FACTOR, NVFP4_FACTOR / 4)
        else:  # a norm
            yield self.uniform(tensor.dims[0], 1, 0.25)

    def rows_of(self, tensor):
        stretch, row_bytes, block_bytes = self.stretch_of(tensor), tensor.row_bytes, tensor.type.bytes
        n_places = (len(stretch) - row_bytes) // block_bytes + 1
        rows_left = math.prod(tensor.dims[1:])
        while rows_left > 0:
            n_rows = min(rows_left, PIECE_BYTES // row_bytes)
            begins = (place % n_places * block_bytes for place in memoryview(self.random.randbytes(4 * n_rows)).cast("I"))
            yield b"".join([stretch[begin:begin + row_bytes] for begin in begins])
            rows_left -= n_rows

    def stretch_of(self, tensor):
        rms = rms_of(tensor)
        if (tensor.type, rms) not in self.stretches:
            self.stretches[tensor.type, rms] = random_blocks(tensor.type, STRETCH_BYTES // tensor.type.bytes, rms, self.random)
        return self.stretches[tensor.type, rms]

    def uniform(self, n, centre, reach):
        draws = memoryview(self.random.randbytes(2 * n)).cast("H")
        return struct.pack(f"<{n}f", *(centre + reach * (draw / 32767.5 - 1) for draw in draws))


def rms_of(tensor):
    """What attention adds is kept small beside the embedding: an average over all tokens, it would make them alike."""
    if tensor.name == "token_embd.weight":
        return 1.0
    return (0.25 if "attn_output" in tensor.name else 1) / math.sqrt(tensor.dims[0])


# A block is a head, which holds the scales, and codes. Each format's function draws a head for which random codes make
# weights of the wanted root of the mean square (rms). The layouts are ggml's (src/tensor/ggml_*).

NVFP4_FACTOR = 1 / 512  # about what NAME.scale holds: scales of groups are then near the middle of e4m3's range
Q4_RMS = math.sqrt(sum((code - 8) ** 2 for code in range(16)) / 16)
Q4_K_RMS = math.sqrt(sum((code - 7.5) ** 2 for code in range(16)) / 16)
Q8_RMS = math.sqrt(sum(code ** 2 for code in range(-127, 128)) / 255)
E2M1 = [0, 0.5, 1, 1.5, 2, 3, 4, 6]
E2M1_RMS = math.sqrt(sum(value ** 2 for value in E2M1) / 8)


def q4_0_head(rms, draw):
    """Of either sign, as quantisers write: codes are -8 to 7, and weights must have no mean, which layer upon layer would grow."""
    return struct.pack("<e", rms / Q4_RMS * draw.uniform(0.75, 1.25) * draw.choice((-1, 1)))


def q8_0_head(rms, draw):
    return struct.pack("<e", rms / Q8_RMS * draw.uniform(0.75, 1.25))


def mxfp4_head(rms, draw):
    """A power of two: the nearest one below or above, so often that the mean square comes out."""
    low = math.floor(math.log2(rms / E2M1_RMS))
    share_of_high = ((rms / E2M1_RMS / 2 ** low) ** 2 - 1) / 3
    return bytes([127 + low + (draw.random() < share_of_high)])


def nvfp4_head(rms, draw):
    return bytes(nearest_e4m3(rms / E2M1_RMS / NVFP4_FACTOR * draw.uniform(0.75, 1.25)) for _ in range(4))


def nearest_e4m3(value):
    return min(range(0x7F), key=lambda code: abs(e4m3(code) - value))


def e4m3(code):
    exponent, mantissa = code >> 3, code & 7
    return mantissa / 8 * 2 ** -6 if exponent == 0 else (1 + mantissa / 8) * 2 ** (exponent - 7)


def q4_k_head(rms, draw):
    """Eight groups with their own scales; the minimum is 7.5 scales, so codes lie around zero."""
    scales = [draw.randint(32, 63) for _ in range(8)]
    unit = rms / Q4_K_RMS / math.sqrt(sum(scale ** 2 for scale in range(32, 64)) / 32)
    low, high = scales[:4], scales[4:]
    upper = bytes(a | b >> 4 << 6 for a, b in zip(low, high))
    return struct.pack("<ee", unit, 7.5 * unit) + 2 * upper + bytes(17 * (b & 15) for b in high)


HEADS_OF = {"q4_0": q4_0_head, "q8_0": q8_0_head, "mxfp4": mxfp4_head, "nvfp4": nvfp4_head, "q4_k": q4_k_head}
CODES_OF = {"q8_0": bytes(range(128)) + bytes([0]) + bytes(range(129, 256))}  # -128, which no quantiser writes, becomes 0


def random_blocks(kind, n_blocks, rms, draw):
    heads = [HEADS_OF[kind.name](rms, draw) for _ in range(256)]
    head_bytes = len(heads[0])
    code_bytes = kind.bytes - head_bytes
    chosen = b"".join(map(heads.__getitem__, draw.randbytes(n_blocks)))
    codes = draw.randbytes(n_blocks * code_bytes)
    if kind.name in CODES_OF:
        codes = codes.translate(CODES_OF[kind.name])
    blocks = bytearray(n_blocks * kind.bytes)
    for i in range(head_bytes):
        blocks[i::kind.bytes] = chosen[i::head_bytes]
    for i in range(code_bytes):
        blocks[head_bytes + i::kind.bytes] = codes[i::code_bytes]
    return bytes(blocks)


if __name__ == "__main__":
    main()
