#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The daemon as deploy/foldkv.service runs it: service_test.py MAKE_MODEL REFUSING"""
import os
import re
import signal
import subprocess
import sys
import tempfile
import unittest

SOURCE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")
sys.path.insert(0, os.path.join(SOURCE, "tests", "support"))
from daemon import Daemon, required, run_cases, seconds, wait_until  # noqa: E402
from releasing import Releasing, make_model  # noqa: E402

MAKE_MODEL, REFUSING = (os.path.abspath(path) for path in sys.argv[1:3])
del sys.argv[1:]


def unit():
    """Setting to the list of its values in deploy/foldkv.service."""
    found = {}
    with open(os.path.join(SOURCE, "deploy", "foldkv.service"), encoding="utf-8") as f:
        for name, value in re.findall(r"^(\w+)=(.*)$", f.read(), re.M):
            found.setdefault(name, []).append(value)
    return found


class Service(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        self.model = make_model(MAKE_MODEL, self.folder.name, "small")

    def test_1_the_filter_bites(self):
        code = "import os\ntry: os.setpriority(os.PRIO_PROCESS, 0, 19)\nexcept PermissionError: os._exit(3)"
        run = subprocess.run([REFUSING, sys.executable, "-c", code], timeout=seconds(30), check=False)
        self.assertEqual(run.returncode, 3)

    def test_2_serves_with_calls_refused(self):
        with Daemon("--threads", "2", model_path=self.model) as free:
            wanted = free.complete("hello w", max_tokens=8, temperature=0)["choices"]
        with Releasing(os.path.join(self.folder.name, "state"), self.model, "--threads", "2", under=(REFUSING,)) as daemon:
            self.assertEqual(daemon.complete("hello w", max_tokens=8, temperature=0)["choices"], wanted)
            self.assertEqual(daemon.ask("GET", "/admin/v1/generations")[0], 200)
            with open(f"/proc/{daemon.process.pid}/status", encoding="utf-8") as f:
                self.assertIn("\nSeccomp:\t2\n", f.read())

    def test_3_a_refused_call_is_an_error_there_too(self):
        found = unit()
        self.assertEqual(found["SystemCallErrorNumber"], ["EPERM"])
        again = found["SystemCallFilter"][-1].split()
        for call in ("sched_setaffinity", "sched_setattr", "setpriority"):
            self.assertIn(call, again)

    def test_4_its_options_file_may_be_absent(self):
        command = unit()["ExecStart"][0].split()
        self.assertEqual(command[0], "/usr/local/bin/foldkv")
        path = command[command.index("--config") + 1]
        self.assertTrue(path.startswith("-/"), path)
        missing = os.path.join(self.folder.name, "absent.conf")
        with Daemon("--threads", "1", "--config", "-" + missing, model_path=self.model) as daemon:
            daemon.get("/readyz")
        with open(missing, "w", encoding="utf-8") as f:
            f.write("server.threads = none\n")
        for config, named, code in (("-" + missing, "server.threads", 2), (missing + ".too", "absent.conf.too", 1)):
            run = subprocess.run([required("FOLDKV_TEST_BINARY"), "serve", self.model, "--config", config], capture_output=True,
                                 text=True, timeout=seconds(30), check=False)
            self.assertEqual(run.returncode, code)
            self.assertIn(named, run.stderr)

    def serve_as_the_unit(self, model):
        """The unit's own command line, on a folder and a port of the test's."""
        command = unit()["ExecStart"][0].replace("%S", self.folder.name).replace("${MODEL}", model).split(" ")
        self.assertEqual(command[:2], ["/usr/local/bin/foldkv", "serve"])
        return Daemon(*command[2:], "--threads", "1", "--cache-bytes", "8MiB", model_path="")

    def test_5_it_starts_again_on_its_own_state(self):
        self.assertEqual(unit()["StateDirectory"], ["foldkv"])  # /var/lib is read-only to it but for this
        os.mkdir(os.path.join(self.folder.name, "foldkv"), 0o700)
        with self.serve_as_the_unit(self.model) as daemon:
            first = daemon.complete("hello w", max_tokens=8, temperature=0)["choices"]
        other = make_model(MAKE_MODEL, self.folder.name, "other", "--seed", "9")
        for model in (other, "", os.path.join(self.folder.name, "gone.gguf")):  # whatever MODEL says by then
            with self.serve_as_the_unit(model) as daemon:
                self.assertEqual(daemon.complete("hello w", max_tokens=8, temperature=0)["choices"], first)

    def reloaded(self, daemon, *lines):
        """SIGHUP; the daemon must say each of the lines."""
        self.assertEqual(unit()["ExecReload"], ["/bin/kill -HUP $MAINPID"])
        before = len(daemon.log())
        daemon.process.send_signal(signal.SIGHUP)
        found = wait_until(lambda: all(line in daemon.log()[before:] for line in lines), 10)
        self.assertTrue(found, daemon.log()[before:])

    def test_6_sighup_reads_the_options_again(self):
        config = os.path.join(self.folder.name, "foldkv.conf")

        def write(text):
            with open(config, "w", encoding="utf-8") as f:
                f.write(text)

        write("engine.queue_max = 200\nserver.log_level = debug\n")
        with Daemon("--threads", "1", "--config", config, "--engine-queue-tokens-max", "1000", model_path=self.model) as daemon:
            self.reloaded(daemon, "options read again")
            write("engine.queue_max = 100\nengine.queue_tokens_max = 5\nengine.running_max = 7\nserver.keepalive_timeout_ms = 100\n")
            idle = daemon.connect()
            idle.request("GET", "/livez")
            idle.getresponse().read()
            self.reloaded(daemon, "engine.queue_max: 200 is 100 now", "server.log_level: debug is info now",
                          "server.keepalive_timeout_ms: 75000 is 100 now", 'engine.running_max: stays "64"; "7" needs a restart')
            self.assertNotIn("queue_tokens_max:", daemon.log())  # a flag beats the file
            self.assertEqual(idle.sock.recv(1), b"")  # closed long before 75 s
            idle.close()
            write("engine.queue_max = none\n")
            self.reloaded(daemon, "all options stay as they are", "engine.queue_max")
            write("engine.queue_max = 65536\n")
            self.reloaded(daemon, "all options stay as they are", "the queues made at the start hold")
            daemon.complete("hello w", max_tokens=2)


if __name__ == "__main__":
    run_cases()
