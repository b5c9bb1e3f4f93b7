"""Engines that run the product's SQL. Each is made with the folder of the SQL files and the place of the tables.

Leaves out what is asked (`__main__.py`) and object stores (`store.py`).
"""
import contextlib
import json
import os
import pathlib
import signal
import socket
import subprocess
import sys
import time
import zipfile


def statements(path, place):
    """The statements of a file of views, with the place of the tables in them."""
    lines = [line for line in path.read_text().splitlines() if not line.startswith("--")]
    text = "\n".join(lines).replace("'spool/", f"'{place}/")
    return [statement.strip() for statement in text.split(";") if statement.strip()]


def question(text):
    return "\n".join(line for line in text.splitlines() if not line.startswith("--"))


class DuckDb(contextlib.AbstractContextManager):
    def __init__(self, sql, place, filesystem=None):
        import duckdb

        self.connection = duckdb.connect()
        if filesystem:
            self.connection.register_filesystem(filesystem)
        for statement in statements(sql / "views.duckdb.sql", place):
            self.connection.execute(statement)

    def rows(self, text):
        return self.connection.execute(question(text)).fetchall()

    def __exit__(self, *_):
        self.connection.close()


class ClickHouse(contextlib.AbstractContextManager):
    def __init__(self, sql, place, change=lambda statement: statement):
        from chdb.session import Session

        self.session = Session()
        for statement in statements(sql / "views.clickhouse.sql", place):
            self.session.query(change(statement))

    def rows(self, text):
        answer = self.session.query(question(text), "JSONCompactEachRow")
        return [json.loads(line) for line in str(answer).splitlines()]

    def __exit__(self, *_):
        self.session.close()


class DataFusion(contextlib.AbstractContextManager):
    def __init__(self, sql, place):
        import datafusion

        self.context = datafusion.SessionContext()
        for statement in statements(sql / "views.datafusion.sql", place):
            self.context.sql(statement).collect()

    def rows(self, text):
        batches = self.context.sql(question(text)).collect()
        return [tuple(row.values()) for batch in batches for row in batch.to_pylist()]

    def __exit__(self, *_):
        pass


def with_glibc_snappy():
    """Words for Java: its snappy takes a machine that has musl beside glibc for one without glibc, so it is told where its library is."""
    import pyspark

    [jar] = pathlib.Path(pyspark.__file__).parent.glob("jars/snappy-java*.jar")
    folder, name = pathlib.Path(os.environ["FLEET_WORK"]), "libsnappyjava.so"
    with zipfile.ZipFile(jar) as packed:
        (folder / name).write_bytes(packed.read(f"org/xerial/snappy/native/Linux/{os.uname().machine}/{name}"))
    return f"-Dorg.xerial.snappy.lib.path={folder} -Dorg.xerial.snappy.lib.name={name}"


class Spark(contextlib.AbstractContextManager):
    """In one process; with `master`, on a cluster."""

    def __init__(self, sql, place, master="local[2]"):
        from pyspark.sql import SparkSession

        java = with_glibc_snappy()
        settings = {"ui.enabled": "false", "sql.shuffle.partitions": "4", "sql.session.timeZone": "UTC"}
        settings |= {"driver.extraJavaOptions": java, "executor.extraJavaOptions": java}
        builder = SparkSession.builder.master(master).appName("fleet")
        for key, value in settings.items():
            builder = builder.config(f"spark.{key}", value)
        self.session = builder.getOrCreate()
        self.session.sparkContext.setLogLevel("ERROR")
        for statement in statements(sql / "views.spark.sql", place):
            self.session.sql(statement)

    def rows(self, text):
        return [tuple(row) for row in self.session.sql(question(text)).collect()]

    def __exit__(self, *_):
        self.session.stop()


def wait_for(port, seconds=90):
    for _ in range(seconds * 10):
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=1):
            return
        time.sleep(0.1)
    sys.exit(f"nothing listens on port {port}")


def free_port():
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return found.getsockname()[1]


class Process(contextlib.AbstractContextManager):
    """A program that ends with its test, and all that it starts."""

    def __init__(self, words, **options):
        quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
        self.process = subprocess.Popen(words, start_new_session=True, **quiet, **options)

    def __exit__(self, *_):
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()


class SparkCluster(Spark):
    """A master and two workers, each in a JVM of its own, started by `before`."""

    def __init__(self, sql, place, before=()):
        import pyspark

        home, port = os.path.dirname(pyspark.__file__), free_port()
        master = f"spark://127.0.0.1:{port}"
        start = [os.path.join(home, "bin/spark-class")]
        here = {"env": {**os.environ, "SPARK_HOME": home, "SPARK_LOCAL_IP": "127.0.0.1", "SPARK_WORKER_DIR": os.environ["FLEET_WORK"]}}
        worker = ["org.apache.spark.deploy.worker.Worker", "-c", "1", "-m", "1g", "--webui-port", "0", master]
        self.cluster = contextlib.ExitStack()
        self.cluster.enter_context(
            Process([*start, "org.apache.spark.deploy.master.Master", "-h", "127.0.0.1", "-p", str(port), "--webui-port", "0"], **here)
        )
        wait_for(port)
        for _ in range(2):
            self.cluster.enter_context(Process([*before, *start, *worker], **here))
        super().__init__(sql, place, master)

    def __exit__(self, *error):
        super().__exit__(*error)
        self.cluster.close()


class Sail(contextlib.AbstractContextManager):
    """Sail with four workers, asked over Spark Connect."""

    def __init__(self, sql, place):
        from pyspark.sql import SparkSession

        port = free_port()
        sail = os.path.join(os.path.dirname(sys.executable), "sail")
        words = [sail, "spark", "server", "--port", str(port)]
        self.server = Process(words, env={**os.environ, "SAIL_MODE": "local-cluster"})
        wait_for(port)
        self.session = SparkSession.builder.remote(f"sc://127.0.0.1:{port}").getOrCreate()
        for statement in statements(sql / "views.spark.sql", place):
            self.session.sql(statement).collect()

    rows = Spark.rows

    def __exit__(self, *error):
        self.session.stop()
        self.server.__exit__(*error)


ENGINES = {"duckdb": DuckDb, "clickhouse": ClickHouse, "datafusion": DataFusion, "spark": SparkCluster, "sail": Sail}
