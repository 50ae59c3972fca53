"""An empty database for one test, beside a PostgreSQL that tests/postgres/cluster started."""
import os
import secrets
import subprocess


def new_database():
    """Its address; None when there is no such PostgreSQL, and the test's server keeps its runs in its folder."""
    if "PAWL_PG_PORT" not in os.environ:
        return None
    name = f"test_{os.getpid()}_{secrets.token_hex(4)}"
    host, port = os.environ["PAWL_PG_HOST"], os.environ["PAWL_PG_PORT"]
    subprocess.run(["psql", "-X", "-q", "-h", host, "-p", port, "-U", "postgres", "-c",
                    f"CREATE DATABASE {name} OWNER pawl", "postgres"], check=True, stdin=subprocess.DEVNULL)
    return f"postgres://pawl@127.0.0.1:{port}/{name}"
