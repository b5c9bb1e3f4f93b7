"""NVML through ctypes, independent of energy-trace: the counter, the power fields, and a quick loop over both. Leaves out calibration."""

import ctypes
import statistics
import time

INSTANT, AVERAGE = 186, 185


class FieldValue(ctypes.Structure):
    _fields_ = [("field", ctypes.c_uint), ("scope", ctypes.c_uint), ("timestamp_us", ctypes.c_longlong), ("latency_us", ctypes.c_longlong),
                ("kind", ctypes.c_int), ("result", ctypes.c_int), ("value", ctypes.c_ulonglong)]


class Device:
    """The first device."""

    def __init__(self, library):
        self.nvml = ctypes.CDLL(library)
        self.handle = ctypes.c_void_p()
        self.call("nvmlInit_v2")
        self.call("nvmlDeviceGetHandleByIndex_v2", 0, ctypes.byref(self.handle))

    def call(self, name, *arguments):
        code = getattr(self.nvml, name)(*arguments)
        if code:
            raise RuntimeError(f"{name} says {code}")

    def text(self, name, *before):
        room = ctypes.create_string_buffer(96)
        self.call(name, *before, room, ctypes.c_uint(96))
        return room.value.decode(errors="replace")

    def energy_mj(self):
        value = ctypes.c_ulonglong()
        self.call("nvmlDeviceGetTotalEnergyConsumption", self.handle, ctypes.byref(value))
        return value.value

    def usage_mw(self):
        value = ctypes.c_uint()
        self.call("nvmlDeviceGetPowerUsage", self.handle, ctypes.byref(value))
        return value.value

    def clock_mhz(self):
        """The clock of the multiprocessors."""
        value = ctypes.c_uint()
        self.call("nvmlDeviceGetClockInfo", self.handle, ctypes.c_int(1), ctypes.byref(value))
        return value.value

    def field(self, number):
        """A field's value, or `None` where it is not offered."""
        value = FieldValue(field=number)
        code = self.nvml.nvmlDeviceGetFieldValues(self.handle, ctypes.c_int(1), ctypes.byref(value))
        if code or value.result:
            return None
        return value.value & 0xFFFFFFFF if value.kind == 1 else value.value


def sample(device, going_on, period=0.002):
    """Rows of (nanoseconds of CLOCK_MONOTONIC, counter in mJ, instant power in mW or None, microseconds of the counter's read)."""
    rows = []
    while going_on():
        before = time.monotonic_ns()
        energy = device.energy_mj()
        after = time.monotonic_ns()
        rows.append(((before + after) // 2, energy, device.field(INSTANT), (after - before) / 1000))
        time.sleep(period)
    return rows


def edges(rows):
    """Moments at which the counter moved, and its value since."""
    pairs = zip(rows, rows[1:])
    return [((a[0] + b[0]) // 2, b[1]) for a, b in pairs if b[1] != a[1]]


def spread(values):
    """Median, 5th and 95th percentile of numbers, and how many."""
    values = sorted(values)
    if not values:
        return None
    at = lambda share: values[min(len(values) - 1, int(share * len(values)))]
    return {"count": len(values), "p5": at(0.05), "median": statistics.median(values), "p95": at(0.95)}


def summary(rows):
    """What a loop has seen: the step, the counter against the instant power, and what a read costs."""
    if len(rows) < 3:
        return {"reads": len(rows)}
    steps = edges(rows)
    pairs = list(zip(rows, rows[1:]))
    powered = [(a, b) for a, b in pairs if a[2] is not None]
    integral_mj = sum(a[2] * (b[0] - a[0]) / 1e9 for a, b in powered)
    changed = [b[0] for a, b in pairs if a[2] != b[2]]
    result = {
        "reads": len(rows),
        "seconds": (rows[-1][0] - rows[0][0]) / 1e9,
        "counter_j": (rows[-1][1] - rows[0][1]) / 1e3,
        "instant_integral_j": integral_mj / 1e3 if powered else None,
        "read_us": spread([row[3] for row in rows]),
        "step_ms": spread([(b[0] - a[0]) / 1e6 for a, b in zip(steps, steps[1:])]),
        "step_mj": spread([b[1] - a[1] for a, b in zip(steps, steps[1:])]),
        "instant_changes_ms": spread([(b - a) / 1e6 for a, b in zip(changed, changed[1:])]),
        "instant_watts": spread([row[2] / 1e3 for row in rows if row[2] is not None]),
    }
    if powered and integral_mj:
        result["counter_over_instant"] = result["counter_j"] / result["instant_integral_j"]
    return result
