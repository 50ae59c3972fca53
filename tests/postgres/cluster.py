"""A PostgreSQL server of the tests' own: in a temporary folder, as an unprivileged user, with a transaction pooler
beside.

    with Cluster() as cluster:
        cluster.create_database("one")
        cluster.url("one")          # straight, as the ordinary role `pawl`
        cluster.pooled_url("one")   # through pgbouncer

From a shell: tests/postgres/cluster COMMAND [ARG...] runs the command beside one. It finds what it needs in the
environment (see Cluster.environment).

It is gone afterwards, whatever happens: a process of its own waits for the end of the one that started it, and stops
the server and removes the folder even when that one was killed.
"""

import contextlib
import glob
import os
import pwd
import random
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "support"))
from waiting import HANG_S, until  # noqa: E402

FINISH = """
import os, shutil, signal, sys, time
signal.signal(signal.SIGINT, signal.SIG_IGN)
signal.signal(signal.SIGTERM, signal.SIG_IGN)
folder = sys.argv[1]
sys.stdin.read()
for name, number in (('bouncer.pid', signal.SIGKILL), ('data/postmaster.pid', signal.SIGQUIT)):
    try:
        pid = int(open(os.path.join(folder, name)).readline())
        os.kill(pid, signal.SIGCONT)
        os.kill(pid, number)
        for _ in range(3000):
            os.kill(pid, 0)
            time.sleep(0.01)
        os.kill(pid, signal.SIGKILL)
    except (OSError, ValueError):
        pass
shutil.rmtree(folder, ignore_errors=True)
"""


def binaries():
    """Where initdb and its like are: the newest that is installed."""
    found = sorted(glob.glob("/usr/lib/postgresql/*/bin"), key=lambda path: int(path.split("/")[-2]))
    if found:
        return found[-1]
    if shutil.which("initdb"):
        return os.path.dirname(os.path.realpath(shutil.which("initdb")))
    sys.exit("PostgreSQL's server is not installed: cmake/install-packages installs it")


def free_port():
    """Below those that the system gives to clients: one who insists on calling a server that is down could be given its
    port, reach itself, and be in the way when the server is back."""
    with open("/proc/sys/net/ipv4/ip_local_port_range") as limits:
        lowest = int(limits.read().split()[0])
    while True:
        port = random.SystemRandom().randrange(10_000, lowest)
        with socket.socket() as probe:
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
            return port


def children_of(parent):
    found = []
    for stat in glob.glob("/proc/[0-9]*/stat"):
        with contextlib.suppress(OSError):
            with open(stat) as file:
                text = file.read()
            if int(text[text.rindex(")") + 2:].split()[1]) == parent:
                found.append(int(stat.split("/")[2]))
    return found


class Cluster:
    def __init__(self, fsync=False, settings=(), pooler=True):
        self.fsync = fsync
        self.pooler = pooler
        self.settings = list(settings)
        self.binaries = binaries()
        # initdb and pgbouncer refuse to be root.
        self.user = None
        if os.getuid() == 0:
            names = {entry.pw_name for entry in pwd.getpwall()}
            self.user = "postgres" if "postgres" in names else "nobody"

    def __enter__(self):
        self.folder = tempfile.mkdtemp(prefix="pawl_pg_")
        self.sockets = self.folder
        self.port = free_port()
        self.pooler_port = free_port()
        if self.user:
            entry = pwd.getpwnam(self.user)
            os.chown(self.folder, entry.pw_uid, entry.pw_gid)
        os.chmod(self.folder, 0o755)
        finish = os.pipe()
        self.finisher = subprocess.Popen([sys.executable, "-c", FINISH, self.folder], stdin=finish[0],
                                         start_new_session=True)
        os.close(finish[0])
        self.finish = finish[1]
        try:
            self.initialise()
            self.start()
            if self.pooler:
                self.start_pooler()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_):
        os.close(self.finish)
        self.finisher.wait()

    def who(self):
        if not self.user:
            return {}
        return {"user": self.user, "group": pwd.getpwnam(self.user).pw_gid, "extra_groups": []}

    def run(self, *command):
        done = subprocess.run(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                              text=True, cwd=self.folder, **self.who())
        if done.returncode != 0:
            raise RuntimeError(f"{' '.join(command)}: {done.stdout}")
        return done.stdout

    def initialise(self):
        data = os.path.join(self.folder, "data")
        self.run(self.binaries + "/initdb", "-D", data, "-U", "postgres", "-A", "trust", "-E", "UTF8", "--locale=C",
                 "-N", "--data-checksums")
        lines = [
            "listen_addresses = '127.0.0.1'", f"port = {self.port}", f"unix_socket_directories = '{self.sockets}'",
            f"fsync = {'on' if self.fsync else 'off'}", "max_connections = 200", "shared_buffers = 128MB",
            "log_lock_waits = on", "log_checkpoints = off", "max_wal_size = 2GB", *self.settings,
        ]
        with open(os.path.join(data, "postgresql.conf"), "a") as file:
            file.write("\n".join(lines) + "\n")
        # Names and passwords as in the pooler's list; whoever is local is trusted.
        with open(os.path.join(self.folder, "users.txt"), "w") as file:
            file.write('"pawl" "pawl"\n"postgres" "postgres"\n')
        with open(os.path.join(self.folder, "bouncer.ini"), "w") as file:
            file.write(f"""[databases]
* = host={self.sockets} port={self.port}
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = {self.pooler_port}
unix_socket_dir = {self.sockets}
auth_type = trust
auth_file = {self.folder}/users.txt
pool_mode = transaction
default_pool_size = 6
max_client_conn = 500
server_login_retry = 1
logfile = {self.folder}/bouncer.log
pidfile = {self.folder}/bouncer.pid
ignore_startup_parameters = extra_float_digits
""")

    def control(self, *arguments):
        return self.run(self.binaries + "/pg_ctl", "-D", self.folder + "/data", "-w", "-t", str(HANG_S), "-s",
                        *arguments)

    def start(self):
        self.control("-l", self.folder + "/server.log", "start")
        if not os.path.exists(self.folder + "/made"):
            self.sql("CREATE ROLE pawl LOGIN", "postgres")
            open(self.folder + "/made", "w").close()

    def stop(self, mode="fast"):
        self.control("-m", mode, "stop")

    def kill(self):
        """As a machine that is gone: nobody gets to say a last word."""
        with open(self.folder + "/data/postmaster.pid") as file:
            postmaster = int(file.readline())
        os.kill(postmaster, signal.SIGSTOP)  # so that it starts nobody else
        for pid in [postmaster, *children_of(postmaster)]:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        until(lambda: os.path.exists(f"/proc/{postmaster}"), lambda is_there: not is_there, "the end of PostgreSQL")

    def restart(self, mode="fast"):
        self.stop(mode)
        self.start()

    def start_pooler(self):
        pooler = shutil.which("pgbouncer") or "/usr/sbin/pgbouncer"
        if not os.path.exists(pooler):
            sys.exit("pgbouncer is not installed: cmake/install-packages installs it")
        self.run(pooler, "-d", "-q", self.folder + "/bouncer.ini")
        until(lambda: os.path.exists(self.folder + "/bouncer.pid"), bool, "the pooler")

    def sql(self, text, database):
        return self.run(self.binaries + "/psql", "-X", "-A", "-t", "-v", "ON_ERROR_STOP=1", "-h", self.sockets, "-p",
                        str(self.port), "-U", "postgres", "-d", database, "-c", text).strip()

    def create_database(self, name):
        self.sql(f'CREATE DATABASE "{name}" OWNER pawl', "postgres")

    def url(self, database, user="pawl"):
        return f"postgres://{user}@127.0.0.1:{self.port}/{database}"

    def pooled_url(self, database, user="pawl"):
        return f"postgres://{user}@127.0.0.1:{self.pooler_port}/{database}"

    def environment(self):
        """PAWL_PG_HOST, PAWL_PG_PORT: the server. PAWL_PG_POOLER_PORT: the pooler. PAWL_PG_CONTROL: a command that
        takes `stop`, `start` or `restart`, and how (fast, immediate)."""
        return {"PAWL_PG_HOST": self.sockets, "PAWL_PG_PORT": str(self.port),
                "PAWL_PG_POOLER_PORT": str(self.pooler_port),
                "PAWL_PG_CONTROL": f"{sys.executable} {os.path.abspath(__file__)} {self.folder}"}


def control(folder, verb, mode="fast"):
    cluster = Cluster()
    cluster.folder = cluster.sockets = folder
    if verb in ("stop", "restart"):
        cluster.stop(mode)
    if verb in ("start", "restart"):
        cluster.start()


if __name__ == "__main__":
    control(*sys.argv[1:])
