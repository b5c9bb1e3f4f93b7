"""An agent on this machine beside a loop in Python, with a spool and perhaps a collector; what its spool says.

Leaves out what a collector does (`otlp.py`).
"""
import contextlib
import os
import pathlib
import re
import signal
import subprocess
import sys
import tempfile
import time

import duckdb

# A user that nobody else has, as the documentation says.
OWNER = 60_700
LOOP = "while True: sum(i * i for i in range(100_000))"
PAGE = re.compile(r"metrics on (http://\S+)")
LAST = re.compile(r"(\d+) windows; spool: (\d+) written, (\d+) removed, 0 lost(?:; collector: (\d+) sent, (\d+) dropped)?")


class Agent(contextlib.AbstractContextManager):
    """Runs until `end`, which gives its last words: windows, removed from the spool, sent, dropped."""

    def __init__(self, program, url=None, window="2s", before=(), loop=True, more=()):
        self.folder = tempfile.TemporaryDirectory()
        self.spool, self.stopped = self.folder.name, False
        os.chown(self.spool, OWNER, OWNER)
        command = [*before, program, "agent", "--power", "model", "--listen", "127.0.0.1:0", "--window", window, "--spool", self.spool, *more]
        self.loop = subprocess.Popen(["nice", "-n", "19", sys.executable, "-c", LOOP if loop else ""])
        # Nobody reads what it says while it runs, and a pipe would be full some time.
        self.log = tempfile.NamedTemporaryFile()
        self.process = subprocess.Popen(command + (["--otlp", url] if url else []), stderr=self.log)

    @property
    def said(self):
        return pathlib.Path(self.log.name).read_text()

    def url(self):
        """Where its page is, once there is one."""
        while not (found := PAGE.search(self.said)):
            assert self.process.poll() is None, self.said
            time.sleep(0.1)
        return found[1]

    def stop(self):
        """Has it end, and does not wait."""
        self.process.send_signal(signal.SIGTERM)
        self.stopped = True

    def end(self):
        if not self.stopped:
            self.stop()
        self.process.wait(timeout=60)
        assert self.process.returncode == 0, self.said
        found = LAST.search(self.said)
        assert found, self.said
        windows, written, *others = [int(count or 0) for count in found.groups()]
        files = len(list(pathlib.Path(self.spool).glob("ledger/*/*.parquet")))
        assert windows == written == files + others[0], f"{files} windows in the spool: {self.said}"
        return windows, *others

    def targets(self):
        """What programs were charged with in each window, by its beginning in microseconds: the ledger's, which the rows of energy are too."""
        ledger, energy = self.sums("ledger", "target_uj"), self.sums("energy", "microjoules")
        assert all(uj == energy.get(start, 0) for start, uj in ledger.items()) and energy.keys() <= ledger.keys(), (ledger, energy)
        return ledger

    def sums(self, table, column):
        files = f"read_parquet('{self.spool}/{table}/*/*.parquet')"
        return dict(duckdb.execute(f"SELECT epoch_us(window_start), CAST(SUM({column}) AS BIGINT) FROM {files} GROUP BY 1").fetchall())

    def __exit__(self, *_):
        for process in (self.loop, self.process):
            process.kill()
            process.wait()
        self.log.close()
        self.folder.cleanup()
