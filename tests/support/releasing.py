# SPDX-License-Identifier: Apache-2.0
"""A daemon whose generations change: small checkpoints, the commands that ask it, its admin API over the Unix socket, and traffic."""
import http.client
import json
import os
import socket
import subprocess
import tempfile
import threading
import uuid

from daemon import Daemon, required, seconds, wait_until

# Small cells and wide limits: seconds instead of minutes, and some hundreds of requests instead of thousands.
LIMITS = {"tpot_p99": {"eps_ppm": 10**9}, "ttft_p99": {"eps_ppm": 10**9}, "goodput": {"eps_ppm": 500000},
          "error_rate": {"margin_ppm": 200000}, "numerical": {"samples_min": 1}}
TERMS = {"matrix": {"contexts": [256], "active_requests": [1, 16], "query_lengths": [1, 64]}, "thresholds": LIMITS,
         "repetitions_max": 300}  # a busy machine has tails: none that is equal ends undecided


def plan(*weights, requests=600, **fields):
    return {"steps": [{"weight_bp": weight, "min_requests": requests, "max_seconds": 600} for weight in weights], "cap_bp": 3000,
            "gates": LIMITS, **fields}


def make_model(program, folder, name, *flags):
    path = os.path.join(folder, name + ".gguf")
    subprocess.run([program, path, *flags], check=True)
    return path


def make_models(case, program, models):
    """On a test class: case.NAME is the path of a model made with these flags, for each NAME: flags, as long as the class runs."""
    case.models = tempfile.TemporaryDirectory()
    case.addClassCleanup(case.models.cleanup)
    for name, flags in models.items():
        setattr(case, name, make_model(program, case.models.name, name, *flags))


class UnixConnection(http.client.HTTPConnection):
    def __init__(self, path):
        super().__init__("localhost", timeout=seconds(120))
        self.path = path

    def connect(self):
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(self.timeout)
        self.sock.connect(self.path)


class Releasing(Daemon):
    def __init__(self, state, model_path, *flags, admin=None, under=()):
        """admin: a path of the admin API's socket elsewhere than in the state folder."""
        self.state, self.admin = state, admin or os.path.join(state, "admin.sock")
        self.reached_by = ["--admin", "unix:" + admin] if admin else ["--state", state]
        flags += ("--admin-listen", "unix:" + admin) if admin else ()
        super().__init__("--state", state, "--cache-bytes", "8MiB", "--release-control-bytes", "8MiB", *flags, model_path=model_path, under=under)

    def ask(self, method, path, body=None, match=None, key=None, **headers):
        """(status, JSON or text, headers) of a call of the admin API; a change carries a key and, if none is given, the epoch."""
        if method != "GET":
            match = match or self.ask("GET", "/admin/v1/generations")[2]["etag"]
            headers = {"Idempotency-Key": key or uuid.uuid4().hex, "If-Match": match, "Content-Type": "application/json", **headers}
        link = UnixConnection(self.admin)
        link.request(method, path, None if method == "GET" else json.dumps(body or {}), headers)
        answer = link.getresponse()
        text = answer.read().decode()
        link.close()
        found = {name.lower(): value for name, value in answer.getheaders()}
        return answer.status, json.loads(text) if found["content-type"].split(";")[0] == "application/json" else text, found

    def foldkv(self, *arguments, code=0, timeout_s=120):
        """stdout of a command, which must end with the code and, unless it failed, say nothing on stderr."""
        run = subprocess.run([required("FOLDKV_TEST_BINARY"), *arguments, *self.reached_by], capture_output=True, text=True,
                             timeout=seconds(timeout_s))
        assert run.returncode == code, f"{arguments}: exit {run.returncode}\n{run.stdout}\n{run.stderr}"
        assert code or not run.stderr, run.stderr
        return run.stdout if code == 0 else run.stdout + run.stderr

    def evaluate(self, name, code=0, timeout_s=120, **changes):
        terms = os.path.join(self.state, "terms.json")
        with open(terms, "w") as f:
            json.dump({**TERMS, **changes}, f)
        return self.foldkv("evaluate", name, "--terms", terms, code=code, timeout_s=timeout_s)

    def start(self, name, *weights, **fields):
        path = os.path.join(self.state, "plan.json")
        with open(path, "w") as f:
            json.dump(plan(*weights, **fields), f)
        return self.foldkv("rollout", "start", name, "--plan", path)

    def rollout(self):
        return json.loads(self.foldkv("rollout", "status", "--json"))

    def in_state(self, *states, limit_s=30):
        """The rollout's status once it is in one of the states."""
        found = wait_until(lambda: (r := self.rollout())["now"]["state"] in states and r, limit_s)
        assert found, f"not in {states}: {self.rollout()}"
        return found

    def choice(self, prompt="hello w", **fields):
        """(generation, choice) of a completion on a connection of its own."""
        link = self.connect()
        link.request("POST", "/v1/completions", json.dumps({"prompt": prompt, "max_tokens": 4, "temperature": 0, **fields}),
                     {"Content-Type": "application/json"})
        answer = link.getresponse()
        found = json.loads(answer.read())
        link.close()
        assert answer.status == 200, found
        return answer.getheader("x-foldkv-generation"), found["choices"][0]

    def answer(self, prompt="hello w", **fields):
        """(generation, text) of the same."""
        generation, choice = self.choice(prompt, **fields)
        return generation, choice["text"]

    def traffic(self, until, threads=6, limit_s=120, **fields):
        """Requests, each on its own connection, until until() is true; [(generation, text)] of all."""
        over, seen, failed = threading.Event(), [], []

        def run():
            try:
                while not over.is_set():
                    seen.append(self.answer(**fields))
            except Exception as e:  # told by the caller's thread
                failed.append(e)

        crowd = [threading.Thread(target=run) for _ in range(threads)]
        for one in crowd:
            one.start()
        met = wait_until(lambda: failed or until(), limit_s)
        over.set()
        for one in crowd:
            one.join()
        assert not failed, failed[0]
        assert met, "the condition was not met"
        return seen
