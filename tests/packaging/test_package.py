"""The Debian package: made by cpack, looked into with dpkg, and its program run from where it was unpacked."""
import http.client
import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import unittest
import urllib.parse

sys.path.insert(0, str(pathlib.Path(__file__).parents[1] / "support"))
from waiting import HANG_S, until  # noqa: E402

BUILD = pathlib.Path(os.environ["PAWL_BUILD"])
TIMEOUT_S = HANG_S

FILES = {
    "/etc/pawl/pawl.yaml": "-rw-r--r--",
    "/lib/systemd/system/pawl.service": "-rw-r--r--",
    "/usr/bin/pawl": "-rwxr-xr-x",
    "/usr/share/man/man1/pawl.1.gz": "-rw-r--r--",
    "/usr/share/doc/pawl/copyright": "-rw-r--r--",
    "/usr/share/doc/pawl/changelog.gz": "-rw-r--r--",
    "/usr/share/doc/pawl/operating.md.gz": "-rw-r--r--",
    "/usr/share/doc/pawl/configuration.md.gz": "-rw-r--r--",
    "/usr/share/doc/pawl/monitoring/alerts.yml": "-rw-r--r--",
    "/usr/share/doc/pawl/monitoring/grafana.json": "-rw-r--r--",
}


def run(*command, **more):
    return subprocess.run([str(word) for word in command], capture_output=True, text=True, timeout=TIMEOUT_S, **more)


@unittest.skipUnless(shutil.which("cpack") and shutil.which("dpkg-shlibdeps"), "needs cpack and dpkg-dev")
class Package(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = pathlib.Path(tempfile.mkdtemp(prefix="pawl-package-"))
        cls.addClassCleanup(shutil.rmtree, cls.folder, ignore_errors=True)
        made = run("cpack", "-G", "DEB", "--config", BUILD / "CPackConfig.cmake", "-B", cls.folder / "made",
                   cwd=cls.folder)
        if made.returncode != 0:
            raise AssertionError(made.stdout + made.stderr)
        (cls.package,) = (cls.folder / "made").glob("pawl_*.deb")
        cls.root = cls.folder / "root"
        run("dpkg-deb", "-x", cls.package, cls.root, check=True)
        run("dpkg-deb", "-e", cls.package, cls.root / "DEBIAN", check=True)

    def field(self, name):
        return run("dpkg-deb", "-f", self.package, name, check=True).stdout.strip()

    def test_it_holds_what_it_should_and_belongs_to_root(self):
        listed = {}
        for line in run("dpkg-deb", "-c", self.package, check=True).stdout.splitlines():
            mode, owner, _, _, _, path = line.split(maxsplit=5)
            self.assertEqual(owner, "root/root", line)
            listed[path.removeprefix(".")] = mode
        for path, mode in FILES.items():
            self.assertEqual(listed.get(path), mode, path)
        unexpected = [path for path in listed if not path.endswith("/") and path not in FILES
                      and not path.startswith("/usr/share/doc/pawl/")]
        self.assertEqual(unexpected, [])

    def test_its_control_file_says_what_it_needs(self):
        self.assertEqual(self.field("Package"), "pawl")
        self.assertRegex(self.field("Version"), r"^\d+\.\d+\.\d+$")
        needs = self.field("Depends")
        for library in ("libc6", "libssl3", "libsqlite3-0", "libcurl4", "libyaml-cpp0.7", "libspdlog1.10"):
            self.assertRegex(needs, rf"\b{re.escape(library)}\b")
        self.assertEqual((self.root / "DEBIAN/conffiles").read_text(), "/etc/pawl/pawl.yaml\n")

    def test_its_scripts_are_sound_and_do_nothing_where_systemd_does_not_run(self):
        for name, arguments in (("postinst", ["configure", ""]), ("prerm", ["remove"]), ("postrm", ["remove"])):
            script = self.root / "DEBIAN" / name
            self.assertTrue(os.access(script, os.X_OK), name)
            run("sh", "-n", script, check=True)
            if not pathlib.Path("/run/systemd/system").exists():
                self.assertEqual(run(script, *arguments).returncode, 0, name)

    def test_the_program_serves_with_the_settings_of_the_package(self):
        data = self.folder / "data"
        server = subprocess.Popen([self.root / "usr/bin/pawl", "serve", "--config", self.root / "etc/pawl/pawl.yaml",
                                   "--data", data, "--listen", "127.0.0.1:0"], stdin=subprocess.DEVNULL,
                                  stderr=subprocess.PIPE, text=True)
        try:
            until(lambda: (data / "server.json").exists() or server.poll() is not None, bool, "the server")
            self.assertIsNone(server.poll(), server.poll() is not None and server.stderr.read())
            address = urllib.parse.urlsplit(json.loads((data / "server.json").read_text())["url"]).netloc
            connection = http.client.HTTPConnection(address, timeout=TIMEOUT_S)
            connection.request("GET", "/readyz")
            self.assertEqual(connection.getresponse().status, 200)
            connection.close()
            server.send_signal(signal.SIGTERM)
            self.assertEqual(server.wait(TIMEOUT_S), 0)
        finally:
            server.kill()
            server.communicate()
        printed = run(self.root / "usr/bin/pawl", "serve", "--config", self.root / "etc/pawl/pawl.yaml",
                      "--print-config")
        self.assertRegex(printed.stdout, r"data: /var/lib/pawl +# \S+/etc/pawl/pawl.yaml:\d+\n")

    @unittest.skipUnless(shutil.which("systemd-analyze"), "needs systemd")
    def test_systemd_understands_the_unit(self):
        unit = self.folder / "pawl.service"
        text = (self.root / "lib/systemd/system/pawl.service").read_text()
        unit.write_text(text.replace("/usr/bin/pawl",
                                     str(self.root / "usr/bin/pawl")).replace("Documentation=man:pawl(1)\n", ""))
        checked = run("systemd-analyze", "verify", unit)
        self.assertEqual((checked.returncode, [line for line in checked.stderr.splitlines() if "pawl.service" in line]),
                         (0, []))

    @unittest.skipUnless(shutil.which("lintian"), "needs lintian")
    def test_lintian_finds_no_error(self):
        checked = run("lintian", "--allow-root", "--fail-on", "error", "--no-cfg",
                      "--suppress-tags", "malformed-contact,bogus-mail-host", self.package)
        self.assertEqual(checked.returncode, 0, checked.stdout + checked.stderr)

    def test_the_manual_page_is_well_formed(self):
        page = run("zcat", self.root / "usr/share/man/man1/pawl.1.gz", check=True).stdout
        self.assertIn(".SH NAME\npawl \\- ", page)


if __name__ == "__main__":
    unittest.main()
