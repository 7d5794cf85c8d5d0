#!/usr/bin/env python3
"""Where a model lives, as people meet it: plans, the machine's profile, experts on disk and the record of their routing.

usage: test_memory.py PENSTOCK [unittest options]     fetches SmolLM2 with scripts/fetch_smollm2.sh for what needs a tokenizer
"""
import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import time
import unittest

from program import Folder, MIXTURE, PATIENCE, PENSTOCK, QUESTION, ROOT, TINY, Terminal, penstock, smollm2


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
        # Formats that a slow build has no time for stay unknown; the first never does.
        formats = {"q4_0", "q4_k", "q8_0", "nvfp4", "mxfp4", "bf16"} if PATIENCE == 1 else {"bf16"}
        self.assertLessEqual(formats, set(machine["cpu"]["expert_gb_s"]))
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
        for row in ("CPU", "RAM", "memory reads", "experts", "disk", "direct reads", "memlock", "GPU", "GPU link", "pin quota"):
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

    def test_a_batch_decodes_its_sequences_at_once(self):
        path = self.folder / "routing.jsonl"
        done = penstock("bench", MIXTURE, "--prefill", 0, "--decode", 12, "--context", 3, "--batch", 4, "--repetitions", 2,
                        "--record-routing", path, "--json")
        self.assertEqual(done.returncode, 0, done.stderr)
        (row,) = json.loads(done.stdout)["rows"]
        self.assertEqual((row["kind"], row["tokens"], row["batch"], row["context"]), ("decode", 12, 4, 3))
        steps = [json.loads(line) for line in path.read_text().splitlines()[1:]]
        # Each sequence's context, then steps of a token of each.
        self.assertEqual([(step["prompt"], step["generated"]) for step in steps], 4 * [(3, 0)] + 12 * [(0, 4)])

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
        if PATIENCE > 1:
            self.skipTest("sanitizers need several times the memory of what they watch")
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

    def test_a_model_replaced_while_it_runs_is_the_old_one_or_one_clear_error(self):
        model = self.folder / "mixture"

        def while_it_runs(change, *options):
            shutil.rmtree(model, ignore_errors=True)
            shutil.copytree(MIXTURE, model)
            running = subprocess.Popen([PENSTOCK, "bench", model, "--prefill", "0", "--decode", "200", "--repetitions", "30", *options],
                                       stdout=subprocess.PIPE, stderr=subprocess.PIPE, encoding="utf-8")
            while "layers" not in running.stderr.readline():  # it is loaded then
                self.assertIsNone(running.poll())
            change(model / "model.safetensors")
            _, err = running.communicate(timeout=300 * PATIENCE)
            return running.returncode, [line for line in err.splitlines() if "error" in line]

        def replace(file):
            (model / "other").write_bytes(bytes(file.stat().st_size))
            os.rename(model / "other", file)

        def cut_short(file):
            os.truncate(file, 4096)

        for options in (("--load", "map"), ("--load", "read"), ("--expert-slots", "1")):
            with self.subTest(options):
                self.assertEqual(while_it_runs(replace, *options), (0, []))
        self.assertEqual(while_it_runs(cut_short, "--load", "read"), (0, []))
        for options, words in ((("--load", "map"), "a mapped file lost bytes"), (("--expert-slots", "1"), "model.safetensors is too short")):
            with self.subTest(options):
                status, errors = while_it_runs(cut_short, *options)
                self.assertEqual((status, len(errors)), (1, 1), errors)
                self.assertIn(words, errors[0])

    def test_the_start_says_how_many_are_in_ram(self):
        done = penstock("bench", MIXTURE, "--prefill", 0, "--decode", 4, "--repetitions", 1, "--expert-slots", 3)
        self.assertRegex(done.stderr, r"experts on disk, 3 of \d+ in RAM")
        self.assertRegex(done.stdout, r"decode: [\d.]+ % of the experts had a slot")

    def test_what_cannot_be_is_refused(self):
        ids = self.file("ids.json", "[[1, 2]]")
        for slots in ("0", "101%", "0%", "-3", "some", "1.5"):
            self.refused(penstock("eval", MIXTURE, "--ids", ids, "--greedy", 1, "--expert-slots", slots), 2, "--expert-slots", slots)
        self.refused(penstock("eval", MIXTURE, "--ids", ids, "--greedy", 1, "--expert-slots", 3, "--load", "map"), 2, "--expert-slots", "--load map")
        self.refused(penstock("eval", TINY, "--ids", ids, "--greedy", 1, "--load", "disk"), 2, TINY, "no routed experts")


if __name__ == "__main__":
    unittest.main()
