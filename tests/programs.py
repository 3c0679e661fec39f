#!/usr/bin/env python3
"""Runs the test programs that cargo has built, several side by side, and prints the result of each.

    cargo test --no-run --message-format json ... | tests/programs.py [--slots N] [--seconds N] [--first PROGRAM...] [--without PROGRAM...] [--threads N PROGRAM...]

Cargo runs one program after the other. Most of Canyon's tests wait for processes, clocks and networks, so a single
program leaves a processor idle. `--first PROGRAM...` start first, in this order; then the others, the longest first, by
their durations in the last run on this machine.

Each program's output is in the folder of logs. When a program ends, its result is printed; if it failed, its failures too.
A program's name is the folder of its package and its own name: functions-api.
`--without PROGRAM...` omits these.
`--threads N PROGRAM...` runs N tests of each of these side by side: their tests wait for processes most of the time. The
others run as many as there are processors.
Programs that still run after `--seconds` are killed and count as failed.
"""

import argparse
import json
import os
import pathlib
import re
import signal
import subprocess
import sys
import time

CACHE = pathlib.Path(os.environ.get("CANYON_CACHE") or pathlib.Path.home() / ".cache/canyon")
LOGS = CACHE / "log/tests"
DURATIONS = LOGS / "durations.json"


class Program:
    """A test program. Two packages may have targets of the same name."""

    def __init__(self, message):
        package = pathlib.Path(message["manifest_path"]).parent
        target = message["target"]
        kind = "" if "test" in target["kind"] else f"-{target['kind'][0]}"
        self.name = f"{package.name}{kind}-{target['name']}"
        self.folder, self.executable = package, message["executable"]
        self.log = LOGS / f"{self.name}.log"
        self.process = self.started = self.threads = None

    def start(self):
        # cargo sets this variable and a test may read it. The session allows ending a hung test with all its processes.
        environment = dict(os.environ, CARGO_MANIFEST_DIR=str(self.folder))
        if self.threads:
            environment["RUST_TEST_THREADS"] = self.threads
        self.started = time.monotonic()
        self.process = subprocess.Popen([self.executable], cwd=self.folder, env=environment, stdin=subprocess.DEVNULL,
                                        stdout=self.log.open("wb"), stderr=subprocess.STDOUT, start_new_session=True)

    def end(self):
        os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()

    def report(self):
        """Prints the result, and returns whether all tests passed."""
        output = self.log.read_text(errors="replace")
        results = re.findall(r"^test result: .*$", output, re.MULTILINE)
        passed = self.process.returncode == 0 and len(results) == 1
        if not passed:
            failures = output.find("\nfailures:\n")
            shown = output[failures:] if failures >= 0 else output[-20000:]
            # The result is printed once, below: scripts/test adds these lines up.
            print(re.sub(r"^test result: .*$", "", shown, flags=re.MULTILINE))
            print(f"test: {self.name}: failed with exit status {self.process.returncode}")
        print(f"{results[0] if results else 'test result: none'}; {self.name}", flush=True)
        return passed

    def seconds(self):
        return time.monotonic() - self.started


def programs(messages):
    for line in messages:
        message = json.loads(line) if line.startswith("{") else {}
        if message.get("reason") == "compiler-message":
            print(message["message"]["rendered"], file=sys.stderr)
        if message.get("executable") and message["profile"]["test"]:
            yield Program(message)


def run(waiting, options):
    """Runs all of them, and returns the names of those that failed and how long each took."""
    running, failed, took, deadline = [], [], {}, time.monotonic() + options.seconds
    try:
        while waiting or running:
            while waiting and len(running) < options.slots:
                running.append(waiting.pop(0))
                running[-1].start()
            late = time.monotonic() > deadline
            for program in running[:]:
                if late:
                    program.end()
                if program.process.poll() is not None:
                    running.remove(program)
                    took[program.name] = program.seconds()
                    if not program.report():
                        failed.append(program.name)
            if late and waiting:
                print(f"test: not started within {options.seconds} s: {' '.join(program.name for program in waiting)}")
                return failed + [program.name for program in waiting], took
            time.sleep(0.1)
    finally:
        # Each is in a session of its own, which Ctrl-C in a terminal does not reach.
        for program in running:
            program.end()
    return failed, took


def main():
    parser = argparse.ArgumentParser(usage=__doc__.split("\n\n")[1].strip())
    parser.add_argument("--slots", type=int, default=2)
    parser.add_argument("--seconds", type=float, default=float("inf"))
    parser.add_argument("--first", nargs="+", default=[], metavar="PROGRAM")
    parser.add_argument("--without", nargs="+", default=[], metavar="PROGRAM")
    parser.add_argument("--threads", nargs="+", action="append", default=[], metavar=("N", "PROGRAM"))
    options = parser.parse_args()
    LOGS.mkdir(parents=True, exist_ok=True)
    known = json.loads(DURATIONS.read_text()) if DURATIONS.exists() else {}
    found = list(programs(sys.stdin))
    named = {name for _, *names in options.threads for name in names}.union(options.first, options.without)
    if unknown := named - {program.name for program in found}:
        sys.exit(f"programs.py: cargo built no test program {' '.join(sorted(unknown))}")
    chosen = [program for program in found if program.name not in options.without]
    for program in chosen:
        program.threads = next((number for number, *names in options.threads if program.name in names), None)
    # A program without a known duration starts before the others: it may be long.
    places = {name: place for place, name in enumerate(options.first)}
    chosen.sort(key=lambda program: (places.get(program.name, len(places)), -known.get(program.name, float("inf"))))
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    failed, took = run(chosen, options)
    DURATIONS.write_text(json.dumps(known | took, indent=1))
    if failed:
        print(f"test: programs that failed: {' '.join(failed)}; all they printed is in {LOGS}")
    return 1 if failed or not took else 0


if __name__ == "__main__":
    sys.exit(main())
