#!/usr/bin/env python3
"""The command line as people and scripts meet it: help, errors and exit codes, and what each command prints.

usage: test_cli.py PENSTOCK [unittest options]     fetches SmolLM2 with scripts/fetch_smollm2.sh for what needs a tokenizer
"""
import json
import os
import pathlib
import pty
import re
import select
import signal
import subprocess
import sys
import tempfile
import time
import unittest
import urllib.request

ROOT = pathlib.Path(__file__).resolve().parents[2]
TINY = ROOT / "tests/golden/models/llama"  # a random model of 96 tokens, without a tokenizer
MIXTURE = ROOT / "tests/golden/models/qwen3_moe"
TINY_CONTEXT = json.loads((TINY / "config.json").read_text())["max_position_embeddings"]
COMMANDS = ["run", "chat", "serve", "ctl", "plan", "doctor", "eval", "bench", "pack", "tokenize", "template"]
PATIENCE = float(os.environ.get("PENSTOCK_TEST_PATIENCE", 1))  # slow builds ask for a multiple of every limit
NOBODY = "http://127.0.0.1:9"  # the discard port: nothing listens there
REFERENCE = json.loads((ROOT / "tests/golden/smollm2.json").read_text())["chat"][0]
QUESTION, ANSWER = REFERENCE["messages"][0]["content"], REFERENCE["text"]


def penstock(*args, stdin="", env=None):
    return subprocess.run([PENSTOCK, *map(str, args)], input=stdin, capture_output=True, encoding="utf-8", timeout=300 * PATIENCE,
                          env=os.environ | (env or {}))


def smollm2():
    fetched = subprocess.run([ROOT / "scripts/fetch_smollm2.sh"], stdout=subprocess.PIPE, encoding="utf-8", check=True)
    return fetched.stdout.strip()


class Folder(unittest.TestCase):
    """A test with a folder of its own."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def file(self, name, content):
        path = self.folder / name
        path.write_text(content)
        return path

    def refused(self, done, status, *words):
        """One readable message on stderr, nothing on stdout."""
        self.assertEqual((done.returncode, done.stdout), (status, ""), done.stderr)
        self.assertTrue(done.stderr.startswith("error: "), done.stderr)
        for word in words:
            self.assertIn(str(word), done.stderr)
        self.assertEqual(len(done.stderr.strip().splitlines()), 2 if status == 2 else 1, done.stderr)


class Help(unittest.TestCase):
    def test_every_command_explains_itself(self):
        listed = penstock("--help")
        self.assertEqual(listed.returncode, 0)
        for command in COMMANDS:
            with self.subTest(command):
                self.assertRegex(listed.stdout, rf"(?m)^  {command} +\S")
                done = penstock(command, "--help")
                self.assertEqual((done.returncode, done.stderr), (0, ""))
                self.assertIn(f"Usage: penstock {command} ", done.stdout)
                self.assertIn("Examples:\n", done.stdout)
                options = done.stdout.split("Examples:")[0]
                self.assertLessEqual(max(map(len, options.splitlines())), 96)

    def test_the_examples_are_commands_that_parse(self):
        """Their files are not there, so each fails with 1; 2 would mean that an option is wrong."""
        for command in COMMANDS:
            if command == "doctor":
                continue  # it needs no file: Doctor has this test of its own
            for line in penstock(command, "--help").stdout.split("Examples:\n")[1].splitlines():
                if line.startswith("  # "):
                    continue
                with self.subTest(line), tempfile.TemporaryDirectory() as folder:
                    shell = line.replace("penstock", f"'{PENSTOCK}'").replace("< notes.txt", "< /dev/null")
                    done = subprocess.run(shell, shell=True, cwd=folder, stdin=subprocess.DEVNULL, capture_output=True, timeout=60 * PATIENCE)
                    self.assertEqual(done.returncode, 1, done.stderr)

    def test_version_names_what_was_built(self):
        done = penstock("--version")
        self.assertEqual(done.returncode, 0)
        self.assertRegex(done.stdout, r"^penstock \d+\.\d+\.\d+ \(\S+\)\ncompiler   \S+ \d+.*\n"
                                      r"CPU paths  scalar avx2 avx512 amx; in use: (scalar|avx2|avx512|amx)\nGPU paths  \S+.*\n$")
        forced = penstock("--version", env={"PENSTOCK_CPU_ISA": "scalar"})
        self.assertIn("in use: scalar", forced.stdout)


class UsageErrors(Folder):
    def test_they_exit_with_2_and_point_to_the_help(self):
        cases = [
            (["flly"], 'there is no command "flly"'),
            (["eval"], "MODEL is required"),
            (["eval", TINY, "--wndow", "3"], "--wndow"),
            (["eval", TINY, "--window", "x", "--text", "y"], "--window"),
            (["eval", TINY], "--ids and --text"),
            (["eval", TINY, "--ids", "x"], "--logits"),
            (["eval", TINY, "--ids", "x", "--text", "y"], "one of"),
            (["eval", TINY, "--ids", "x", "--greedy", "-1"], "--greedy"),
            (["eval", TINY, "--cpu-precision", "sloppy"], "--cpu-precision"),
            (["eval", TINY, "--ids", "x", "--greedy", "1", "--against", "exact"], "--against"),
            (["run", TINY, "-p", "x", "--temperature", "-1"], "temperature"),
            (["run", TINY, "-p", "x", "--threads", "0"], "--threads"),
            (["pack", TINY], "--output"),
            (["pack", TINY, "-o", "x", "--top-k", "2"], "--upcycle"),
            (["pack", TINY, "-o", "x", "--experts-format", "q9"], "--experts-format"),
            (["bench", TINY, "--repetitions", "0"], "--repetitions"),
            (["bench"], "MODEL or --url"),
            (["bench", TINY, "--url", NOBODY], "MODEL excludes --url"),
            (["bench", "--url", NOBODY, "--threads", "2"], "--threads excludes --url"),
            (["bench", "--url", NOBODY, "--decode", "2"], "--decode excludes --url"),
            (["bench", "--url", NOBODY, "--record-routing", "x"], "--record-routing excludes --url"),
            (["bench", TINY, "--record-routing", "x"], "no routed experts"),
            (["bench", TINY, "--concurrency", "4"], "--concurrency requires --url"),
            (["bench", "--url", NOBODY, "--concurrency", "1,0"], "--concurrency"),
            (["bench", "--url", NOBODY, "--concurrency", "1", "--rate", "1"], "excludes"),
            (["bench", "--url", NOBODY, "--prompt-tokens", "uniform:9-2"], "--prompt-tokens"),
            (["bench", "--url", "localhost:8080"], "http://"),
            (["chat"], "MODEL or --server"),
            (["chat", TINY, "--server", NOBODY], "MODEL excludes --server"),
            (["chat", "--server", NOBODY, "--api-key", "a b"], "API key"),
            (["ctl", "--url", NOBODY], "ACTION is required"),
            (["ctl", "restart"], "restart"),
            (["ctl", "cancel", "--url", NOBODY], "ID"),
            (["ctl", "status", "x", "--url", NOBODY], "takes no ID"),
            (["ctl", "cancel", "../status", "--url", NOBODY], "no ID of a request"),
            (["serve", TINY, "--port", "70000"], "--port"),
            (["plan"], "MODEL or --replay is required"),
            (["plan", MIXTURE, "--replay", "x"], "MODEL excludes --replay"),
            (["plan", "--replay", "x", "--machine", "y"], "--machine excludes --replay"),
            (["plan", MIXTURE, "--cpu-layers", "3,,7"], "--cpu-layers"),
            (["plan", MIXTURE, "--pin-exempt-layers", "some"], "--pin-exempt-layers"),
            (["plan", MIXTURE, "--expert-slots", "120%"], "--expert-slots"),
            (["plan", MIXTURE, "--expert-slots", "1000"], "--expert-slots 1000"),
            (["plan", TINY, "--expert-slots", "8"], "no experts"),
            (["plan", MIXTURE, "--pin-budget", "lots"], "--pin-budget"),
            (["plan", MIXTURE, "--gpu", "first"], "--gpu"),
            (["plan", MIXTURE, "--gpu", "0"], "0 GPUs"),
            (["plan", MIXTURE, "--kv-tokens", "0"], "--kv-tokens"),
            (["plan", MIXTURE, "--hit-rate", "60"], "--hit-rate"),
            (["plan", MIXTURE, "--cpu-precision", "sloppy"], "--cpu-precision"),
            (["template", TINY], "--input"),
        ]
        for args, words in cases:
            with self.subTest(" ".join(map(str, args))):
                done = penstock(*args)
                self.refused(done, 2, words)
                self.assertRegex(done.stderr, r"\nSee penstock( \w+)? --help\.\n$")

    def test_no_command_shows_the_help(self):
        done = penstock()
        self.assertEqual((done.returncode, done.stdout), (2, ""))
        self.assertIn("Commands:", done.stderr)

    def test_an_unknown_isa_is_refused_with_those_there_are(self):
        ids = self.file("ids.json", "[[1]]")
        done = penstock("eval", TINY, "--ids", ids, "--greedy", 1, env={"PENSTOCK_CPU_ISA": "mmx"})
        self.assertNotEqual(done.returncode, 0)
        self.assertIn("mmx", done.stderr)
        self.assertIn("scalar", done.stderr)


class Failures(Folder):
    def test_a_model_that_is_not_there(self):
        for command in (["run", "-p", "x"], ["chat"], ["serve", "--port", "0"], ["eval", "--text", "x"], ["bench"],
                        ["pack", "-o", self.folder / "out"], ["tokenize"], ["template", "--input", self.file("in.json", "{}")]):
            with self.subTest(command[0]):
                done = penstock(command[0], "/no/such/model", *command[1:])
                self.assertEqual(done.returncode, 1, done.stderr)
                self.assertIn("/no/such/model", done.stderr.splitlines()[-1])

    def test_a_model_that_is_no_model(self):
        (self.folder / "empty").mkdir()
        self.refused(penstock("bench", self.folder / "empty"), 1, self.folder / "empty")
        self.refused(penstock("bench", self.file("text.gguf", "not a gguf")), 1, "text.gguf")

    def test_ids_that_cannot_be_run(self):
        for content, words in (("[[1], [96]]", "list 1 has token id 96"), ("[[]]", "list 0 is empty"), ("[[-1]]", "found -1"),
                               ("{", "line 1"), ("[1]", "list 0 is number"), (json.dumps([[1] * TINY_CONTEXT]), f"the model's context has {TINY_CONTEXT}")):
            with self.subTest(words):
                ids = self.file("ids.json", content)
                self.refused(penstock("eval", TINY, "--ids", ids, "--greedy", 1), 1, "ids.json", words)

    def test_a_model_without_a_tokenizer_needs_ids(self):
        self.refused(penstock("eval", TINY, "--text", self.file("a.txt", "text")), 1, "tokenizer")
        self.refused(penstock("tokenize", TINY, stdin='["a"]'), 1, "tokenizer")

    def test_standard_input_that_is_not_what_it_should_be(self):
        tokenizer = ROOT / "tests/golden/tokenizers/gpt2/tokenizer.json"
        self.refused(penstock("tokenize", tokenizer, stdin="[1]"), 1, "standard input: place 0 is number")
        self.refused(penstock("tokenize", tokenizer, "--decode", stdin="[[100000]]"), 1, "no token 100000")
        self.refused(penstock("tokenize", tokenizer, stdin="[" * 100_000), 1, "standard input")

    def test_a_server_that_is_not_there(self):
        for command in (["bench", "--url", NOBODY], ["chat", "--server", NOBODY], ["ctl", "status", "--url", NOBODY]):
            with self.subTest(command[0]):
                self.refused(penstock(*command), 1, f"cannot connect to {NOBODY}: connection refused")
        self.refused(penstock("ctl", "status", env={"PENSTOCK_URL": NOBODY}), 1, NOBODY)

    def test_a_dataset_that_is_none(self):
        self.refused(penstock("bench", "--url", NOBODY, "--dataset", self.file("d.json", "[]")), 1, "d.json")

    def test_a_port_that_is_taken(self):
        with Server() as server:
            self.assertEqual(penstock("serve", smollm2(), "--port", server.port).returncode, 1)


class Eval(Folder):
    def test_perplexity_windows_agree_where_they_should(self):
        """One window over the whole text, however it is cut into chunks; and what a smaller one costs."""
        text = ROOT / "tests/golden/constitution.txt"

        def perplexity(*options):
            done = penstock("eval", smollm2(), "--text", text, *options)
            self.assertEqual(done.returncode, 0, done.stderr)
            return tuple(map(float, re.match(r"perplexity ([\d.]+) .* over (\d+) tokens\)$", done.stdout).groups()))

        whole = perplexity("--window", 1024, "--stride", 1024)
        self.assertEqual(perplexity("--window", 1024, "--stride", 1024, "--chunk", 100), whole)
        side_by_side, overlapping = perplexity("--window", 128, "--stride", 128), perplexity("--window", 128, "--stride", 32)
        self.assertEqual(overlapping[1], whole[1])
        self.assertEqual(side_by_side[1], whole[1] - 4)  # no BOS: the first token of each later window has nothing before it
        self.assertLess(whole[0], overlapping[0])
        self.assertLess(overlapping[0], side_by_side[0])


class Bench(unittest.TestCase):
    def test_json_has_the_promised_shape(self):
        done = penstock("bench", TINY, "--prefill", 32, "--decode", 8, "--repetitions", 3, "--json")
        self.assertEqual(done.returncode, 0, done.stderr)
        report = json.loads(done.stdout)
        self.assertEqual(set(report), {"machine", "rows", "load"})
        self.assertGreater(report["load"]["cached_bytes"] + report["load"]["disk_bytes"], 0)
        self.assertEqual([(r["kind"], r["tokens"], r["batch"]) for r in report["rows"]], [("prefill", 32, 1), ("decode", 8, 1)])
        for row in report["rows"]:
            self.assertEqual(set(row), {"kind", "tokens", "batch", "tok_s"})
            self.assertTrue(0 < row["tok_s"]["min"] <= row["tok_s"]["median"] <= row["tok_s"]["max"])

    def test_table_has_the_same_rows(self):
        done = penstock("bench", TINY, "--prefill", 32, "--decode", 0, "--repetitions", 1)
        self.assertRegex(done.stdout, r"^kind +tokens +batch +min tok/s +median tok/s +max tok/s\nprefill +32 +1 +[\d.]+ +[\d.]+ +[\d.]+\n$")


    def test_a_breakdown_sums_to_the_step(self):
        done = penstock("bench", MIXTURE, "--prefill", 32, "--decode", 8, "--repetitions", 2, "--chunk", 16, "--breakdown", "--json")
        self.assertEqual(done.returncode, 0, done.stderr)
        report = json.loads(done.stdout)
        self.assertGreater(report["weights"]["bytes"], 0)
        self.assertEqual(set(report["weights"]["read_bytes_s"]), {"at_once", "after_rest"})
        self.assertTrue(all(rate > 0 for rate in report["weights"]["read_bytes_s"].values()))
        prefill, decode = (row["breakdown"] for row in report["rows"])
        self.assertEqual((prefill["steps"], decode["steps"]), (2 * 2, 2 * 8))
        for step in (prefill, decode):
            lines = {line["operation"]: line for line in step["by_operation"]}
            self.assertEqual(list(lines)[-1], "other")
            self.assertLessEqual({"norms", "q, k, v product", "attention", "router", "expert gate, up", "expert down", "logits product"},
                                 set(lines))
            self.assertAlmostEqual(sum(line["seconds"] for line in lines.values()), step["seconds"])
            self.assertAlmostEqual(sum(line["share"] for line in lines.values()), 1)
            self.assertAlmostEqual(sum(line["bytes"] or 0 for line in lines.values()), step["bytes"])
            self.assertTrue(0 <= step["waiting_seconds"] <= step["seconds"])
        self.assertGreater(prefill["operations"], 8 * decode["operations"])  # 16 tokens a step, logits only in the last

    def test_the_breakdown_is_a_table_for_each_kind(self):
        done = penstock("bench", TINY, "--prefill", 8, "--decode", 2, "--repetitions", 1, "--breakdown")
        for kind in ("prefill", "decode"):
            self.assertRegex(done.stdout, rf"(?m)^{kind} step +ms +share +waiting ms +MB +GB/s +GOP/s$")
        self.assertEqual(len(re.findall(r"(?m)^whole step +[\d.]+ +100.0% ", done.stdout)), 2)
        self.assertRegex(done.stdout, r"\nthe weights read from end to end, and nothing else: [\d.]+ GB at [\d.]+ GB/s, "
                                      r"after a second's rest at [\d.]+ GB/s\n$")


class BenchKernels(Folder):
    """`bench kernels`: that it runs and what it prints; speeds are not asserted."""

    ROW = {"operation", "format", "memory", "isa", "threads", "tokens", "seconds", "bytes", "bytes_s", "share_of_read", "operations",
           "operations_s", "arithmetic", "share_of_arithmetic"}

    def test_json_has_limits_and_a_row_for_each_operation(self):
        done = penstock("bench", "kernels", "--quick", "--filter", "q4_0/|rms-norm|router|attention-fast-4096|experts.*/bf16/",
                        "--threads", "1,2", "--json")
        self.assertEqual(done.returncode, 0, done.stderr)
        report = json.loads(done.stdout)
        self.assertEqual(set(report), {"machine", "quick", "limits", "rows"})
        self.assertEqual(set(report["machine"]), {"cpu", "version", "commit"})
        self.assertIs(report["quick"], True)
        for limits in report["limits"]:
            self.assertEqual(set(limits), {"isa", "threads", "read_bytes_s", "operations_s"})
            self.assertTrue(all(rate > 0 for rate in limits["read_bytes_s"].values()))
        for row in report["rows"]:
            self.assertEqual(set(row), self.ROW)
            self.assertTrue(0 < row["seconds"]["min"] <= row["seconds"]["median"] <= row["seconds"]["max"])
            self.assertAlmostEqual(row["bytes_s"], row["bytes"] / row["seconds"]["median"], delta=1e-6 * row["bytes_s"])
            self.assertEqual(row["share_of_read"] is None, row["memory"] == "cache", row)
        kinds = {(row["operation"], row["memory"], row["tokens"]) for row in report["rows"]}
        self.assertLessEqual({("matmul exact", "cache", 1), ("matmul exact", "cache", 512), ("matmul exact", "huge", 1),
                              ("matmul exact", "4 KiB", 1), ("experts exact", "huge", 8), ("attention fast 4096", "huge", 1),
                              ("rms norm", "cache", 512), ("router", "cache", 1)}, kinds)

    def test_every_instruction_set_answers_as_the_reference_does(self):
        """A wrong answer would stop the program."""
        done = penstock("bench", "kernels", "--quick", "--isa", "all", "--filter", "q8_0/cache/.*/8|swiglu|rope|logits", "--json")
        self.assertEqual(done.returncode, 0, done.stderr)
        report = json.loads(done.stdout)
        self.assertEqual({row["isa"] for row in report["rows"]}, {limits["isa"] for limits in report["limits"]})

    def test_the_tables_fit_100_columns(self):
        done = penstock("bench", "kernels", "--quick", "--filter", "rms|attention-exact-16384|matmul-exact/nvfp4-block/4-KiB")
        self.assertEqual(done.returncode, 0, done.stderr)
        limits, rows = done.stdout.split("\n\n")
        self.assertRegex(limits, r"^the machine's limits +threads +read, huge +read, 4 KiB +float32 +int8 ")
        self.assertRegex(rows, r"^operation +format +memory +isa +thr +tokens +time +GB/s +GOP/s +read +peak\n")
        self.assertLessEqual(max(map(len, done.stdout.splitlines())), 100)
        self.assertNotIn("…", done.stdout)

    def test_names_are_listed_and_filtered(self):
        done = penstock("bench", "kernels", "--list", "--filter", "^swiglu", "--isa", "scalar")
        self.assertEqual(done.stdout, "swiglu/f32/cache/scalar/1\nswiglu/f32/cache/scalar/512\n")

    def test_it_explains_itself(self):
        done = penstock("bench", "kernels", "--help")
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.assertIn("Usage: penstock bench kernels [options]", done.stdout)
        self.assertIn("Examples:\n", done.stdout)
        for option in ("--filter", "--threads", "--isa", "--list", "--quick", "--json"):
            self.assertIn(option, done.stdout)

    def test_mistakes_are_usage_errors(self):
        for args, word in [(["--filter", "["], "no regular expression"), (["--filter", "nothing-like-it"], "--list"),
                           (["--isa", "sse9"], "scalar"), (["--threads", "0"], "--threads"), ([TINY], TINY)]:
            with self.subTest(args):
                done = penstock("bench", "kernels", *args)
                self.refused(done, 2, word)
                self.assertIn("See penstock bench kernels --help.", done.stderr)
        self.refused(penstock("bench", "--decode", "3", "kernels", "--list"), 2, "kernels")


class BenchServer(unittest.TestCase):
    """`bench --url`, against a server of ours."""

    @classmethod
    def setUpClass(cls):
        cls.server = cls.enterClassContext(Server())

    def bench(self, *options, status=0, env=None):
        done = penstock("bench", "--url", self.server.url, "--output-tokens", 6, *options, env=env)
        self.assertEqual(done.returncode, status, done.stderr)
        return done

    def test_closed_loop_json(self):
        done = self.bench("--concurrency", "1,3", "--requests", 6, "--prompt-tokens", "uniform:60-90", "--ignore-eos", "--json")
        report = json.loads(done.stdout)
        self.assertEqual(report["model"], "SmolLM2-135M-Instruct.Q4_1")
        self.assertEqual([row["concurrency"] for row in report["rows"]], [1, 3])
        for row in report["rows"]:
            self.assertEqual((row["requests"], row["failed"], row["errors"], row["tokens_counted_by"]), (6, 0, {}, "usage"))
            self.assertEqual(row["output_tokens"], 36)
            self.assertTrue(6 * 55 <= row["input_tokens"] <= 6 * 95, row["input_tokens"])  # sized by calibration
            self.assertAlmostEqual(row["output_tok_s"], 36 / row["seconds"], places=6)
            for name in ("first_token_ms", "inter_token_ms", "end_to_end_ms"):
                spread = row[name]
                self.assertTrue(0 <= spread["p50"] <= spread["p90"] <= spread["p99"] <= spread["max"], spread)
            self.assertLessEqual(row["first_token_ms"]["max"], row["end_to_end_ms"]["max"])

    def test_the_same_seed_sends_the_same_load(self):
        def input_tokens(seed):
            done = self.bench("--requests", 4, "--prompt-tokens", "lognormal:60,0.5", "--seed", seed, "--json")
            return json.loads(done.stdout)["rows"][0]["input_tokens"]
        self.assertEqual(input_tokens(5), input_tokens(5))
        self.assertNotEqual(input_tokens(5), input_tokens(6))

    def test_open_loop_table(self):
        done = self.bench("--rate", 20, "--requests", 4, "--prompt-tokens", 40, "--shared-prefix", 0.5)
        self.assertRegex(done.stdout, r"^load +answered +failed +seconds +requests/s +input tok/s +output tok/s\n"
                                      r"20 a second +4 +0 +[\d.]+ +[\d.]+ +[\d.]+ +[\d.]+\n\n"
                                      r"load +milliseconds +mean +p50 +p90 +p99 +max\n"
                                      r"20 a second +to the first token( +[\d.]+){5}\n"
                                      r"20 a second +between tokens( +[\d.]+){5}\n"
                                      r"20 a second +to the end( +[\d.]+){5}\n$")

    def test_a_dataset(self):
        turns = [{"from": "human", "value": QUESTION}, {"from": "gpt", "value": "abcdefgh"}]
        with tempfile.NamedTemporaryFile("w", suffix=".json") as file:
            json.dump([{"conversations": turns}], file)
            file.flush()
            done = penstock("bench", "--url", self.server.url, "--dataset", file.name, "--requests", 2, "--json")
        row = json.loads(done.stdout)["rows"][0]
        self.assertEqual((row["input_tokens"], row["output_tokens"]), (2 * 37, 2 * 2))

    def test_failures_are_counted_and_fail_the_run(self):
        done = self.bench("--requests", 2, "--prompt-tokens", 20000, "--json", status=1)
        row = json.loads(done.stdout)["rows"][0]
        self.assertEqual((row["failed"], list(row["errors"])), (2, ["HTTP 400"]))
        self.assertIsNone(row["first_token_ms"])
        self.assertIn("2 x HTTP 400, the first: ", done.stderr)
        self.assertTrue(done.stderr.endswith("error: 2 of 2 requests failed\n"), done.stderr)

    def test_a_model_the_server_does_not_have(self):
        done = self.bench("--model", "another", status=1)
        self.assertRegex(done.stderr, r'^error: http://127\.0\.0\.1:\d+ answered POST /v1/chat/completions with 404: .*"another"')

    def test_a_key_in_the_environment_does_not_disturb_a_bench_of_a_model(self):
        done = penstock("bench", TINY, "--prefill", 8, "--decode", 0, "--repetitions", 1, env={"PENSTOCK_API_KEY": "k"})
        self.assertEqual(done.returncode, 0, done.stderr)


class Run(unittest.TestCase):
    def test_the_answer_alone_is_on_standard_output(self):
        done = penstock("run", smollm2(), "-p", QUESTION)
        self.assertEqual((done.returncode, done.stdout), (0, ANSWER + "\n"))
        self.assertRegex(done.stderr, r"llama, 30 layers.*\n37 tokens in, 8 out in")
        quiet = penstock("run", smollm2(), "-p", "-", "-q", stdin=QUESTION)
        self.assertEqual((quiet.stdout, quiet.stderr), (ANSWER + "\n", ""))

    def test_lengths_and_stops(self):
        self.assertEqual(penstock("run", smollm2(), "-q", "-p", QUESTION, "-n", 3).stdout, "The capital of\n")
        self.assertEqual(penstock("run", smollm2(), "-q", "-p", QUESTION, "--stop", "is Par").stdout, "The capital of France \n")

    def test_a_seed_repeats_its_answer(self):
        options = ["run", smollm2(), "-q", "--raw", "-p", "Once upon a time", "--temperature", 1.5, "-n", 12, "--seed"]
        first, again, other = (penstock(*options, seed).stdout for seed in (7, 7, 8))
        self.assertEqual(first, again)
        self.assertNotEqual(first, other)

    def test_the_start_line_says_how_many_threads_on_how_many_cpus(self):
        n_cpus = len(os.sched_getaffinity(0))
        rest = f" on 1 of {n_cpus} CPUs" if n_cpus > 1 else ""
        self.assertIn(f", 1 thread{rest};", penstock("run", smollm2(), "-p", "Hi", "-n", "1", "--threads", "1").stderr)
        too_many = penstock("run", smollm2(), "-p", "Hi", "-n", "1", "--threads", n_cpus + 1)
        self.assertRegex(too_many.stderr, rf"(?m)^{n_cpus + 1} CPU threads asked for, \d+ used: the process may use {n_cpus} CPUs")


class Chat(Folder):
    def test_piped_lines_are_turns(self):
        done = penstock("chat", smollm2(), "--temperature", 0, stdin=f"/help\n{QUESTION}\n/clear\n/nonsense\n\n{QUESTION}\n/exit\nnot read\n")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(done.stdout.count(ANSWER + "\n"), 2, done.stdout)  # the second after /clear: nothing before it
        self.assertIn("/clear  forget the conversation", done.stdout)
        self.assertIn("There is no command /nonsense.", done.stdout)

    def test_a_conversation_remembers(self):
        """The second answer is what the model says after the whole conversation, rendered and run by hand."""
        questions = [QUESTION, "And of Italy?"]
        done = penstock("chat", smollm2(), "--temperature", 0, stdin="\n".join(questions) + "\n")
        messages = [{"role": "user", "content": questions[0]}, {"role": "assistant", "content": ANSWER},
                    {"role": "user", "content": questions[1]}]
        chat = self.file("chat.json", json.dumps({"messages": messages, "add_generation_prompt": True}))
        prompt = penstock("template", smollm2(), "--input", chat).stdout
        second = penstock("run", smollm2(), "--raw", "-q", "-p", prompt).stdout
        self.assertEqual(done.stdout, f"{ANSWER}\n{second}")
        alone = penstock("run", smollm2(), "-q", "-p", questions[1]).stdout
        self.assertNotEqual(second, alone)

    def test_a_server_answers_as_a_model_of_ones_own(self):
        script = f"/help\n{QUESTION}\nAnd of Italy?\n/clear\n{QUESTION}\n"
        with Server() as server:
            options = ["--temperature", 0, "--system", "You are a helpful assistant."]
            remote = penstock("chat", "--server", server.url, *options, stdin=script)
            self.assertEqual(remote.returncode, 0, remote.stderr)
            self.assertEqual(remote.stdout, penstock("chat", smollm2(), *options, stdin=script).stdout)
            self.assertEqual(remote.stderr.splitlines()[0], f"SmolLM2-135M-Instruct.Q4_1 at {server.url}")
            refused = penstock("chat", "--server", server.url, "--model", "another", stdin=QUESTION + "\n")
            self.assertEqual((refused.returncode, refused.stdout), (0, ""))  # the turn failed, not the program
            self.assertIn('with 404: there is no model "another"', refused.stderr)

    def test_editing_history_and_ctrl_c_on_a_terminal(self):
        self.converse("chat", smollm2())

    def test_ctrl_c_stops_a_servers_answer(self):
        with Server() as server:
            self.converse("chat", "--server", server.url)

    def converse(self, *command):
        with Terminal(*command, "--temperature", "0", "-n", "2000", state=self.folder) as terminal:
            terminal.expect("> ")
            terminal.type("What is the capital of Norway?" + "\x7f" * 7 + QUESTION[-7:] + "\x01\x0b\x19\r")  # ^A ^K ^Y: cut, paste
            terminal.expect(ANSWER)
            terminal.expect("> ")
            terminal.type("thrown away\x03")
            terminal.expect("^C")
            terminal.expect("> ")
            terminal.type("Write a long story about a dragon.\r")
            terminal.expect("dragon.\r\n")
            terminal.expect(" the ")
            terminal.type("\x03")  # stops the answer, long before its 2000 tokens ...
            terminal.expect("> ", seconds=10)
            terminal.type("\x1b[A\x1b[A\r")  # ... and history still has the first question
            terminal.expect("Paris")
            terminal.expect("> ")
            terminal.type("\x04")
            self.assertEqual(terminal.status(), 0)
        history = self.folder / "penstock/chat_history"
        self.assertIn("dragon", history.read_text())
        self.assertEqual(history.stat().st_mode & 0o777, 0o600)


class Ctl(unittest.TestCase):
    """`ctl` against a server of ours."""

    def ctl(self, server, *args, status=0):
        done = penstock("ctl", "--url", server.url, *args)
        self.assertEqual(done.returncode, status, done.stderr)
        return done

    def test_it_looks_and_steers(self):
        with Server() as server:
            status = json.loads(self.ctl(server, "status", "--json").stdout)
            self.assertEqual((status["state"], status["running"]), ("ready", 0))
            self.assertIn("ready", self.ctl(server, "status").stdout)

            stream = server.open([{"role": "user", "content": "Write a long story about a dragon."}], stream=True, max_tokens=4000)
            answer = json.loads(stream.readline().decode().removeprefix("data: "))["id"]
            self.assertIn(answer, self.ctl(server, "requests").stdout)
            self.ctl(server, "cancel", answer)
            self.assertIn("cancelled", stream.read().decode())
            self.assertIn(answer, self.ctl(server, "cancel", answer, status=1).stderr)
            self.assertEqual(json.loads(self.ctl(server, "requests", "--json").stdout), {"data": []})

            dropped = json.loads(self.ctl(server, "drop-cache", "--json").stdout)["pages_freed"]
            self.assertGreater(dropped, 0)
            self.assertEqual(json.loads(self.ctl(server, "status", "--json").stdout)["pages"]["cached"], 0)

            self.ctl(server, "stop")
            self.assertEqual(server.process.wait(timeout=60 * PATIENCE), 0)
            self.ctl(server, "status", status=1)


class Plan(Folder):
    MODELS = ROOT / "tests/plan/models"
    MACHINES = ROOT / "tests/plan/machines"

    def seed(self, model, machine, *options, env=None):
        return penstock("plan", self.MODELS / f"{model}.json", "--machine", self.MACHINES / f"{machine}.json", *options, env=env)

    def test_a_checkpoint_on_this_machine(self):
        done = penstock("plan", MIXTURE, env={"XDG_CACHE_HOME": str(self.folder)})
        self.assertEqual((done.returncode, done.stderr), (0, "rates: not known; `penstock doctor` measures them\n"))
        n_layers = json.loads((MIXTURE / "config.json").read_text())["num_hidden_layers"]
        self.assertIn(f"qwen3_moe: {n_layers} layers", done.stdout)
        # Nobody has measured this machine, so nothing is promised.
        self.assertRegex(done.stdout, r"decode +not predicted, for these are not known: .*cpu\.expert_gb_s")
        self.assertNotIn("tok/s", done.stdout)

    def test_without_a_terminal_it_is_ascii_within_100_columns(self):
        done = self.seed("minimax-m2.5-nvfp4", "windows-192gib-rtx5090")
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.assertTrue(done.stdout.isascii())
        self.assertLessEqual(max(map(len, done.stdout.splitlines())), 100)
        for words in ("MiniMax-M2.5 NVFP4: 62 layers", "VRAM  [", "RAM   [", "disk  [", "pinned", "the driver's quota is 94.0 GiB",
                      "dense weights", "--gpu none"):
            self.assertIn(words, done.stdout)
        self.assertRegex(done.stdout, r"decode +[\d.]+ tok/s, bound by the ")
        self.assertRegex(done.stdout, r"prefill +[\d.,]+ tok/s, bound by the ")

    def test_a_terminal_shows_blocks(self):
        with Terminal("plan", str(self.MODELS / "gpt-oss-20b.json"), "--machine",
                      str(self.MACHINES / "laptop-32gib-rtx4060.json"), state=self.folder, LC_ALL="C.UTF-8") as terminal:
            terminal.expect("█")
            terminal.expect("prefill")

    def test_json_has_everything(self):
        plan = json.loads(self.seed("gpt-oss-20b", "linux-24gib-no-gpu", "--json", "--kv-tokens", 4096, "--expert-slots", "50%").stdout)
        self.assertEqual(set(plan), {"model", "machine", "plan", "alternatives"})
        self.assertEqual(plan["plan"]["kv_tokens"], 4096)
        self.assertEqual(plan["plan"]["ram_slots"], 24 * 32 // 2)
        self.assertEqual({layer["bank"] for layer in plan["plan"]["layers"]}, {"disk"})
        self.assertGreater(plan["plan"]["decode"]["tok_s"], 0)
        # What it was made from makes it again.
        again = penstock("plan", self.file("model.json", json.dumps(plan["model"])), "--machine",
                         self.file("machine.json", json.dumps(plan["machine"])), "--json", "--kv-tokens", 4096, "--expert-slots", "50%")
        self.assertEqual(json.loads(again.stdout), plan)

    def test_the_page_needs_nothing_else(self):
        page = self.folder / "plan.html"
        done = self.seed("minimax-m2.5-nvfp4", "windows-192gib-rtx5090", "--html", page)
        self.assertEqual(done.returncode, 0, done.stderr)
        html = page.read_text()
        self.assertEqual(html.count('title="layer '), 62)
        self.assertNotRegex(html, r"(?i)https?:|<script|src=|href=|@import")
        self.refused(self.seed("gpt-oss-20b", "linux-24gib-no-gpu", "--html", self.folder / "no/such/folder.html"), 1, "folder.html")

    def test_what_does_not_fit_is_refused_with_what_is_missing(self):
        done = self.seed("deepseek-v4-flash", "linux-8gib-cgroup-no-gpu")
        self.refused(done, 1, "DeepSeek-V4-Flash does not fit", "MiB are missing", "dense weights", "more RAM")
        done = self.seed("deepseek-v4-flash", "linux-8gib-cgroup-no-gpu", "--json")
        self.assertEqual(done.returncode, 1)
        self.assertGreater(json.loads(done.stdout)["shortfall"]["missing_bytes"], 0)
        # The flag it names is the one that helps.
        done = self.seed("gpt-oss-20b", "linux-8gib-cgroup-no-gpu", "--kv-tokens", 262144, "--ram-reserve", "1G")
        fix = re.search(r"\((--kv-tokens) (\d+) would fit\)", done.stderr)
        self.assertIsNotNone(fix, done.stderr)
        self.assertEqual(self.seed("gpt-oss-20b", "linux-8gib-cgroup-no-gpu", "--ram-reserve", "1G", *fix.groups()).returncode, 0)

    def test_the_environment_limits_pins(self):
        def pinned(*options, **env):
            done = self.seed("minimax-m2.5-nvfp4", "windows-192gib-rtx5090", "--json", *options, env=env)
            self.assertEqual(done.returncode, 0, done.stderr)
            return json.loads(done.stdout)["plan"]["pinned_bytes"]

        unlimited = pinned()
        self.assertGreater(unlimited, 20 << 30)
        self.assertLessEqual(pinned(PENSTOCK_PIN_BUDGET_GB="8"), 8 << 30)
        self.assertEqual(pinned("--pin-budget", "94", PENSTOCK_PIN_BUDGET_GB="8"), unlimited)
        self.assertEqual(pinned(PENSTOCK_NO_PINNED="1"), 0)
        refused = self.seed("minimax-m2.5-nvfp4", "windows-192gib-rtx5090", "--pin-budget", "8", env={"PENSTOCK_NO_PINNED": "1"})
        self.refused(refused, 2, "--pin-budget 8", "PENSTOCK_NO_PINNED=1")

    def test_descriptions_that_are_wrong(self):
        model = self.MODELS / "gpt-oss-20b.json"
        for text, words in (("{", "invalid JSON"), ('{"ram": {"total_bytes": 1}, "rum": 2}', "there is no field rum"),
                            ('{"ram": {"total_bytes": "much"}}', "ram.total_bytes")):
            with self.subTest(text):
                machine = self.file("machine.json", text)
                self.refused(penstock("plan", model, "--machine", machine), 1, machine, words)
        wrong = self.file("wrong.json", '{"name": "x"}')
        self.refused(penstock("plan", wrong), 1, wrong, "context_length is missing")
        self.refused(penstock("plan", model, "--machine", self.folder / "none.json"), 1, "none.json")

    def test_more_layers_than_there_are_is_all_of_them(self):
        done = self.seed("gpt-oss-20b", "laptop-32gib-rtx4060", "--cpu-layers", "999")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("--cpu-layers 999 chooses more than there is: the model has 24 layers", done.stderr)


class Doctor(Folder):
    """Measures in the test's own folder, and keeps its profile there."""

    def doctor(self, *options, status=0, env=None):
        done = penstock("doctor", *options, env={"XDG_CACHE_HOME": str(self.folder)} | (env or {}))
        self.assertEqual(done.returncode, status, done.stderr)
        return done

    def plan(self, *options):
        return penstock("plan", MIXTURE, *options, env={"XDG_CACHE_HOME": str(self.folder)})

    def test_a_plan_believes_what_was_measured_here_and_nothing_else(self):
        report = json.loads(self.doctor("--quick", "--json").stdout)
        kept = self.folder / "penstock/machine.json"
        self.assertEqual(report["saved_to"], str(kept))
        self.assertEqual([file.name for file in kept.parent.iterdir()], ["machine.json"])
        profile = json.loads(kept.read_text())
        self.assertEqual(profile, report["profile"])
        machine = profile["machine"]
        for rates in (machine["ram"], machine["cpu"], machine["disk"]):
            self.assertNotIn(None, [rate for name, rate in rates.items() if name != "memlock_bytes"])
        self.assertLess({"q4_0", "q4_k", "q8_0", "nvfp4", "mxfp4", "bf16"}, set(machine["cpu"]["expert_gb_s"]))
        self.assertEqual(profile["read_gb_s_by_threads"][max(profile["read_gb_s_by_threads"], key=int)], machine["ram"]["read_gb_s"])

        done = self.plan()
        self.assertEqual(done.stderr, f"rates: measured by doctor --quick on {profile['date']}\n")
        self.assertRegex(done.stdout, r"decode +[\d.,]+ tok/s, bound by the ")
        # A profile is a machine's description too.
        self.assertRegex(self.plan("--machine", kept).stdout, r"decode +[\d.,]+ tok/s, bound by the ")
        profile["machine"]["key"]["kernel"] = "2.6.32"
        for text, why in ((json.dumps(profile), "the kernel was 2.6.32, is "), ("{", "invalid JSON")):
            kept.write_text(text)
            done = self.plan()
            self.assertEqual((done.returncode, len(done.stderr.splitlines())), (0, 1), done.stderr)
            self.assertIn(f"{kept} is not believed", done.stderr)
            self.assertIn(why, done.stderr)
            self.assertIn("not predicted", done.stdout)

    def test_the_table_has_a_verdict_for_each_row_and_fits_80_columns(self):
        done = self.doctor("--quick", "--no-save", "--disk", self.folder)
        self.assertLessEqual(max(map(len, done.stdout.splitlines())), 80)
        rows = [line for line in done.stdout.splitlines() if not line.startswith(" ")]
        self.assertEqual(rows[0].split(), ["what", "found", "verdict"])
        for row in rows[1:]:
            self.assertRegex(row, r"  (good|weak|missing)$")
        for row in ("CPU", "RAM", "memory reads", "experts", "disk", "direct reads", "memlock", "GPU", "pin quota"):
            self.assertTrue(any(line.startswith(f"{row} ") for line in rows), row)
        self.assertEqual(list(self.folder.iterdir()), [])

    def test_a_kill_leaves_no_file(self):
        process = subprocess.Popen([PENSTOCK, "doctor", "--quick", "--no-save", "--disk", self.folder], stdout=subprocess.DEVNULL,
                                   stderr=subprocess.DEVNULL)
        time.sleep(0.5)
        process.send_signal(signal.SIGINT)
        self.assertNotEqual(process.wait(timeout=60 * PATIENCE), 0)
        self.assertEqual(list(self.folder.iterdir()), [])

    def test_a_disk_that_is_not_there(self):
        self.refused(self.doctor("--disk", self.folder / "none", status=1), 1, self.folder / "none")

    def test_the_examples_parse(self):
        for line in penstock("doctor", "--help").stdout.split("Examples:\n")[1].splitlines():
            if not line.startswith("  # "):
                options = line.split()[2:]
                with self.subTest(line):
                    self.refused(penstock("doctor", *options, "--no-such-option"), 2, "--no-such-option")


class Terminal:
    """A command on a pseudo-terminal."""

    def __init__(self, *args, state, **env):
        self.screen = ""
        self.pid, self.fd = pty.fork()
        if self.pid == 0:
            os.execve(PENSTOCK, [PENSTOCK, *args], os.environ | {"TERM": "xterm", "XDG_STATE_HOME": str(state)} | env)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        os.close(self.fd)
        if self.pid:
            os.kill(self.pid, signal.SIGKILL)
            os.waitpid(self.pid, 0)

    def type(self, keys):
        os.write(self.fd, keys.encode())

    def expect(self, text, seconds=60):
        """Waits until `text` shows, and forgets the screen up to its end."""
        limit = time.monotonic() + seconds * PATIENCE
        while text not in self.screen:
            if not select.select([self.fd], [], [], max(0, limit - time.monotonic()))[0]:
                raise AssertionError(f"no {text!r} within {seconds * PATIENCE} s in {self.screen!r}")
            self.screen += os.read(self.fd, 4096).decode(errors="replace")
        self.screen = self.screen.split(text, 1)[1]

    def status(self):
        pid, status = os.waitpid(self.pid, 0)
        self.pid = None
        return os.waitstatus_to_exitcode(status)


class Server:
    """`penstock serve` with SmolLM2 on a free port, ready."""

    def __enter__(self):
        self.process = subprocess.Popen([PENSTOCK, "serve", smollm2(), "--port", "0"], stderr=subprocess.PIPE, encoding="utf-8")
        self.log = ""
        for line in self.process.stderr:
            self.log += line
            if " ready: " in line:
                break
        self.port = int(re.search(r"listening on http://127\.0\.0\.1:(\d+)", self.log).group(1))
        return self

    def __exit__(self, *_):
        if self.process.poll() is None:
            self.process.kill()
        self.process.communicate()

    @property
    def url(self):
        return f"http://127.0.0.1:{self.port}"

    def open(self, messages, **fields):
        body = {"model": "SmolLM2-135M-Instruct.Q4_1", "messages": messages, "temperature": 0, **fields}
        request = urllib.request.Request(f"{self.url}/v1/chat/completions", json.dumps(body).encode(),
                                         {"Content-Type": "application/json"})
        return urllib.request.urlopen(request, timeout=60 * PATIENCE)


class Serve(unittest.TestCase):
    def test_it_says_once_what_it_chose(self):
        with Server() as server:
            self.assertRegex(server.log, r"SmolLM2-135M-Instruct\.Q4_1.*llama, 30 layers.*MiB.*threads?.*KV cache of")
            self.assertEqual(len(re.findall("KV cache of", server.log)), 1)

    def test_sigterm_lets_a_running_answer_end(self):
        with Server() as server:
            stream = server.open(REFERENCE["messages"], stream=True)
            first = stream.readline()
            server.process.send_signal(signal.SIGTERM)
            rest = stream.read().decode()
            self.assertTrue(first.startswith(b"data: "))
            self.assertTrue(rest.rstrip().endswith("data: [DONE]"), rest)
            self.assertEqual(server.process.wait(timeout=60 * PATIENCE), 0)

    def test_a_second_signal_does_not_wait(self):
        with Server() as server:
            stream = server.open([{"role": "user", "content": "Write a long story about a dragon."}], stream=True, max_tokens=4000)
            stream.readline()
            server.process.send_signal(signal.SIGTERM)
            time.sleep(0.5)
            self.assertIsNone(server.process.poll(), "it did not wait for the running answer")
            began = time.monotonic()
            server.process.send_signal(signal.SIGTERM)
            self.assertEqual(server.process.wait(timeout=60 * PATIENCE), 0)
            self.assertLess(time.monotonic() - began, 10)


class Pack(Folder):
    def test_it_writes_verifies_and_refuses_to_overwrite(self):
        out = self.folder / "tiny.pack"
        done = penstock("pack", TINY, "-o", out, "--verify")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("verified", done.stdout)
        self.refused(penstock("pack", TINY, "-o", out), 2, out, "--force")
        self.assertEqual(penstock("pack", TINY, "-o", out, "--force").returncode, 0)
        self.assertEqual([p.name for p in self.folder.iterdir()], ["tiny.pack"])  # nothing else stays

    def test_a_damaged_pack_is_refused_where_it_is_read_or_verified(self):
        out = self.folder / "tiny.pack"
        self.assertEqual(penstock("pack", TINY, "-o", out).returncode, 0)
        weights = max(out.iterdir(), key=lambda path: path.stat().st_size)
        with weights.open("r+b") as file:
            file.seek(1000)
            byte = file.read(1)
            file.seek(1000)
            file.write(bytes([byte[0] ^ 1]))
        ids = self.file("ids.json", "[[1, 2]]")
        for flags in (["--load", "read"], ["--load", "map", "--verify"]):
            self.refused(penstock("eval", out, "--ids", ids, "--greedy", 1, *flags), 1, weights.name)


class Routing(Folder):
    POLICIES = {"lru", "lfu", "resident_lfu", "round", "forecast", "belady"}

    def record(self, *options):
        path = self.folder / "routing.jsonl"
        done = penstock("bench", MIXTURE, "--prefill", 20, "--decode", 12, "--context", 3, "--chunk", 16, "--repetitions", 2,
                        "--record-routing", path, *options)
        self.assertEqual(done.returncode, 0, done.stderr)
        return path

    def test_a_record_has_each_step_once_and_does_not_depend_on_where_experts_are(self):
        path = self.record()
        header, *steps = map(json.loads, path.read_text().splitlines())
        config = json.loads((MIXTURE / "config.json").read_text())
        self.assertEqual(header, {"penstock_routing": 1, "model": "qwen3_moe", "layers": config["num_hidden_layers"],
                                  "experts": config["num_experts"], "top_k": config["num_experts_per_tok"]})
        # A prompt in two chunks, decode's context, its tokens: of the run that does not count, and no other.
        self.assertEqual([(step["prompt"], step["generated"]) for step in steps], [(16, 0), (4, 0), (3, 0)] + 12 * [(0, 1)])
        for step in steps:
            self.assertEqual(len(step["experts"]), header["layers"])
            for experts in filter(None, step["experts"]):
                self.assertEqual(experts, sorted(set(experts)))
                self.assertTrue(set(experts) <= set(range(header["experts"])))
                if step["generated"]:
                    self.assertEqual(len(experts), header["top_k"])
        text = path.read_text()
        self.assertEqual(self.record("--expert-slots", 3).read_text(), text)

    def test_a_replay_is_tables_within_100_columns(self):
        done = penstock("plan", "--replay", self.record())
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.assertLessEqual(max(map(len, done.stdout.splitlines())), 100)
        self.assertEqual(len(re.findall(r"(?m)^ *slots +of all +LRU +LFU +resident LFU +round +forecast +Belady$", done.stdout)), 2)
        for share in (25, 50, 75, 100):
            self.assertEqual(len(re.findall(rf"(?m)^ *\d+ +{share} % (?: +[\d.]+ %){{6}}$", done.stdout)), 2)

    def test_a_replay_as_json(self):
        path = self.record()
        report = json.loads(penstock("plan", "--replay", path, "--json").stdout)
        self.assertEqual((report["record"]["model"], report["record"]["steps"]), ("qwen3_moe", 15))
        self.assertIn(report["shipped"], self.POLICIES)
        for row in report["rows"]:
            for kind in ("prefill", "decode"):
                self.assertEqual(set(row[kind]["hit_rate"]), self.POLICIES)
                self.assertTrue(all(0 <= rate <= 1 for rate in row[kind]["hit_rate"].values()))
        self.assertEqual(len(set(report["rows"][-1]["decode"]["hit_rate"].values())), 1)  # with a slot for each nothing is evicted
        (row,) = json.loads(penstock("plan", "--replay", path, "--json", "--expert-slots", 5).stdout)["rows"]
        self.assertEqual(row["slots"], 5)

    def test_text_decides_what_is_run(self):
        text = self.file("text.txt", "It is a truth universally acknowledged, that a single man in possession of a good fortune " * 3)
        done = penstock("bench", smollm2(), "--text", text, "--prefill", 8, "--decode", 2, "--repetitions", 1)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.refused(penstock("bench", smollm2(), "--text", text, "--prefill", 800, "--decode", 0), 2, text, "fewer than the 800")

    def test_what_is_no_record_is_refused_in_a_sentence(self):
        path = self.record()
        lines = path.read_text().splitlines()
        for number, line, words in ((1, "{}", "penstock_routing is missing"), (3, "[", "invalid JSON"),
                                    (4, lines[3].replace('"prompt":', '"prompt":-'), "prompt is -3")):
            with self.subTest(words):
                damaged = self.file("damaged.jsonl", "\n".join(lines[:number - 1] + [line] + lines[number:]))
                self.refused(penstock("plan", "--replay", damaged), 1, damaged, f"line {number}: ", words)
        self.refused(penstock("plan", "--replay", self.folder / "none.jsonl"), 1, "none.jsonl")
        self.refused(penstock("plan", "--replay", path, "--expert-slots", 100000), 2, "--expert-slots 100000")
        done = penstock("bench", MIXTURE, "--record-routing", self.folder / "no/such/file", "--decode", 1, "--repetitions", 1)
        self.assertEqual(done.returncode, 1)
        self.assertRegex(done.stderr, r"(?m)^error: cannot write .*no/such/file")


class ExpertsOnDisk(Folder):
    def test_no_token_depends_on_where_the_experts_are(self):
        ids = self.file("ids.json", json.dumps([[1, 2, 3], [17, 4, 80, 9, 33, 2, 61, 7]]))
        pack = self.folder / "mixture.pack"
        self.assertEqual(penstock("pack", MIXTURE, "-o", pack).returncode, 0)

        def greedy(model, *options):
            done = penstock("eval", model, "--ids", ids, "--greedy", 24, *options)
            self.assertEqual(done.returncode, 0, done.stderr)
            return done.stdout

        for precision in ("exact", "fast"):
            expected = greedy(MIXTURE, "--load", "read", "--cpu-precision", precision)
            for model in (MIXTURE, pack):
                for slots in ("1", "10%", "25%", "50%", "all"):
                    self.assertEqual(greedy(model, "--expert-slots", slots, "--cpu-precision", precision), expected, (model, slots))

    def test_a_model_of_twice_the_memory_serves(self):
        """In a memory cgroup of half its size, which is made here and needs the v1 controller and root."""
        pack = self.folder / "upcycled.pack"
        self.assertEqual(penstock("pack", smollm2(), "-o", pack, "--upcycle", 8, "--top-k", 2).returncode, 0)
        limit = sum(file.stat().st_size for file in pack.iterdir()) // 2
        group = pathlib.Path(f"/sys/fs/cgroup/memory/penstock_test_{os.getpid()}")
        try:
            group.mkdir()
            self.addCleanup(group.rmdir)
            (group / "memory.limit_in_bytes").write_text(str(limit))
        except OSError as error:
            self.skipTest(f"no memory cgroup can be made: {error}")
        ask = ("run", pack, "-p", QUESTION, "-n", 16, "--temperature", 0)
        free = penstock(*ask, "--load", "read")
        bound = subprocess.run([PENSTOCK, *map(str, ask)], capture_output=True, encoding="utf-8", timeout=300 * PATIENCE,
                               preexec_fn=lambda: (group / "cgroup.procs").write_text(str(os.getpid())))
        self.assertEqual((bound.returncode, bound.stdout), (0, free.stdout), bound.stderr)
        self.assertIn("experts on disk", bound.stderr)
        self.assertIn("oom_kill 0", (group / "memory.oom_control").read_text())
        self.assertLessEqual(int((group / "memory.max_usage_in_bytes").read_text()), limit)

    def test_the_start_says_how_many_are_in_ram(self):
        done = penstock("bench", MIXTURE, "--prefill", 0, "--decode", 4, "--repetitions", 1, "--expert-slots", 3)
        self.assertRegex(done.stderr, r"experts on disk, 3 of \d+ in RAM")
        self.assertRegex(done.stdout, r"decode: [\d.]+ % of the experts were in RAM")

    def test_what_cannot_be_is_refused(self):
        ids = self.file("ids.json", "[[1, 2]]")
        for slots in ("0", "101%", "0%", "-3", "some", "1.5"):
            self.refused(penstock("eval", MIXTURE, "--ids", ids, "--greedy", 1, "--expert-slots", slots), 2, "--expert-slots", slots)
        self.refused(penstock("eval", MIXTURE, "--ids", ids, "--greedy", 1, "--expert-slots", 3, "--load", "map"), 2, "--expert-slots", "--load map")
        self.refused(penstock("eval", TINY, "--ids", ids, "--greedy", 1, "--load", "disk"), 2, TINY, "no routed experts")


if __name__ == "__main__":
    PENSTOCK = str(pathlib.Path(sys.argv.pop(1)).resolve())
    unittest.main()
