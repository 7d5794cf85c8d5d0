"""What every measurement says beside its numbers: when, on which machine, and who else was at work."""
import datetime
import json
import os
import pathlib
import platform
import re
import statistics
import subprocess


def circumstances(options):
    """The head of a report; `options` have model, penstock and threads."""
    return {
        "date": datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds"),
        "machine": {"cpu": cpu_name(), "kernel": platform.release(), "threads": options.threads,
                    "cpus": len(os.sched_getaffinity(0))},
        "model": pathlib.Path(options.model).name,
        "penstock": version_of(options.penstock),
    }


def add_comparison_arguments(parser, peer):
    """What every comparison with a peer takes; `peer` is the name of its program."""
    parser.add_argument("--penstock", type=pathlib.Path, required=True)
    parser.add_argument("--peer", type=pathlib.Path, required=True, help=peer)
    parser.add_argument("--model", type=pathlib.Path, required=True)
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--cpu-precision", choices=["exact", "fast"], default="fast", help="of Penstock [fast]")
    parser.add_argument("--out", type=pathlib.Path)


def write_report(report, out):
    """Prints the report, and writes it to `out` where that is given."""
    text = json.dumps(report, indent=1)
    if out:
        out.parent.mkdir(parents=True, exist_ok=True)
        out.write_text(text + "\n")
    print(text)


def version_of(program):
    done = subprocess.run([program, "--version"], capture_output=True, text=True)
    return (done.stdout + done.stderr).strip().splitlines()


def cpu_name():
    text = pathlib.Path("/proc/cpuinfo").read_text()
    name = re.search(r"model name\s*: (.*)", text).group(1)
    flags = re.search(r"flags\s*: (.*)", text).group(1).split()
    extensions = [flag for flag in ("avx2", "avx512f", "avx512_vnni", "avx512_bf16", "amx_int8") if flag in flags]
    return f"{name} ({' '.join(extensions)})"


def spread(values):
    return {"min": min(values), "median": statistics.median(values), "max": max(values)}


def in_turn(sides, number):
    """Whoever was second in one round is first in the next."""
    return list(sides) if number % 2 == 0 else list(sides)[::-1]


class ForeignShare:
    """The share of the processors that went to others than this process's children, from the making of this object on.

    A child's time counts as its own once it has ended and been waited for.
    """

    def __init__(self):
        self.ticks, self.own = processor_ticks(), os.times()

    def so_far(self):
        busy, every = (now - then for now, then in zip(processor_ticks(), self.ticks))
        own = os.times()
        ours = (own.children_user + own.children_system - self.own.children_user - self.own.children_system) * os.sysconf("SC_CLK_TCK")
        return round(max(0.0, busy - ours) / every if every else 0.0, 4)


def processor_ticks():
    """Busy ticks of all processors together, and all ticks."""
    fields = [int(field) for field in pathlib.Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:9]]
    idle = fields[3] + fields[4]
    return sum(fields) - idle, sum(fields)
