"""A recorder that the administrator offers to users without rights, at a socket: it records whoever connects, until that one shuts its
side down, and sends the recording back (`energy-trace record --attach-socket`).

Nothing is sent to it. Leaves out what is shown of a recording.
"""

from __future__ import annotations

import json
import shutil
import socket
import threading
import warnings
from typing import Any, Optional

from ._program import EnergyTraceError

PLACE = "/run/energy-trace/attach.sock"


class Service:
    """Its recording comes by itself, also where the service ends it before we do."""

    def __init__(self, connection: socket.socket, recording: str) -> None:
        self._connection = connection
        self._stream = connection.makefile("rb")
        self._recording = recording
        self._failure: Optional[Exception] = None
        self._receiving = threading.Thread(target=self._receive, daemon=True)

    def begin(self) -> Any:
        """Returns when the recording has begun, with what is told of it."""
        told = self._told()
        self._receiving.start()
        return told

    def end(self) -> None:
        """Returns when the recording is there."""
        is_over = not self._receiving.is_alive()
        self._shut(socket.SHUT_WR)
        self._receiving.join()
        self.close()
        if self._failure:
            raise EnergyTraceError(f"no recording came from {PLACE}: {self._failure}")
        if is_over:
            warnings.warn("energy-trace: the service ended the recording before its end, as it was too long or too large")

    def close(self) -> None:
        self._shut(socket.SHUT_RDWR)
        if self._receiving.ident is not None:
            self._receiving.join()
        self._stream.close()
        self._connection.close()

    def _shut(self, side: int) -> None:
        """For all who have the connection by now: processes that were forked meanwhile have it too."""
        try:
            self._connection.shutdown(side)
        except OSError:
            pass  # The other end is gone.

    def _told(self) -> Any:
        line = self._stream.readline()
        if not line:
            raise EnergyTraceError(f"the recorder at {PLACE} ended without a word: others may use it now; `journalctl -t energy-trace` tells")
        told = json.loads(line)
        if told["event"] == "failed":
            raise EnergyTraceError(told["reason"])
        return told

    def _receive(self) -> None:
        try:
            size = self._told()["bytes"]
            with open(self._recording, "wb") as file:
                shutil.copyfileobj(self._stream, file)
                if file.tell() != size:
                    raise EnergyTraceError(f"{file.tell()} of {size} bytes came")
        except Exception as error:
            self._failure = error


def connect(recording: str) -> Optional[Service]:
    """The service, where there is one and this user may connect to it."""
    connection = socket.socket(socket.AF_UNIX)
    try:
        connection.connect(PLACE)
    except OSError:
        connection.close()
        return None
    return Service(connection, recording)
