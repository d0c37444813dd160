#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Prometheus' own checker on what a daemon prints and on deploy/alerts.yaml, and the rules over the scrapes of a rollout that a gate
ends. metrics_test.py MAKE_MODEL"""
import json
import os
import re
import subprocess
import sys
import tempfile
import threading
import time
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
SOURCE = os.path.join(HERE, "..", "..")
sys.path.insert(0, os.path.join(HERE, "..", "support"))
from daemon import Daemon, run_cases, seconds  # noqa: E402
from releasing import LIMITS, Releasing, make_model  # noqa: E402

MAKE_MODEL = os.path.abspath(sys.argv.pop(1))
ALERTS = os.path.abspath(os.path.join(SOURCE, "deploy", "alerts.yaml"))


def source(path):
    with open(os.path.join(SOURCE, path), encoding="utf-8") as f:
        return f.read()


def promtool(*arguments, text=None):
    return subprocess.run(["promtool", *arguments], input=text, capture_output=True, text=True, timeout=seconds(60))


def rule(name):
    """The rule's block of deploy/alerts.yaml."""
    return re.search(rf"- alert: {name}\n(.*?)(?=- alert:|\Z)", source("deploy/alerts.yaml"), re.S).group(1)


def annotations(name, **labels):
    """What an alert of this name says, with its labels filled in."""
    found = {key: re.search(rf"{key}: (['\"])(.*)\1\n", rule(name)).group(2) for key in ("summary", "description")}
    return {key: re.sub(r"{{ \$labels\.(\w+) }}", lambda m: labels[m.group(1)], text) for key, text in found.items()}


def series(scrapes):
    """promtool's input series, a scrape a minute; "_" where a sample is not there. Labels are those that a scraper adds too."""
    rows = {}
    for i, text in enumerate(scrapes):
        for name, labels, value in re.findall(r"^(foldkv_roll[a-z_]+)(?:{(.*)})? ([0-9.e+-]+)$", text, re.M):
            key = f'{name}{{instance="a",job="f"' + (f",{labels}" if labels else "") + "}"
            rows.setdefault(key, ["_"] * len(scrapes))[i] = value
    return [{"series": key, "values": " ".join(values)} for key, values in rows.items()]


class Scraper:
    """Scrapes a daemon until it is left."""

    def __init__(self, daemon):
        self.daemon, self.texts, self.is_over = daemon, [], threading.Event()
        self.thread = threading.Thread(target=self.run)

    def run(self):
        while not self.is_over.wait(0.1):
            self.texts.append(self.daemon.get("/metrics"))

    def __enter__(self):
        self.thread.start()
        return self

    def __exit__(self, *unused):
        self.is_over.set()
        self.thread.join()


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

    def test_1b_what_runs_is_logged_once_and_exported(self):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "small.gguf")
            subprocess.run([MAKE_MODEL, path], check=True)
            with Daemon("--cache-bytes", "16MiB", "--isa", "scalar", model_path=path) as daemon:
                found = re.findall(r'^foldkv_kernels_info{isa="(.*)",numerics="(.*)",plan="([0-9a-f]{16})"} 1$', daemon.get("/metrics"), re.M)
                log = daemon.log()
            with Daemon("--cache-bytes", "16MiB", model_path=path) as daemon:
                best = re.findall(r'foldkv_kernels_info{isa="(.*?)"', daemon.get("/metrics"))
        self.assertEqual([isa for isa, _, _ in found], ["scalar"])
        self.assertIn("contract-", found[0][1])
        lines = [line for line in log.splitlines() if "instruction set" in line]
        self.assertEqual(len(lines), 1, log)
        self.assertIn("instruction set scalar, as kernels.isa asks", lines[0])
        self.assertIn(found[0][2], lines[0])
        self.assertNotEqual(best, ["scalar"])

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

    def failed_rollout(self, folder):
        """(scrapes, status) of a rollout that the quality gate ends: the candidate is another model, which its evaluation let pass."""
        one = make_model(MAKE_MODEL, folder, "one")
        other = make_model(MAKE_MODEL, folder, "other", "--seed", "9")
        state = os.path.join(folder, "state")
        with Releasing(state, one, "--threads", "1") as d:
            d.foldkv("publish", other, "--name", "other")
            d.evaluate("other", thresholds={**LIMITS, "quality": {"eps_ppm": 1000000}})
            before = d.get("/metrics")  # a rollout may end before the scraper's first look
            with Scraper(d) as scraper:
                d.start("other", 3000, gates={**LIMITS, "quality": {"eps_ppm": 0}})
                d.foldkv("rollout", "approve")
                d.in_state("rolled_back")
                time.sleep(1)
            shown = d.foldkv("rollout", "status")
            ended = d.rollout()
        with Releasing(state, one, "--threads", "1") as d:  # the verdicts are the registry's, not this process'
            shown_first = d.get("/metrics").splitlines()
            self.assertTrue(d.in_state("rolled_back")["gates"])
        self.assertEqual([line for line in ('foldkv_rollout_state{state="rolled_back"} 1', 'foldkv_rollout_gate{gate="quality",verdict="fail"} 1')
                          if line not in shown_first], [])
        return [before, *scraper.texts], ended, shown

    def test_6_the_rules_fire_over_a_daemon_s_own_scrapes(self):
        with tempfile.TemporaryDirectory() as folder:
            scrapes, ended, shown = self.failed_rollout(folder)
            quality = next(gate for gate in ended["gates"] if gate["gate"] == "quality")
            self.assertEqual((ended["now"]["reason"], ended["now"]["gate"], quality["verdict"]), ("gate_failed", "quality", "fail"))
            self.assertEqual(ended["judged"]["decision"], ended["decisions"][-2])
            self.assertRegex(shown, rf"judged +in step 1 at .*\n(.*\n)*quality +fail +{re.escape(quality['figures'])}\n")
            first = next(i for i, text in enumerate(scrapes) if re.search(r'rollout_state{state="roll(ing|ed)_back"} 1', text))
            failed = {"gate": "quality", "verdict": "fail", "instance": "a", "job": "f"}
            expected = {"exp_labels": {"severity": "warning", **failed}, "exp_annotations": annotations("FoldkvGateFailed", **failed)}
            tests = [{"eval_time": f"{first - 1}m", "alertname": "FoldkvGateFailed"},
                     {"eval_time": f"{first}m", "alertname": "FoldkvGateFailed", "exp_alerts": [expected]}]
            path = os.path.join(folder, "alerts.yaml")
            with open(path, "w", encoding="utf-8") as f:
                json.dump({"rule_files": [ALERTS], "evaluation_interval": "1m",
                           "tests": [{"interval": "1m", "input_series": series(scrapes), "alert_rule_test": tests}]}, f)
            run = promtool("test", "rules", path)
        self.assertEqual(run.returncode, 0, run.stdout + run.stderr)


if __name__ == "__main__":
    run_cases()
