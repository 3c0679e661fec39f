"""The figures of earlier runs, so that a commit which made something slower is seen."""

import json
import subprocess
from datetime import date


class History:
    """One line of JSON for each run that wrote a page: the day, the commit and its rows."""

    def __init__(self, root):
        self.root = root
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

    def write(self):
        commit = subprocess.run(["git", "rev-parse", "HEAD"], cwd=self.root, check=True, capture_output=True, text=True)
        run = {"date": str(date.today()), "commit": commit.stdout.strip(), "rows": self.rows}
        with self.file.open("a") as file:
            file.write(json.dumps(run) + "\n")
