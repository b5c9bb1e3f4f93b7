"""The program energy-trace: where it is, and what it prints. Leaves out recording (`_recorder.py`)."""

from __future__ import annotations

import os
import shutil
import subprocess
import sysconfig
from typing import Sequence


class EnergyTraceError(RuntimeError):
    """The program is missing, or refused: the text says why."""


def find() -> str:
    """`ENERGY_TRACE` where it is set, else the program that was installed with this package, else the one on the PATH."""
    beside = os.path.join(sysconfig.get_path("scripts"), "energy-trace")
    named = os.environ.get("ENERGY_TRACE")
    found = shutil.which(named or beside) or shutil.which(named or "energy-trace")
    if found is None:
        where = f"ENERGY_TRACE={named}" if named else f"{beside}, none on the PATH, and the variable ENERGY_TRACE names none"
        raise EnergyTraceError(f"the program energy-trace is not there: no {where}")
    return os.path.abspath(found)


def run(*words: str, statuses: Sequence[int] = (0,)) -> str:
    """What it prints to stdout; an error unless it ends with one of these statuses."""
    done = subprocess.run([find(), *words], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    if done.returncode not in statuses:
        raise EnergyTraceError(reason(done.stderr, done.returncode))
    return done.stdout.decode(errors="replace")


def reason(stderr: bytes, status: int) -> str:
    """Why it ended so, in its own words."""
    text = stderr.decode(errors="replace").strip()
    return text or f"energy-trace ended with status {status} and said nothing"
