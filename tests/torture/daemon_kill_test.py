#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""SIGKILL of the daemon at every durable call of a publish, a promotion, an abort and a rollback.

daemon_kill_test.py MAKE_MODEL

All durable effects come from the daemon's thread "registry", so strace is attached to that thread alone. An unharmed run counts its
writes, syncs, opens, renames, unlinks, locks and truncations from the command to the daemon's orderly end; then strace kills the
daemon at the n-th of each, for n = 1, 1 + STRIDE, ... up to that count. After each kill a second daemon starts on what is left. Then
must hold: it serves, and no journal stays open; what the command was told is so; generations and route are as before or as after the
change, and as after it if its journal has begun; after an abort or a rollback the candidate is fenced and answers nobody, from the
first request on; every answer is, to the last bit of its log-probabilities, what its generation answers unharmed; what was not done
can be done now; the audit verifies; the objects are whole, and no unfinished copy is left among them. A scenario with fewer kills
than its floor fails the test. FOLDKV_TEST_LONG=1 takes every call."""
import collections
import contextlib
import hashlib
import http.client
import json
import os
import shutil
import signal
import sqlite3
import subprocess
import sys
import tempfile
import time
import traceback
from concurrent.futures import ThreadPoolExecutor

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "support"))
from daemon import is_long, required, seconds, wait_until  # noqa: E402
from releasing import Releasing, make_model  # noqa: E402

MAKE_MODEL = os.path.abspath(sys.argv[1])
CALLS = ["pwrite64", "write", "ftruncate", "fallocate", "fdatasync", "fsync", "openat", "rename", "renameat", "renameat2", "unlink",
         "unlinkat", "mkdir", "flock", "fcntl"]
STRIDE = {} if is_long() else {"fcntl": 67, "pwrite64": 11, "fdatasync": 2}
ASKED = {"prompt": "hello w", "max_tokens": 6, "logprobs": 3}
ANSWERS = 12
WRONG_MAX = 6  # then it is over
ENDED = {"complete", "preempted"}


class Scenario:
    """begin: the state directory it starts from; command: what is done. before, after: the state of "one" and "two" and of the
    rollout, without the change and with it; journal: the kind that makes it; heard: the generations that may answer before and after."""

    def __init__(self, begin, command, before, after, heard, journal=None, kills_min=0, steps_min=0):
        self.begin, self.command, self.before, self.after, self.heard = begin, command, before, after, heard
        self.journal, self.kills_min, self.steps_min = journal, kills_min, steps_min


SCENARIOS = {
    "publish": Scenario("founded", ("publish", "{two}", "--name", "two"), ("stable", None, None), ("stable", "ready", None),
                        ({"one"}, {"one"}), kills_min=30),
    "promote": Scenario("waiting", ("rollout", "approve"), ("stable", "canary", "awaiting_approval"), ("previous", "stable", "promoted"),
                        ({"one", "two"}, {"two"}), "promotion", kills_min=28, steps_min=2),
    "abort": Scenario("step", ("rollout", "abort"), ("stable", "canary", "step"), ("stable", "rolled_back", "rolled_back"),
                      ({"one", "two"}, {"one"}), "rollback", kills_min=30, steps_min=4),
    "rollback": Scenario("promoted", ("rollback",), ("previous", "stable", "promoted"), ("stable", "rolled_back", "rolled_back"),
                         ({"two"}, {"one"}), "rollback", kills_min=30, steps_min=4),
}


def daemon(state, model=""):
    return Releasing(state, model, "--threads", "1")


def copy(source, state):
    shutil.rmtree(state, ignore_errors=True)
    shutil.copytree(source, state, ignore=shutil.ignore_patterns("*.sock", "*.json"))


def threads(pid, name):
    found = []
    for tid in os.listdir(f"/proc/{pid}/task"):
        with contextlib.suppress(FileNotFoundError):  # it ends
            with open(f"/proc/{pid}/task/{tid}/comm") as f:
                found += [tid] if f.read() == name + "\n" else []
    return found


def rows(state, table):
    with contextlib.closing(sqlite3.connect(f"file:{state}/registry.sqlite?mode=ro", uri=True)) as db:
        return [json.loads(body) for _, body in db.execute(f"SELECT * FROM {table}")]


def left_open(state):
    """The steps at which journals of a killed daemon stand open; looked at in a copy, so that the daemon finds all as it was left."""
    with tempfile.TemporaryDirectory(dir=os.path.dirname(state)) as folder:
        for name in ("registry.sqlite", "registry.sqlite-wal"):
            if os.path.exists(os.path.join(state, name)):
                shutil.copy(os.path.join(state, name), folder)
        return {journal["step"] for journal in rows(folder, "journals") if journal["state"] not in ENDED}


def listed(d):
    """Generations and rollouts as the admin API tells of them."""
    return [d.ask("GET", f"/admin/v1/{kind}")[1][kind] for kind in ("generations", "rollouts")]


def is_settled(generation):
    """Also what is loaded again, by and by, after a start."""
    lane, state = generation["lane"], generation["state"]
    is_there = lane and lane["is_open"] if state in ("stable", "ready", "warmed", "canary") else state != "previous" or generation["weights_bytes"]
    return is_there and not generation["is_loading"] and state not in ("registered", "loading")


def settled(d):
    """The same once nothing is under way; None until then."""
    generations, rollouts = listed(d)
    is_moving = any(rollout["state"] in ("promoting", "rolling_back") for rollout in rollouts)
    return (generations, rollouts) if not is_moving and all(map(is_settled, generations)) else None


class World:
    """The models, the state directories that scenarios begin with, and what each generation answers, its name by its id."""

    def __init__(self, top):
        self.top, self.begins, self.names, self.choices, self.n_wrong = top, {}, {}, {}, 0
        self.one, self.two = (make_model(MAKE_MODEL, top, name, *flags) for name, flags in (("one", ()), ("two", ("--nudge",))))
        state = os.path.join(top, "state")
        self.reaches(state, "founded", self.one, lambda d: self.learn(d, "one"))
        self.reaches(state, "warmed", "", lambda d: (d.foldkv("publish", self.two, "--name", "two"), d.evaluate("two")))
        self.reaches(state, "step", "", lambda d: self.begin_rollout(d, 10**6))
        copy(self.begins["warmed"], state)
        self.reaches(state, "waiting", "", self.pass_step)
        self.reaches(state, "promoted", "", self.promote)
        assert self.choices["one"] != self.choices["two"], "both generations answer the same"

    def reaches(self, state, name, model, act):
        with daemon(state, model) as d:
            assert wait_until(lambda: settled(d))
            act(d)
        self.begins[name] = os.path.join(self.top, "begin-" + name)
        copy(state, self.begins[name])

    def learn(self, d, name):
        generation, self.choices[name] = d.choice(**ASKED)
        self.names[generation] = name

    def begin_rollout(self, d, requests):
        d.start("two", 3000, requests=requests)
        d.foldkv("rollout", "approve")

    def pass_step(self, d):
        self.begin_rollout(d, 600)
        d.traffic(lambda: listed(d)[1][0]["state"] == "awaiting_approval", threads=2)

    def promote(self, d):
        d.foldkv("rollout", "approve")
        assert wait_until(lambda: listed(d)[1][0]["state"] == "promoted")
        self.learn(d, "two")

    def command(self, scenario):
        return [word.format(two=self.two) for word in scenario.command]


class Run:
    """One daemon with strace attached to its registry's thread: the command is given, and unless a kill falls the daemon is ended in
    order. told is the command's exit code; is_killed; counts is how often each call was made, of a run without a kill."""

    def __init__(self, world, scenario, state, call=None, n=0):
        copy(world.begins[scenario.begin], state)
        self.trace = state + ".trace"
        d = daemon(state)
        try:
            assert wait_until(lambda: settled(d)), d.log()
            self.attach(d, call, n)
            self.told = subprocess.run([required("FOLDKV_TEST_BINARY"), *world.command(scenario), *d.reached_by], timeout=seconds(60),
                                       stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL).returncode
            wait_until(lambda: self.is_over(d))
            if d.process.poll() is None:
                d.process.send_signal(signal.SIGTERM)
            code = d.process.wait(seconds(60))
        finally:
            if d.process.poll() is None:
                d.process.kill()
            log = d.release()
        self.strace.wait(seconds(60))
        self.strace.stderr.close()
        self.is_killed = code == -signal.SIGKILL
        assert code == 0 or self.is_killed, f"exit code {code}\n{log}"
        with open(self.trace) as f:
            self.counts = collections.Counter(line.split("(")[0] for line in f)
        os.unlink(self.trace)

    def is_over(self, d):
        try:
            return d.process.poll() is not None or settled(d)
        except (OSError, http.client.HTTPException):
            return False  # it is being killed

    def attach(self, d, call, n):
        (tid,) = threads(d.process.pid, "registry")
        what = ["-e", f"trace={call}", "-e", f"inject={call}:signal=SIGKILL:when={n}"] if call else ["-e", "trace=" + ",".join(CALLS)]
        self.strace = subprocess.Popen(["strace", *what, "-o", self.trace, "-p", tid], stderr=subprocess.PIPE, text=True)
        line = self.strace.stderr.readline()
        if "attached" not in line:
            raise SystemExit(f"strace does not attach: {line}{self.strace.stderr.read()}")


class Judge:
    """What a second daemon makes of the state directory that a run left."""

    def __init__(self, world, scenario, state, run):
        self.world, self.scenario, self.state, self.told = world, scenario, state, run.told
        with daemon(state) as d:
            assert wait_until(lambda: self.is_ready(d)), "it is not ready"
            early = self.answered(d)
            is_after = self.is_after(self.settle(d))
            late = self.answered(d)
            self.heard(is_after, early, late)
            self.objects(2 if is_after or scenario.before[1] else 1)
            if not is_after:
                d.foldkv(*world.command(scenario))
                assert self.is_after(self.settle(d)), "it was told as done and is not so"
                self.heard(True, set(), self.answered(d))
            self.fenced()
        said = subprocess.run([required("FOLDKV_TEST_BINARY"), "audit", "verify", "--state", state], capture_output=True, text=True)
        assert (said.returncode, said.stderr) == (0, ""), f"the audit: {said.stdout}{said.stderr}"
        self.objects(2)

    def is_ready(self, d):
        link = d.connect()
        link.request("GET", "/readyz")
        status = link.getresponse().status
        link.close()
        return status == 200

    def answered(self, d):
        """Names of who answered; each said what it says unharmed."""
        heard = set()
        for _ in range(ANSWERS):
            generation, choice = d.choice(**ASKED)
            name = self.world.names[generation]
            assert choice == self.world.choices[name], f"{name} answers {choice}, unharmed {self.world.choices[name]}"
            heard.add(name)
        return heard

    def settle(self, d):
        """(state of one, of two, of the rollout)"""
        found = wait_until(lambda: settled(d))
        assert found, f"something stays under way: {listed(d)}"
        states = {self.world.names.get(g["id"][:16]): g["state"] for g in found[0]}
        return states.get("one"), states.get("two"), found[1][0]["state"] if found[1] else None

    def is_after(self, state):
        """True if the change is made. It is one or the other, and made if it was told or has a journal."""
        wanted = self.scenario
        assert state in (wanted.before, wanted.after), f"neither before nor after: {state}"
        is_after = state == wanted.after
        journals = rows(self.state, "journals")
        assert all(journal["state"] in ENDED for journal in journals), f"a journal is left: {journals}"
        (route,) = rows(self.state, "routes")
        stable = "one" if state[0] == "stable" else "two"
        assert self.world.names[route["stable"][:16]] == stable, f"{stable} is stable, the route {route}"
        assert (route["candidate"] is not None) == (state[1] == "canary"), f"{state}, the route {route}"
        if wanted.journal:
            begun = any(journal["kind"] == wanted.journal for journal in journals)
            assert begun == is_after, f"{state} with the journals {journals}"
        assert is_after or self.told != 0, f"it was told as done, and is {state}"
        return is_after

    def heard(self, is_after, early, late):
        """Once a candidate's going has begun it answers nobody; where a promotion ends, both may have answered before."""
        before, after = self.scenario.heard
        allowed = after if is_after else before
        assert late <= allowed, f"{late} answer, {allowed} may"
        assert early <= (allowed if self.scenario.journal != "promotion" else before), f"{early} answered first, {allowed} may"

    def fenced(self):
        """At the end the change is made: nothing is open but what is served or may be gone back to."""
        by_name = dict(zip(("one", "two"), self.scenario.after))
        for space in rows(self.state, "namespaces"):
            name = self.world.names[space["generation"][:16]]
            is_gone = by_name[name] == "rolled_back" or space["role"] == "control"
            assert (space["state"] in ("fenced", "freed")) == is_gone, f"{name}, {by_name[name]}: {space}"

    def objects(self, n):
        """Each generation's, whole, and nothing else."""
        folder = os.path.join(self.state, "objects")
        names = os.listdir(folder)
        assert len(names) == n, f"{names} are among the objects"
        for name in names:
            with open(os.path.join(folder, name), "rb") as f:
                assert hashlib.sha256(f.read()).hexdigest() == name, f"object {name} has other bytes"


class Outcome:
    """Of one run: the calls it made, whether it was killed, at which steps it left journals open, and what is wrong, None if nothing."""

    def __init__(self, world, name, call=None, n=0):
        self.name, self.counts, self.is_killed, self.steps, self.wrong = name, {}, False, set(), None
        state = os.path.join(world.top, f"{name}-{call}-{n}")
        try:
            run = Run(world, SCENARIOS[name], state, call, n)
            self.counts, self.is_killed = run.counts, run.is_killed
            assert run.is_killed or run.told == 0, "the command fails"
            self.steps = left_open(state)
            Judge(world, SCENARIOS[name], state, run)
        except Exception:  # told with the others
            self.wrong = f"{name}, {f'killed at {call} {n}' if call else 'unharmed'}: {traceback.format_exc(limit=-2)[-2000:]}"
            world.n_wrong += 1
        shutil.rmtree(state, ignore_errors=True)


def sweep(top):
    """(outcomes unharmed, outcomes with kills)"""
    world = World(top)
    with ThreadPoolExecutor(2) as pool:
        unharmed = list(pool.map(lambda name: Outcome(world, name), SCENARIOS))
        kills = [(o.name, call, n) for o in unharmed for call in CALLS for n in range(1, o.counts.get(call, 0) + 1, STRIDE.get(call, 1))]
        tried = pool.map(lambda kill: Outcome(world, *kill) if world.n_wrong < WRONG_MAX else None, kills)
        return unharmed, [o for o in tried if o]


def main():
    top = tempfile.mkdtemp(prefix="foldkv-kill-", dir="/dev/shm" if os.access("/dev/shm", os.W_OK) else None)
    start = time.monotonic()
    try:
        unharmed, tried = sweep(top)
    finally:
        shutil.rmtree(top, ignore_errors=True)
    wrong = [o.wrong for o in unharmed + tried if o.wrong]
    print(f"{len(unharmed + tried)} runs, {sum(o.is_killed for o in tried)} kills in {time.monotonic() - start:.1f} s")
    for whole in unharmed:
        scenario = SCENARIOS[whole.name]
        killed = [o for o in tried if o.name == whole.name and o.is_killed]
        steps = set().union(*(o.steps for o in killed))
        print(f"  {whole.name}: {len(killed)} kills, floor {scenario.kills_min}; journals open at {sorted(steps) or 'none'}, of "
              + ", ".join(f"{whole.counts[call]} {call}" for call in CALLS if whole.counts.get(call)))
        if len(killed) < scenario.kills_min:
            wrong.append(f"{whole.name}: only {len(killed)} kills")
        if len(steps) < scenario.steps_min:
            wrong.append(f"{whole.name}: kills left the journal open at {len(steps)} steps alone, not at {scenario.steps_min}")
    print("\n".join(wrong[:20]) or "all hold")
    return bool(wrong)


sys.exit(main())
