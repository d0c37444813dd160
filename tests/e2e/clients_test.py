#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Clients that people use: curl, and the official OpenAI client for Python, unmodified."""
import json
import os
import subprocess
import sys
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "support"))
from daemon import Daemon, required, run_cases, seconds  # noqa: E402


def curl(*arguments):
    run = subprocess.run(["curl", "--silent", "--show-error", "--max-time", str(seconds(60)), *arguments],
                         capture_output=True, text=True, check=True)
    return run.stdout


class Clients(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.daemon = Daemon()
        cls.name = json.loads(cls.daemon.get("/v1/models"))["data"][0]["id"]

    @classmethod
    def tearDownClass(cls):
        cls.daemon.stop()

    def body(self, **fields):
        return json.dumps({"model": self.name, "prompt": "Once upon a time", "max_tokens": 8, "temperature": 0, **fields})

    def post(self, body, *arguments):
        return curl("-H", "Content-Type: application/json", "-d", body, *arguments, self.daemon.url + "/v1/completions")

    def test_1_curl_asks(self):
        found = json.loads(self.post(self.body()))
        self.assertEqual(found["object"], "text_completion")
        self.assertTrue(found["choices"][0]["text"])
        self.assertEqual(found["usage"]["completion_tokens"], 8)

    def test_2_curl_streams(self):
        whole = json.loads(self.post(self.body()))["choices"][0]["text"]
        lines = [line for line in self.post(self.body(stream=True), "--no-buffer").split("\n") if line]
        self.assertTrue(all(line.startswith("data: ") for line in lines), lines)
        self.assertEqual(lines[-1], "data: [DONE]")
        events = [json.loads(line[6:]) for line in lines[:-1]]
        self.assertEqual(whole, "".join(e["choices"][0]["text"] for e in events))
        self.assertEqual(events[-1]["choices"][0]["finish_reason"], "length")

    def test_3_curl_sends_a_large_body_with_expect(self):
        body = self.body(prompt="word " * 1500, max_tokens=1)
        found = json.loads(self.post(body, "-H", "Expect: 100-continue"))
        self.assertGreater(found["usage"]["prompt_tokens"], 1400)

    def test_4_curl_is_told_what_is_wrong(self):
        found = json.loads(self.post(self.body(temperature="hot")))
        self.assertEqual(found["error"]["param"], "temperature")
        code = self.post(self.body(max_tokens=-1), "-o", os.devnull, "-w", "%{http_code}")
        self.assertEqual(code, "400")

    def test_4_a_refusal_names_what_was_found(self):
        too_long = "Content-Length: 9000000"
        for path, body, header, code, words in (
                ("/tokenize", '{"prompt": 1}', "", "invalid_request", "prompt: 1 is not a string"),
                ("/tokenize", '{"prompt": "a\\u0000"}', "", "invalid_request", "no text here may hold a NUL"),
                ("/tokenize", "{}", too_long, "payload_too_large", "9000000 bytes or more; at most 8388608"),
                ("/tokenize", "{}", "Content-Type: text/plain", "unsupported_media_type", '"text/plain"; application/json'),
                ("/v2/nothing", "{}", "", "not_found", "/v2/nothing")):
            link = self.daemon.connect()
            headers = {"Content-Type": "application/json", **dict([header.split(": ")] if header else [])}
            link.request("POST", path, body, headers)
            error = json.loads(link.getresponse().read())["error"]
            link.close()
            self.assertEqual(error["code"], code)
            self.assertIn(words, error["message"])

    def test_5_the_openai_client(self):
        run = subprocess.run([required("FOLDKV_TEST_CLIENT_PYTHON"), os.path.join(HERE, "openai_client.py"),
                              self.daemon.url + "/v1"], capture_output=True, text=True, timeout=seconds(120))
        self.assertEqual((run.returncode, run.stdout), (0, "ok\n"), run.stderr)


if __name__ == "__main__":
    run_cases()
