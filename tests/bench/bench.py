"""Measures the rows that are named. Without names, it measures all rows of the laptop and writes them into
docs/performance.md; `serverless` does that with all rows of the functions, `containers` with those of container jobs.
`scripts/bench` calls this twice: before it builds the programs, to refuse unknown names, and afterwards."""

import argparse
import os
import platform
import re
import sys
import time
from datetime import date
from pathlib import Path

import agents
import cluster
import containers
import rows
import serverless
from history import History

PAGE = """# Performance

Measured by `scripts/bench` on {date}, side by side in one run: {cores} cores shared by the server, its
jobs and the load, {memory:.0f} GiB of memory, Linux {kernel}; programs in the release profile, OpenTofu
from `scripts/setup`. Load average when it began: {load:.1f}. The table is a SQLite file, and each accepted write
waits for the disk, so the rows with writes depend on this disk too. A command measures only its rows.
`tests/bench/history.jsonl` has the rows of each run that wrote this page.

| what | budget | measured here | | command |
|---|---|---|---|---|
{table}

## How it is measured

- `start`: 15 starts each; the median of the time from exec to the line that reports readiness.
- `get_runner`, `accept`, `long_polls`: `wrk` with one thread, on loopback. Each accepted deployment has an idempotency
  key of its own, and waits in one of 200 environments behind a job that never ends, so that no job starts
  while requests are counted; the queues grow to some tens of deployments. At the end the table must
  contain all deployments that were answered with 201. The bare axum server and the SQLite transaction are
  `tests/bench/peers`; the transaction has the bytes of the items and index entries of one acceptance.
- `no_op`: a script that does nothing replaces `tofu`; the runner calls it as it calls OpenTofu. The times
  are from the API.
- `deploy`: new environments and new folders, alternating, the median of 7; `canyon deploy` is the command
  line with its upload, the job, and its live progress.
- `drift`: as `deploy`, of one environment and copies of one folder with the same state; nothing differs.
- `killed`: no job may run twice: the script records each call, and each job plans once.
- `agents`: a separate process simulates the agents (`tests/bench/agents`), with one session and one long poll each;
  their first round of polls is not counted. A null job claims its attempt and reports success. The times are
  from the API: an offer is written right after its attempt, and the claim is the job's first request.
- `agent_program`: a server that does nothing else receives the first poll; the median of 10. Its null jobs are processes
  as in `no_op`, one after the other.
- `table`: a deployment of one resource with the real runner and OpenTofu, by a meter in the SDK client;
  the mean of 5. It includes the removal of the job's remains. The queries with which the launcher looks each
  second for what it has missed are not counted. Units are those of the embedded table, which counts as DynamoDB does.
"""

FUNCTIONS = """
## The functions

Measured by `scripts/bench serverless` on {date}: {cores} cores, programs as `scripts/build x86_64` makes them.
Load average when it began: {load:.1f}, when it ended: {after:.1f}. `hello` is a minimal HTTP function in Rust
(`tests/cloud/src/bin/hello.rs`), started in turn with the others.

| what | budget | measured here | | command |
|---|---|---|---|---|
{table}

- `lambda_start`: 40 starts each, by a runtime API that does nothing else, with DynamoDB Local behind. The
  first round is not counted: it reads the programs from disk.
- `lambda_warm`: the last 200 of 210 requests of a process, by the kernel's account of its threads.
- `lambda_table`: a deployment of one resource with the real runner and OpenTofu, in the AWS of tests, by
  a meter between each function and the table; the mean of 5. It includes the hint of the platform that the
  job has stopped, and `end_told`. Reads of the stream are Lambda's, and free. Units are those that DynamoDB Local
  reports, but for transactions, which it counts wrongly: there they are counted from the items.
- `lambda_sweep`: the mean of 20 minutes, and of the processor time the median. A schedule is one of an environment, copied.
- `lambda_agents`: the mean of 100 real agents, four at once, which join and then poll; the others are copies of a record.
- `lambda_burst`: null jobs on the strict ECS of tests, with AWS's rates: 20 calls of RunTask a second, and 20 reads of tasks
  after 100 at once. All are accepted before `launcher` and `sweep` run, so that all wait at once. A job claims two seconds after its
  task was started, and ECS shows its end three seconds after its result.
"""

CONTAINERS = """
## Container jobs

Measured by `scripts/bench containers` on {date}: {cores} cores shared by the server, its jobs, the engine and the cluster of
`scripts/cluster`; programs in the release profile, and images that the engine and the node have already. Load average
when it began: {load:.1f}, when it ended: {after:.1f}.

| what | budget | measured here | | command |
|---|---|---|---|---|
{table}

- `container_engine`: the medians of 20 rounds, each with a container job, a plain container and an injection. The job's program
  writes the time at which it begins, and so does the plain container's, which is the same. The requests of `docker run
  --detach` create and start the plain container. The injection is the time of two requests: one fills the volume, the
  other removes the container that has filled it. The ratio is that of two medians: the job's time less the
  injection of its round, and the plain container's time.
- `container_cluster`: the same with 20 rounds. The request of `kubectl create job` creates the plain Job. The injection is the
  time from the creation of the job's init container to that of its main container, from the events of the node's
  containerd. The rounds have random pauses, because a kubelet looks for ended containers once a second.
- `container_memory`: the worst of three jobs whose program writes a hundred lines a second, after two seconds; process 1 of the
  container, from `/proc`.
- `container_table`: as `table`, with the same program in a container; a module beside it.
"""

# The first heading begins the parts that `scripts/bench` leaves unchanged. The parts of the functions and of container
# jobs each have a command that replaces them.
KEPT = ("\n## Launching\n", "\n## Container jobs\n", "\n## The functions\n", "\n## Where a budget is missed\n")
# A page is written only if the load average is not higher than this when it begins.
CALM = 0.5
# How long to wait for that, in seconds: the build before leaves a load average that falls for minutes.
PATIENCE = 600
PARTS = {"serverless": (serverless.ALL, FUNCTIONS), "containers": (containers.ALL, CONTAINERS)}


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("rows", nargs="*", metavar="ROW",
                        help=", ".join([*rows.ALL, *agents.ALL, *cluster.ALL, "serverless", *serverless.ALL, "containers",
                                         *containers.ALL]))
    parser.add_argument("--programs", type=Path, help="without it, only the names are checked")
    parser.add_argument("--tofu")
    parser.add_argument("--published", type=Path, help="the folder of `cargo lambda build`")
    parser.add_argument("--debug", type=Path, help="the functions with local jobs")
    parser.add_argument("--size", type=int, default=100_000, help="deployments in the table")
    bench = parser.parse_args()
    bench.root = Path(__file__).parents[2]
    known = rows.ALL | agents.ALL | cluster.ALL | serverless.ALL | containers.ALL
    part = PARTS.get(bench.rows[0]) if len(bench.rows) == 1 else None
    named = [] if part else bench.rows
    unknown = set(named) - set(known)
    if unknown:
        parser.error(f"no row is called {', '.join(unknown)}; there are: {', '.join(known)}")
    if not bench.programs:
        return
    chosen = named or (part[0] if part else rows.ALL | agents.ALL)
    if not named:
        wait_until_calm()
    lines, missed, load = [], 0, os.getloadavg()[0]
    history = History(bench.root)
    for name in chosen:
        for row in known[name](bench):
            verdict = {None: "", True: "met", False: "**missed**"}[row.met]
            missed += row.met is False
            lines.append(f"| {row.what} | {row.budget} | {row.measured} | {verdict} "
                         f"| `scripts/bench {name}` |")
            before = history.before(row.what)
            print(f"{row.what}: {row.measured} (budget {row.budget}) {verdict}{before}", flush=True)
            history.add(row)
    if not named:
        history.write(load)
        page = bench.root / "docs/performance.md"
        if part:
            write_part(page, part[1], lines, load)
        else:
            write(page, lines, load)
    print(f"bench: {len(lines)} rows, {missed} budgets missed", file=sys.stderr)


def wait_until_calm():
    print(f"bench: waiting until the load average is at most {CALM}", flush=True)
    end = time.monotonic() + PATIENCE
    while os.getloadavg()[0] > CALM:
        if time.monotonic() > end:
            raise SystemExit(f"bench: the load average is still {os.getloadavg()[0]:.1f}, so other programs use the cores. Stop "
                             "them, or name the rows: then no page is written")
        time.sleep(5)


def write_part(file, part, lines, load):
    """Replaces one part, which ends at the next heading."""
    page, title = file.read_text(), "\n" + part.strip().splitlines()[0] + "\n"
    following = KEPT[KEPT.index(title) + 1:]
    start = page.index(title) if title in page else page.index(following[0])
    end = page.index("\n## ", start + 1) if title in page else start
    text = part.format(date=date.today(), cores=os.cpu_count(), load=load, after=os.getloadavg()[0],
                       table="\n".join(lines))
    file.write_text(page[:start] + text + page[end:])


def write(file, lines, load):
    """Replaces the page up to the parts that this run does not measure."""
    before = file.read_text() if file.exists() else ""
    starts = [before.index(title) for title in KEPT if title in before]
    notes = before[min(starts):] if starts else ""
    total = int(re.search(r"MemTotal:\s+(\d+)", Path("/proc/meminfo").read_text())[1])
    file.write_text(PAGE.format(date=date.today(), cores=os.cpu_count(), memory=total / 2**20,
                                kernel=platform.release(), load=load, table="\n".join(lines)) + notes)


main()
