"""`%%joules` and `%joules`: the energy of a cell or a line, in IPython and Jupyter.

Leaves out how it is recorded (`_recorder.py`).
"""

from __future__ import annotations

import ast
import html
import json
import os
import shlex
import shutil
import sys
from typing import Any, Callable, List, Optional

from IPython.core.magic import Magics, line_cell_magic, magics_class
from IPython.display import display

from . import _program, _rows
from ._program import EnergyTraceError
from ._recorder import Recorder

# A page in a notebook is part of its file.
_LARGEST_PAGE = 4_000_000
_MOST_RANGES = 20


@magics_class
class Joules(Magics):
    """Registered by `%load_ext energy_trace`."""

    @line_cell_magic
    def joules(self, line: str, cell: Optional[str] = None) -> Any:
        """Record the energy of this cell, or of a statement: `%%joules [OPTIONS]`, `%joules [OPTIONS] STATEMENT`.

        -F HZ           stack samples a second
        --power SOURCE  where joules come from: auto, rapl, nvml, model, …
        --view VIEW     logical (the energy of worker threads is their caller's) or physical
        --record WORDS  other options of `energy-trace record`, in quotes
        -o NAME         keep NAME.data and NAME.html
        --no-page       show the summary alone

        The first second measures the idle machine. A cell cannot `await`. `energy_trace.range` in it gives a table of ranges.
        """
        options, statement = self.parse_options(
            line, "F:o:", "power=", "view=", "record=", "no-page", posix=False, preserve_non_opts=True
        )
        code = statement if cell is None else cell
        if not code.strip():
            print("usage: %%joules [OPTIONS] above a cell, or %joules [OPTIONS] STATEMENT; %joules? shows the options")
            return None
        run = _compiled(self.shell, code)
        try:
            recorder = Recorder(_record_options(options))
            recorder.start()
        except EnergyTraceError as error:
            print(error, file=sys.stderr)
            print("%joules: nothing was run", file=sys.stderr)
            return None
        try:
            return run()
        finally:
            _finish(recorder, options)


def _record_options(options: Any) -> List[str]:
    words = [["-F", options.F]] if "F" in options else []
    words += [["--power", options.power]] if "power" in options else []
    return [word for pair in words for word in pair] + shlex.split(_unquoted(options.get("record", "")))


def _unquoted(text: str) -> str:
    return text[1:-1] if len(text) > 1 and text[0] == text[-1] and text[0] in "'\"" else text


def _compiled(shell: Any, code: str) -> Callable[[], Any]:
    """Runs it as a cell is run: the value is that of a last expression, what it raises is its own."""
    text = shell.transform_cell(code)
    file = shell.compile.cache(text, shell.execution_count, raw_code=code)
    tree = shell.transform_ast(ast.parse(text, file))
    last = tree.body.pop() if tree.body and isinstance(tree.body[-1], ast.Expr) else None
    statements = shell.compile(tree, file, "exec")
    value = shell.compile(ast.Expression(last.value) if last else "None", file, "eval")
    is_quiet = text.rstrip().endswith(";")

    def run() -> Any:
        exec(statements, shell.user_global_ns, shell.user_ns)
        result = eval(value, shell.user_global_ns, shell.user_ns)
        return None if is_quiet else result

    return run


def _finish(recorder: Recorder, options: Any) -> None:
    try:
        recorder.stop()
        _show(recorder.recording, options)
    except EnergyTraceError as error:
        print(error, file=sys.stderr)
    finally:
        recorder.close()


def _show(recording: str, options: Any) -> None:
    view = ["--view", options.view] if "view" in options else []
    summary = _program.run("report", recording, "--summary", *view)
    page = _program.run("export", recording, "--format", "html", *view)
    if "o" in options:
        _keep(recording, page, options.o)
    # The recording goes, or has another name.
    lines = [line for line in summary.splitlines() if not line.startswith(("recording: ", "next: "))]
    kept = [f"recording: {options.o}.data, page: {options.o}.html"] if "o" in options else []
    summary = "\n\n".join(["\n".join(lines).rstrip(), *_ranges(recording, view), *kept])
    shown = f'<pre style="font-family: monospace; line-height: 1.25; overflow-x: auto">{html.escape(summary)}</pre>'
    if "no-page" not in options:
        shown += _frame(page, options.get("o"))
    display({"text/plain": summary, "text/html": shown}, raw=True)  # type: ignore[no-untyped-call]


def _ranges(recording: str, view: List[str]) -> List[str]:
    """A paragraph of the ranges that the cell marked, if it marked any."""
    rows = _rows.ranges(json.loads(_program.run("report", recording, "--format", "json", "--by", "range", *view)))
    more = [f"… and {len(rows) - _MOST_RANGES} more"] if len(rows) > _MOST_RANGES else []
    return ["\n".join(["Ranges, with those within them", *rows[:_MOST_RANGES], *more])] if rows else []


def _keep(recording: str, page: str, name: str) -> None:
    """An older recording of that name stays as `.old`, as `energy-trace record` has it."""
    if os.path.exists(name + ".data"):
        os.replace(name + ".data", name + ".data.old")
    shutil.copyfile(recording, name + ".data")
    with open(name + ".html", "w", encoding="utf-8") as file:
        file.write(page)


def _frame(page: str, name: Optional[str]) -> str:
    """The page by itself: it sees nothing of the notebook, and loads nothing."""
    if len(page) > _LARGEST_PAGE:
        place = f'<a href="{html.escape(os.path.relpath(name + ".html"))}">{html.escape(name)}.html</a>' if name else "-o NAME keeps it"
        return f"<p>The page is too large for a notebook ({len(page) / 1e6:.0f} MB): {place}.</p>"
    return (
        f'<iframe sandbox="allow-scripts" srcdoc="{html.escape(page)}" title="energy-trace"'
        ' style="width: 100%; height: 640px; border: 1px solid #8884"></iframe>'
    )
