#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The commands of the binary: what they print, where, and their exit codes."""
import hashlib
import json
import os
import platform
import socket
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))
from daemon import Daemon, model, required, run_cases, seconds  # noqa: E402

SOURCE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")


def foldkv(*arguments, under=(), **environment):
    return subprocess.run([*under, required("FOLDKV_TEST_BINARY"), *arguments], capture_output=True, text=True, timeout=seconds(60),
                          env={**os.environ, **environment})


class Commands(unittest.TestCase):
    def refused(self, code, *arguments, names=(), **environment):
        """Ends with the code, nothing on stdout, one line on stderr that names each of names."""
        run = foldkv(*arguments, **environment)
        self.assertEqual(run.returncode, code, run.stderr)
        self.assertEqual(run.stdout, "")
        self.assertEqual(run.stderr.count("\n"), 1, run.stderr)
        for name in names:
            self.assertIn(name, run.stderr)

    def test_1_version_and_help(self):
        self.assertRegex(foldkv("--version").stdout, r"^foldkv \d+\.\d+\.\d+")
        run = foldkv("help", "serve")
        self.assertEqual(run.returncode, 0)
        self.assertIn("--cache-bytes", run.stdout)

    def test_2_inspect(self):
        run = foldkv("inspect", model(), "--json")
        self.assertEqual((run.returncode, run.stderr), (0, ""))
        found = json.loads(run.stdout)
        self.assertRegex(json.dumps(found), r'"[0-9a-f]{64}"')
        again = foldkv("inspect", model(), "--json")
        self.assertEqual(run.stdout, again.stdout)
        self.assertIn("llama", foldkv("inspect", model()).stdout)
        self.assertIn("as MHA", foldkv("inspect", model(), "--ledger").stdout)
        ledger = json.loads(foldkv("inspect", model(), "--ledger", "--json", "--cache-type", "f32").stdout)
        layer = ledger["layers"][0]["arrangements"]
        self.assertEqual((layer["model"]["kv_heads"], layer["mha"]["kv_heads"], layer["mqa"]["kv_heads"]), (3, 9, 1))
        self.assertEqual(layer["model"]["append_bytes_per_token"], 3 * (64 + 64) * 4)

    def ladders(self, *under):
        """Every kernel's ladder, after what holds of all; under: the command that runs the binary."""
        run = foldkv("evidence", "--json", under=under)
        self.assertEqual((run.returncode, run.stderr), (0, ""))
        evidence = json.loads(run.stdout)
        by_name = {k["kernel"]: k for k in evidence["kernels"]}
        self.assertGreater(len(by_name), 20)
        for kernel in evidence["kernels"]:
            states = [r["state"] for r in kernel["rungs"]]
            self.assertEqual([r["rung"] for r in kernel["rungs"]], ["api", "source", "parity", "allocation", "traffic", "slo"])
            first = next((i for i, state in enumerate(states) if state != "proven"), len(states))
            self.assertNotIn("proven", states[first:], kernel["kernel"])  # nothing stands on a gap
            with open(os.path.join(SOURCE, kernel["source"]["file"]), "rb") as f:
                self.assertEqual(kernel["source"]["sha256"], hashlib.sha256(f.read()).hexdigest())
            if "this machine has no" not in kernel["rungs"][2]["how"]:
                self.assertIn("run now", kernel["rungs"][2]["how"])
        return by_name

    def test_2_evidence(self):
        by_name = self.ladders()
        merge = by_name["attend_merge__scalar"]["rungs"]
        self.assertIn("bit-equal", merge[2]["how"])
        self.assertIn("0 allocations", merge[3]["how"])
        self.assertIn("attend_merge__scalar", foldkv("evidence").stdout)
        self.refused(2, "evidence", "something")

    def test_2_evidence_of_what_this_machine_lacks(self):
        """An emulated processor without the wider sets."""
        emulators = {"x86_64": ("qemu-x86_64", "-cpu", "Nehalem"), "aarch64": ("qemu-aarch64", "-cpu", "cortex-a57")}
        ladders = self.ladders(*emulators[platform.machine()])
        missing = [k for k in ladders.values() if "this machine has no" in k["rungs"][0]["how"]]
        self.assertGreater(len(missing), 4)
        for kernel in missing:
            self.assertFalse(kernel["chosen"])
            self.assertNotIn("proven", [r["state"] for r in kernel["rungs"]])

    def test_3_kernels(self):
        run = foldkv("kernels")
        self.assertEqual(run.returncode, 0, run.stderr)
        self.assertIn("scalar", run.stdout)
        self.assertIn("matmul_q4_1", run.stdout)

    def test_3_rollout_plan(self):
        run = foldkv("rollout", "plan", "--json")
        self.assertEqual((run.returncode, run.stderr), (0, ""))
        found = json.loads(run.stdout)
        self.assertEqual([step["weight_bp"] for step in found["plan"]["steps"]], [100, 500, 2500])
        self.assertEqual(len(found["detects"]), 3)
        for step in found["detects"]:
            self.assertGreater(step["tpot_p99_ppm"], 1000000 + found["plan"]["gates"]["tpot_p99"]["eps_ppm"])
            self.assertTrue(step["equal_passes_at_minimum"])
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "plan.json")
            with open(path, "w", encoding="utf-8") as f:
                json.dump(found["plan"], f)
            again = json.loads(foldkv("rollout", "plan", "--plan", path, "--json").stdout)
            self.assertEqual(again, found)
            text = foldkv("rollout", "plan", "--plan", path).stdout
            self.assertIn(found["plan_sha256"], text)
            self.assertIn("tpot_p99", text)
            with open(path, "w", encoding="utf-8") as f:
                json.dump({"steps": [{"weight_bp": 9999, "min_requests": 1000, "max_seconds": 60}]}, f)
            self.refused(1, "rollout", "plan", "--plan", path, names=["steps[0].weight_bp", "9999", "9500"])
        self.refused(1, "rollout", "plan", "--plan", "/nowhere/plan.json", names=["/nowhere/plan.json"])
        self.refused(2, "rollout", "plan", "--error-ppm", "2000000", names=["error-ppm", "2000000"])
        self.refused(2, "rollout")
        self.refused(2, "rollout", "dance")

    def test_4_usage_is_exit_2(self):
        for arguments in (("no-such-command",), ("serve",), ("help", "no-such-topic"), ()):
            run = foldkv(*arguments)
            self.assertEqual((run.returncode, run.stdout), (2, ""), arguments)
            self.assertTrue(run.stderr)

    def test_4_a_command_takes_its_own_options_alone(self):
        for arguments in (("inspect", model(), "--listen", "127.0.0.1:0"), ("kernels", "--cache-type", "f16"),
                          ("bench", "gemv", "--cache-type", "f16"), ("evidence", "--threads", "1")):
            self.refused(2, *arguments, names=[arguments[-2], "another command's option"])
        self.refused(2, "bench", "attention", "--type", "Q4_0", names=["--type"])
        self.refused(2, "evidence", "--config", "x", names=["--config"])
        for command, has, lacks in (("inspect", "--cache-type", "--listen"), ("kernels", "--isa", "--cache-type"),
                                    ("serve", "--listen", "--json")):
            text = foldkv("help", command).stdout
            self.assertIn(has, text)
            self.assertNotIn(lacks, text)

    def test_4_a_mistake_is_told_with_what_is_right(self):
        self.refused(2, "bench", "gemv", "--bytes", "1", names=["--bytes", "'1'", "1048576"])
        self.refused(2, "bench", "attention", "--group", "0", names=["--group", "1 to 16"])
        self.refused(2, "bench", "gemm", "--type", "Q9", names=["Q9", "Q4_1", "BF16"])
        self.refused(2, "bench", "foo", names=["foo", "attention|gemv|gemm|serve"])
        self.refused(2, "help", "nope", names=["nope", "options", "gates"])
        self.refused(2, "rollout", names=["plan|start"])
        self.refused(2, "--version", "extra", names=["extra"])
        self.refused(2, "serve", model(), "--threads", names=["--threads", "0..256 threads"])
        self.assertRegex(foldkv("bench", "gemv", "--help").stdout, r"Rows of the matrix: 1 to 1048576; 4096 if not given")

    def test_4_bench_serve(self):
        run = foldkv("bench", "serve", "--help")
        self.assertEqual((run.returncode, run.stderr), (0, ""))
        self.assertIn("--model NAME", run.stdout)
        for url, name in (("https://127.0.0.1:1", "TLS"), ("elsewhere:80", "elsewhere"), ("http://127.0.0.1:80/v1", "path")):
            self.refused(2, "bench", "serve", "--url", url, names=[name])
        self.refused(1, "bench", "serve", "--url", "http://127.0.0.1:1", names=["http://127.0.0.1:1: "])
        with Daemon("--threads", "1", "--model-name", "mine") as daemon:
            ask = ("bench", "serve", "--url", daemon.url, "--streams", "1", "--prompt-tokens", "4", "--max-tokens", "2", "--json")
            found = json.loads(foldkv(*ask, "--model", "mine", "--vocab", "300").stdout)
            self.assertEqual((found["requests"], found["completion_tokens"]), (1, 2))
            self.refused(1, *ask, "--model", "yours", names=["404", "yours"])

    def test_5_options_unknown_or_out_of_range(self):
        self.refused(2, "serve", model(), "--no-such-flag", names=["--no-such-flag"])
        self.refused(2, "serve", model(), "--threads", "100000", names=["threads", "100000"])
        self.refused(2, "serve", model(), "--cache-type", "f8", names=["f8"])
        self.refused(1, "serve", model(), "--isa", "mmx", names=["mmx"])
        self.refused(2, "serve", model(), FOLDKV_ENGINE_RUNNING_MAX="x", names=["x"])

    def test_6_files_that_are_no_model(self):
        self.refused(1, "serve", "/nonexistent.gguf", names=["/nonexistent.gguf"])
        with open(model(), "rb") as f:
            head = f.read(1 << 20)
        for name, content in (("text", b"hello, I am no model"), ("empty", b""), ("cut", head),
                              ("version", head[:4] + b"\x09" + head[5:])):
            with self.subTest(name), tempfile.NamedTemporaryFile(suffix=".gguf") as f:
                f.write(content)
                f.flush()
                self.refused(1, "serve", f.name, names=[f.name])
                self.refused(1, "inspect", f.name, names=[f.name])

    def test_7_a_port_that_is_taken(self):
        with socket.socket() as taken:
            taken.bind(("127.0.0.1", 0))
            taken.listen()
            self.refused(1, "serve", model(), "--listen", f"127.0.0.1:{taken.getsockname()[1]}",
                         names=[str(taken.getsockname()[1])])


if __name__ == "__main__":
    run_cases()
