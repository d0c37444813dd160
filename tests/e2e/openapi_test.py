#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""docs/openapi.yaml is as the program is: its paths are the routes of both tables, and what a running daemon answers fits
the schemas, its error codes those of status.def. Runs in the environment of FOLDKV_TEST_CLIENT_PYTHON, which has PyYAML and jsonschema.
openapi_test.py MAKE_MODEL"""
import json
import os
import re
import subprocess
import sys
import tempfile
import time
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
SOURCE = os.path.join(HERE, "..", "..")
sys.path.insert(0, os.path.join(HERE, "..", "support"))
from daemon import Daemon, Refused, required, run_cases, wait_until  # noqa: E402
from releasing import TERMS, Releasing, make_model, plan  # noqa: E402

try:
    import jsonschema
    import yaml
except ImportError:
    if sys.executable == required("FOLDKV_TEST_CLIENT_PYTHON"):
        raise
    os.execv(required("FOLDKV_TEST_CLIENT_PYTHON"), [required("FOLDKV_TEST_CLIENT_PYTHON"), *sys.argv])

MAKE_MODEL = os.path.abspath(sys.argv.pop(1))


def source(path):
    with open(os.path.join(SOURCE, path), encoding="utf-8") as f:
        return f.read()


PAGE = yaml.safe_load(source("docs/openapi.yaml"))
# Clients should take codes that they do not know; the daemon answers with none but those of its table.
PAGE["components"]["schemas"]["ErrorCode"]["enum"] = re.findall(r'^STATUS\(\w+, \d+, \d, "(\w+)"', source("config/status.def"), re.M)


def operations(tag):
    """{(METHOD, path): operation} of the page."""
    return {(method.upper(), path): operation for path, item in PAGE["paths"].items()
            for method, operation in item.items() if tag in operation["tags"]}


def resolve(node):
    while "$ref" in node:
        target = PAGE
        for part in node["$ref"].removeprefix("#/").split("/"):
            target = target[part]
        node = target
    return node


def validator(schema):
    return jsonschema.Draft202012Validator({**schema, "components": PAGE["components"]})


def check(schema_name, value):
    validator({"$ref": f"#/components/schemas/{schema_name}"}).validate(value)


def response_schema(tag, method, path, status):
    responses = operations(tag)[method, path]["responses"]
    found = resolve(responses.get(str(status)) or responses["default"])
    return found["content"]["application/json"]["schema"]


class Page(unittest.TestCase):
    def test_1_every_schema_is_one(self):
        for name, schema in PAGE["components"]["schemas"].items():
            with self.subTest(name):
                jsonschema.Draft202012Validator.check_schema(schema)
        for (method, path), operation in {**operations("inference"), **operations("admin")}.items():
            with self.subTest(path, method=method):
                holes = set(re.findall(r"{(\w+)}", path))
                named = {resolve(p)["name"] for p in operation.get("parameters", []) if resolve(p)["in"] == "path"}
                self.assertEqual(holes, named)
                for response in operation["responses"].values():
                    for content in resolve(response).get("content", {}).values():
                        validator(content["schema"])

    def test_2_inference_paths_are_the_routes(self):
        rows = re.findall(r'^    {"(/[^"]*)", (true|false), \w+}', source("server/router.c"), re.M)
        routes = {("POST" if takes_json == "true" else "GET", path + "{id}" if path.endswith("/") else path)
                  for path, takes_json in rows}
        self.assertGreater(len(routes), 5)
        self.assertEqual(set(operations("inference")), routes)


    def test_3_admin_paths_are_the_calls(self):
        rows = re.findall(r'^ADMIN\(\w+, "(\w+)", "([^"]+)", (\w+), (\w+),', source("sched/release/admin_call.def"), re.M)
        found = operations("admin")
        self.assertGreater(len(rows), 10)
        self.assertEqual(set(found), {(method, path) for method, path, _, _ in rows})
        kinds = {"NONE": set(), "MATCH": {"IdempotencyKey", "Epoch", "DryRun"}, "ANY": {"IdempotencyKey", "EpochOrAny", "DryRun"}}
        for method, path, role, epoch in rows:
            with self.subTest(path, method=method):
                operation = found[method, path]
                named = {p["$ref"].rsplit("/", 1)[1] for p in operation.get("parameters", [])}
                self.assertEqual(operation["x-foldkv-role"], role.lower())
                self.assertEqual(named - {"Id", "After", "Limit"}, kinds[epoch])
                self.assertEqual("requestBody" in operation, epoch != "NONE")

    def test_4_states_and_gates_are_those_of_the_tables(self):
        schemas = PAGE["components"]["schemas"]
        self.assertEqual(schemas["RolloutState"]["enum"], re.findall(r"^STATE\(\w+, (\w+),", source("sched/judge/rollout.def"), re.M))
        self.assertEqual(schemas["GenerationState"]["enum"], re.findall(r'^STATE\(\w+, "(\w+)",', source("sched/release/generation.def"), re.M))
        self.assertEqual(schemas["Gate"]["properties"]["gate"]["enum"], re.findall(r"^GATE\(\w+, (\w+),", source("sched/judge/gate.def"), re.M))


class Answers(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        path = os.path.join(cls.folder.name, "small.gguf")
        subprocess.run([MAKE_MODEL, path, "--name", "small"], check=True)
        cls.daemon = Daemon("--cache-bytes", "16MiB", "--release-arm-header", "on", "--release-pin", "on", model_path=path)

    @classmethod
    def tearDownClass(cls):
        cls.daemon.stop()
        cls.folder.cleanup()

    def test_1_completions(self):
        for fields in ({}, {"logprobs": 2}, {"logprobs": 3, "echo": True, "max_tokens": 0}, {"prompt": [1, 2, 3]},
                       {"stop": ["a", "b"], "user": "u", "suffix": "", "n": 1, "stream": None}):
            with self.subTest(fields):
                body = {"prompt": "hello", "model": "small", "max_tokens": 4, **fields}
                check("CompletionRequest", body)
                check("Completion", self.daemon.post("/v1/completions", body))

    def test_1b_headers_and_pins(self):
        """Each header of ours is on the page, and fits; the first 8 digits of the generation's id are a model."""
        page = operations("inference")["POST", "/v1/completions"]["responses"]["200"]["headers"]
        model = "small"
        for _ in range(2):
            link = self.daemon.connect()
            link.request("POST", "/v1/completions", json.dumps({"prompt": "hello", "model": model, "max_tokens": 1}),
                         {"Content-Type": "application/json"})
            answer = link.getresponse()
            answer.read()
            link.close()
            self.assertEqual(answer.status, 200)
            ours = {name.lower(): value for name, value in answer.getheaders() if name.lower().startswith("x-")}
            self.assertEqual(set(ours), set(page))
            for name, value in ours.items():
                validator(resolve(page[name])["schema"]).validate(value)
            model = ours["x-foldkv-generation"][:8]

    def test_2_streams(self):
        for event in self.daemon.stream("hello", max_tokens=4, logprobs=1, stream_options={"include_usage": True}):
            check("CompletionChunk", event)

    def test_3_models_and_tokens(self):
        check("ModelList", json.loads(self.daemon.get("/v1/models")))
        check("Model", json.loads(self.daemon.get("/v1/models/small")))
        asked = {"prompt": "hello"}
        check("TokenizeRequest", asked)
        tokens = self.daemon.post("/tokenize", asked)
        check("Tokens", tokens)
        asked = {"tokens": tokens["tokens"]}
        check("DetokenizeRequest", asked)
        check("Text", self.daemon.post("/detokenize", asked))
        for probe in ("/livez", "/readyz?verbose", "/startupz", "/health", "/metrics"):
            self.assertTrue(self.daemon.get(probe))

    def test_4_refusals(self):
        """What the request's schema refuses the daemon refuses too, with an error that fits."""
        bad = [{}, {"prompt": 7}, {"prompt": "x", "max_tokens": -1}, {"prompt": "x", "temperature": 3}, {"prompt": "x", "top_p": 0},
               {"prompt": "x", "n": 2}, {"prompt": "x", "suffix": "y"}, {"prompt": "x", "unknown": 1}, {"prompt": "x", "logprobs": 21},
               {"prompt": "x", "stop": [""]}, {"prompt": "x", "response_format": {"type": "json_object"}}]
        request = validator({"$ref": "#/components/schemas/CompletionRequest"})
        for body in bad:
            with self.subTest(body):
                self.assertFalse(request.is_valid(body))
                with self.assertRaises(Refused) as caught:
                    self.daemon.post("/v1/completions", body)
                check("Error", caught.exception.body)
        for method, path in (("GET", "/v1/models/none"), ("GET", "/nowhere")):
            link = self.daemon.connect()
            link.request(method, path)
            answer = link.getresponse()
            self.assertEqual(answer.status, 404)
            check("Error", json.loads(answer.read()))
            link.close()


class AdminAnswers(unittest.TestCase):
    """Every call of the admin API, and what a running daemon answers."""
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        one, cls.two = (make_model(MAKE_MODEL, cls.folder.name, name, *flags) for name, flags in (("one", []), ("two", ["--nudge"])))
        cls.daemon = Releasing(os.path.join(cls.folder.name, "state"), one)
        cls.asked = set()

    @classmethod
    def tearDownClass(cls):
        cls.daemon.stop()
        cls.folder.cleanup()

    def ask(self, status, method, template, name="", body=None, query="", **terms):
        """The answer, which must have the status and fit the page, as must the request."""
        operation = operations("admin")[method, template]
        if body is not None:
            validator(resolve(operation["requestBody"])["content"]["application/json"]["schema"]).validate(body)
        got, answer, headers = self.daemon.ask(method, template.replace("{id}", name) + query, body, **terms)
        self.assertEqual(got, status, answer)
        self.asked.add((method, template))
        if isinstance(answer, str):
            return answer
        response = resolve(operation["responses"].get(str(status)) or operation["responses"]["default"])
        validator(response["content"]["application/json"]["schema"]).validate(answer)
        if status < 300:
            self.assertRegex(headers["etag"], PAGE["components"]["headers"]["Epoch"]["schema"]["pattern"])
        return answer

    def test_1_every_call(self):
        base = "/admin/v1"
        self.ask(200, "GET", base + "/generations")
        self.ask(200, "POST", base + "/generations", body={"path": self.two, "name": "two"}, query="?dry_run=all")
        two = self.ask(201, "POST", base + "/generations", body={"path": self.two, "name": "two"})["id"]
        self.ask(200, "POST", base + "/generations", body={"path": self.two, "name": "two"})
        self.ask(200, "GET", base + "/generations/{id}", "two")
        self.ask(404, "GET", base + "/generations/{id}", "nobody")
        self.ask(412, "POST", base + "/generations", body={"path": self.two}, match='"99"')
        self.ask(400, "POST", base + "/generations", body={"path": "/nowhere"})
        self.ask(200, "GET", base + "/generations/{id}/evaluation", "two")
        self.ask(409, "POST", base + "/generations/{id}:cancel", "two", body={})
        self.ask(202, "POST", base + "/generations/{id}:evaluate", "two", body={**TERMS, "repetitions": 20})
        self.ask(200, "POST", base + "/generations/{id}:cancel", "two", body={}, query="?dry_run=all")
        self.ask(202, "POST", base + "/generations/{id}:cancel", "two", body={})
        while self.ask(200, "GET", base + "/generations/{id}/evaluation", "two")["is_running"]:
            time.sleep(0.05)
        self.assertEqual(self.ask(200, "GET", base + "/generations/{id}", two)["state"], "ready")
        self.ask(202, "POST", base + "/generations/{id}:evaluate", "two", body=TERMS)
        while self.ask(200, "GET", base + "/generations/{id}/evaluation", "two")["is_running"]:
            time.sleep(0.2)
        self.assertEqual(self.ask(200, "GET", base + "/generations/{id}", two)["state"], "warmed")
        self.ask(200, "GET", base + "/rollouts")
        self.ask(404, "GET", base + "/rollouts/{id}", "active")
        self.ask(400, "POST", base + "/rollouts", body={"candidate": "two", "plan": plan(9999)})
        self.ask(201, "POST", base + "/rollouts", body={"candidate": "two", "plan": plan(100, 3000)})
        for verb in ("approve", "pause", "resume"):
            self.ask(200, "POST", base + "/rollouts/{id}:" + verb, "active", body={})
        self.ask(200, "GET", base + "/rollouts/{id}", "active")
        self.ask(409, "POST", base + "/rollouts/{id}:promote", "active", body={})
        self.metrics_are_clean()
        self.ask(200, "POST", base + "/rollouts/{id}:abort", "active", body={"reason": "a test"}, match="*")
        self.assertTrue(wait_until(lambda: 'foldkv_rollout_state{state="rolled_back"} 1' in self.daemon.get("/metrics")))
        self.ask(200, "GET", base + "/rollouts")
        self.ask(409, "POST", base + "/rollback", body={"to": "previous"}, match="*")
        for line in self.ask(200, "GET", base + "/audit", query="?after=0&limit=5").splitlines():
            check("AuditLine", json.loads(line))
        for frozen in (True, False):
            self.ask(200, "PUT", base + "/freeze", body={"frozen": frozen})
        self.ask(404, "POST", base + "/namespaces/{id}:fence", "ab" * 32, body={})
        self.ask(200, "POST", base + "/cache:purge", body={})
        self.ask(200, "POST", base + "/cache:purge", body={"generation": "two"})
        self.ask(404, "POST", base + "/cache:purge", body={"generation": "nobody"})
        stable = next(g["id"] for g in self.ask(200, "GET", base + "/generations")["generations"] if g["state"] == "stable")
        self.ask(409, "POST", base + "/generations/{id}:forget", stable, body={})
        self.ask(200, "POST", base + "/drain", body={}, query="?dry_run=all")
        self.assertEqual(self.asked, set(operations("admin")))

    def metrics_are_clean(self):
        self.assertTrue(wait_until(lambda: 'foldkv_rollout_state{state="step"} 1' in self.daemon.get("/metrics")))
        text = "\n".join(line for line in self.daemon.get("/metrics").splitlines() if "vllm:" not in line) + "\n"
        run = subprocess.run(["promtool", "check", "metrics"], input=text, capture_output=True, text=True)
        self.assertEqual((run.returncode, run.stdout + run.stderr), (0, ""))
        self.assertIn('foldkv_rollout_gate{gate="tpot_p99",verdict="no_data"} 1', text)


if __name__ == "__main__":
    run_cases()
