#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The admin API of a running daemon: who reaches it, what each route refuses, what a repeated and a dry call do, and that nothing of it
is at the inference port. admin_test.py MAKE_MODEL"""
import hashlib
import http.client
import json
import os
import re
import socket
import stat
import subprocess
import sys
import tempfile
import threading
import time
import unittest
import uuid
from concurrent.futures import ThreadPoolExecutor

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "support"))
from daemon import Daemon, required, run_cases, seconds, wait_until  # noqa: E402

MAKE_MODEL = os.path.abspath(sys.argv.pop(1))
ROW = re.compile(r'^ADMIN\((\w+), "(\w+)", "([^"]+)", (\w+), (\w+),', re.M)
with open(os.path.join(HERE, "..", "..", "sched", "release", "admin_call.def"), encoding="utf-8") as table:
    ROUTES = ROW.findall(table.read())
KEYS = {"view": "the-key-of-the-viewer", "operate": "the-key-of-the-operator", "approve": "the-key-of-the-approver"}


class UnixLink(http.client.HTTPConnection):
    """HTTP over a socket in the file system."""

    def __init__(self, path):
        super().__init__("admin", timeout=seconds(60))
        self.path = path

    def connect(self):
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(self.timeout)
        self.sock.connect(self.path)


class Answer:
    def __init__(self, answer):
        self.status, self.text = answer.status, answer.read().decode()
        self.headers = {name.lower(): value for name, value in answer.getheaders()}

    def json(self):
        return json.loads(self.text)

    def code(self):
        return self.json()["error"]["code"]

    def epoch(self):
        return int(self.headers["etag"].strip('"'))


class Admin:
    """Asks the admin listener at a Unix socket's path or a TCP port."""

    def __init__(self, place, key=None):
        self.place, self.key = place, key

    def send(self, method, path, body=None, **headers):
        link = UnixLink(self.place) if isinstance(self.place, str) else http.client.HTTPConnection("127.0.0.1", self.place, timeout=60)
        headers = {name.replace("_", "-"): value for name, value in headers.items()}
        if self.key:
            headers["Authorization"] = f"Bearer {self.key}"
        if body is not None:
            headers["Content-Type"] = "application/json"
        link.request(method, path, body if body is None or isinstance(body, str) else json.dumps(body), headers)
        answer = Answer(link.getresponse())
        link.close()
        return answer

    def get(self, path):
        return self.send("GET", "/admin/v1" + path)

    def epoch(self):
        return self.get("/rollouts").epoch()

    def change(self, path, body=None, key=None, match=None, method="POST"):
        return self.send(method, "/admin/v1" + path, {} if body is None else body, Idempotency_Key=key or str(uuid.uuid4()),
                         If_Match=match or f'"{self.epoch()}"')


def path_of(pattern, subject="nobody"):
    return pattern.replace("{id}", subject)


class AdminApi(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory(prefix="foldkv-admin-")
        cls.model = cls.file("small.gguf")
        subprocess.run([MAKE_MODEL, cls.model], check=True)
        cls.state = cls.file("state")
        cls.daemon = Daemon("--state", cls.state, "--cache-bytes", "8MiB", model_path=cls.model)
        cls.socket = os.path.join(cls.state, "admin.sock")
        cls.admin = Admin(cls.socket)

    @classmethod
    def tearDownClass(cls):
        cls.daemon.stop()
        assert not os.path.exists(cls.socket), "the socket outlived its daemon"
        cls.folder.cleanup()

    @classmethod
    def file(cls, name):
        return os.path.join(cls.folder.name, name)

    def entries(self):
        return [json.loads(line) for line in self.admin.get("/audit?limit=1000").text.splitlines()]

    def test_the_socket_is_its_owners_alone(self):
        found = os.stat(self.socket)
        self.assertTrue(stat.S_ISSOCK(found.st_mode))
        self.assertEqual(stat.S_IMODE(found.st_mode), 0o600)
        self.assertEqual(found.st_uid, os.getuid())

    def test_nothing_of_it_is_at_the_inference_port(self):
        for _, method, pattern, _, _ in ROUTES:
            answer = Admin(self.daemon.port).send(method, path_of(pattern), {} if method != "GET" else None)
            self.assertEqual((answer.status, answer.code()), (404, "not_found"), pattern)

    def test_nothing_of_inference_is_here(self):
        for path in ("/v1/models", "/metrics", "/livez", "/"):
            self.assertEqual(self.admin.send("GET", path).status, 404, path)

    def test_every_reading_route_answers(self):
        for name, method, pattern, _, epoch in ROUTES:
            if epoch != "NONE":
                continue
            answer = self.admin.send(method, path_of(pattern))
            self.assertEqual(answer.status, 404 if "{id}" in pattern else 200, name)
            self.assertGreaterEqual(answer.epoch(), 0, name)
            self.assertEqual(answer.headers["cache-control"], "no-store")
            if answer.status == 404:
                self.assertEqual(set(answer.json()["error"]) - {"detail"}, {"message", "type", "param", "code"})
            head = self.admin.send("HEAD", path_of(pattern))
            self.assertEqual((head.status, head.text), (answer.status, ""))

    def test_every_changing_route_refuses(self):
        before = self.entries()
        for name, method, pattern, _, epoch in ROUTES:
            if epoch == "NONE":
                continue
            path = path_of(pattern)
            cases = [
                (400, "invalid_request", {}, {"If_Match": '"0"'}),
                (428, "precondition_required", {}, {"Idempotency_Key": "k"}),
                (412, "epoch_mismatch", {}, {"Idempotency_Key": str(uuid.uuid4()), "If_Match": '"99999"'}),
                (400, "invalid_request", {}, {"Idempotency_Key": "k", "If_Match": "99999"}),
                (400, "invalid_request", "[]", {"Idempotency_Key": "k", "If_Match": '"0"'}),
                (400, "invalid_request", '{"a":1,"a":1}', {"Idempotency_Key": "k", "If_Match": '"0"'}),
            ]
            if epoch == "MATCH":
                cases.append((400, "invalid_request", {}, {"Idempotency_Key": "k", "If_Match": "*"}))
            for status, code, body, headers in cases:
                answer = self.admin.send(method, path, body, **headers)
                self.assertEqual((answer.status, answer.code()), (status, code), f"{name} {headers} {body}: {answer.text}")
                if status == 412:
                    self.assertGreaterEqual(answer.epoch(), 0)
            answer = self.admin.send(method, path + "?dry_run=yes", {}, Idempotency_Key="k", If_Match='"0"')
            self.assertEqual((answer.status, answer.json()["error"]["param"]), (400, "dry_run"), name)
            answer = self.admin.send(method, path, {"nonsense": 1}, Idempotency_Key=str(uuid.uuid4()),
                                     If_Match=f'"{self.admin.epoch()}"')
            self.assertIn(answer.status, (400, 404), f"{name}: {answer.text}")
        self.assertEqual(self.entries(), before, "a refused call is in the audit")

    def test_a_repeated_call_does_nothing(self):
        key, match = str(uuid.uuid4()), f'"{self.admin.epoch()}"'
        first = self.admin.change("/freeze", {"frozen": True}, key, match, "PUT")
        self.assertEqual(first.status, 200, first.text)
        self.assertNotIn("idempotent-replayed", first.headers)
        entries = self.entries()
        again = self.admin.change("/freeze", {"frozen": True}, key, match, "PUT")
        self.assertEqual((again.status, again.headers["idempotent-replayed"]), (200, "true"))
        other = self.admin.change("/freeze", {"frozen": False}, key, match, "PUT")
        self.assertEqual((other.status, other.code()), (422, "key_reused"))
        self.assertEqual(self.entries(), entries)
        refused = self.admin.change("/generations", {"path": self.model})
        self.assertEqual((refused.status, refused.code()), (409, "frozen"), refused.text)
        thawed = self.admin.change("/freeze", {"frozen": False}, method="PUT")
        self.assertEqual(thawed.status, 200, thawed.text)

    def test_a_dry_run_keeps_nothing(self):
        before, epoch = self.entries(), self.admin.epoch()
        for path, method, body in (("/freeze", "PUT", {"frozen": True}), ("/cache:purge", "POST", {}), ("/drain", "POST", {})):
            answer = self.admin.change(path + "?dry_run=all", body, method=method)
            self.assertEqual(answer.status, 200, answer.text)
        self.assertEqual((self.entries(), self.admin.epoch()), (before, epoch))
        self.assertIsNone(self.daemon.process.poll())

    def test_the_audit_names_who_and_goes_on_by_pages(self):
        for _ in range(3):
            self.assertEqual(self.admin.change("/cache:purge").status, 200)
        whole, pages, path = self.entries(), [], "/audit?limit=2"
        while path:
            answer = self.admin.get(path)
            self.assertEqual(answer.headers["content-type"], "application/jsonl")
            lines = answer.text.splitlines()
            self.assertLessEqual(len(lines), 2)
            pages += map(json.loads, lines)
            link = re.fullmatch(r'</admin/v1(/audit\?after=\d+&limit=2)>; rel="next"', answer.headers.get("link", ""))
            path = link and link[1]
        self.assertEqual(pages, whole)
        self.assertIn(f"uid:{os.getuid()}", json.dumps(whole[-1]))
        self.assertGreaterEqual(len(whole), 4)

    def test_a_call_outlives_its_client(self):
        other = self.file("other.gguf")
        subprocess.run([MAKE_MODEL, other, "--seed", "7", "--name", "left alone"], check=True)
        body, key = json.dumps({"path": other, "name": "left-alone"}), str(uuid.uuid4())
        headers = {"Idempotency-Key": key, "If-Match": f'"{self.admin.epoch()}"', "Content-Type": "application/json"}
        link = UnixLink(self.socket)
        link.request("POST", "/admin/v1/generations", body, headers)
        link.close()
        answers = []

        def is_answered():
            answers.append(self.admin.send("POST", "/admin/v1/generations", body, **headers))
            return answers[-1].status != 409 or answers[-1].code() != "key_in_flight"
        self.assertTrue(wait_until(is_answered))
        self.assertEqual((answers[-1].status, answers[-1].headers.get("idempotent-replayed")), (201, "true"), answers[-1].text)
        self.assertEqual(self.admin.get("/generations/left-alone").status, 200)

    def test_streams_are_the_same_beside_calls(self):
        asked = {"prompt": "a b c", "max_tokens": 64, "temperature": 0, "logprobs": 1, "ignore_eos": True}
        alone = self.daemon.post("/v1/completions", asked)["choices"]
        is_over = threading.Event()

        def ask_on():
            n = 0
            while not is_over.is_set():
                self.admin.get("/audit")
                self.admin.change("/cache:purge?dry_run=all")
                n += 1
            return n
        with ThreadPoolExecutor(10) as pool:
            asking = [pool.submit(ask_on) for _ in range(2)]
            streams = [pool.submit(self.daemon.post, "/v1/completions", asked) for _ in range(6)]
            for stream in streams:
                self.assertEqual(stream.result()["choices"], alone)
            is_over.set()
            self.assertTrue(all(n.result() for n in asking))

    def test_another_daemon_keeps_away(self):
        command = [required("FOLDKV_TEST_BINARY"), "serve", self.model, "--listen", "127.0.0.1:0"]
        for flags, word in ((("--state", self.state), "state"), (("--admin-listen", f"unix:{self.socket}"), "another process listens")):
            result = subprocess.run([*command, *flags], capture_output=True, text=True, timeout=seconds(60), check=False)
            self.assertEqual(result.returncode, 1, result.stderr)
            self.assertEqual(result.stderr.count("\n"), 1, result.stderr)
            self.assertIn(word, result.stderr)
        self.assertEqual(self.admin.get("/generations").status, 200)


class Places(unittest.TestCase):
    """Daemons of their own."""

    def setUp(self):
        self.folder = tempfile.TemporaryDirectory(prefix="foldkv-admin-")
        self.model = self.file("small.gguf")
        subprocess.run([MAKE_MODEL, self.model], check=True)

    def tearDown(self):
        self.folder.cleanup()

    def file(self, name):
        return os.path.join(self.folder.name, name)

    def start(self, *flags):
        return Daemon("--cache-bytes", "8MiB", *flags, model_path=self.model)

    def test_a_killed_daemons_socket_is_taken_over(self):
        state = self.file("state")
        daemon = self.start("--state", state)
        daemon.kill()
        self.assertTrue(os.path.exists(os.path.join(state, "admin.sock")))
        with self.start("--state", state):
            self.assertEqual(Admin(os.path.join(state, "admin.sock")).get("/generations").status, 200)

    def test_without_state_it_is_there_if_asked_for(self):
        with self.start() as daemon:
            self.assertNotIn("admin", daemon.log().replace("--admin", ""))
        path = self.file("a.sock")
        with self.start("--admin-listen", f"unix:{path}"):
            self.assertEqual(Admin(path).get("/generations").status, 200)

    def test_a_drain_ends_it_in_good_order(self):
        path = self.file("a.sock")
        daemon = self.start("--admin-listen", f"unix:{path}")
        self.assertEqual(Admin(path).change("/drain").status, 200)
        daemon.process.wait(seconds(30))
        daemon.release()
        self.assertEqual(daemon.process.returncode, 0)
        self.assertFalse(os.path.exists(path))

    def test_an_idle_client_holds_nobody_up(self):
        path = self.file("a.sock")
        daemon = self.start("--admin-listen", f"unix:{path}")
        idle = UnixLink(path)
        idle.request("GET", "/admin/v1/rollouts")
        self.assertEqual(idle.getresponse().read()[:1], b"{")
        begun = time.monotonic()
        daemon.stop()
        self.assertLess(time.monotonic() - begun, seconds(10))
        idle.close()

    def tcp_port(self, daemon):
        found = wait_until(lambda: re.search(r"admin[^\n]*http://127\.0\.0\.1:(\d+)\n", daemon.log()))
        return int(found[1])

    def test_keys_and_roles_over_tcp(self):
        keys = self.file("keys")
        with open(keys, "w", encoding="utf-8") as f:
            for role, key in KEYS.items():
                f.write(f"sha256:{hashlib.sha256(key.encode()).hexdigest()} {role} {role}-person\n")
        os.chmod(keys, 0o600)
        ranks = list(KEYS)
        with self.start("--admin-listen", "127.0.0.1:0", "--admin-keys", keys) as daemon:
            port = self.tcp_port(daemon)
            for key in (None, "wrong", KEYS["view"] + "x"):
                answer = Admin(port, key).get("/generations")
                self.assertEqual((answer.status, answer.code(), answer.headers["www-authenticate"]), (401, "invalid_api_key", "Bearer"))
            for _, method, pattern, role, epoch in ROUTES:
                for holder in ranks:
                    # With an epoch that is not there: what the role lets through is refused behind it.
                    headers = {} if epoch == "NONE" else {"Idempotency_Key": str(uuid.uuid4()), "If_Match": '"99999"'}
                    answer = Admin(port, KEYS[holder]).send(method, path_of(pattern), None if epoch == "NONE" else {}, **headers)
                    may = ranks.index(holder) >= ranks.index(role.lower())
                    self.assertEqual(answer.status != 403, may, f"{pattern} as {holder}: {answer.text}")
            self.assertEqual(Admin(port, KEYS["operate"]).change("/cache:purge").status, 200)
            self.assertIn("operate-person", Admin(port, KEYS["view"]).get("/audit").text.splitlines()[-1])
            self.assertNotIn(KEYS["operate"], daemon.log())

    def test_a_bad_place_is_one_line(self):
        open_keys = self.file("open")
        with open(open_keys, "w", encoding="utf-8") as f:
            f.write("a-key-that-all-can-read view ada\n")
        os.chmod(open_keys, 0o644)
        command = [required("FOLDKV_TEST_BINARY"), "serve", self.model, "--listen", "127.0.0.1:0"]
        for flags, word in ((("--admin-listen", "127.0.0.1:0"), "admin.keys"),
                            (("--admin-listen", "127.0.0.1:0", "--admin-keys", open_keys), "others may read it"),
                            (("--admin-listen", "127.0.0.1:0", "--admin-keys", self.file("none")), "No such file"),
                            (("--admin-listen", "unix:" + "x" * 120), "107"),
                            (("--admin-listen", "unix:" + self.file("none/a.sock")), "No such file"),
                            (("--admin-listen", "somewhere"), "HOST:PORT")):
            result = subprocess.run([*command, *flags], capture_output=True, text=True, timeout=seconds(60), check=False)
            self.assertEqual((result.returncode, result.stderr.count("\n")), (1, 1), result.stderr)
            self.assertIn(word, result.stderr)


if __name__ == "__main__":
    run_cases()
