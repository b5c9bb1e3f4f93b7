"""Takes profiles as a collector does, over HTTP and with OpenTelemetry's own generated messages, and adds them up.

Leaves out gRPC, and what a collector does with them.
"""
import http.server
import subprocess
import threading

from opentelemetry.proto.collector.profiles.v1development import profiles_service_pb2 as service


class Collector(http.server.BaseHTTPRequestHandler):
    """Answers with `answers`, in their order; keeps what was sent."""

    answers, sent = [], []

    def do_POST(self):
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.sent.append((self.path, self.headers["OTLP-Profiles-Development-Version"], body))
        status, headers = self.answers.pop(0)
        self.send_response(status)
        for name, value in {"Content-Length": "0", **headers}.items():
            self.send_header(name, value)
        self.end_headers()

    def log_message(self, *_):
        pass


def send(program, recording, answers):
    """What came of sending to a collector that answers so, and what it was sent."""
    Collector.answers, Collector.sent = list(answers), []
    server = http.server.HTTPServer(("127.0.0.1", 0), Collector)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    url = f"http://127.0.0.1:{server.server_port}"
    done = subprocess.run([program, "export", recording, "--format", "otlp", "--send", url], capture_output=True, text=True)
    server.shutdown()
    assert len(Collector.sent) == len(answers), f"{len(Collector.sent)} of {len(answers)} attempts: {done}"
    return done, Collector.sent


def energy_of(request):
    texts = request.dictionary.string_table
    profiles = [p for r in request.resource_profiles for s in r.scope_profiles for p in s.profiles]
    energy = [p for p in profiles if texts[p.sample_type.type_strindex] == "energy"]
    return sum(value for profile in energy for sample in profile.samples for value in sample.values)


def check(program, recording, target_uj):
    busy = (503, {"Retry-After": "1"})
    done, sent = send(program, recording, [busy, (200, {})])
    assert done.returncode == 0, done
    [first, second] = sent
    assert first == second and first[:2] == ("/v1development/profiles", "1"), first[:2]
    request = service.ExportProfilesServiceRequest.FromString(second[2])
    assert energy_of(request) == target_uj, f"{energy_of(request)} of {target_uj} microjoules"
    locations = [location.SerializeToString() for location in request.dictionary.location_table]
    assert len(set(locations)) == len(locations), "locations are there twice"
    keys = {attribute.key for of in request.resource_profiles for attribute in of.resource.attributes}
    assert {"service.name", "host.name"} <= keys, keys
    done, _ = send(program, recording, [(400, {})])
    assert done.returncode == 125 and "takes no profiles of this version" in done.stderr, done
    print(f"OTLP: {len(request.resource_profiles)} resources, {target_uj} microjoules, 503 and 400 understood", flush=True)
