# SPDX-License-Identifier: Apache-2.0
"""The real binary for tests in Python: started, asked over HTTP, stopped and judged. Standard library only.

The binary's path comes from FOLDKV_TEST_BINARY and the model's from FOLDKV_TEST_MODEL; a test fails if either is missing.
FOLDKV_TEST_SLOWNESS multiplies the time limits (emulators, sanitizers).
"""
import http.client
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
import unittest

SANITIZER = re.compile(r"AddressSanitizer|LeakSanitizer|ThreadSanitizer|UndefinedBehavior|runtime error:|assertion failed")


def required(variable):
    path = os.environ.get(variable, "")
    if not os.path.exists(path):
        raise AssertionError(f"{variable} names no file: '{path}'")
    return path


def model():
    return required("FOLDKV_TEST_MODEL")


def seconds(n):
    return n * max(1, int(os.environ.get("FOLDKV_TEST_SLOWNESS") or 1))


def is_long():
    """True if the full counts were asked for."""
    return bool(os.environ.get("FOLDKV_TEST_LONG"))


class Refused(Exception):
    """An answer other than 200: its HTTP status and its JSON body."""

    def __init__(self, status, body, headers):
        super().__init__(f"{status}: {body}")
        self.status, self.body, self.headers = status, body, headers


class Daemon:
    """A running server; also a context manager whose end stops it and fails on a bad exit code or a sanitizer's word."""

    def __init__(self, *flags, model_path=None, ready_s=120, under=()):
        """under is the command, if any, that runs the binary; model_path "": none is named."""
        self.stderr = tempfile.TemporaryFile(mode="w+")
        path = model() if model_path is None else model_path
        command = [*under, required("FOLDKV_TEST_BINARY"), "serve", *([path] if path else []), "--listen", "127.0.0.1:0", *flags]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=self.stderr, text=True)
        give_up = time.monotonic() + seconds(ready_s)
        line = self.process.stdout.readline()
        if not re.fullmatch(r"ready http://127\.0\.0\.1:\d+\n", line) or time.monotonic() > give_up:
            text = self.log()
            self.kill()
            raise AssertionError(f"the ready line was {line!r}; stderr:\n{text}")
        self.url = line.split()[1]
        self.port = int(self.url.rsplit(":", 1)[1])

    def __enter__(self):
        return self

    def __exit__(self, kind, value, trace):
        if kind:
            print("stderr of the daemon:\n" + self.log()[-4000:], file=sys.stderr)
            self.kill()
        else:
            self.stop()

    def kill(self):
        self.process.kill()
        self.release()

    def release(self):
        """After its end or kill: closes what is held of it, gives all it wrote to stderr."""
        self.process.wait(seconds(60))
        text = self.log()
        self.process.stdout.close()
        self.stderr.close()
        return text

    def log(self):
        self.stderr.seek(0)
        return self.stderr.read()

    def stop(self):
        """SIGTERM; requires exit code 0, nothing more on stdout and a clean stderr."""
        self.process.send_signal(signal.SIGTERM)
        rest = self.process.stdout.read()
        text = self.release()
        assert self.process.returncode == 0, f"exit code {self.process.returncode}; stderr:\n{text}"
        assert rest == "", f"stdout held more than the ready line: {rest!r}"
        assert not SANITIZER.search(text), text

    def connect(self):
        return http.client.HTTPConnection("127.0.0.1", self.port, timeout=seconds(120))

    def get(self, path):
        """Body of a 200 as text."""
        link = self.connect()
        link.request("GET", path)
        answer = link.getresponse()
        body = answer.read().decode()
        link.close()
        if answer.status != 200:
            raise Refused(answer.status, body, dict(answer.getheaders()))
        return body

    def post(self, path, body, link=None):
        """JSON of a 200; over link if one is given, which stays open."""
        own = link or self.connect()
        own.request("POST", path, json.dumps(body), {"Content-Type": "application/json"})
        answer = own.getresponse()
        text = answer.read()
        if link is None:
            own.close()
        found = json.loads(text)
        if answer.status != 200:
            raise Refused(answer.status, found, dict(answer.getheaders()))
        return found

    def complete(self, prompt, **fields):
        return self.post("/v1/completions", {"prompt": prompt, **fields})

    def stream(self, prompt, **fields):
        """The JSON of each event, up to [DONE], which must come and be last."""
        link = self.connect()
        link.request("POST", "/v1/completions", json.dumps({"prompt": prompt, "stream": True, **fields}),
                     {"Content-Type": "application/json"})
        answer = link.getresponse()
        if answer.status != 200:
            raise Refused(answer.status, json.loads(answer.read()), dict(answer.getheaders()))
        events = [line[6:] for line in answer.read().decode().split("\n") if line]
        link.close()
        assert events and events[-1] == "[DONE]", events[-1:]
        return [json.loads(event) for event in events[:-1]]

    def metrics(self):
        """Sample name (labels included) to value."""
        rows = [line.rsplit(" ", 1) for line in self.get("/metrics").splitlines() if line and line[0] != "#"]
        return {name: float(value) for name, value in rows}

    def resident_bytes(self):
        with open(f"/proc/{self.process.pid}/statm") as f:
            return int(f.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")

    def descriptors(self):
        return len(os.listdir(f"/proc/{self.process.pid}/fd"))


def wait_until(condition, limit_s=30):
    """Polls; the last value of condition() is returned, true or not."""
    give_up = time.monotonic() + seconds(limit_s)
    while not (value := condition()) and time.monotonic() < give_up:
        time.sleep(0.02)
    return value


def run_cases():
    """The main function of a test script: runs its cases and prints the closing line that tests/run counts."""
    program = unittest.main(module="__main__", exit=False, verbosity=2)
    result = program.result
    failed = len({str(test) for test, _ in result.failures + result.errors})
    for test, reason in result.skipped:
        print(f"skip: {test}: {reason}")
    print(f"{result.testsRun - failed - len(result.skipped)} passed, {failed} failed, {len(result.skipped)} skipped")
    sys.exit(0 if failed == 0 and result.testsRun else 1)
