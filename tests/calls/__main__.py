"""How many of a real program's joules have the name of a call, and whether these are right: `sudo python3 tests/calls [--only NAME,…] [--seconds N]`.

Each program of `programs/` is recorded by the power model, so that joules are CPU time, and says itself how much CPU time its calls took
(`windows.py`). A row says the share of the joules that have a name, without imports and the interpreter's start and end; how far its calls are
from their own time; and names that are nothing in the program's packages (`names.py`). Missing environments are made from PyPI, after they were
announced. Prints a table for docs/results/api-calls.md and asserts nothing. `names.py` alone looks names up in whole packages.
"""
import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HERE)
from environments import ensure  # noqa: E402
from programs import PROGRAMS  # noqa: E402

LEAST_WINDOW_NS = 500_000_000  # less is too few samples for a comparison
NOT_OF_THE_PROGRAM = ("[interpreter start]", "[interpreter end]")
NOT_CALLS = ("[own code]", "[no Python: ", "[unsampled]")


def main():
    options = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    options.add_argument("--binary", default=os.path.join(HERE, "../../target/release/energy-trace"))
    options.add_argument("--only", default="", help="names of programs, divided by commas")
    options.add_argument("--seconds", type=float, default=10, help="CPU seconds of each program, its start not counted")
    options.add_argument("--keep", help="folder in which recordings and windows stay")
    options.add_argument("--list", action="store_true")
    options = options.parse_args()
    only = [name for name in options.only.split(",") if name]
    programs = [program for program in PROGRAMS if not only or program.name in only]
    if options.list:
        print("\n".join(program.name for program in programs))
        return
    print("| program | J without import, start, end | named | public | own code | not named | windows: calls, median off | wrong names |")
    print("|---|---|---|---|---|---|---|---|", flush=True)
    with tempfile.TemporaryDirectory(prefix="calls-") as folder:
        folder = options.keep or folder
        os.makedirs(folder, exist_ok=True)
        offs = [off for program in programs for off in one(program, options, os.path.abspath(folder))]
    if offs:
        print(f"\n{len(offs)} calls of {LEAST_WINDOW_NS / 1e9} s and more: median {100 * statistics.median(offs):.1f} % off their own CPU time")


def one(program, options, folder):
    """Records a program and prints its row; how far each of its calls is from its own time."""
    python = ensure(program.environment)
    data, windows = (os.path.join(folder, program.name + end) for end in (".data", ".json"))
    if os.path.exists(windows):
        os.remove(windows)
    file, *arguments = program.command
    command = [python, os.path.join(HERE, "programs", file), str(options.seconds), *arguments]
    # Threads of OpenMP and OpenBLAS would spin where they wait: on a shared machine that is most of the run, and while they still spin for one call
    # the program is in the next one already, whose window has that time then.
    quiet = dict(OMP_WAIT_POLICY="passive", OPENBLAS_THREAD_TIMEOUT="4")
    environment = dict(os.environ, **quiet, CALLS_WINDOWS=windows, TF_CPP_MIN_LOG_LEVEL="3", HF_HUB_OFFLINE="1", PYTHONWARNINGS="ignore")
    with open(os.path.join(folder, program.name + ".log"), "wb") as log:
        start = [os.path.abspath(options.binary), "record", "--power", "model", "--no-svg", "-o", data, "--"]
        code = subprocess.run(start + command, env=environment, cwd=folder, stdout=log, stderr=log, stdin=subprocess.DEVNULL).returncode
    if code != 0 or not os.path.exists(windows):
        print(f"| {program.name} | failed: exit {code}, see {log.name} | | | | | | |", flush=True)
        return []
    rows = report(options.binary, data)
    with open(windows, encoding="utf-8") as text:
        truth = {name: ns for name, (ns, _) in json.load(text).items()}
    found = {row["name"]: row["total_ns"] for row in rows}
    offs = {name: abs(found.get(name, 0) - ns) / ns for name, ns in truth.items() if ns >= LEAST_WINDOW_NS}
    print(f"| {program.name} | {cells(rows)} | {window_cell(offs)} | {wrong_cell(python, rows)} |", flush=True)
    with open(os.path.join(folder, program.name + ".txt"), "w", encoding="utf-8") as out:
        for name, ns in sorted(truth.items()):
            print(f"{name}: {found.get(name, 0) / 1e9:.3f} of {ns / 1e9:.3f} s", file=out)
        for row in rows:
            print(f"{row['kind']:9} {joules(row):8.3f} J  {row['total_ns'] / 1e9:7.3f} s  {row['name']}", file=out)
    return list(offs.values())


def report(binary, data):
    """The rows of `--by api`."""
    command = [os.path.abspath(binary), "report", data, "--by", "api", "--format", "json"]
    text = subprocess.run(command, check=True, capture_output=True).stdout
    return sorted(json.loads(text)["rows"], key=joules, reverse=True)


def joules(row):
    return sum(uj or 0 for uj in row["self_uj"].values()) / 1e6


def cells(rows):
    """Joules, and of what they are."""
    own = lambda rows: sum(map(joules, rows))
    of_program = [row for row in rows if row["kind"] != "import" and row["name"] not in NOT_OF_THE_PROGRAM and row["name"] != "[import]"]
    total = own(of_program) or 1
    calls = [row for row in of_program if row["kind"] == "call"]
    public = [row for row in calls if not any(part.startswith("_") and not part.startswith("__") for part in row["name"].split("."))]
    code = [row for row in of_program if row["kind"] == "rest" and row["name"].startswith(NOT_CALLS)]
    rest = [row for row in of_program if row not in calls and row not in code]
    named = own(calls) + own(code)
    share = lambda joules: f"{100 * joules / total:.1f} %"
    worst = ", ".join(f"`{row['name']}` {share(joules(row))}" for row in rest if joules(row) > 0.01 * total)
    return f"{total:.1f} | {share(named)} | {share(own(public))} | {share(own(code))} | {share(own(rest))} {worst}"


def window_cell(offs):
    if not offs:
        return "0"
    worst = max(offs, key=offs.get)
    return f"{len(offs)}, {100 * statistics.median(offs.values()):.1f} %, most {100 * offs[worst]:.1f} % (`{worst}`)"


def wrong_cell(python, rows):
    """Names of calls that are nothing in the packages that the program sees."""
    names = [row["name"] for row in rows if row["kind"] == "call"]
    command = [python, os.path.join(HERE, "names.py"), "resolve"]
    asked = subprocess.run(command, input="\n".join(names), capture_output=True, text=True, check=True)
    wrong = [line.removeprefix("! ") for line in asked.stdout.splitlines() if line.startswith("! ")]
    return f"{len(wrong)} of {len(names)}" + "".join(f" `{name}`" for name in wrong)


if __name__ == "__main__":
    main()
