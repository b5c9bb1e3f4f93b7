"""A recording of this very process, by a program that has more rights: `energy-trace record -p PID --control`.

Where the user may not record, a service does it (`_service.py`) where one is offered, or sudo starts the program, and asks for nothing. The
recorder ends with the pipe to it, so it never outlives this process. It tells which library to load for ranges: its own, beside it. Leaves
out what is shown of a recording.
"""

from __future__ import annotations

import json
import os
import subprocess
import tempfile
import warnings
from typing import Any, List, Optional, Sequence, Tuple, Union

from . import _mark, _program, _service
from ._program import EnergyTraceError


class Recorder:
    """Records from `start` to `stop`, into the file `recording` of a folder that goes with `close`."""

    def __init__(self, options: Sequence[str] = ()) -> None:
        self._program = _program.find()
        self._options = list(options)
        self._recorder: Union[_Process, _service.Service, None] = None
        self._folder = tempfile.TemporaryDirectory(prefix="energy-trace-")
        self.recording = os.path.join(self._folder.name, "energy-trace.data")

    def start(self) -> None:
        """Returns when the recording has begun."""
        try:
            self._recorder = self._find()
            library = self._recorder.begin().get("ranges")
            if library:
                _listen(library)
        except BaseException:
            self.close()
            raise

    def stop(self) -> None:
        """Returns when the recording is whole."""
        recorder, self._recorder = self._recorder, None
        if recorder is not None:
            recorder.end()

    def close(self) -> None:
        """Removes the recording, of which nothing more is wanted."""
        recorder, self._recorder = self._recorder, None
        if recorder is not None:
            recorder.close()
        self._folder.cleanup()

    def _find(self) -> Union[_Process, _service.Service]:
        """A service before sudo, which reports to the administrator whom it refuses; options are for a program alone."""
        rights = _rights(self._program)
        service = _service.connect(self.recording) if rights and not self._options else None
        if service is not None:
            return service
        record = ["record", "-p", str(os.getpid()), "--control", "--no-svg", "--color", "never", "-o", self.recording]
        record += self._options if "--ranges" in self._options else ["--ranges", *self._options]
        return _Process([*rights, self._program, *record])


class _Process:
    """The program, with pipes to it."""

    def __init__(self, words: List[str]) -> None:
        self._words = words
        self._stderr = tempfile.TemporaryFile()
        # A session of its own: Ctrl-C is this process's.
        try:
            self._process: Optional[subprocess.Popen[bytes]] = subprocess.Popen(
                words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self._stderr, start_new_session=True
            )
        except FileNotFoundError:
            self._stderr.close()
            raise EnergyTraceError(_refusal(words, f"{words[0]}: it is not there")) from None

    def begin(self) -> Any:
        """Returns when the recording has begun, with what is told of it."""
        assert self._process is not None and self._process.stdout is not None
        told = self._process.stdout.readline()
        if not told:
            _, said = self._end()
            raise EnergyTraceError(_refusal(self._words, said))
        return json.loads(told)

    def end(self) -> None:
        """Returns when the recording is whole."""
        status, said = self._end()
        if status != 0:
            raise EnergyTraceError(said)

    def close(self) -> None:
        if self._process is not None:
            self._end()

    def _end(self) -> Tuple[int, str]:
        """Its status, and what it said."""
        process, self._process = self._process, None
        assert process is not None
        with self._stderr, process:
            process.communicate()
            self._stderr.seek(0)
            return process.returncode, _program.reason(self._stderr.read(), process.returncode)


def _listen(library: str) -> None:
    """Ranges of this process go to the recorder, and those of what it starts, and of what uses NVTX or ITT for the first time."""
    try:
        _mark.listen(library)
    except (OSError, AttributeError) as error:
        warnings.warn(f"energy-trace: no ranges are recorded: {error}")
        return
    for variable in ("NVTX_INJECTION64_PATH", "INTEL_LIBITTNOTIFY64"):
        if _mark.is_ours(os.environ.get(variable) or library):
            os.environ[variable] = library


def _refusal(words: List[str], said: str) -> str:
    if words[0] != "sudo" or not said.startswith("sudo:"):
        return said
    program = words[2]
    # Without options it would have been asked before sudo.
    is_served = os.access(_service.PLACE, os.W_OK)
    service = f"a service at {_service.PLACE} records whom its group lets connect, without options (docs/python.md)."
    return (
        f"only root may record{' with options' if is_served else ''}, "
        f"and `sudo -n {program}` was refused ({said.splitlines()[0][6:]}).\n"
        f"A line in /etc/sudoers.d allows it: `{_user()} ALL=(root) NOPASSWD: {program}`; "
        "only root may be able to write that file and its folder.\n"
        + (f"The service at {_service.PLACE} records without options: leave them out." if is_served else f"Without sudo {service}")
    )


def _rights(program: str) -> List[str]:
    """What stands before the program: nothing for root, and where its file has capabilities."""
    if os.geteuid() == 0:
        return []
    try:
        os.getxattr(program, "security.capability")
        return []
    except OSError:
        return ["sudo", "-n"]


def _user() -> str:
    import pwd

    try:
        return pwd.getpwuid(os.getuid()).pw_name
    except KeyError:
        return f"#{os.getuid()}"
