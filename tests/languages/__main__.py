"""How whole stacks are in programs of many languages: `sudo python3 tests/languages [--binary PATH] [--only NAME;…] [--seconds N] [--list]`.

Each program does the same (`work.*`: calls of calls, sorting, text), or is a real one; it is compiled where it must be, recorded by sampling
alone, and a row of the table says how its samples' stacks ended. A program whose compiler or interpreter is not installed is left out by name,
with Debian's package of it. Prints a table for docs/results/stacks.md and asserts nothing. Leaves out Python's oracle (`cargo xtask oracle`).
"""

import argparse
import collections
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HERE)
from programs import PROGRAMS  # noqa: E402


def main():
    options = argparse.ArgumentParser()
    options.add_argument("--binary", default=os.path.join(HERE, "../../target/release/energy-trace"))
    options.add_argument("--only", default="")
    options.add_argument("--seconds", type=int, default=2)
    options.add_argument("--hz", type=int, default=499)
    options.add_argument("--keep", help="folder in which recordings stay")
    options.add_argument("--all-at-once", action="store_true", help="Go, Node, Java, Ruby and Python beside each other, recorded with -a")
    options.add_argument("--list", action="store_true")
    options = options.parse_args()
    options.binary = os.path.abspath(options.binary)
    names = [name for name in options.only.split(";") if name]
    programs = [program for program in PROGRAMS if not names or program.name in names]
    if options.list:
        print("\n".join(f"{p.name}: {p.package}" for p in programs))
        return
    with tempfile.TemporaryDirectory(prefix="languages-") as folder:
        os.chmod(folder, 0o755)
        if options.all_at_once:
            together(folder, options)
            return
        print("| program | samples | whole % | guessed % | what is missing, % |\n|---|---|---|---|---|", flush=True)
        for program in programs:
            print(row(program, folder, options), flush=True)


def row(program, folder, options):
    """One line of the table."""
    missing = [tool for tool in program.tools if not shutil.which(tool)]
    if missing:
        return f"| {program.name} | | | | not run: no {missing[0]} (Debian: {program.package}) |"
    try:
        command = prepare(program, folder, options.seconds)
        data = os.path.join(options.keep or folder, re.sub(r"\W+", "_", program.name) + ".data")
        return f"| {program.name} | {cells(record(options, data, ['--', *command], folder))} |"
    except subprocess.CalledProcessError as error:
        last = (error.stderr or b"").decode(errors="replace").strip().splitlines()[-1:]
        return f"| {program.name} | | | | failed: {' '.join(last)[:100]} |"


def prepare(program, folder, seconds):
    """Compiles it; the command that runs it."""
    own = os.path.join(folder, re.sub(r"\W+", "_", program.name))
    os.makedirs(own, exist_ok=True)
    for file in os.listdir(HERE):
        if file.lower().startswith("work."):
            shutil.copy(os.path.join(HERE, file), own)
    program_words = {"seconds": str(seconds), "dir": own, "source": HERE}
    for line in program.build:
        subprocess.run(line.format(**program_words), shell=True, check=True, cwd=own, capture_output=True, timeout=300)
    return [word.format(**program_words) for word in program.run]


def record(options, data, what, folder, hz=None):
    """Records; the report and its folded stacks."""
    quiet = dict(check=True, capture_output=True, cwd=folder, timeout=300, stdin=subprocess.DEVNULL)
    start = [options.binary, "record", "--power", "model", "--no-svg", "-F", str(hz or options.hz), "-o", data]
    subprocess.run(start + what, **quiet)
    report = subprocess.run([options.binary, "report", "--format", "json", data], **quiet).stdout
    folded = subprocess.run([options.binary, "export", "--format", "folded", "--native-frames", "all", data], **quiet).stdout
    return json.loads(report)["meta"]["sampling"]["verdicts"], folded.decode(errors="replace")


def cells(recorded):
    """Samples, whole, guessed, and the verdicts of the rest with the functions in which stacks end early."""
    verdicts, folded = recorded
    total = sum(verdicts.values()) or 1
    share = lambda *kinds: 100 * sum(verdicts.get(kind, 0) for kind in kinds) / total
    rest = sorted(((n, kind) for kind, n in verdicts.items() if kind not in ("complete", "healed", "guessed")), reverse=True)
    words = [f"{kind.removeprefix('truncated:')} {floor(100 * n / total)}" for n, kind in rest if n * 500 >= total]
    if share("complete", "healed") < 95:
        ends = ", ".join(f"`{name}` {floor(part)}" for name, part in ends_of(folded) if part >= 2)
        words += [f"cut or guessed at: {ends}"] if ends else []
    return f"{total} | {floor(share('complete', 'healed'))} | {floor(share('guessed'))} | {'; '.join(words)}"


def floor(percent):
    """Never rounded up."""
    return int(10 * percent) / 10


MARK = re.compile(r"^\[(no unwind info|unknown: .*)\]")


def ends_of(folded):
    """The functions whose callers were not found, by share of the weight."""
    ends, total = collections.Counter(), 0
    for line in folded.splitlines():
        stack, _, weight = line.rpartition(" ")
        frames = [re.sub(r"_\[\w\]$", "", frame) for frame in stack.split(";")]
        total += int(weight)
        marks = [i for i, frame in enumerate(frames) if MARK.match(frame)]
        if marks:
            ends[frames[marks[-1] + 1] if marks[-1] + 1 < len(frames) else frames[marks[-1]]] += int(weight)
    return [(name[:50], 100 * weight / (total or 1)) for name, weight in ends.most_common(3)]


def together(folder, options):
    """The five of a server at once, by `-a`."""
    wanted = ["Go", "Node", "Java", "Ruby", "Python 3 (system)"]
    programs = [program for program in PROGRAMS if program.name in wanted]
    missing = [f"{tool} (Debian: {program.package})" for program in programs for tool in program.tools if not shutil.which(tool)]
    if missing:
        sys.exit(f"not run: no {', '.join(missing)}")
    commands = [prepare(program, folder, options.seconds + 4) for program in programs]
    running = [subprocess.Popen(command, stdout=subprocess.DEVNULL, stdin=subprocess.DEVNULL) for command in commands]
    try:
        found = record(options, os.path.join(options.keep or folder, "all.data"), ["-a", "--duration", f"{options.seconds}s"], folder)
    finally:
        for process in running:
            process.kill()
            process.wait()
    print("| programs | samples | whole % | guessed % | what is missing, % |\n|---|---|---|---|---|")
    print(f"| {', '.join(p.name for p in programs)} by `-a` | {cells(found)} |")


if __name__ == "__main__":
    main()
