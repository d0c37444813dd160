#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""SIGKILL, EIO and ENOSPC at every durable call of a publish, a promotion and a rollback.

registry_kill_test.py ACTOR [kill|fail]

All durable effects come from one thread of the actor (registry_actor.c), so strace is attached to that thread alone and injects
into its n-th write, sync, open, rename, unlink, lock or truncation, for n = 1, 2, ... until a run ends unharmed. After each run a
second process recovers. Then must hold: the audit verifies; every step that was told is in it, under the same hash; no
invariant of the world is broken, before and while the journal is carried on; a journal that was open is complete; an object
whose hash was told has those bytes, and no unfinished copy is left. A state of the machine in which no kill ever fell, or fewer kills
than the floor, fails the test. FOLDKV_TEST_LONG=1 takes every lock call too, otherwise each STRIDE-th."""
import hashlib
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor

ACTOR = os.path.abspath(sys.argv[1])
MODES = sys.argv[2:] or ["kill", "fail"]
LONG = bool(os.environ.get("FOLDKV_TEST_LONG"))
WRITES = ["pwrite64", "write", "ftruncate", "fallocate"]
SYNCS = ["fdatasync", "fsync"]
NAMES = ["openat", "rename", "renameat", "renameat2", "unlink", "unlinkat", "mkdir", "flock"]
LOCKS = ["fcntl"]
STRIDE = {"fcntl": 1 if LONG else 17, "pwrite64": 1 if LONG else 2}
# Scenarios that are killed, and the state that each begins with: scenarios that ran unharmed before.
BEGINS = {"create": [], "publish": ["found"], "promote": ["found", "publish"], "rollback": ["found", "publish", "promote", "prepare"],
          "recover": ["found", "publish", "promote", "prepare", "intent"], "back": ["found", "publish", "promote"],
          "sidelines": ["found", "publish", "promote", "third"]}
KILLS_MIN = {"create": 20, "publish": 90, "promote": 70, "rollback": 70, "recover": 40, "back": 50, "sidelines": 60}
GENERATIONS = {"registered", "loading", "ready", "evaluated", "warmed", "canary", "stable", "previous", "rolled_back"}
ROLLOUTS = {"awaiting_approval 0", "step 0", "step 1", "step 2", "awaiting_approval 2", "promoting 2", "promoted 2",
            "rolling_back 1", "rolled_back 1", "rolling_back 2", "rolled_back 2", "paused 0", "blocked 0", "rejected 0"}
JOURNALS = {f"rollback {k}" for k in range(1, 8)} | {f"promotion {k}" for k in range(5)}


class Run:
    """One actor, with strace attached to its durable thread where inject is given; lines is what it said."""

    def __init__(self, state, scenario, inject=None, source=None):
        ours, theirs = socket.socketpair()
        command = [ACTOR, state, scenario, str(theirs.fileno())] + ([source] if source else [])
        self.process = subprocess.Popen(command, pass_fds=[theirs.fileno()], stderr=subprocess.PIPE)
        theirs.close()
        self.lines, self.strace = [], None
        with ours, ours.makefile("r", errors="replace") as told:
            first = told.readline()
            if first.startswith("tid "):
                if inject:
                    self.attach(int(first.split()[1]), inject)
                ours.sendall(b"!")
            else:
                self.lines.append(first.rstrip("\n"))
            self.lines += [line.rstrip("\n") for line in told]
        self.code = self.process.wait(60)
        self.stderr = self.process.stderr.read().decode(errors="replace")
        self.process.stderr.close()
        if self.strace:
            self.strace.wait(60)
            self.strace.stderr.close()

    def attach(self, tid, inject):
        calls = inject.split(":", 1)[0]
        self.strace = subprocess.Popen(["strace", "-e", f"trace={calls}", "-e", f"inject={inject}", "-o", "/dev/null", "-p", str(tid)],
                                       stderr=subprocess.PIPE, text=True)
        line = self.strace.stderr.readline()
        if "attached" not in line:
            raise SystemExit(f"strace does not attach: {line}{self.strace.stderr.read()}")

    def said(self, word):
        return [line[len(word) + 1:] for line in self.lines if line.startswith(word + " ")]


class Tally:
    """What was found over all runs."""

    def __init__(self):
        self.wrong, self.kills, self.runs, self.failures = [], {}, 0, 0
        self.generations, self.rollouts, self.journals = set(), set(), set()

    def saw(self, recovered):
        for line in recovered.said("found"):
            kind, rest = line.split(" ", 1)
            if kind == "generation":
                self.generations.add(rest.split()[1])
            elif kind == "rollout":
                self.rollouts.add(rest)
            else:
                self.journals.add(" ".join(rest.split()[:2]))


def recover(state, before, where, tally):
    """Judges what a run left behind."""
    after = Run(state, "recover")
    tally.saw(after)
    if after.code != 0 or after.said("wrong") or "done" not in after.lines:
        tally.wrong.append(f"{where}: recovery: {after.code} {after.lines[-3:]} {after.stderr[-300:]}")
        return
    entries = dict(line.split() for line in after.said("entry"))
    for line in before.said("told"):
        step, seq, digest = line.split()
        if entries.get(seq) != digest:
            tally.wrong.append(f"{where}: '{step}' was told at entry {seq} and is gone")
    for line in after.said("settled"):
        if line.startswith("journal") and not line.endswith(("complete", "preempted")):
            tally.wrong.append(f"{where}: a journal is left: {line}")
    for digest in before.said("object"):
        with open(os.path.join(state, "objects", digest), "rb") as f:
            if hashlib.sha256(f.read()).hexdigest() != digest:
                tally.wrong.append(f"{where}: object {digest} has other bytes")
    objects = os.path.join(state, "objects")
    for name in os.listdir(objects) if os.path.isdir(objects) else []:
        if not re.fullmatch("[0-9a-f]{64}", name):
            tally.wrong.append(f"{where}: {name} is left among the objects")


def prepared(top, source):
    """A state directory for each list of scenarios that ran unharmed; each is made once."""
    made = {}
    for begins in BEGINS.values():
        for n in range(len(begins) + 1):
            key = tuple(begins[:n])
            if key in made:
                continue
            made[key] = os.path.join(top, "begin-" + ("-".join(key) or "nothing"))
            if n == 0:
                continue
            shutil.copytree(made[key[:-1]], made[key]) if n > 1 else None
            done = Run(made[key], key[-1] if key[-1] != "found" else "create", source=source)
            if done.code != 0:
                raise SystemExit(f"{key}: {done.code} {done.lines} {done.stderr}")
    return made


def fresh(begin, state):
    shutil.rmtree(state, ignore_errors=True)
    if os.path.isdir(begin):
        shutil.copytree(begin, state)


def sweep_kills(scenario, call, begin, state, source, tally):
    n, kills = 1, 0
    while True:
        fresh(begin, state)
        run = Run(state, scenario, f"{call}:signal=SIGKILL:when={n}", source)
        tally.runs += 1
        where = f"{scenario}: killed at {call} {n}"
        if run.code == -signal.SIGKILL:
            kills += 1
        elif run.code != 0:
            tally.wrong.append(f"{where}: {run.code} {run.lines[-2:]} {run.stderr[-300:]}")
        recover(state, run, where, tally)
        if run.code != -signal.SIGKILL or len(tally.wrong) > 5:
            break
        n += STRIDE.get(call, 1)
    tally.kills[scenario] = tally.kills.get(scenario, 0) + kills
    return kills


def judge_failed(run, call, error, where, tally):
    """The disk failed: told as such, reading goes on; after a sync or an input/output error nothing is written any more."""
    after = run.said("after")
    if run.code == 0:
        return  # a call whose failure hurts nobody
    tally.failures += 1
    if run.code == 4 or run.said("failed create"):
        return  # it did not start
    if run.code != 3 or not after:
        tally.wrong.append(f"{where}: {run.code} {run.lines[-3:]} {run.stderr[-300:]}")
        return
    failed = run.said("failed")[0]
    if "read=ok" not in after[0]:
        tally.wrong.append(f"{where}: reading ended too: {after}")
    if " io_error " in f" {failed} " or failed.startswith("copy"):
        return  # an object's copy: the registry is as it was
    if "registry_read_only" not in failed and not (failed.startswith("settle unavailable") and "writable=0" in after[0]):
        tally.wrong.append(f"{where}: {failed}")
    if error == "EIO" and call in SYNCS and not ("write=registry_read_only" in after[0] and "writable=0" in after[0]):
        tally.wrong.append(f"{where}: it writes on after a sync failed: {after}")


def sweep_failures(scenario, call, error, begin, state, source, tally):
    n = 1
    while n < 2000:
        fresh(begin, state)
        run = Run(state, scenario, f"{call}:error={error}:when={n}" + ("+" if error == "ENOSPC" else ""), source)
        tally.runs += 1
        before = tally.failures
        where = f"{scenario}: {error} at {call} {n}"
        judge_failed(run, call, error, where, tally)
        recover(state, run, where, tally)
        if tally.failures == before or len(tally.wrong) > 5:
            break
        n += STRIDE.get(call, 1) if LONG else STRIDE.get(call, 1) * 2


def main():
    top = tempfile.mkdtemp(prefix="foldkv-kill-", dir="/dev/shm" if os.access("/dev/shm", os.W_OK) else None)
    source = os.path.join(top, "source")
    with open(source, "wb") as f:
        f.write(os.urandom(3 << 20))
    tally = Tally()
    start = time.monotonic()
    try:
        begins = prepared(top, source)
        jobs = []
        for scenario, begin in BEGINS.items():
            for call in WRITES + SYNCS + NAMES + LOCKS:
                jobs.append((scenario, call, begins[tuple(begin)], os.path.join(top, f"{scenario}-{call}")))
        with ThreadPoolExecutor(2) as pool:
            if "kill" in MODES:
                list(pool.map(lambda job: sweep_kills(*job, source, tally), jobs))
            if "fail" in MODES:
                failing = [(s, c, e, b, d) for s, c, b, d in jobs for e in ("EIO", "ENOSPC")
                           if c in SYNCS or (c in WRITES and e in ("EIO", "ENOSPC")) if s in ("create", "publish", "promote", "rollback")]
                list(pool.map(lambda job: sweep_failures(*job[:4], job[4] + job[2], source, tally), failing))
    finally:
        shutil.rmtree(top, ignore_errors=True)
    print(f"{tally.runs} runs, {sum(tally.kills.values())} kills, {tally.failures} disk failures in {time.monotonic() - start:.1f} s")
    if "kill" in MODES:
        for scenario, floor in KILLS_MIN.items():
            print(f"  {scenario}: {tally.kills.get(scenario, 0)} kills, floor {floor}")
            if tally.kills.get(scenario, 0) < floor:
                tally.wrong.append(f"{scenario}: only {tally.kills.get(scenario, 0)} kills")
        for name, seen, wanted in (("generation", tally.generations, GENERATIONS), ("rollout", tally.rollouts, ROLLOUTS),
                                   ("journal", tally.journals, JOURNALS)):
            print(f"  {name} states found: {', '.join(sorted(seen))}")
            if wanted - seen:
                tally.wrong.append(f"no kill fell in {name} {sorted(wanted - seen)}")
    if "fail" in MODES and tally.failures < 40:
        tally.wrong.append(f"only {tally.failures} disk failures")
    print("\n".join(tally.wrong[:20]) or "all hold")
    return bool(tally.wrong)


sys.exit(main())
