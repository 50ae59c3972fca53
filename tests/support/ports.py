"""Ports for servers that are started again where they were."""
import random
import socket


def stable_port():
    """A free port below those that the kernel gives to connections, so that nobody is given it while its server is
    away."""
    for port in random.sample(range(20_000, 32_000), 100):
        with socket.socket() as probe:
            try:
                probe.bind(("127.0.0.1", port))
                return port
            except OSError:
                pass
    raise AssertionError("no port is free")
