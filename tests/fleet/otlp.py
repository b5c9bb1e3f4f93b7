"""Takes profiles as a collector does, over HTTP and with OpenTelemetry's own generated messages, and adds them up.

Leaves out gRPC, and what a collector does with them.
"""
import contextlib
import http.server
import subprocess
import threading
import time

from agent import Agent
from opentelemetry.proto.collector.profiles.v1development import profiles_service_pb2 as service

HANGS = "hangs"
OK, BUSY, NO = (200, {}), (503, {"Retry-After": "1"}), (400, {})


class Collector(contextlib.AbstractContextManager):
    """Answers with `answers`, in their order, the last of them for ever; keeps what was sent, and which of it was taken."""

    def __init__(self, answers):
        self.sent, self.taken, self.over = [], [], threading.Event()
        collector, left = self, list(answers)

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_POST(self):
                body = self.rfile.read(int(self.headers["Content-Length"]))
                collector.sent.append((self.path, self.headers["OTLP-Profiles-Development-Version"], body))
                answer = left.pop(0) if len(left) > 1 else left[0]
                if answer == HANGS:
                    collector.over.wait()
                    return
                if answer == OK:
                    collector.taken.append(body)
                self.send_response(answer[0])
                for name, value in {"Content-Length": "0", **answer[1]}.items():
                    self.send_header(name, value)
                self.end_headers()

            def log_message(self, *_):
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def wait_for(self, attempts):
        end = time.monotonic() + 90
        while len(self.sent) < attempts:
            assert time.monotonic() < end, f"{len(self.sent)} of {attempts} attempts"
            time.sleep(0.1)

    def __exit__(self, *_):
        self.over.set()
        self.server.shutdown()
        self.server.server_close()


def energy_profiles(body):
    request = service.ExportProfilesServiceRequest.FromString(body)
    texts = request.dictionary.string_table
    profiles = [p for r in request.resource_profiles for s in r.scope_profiles for p in s.profiles]
    return request, [p for p in profiles if texts[p.sample_type.type_strindex] == "energy"]


def energy_of(profiles):
    return sum(value for profile in profiles for sample in profile.samples for value in sample.values)


def check(program, recording, target_uj):
    check_export(program, recording, target_uj)
    check_agent(program)


def check_export(program, recording, target_uj):
    def export(url):
        return subprocess.run([program, "export", recording, "--format", "otlp", "--send", url], capture_output=True, text=True)

    with Collector([BUSY, OK]) as collector:
        done = export(collector.url)
        assert done.returncode == 0 and len(collector.sent) == 2, done
    [first, second] = collector.sent
    assert first == second and first[:2] == ("/v1development/profiles", "1"), first[:2]
    request, profiles = energy_profiles(second[2])
    assert energy_of(profiles) == target_uj, f"{energy_of(profiles)} of {target_uj} microjoules"
    locations = [location.SerializeToString() for location in request.dictionary.location_table]
    assert len(set(locations)) == len(locations), "locations are there twice"
    keys = {attribute.key for of in request.resource_profiles for attribute in of.resource.attributes}
    assert {"service.name", "host.name"} <= keys, keys
    with Collector([NO]) as collector:
        done = export(collector.url)
        assert len(collector.sent) == 1 and done.returncode == 125 and "takes no profiles of this version" in done.stderr, done
    print(f"OTLP: {len(request.resource_profiles)} resources, {target_uj} microjoules, 503 and 400 understood", flush=True)


def check_agent(program):
    """Each message that was taken holds what programs were charged with in its window; what was not taken is counted and said."""
    for name, answers, attempts, says in (
        ("200", [OK], 8, None),
        ("503, then 200", [BUSY, BUSY, OK], 8, "the collector is busy (status 503)"),
        ("400", [NO], 1, "takes no profiles of this version (status 400)"),
        ("no answer", [HANGS], 2, "the collector does not answer"),
    ):
        with Collector(answers) as collector, Agent(program, collector.url) as agent:
            collector.wait_for(attempts)
            # Windows behind what was not taken are counted too.
            time.sleep(6)
            windows, _, sent, dropped = agent.end()
            targets, total = agent.targets(), 0
            for body in collector.taken:
                _, profiles = energy_profiles(body)
                [start] = {(profile.time_unix_nano + 500) // 1_000 for profile in profiles}
                assert energy_of(profiles) == targets[start], f"{name}: {energy_of(profiles)} of {targets[start]} microjoules at {start}"
                total += targets[start]
            assert sent == len(collector.taken) and sent + dropped == windows, f"{name}: {sent} sent, {dropped} dropped: {agent.said}"
            assert answers[-1] != OK or sent >= 6 and total > 0, f"{name}: {sent} sent"
            assert answers[-1] != NO or len(collector.sent) == 1, f"{name}: {len(collector.sent)} attempts"
            assert agent.said.count(says or "the collector") == (1 if says else 0), agent.said
        held = f": {total} microjoules, as the ledger has them" if sent else ""
        print(f"agent, {name}: {windows} windows, {sent} taken, {dropped} dropped{held}", flush=True)
