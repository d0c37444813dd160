#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Prometheus' own checker on what a daemon prints and on deploy/alerts.yaml. metrics_test.py MAKE_MODEL"""
import os
import re
import subprocess
import sys
import tempfile
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
SOURCE = os.path.join(HERE, "..", "..")
sys.path.insert(0, os.path.join(HERE, "..", "support"))
from daemon import Daemon, run_cases, seconds  # noqa: E402

MAKE_MODEL = os.path.abspath(sys.argv.pop(1))
ALERTS = os.path.abspath(os.path.join(SOURCE, "deploy", "alerts.yaml"))


def source(path):
    with open(os.path.join(SOURCE, path), encoding="utf-8") as f:
        return f.read()


def promtool(*arguments, text=None):
    return subprocess.run(["promtool", *arguments], input=text, capture_output=True, text=True, timeout=seconds(60))


class Metrics(unittest.TestCase):
    def test_1_the_text_is_clean(self):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "small.gguf")
            subprocess.run([MAKE_MODEL, path], check=True)
            with Daemon("--cache-bytes", "16MiB", model_path=path) as daemon:
                daemon.complete("hello", max_tokens=4)
                text = daemon.get("/metrics")
        self.assertIn("foldkv_requests_finished_total 1", text)
        # The names that dashboards hard-code are theirs: one gauge of them ends in what a histogram's may.
        own = "\n".join(line for line in text.splitlines() if "vllm:" not in line) + "\n"
        run = promtool("check", "metrics", text=own)
        self.assertEqual((run.returncode, run.stdout + run.stderr), (0, ""))

    def test_2_the_checker_finds_what_is_wrong(self):
        run = promtool("check", "metrics", text="# TYPE foldkv_x counter\nfoldkv_x 1\n")
        self.assertNotEqual(run.returncode, 0)

    def test_3_the_rules_are_rules(self):
        run = promtool("check", "rules", ALERTS)
        self.assertEqual(run.returncode, 0, run.stdout + run.stderr)
        self.assertIn("9 rules found", run.stdout)

    def test_4_the_rules_fire_when_they_must(self):
        with tempfile.NamedTemporaryFile("w", suffix=".yaml") as f:
            f.write(source("tests/data/alerts.yaml").replace("[ALERTS]", f"['{ALERTS}']"))
            f.flush()
            run = promtool("test", "rules", f.name)
        self.assertEqual(run.returncode, 0, run.stdout + run.stderr)

    def test_5_the_rules_name_metrics_that_there_are(self):
        page = source("docs/metrics.md")
        names = set(re.findall(r"foldkv_[a-z_]+", "\n".join(re.findall(r"^ +expr: (.*)$", source("deploy/alerts.yaml"), re.M))))
        self.assertGreater(len(names), 5)
        for name in names:
            self.assertRegex(page, rf"`{name}[`{{]")
        tested = set(re.findall(r"alertname: (\w+)", source("tests/data/alerts.yaml")))
        self.assertEqual(tested, set(re.findall(r"alert: (\w+)", source("deploy/alerts.yaml"))))


if __name__ == "__main__":
    run_cases()
