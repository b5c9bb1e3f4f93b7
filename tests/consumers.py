"""Prints the microjoules in exports, by readers that know nothing of energy-trace: `cargo xtask consumers`.

Takes the files of otlp, json, speedscope, firefox and chrome, in this order. Leaves out pprof, which Go's own tool reads.
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


def main(otlp, stacks, speedscope, firefox, chrome):
    print("OpenTelemetry's own messages", of_otlp(otlp))
    print("DuckDB", of_stacks(stacks))
    print("speedscope (JSON)", of_json(speedscope, lambda file: sum(file["profiles"][0]["weights"])))
    print("firefox (JSON)", of_json(firefox, lambda file: sum(sum(t["samples"]["weight"]) for t in file["threads"])))
    slices = lambda file: (event["args"].get("self_uj", 0) for event in file["traceEvents"])
    print("chrome (JSON)", of_json(chrome, lambda file: sum(slices(file))))


main(*sys.argv[1:])
