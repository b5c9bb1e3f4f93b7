"""`pytest --energy`: joules of each test, and budgets: `@pytest.mark.energy(max_joules=2)`.

One recording has the whole session. Each test is called through a function of a name of its own, so its energy is that of a function: as
exact, and as sure, as energy-trace says, whatever runs beside it, worker threads and pytest-xdist's processes included. Fixtures count
apart from the tests. Leaves out when a budget is kept: that is `energy-trace report --budget-call`.
"""

from __future__ import annotations

import functools
import hashlib
import json
import shlex
import sys
import types
from typing import Any, Callable, Dict, Generator, List, Optional, Tuple

import pytest

from . import _mark, _program, _rows
from ._program import EnergyTraceError
from ._recorder import Recorder

_ROWS = 20
_VERDICTS = {
    "unknown-call": "it was too short to measure: no sample shows it; repeat its work, or raise -F (--energy-record='-F 999')",
    "not-judged": "the counter lacks too much of the run to tell, or the limit is within what is possible: make the test longer; an estimate needs a counter",
    "not-measured": "no energy was measured",
}


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("energy", "energy of tests")
    group.addoption("--energy", action="store_true", help="record the session with energy-trace: joules of each test, and budgets")
    group.addoption("--energy-record", default="", metavar="WORDS", help="more options of `energy-trace record`, in quotes")
    group.addoption("--energy-rows", type=int, default=_ROWS, metavar="N", help="tests in the table (default: %(default)s)")


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "energy(max_joules): with --energy, the most joules that the test may use")
    if config.getoption("--energy") and not config.option.collectonly:
        _mark.is_awaited = True
        config.pluginmanager.register(_Names(), "energy-trace-names")
        if not hasattr(config, "workerinput"):
            config.pluginmanager.register(_Energy(config), "energy-trace-energy")


class _Names:
    """Has each test called by a name of its own; in pytest-xdist's workers too."""

    def __init__(self) -> None:
        # energy-trace may read the name of a code object later.
        self._kept: List[Any] = []

    def pytest_collection_modifyitems(self, items: List[pytest.Item]) -> None:
        for item in items:
            _max_joules(item)

    @pytest.hookimpl(hookwrapper=True)
    def pytest_runtest_call(self, item: pytest.Item) -> Generator[None, Any, None]:
        call = named(name_of(item.nodeid))
        self._kept.append(call)
        item.runtest = functools.partial(call, item.runtest)  # type: ignore[method-assign]
        yield
        del item.runtest

    @pytest.hookimpl(hookwrapper=True)
    def pytest_runtest_makereport(self, item: pytest.Item) -> Generator[None, Any, None]:
        report = (yield).get_result()
        limit = _max_joules(item)
        if report.when == "call" and limit is not None:
            report.user_properties.append(("max_joules", limit))


def name_of(nodeid: str) -> str:
    """The same in all processes, and no other test's."""
    return "test_" + hashlib.sha256(nodeid.encode()).hexdigest()[:16]


def _call(run: Callable[[], Any]) -> Any:
    return run()


def named(name: str) -> Callable[[Callable[[], Any]], Any]:
    """A function that calls another one, and is known by this name."""
    code = _call.__code__.replace(co_name=name)
    if sys.version_info >= (3, 11):
        code = code.replace(co_qualname=name)
    return types.FunctionType(code, globals(), name)


def _max_joules(item: pytest.Item) -> Optional[float]:
    marker = item.get_closest_marker("energy")
    if marker is None:
        return None
    limit = marker.kwargs.get("max_joules", marker.args[0] if marker.args else None)
    if isinstance(limit, bool) or not isinstance(limit, (int, float)) or not 1e-6 <= limit < 1e9:
        raise pytest.UsageError(f"{item.nodeid}: @pytest.mark.energy(max_joules=2) takes joules above zero, not {limit!r}")
    return float(limit)


class _Energy:
    """Records the session, and judges it. In pytest-xdist's controller, whose children the workers are."""

    def __init__(self, config: pytest.Config) -> None:
        self._config = config
        self._recorder: Optional[Recorder] = None
        self._tests: Dict[str, pytest.TestReport] = {}
        self._rows: List[Tuple[float, str]] = []
        self._ranges: List[str] = []
        self._heading = ""
        self._failure: Optional[str] = None

    @pytest.hookimpl(tryfirst=True)
    def pytest_sessionstart(self) -> None:
        """Before workers are started and tests imported: the first second measures the idle machine."""
        try:
            recorder = Recorder(shlex.split(self._config.getoption("--energy-record")))
            recorder.start()
        except EnergyTraceError as error:
            raise pytest.UsageError(f"--energy: {error}") from None
        self._recorder = recorder

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.when == "call" and report.outcome != "skipped":
            self._tests[report.nodeid] = report

    @pytest.hookimpl(hookwrapper=True, tryfirst=True)
    def pytest_runtestloop(self, session: pytest.Session) -> Generator[None, Any, None]:
        yield
        try:
            self._judge()
        except EnergyTraceError as error:
            self._failure = str(error)

    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        if self._failure and session.exitstatus in (0, 5):
            session.exitstatus = 125  # that of energy-trace itself
        if self._recorder is not None:
            try:
                self._recorder.close()
            except EnergyTraceError as error:
                self._failure = self._failure or str(error)

    def _judge(self) -> None:
        assert self._recorder is not None
        # A test that failed has its failure.
        passed = (report for report in self._tests.values() if report.outcome == "passed")
        budgets = {name_of(report.nodeid): (report, limit) for report in passed for limit in [_limit(report)] if limit}
        try:
            self._recorder.stop()
            report = self._report({name: limit for name, (_, limit) in budgets.items()})
        except EnergyTraceError as error:
            for test, _ in budgets.values():
                self._error(test, f"its energy is not known: {error}")
            raise
        self._take(report)
        for budget in report["meta"].get("budgets", []):
            test, limit = budgets[budget["call"]]
            self._hold(test, limit, budget)

    def _report(self, limits: Dict[str, float]) -> Any:
        words = [word for name, limit in limits.items() for word in ("--budget-call", f"{name}={limit:.6f}J")]
        assert self._recorder is not None
        text = _program.run("report", self._recorder.recording, "--format", "json", "--by", "range", *words, statuses=(0, 121, 122, 123, 125))
        return json.loads(text)

    def _take(self, report: Any) -> None:
        """Joules by test, largest first, and what they are."""
        names = {name_of(nodeid): nodeid for nodeid in self._tests}
        known = _rows.models(report)
        for function in report["functions"]:
            nodeid = names.get(function["name"].rpartition(".")[2])
            if nodeid is not None:
                self._rows.append((_rows.joules(function), _rows.line(function, nodeid, known)))
        self._rows.sort(reverse=True)
        self._ranges = _rows.ranges(report)
        estimated = any(row["quality"] == "estimated" for row in report["ledger"])
        least, most = known.get("package", (1.0, 1.0))
        may_be = f"; may be {least:.1f} to {most:.1f} times that" if most > least else ""
        self._heading = f"energy of tests (estimated from CPU time: no energy counter{may_be})" if estimated else "energy of tests"

    def _hold(self, test: pytest.TestReport, limit: float, budget: Any) -> None:
        verdict = budget["verdict"]
        if verdict == "exceeded":
            used = budget["used_uj"] / 1e6
            self._fail(test, f"it used {_rows.quantity(used)} of {_rows.quantity(limit)}")
        elif verdict != "kept":
            self._error(test, f"its budget of {_rows.quantity(limit)} was not judged: {_VERDICTS.get(verdict, verdict)}")

    def _fail(self, test: pytest.TestReport, text: str) -> None:
        """A test that passed and used too much has failed."""
        terminal = self._config.pluginmanager.get_plugin("terminalreporter")
        passed = terminal.stats.get("passed", []) if terminal else []
        if test in passed:
            passed.remove(test)
        self._log(test, "call", text)

    def _error(self, test: pytest.TestReport, text: str) -> None:
        self._log(test, "teardown", text)

    def _log(self, test: pytest.TestReport, when: Any, text: str) -> None:
        report = pytest.TestReport(test.nodeid, test.location, test.keywords, "failed", f"energy: {text}", when)
        self._config.hook.pytest_runtest_logreport(report=report)

    def pytest_terminal_summary(self, terminalreporter: Any) -> None:
        if self._failure:
            terminalreporter.section("energy of tests: not known", red=True)
            terminalreporter.write_line(self._failure)
            return
        rows = self._config.getoption("--energy-rows")
        for heading, lines in ((self._heading, [line for _, line in self._rows]), ("energy of ranges", self._ranges)):
            if not lines or not rows:
                continue
            terminalreporter.section(heading)
            for line in lines[:rows]:
                terminalreporter.write_line(line)
            if len(lines) > rows:
                terminalreporter.write_line(f"… and {len(lines) - rows} more (--energy-rows)")


def _limit(report: pytest.TestReport) -> Optional[float]:
    limit = dict(report.user_properties).get("max_joules")
    return limit if isinstance(limit, float) else None
