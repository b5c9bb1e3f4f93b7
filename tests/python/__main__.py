"""The Python package on every CPython of this machine, then in Jupyter and pytest: `cargo xtask python` calls it, as root.

`ENERGY_TRACE` and `POWERCAP_SIM` name programs, `PICTURES` a folder. The package is on the `PYTHONPATH`, as pip leaves it. Prints a row for
each interpreter: its version, how its tests went, and what a range costs where nobody records.
"""

import glob
import os
import subprocess
import sys
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
CACHE = os.environ.get("ENERGY_TRACE_CACHE") or os.path.join(os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache"), "energy-trace")
PLACES = ["/usr/bin/python3", os.path.expanduser("~/.pyenv/versions/3.*/bin/python3"), CACHE + "/pythons/*/bin/python3"]
# What the package says it runs on; a machine without one of them has not tried it.
WANTED = [f"3.{minor}" for minor in range(8, 16)]
COST = """
import platform, sys, timeit, energy_trace
def marked():
    with energy_trace.range("x"): pass
if sys.version_info < (3, 8): sys.exit(3)
print(platform.python_version(), round(min(timeit.repeat(marked, number=20000, repeat=20)) / 20000 * 1e9))
"""


def interpreters():
    found = [sys.executable] + [path for place in PLACES for path in sorted(glob.glob(place))]
    supported = "import sys; sys.exit(sys.version_info < (3, 8))"
    return [path for path in found if subprocess.run([path, "-c", supported]).returncode == 0]


def main():
    failed, missing = 0, list(WANTED)
    for python in interpreters():
        tests = subprocess.run([python, "-W", "error", "-m", "unittest", "discover", "-s", HERE], stderr=subprocess.PIPE)
        version, cost = subprocess.check_output([python, "-c", COST]).decode().split()
        print(f"{version:10} {'passed' if tests.returncode == 0 else 'FAILED'}  a range costs {cost} ns  {python}", flush=True)
        missing = [wanted for wanted in missing if wanted != ".".join(version.split(".")[:2])]
        if tests.returncode != 0:
            failed += 1
            print(tests.stderr.decode())
    if missing:
        failed += 1
        print(f"not tried: CPython {', '.join(missing)}: `xtask/pythons` fetches 3.9, 3.14 and 3.15, `pyenv install 3.x` the others", flush=True)
    types = [sys.executable, "-m", "mypy", "--strict", "--no-error-summary", "-p", "energy_trace"]
    failed += subprocess.run(types, cwd=os.environ["PYTHONPATH"]).returncode
    sys.path.insert(0, HERE)
    import live

    ran = unittest.TextTestRunner(verbosity=2).run(unittest.defaultTestLoader.loadTestsFromModule(live))
    sys.exit(failed > 0 or not ran.wasSuccessful())


main()
