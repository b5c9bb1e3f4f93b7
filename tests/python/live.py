"""The magic in a real Jupyter and the plugin in pytest, on simulated power; needs root. `cargo xtask python` calls it (`__main__.py`).

Leaves out what needs neither (`test_package.py`).
"""

import contextlib
import inspect
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import unittest
import xml.etree.ElementTree

import nbclient
import nbformat

ROOT = pathlib.Path(__file__).resolve().parents[2]
PROGRAM = os.environ["ENERGY_TRACE"]
# A processor of its own: the simulator charges nothing for what others do.
CPU = max(os.sched_getaffinity(0))


@contextlib.contextmanager
def power(*options):
    """Simulated counters: the environment of a workload, words for energy-trace, and where joules of functions are told afterwards."""
    with tempfile.TemporaryDirectory() as folder:
        words = [os.environ["POWERCAP_SIM"], folder + "/sys", "--sockets", str(os.cpu_count()), "--socket", folder + "/socket"]
        words += ["--truth", folder + "/truth", *options]
        (pathlib.Path(folder) / "sys").mkdir()
        simulator = subprocess.Popen(words, stdout=subprocess.PIPE)
        try:
            simulator.stdout.readline()
            workloads = os.pathsep.join([str(ROOT / "tests/workloads"), os.environ["PYTHONPATH"]])
            truth = {}
            yield {**os.environ, "POWER_SIM_SOCKET": folder + "/socket", "PYTHONPATH": workloads}, f"--path.sysfs {folder}/sys", truth
        finally:
            simulator.terminate()
            simulator.communicate()
        functions = json.loads((pathlib.Path(folder) / "truth").read_text())["functions"]
        truth.update({name: function["uj"] / 1e6 for name, function in functions.items()})


SETUP = f"""
import energy_trace, os, phases
os.sched_setaffinity(0, {{{CPU}}})
os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(10))
declared = phases.Declaration()
%load_ext energy_trace
"""


def of_range(printed, label):
    """Joules and CPU seconds that a table of ranges says of one."""
    (found,) = re.findall(rf"([\d.]+) J +\S+ +([\d.]+) CPU s  {label}$", printed, re.MULTILINE)
    return [float(number) for number in found]


class Jupyter(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name

    def run_cells(self, *codes):
        """Outputs of each cell in a kernel of its own."""
        with power() as (environment, sysfs, self.truth):
            cells = [nbformat.v4.new_code_cell(code.replace("SYSFS", sysfs)) for code in codes]
            self.notebook = nbformat.v4.new_notebook(cells=cells)
            client = nbclient.NotebookClient(self.notebook, allow_errors=True, timeout=120, resources={"metadata": {"path": self.folder}})
            client.execute(env=environment)
        return [cell.outputs for cell in self.notebook.cells]

    def test_a_cell(self):
        cell = """%%joules -o kept --record 'SYSFS --idle-watts 10'
            import time
            before = time.thread_time_ns()
            for _ in range(10):
                with energy_trace.range("prefill"):
                    phases.forty_watts(declared, 0.1)
                phases.forty_watts(declared, 0.2)
            print("ran")
            time.thread_time_ns() - before"""
        set_up, outputs = self.run_cells(SETUP, inspect.cleandoc(cell))
        self.assertEqual(set_up, [])
        self.assertEqual([output.output_type for output in outputs], ["stream", "display_data", "execute_result"], outputs)
        printed, shown, value = outputs
        self.assertEqual(printed.text, "ran\n")
        summary, page = shown.data["text/plain"], shown.data["text/html"]
        self.assertRegex(summary, r"from energy counters")
        self.assertIn("phases.forty_watts", summary)
        self.assertIn("recording: kept.data, page: kept.html", summary)
        self.assertRegex(summary, r"(?s)\n\nRanges, .* prefill\n\nrecording: kept")
        used, seconds = of_range(summary, "prefill")
        self.assertAlmostEqual(seconds, int(value.data["text/plain"]) / 3e9, delta=0.05, msg=summary)
        # Nothing else tells its power apart: the interval is wide.
        self.assertAlmostEqual(used, 38, delta=15, msg=summary)
        self.assertIn('<iframe sandbox="allow-scripts" srcdoc="', page)
        self.assertNotIn("<script", page)
        self.picture()
        self.check_kept(int(value.data["text/plain"]))

    def check_kept(self, cpu_ns):
        """The cell's own CPU time is there from its beginning, and so are its joules."""
        report = json.loads(subprocess.check_output([PROGRAM, "report", self.folder + "/kept.data", "--format", "json"]))
        most = max(thread["time_ns"] for thread in report["threads"])
        self.assertGreater(most, cpu_ns * 0.995)
        self.assertLess(most, cpu_ns + 300e6)
        used = sum(row["target_uj"] for row in report["ledger"] if row["class"] == "package") / 1e6
        truth = self.truth["forty_watts"]
        print(f"  {used:.1f} J of {truth:.1f}, {most / 1e9:.3f} s of CPU time of {cpu_ns / 1e9:.3f}", flush=True)
        self.assertAlmostEqual(used, truth, delta=truth / 10)

    def test_lines_errors_and_refusals(self):
        cells = [
            SETUP,
            "%joules --no-page --power none sum([40, 2])",
            "%%joules --no-page --power none\n1 // 0",
            "%%joules --power coal\nprint('ran')",
            "%%joules --power model --no-page -F 99 --view physical\nx = sum(range(3_000_000));",
            "x",
            "%joules",
        ]
        _, line, error, refused, model, x, usage = self.run_cells(*cells)
        self.assertEqual([output.output_type for output in line], ["display_data", "execute_result"], line)
        self.assertNotIn("iframe", line[0].data["text/html"])
        self.assertEqual([output.output_type for output in error], ["display_data", "error"], error)
        self.assertEqual(error[1].ename, "ZeroDivisionError")
        self.assertEqual([output.name for output in refused], ["stderr"])
        self.assertIn("coal", refused[0].text)
        self.assertIn("nothing was run", refused[0].text)
        self.assertRegex(model[0].data["text/plain"], "estimate")
        self.assertEqual(x[0].data["text/plain"], "4499998500000")
        self.assertIn("usage", usage[0].text)

    def picture(self):
        """The notebook as people see it, for people to look at."""
        folder = os.environ["PICTURES"]
        import nbconvert

        page = pathlib.Path(self.folder) / "notebook.html"
        page.write_text(nbconvert.HTMLExporter().from_notebook_node(self.notebook)[0])
        subprocess.run(["node", ROOT / "tests/page/notebook.mjs", page, f"{folder}/jupyter.png"], check=True)


TESTS = f"""
import energy_trace, os, unittest, phases, pytest
os.sched_setaffinity(0, {{{CPU}}})
os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(10))

@pytest.fixture(scope="module")
def declared():
    return phases.Declaration()

@pytest.mark.energy(max_joules=70)
def test_kept(declared): phases.forty_watts(declared, 1.5)

@pytest.mark.energy(max_joules=20)
@pytest.mark.parametrize("seconds", [1, 0.2])
def test_some(declared, seconds): phases.forty_watts(declared, seconds)

@energy_trace.range("free")
def test_free(declared): phases.fifteen_watts(declared, 1)

@pytest.mark.energy(max_joules=2)
def test_short(): pass

@pytest.mark.energy(max_joules=2)
def test_broken(): assert False

@pytest.mark.energy(max_joules=2)
@pytest.mark.skip
def test_skipped(): pass

class Case(unittest.TestCase):
    def test_of_unittest(self): phases.five_watts(phases.Declaration(), 1)
"""


class Pytest(unittest.TestCase):
    def run_tests(self, *words, options=(), record="--idle-watts 10", tests=TESTS):
        """Its exit status, what it printed, and the verdict of each test."""
        with power(*options) as (environment, sysfs, self.truth), tempfile.TemporaryDirectory() as folder:
            (pathlib.Path(folder) / "test_it.py").write_text(tests)
            command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "--junitxml=it.xml", "--energy", *words]
            command += ["--energy-record", f"{sysfs} {record}"]
            done = subprocess.run(command, cwd=folder, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
            printed = done.stdout.decode()
            results = pathlib.Path(folder) / "it.xml"
            cases = xml.etree.ElementTree.parse(results).iter("testcase") if results.exists() else ()
            verdicts = {}
            for case in cases:
                verdicts.setdefault(case.get("name"), []).extend(child.tag for child in case if child.tag != "properties")
            return done.returncode, printed, verdicts

    def check_budgets(self, *words):
        status, printed, verdicts = self.run_tests(*words)
        self.assertEqual(status, 1, printed)
        expected = {
            "test_kept": [],
            "test_some[1]": ["failure"],
            "test_some[0.2]": [],
            "test_free": [],
            "test_short": ["error"],
            "test_broken": ["failure"],
            "test_skipped": ["skipped"],
            "test_of_unittest": [],
        }
        self.assertEqual(verdicts, expected, printed)
        self.assertIn("2 failed, 5 passed, 1 skipped, 1 error", printed)
        self.assertRegex(printed, r"energy: it used \S+ J of 20 J")
        self.assertIn("energy: its budget of 2 J was not judged: it was too short to measure", printed)
        shown = {name: float(joules) for joules, name in re.findall(r"([\d.]+) J +\S+  test_it.py::(\S+)", printed)}
        forty = sum(shown[name] for name in ("test_kept", "test_some[1]", "test_some[0.2]"))
        for used, function in ((forty, "forty_watts"), (shown["test_free"], "fifteen_watts"), (shown["Case::test_of_unittest"], "five_watts")):
            truth = self.truth[function]
            print(f"  {used:.1f} J of {truth:.1f}", end="", flush=True)
            self.assertAlmostEqual(used, truth, delta=truth / 6, msg=printed)
        free = self.truth["fifteen_watts"]
        self.assertAlmostEqual(of_range(printed, "free")[0], free, delta=free / 6, msg=printed)

    def test_budgets(self):
        self.check_budgets()

    def test_budgets_of_several_processes(self):
        self.check_budgets("-n", "2", "--dist", "loadfile")

    def test_no_counter_is_no_pass(self):
        one = "import pytest\n@pytest.mark.energy(max_joules=2)\ndef test_it(): sum(range(9_000_000))\n"
        status, printed, verdicts = self.run_tests(record="--power none", tests=one)
        self.assertEqual((status, verdicts), (1, {"test_it": ["error"]}), printed)
        self.assertIn("no energy was measured", printed)
        status, printed, _ = self.run_tests(record="--power model", tests=one)
        self.assertRegex(printed, r"estimated from CPU time: no energy counter; may be 0\.\d to \d\.\d times that")
        status, printed, _ = self.run_tests(record="--power coal", tests=one)
        self.assertEqual(status, 4, printed)
        self.assertIn("coal", printed)
        status, printed, _ = self.run_tests(tests=one.replace("2)", "-2)"))
        self.assertEqual(status, 4, printed)
        self.assertIn("max_joules", printed)

    def test_a_counter_that_fails_is_no_pass(self):
        faults = [word for zone in range(os.cpu_count()) for word in ("--fault", f"intel-rapl:{zone}@1:unreadable")]
        test = "import pytest, phases\n@pytest.mark.energy(max_joules=200)\ndef test_it(): phases.five_watts(phases.Declaration(), 3)\n"
        status, printed, verdicts = self.run_tests(options=faults, tests=test)
        self.assertEqual((status, verdicts), (1, {"test_it": ["error"]}), printed)
        self.assertIn("the counter lacks too much of the run to tell", printed)

    def test_a_recorder_that_fails_is_no_pass(self):
        killed = """if True:
            import os
            def test_it():
                with open(f"/proc/self/task/{os.getpid()}/children") as children:
                    for child in children.read().split(): os.kill(int(child), 9)"""
        status, printed, _ = self.run_tests(tests=killed)
        self.assertEqual(status, 125, printed)
        self.assertIn("energy of tests: not known", printed)


class Sudo(unittest.TestCase):
    """A user without rights, by Debian's Python; sudo's rules are of a namespace of its own."""

    CODE = """if True:
        from energy_trace._recorder import Recorder
        recorder = Recorder(["--power", "none"])
        try: recorder.start()
        except Exception as error: print(error)
        else:
            recorder.stop()
            import os
            print("owner", os.stat(recorder.recording).st_uid, os.getuid())
        recorder.close()"""

    def as_nobody(self, rule):
        with tempfile.TemporaryDirectory() as folder:
            os.chmod(folder, 0o755)
            program = shutil.copy(PROGRAM, folder + "/energy-trace")
            shutil.copytree(ROOT / "tracer/python/energy_trace", folder + "/energy_trace")
            rules = pathlib.Path(folder) / "rules"
            rules.mkdir()
            (rules / "it").write_text(rule.format(program))
            script = 'mount --bind "$1" /etc/sudoers.d; cd /; exec setpriv --reuid nobody --regid nogroup --clear-groups /usr/bin/python3 -c "$2"'
            words = ["unshare", "--mount", "sh", "-ec", script, "sh", str(rules), self.CODE]
            environment = {"ENERGY_TRACE": program, "PYTHONPATH": folder, "PATH": os.environ["PATH"]}
            return subprocess.run(words, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT).stdout.decode()

    def test_refused(self):
        printed = self.as_nobody("")
        self.assertRegex(printed, r"only root may record, and `sudo -n \S+/energy-trace` was refused \(.*password")
        self.assertRegex(printed, r"`nobody ALL=\(root\) NOPASSWD: \S+/energy-trace`")

    def test_allowed(self):
        self.assertEqual(self.as_nobody("nobody ALL=(root) NOPASSWD: {}\n"), "owner 65534 65534\n")


@unittest.skipUnless(shutil.which("systemd-socket-activate"), "systemd's own tool, which starts the service, is not here")
class Service(unittest.TestCase):
    """A user without rights, in a real Jupyter and pytest, by a service; `/run` and the home folder are of a namespace of its own."""

    SCRIPT = """
        mkdir "$1/aside"; mount --bind "$2" "$1/aside"; mount -t tmpfs -o mode=755 home "$2"
        for path in "$3" "$4"; do case "$path" in "$2"/*) mkdir -p "$path"; mount --bind "$1/aside/${path#"$2"/}" "$path";; esac; done
        mount -t tmpfs -o mode=755 run /run; mkdir /run/energy-trace
        systemd-socket-activate --listen /run/energy-trace/attach.sock --accept --inetd "$1/bin/energy-trace" \
            record --attach-socket --ranges --power model 2> "$1/service" &
        until [ -S /run/energy-trace/attach.sock ]; do sleep 0.05; done
        chmod 0666 /run/energy-trace/attach.sock; folder=$1; shift 4; cd "$folder/user"; status=0
        setpriv --reuid nobody --regid nogroup --clear-groups "$@" || status=$?
        kill $!; exit $status"""
    NOTEBOOK = """if True:
        import json, nbclient, nbformat, sys
        notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(code) for code in sys.argv[1:]])
        nbclient.NotebookClient(notebook, allow_errors=True, timeout=120).execute()
        print(json.dumps([cell.outputs for cell in notebook.cells]))"""
    WORK = """
    import time
    with energy_trace.range("prefill"):
        end = time.monotonic() + 1
        while time.monotonic() < end: sum(range(1000))
    print("ran")"""

    def as_nobody(self, *words):
        """What it prints that this interpreter runs."""
        with tempfile.TemporaryDirectory() as folder:
            os.chmod(folder, 0o755)
            for name in ("bin", "lib/energy-trace", "user"):
                os.makedirs(f"{folder}/{name}")
            shutil.chown(folder + "/user", "nobody")
            program = shutil.copy(PROGRAM, folder + "/bin")
            shutil.copy(pathlib.Path(PROGRAM).parent / "libenergy_trace_cupti.so", folder + "/lib/energy-trace")
            package = shutil.copytree(os.environ["PYTHONPATH"], folder + "/package")
            places = [folder, os.path.expanduser("~"), sys.prefix, sys.base_prefix]
            command = ["unshare", "--mount", "sh", "-ec", self.SCRIPT, "sh", *places, sys.executable, *words]
            own = {"ENERGY_TRACE": program, "PYTHONPATH": package, "PATH": os.environ["PATH"], "HOME": folder + "/user"}
            done = subprocess.run(command, env=own, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
            said = done.stderr.decode() + pathlib.Path(folder, "service").read_text()
            self.assertEqual(done.returncode, 0, done.stdout.decode() + said)
            return done.stdout.decode()

    def test_a_cell(self):
        cells = ["import energy_trace\n%load_ext energy_trace", "%%joules" + inspect.cleandoc(self.WORK).join("\n\n"), "%%joules -F 99\n1"]
        set_up, outputs, refused = json.loads(self.as_nobody("-c", self.NOTEBOOK, *cells))
        self.assertEqual(set_up, [])
        self.assertEqual([output["output_type"] for output in outputs], ["stream", "display_data"], outputs)
        shown = outputs[1]["data"]
        self.assertRegex(shown["text/plain"], r"(?s)estimate.*\n\nRanges, .* prefill")
        self.assertIn("<iframe", shown["text/html"])
        self.assertRegex(refused[0]["text"], r"(?s)sudo -n.*/run/energy-trace/attach.sock records .*nothing was run")

    def test_pytest(self):
        test = "import energy_trace\ndef test_it():\n    " + inspect.cleandoc(self.WORK).replace("\n", "\n    ")
        run = "import pathlib, pytest, sys; pathlib.Path('test_it.py').write_text(sys.argv[1]); sys.exit(pytest.main(['--energy']))"
        printed = self.as_nobody("-c", run, test)
        self.assertRegex(printed, r"(?s)J +\S+  test_it.py::test_it.*CPU s  prefill")
