"""What was computed for prompts stays on disk: it comes back after a restart, and only to whom it belongs."""
import os
import re
import shutil
import stat
import subprocess
import time

import raw

LONG = "A penstock leads water from a reservoir to the turbine. " * 30
ANSWER_TOKENS = 12


def ask(server, content=LONG, key=None):
    headers = {"Authorization": f"Bearer {key}"} if key else {}
    answer = raw.ask(server.port, "POST", "/v1/chat/completions", raw.chat_body(content, max_tokens=ANSWER_TOKENS, ignore_eos=True), headers)
    assert answer.status == 200, answer.body
    body = answer.json()
    return body["choices"][0]["message"]["content"], body["usage"]["prompt_tokens_details"]["cached_tokens"]


def metric(server, name):
    text = raw.ask(server.port, "GET", "/metrics").body.decode()
    return float(re.search(rf"^{re.escape(name)} (\S+)$", text, re.MULTILINE)[1])


def wait_for_pages(server, n):
    for _ in range(int(600 * raw.PATIENCE)):
        if metric(server, "penstock_kv_spill_pages") >= n:
            return
        time.sleep(0.1)
    raise AssertionError(f"no {n} pages were spilled:\n" + server.log())


def end(server):
    server.terminate()
    assert server.process.wait(60 * raw.PATIENCE) == 0
    server.stop()


def test_a_prompt_survives_a_restart(own_server, tmp_path):
    folder = tmp_path / "kv" / "spill"
    first = own_server("--kv-spill", folder, "--kv-spill-gib", "200MiB").wait_until_ready()
    first.wait_for_line(f"KV pages spill to {folder}: 0 of ")
    text, cached = ask(first)
    assert cached == 0
    end(first)
    assert re.search(r"KV pages: [1-9]\d* are spilled", first.log()), first.log()
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert {f.name for f in folder.iterdir()} == {"index", "pages"}
    assert all(stat.S_IMODE(f.stat().st_mode) == 0o600 for f in folder.iterdir())
    assert (folder / "pages").stat().st_blocks * 512 <= 200 * 2**20

    second = own_server("--kv-spill", folder, "--kv-spill-gib", "200MiB").wait_until_ready()
    again, cached = ask(second)
    assert again == text
    assert cached >= 256 and cached % 64 == 0
    assert metric(second, 'penstock_kv_spill_pages_total{event="restored"}') == cached / 64
    assert metric(second, 'penstock_kv_spill_pages_total{event="damaged"}') == 0
    assert metric(second, 'penstock_kv_spill_bytes_total{direction="read"}') > 0
    assert metric(second, "penstock_kv_spill_read_seconds_total") > 0
    assert ask(second)[1] >= cached, "it stays in RAM"


def test_a_prompt_survives_a_kill(own_server, tmp_path):
    first = own_server("--kv-spill", tmp_path / "spill").wait_until_ready()
    text, _ = ask(first)
    wait_for_pages(first, 5)
    first.stop()  # kill -9
    second = own_server("--kv-spill", tmp_path / "spill").wait_until_ready()
    again, cached = ask(second)
    assert again == text
    assert cached >= 256


def test_pages_of_another_model_are_not_trusted(own_server, tmp_path, monkeypatch):
    folder = tmp_path / "spill"
    first = own_server("--kv-spill", folder).wait_until_ready()
    text, _ = ask(first)
    end(first)
    # The same bytes, but who knows that: another file could have other weights.
    copy = tmp_path / "copy.gguf"
    shutil.copy(os.environ["PENSTOCK_TEST_MODEL"], copy)
    with monkeypatch.context() as environment:
        environment.setenv("PENSTOCK_TEST_MODEL", str(copy))
        other = own_server("--kv-spill", folder).wait_until_ready()
    other.wait_for_line("is thrown away: it was computed from another model")
    assert ask(other) == (text, 0)
    end(other)
    # The class is another one too.
    fast = own_server("--kv-spill", folder, "--cpu-precision", "fast").wait_until_ready()
    fast.wait_for_line("is thrown away")
    assert ask(fast)[1] == 0


def test_a_damaged_folder_costs_time_only(own_server, tmp_path):
    folder = tmp_path / "spill"
    first = own_server("--kv-spill", folder).wait_until_ready()
    text, _ = ask(first)
    end(first)
    with open(folder / "pages", "r+b") as pages:
        pages.write(b"\xff" * 5_000_000)
    second = own_server("--kv-spill", folder).wait_until_ready()
    assert ask(second) == (text, 0)
    assert metric(second, 'penstock_kv_spill_pages_total{event="damaged"}') > 0
    end(second)
    (folder / "index").write_bytes(b"nonsense" * 1000)
    third = own_server("--kv-spill", folder).wait_until_ready()
    assert ask(third) == (text, 0)


def test_keys_do_not_share_across_a_restart(own_server, tmp_path):
    arguments = ["--kv-spill", tmp_path / "spill", "--api-key", "sk-alice", "--api-key", "sk-bob"]
    first = own_server(*arguments).wait_until_ready()
    text, _ = ask(first, key="sk-alice")
    end(first)
    for file in (tmp_path / "spill").iterdir():
        assert b"sk-alice" not in file.read_bytes()
    second = own_server(*arguments).wait_until_ready()
    assert ask(second, key="sk-bob") == (text, 0)
    again, cached = ask(second, key="sk-alice")
    assert again == text and cached >= 256


def test_bc_65_a_folder_that_cannot_be_used_is_one_warning(own_server, tmp_path):
    first = own_server("--kv-spill", tmp_path / "spill").wait_until_ready()
    text, _ = ask(first)
    second = own_server("--kv-spill", tmp_path / "spill").wait_until_ready()
    second.wait_for_line(f"KV pages are not spilled: another process keeps its KV pages in {tmp_path / 'spill'}")
    assert ask(second)[0] == text
    (tmp_path / "file").write_text("not a folder")
    third = own_server("--kv-spill", tmp_path / "file").wait_until_ready()
    third.wait_for_line("KV pages are not spilled: ")
    assert ask(third)[0] == text


def test_a_small_budget_never_grows(own_server, tmp_path):
    server = own_server("--kv-spill", tmp_path / "spill", "--kv-spill-gib", "20MiB", "--kv-tokens", "1024").wait_until_ready()
    answers = {}
    for round_ in range(2):
        for i in range(4):
            text, _ = ask(server, f"Story number {i}. " + LONG)
            assert answers.setdefault(i, text) == text
    assert (tmp_path / "spill" / "pages").stat().st_size <= 20 * 2**20
    assert metric(server, "penstock_kv_spill_bytes") <= 20 * 2**20
    assert metric(server, 'penstock_kv_spill_pages_total{event="spilled"}') > 0


def refusal(*arguments):
    done = subprocess.run([os.environ["PENSTOCK_BIN"], "serve", os.environ["PENSTOCK_TEST_MODEL"], "--port", "0", *arguments],
                          capture_output=True, text=True, timeout=120 * raw.PATIENCE)
    return done.returncode, done.stderr


def test_flags_that_make_no_sense_are_refused(tmp_path):
    folder = str(tmp_path / "spill")
    for arguments, what in [(["--kv-spill", folder, "--kv-spill-gib", "0"], "nothing fits into 0"),
                            (["--kv-spill", folder, "--kv-spill-gib", "many"], "many"),
                            (["--kv-spill-gib", "5"], "--kv-spill"),
                            (["--kv-spill", folder, "--prefix-sharing", "off"], "--prefix-sharing is off"),
                            (["--kv-spill", folder, "--kv-spill-gib", "4KiB"], "a KV page takes")]:
        code, error = refusal(*arguments)
        assert code == 2 and what in error, (arguments, code, error)
    assert not (tmp_path / "spill").exists()
