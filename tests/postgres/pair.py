"""Two PostgreSQL servers, one a synchronous standby of the other, that change places when the first is killed.

    with Pair() as pair:
        pair.create_database("one")
        pair.url("one")     # both addresses: whoever connects finds the one that may be written to
        pair.fail_over()    # kills the primary, promotes the standby; what was acknowledged is there
        pair.rebuild()      # the one that was killed comes back as a standby of the other
"""
import contextlib
import shutil

from cluster import Cluster, until

# A standby that lost its primary looks for it again soon.
SETTINGS = ("wal_retrieve_retry_interval = 100ms", "wal_receiver_status_interval = 1s", "hot_standby = on")


class Standby(Cluster):
    """A copy of another server that follows it."""

    def __init__(self, primary):
        super().__init__(settings=SETTINGS, pooler=False)
        self.primary = primary

    def initialise(self):
        self.follow(self.primary)

    def follow(self, primary):
        data = self.folder + "/data"
        shutil.rmtree(data, ignore_errors=True)
        self.run(self.binaries + "/pg_basebackup", "-D", data, "-R", "-c", "fast", "-d",
                 f"host={primary.sockets} port={primary.port} user=postgres application_name=standby")
        with open(data + "/postgresql.conf", "a") as file:
            file.write(f"port = {self.port}\nunix_socket_directories = '{self.sockets}'\n")
        open(self.folder + "/made", "w").close()


class Pair:
    def __enter__(self):
        self.stack = contextlib.ExitStack()
        with self.stack as stack:
            self.primary = stack.enter_context(Cluster(settings=SETTINGS, pooler=False))
            self.standby = stack.enter_context(Standby(self.primary))
            self.be_synchronous()
            self.stack = stack.pop_all()
        return self

    def __exit__(self, *_):
        self.stack.close()

    def be_synchronous(self):
        """From now on nothing is acknowledged before the standby has it."""
        self.primary.sql("ALTER SYSTEM SET synchronous_standby_names = '*'", "postgres")
        self.primary.sql("SELECT pg_reload_conf()", "postgres")
        until(self.is_synchronous, bool, "the standby follows")

    def is_synchronous(self):
        return self.primary.sql("SELECT count(*) FROM pg_stat_replication WHERE state = 'streaming' AND "
                                "sync_state IN ('sync', 'quorum')", "postgres") == "1"

    def fail_over(self):
        self.primary.kill()
        self.primary, self.standby = self.standby, self.primary
        self.primary.control("promote")
        # Alone for now: it must not wait for a standby that is not there.
        with open(self.primary.folder + "/data/postgresql.auto.conf", "a") as file:
            file.write("synchronous_standby_names = ''\n")
        self.primary.control("reload")

    def rebuild(self):
        Standby.follow(self.standby, self.primary)
        self.standby.start()
        self.be_synchronous()

    def create_database(self, name):
        self.primary.create_database(name)

    def sql(self, text, database):
        return self.primary.sql(text, database)

    def url(self, database, user="pawl"):
        ports = sorted((self.primary.port, self.standby.port))
        hosts = ",".join(f"127.0.0.1:{port}" for port in ports)
        return f"postgres://{user}@{hosts}/{database}?target_session_attrs=read-write"
