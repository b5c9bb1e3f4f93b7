"""Where the parts work: a folder of their own, the program that burns, and time.

Everything lies below the folder; what must lie elsewhere (`/tmp/perf-PID.map`) is taken away at the end, except for what the recorder is to
find after its command has ended.
"""
import contextlib
import os
import shutil
import subprocess
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))


class Place:
    def __init__(self, folder, seconds):
        self.folder = os.path.abspath(folder)
        self.seconds = seconds
        self.end = time.monotonic() + seconds
        os.makedirs(self.folder, exist_ok=True)

    def path(self, name):
        return os.path.join(self.folder, name)

    def left(self):
        return max(0.0, self.end - time.monotonic())

    def compile(self, name, *options):
        """`burn.c` with these options of the compiler. What the compiler takes, seconds on a busy machine, is not taken from the part's time."""
        out = self.path(name)
        if not os.path.exists(out):
            with self.preparing():
                subprocess.run(["cc", "-O1", "-pthread", *options, os.path.join(HERE, "burn.c"), "-o", out + ".new", "-ldl"], check=True)
                os.rename(out + ".new", out)
        return out

    @contextlib.contextmanager
    def preparing(self):
        """What is done in it takes nothing from the part's time."""
        begin = time.monotonic()
        yield
        self.end += time.monotonic() - begin

    def burn(self):
        """The program that burns; HOSTILE_BURN names one that is compiled already."""
        made, out = os.environ.get("HOSTILE_BURN"), self.path("burn")
        if made and not os.path.exists(out):
            with self.preparing():
                shutil.copy(made, out)
        return out if made else self.compile("burn")

    def copy(self, source, name):
        out = self.path(name)
        shutil.copy(source, out)
        return out

    def run(self, *words):
        return subprocess.run(list(map(str, words)), stdin=subprocess.DEVNULL, check=False)

    def start(self, *words):
        return subprocess.Popen(list(map(str, words)), stdin=subprocess.DEVNULL)

    def python(self, script, *words):
        """Another script of this folder, in the system's interpreter."""
        return self.run("/usr/bin/python3", os.path.join(HERE, script), *words)


def say(text):
    print(text, file=sys.stderr, flush=True)
