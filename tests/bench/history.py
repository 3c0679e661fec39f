"""The figures of earlier runs, so that a commit which made something slower is seen. Machines differ: compare ratios."""

import json
import os
import re
import subprocess
from datetime import date
from pathlib import Path


class History:
    """One line of JSON for each run that wrote a page: the day, the commit, the machine and the rows. A commit that ends with
    `+` is that on which uncommitted changes were measured."""

    def __init__(self, root):
        self.commit = commit(root)
        self.file = root / "tests/bench/history.jsonl"
        lines = self.file.read_text().splitlines() if self.file.exists() else []
        # A later run replaces the rows of an earlier one.
        self.last = {what: (run, measured) for run in map(json.loads, lines) for what, measured in run["rows"].items()}
        self.rows = {}

    def before(self, what):
        """What the last run measured, as an addition to a printed row."""
        if what not in self.last:
            return ""
        run, measured = self.last[what]
        return f" (at {run['commit'][:8]}: {measured})"

    def add(self, row):
        self.rows[row.what] = row.measured

    def write(self, load):
        """`load` is the load average when the run began."""
        processor = re.search(r"model name\s*: (.+)", Path("/proc/cpuinfo").read_text())
        run = {"date": str(date.today()), "commit": self.commit, "load": round(load, 1), "cores": os.cpu_count(),
               "processor": processor[1] if processor else None, "rows": self.rows}
        with self.file.open("a") as file:
            file.write(json.dumps(run) + "\n")


def commit(root):
    """The commit that is measured: of when the run begins, because a later one may be made meanwhile."""
    git = ["git", "-C", root]
    head = subprocess.run([*git, "rev-parse", "HEAD"], check=True, capture_output=True, text=True).stdout.strip()
    changed = subprocess.run([*git, "diff", "--quiet", "HEAD", "--", ":!docs"]).returncode != 0
    return head + "+" * changed
