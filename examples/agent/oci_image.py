#!/usr/bin/env python3
"""Makes an image (OCI 1.0, a tar archive) of a release's program, without a registry, an engine or a base image.

    python3 examples/agent/oci_image.py target/package/energy-trace-VERSION-x86_64-linux.tar.gz energy-trace.tar
    ctr --namespace k8s.io images import energy-trace.tar       # or: podman load, docker load, skopeo copy

In the image are the program, the C library that this machine has for it, and nothing else. The same files give the
same bytes. `cargo xtask fleet-prometheus` runs the agent in it by runc, as daemonset.yaml has it; NOT RUN:
containerd, Docker, Podman, a cluster.
"""

import gzip
import hashlib
import io
import json
import os
import re
import subprocess
import sys
import tarfile
import tempfile

PROGRAM = "usr/local/bin/energy-trace"
NAME = "energy-trace:latest"


def main(release, out):
    files = program_files(release)
    program = files[PROGRAM][1]
    files.update({path: (0o755, read(path)) for path in libraries(program)})
    # Who gives up root looks for a number that no account has.
    files["etc/passwd"] = (0o644, b"root:x:0:0:root:/:/bin/false\n")
    files["etc/group"] = (0o644, b"root:x:0:\n")
    layer = archive({path.lstrip("/"): file for path, file in files.items()})
    packed = gzip.compress(layer, mtime=0)
    config = encoded(
        {
            "architecture": architecture(program),
            "os": "linux",
            "config": {"Entrypoint": ["/" + PROGRAM], "Cmd": ["agent"], "User": "0"},
            "rootfs": {"type": "layers", "diff_ids": [digest(layer)]},
        }
    )
    manifest = encoded(
        {
            "schemaVersion": 2,
            "mediaType": "application/vnd.oci.image.manifest.v1+json",
            "config": described(config, "application/vnd.oci.image.config.v1+json"),
            "layers": [described(packed, "application/vnd.oci.image.layer.v1.tar+gzip")],
        }
    )
    named = described(manifest, "application/vnd.oci.image.manifest.v1+json")
    named["annotations"] = {"org.opencontainers.image.ref.name": NAME, "io.containerd.image.name": NAME}
    image = {"blobs/sha256/" + digest(blob)[7:]: (0o644, blob) for blob in (config, packed, manifest)}
    image["oci-layout"] = (0o644, encoded({"imageLayoutVersion": "1.0.0"}))
    image["index.json"] = (0o644, encoded({"schemaVersion": 2, "manifests": [named]}))
    with open(out, "wb") as file:
        file.write(archive(image))
    print(f"{out}: {NAME}, {len(files)} files, {len(packed) / 1e6:.1f} MB, {digest(manifest)}")


def program_files(release):
    """The program and its libraries, without manual pages and completions."""
    files = {}
    with tarfile.open(release) as archive:
        for member in archive:
            path = "usr/local/" + member.name.partition("/")[2]
            if member.isfile() and re.match("usr/local/(bin|lib|share/doc)/", path):
                files[path] = (0o755 if member.mode & 0o100 else 0o644, archive.extractfile(member).read())
    if PROGRAM not in files:
        sys.exit(f"{release} holds no bin/energy-trace: it is no release's archive")
    return files


def libraries(program):
    """The loader and the libraries that it would load, by their own names; what looks up hosts for --otlp too."""
    with tempfile.NamedTemporaryFile() as file:
        file.write(program)
        file.flush()
        said = subprocess.run(["ldd", file.name], capture_output=True, text=True, check=True)
    found = re.findall(r"(/\S+) \(0x", said.stdout)
    folder = os.path.dirname(next(path for path in found if "libc.so" in path))
    more = [os.path.join(folder, name) for name in ("libnss_dns.so.2", "libnss_files.so.2", "libresolv.so.2")]
    return found + [path for path in more if os.path.exists(path) and path not in found]


def read(path):
    with open(path, "rb") as file:
        return file.read()


def architecture(program):
    """The processor, by the word that images have for it."""
    machine = int.from_bytes(program[18:20], "little")
    return {62: "amd64", 183: "arm64"}[machine]


def archive(files):
    """A tar archive in which nothing tells when or by whom it was made."""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", format=tarfile.PAX_FORMAT) as tar:
        for folder in sorted({above for path in files for above in aboves(path)}):
            member = tarfile.TarInfo(folder)
            member.type, member.mode = tarfile.DIRTYPE, 0o755
            tar.addfile(member)
        for path, (mode, content) in sorted(files.items()):
            member = tarfile.TarInfo(path)
            member.mode, member.size = mode, len(content)
            tar.addfile(member, io.BytesIO(content))
    return out.getvalue()


def aboves(path):
    while path := os.path.dirname(path):
        yield path


def encoded(value):
    return json.dumps(value, sort_keys=True).encode()


def digest(blob):
    return "sha256:" + hashlib.sha256(blob).hexdigest()


def described(blob, kind):
    return {"mediaType": kind, "digest": digest(blob), "size": len(blob)}


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    main(sys.argv[1], sys.argv[2])
