"""How many of the API calls of FECoM's patched programs get their name: `sudo python3 tests/calls/fecom.py [--names FILE] [--environment NAME]`.

FECoM (Rajput et al., github.com/SMART-Dal/FECoM) measures calls of TensorFlow in tutorials that it patched; `fecom.txt` holds the names that
it gives to them, which `--from FOLDER` takes from its `data/code-dataset/Patched-Repositories`. To call each as the tutorials do would take data
sets and hours. So each is looked up in TensorFlow, and a program is recorded in which a loop that has the code's file, name and line calls
itself what that function's frame is: energy-trace has to find the name from the frame and the package's files. A name counts as found where
what energy-trace says is the same object. Leaves out whether the joules are right (`__main__.py`).
"""
import argparse
import json
import os
import re
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HERE)
from environments import ensure  # noqa: E402
from stand_ins import without_arguments  # noqa: E402

CALL = re.compile(r"before_execution_INSERTED_INTO_SCRIPT\([^\n]*?function_to_run=(['\"])(.*?)\1\)\s*$", re.M)


def main():
    options = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    options.add_argument("--binary", default=os.path.join(HERE, "../../target/release/energy-trace"))
    options.add_argument("--environment", default="tensorflow-2.12")
    options.add_argument("--names", default=os.path.join(HERE, "fecom.txt"))
    options.add_argument("--from", dest="source", help="write the names of FECoM's programs in this folder to --names, and end")
    options.add_argument("--verbose", action="store_true", help="print each name that is not found")
    options = options.parse_args()
    if options.source:
        return take(options.source, options.names)
    with tempfile.TemporaryDirectory(prefix="fecom-") as folder:
        show(options, ensure(options.environment), folder)


def take(source, names):
    """The distinct names, without the arguments that FECoM writes into some."""
    found = set()
    for folder, _, files in os.walk(source):
        for file in files:
            if file.endswith(".py"):
                with open(os.path.join(folder, file), encoding="utf-8") as text:
                    found.update(without_arguments(match[2]) for match in CALL.finditer(text.read()))
    with open(names, "w", encoding="utf-8") as out:
        out.write("".join(f"{name}\n" for name in sorted(found)))
    print(f"{len(found)} names in {names}")


def show(options, python, folder):
    """Records and compares."""
    program, truth, data = (os.path.join(folder, name) for name in ("calls.py", "truth.json", "calls.data"))
    start = [python, os.path.join(HERE, "stand_ins.py"), os.path.abspath(options.names), program, truth]
    record = [os.path.abspath(options.binary), "record", "--power", "model", "--no-svg", "-o", data, "--", *start]
    environment = dict(os.environ, TF_CPP_MIN_LOG_LEVEL="3", PYTHONWARNINGS="ignore")
    quiet = dict(env=environment, cwd=folder, capture_output=True, text=True)
    recorded = subprocess.run(record, **quiet)
    if recorded.returncode != 0:
        sys.exit(recorded.stderr[-2000:])
    report = subprocess.run([os.path.abspath(options.binary), "report", data, "--by", "call", "--format", "json"], **quiet)
    said = {}
    for row in json.loads(report.stdout)["rows"]:
        site = row["call_site"]
        if site and site["file"] == program:
            said.setdefault(site["line"], []).append((row["total_ns"], row["kind"], site["api"]))
    said = {line: max(rows) for line, rows in said.items()}
    asked = subprocess.run(
        [python, os.path.join(HERE, "stand_ins.py"), "--compare", truth], input=json.dumps(said), **quiet
    )
    if asked.returncode != 0:
        sys.exit(asked.stderr[-2000:])
    verdicts = json.loads(asked.stdout)
    count = lambda *kinds: sum(verdict[1] in kinds for verdict in verdicts)
    print(f"{len(verdicts)} names of FECoM in {options.environment}:")
    for kind in sorted({verdict[1] for verdict in verdicts}):
        print(f"  {count(kind):4} {kind}")
    print(f"found: {count('found')} of {len(verdicts)}, {100 * count('found') / len(verdicts):.1f} %")
    reachable = len(verdicts) - count("nothing in this TensorFlow", "of the program itself")
    print(f"of those that this TensorFlow has: {count('found')} of {reachable}, {100 * count('found') / max(reachable, 1):.1f} %")
    if options.verbose:
        print("\n".join(f"{kind}: {name} {said}" for name, kind, said in verdicts if kind != "found"))


if __name__ == "__main__":
    main()
