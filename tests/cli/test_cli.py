#!/usr/bin/env python3
"""The command line as people and scripts meet it: help, errors and exit codes, and what each command prints.

usage: test_cli.py PENSTOCK [unittest options]     fetches SmolLM2 with scripts/fetch_smollm2.sh for what needs a tokenizer
"""
import json
import os
import re
import signal
import subprocess
import tempfile
import time
import unittest

from program import ANSWER, Folder, MIXTURE, PATIENCE, PENSTOCK, QUESTION, REFERENCE, ROOT, Server, TINY, Terminal, penstock, smollm2

TINY_CONTEXT = json.loads((TINY / "config.json").read_text())["max_position_embeddings"]
COMMANDS = ["run", "chat", "serve", "ctl", "plan", "doctor", "eval", "bench", "pack", "tokenize", "template"]
NOBODY = "http://127.0.0.1:9"  # the discard port: nothing listens there


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


if __name__ == "__main__":
    unittest.main()
