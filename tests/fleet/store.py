"""The tables in an object store, SeaweedFS, put there twice by an uploader that knows nothing of them, and asked there by ClickHouse's engine, DuckDB,
Sail and a Spark cluster.

Spark's package has no S3: each of its machines mounts the bucket, by Debian's `s3fs`. Leaves out stores of others and what is asked.
"""
import contextlib
import json
import os
import re
import shlex
import shutil
import socket
import subprocess
import sys

from engines import ENGINES, ClickHouse, DuckDb, Process, Sail, SparkCluster, wait_for

KEY, SECRET, BUCKET = "fleet", "fleetsecret", "fleet"


def server(folder, ports):
    """Starts SeaweedFS, which ends on SIGKILL alone."""
    data, config = folder / "weed", folder / "s3.json"
    shutil.rmtree(data, ignore_errors=True)
    data.mkdir(parents=True)
    identity = {"name": KEY, "credentials": [{"accessKey": KEY, "secretKey": SECRET}], "actions": ["Admin", "Read", "Write", "List"]}
    config.write_text(json.dumps({"identities": [identity]}))
    return Process(
        [os.path.join(os.path.dirname(sys.executable), "weed"), "server", "-ip=127.0.0.1", f"-dir={data}", "-s3", f"-s3.config={config}"]
        + [f"-{name}={port}" for name, port in ports.items()],
        cwd=folder,
    )


def low_port(number):
    """A port that is free, and so is the one 10,000 above, on which SeaweedFS has gRPC."""
    for port in range(20_000 + 100 * number, 20_100 + 100 * number):
        with contextlib.suppress(OSError), socket.socket() as one, socket.socket() as other:
            one.bind(("127.0.0.1", port))
            other.bind(("127.0.0.1", port + 10_000))
            return port
    sys.exit("no port is free")


@contextlib.contextmanager
def filled(folder, spool):
    """A store that has the spool; its address, and a client of it."""
    import s3fs

    names = ("master.port", "volume.port", "filer.port", "s3.port")
    ports = {name: low_port(number) for number, name in enumerate(names)}
    with server(folder, ports):
        wait_for(ports["s3.port"])
        url = f"http://127.0.0.1:{ports['s3.port']}"
        store = s3fs.S3FileSystem(key=KEY, secret=SECRET, endpoint_url=url, client_kwargs={"region_name": "us-east-1"})
        store.mkdir(BUCKET)
        for _ in range(2):
            store.put(f"{spool}/", f"{BUCKET}/", recursive=True)
        files = store.find(BUCKET)
        here = [path for path in spool.rglob("*") if path.is_file()]
        assert len(files) == len(here), f"{len(files)} objects of {len(here)} files"
        print(f"SeaweedFS: {len(files)} objects, put twice", flush=True)
        yield url, store


def over_s3(folder, spool, ask):
    with filled(folder, spool) as (url, store):
        s3 = lambda statement: re.sub(r"file\('([^']*)'", rf"s3('\1', '{KEY}', '{SECRET}'", statement)
        ENGINES["clickhouse of S3"] = lambda sql, place: ClickHouse(sql, place, s3)
        ENGINES["duckdb of S3"] = lambda sql, place: DuckDb(sql, place, store)
        ask("clickhouse of S3", f"{url}/{BUCKET}")
        ask("duckdb of S3", f"s3://{BUCKET}")
        ENGINES["sail of S3"] = Sail
        os.environ |= {"AWS_ACCESS_KEY_ID": KEY, "AWS_SECRET_ACCESS_KEY": SECRET, "AWS_ENDPOINT": url, "AWS_REGION": "us-east-1", "AWS_ALLOW_HTTP": "true"}
        ask("sail of S3", f"s3://{BUCKET}")


def spark_over_s3(folder, spool, ask):
    """The cluster's machines, here the driver and two workers, have a mount each, at the same place."""
    password, place = folder / "s3fs.password", folder / "bucket"
    password.write_text(f"{KEY}:{SECRET}")
    password.chmod(0o600)
    place.mkdir(exist_ok=True)
    with filled(folder, spool) as (url, _):
        mount = [shutil.which("s3fs"), BUCKET, str(place), "-o", f"url={url},use_path_request_style,ro,passwd_file={password}"]
        ENGINES["spark of S3"] = lambda sql, of: SparkCluster(sql, of, ["unshare", "--mount", "sh", "-c", f'umount {place} && {shlex.join(mount)} && exec "$@"', "sh"])
        subprocess.run(mount, check=True)
        try:
            ask("spark of S3", str(place))
        finally:
            subprocess.run(["umount", "--lazy", place], check=True)
