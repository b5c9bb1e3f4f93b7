"""The script's own regression of counter steps on logged busy time, a check that shares no code with energy-trace.

Energy of a step = idle watts × its length + Σ watts × busy seconds of each kernel in the window [edge − lag − window, edge − lag], scaled by step
over window. Idle is pinned; lag and window are those with the least squared error. Leaves out overlaps: the workload waits for each launch.
"""

import bisect


def read_log(path):
    """Busy intervals by kernel: starts, ends and seconds busy up to each start."""
    kernels = {}
    with open(path, encoding="utf-8") as lines:
        for line in lines:
            kernel, start, end = line.split(",")
            starts, ends, sums = kernels.setdefault(kernel, ([], [], [0]))
            starts.append(int(start)), ends.append(int(end)), sums.append(sums[-1] + int(end) - int(start))
    return kernels


def busy_until(intervals, moment):
    starts, ends, sums = intervals
    place = bisect.bisect_right(starts, moment)
    return sums[place] - (max(0, ends[place - 1] - moment) if place else 0)


def solve(rows, values):
    """Least squares of one or two unknowns; `None` where they cannot be told apart."""
    count = len(rows[0])
    normal = [[sum(row[i] * row[j] for row in rows) for j in range(count)] for i in range(count)]
    right = [sum(row[i] * value for row, value in zip(rows, values)) for i in range(count)]
    if count == 1:
        return [right[0] / normal[0][0]] if normal[0][0] else None
    (a, b), (c, d) = normal
    determinant = a * d - b * c
    if determinant <= 1e-9 * a * d:
        return None
    return [(right[0] * d - b * right[1]) / determinant, (a * right[1] - c * right[0]) / determinant]


def regress(steps, kernels, idle_watts):
    """Watts above idle of each kernel, with lag and window in milliseconds and the share of variance explained."""
    names = sorted(kernels)
    pairs = [(a, b) for a, b in zip(steps, steps[1:])]
    if len(pairs) < 20 or not 0 < len(names) <= 2:
        return {"too_little": f"{len(pairs)} steps, kernels {names}"}
    lengths = sorted(b[0] - a[0] for a, b in pairs)
    tick = lengths[len(lengths) // 2]
    pairs = [(a, b) for a, b in pairs if abs(b[0] - a[0] - tick) * 2 <= tick]
    best = None
    for share in (1, 0.5, 0.25):
        for lag_ms in range(0, 255, 5):
            rows, values = [], []
            for (before, low), (edge, high) in pairs:
                end, length = edge - lag_ms * 1_000_000, edge - before
                window = length * share
                rows.append([(busy_until(kernels[n], end) - busy_until(kernels[n], end - window)) / 1e9 / share for n in names])
                values.append((high - low) / 1e3 - idle_watts * length / 1e9)
            watts = solve(rows, values)
            if watts is None:
                continue
            error = sum((value - sum(w * x for w, x in zip(watts, row))) ** 2 for row, value in zip(rows, values))
            if best is None or error < best[0] * 0.98:
                mean = sum(values) / len(values)
                total = sum((value - mean) ** 2 for value in values)
                best = (error, watts, lag_ms, share, 1 - error / total if total else None)
    if best is None:
        return {"too_little": "the kernels cannot be told apart"}
    _, watts, lag_ms, share, explained = best
    return {"watts_above_idle": dict(zip(names, watts)), "lag_ms": lag_ms, "window_share": share, "step_ms": tick / 1e6,
            "explained": explained, "steps": len(pairs)}
