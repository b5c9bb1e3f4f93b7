"""Prints the microjoules in exports, by readers that know nothing of energy-trace: `cargo xtask consumers`.

Takes the files of otlp, json, speedscope, firefox, chrome, parquet and parquet-readings, in this order. Leaves out pprof, which Go's own tool reads.
"""
import json
import sys

import duckdb
from opentelemetry.proto.profiles.v1development import profiles_pb2


def of_otlp(path):
    data = profiles_pb2.ProfilesData()
    with open(path, "rb") as file:
        data.ParseFromString(file.read())
    texts = data.dictionary.string_table
    profiles = [p for r in data.resource_profiles for s in r.scope_profiles for p in s.profiles]
    energy = [p for p in profiles if texts[p.sample_type.type_strindex] == "energy"]
    return sum(value for profile in energy for sample in profile.samples for value in sample.values)


def of_stacks(path):
    query = "SELECT sum(stack.energy_uj) FROM (SELECT unnest(stacks) AS stack FROM read_json(?, maximum_object_size = 1000000000))"
    return int(duckdb.execute(query, [path]).fetchone()[0])


def of_json(path, count):
    with open(path) as file:
        return count(json.load(file))


def of_parquet(path):
    """By function, by call and by moment: whatever the rows are put together by, they are the whole."""
    by = lambda what: f"SELECT sum(uj) FROM (SELECT {what}, sum(microjoules) AS uj FROM read_parquet(?) GROUP BY ALL)"
    [sum_] = {int(duckdb.execute(by(what), [path]).fetchone()[0]) for what in ("function", "api_call", "moment", "frames[1]")}
    lengths = "SELECT count(*) FROM read_parquet(?) WHERE len(frames) = 0 OR frames[-1] <> function OR step_ns <= 0"
    assert duckdb.execute(lengths, [path]).fetchone() == (0,), "rows without frames, or another function than the innermost"
    return sum_


def of_readings(path):
    query = "SELECT sum(target_uj) FROM read_parquet(?) WHERE class IN ('package', 'dram', 'gpu')"
    return int(duckdb.execute(query, [path]).fetchone()[0])


def main(otlp, stacks, speedscope, firefox, chrome, parquet, readings):
    print("OpenTelemetry's own messages", of_otlp(otlp))
    print("DuckDB", of_stacks(stacks))
    print("DuckDB (Parquet)", of_parquet(parquet))
    print("DuckDB (Parquet, readings)", of_readings(readings))
    print("speedscope (JSON)", of_json(speedscope, lambda file: sum(file["profiles"][0]["weights"])))
    print("firefox (JSON)", of_json(firefox, lambda file: sum(sum(t["samples"]["weight"]) for t in file["threads"])))
    slices = lambda file: (event["args"].get("self_uj", 0) for event in file["traceEvents"])
    print("chrome (JSON)", of_json(chrome, lambda file: sum(slices(file))))


main(*sys.argv[1:])
