#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The commands that ask a daemon, against an admin API that answers as the test wishes: what they send, how they take every kind of
answer, and that they exit 0 only if it happened."""
import http.server
import json
import os
import pty
import re
import socket
import socketserver
import subprocess
import sys
import tempfile
import threading
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
SOURCE = os.path.join(HERE, "..", "..")
sys.path.insert(0, os.path.join(HERE, "..", "support"))
from daemon import required, run_cases, seconds  # noqa: E402

HASH = "ab" * 32


def status(state="step", verdict="pass", **fields):
    arm = {"requests": 200, "errors": 1, "good": 190, "ttft_p50_ns": 1500000, "ttft_p99_ns": 2500000, "tpot_p50_ns": None, "tpot_p99_ns": None}
    return {"id": "0001", "candidate": HASH, "baseline": "cd" * 32, "weight_bp": 150, "note": "", "decisions": [], "started_us": 1,
            "now": {"state": state, "step": 0, "has_served": True, "reason": "none", "gate": "tpot_p99", "started_ms": 1},
            "plan": {"steps": [{}, {}]}, "plan_sha256": HASH,
            "arms": {"canary": arm, "control": arm, "stable": {"requests": 9000, "errors": 2}},
            "gates": [{"gate": "tpot_p99", "verdict": verdict, "figures": "p99 2 ms\x1b[2J"}], **fields}


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *arguments):
        pass

    def address_string(self):
        return "peer"

    def answer(self):
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        server = self.server
        server.heard.append((self.command, self.path, dict(self.headers), json.loads(body) if body else None))
        if server.hang_up > 0 and self.command != "GET":
            server.hang_up -= 1
            self.close_connection = True
            return
        found = server.answers.get((self.command, self.path.split("?")[0]), (404, {"error": {
            "message": "no such path", "type": "t", "param": None, "code": "not_found"}}))
        if isinstance(found, list):
            found = found.pop(0) if len(found) > 1 else found[0]
        code, answer = found
        text = answer.encode() if isinstance(answer, str) else json.dumps(answer).encode()
        self.send_response(code)
        if server.epoch is not None:
            self.send_header("ETag", f'"{server.epoch}"')
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)

    do_GET = do_POST = do_PUT = answer


class UnixServer(socketserver.ThreadingMixIn, http.server.HTTPServer):
    address_family = socket.AF_UNIX
    daemon_threads = True

    def server_bind(self):
        self.socket.bind(self.server_address)

    def get_request(self):
        link, _ = self.socket.accept()
        return link, ("peer", 0)


class Asking(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.state = self.folder.name
        self.file = os.path.join(self.state, "m.gguf")
        with open(self.file, "w") as f:
            f.write("x")
        self.server = UnixServer(os.path.join(self.state, "admin.sock"), Handler)
        self.server.heard, self.server.answers, self.server.epoch, self.server.hang_up = [], {}, 7, 0
        self.server.answers[("GET", "/admin/v1/generations")] = (200, {"generations": [
            {"id": HASH, "name": "one", "state": "stable", "receipts": {"plan": HASH}}, {"id": "cd" * 32, "name": None, "state": "ready"}]})
        self.server.answers[("GET", "/admin/v1/rollouts")] = (200, {"rollouts": [{"id": "0000"}, {"id": "0001"}]})
        self.server.answers[("GET", "/admin/v1/rollouts/0001")] = (200, status())
        threading.Thread(target=self.server.serve_forever, args=(0.02,), daemon=True).start()

    def tearDown(self):
        self.server.shutdown()
        self.server.server_close()
        self.folder.cleanup()

    def run_it(self, *arguments, place=True):
        where = ["--state", self.state] if place else []
        return subprocess.run([required("FOLDKV_TEST_BINARY"), *arguments, *where], capture_output=True, text=True, timeout=seconds(30))

    def done(self, *arguments):
        run = self.run_it(*arguments)
        self.assertEqual((run.returncode, run.stderr), (0, ""), run.stdout)
        return run.stdout

    def refused(self, words, *arguments, code=1, place=True):
        run = self.run_it(*arguments, place=place)
        self.assertEqual(run.returncode, code, run.stderr)
        self.assertIn(words, run.stderr)
        self.assertNotIn("\x1b", run.stderr)
        return run

    def test_1_publish(self):
        self.server.answers[("POST", "/admin/v1/generations")] = (201, {"id": HASH, "state": "ready"})
        self.assertIn(f"id     {HASH}", self.done("publish", self.file, "--name", "two", "--cache-type", "f32"))
        (get, *_), (method, path, headers, body) = self.server.heard
        self.assertEqual((get, method, path), ("GET", "POST", "/admin/v1/generations"))
        self.assertEqual(body, {"path": os.path.realpath(self.file), "name": "two", "cache_type": "f32"})
        self.assertEqual(headers["If-Match"], '"7"')
        self.assertRegex(headers["Idempotency-Key"], r"^[0-9a-f]{32}$")
        self.assertEqual(headers["Content-Type"], "application/json")
        self.assertEqual(json.loads(self.done("publish", self.file, "--json")), {"id": HASH, "state": "ready"})
        self.assertNotEqual(self.server.heard[-1][2]["Idempotency-Key"], headers["Idempotency-Key"])
        self.done("publish", self.file, "--epoch", "5", "--dry-run")
        self.assertEqual((self.server.heard[-1][1], self.server.heard[-1][2]["If-Match"]), ("/admin/v1/generations?dry_run=all", '"5"'))

    def test_2_refusals(self):
        path = ("POST", "/admin/v1/generations")
        self.server.answers[path] = (409, {"error": {"message": "two hashes", "type": "t", "param": "x", "code": "receipts_disagree",
                                                     "detail": {"stable": "aa", "candidate": "bb"}}})
        run = self.refused("two hashes (receipts_disagree)", "publish", self.file)
        self.assertRegex(run.stderr, r"candidate\s+bb")
        self.assertEqual(json.loads(self.run_it("publish", self.file, "--json").stdout)["error"]["code"], "receipts_disagree")
        self.server.answers[path] = (500, "<html>")
        self.refused("HTTP status 500", "publish", self.file)
        self.server.answers[path] = (201, "no json")
        self.refused("no JSON", "publish", self.file)
        self.server.epoch = None
        self.refused("did not name the release epoch", "publish", self.file)
        self.refused("the model file /nowhere.gguf cannot be found: No such file", "publish", "/nowhere.gguf")
        self.refused("--eval /nowhere.jsonl cannot be found", "publish", self.file, "--eval", "/nowhere.jsonl")
        self.refused("usage", "publish", code=2)
        self.refused("--epoch", "publish", self.file, "--epoch", "x", code=2)

    def test_3_a_broken_connection_is_asked_once_more_with_the_same_key(self):
        self.server.answers[("POST", "/admin/v1/generations")] = (200, {})
        self.server.hang_up = 1
        self.done("publish", self.file)
        keys = [headers["Idempotency-Key"] for method, _, headers, _ in self.server.heard if method == "POST"]
        self.assertEqual((len(keys), len(set(keys))), (2, 1))
        self.server.hang_up = 9
        self.server.heard.clear()
        self.refused("nobody answers", "publish", self.file)
        keys = [headers["Idempotency-Key"] for method, _, headers, _ in self.server.heard if method == "POST"]
        self.assertEqual(len(set(keys)), 1)
        self.assertIn(len(keys), (2, 3))  # a connection that was used before may be tried anew by itself

    def test_4_places_and_keys(self):
        self.refused("which daemon?", "generations", place=False, code=2)
        self.refused("give unix:PATH", "generations", "--admin", "ftp://x", code=2)
        self.refused("107", "generations", "--admin", "unix:/" + "x" * 200, code=2)
        self.refused("No such file", "generations", "--admin", f"unix:{self.state}/none.sock", place=False)
        key = os.path.join(self.state, "key")
        self.refused("cannot be read", "generations", "--admin-key-file", key)
        for bad in ("", "\n", "a b\n", "x" * 2000):
            with open(key, "w") as f:
                f.write(bad)
            self.refused("first line must be the key", "generations", "--admin-key-file", key, code=2)
        with open(key, "w") as f:
            f.write("secret\nmore\n")
        with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as tcp:
            for name in ("heard", "answers", "epoch", "hang_up"):
                setattr(tcp, name, getattr(self.server, name))
            threading.Thread(target=tcp.serve_forever, args=(0.02,), daemon=True).start()
            url = f"http://127.0.0.1:{tcp.server_address[1]}/"
            self.assertIn("stable", self.done("generations", "--admin", url, "--admin-key-file", key))
            tcp.shutdown()
        self.assertEqual(self.server.heard[-1][2]["Authorization"], "Bearer secret")
        self.assertNotIn("Idempotency-Key", self.server.heard[-1][2])

    def test_5_generations_forget_rollback(self):
        text = self.done("generations")
        self.assertRegex(text, rf"(?m)^id +name +state +arm +pool +weights +memory\n{HASH[:16]} +one +stable ")
        self.assertLess(max(map(len, text.splitlines())), 100)
        self.assertEqual(len(json.loads(self.done("generations", "--json"))["generations"]), 2)
        self.server.answers[("GET", "/admin/v1/generations/a%20b%2Fc")] = (200, {"id": "x"})
        self.done("generations", "a b/c")
        self.server.answers[("POST", "/admin/v1/generations/one:forget")] = (200, {})
        self.done("forget", "one")
        self.server.answers[("POST", "/admin/v1/rollback")] = (200, status("rolled_back"))
        self.assertIn("rolled_back", self.done("rollback", "--reason", "too slow"))
        self.assertEqual((self.server.heard[-1][2]["If-Match"], self.server.heard[-1][3]), ("*", {"to": "previous", "reason": "too slow"}))

    def test_5b_upkeep(self):
        for path in (("POST", "/admin/v1/drain"), ("PUT", "/admin/v1/freeze"), ("POST", f"/admin/v1/namespaces/{HASH}:fence"),
                     ("POST", "/admin/v1/cache:purge")):
            self.server.answers[path] = (200, {})
        for words, body in ((["drain"], {}), (["freeze", "on"], {"frozen": True}), (["freeze", "off"], {"frozen": False}),
                            (["fence", HASH], {}), (["purge"], {}), (["purge", "one"], {"generation": "one"})):
            with self.subTest(words):
                self.done(*words)
                self.assertEqual(self.server.heard[-1][3], body)
        heard = len(self.server.heard)
        for words in (["drain", "x"], ["freeze"], ["freeze", "maybe"], ["fence"], ["purge", "a", "b"]):
            with self.subTest(words):
                self.refused("usage", *words, code=2)
        self.assertEqual(len(self.server.heard), heard)

    def test_5c_cancel(self):
        path = "/admin/v1/generations/one"
        running, over = ({"id": HASH, "is_running": is_running, "state": "ready", "evaluation": None} for is_running in (True, False))
        self.refused("not_found", "evaluate", "one", "--cancel")
        self.server.answers[("POST", path + ":cancel")] = (202, {})
        self.server.answers[("GET", path + "/evaluation")] = [(200, running), (200, over)]
        self.assertIn("cancelled", self.done("evaluate", "one", "--cancel"))
        self.server.answers[("GET", path + "/evaluation")] = [(200, {**over, "state": "warmed", "evaluation": {"passes": True}})]
        self.refused("too late", "evaluate", "one", "--cancel")

    def test_6_rollout(self):
        self.server.answers[("POST", "/admin/v1/rollouts")] = (201, status("awaiting_approval"))
        self.assertIn("awaiting_approval", self.done("rollout", "start", "one"))
        body = self.server.heard[-1][3]
        self.assertEqual((body["candidate"], [step["weight_bp"] for step in body["plan"]["steps"]]), ("one", [100, 500, 2500]))
        plan = os.path.join(self.state, "plan.json")
        with open(plan, "w") as f:
            json.dump({"steps": [{"weight_bp": 9999, "min_requests": 1, "max_seconds": 60}]}, f)
        heard = len(self.server.heard)
        self.refused("steps[0].weight_bp", "rollout", "start", "one", "--plan", plan)
        self.assertEqual(len(self.server.heard), heard)
        for verb, match in (("approve", '"7"'), ("pause", '"7"'), ("resume", '"7"'), ("promote", '"7"'), ("abort", "*")):
            self.server.answers[("POST", f"/admin/v1/rollouts/0001:{verb}")] = (200, status())
            self.done("rollout", verb)
            self.assertEqual(self.server.heard[-1][2]["If-Match"], match)
        self.done("rollout", "pause", "0001", "--reason", "lunch")
        self.assertEqual(self.server.heard[-1][3], {"reason": "lunch"})
        self.refused("belongs to pause and abort", "rollout", "approve", "--reason", "x", code=2)
        text = self.done("rollout", "status")
        for line in ("step 1 of 2, 1.50 % of requests", "canary         200         1    0.50 %   95.00 %      1.50 ms", "tpot_p99          pass"):
            self.assertIn(line, text)
        self.assertNotIn("\x1b", text)
        self.server.answers[("GET", "/admin/v1/rollouts")] = (200, {"rollouts": []})
        self.refused("there is no rollout", "rollout", "status")

    def test_6b_words_that_are_not_known_are_named(self):
        for words, *arguments in (("not 'begin'", "rollout", "begin"), ("rollout takes a word of its usage;", "rollout"),
                                  ("not 'more'", "rollout", "status", "0001", "more"), ("not 'more'", "rollout", "list", "more"),
                                  ("not 'maybe'", "freeze", "maybe"), ("freeze takes one word, on or off;", "freeze"),
                                  ("not 'now'", "drain", "now"), ("not 'two'", "forget", "one", "two"), ("not 'two'", "purge", "one", "two"),
                                  ("not 'two'", "generations", "one", "two"), ("not 'two'", "evaluate", "one", "two"),
                                  ("not 'two'", "publish", self.file, "two"), ("not 'two'", "rollback", "two"),
                                  ("not 'check'", "audit", "check"), ("not 'two'", "audit", "list", "two")):
            self.assertIn("; usage: foldkv " + arguments[0], self.refused(words, *arguments, code=2).stderr)
        for words, *arguments in (("not 'nothing'", "help", "nothing"), ("not 'two'", "serve", "one", "two"), ("not 'x'", "kernels", "x"),
                                  ("not 'two'", "inspect", "one", "two"), ("not 'y'", "bench", "y"), ("not 'z'", "evidence", "z")):
            self.refused(words, *arguments, code=2, place=False)
        self.server.answers[("GET", "/admin/v1/rollouts")] = (200, {"rollouts": []})
        self.refused("foldkv rollout start CANDIDATE begins one", "rollout", "status")

    def test_7_watch(self):
        path = ("GET", "/admin/v1/rollouts/0001")
        self.server.answers[path] = [(200, status(verdict="no_data")), (200, status()), (200, status()), (200, status("promoted"))]
        text = self.done("rollout", "status", "--watch")
        self.assertEqual(re.findall(r"^state +(\w+)", text, re.M), ["step", "step", "promoted"])
        self.server.answers[path] = [(200, status("rolled_back"))]
        self.assertEqual(self.run_it("rollout", "status", "--watch").returncode, 1)
        self.server.answers[path] = [(200, status()), (200, status("promoted"))]
        lead, follow = pty.openpty()
        run = subprocess.run([required("FOLDKV_TEST_BINARY"), "rollout", "status", "--watch", "--state", self.state], stdout=follow,
                             timeout=seconds(30))
        os.close(follow)
        seen = ""
        try:
            while part := os.read(lead, 1 << 16):
                seen += part.decode()
        except OSError:
            pass  # nobody has the other end any more
        os.close(lead)
        self.assertEqual((run.returncode, seen.count("\x1b[H\x1b[2J")), (0, 2))
        self.assertIn("\x1b[32mpass", seen)

    def test_8_evaluate(self):
        self.server.answers[("POST", "/admin/v1/generations/one:evaluate")] = (202, {})
        progress = {"stage": "matrix", "requests_done": 3, "requests_most": 9, "repetition": 1, "cell": {"context": 64, "active_requests": 2}}
        receipt = {"passes": True, "cells": [True, False], "gates": [{"gate": "traffic", "verdict": "pass", "figures": "f"}], "manifest_sha256": HASH}
        path = ("GET", "/admin/v1/generations/one/evaluation")
        self.server.answers[path] = [(200, {"id": HASH, "is_running": True, "state": "ready", "progress": progress}),
                                     (200, {"id": HASH, "is_running": False, "state": "warmed", "evaluation": receipt})]
        text = self.done("evaluate", "one")
        for line in ("traffic           pass", "1 of 2 passed", "passed: it may be rolled out"):
            self.assertIn(line, text)
        self.server.answers[path] = (200, {"id": HASH, "is_running": False, "state": "ready", "evaluation": {**receipt, "passes": False}})
        run = self.run_it("evaluate", "one", "--follow")
        self.assertEqual((run.returncode, run.stdout.splitlines()[-1]), (1, "not passed"))
        terms = os.path.join(self.state, "terms.json")
        with open(terms, "w") as f:
            f.write("[]")
        self.refused("a JSON object is needed", "evaluate", "one", "--terms", terms)
        with open(terms, "w") as f:
            f.write("{\n\"matrix\" 1}")
        self.refused(f"--terms {terms}: line 2: ", "evaluate", "one", "--terms", terms)
        self.refused("--terms /nowhere.json: ", "evaluate", "one", "--terms", "/nowhere.json")
        self.refused("--set /nowhere.jsonl cannot be found", "evaluate", "one", "--set", "/nowhere.jsonl")
        with open(terms, "w") as f:
            f.write('{"repetitions": 2}')
        self.run_it("evaluate", "one", "--terms", terms, "--set", self.file)
        asked = [body for method, _, _, body in self.server.heard if method == "POST"]
        self.assertEqual(asked[-1], {"repetitions": 2, "set": os.path.realpath(self.file)})

    def test_9_audit_pages(self):
        def page(*numbers):
            return "".join(json.dumps({"entry": {"seq": n}, "hash": HASH, "seq": n}) + "\n" for n in numbers)
        self.server.answers[("GET", "/admin/v1/audit")] = [(200, page(*range(1, 1001))), (200, page(1001, 1002)), (200, page())]
        text = self.done("audit", "list", "--admin", f"unix:{self.state}/admin.sock", "--limit", "5000")
        self.assertEqual([json.loads(line)["seq"] for line in text.splitlines()], list(range(1, 1003)))
        self.assertEqual([path for _, path, _, _ in self.server.heard],
                         ["/admin/v1/audit?after=0&limit=1000", "/admin/v1/audit?after=1000&limit=1000"])


if __name__ == "__main__":
    run_cases()
