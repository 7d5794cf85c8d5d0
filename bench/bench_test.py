#!/usr/bin/env python3
"""Tests what in these scripts is plain computing, with no model and no peer. Run by ctest."""
import json
import math
import pathlib
import random
import struct
import tempfile
import unittest

import gguf_file
import make_moe
import make_upcycled_gguf
from gguf_file import ARRAY, F32, STRING, TYPES, U32, GgufFile, Tensor

GOLDEN = pathlib.Path(__file__).resolve().parents[1] / "tests/golden"


class GgufFiles(unittest.TestCase):
    def test_a_written_file_reads_back(self):
        metadata = {"general.architecture": (STRING, "llama"), "a.count": (U32, 7), "a.rate": (F32, 0.5),
                    "a.words": (ARRAY, (STRING, ["grün", ""])), "a.numbers": (ARRAY, (U32, [1, 2, 3]))}
        tensors = [Tensor("odd", (3,), TYPES["f32"]), Tensor("blocks", (64, 2), TYPES["q4_1"])]
        data = {"odd": struct.pack("<3f", 1, 2, 3), "blocks": random.Random(1).randbytes(80)}
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder, "x.gguf")
            gguf_file.write_gguf(path, metadata, tensors, lambda tensor: [data[tensor.name][:5], data[tensor.name][5:]])
            read = GgufFile(path)
        self.assertEqual(read.metadata, metadata)
        self.assertEqual(read.tensors, tensors)
        self.assertEqual({tensor.name: read.data(tensor) for tensor in read.tensors}, data)

    def test_reads_a_file_that_others_wrote(self):
        """Against the shapes and types that its maker noted, and the header that gguf-py wrote."""
        read = GgufFile(GOLDEN / "gguf/mixtral-mxfp4.gguf")
        config = json.loads((GOLDEN / "gguf/mixtral-mxfp4.expected.json").read_text())["config"]
        experts = next(tensor for tensor in read.tensors if tensor.name == "blk.0.ffn_down_exps.weight")
        self.assertEqual(experts.dims, (config["intermediate_size"], config["hidden_size"], config["num_local_experts"]))
        self.assertEqual(experts.type.name, "mxfp4")
        self.assertEqual(read.of_architecture("expert_used_count"), config["num_experts_per_tok"])

    def test_a_tensor_that_is_cut_short_is_refused(self):
        with tempfile.TemporaryDirectory() as folder, self.assertRaisesRegex(ValueError, "was given 4 bytes, and has 12"):
            gguf_file.write_gguf(pathlib.Path(folder, "x.gguf"), {}, [Tensor("odd", (3,), TYPES["f32"])], lambda _: [b"1234"])


class Moe(unittest.TestCase):
    def test_decoders_here_are_right(self):
        """They judge the blocks below, and are judged by gguf-py's values."""
        raw, values = golden_blocks()
        for name, decode in DECODERS.items():
            size = TYPES[name].bytes
            for i in range(len(raw[name]) // size):
                expected = values[name][i * TYPES[name].elements:(i + 1) * TYPES[name].elements]
                self.assertEqual(decode(raw[name][i * size:(i + 1) * size]), expected, name)

    def test_random_blocks_have_the_size_and_every_code(self):
        for name, decode in DECODERS.items():
            with self.subTest(name):
                kind, wanted = TYPES[name], 1 / math.sqrt(2048)
                blocks = make_moe.random_blocks(kind, 1000, wanted, random.Random(1))
                self.assertEqual(len(blocks), 1000 * kind.bytes)
                values = [value for i in range(1000) for value in decode(blocks[i * kind.bytes:(i + 1) * kind.bytes])]
                factor = make_moe.NVFP4_FACTOR if name == "nvfp4" else 1
                rms = factor * math.sqrt(sum(value ** 2 for value in values) / len(values))
                self.assertAlmostEqual(rms / wanted, 1, delta=0.05)
                # A mean of the weights would grow by sqrt(columns) from layer to layer. Noise: 1 / sqrt(32,000) and some.
                self.assertLess(abs(factor * sum(values) / len(values)) / wanted, 0.03)
                self.assertGreaterEqual(len(set(values)), 15)  # at least the codes of four bits; 0 has two in e2m1

    def test_bytes_of_a_token_are_those_that_issue_5_counts(self):
        for experts_format, megabytes in (("q4_0", 615), ("q8_0", 842)):
            maker = make_moe.Maker(experts_format, 12, 1, FakeTokenizer())
            model = FakeGguf(maker.tensors(), maker.metadata())
            self.assertEqual(round(gguf_file.bytes_per_token(model) / 1e6), megabytes)


class Upcycled(unittest.TestCase):
    def test_blocks_move_whole_within_each_run(self):
        rows = b"aabbccddeeff"
        self.assertEqual(make_upcycled_gguf.reordered(rows, 1, [2, 0, 1]), b"eeffaabbccdd")  # whole rows
        self.assertEqual(make_upcycled_gguf.reordered(rows, 2, [2, 0, 1]), b"ccaabbffddee")  # the blocks of two rows


class FakeTokenizer:
    metadata = {}

    def get(self, name):
        return STRING, [""] * 49152


class FakeGguf(GgufFile):
    def __init__(self, tensors, metadata):
        self.tensors, self.metadata = tensors, metadata


def golden_blocks():
    """Raw blocks, and their values, by our name of the type."""
    data = (GOLDEN / "gguf/blocks.safetensors").read_bytes()
    (length,) = struct.unpack_from("<Q", data)
    raw, values = {}, {}
    for name, entry in json.loads(data[8:8 + length]).items():
        kind, _, part = name.partition(".")
        if kind.isupper() and kind.lower() in DECODERS:  # in lower case there are formats of safetensors files
            begin, end = entry["data_offsets"]
            found = data[8 + length + begin:8 + length + end]
            if part == "raw":
                raw[kind.lower()] = found
            else:
                values[kind.lower()] = list(struct.unpack(f"<{len(found) // 4}f", found))
    return raw, values


def f32(value):
    return struct.unpack("<f", struct.pack("<f", value))[0]


def halves(codes):
    return [code & 15 for code in codes] + [code >> 4 for code in codes]


def e2m1(code):
    return make_moe.E2M1[code & 7] * (-1 if code & 8 else 1)


def decode_q4_0(block):
    (d,) = struct.unpack_from("<e", block)
    return [f32(d * (code - 8)) for code in halves(block[2:])]


def decode_q8_0(block):
    (d,) = struct.unpack_from("<e", block)
    return [f32(d * code) for code in struct.unpack("32b", block[2:])]


def decode_mxfp4(block):
    return [f32(e2m1(code) * 2.0 ** (block[0] - 127)) for code in halves(block[1:])]


def decode_nvfp4(block):
    scales = [0 if code == 0x7F else make_moe.e4m3(code) for code in block[:4]]
    return [f32(e2m1(code) * scales[i]) for i in range(4) for code in halves(block[4 + 8 * i:12 + 8 * i])]


def decode_q4_k(block):
    d, minimum = struct.unpack_from("<ee", block)
    packed, values = block[4:16], []
    for j in range(8):
        if j < 4:
            scale, low = packed[j] & 63, packed[j + 4] & 63
        else:
            scale, low = packed[j + 4] & 15 | packed[j - 4] >> 6 << 4, packed[j + 4] >> 4 | packed[j] >> 6 << 4
        codes = block[16 + 32 * (j // 2):48 + 32 * (j // 2)]
        values += [f32(f32(d * scale) * (code >> 4 * (j % 2) & 15) - f32(minimum * low)) for code in codes]
    return values


DECODERS = {"q4_0": decode_q4_0, "q8_0": decode_q8_0, "mxfp4": decode_mxfp4, "nvfp4": decode_nvfp4, "q4_k": decode_q4_k}


if __name__ == "__main__":
    unittest.main()
