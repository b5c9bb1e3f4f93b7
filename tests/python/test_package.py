"""The Python package by itself, on any interpreter from 3.8 on, with nothing installed: `python3 -m unittest discover tests/python`.

`ENERGY_TRACE` names the program. Leaves out what needs root, Jupyter or pytest (`check.py`).
"""

import contextlib
import doctest
import os
import pathlib
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
import traceback
import types
import unittest
from unittest import mock

ROOT = pathlib.Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "tracer/python"
RECORDING = ROOT / "tests/fixtures/golden/format/recording-1.1.data"
sys.path.insert(0, str(PACKAGE))

import energy_trace  # noqa: E402
from energy_trace import _mark, _program, _read, _recorder, _rows, _service  # noqa: E402

# A recorder's library, which writes down what it is called with.
LIBRARY = r"""
#include <stdio.h>
void energy_trace_recorded(void) { fprintf(stderr, "recorded\n"); }
void energy_trace_push(const char *name) { fprintf(stderr, "push %s\n", name); }
void energy_trace_pop(void) { fprintf(stderr, "pop\n"); }
unsigned long long energy_trace_start(const char *name) { fprintf(stderr, "start %s\n", name); return 1ull << 40; }
void energy_trace_end(unsigned long long number) { fprintf(stderr, "end %llx\n", number); }
"""


@contextlib.contextmanager
def library_in_folder():
    with tempfile.TemporaryDirectory() as folder:
        library = os.path.join(folder, "libenergy_trace_cupti.so")
        subprocess.run(["cc", "-shared", "-fPIC", "-xc", "-", "-o", library], input=LIBRARY.encode(), check=True)
        yield folder, library


def python(code, **environment):
    """What an interpreter prints that runs this beside the package and a stand-in for PyTorch."""
    env = {**os.environ, "PYTHONPATH": os.pathsep.join([str(PACKAGE), str(ROOT / "tests/workloads/torch_stub")]), **environment}
    done = subprocess.run([sys.executable, "-c", code], env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    return done.stdout.decode() + done.stderr.decode()


@contextlib.contextmanager
def script(name, text):
    """A folder with a program in it that is a shell script."""
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, name)
        with open(path, "w") as file:
            file.write("#!/bin/sh\n" + text)
        os.chmod(path, 0o755)
        yield path


class Import(unittest.TestCase):
    def test_nothing_but_the_standard_library(self):
        code = "import energy_trace, sys; print(sorted({'IPython', 'numpy', 'pandas', 'polars', 'pytest'} & set(sys.modules)))"
        self.assertEqual(python(code).strip(), "[]")

    def test_examples(self):
        for module in (energy_trace, _mark, _read):
            failed, tried = doctest.testmod(module)
            self.assertEqual((failed, tried > 0), (0, True), module.__name__)


class Range(unittest.TestCase):
    def test_nothing_happens_without_a_recorder(self):
        function = len
        self.assertIs(energy_trace.range("a")(function), function)
        with self.assertRaises(ZeroDivisionError), energy_trace.range("a"):
            1 // 0

    def test_what_is_around_a_function_stands_in_its_place(self):
        with mock.patch.multiple(_mark, _push=lambda name: 0, _pop=lambda: 0):

            @energy_trace.range("outer")
            @energy_trace.range("inner")
            def fails(*, x=1):
                """Fails."""
                return 1 // 0

            first = fails.__wrapped__.__wrapped__.__code__.co_firstlineno
            self.assertEqual((fails.__doc__, fails.__name__), ("Fails.", "fails"))
            try:
                fails(x=2)
            except ZeroDivisionError as error:
                stack = [(frame.filename, frame.name, frame.lineno) for frame in traceback.extract_tb(error.__traceback__)]
            for around in (fails, fails.__wrapped__):
                self.assertIs(around.__globals__, globals())
            self.assertEqual(stack[1:], [(__file__, "fails", line) for line in (first + 1, first + 1, first + 4)])
            # What is no function of Python's keeps ours.
            self.assertEqual(energy_trace.range("x")(len)("ab"), 2)

    def test_code_that_stops_is_refused(self):
        async def waits():
            pass

        with self.assertRaisesRegex(TypeError, "inside"):
            energy_trace.range("a")(waits)

    def test_what_may_be_recorded_later_has_its_range(self):
        with mock.patch.object(_mark, "is_awaited", True):
            decode = energy_trace.range("decode")(lambda: 1)
        heard = []
        with mock.patch.multiple(_mark, _push=heard.append, _pop=lambda: heard.append("pop")):
            decode()
        self.assertEqual(heard, [b"decode", "pop"])

    @unittest.skipIf(shutil.which("cc") is None, "there is no C compiler")
    def test_a_recorder_hears_of_ranges(self):
        code = """if True:
            import energy_trace
            @energy_trace.range("decode")
            def decode(): return 1
            try:
                with energy_trace.range("prefill"):
                    decode()
                    raise KeyError
            except KeyError: pass
            with energy_trace.range("\\udc80"): pass
            with energy_trace.range(7): pass"""
        with library_in_folder() as (folder, library):
            heard = python(code, NVTX_INJECTION64_PATH=library).split("\n")
            self.assertEqual(heard, ["recorded", "push prefill", "push decode", "pop", "pop", "push ?", "pop", "push 7", "pop", ""])
            other = os.path.join(folder, "libother.so")
            os.rename(library, other)
            self.assertEqual(python(code, NVTX_INJECTION64_PATH=other), "")
            self.assertEqual(python(code, NVTX_INJECTION64_PATH=library), "", "one that is gone")


@unittest.skipIf(shutil.which("cc") is None, "there is no C compiler")
class Rows(unittest.TestCase):
    def test_joules_of_a_model_are_no_surer_than_its_watts(self):
        row = {"total_uj": {"package": 1_000_000, "dram": None, "gpu": None}, "ci95_uj": [990_000, 1_020_000]}
        ledger = {"class": "package", "target_uj": 4_000_000, "quality": "estimated", "target_ci95_uj": [2_800_000, 7_200_000]}
        for ledger, interval in (
            (ledger, "±82%"),
            ({**ledger, "target_ci95_uj": None}, "±2%"),
            ({**ledger, "quality": "measured"}, "±2%"),
        ):
            known = _rows.models({"ledger": [ledger]})
            self.assertEqual(_rows.line(row, "it", known).split(), ["1", "J", interval, "it"])


class RecordFunction(unittest.TestCase):
    def heard(self, code):
        with library_in_folder() as (_, library):
            return python(code, NVTX_INJECTION64_PATH=library).split("\n")[1:-1]

    def test_each_is_a_range(self):
        code = """if True:
            {}
            from torch.autograd.profiler import record_function
            energy_trace._torch.mark_record_functions("/nowhere")
            inner = record_function("in\\udc80ner")
            try:
                with record_function("outer") as outer, inner:
                    assert outer.entered == 1
                    raise KeyError
            except KeyError: pass
            assert not outer.entered and record_function.__enter__.__wrapped__"""
        for imports in ("import energy_trace, torch", "import torch, energy_trace"):
            self.assertEqual(self.heard(code.format(imports)), ["start outer", "start in?ner", "end 10000000000", "end 10000000000"])

    def test_it_counts_once_where_pytorch_makes_ranges_itself(self):
        code = """if True:
            import energy_trace, torch
            from torch.autograd.profiler import record_function
            with record_function("a"):
                torch._C.profiler = "NVTX"
                with record_function("b"): torch._C.profiler = "NONE"
            torch._C.profiler = "ITT"
            with record_function("c"): pass"""
        self.assertEqual(self.heard(code), ["start a", "end 10000000000"])

    def test_pytorch_is_what_it_was(self):
        code = """if True:
            import sys, energy_trace
            assert "torch" not in sys.modules and type(sys.meta_path[0]).__name__ == "_Finder"
            import torch.autograd.profiler as profiler
            assert type(sys.meta_path[0]).__name__ != "_Finder" and "exec_module" not in vars(profiler.__loader__)
            import inspect
            assert "self.entered += 1" in inspect.getsource(profiler.record_function.__enter__)"""
        self.assertEqual(self.heard(code), [])
        broken = code.partition("import inspect")[0] + "del profiler.record_function; energy_trace._torch._mark(profiler, '/nowhere')"
        self.assertEqual(self.heard(broken), ["energy-trace: PyTorch's record_function has no ranges: module 'torch.autograd.profiler' has no attribute 'record_function'"])


class Read(unittest.TestCase):
    def test_the_table_is_written_and_read(self):
        library = types.ModuleType("polars")
        library.read_parquet = lambda file: (os.path.exists(file), pathlib.Path(file).read_bytes()[:4])
        with mock.patch.dict(sys.modules, {"polars": library}):
            for table in ("stacks", "readings", "work"):
                read = energy_trace.read(RECORDING, table, library="polars", options=["--view", "physical"])
                self.assertEqual(read, (True, b"PAR1"))

    def test_every_installed_library_reads_it(self):
        for library in filter(_read._reads_parquet, ("pandas", "polars")):
            frame = energy_trace.read(RECORDING, "readings", library=library)
            self.assertEqual(sum(frame["target_uj"]), 120, library)
            self.assertEqual(set(energy_trace.read(RECORDING, "work", library=library)["unit"]), {"token"})
            self.assertIn("function", energy_trace.read(RECORDING).columns)

    def test_what_is_wrong_is_said(self):
        for words, named in ((("x", "rows"), {}), (("x",), {"library": "spark"})):
            with self.assertRaisesRegex(ValueError, "one of"):
                energy_trace.read(*words, **named)
        with mock.patch.object(_read, "_is_there", return_value=False):
            with self.assertRaisesRegex(energy_trace.EnergyTraceError, "pip install"):
                energy_trace.read(RECORDING)
        with mock.patch.object(_read, "_library"):
            with self.assertRaisesRegex(energy_trace.EnergyTraceError, "no-such.data"):
                energy_trace.read("no-such.data")
        with mock.patch.dict(os.environ, {"ENERGY_TRACE": "/no/such/program"}):
            with self.assertRaisesRegex(energy_trace.EnergyTraceError, "ENERGY_TRACE=/no/such/program"):
                _program.find()
        with mock.patch.object(shutil, "which", return_value=None), mock.patch.dict(os.environ):
            os.environ.pop("ENERGY_TRACE", None)
            with self.assertRaisesRegex(energy_trace.EnergyTraceError, "the variable ENERGY_TRACE names none"):
                _program.find()


class Recorder(unittest.TestCase):
    """Against programs that only do as if."""

    def test_it_begins_and_ends_through_pipes(self):
        told = 'echo "$@" >&2; echo \'{"event":"recording","start_ns":1,"ranges":"/nowhere/libenergy_trace_cupti.so"}\'; cat; exit 7'
        with script("energy-trace", told) as program, mock.patch.dict(os.environ, {"ENERGY_TRACE": program}):
            recorder = _recorder.Recorder(["-F", "99"])
            with self.assertWarnsRegex(UserWarning, "no ranges are recorded: .*/nowhere"):
                recorder.start()
            with self.assertRaisesRegex(energy_trace.EnergyTraceError, f"-p {os.getpid()} --control .*--ranges -F 99"):
                recorder.stop()
            recorder.close()
            self.assertFalse(os.path.exists(os.path.dirname(recorder.recording)))

    def test_what_does_not_begin_says_why(self):
        with script("energy-trace", "echo nothing to record >&2; exit 2") as program:
            with mock.patch.dict(os.environ, {"ENERGY_TRACE": program}):
                with self.assertRaisesRegex(energy_trace.EnergyTraceError, "^nothing to record$"):
                    _recorder.Recorder().start()

    def test_without_rights_it_says_what_to_do(self):
        with script("sudo", "echo sudo: a password is required >&2; exit 1") as sudo, script("energy-trace", "") as program:
            changed = {"ENERGY_TRACE": program, "PATH": os.path.dirname(sudo) + ":" + os.environ["PATH"]}
            with mock.patch.dict(os.environ, changed), mock.patch.object(os, "geteuid", return_value=1000):
                with self.assertRaisesRegex(energy_trace.EnergyTraceError, "password is required.*\n.*NOPASSWD: " + program):
                    _recorder.Recorder().start()

    def test_without_sudo_it_says_what_to_do(self):
        with script("energy-trace", "") as program, mock.patch.dict(os.environ, {"ENERGY_TRACE": program, "PATH": "/nowhere"}):
            with mock.patch.object(os, "geteuid", return_value=1000):
                with self.assertRaisesRegex(energy_trace.EnergyTraceError, "sudo -n.* was refused .it is not there.*\n.*\n.*" + _service.PLACE):
                    _recorder.Recorder().start()

    def test_options_keep_the_service_away(self):
        with script("energy-trace", "") as program, tempfile.TemporaryDirectory() as folder:
            changed = {"ENERGY_TRACE": program, "PATH": "/nowhere"}
            with socket.socket(socket.AF_UNIX) as listens, mock.patch.dict(os.environ, changed):
                listens.bind(folder + "/socket")
                served = mock.patch.object(_service, "PLACE", folder + "/socket")
                with served, mock.patch.object(os, "geteuid", return_value=1000):
                    told = "may record with options, and .*\n.*\nThe service at .*socket records without options: leave them out"
                    with self.assertRaisesRegex(energy_trace.EnergyTraceError, told):
                        _recorder.Recorder(["-F", "99"]).start()


class Service(unittest.TestCase):
    """Against a socket that only does as if."""

    def record(self, begins, ends, shuts=True):
        """What there is of a recording, where the other end says one thing at once and another when we have shut our side down."""

        def serve():
            connection, _ = listener.accept()
            with connection, contextlib.suppress(BrokenPipeError):
                connection.sendall(begins)
                self.sent = connection.recv(1) if shuts and begins else b""
                connection.sendall(ends)

        with contextlib.ExitStack() as stack:
            folder = stack.enter_context(tempfile.TemporaryDirectory())
            listener = stack.enter_context(socket.socket(socket.AF_UNIX))
            place = os.path.join(folder, "socket")
            listener.bind(place)
            listener.listen()
            program = stack.enter_context(script("energy-trace", ""))
            stack.enter_context(mock.patch.dict(os.environ, {"ENERGY_TRACE": program}))
            stack.enter_context(mock.patch.object(_service, "PLACE", place))
            stack.enter_context(mock.patch.object(os, "geteuid", return_value=1000))
            server = threading.Thread(target=serve)
            server.start()
            recorder = _recorder.Recorder()
            try:
                recorder.start()
                recorder._recorder._receiving.join(0 if shuts else 60)
                recorder.stop()
                with open(recorder.recording, "rb") as file:
                    return file.read()
            finally:
                recorder.close()
                server.join()

    BEGUN = b'{"event":"recording","start_ns":1}\n'

    def test_it_begins_and_ends(self):
        data = bytes(range(256)) * 4096
        told = b'{"event":"recorded","bytes":1048576}\n'
        self.assertEqual(self.record(self.BEGUN, told + data), data)
        self.assertEqual(self.sent, b"")
        with self.assertWarnsRegex(UserWarning, "ended the recording before its end"):
            self.assertEqual(self.record(self.BEGUN, told + data, shuts=False), data)

    def test_what_does_not_come_says_why(self):
        failed = b'{"event":"failed","reason":"no power"}\n'
        for begins, ends, why in (
            (failed, b"", "^no power$"),
            (b"", b"", "ended without a word"),
            (self.BEGUN, failed, "no recording came from .*: no power"),
            (self.BEGUN, b'{"event":"recorded","bytes":9}\nfour', "4 of 9 bytes came"),
        ):
            with self.assertRaisesRegex(energy_trace.EnergyTraceError, why):
                self.record(begins, ends)


if __name__ == "__main__":
    unittest.main()
