#!/usr/bin/env python3
"""Tests what in these scripts is plain computing, with no model and no peer. Run by ctest."""
import argparse
import json
import math
import pathlib
import random
import struct
import tempfile
import unittest
import unittest.mock

import compare_llama_cpp
import decode_beside_a_compile_job
import engines
import gguf_file
import make_moe
import make_routing
import make_upcycled_gguf
import measuring
import serve_beside_llama_server
from engines import Test
from gguf_file import ARRAY, F32, STRING, TYPES, U32, GgufFile, Tensor

GOLDEN = pathlib.Path(__file__).resolve().parents[1] / "tests/golden"


class MadeUpRouting(unittest.TestCase):
    SHAPE = {"layers": 3, "experts": 8, "top_k": 2, "steps": 400, "seed": 4}

    def routing(self, **options):
        return list(make_routing.routing(**self.SHAPE | options))

    def test_each_layer_has_its_experts_ascending_and_a_seed_gives_the_same(self):
        steps = self.routing(skew=1.0, repeat=0.3)
        self.assertEqual(len(steps), 400)
        for step in steps:
            self.assertEqual(len(step), 3)
            for experts in step:
                self.assertTrue(0 <= experts[0] < experts[1] < 8)
        self.assertEqual(steps, self.routing(skew=1.0, repeat=0.3))
        self.assertNotEqual(steps, self.routing(skew=1.0, repeat=0.3, seed=5))

    def test_skew_and_repetition_are_what_was_asked_for(self):
        def most_used(steps):
            used = [expert for step in steps for expert in step[0]]
            return max(map(used.count, range(8))) / len(steps)

        def repeated(steps):
            pairs = [(set(a), set(b)) for before, after in zip(steps, steps[1:]) for a, b in zip(before, after)]
            return sum(len(a & b) for a, b in pairs) / (2 * len(pairs))

        self.assertAlmostEqual(most_used(self.routing(skew=0.0, repeat=0.0)), 2 / 8, delta=0.08)  # four deviations of 400 draws
        self.assertGreater(most_used(self.routing(skew=1.0, repeat=0.0)), 0.5)
        self.assertAlmostEqual(repeated(self.routing(skew=0.0, repeat=0.0)), 2 / 8, delta=0.06)
        self.assertGreater(repeated(self.routing(skew=0.0, repeat=0.5)), 0.5)
        self.assertEqual(repeated(self.routing(skew=0.0, repeat=1.0)), 1.0)


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


TESTS = [Test("prefill", 512), Test("prefill", 2048), Test("decode", 128, context=16384)]


class Engines(unittest.TestCase):
    options = argparse.Namespace(penstock="ours", peer="peer", model="m.gguf", threads=2, repetitions=3, cpu_precision="fast")

    def test_each_rate_goes_to_its_test(self):
        """The programs as they answer: a rate that tells which run it was."""
        def penstock(command):
            kinds = {kind: int(command[command.index("--" + kind) + 1]) for kind in ("prefill", "decode")}
            context = int(command[command.index("--context") + 1]) if "--context" in command else 0
            return json.dumps({"rows": [{"kind": kind, "tok_s": {"median": n + (context if kind == "decode" else 0)}}
                                        for kind, n in kinds.items() if n]})

        def llama_bench(command):
            value = {flag: command[command.index(flag) + 1] for flag in ("-p", "-n", "-d")}
            tests = [(int(n), 0) for n in str(value["-p"]).split(",")] + [(0, int(n)) for n in str(value["-n"]).split(",")]
            return "".join(json.dumps({"n_prompt": p, "n_gen": g, "samples_ts": [1, p + g + value["-d"], 1e9]}) + "\n"
                           for p, g in tests if p + g)

        for rates, program in ((engines.penstock_rates, penstock), (engines.llama_bench_rates, llama_bench)):
            with unittest.mock.patch.object(engines, "output_of", program):
                self.assertEqual(rates(self.options, TESTS), {TESTS[0]: 512, TESTS[1]: 2048, TESTS[2]: 16512})


class Reports(unittest.TestCase):
    def test_shares_of_the_machine(self):
        maker = make_moe.Maker("q4_0", 12, 1, FakeTokenizer())
        model = FakeGguf(maker.tensors(), maker.metadata())
        samples = {"penstock": {TESTS[0]: [1, 520, 1e9], TESTS[2]: [1, 30, 1e9]}, "llama.cpp": {TESTS[0]: [130], TESTS[2]: [15]}}
        limits = [{"read_bytes_s": 30e9, "bf16_tiles_s": 7e12}]
        options = argparse.Namespace(cpu_precision="exact", rounds=3)
        prefill, decode = compare_llama_cpp.make_report(options, model, samples, limits)["rows"]
        self.assertEqual(prefill["ratio_of_medians"], 4)
        # Of a layer: q and o of 2048 x 4096, k and v of 2048 x 512, 8 experts of 3 x 2048 x 768, the router of 2048 x 128.
        operations = 2 * 12 * (2 * 2048 * 4096 + 2 * 2048 * 512 + 8 * 3 * 2048 * 768 + 2048 * 128)
        self.assertAlmostEqual(prefill["penstock"]["share_of_bf16_tiles"], 520 * operations / 7e12, delta=1e-4)
        # Keys and values of 12 layers, 4 heads of 128, float32 here and f16 there.
        kv = (16384 + 64) * 2 * 12 * 4 * 128
        for side, rate, number_bytes in (("penstock", 30, 4), ("llama.cpp", 15, 2)):
            self.assertEqual(decode[side]["bytes_per_token"], gguf_file.bytes_per_token(model) + kv * number_bytes)
            self.assertAlmostEqual(decode[side]["share_of_read_bandwidth"], rate * decode[side]["bytes_per_token"] / 30e9, delta=1e-3)

    def test_what_is_kept_beside_a_job(self):
        samples = {"penstock": {"quiet": [100, 200, 300], "beside_the_job": [10, 80, 90]},
                   "llama.cpp": {"quiet": [100], "beside_the_job": [8]}}
        report = decode_beside_a_compile_job.make_report(argparse.Namespace(
            cpu_precision="fast", rounds=3, decode=128, compiler="g++"), samples)
        self.assertEqual({side: entry["kept"] for side, entry in report["sides"].items()}, {"penstock": 0.4, "llama.cpp": 0.08})

    def test_serving_is_better_only_with_more_tokens_and_shorter_gaps(self):
        def row(clients, rate, gap):
            return {"concurrency": clients, "output_tok_s": rate, "input_tok_s": 1, "first_token_ms": {"p50": 1, "p99": 1},
                    "inter_token_ms": {"p50": 1, "p99": gap}, "end_to_end_ms": {"p50": 1}}

        rounds = [{"side": side, "rows": [row(1, rate, 20), row(4, rate, gap)], "share_of_processors_others_took": 0}
                  for side, rate, gap in (("penstock", 50, 30), ("llama-server", 40, 25))]
        options = argparse.Namespace(clients=[1, 4], requests=8, rounds=1, peer="true", penstock="true", model="m.gguf", threads=2,
                                     prompt_tokens=256, output_tokens=64, cpu_precision="fast")
        report = serve_beside_llama_server.make_report(options, rounds)
        self.assertEqual([row["better_than_the_peer"] for row in report["rows"]],
                         [{"output_tok_s": True, "inter_token_p99_ms": False}] * 2)

    def test_sides_take_turns(self):
        self.assertEqual([measuring.in_turn({"a": 1, "b": 2}, number) for number in range(3)], [["a", "b"], ["b", "a"], ["a", "b"]])


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
