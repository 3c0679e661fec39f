"""Measures the rows that are named (all of them, if none is), and writes docs/performance.md when
all were. `scripts/bench` builds what this needs and calls it."""

import argparse
import os
import platform
import re
import sys
from datetime import date
from pathlib import Path

import rows

PAGE = """# Performance

Measured by `scripts/bench` on {date}, side by side in one run: {cores} cores shared by the server, its
jobs and the load, {memory:.0f} GiB of memory, Linux {kernel}; programs in the release profile, OpenTofu
from `scripts/setup`. Load average when it began: {load:.1f}; anything much above 0 means that others used
the cores too. The table is a SQLite file with `synchronous=FULL`: each accepted write waits for
the disk, so the rows that write tell of this disk too. A command measures its rows alone.

| what | budget | measured here | | command |
|---|---|---|---|---|
{table}

## How it is measured

- `start`: 15 starts each; the median of the time from exec to the line that says it is ready.
- `get_runner`, `accept`: `wrk` with one thread, on loopback. Each accepted deployment has an idempotency
  key of its own, and waits in one of 200 environments behind a job that never ends, so that no job starts
  while requests are counted; the queues grow to some tens of deployments. At the end all that were
  answered with 201 are found in the table.
- `no_op`: a script that does nothing stands in for `tofu`; the runner calls it as it calls OpenTofu. The
  times are those that the API reports.
- `deploy`: fresh environments and fresh folders in turns, the median of 7; `canyon deploy` is the command
  line with its upload, the job, and its live progress.
- `killed`: nothing may run twice: the script writes down each call, and each job plans once.
- `table`: a deployment of one resource with the real runner and OpenTofu, by a meter in the SDK client;
  the mean of 5. The launcher's looks for what is due are not counted: on AWS a stream record says it.
  Units are those of the embedded table, which counts as DynamoDB does.
"""


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("rows", nargs="*", metavar="ROW", help=", ".join(rows.ALL))
    parser.add_argument("--programs", type=Path, required=True)
    parser.add_argument("--tofu", required=True)
    parser.add_argument("--size", type=int, default=100_000, help="deployments in the table")
    bench = parser.parse_args()
    bench.root = Path(__file__).parents[2]
    unknown = set(bench.rows) - set(rows.ALL)
    if unknown:
        parser.error(f"no row is called {', '.join(unknown)}; there are: {', '.join(rows.ALL)}")
    chosen = bench.rows or list(rows.ALL)
    lines, missed, load = [], 0, os.getloadavg()[0]
    for name in chosen:
        for row in rows.ALL[name](bench):
            verdict = {None: "", True: "met", False: "**missed**"}[row.met]
            missed += row.met is False
            lines.append(f"| {row.what} | {row.budget} | {row.measured} | {verdict} "
                         f"| `scripts/bench {name}` |")
            print(f"{row.what}: {row.measured} (budget {row.budget}) {verdict}", flush=True)
    if not bench.rows:
        write(bench.root / "docs/performance.md", lines, load)
    print(f"bench: {len(lines)} rows, {missed} budgets missed", file=sys.stderr)


def write(file, lines, load):
    """Replaces the page up to the part that people write."""
    mark = "\n## Where a budget is missed\n"
    before = file.read_text() if file.exists() else ""
    notes = before[before.index(mark):] if mark in before else ""
    total = int(re.search(r"MemTotal:\s+(\d+)", Path("/proc/meminfo").read_text())[1])
    file.write_text(PAGE.format(date=date.today(), cores=os.cpu_count(), memory=total / 2**20,
                                kernel=platform.release(), load=load, table="\n".join(lines)) + notes)


main()
