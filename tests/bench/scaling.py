#!/usr/bin/env python3
"""Simulates 10,000 deployments, in an hour and in one second, against the quotas of an AWS account.

    tests/bench/scaling.py            prints the tables of docs/scaling.md
    tests/bench/scaling.py --write    puts them into docs/scaling.md
    tests/bench/scaling.py --check    fails if docs/scaling.md has others, or was made from other inputs

A mark in the page holds a digest of these programs, of the measured figures that they read, and of the tables. So the
check needs no simulation, which takes more than a minute.

The program contacts no server, and its seed is fixed: the same program gives the same tables. What has feedback is
simulated event by event: the queue of each environment, and the launcher (scaling_launcher.py) with the stream, the
permits, RunTask and the sweep. What has none (requests, units, open polls) is summed by the second. docs/scaling.md
cites the documentation of each quota; the figures of Canyon name the code that they come from.
"""
import argparse
import hashlib
import heapq
import itertools
import math
import pathlib
import random
import re
import statistics
import sys

sys.dont_write_bytecode = True  # scripts/check runs this file in a checkout, which must stay clean

from scaling_launcher import (  # noqa: E402
    BATCH, CALLS_PER_SECOND, CLEANUP_SECONDS, DUE_SHARDS, EXIT, LANES, LEASE, MIN_PUBLISH_GRACE, PUBLISH_GRACE,
    RECONCILE_SECONDS, STREAM_DELAY, Bucket, Launcher)

PAGE = pathlib.Path(__file__).resolve().parents[2] / "docs" / "scaling.md"
BEGIN, END = re.compile(r"<!-- scaling\.py: begin, sha256 (\S+) -->\n"), "\n<!-- scaling.py: end -->"
SEED = 7

# --- The load ---------------------------------------------------------------------------------------------------
DEPLOYMENTS = 10_000
HOUR = 3_600
ENVIRONMENTS = 2_000
# Assumed: how long Fargate takes from RunTask to the claim, and how long a run takes from claim to end.
START = (20, 90, 35)  # seconds: least, most, most frequent (triangular)
RUN = (90, 0.7, 20, 1_800)  # seconds, but the spread: median, spread, least, most (log-normal)
USUAL, NULL = (START, RUN), ((1, 1, 1), (1, 0, 1, 1))  # null jobs show what the launcher itself allows
TASK_VCPU = 1

# --- Canyon -----------------------------------------------------------------------------------------------------
API_SECONDS = 0.03  # assumed: wall time of a warm, short request
HEARTBEAT = LEASE / 4  # crates/domain/src/lifecycle.rs: what comes earlier is not written
TALKS, BATCH_PAUSE, CHATTER = 10, 0.35, 10  # seconds at begin and end with uploads, at least
# 300 ms apart (crates/runner/src/shipper.rs); in between OpenTofu reports every 10 s that it still works.
STATUS_SECONDS, LONG_POLLS = 0.5, 2  # crates/cli/src/follow.rs: the status twice a second, beside two long polls
# Write units by step, from crates/store/src/deployments.rs and deployment_ends.rs. `environments` and `audit` are one
# partition each. Only the ended deployment's item is assumed to exceed 1 KB: then the sum of a deployment that does not
# wait, with one POSTPONED, is the 34 units of docs/performance.md. On ECS the permit and the task's ARN come on top.
ACCEPT = {"table": 13, "environments": 2, "audit": 2, "gsi1": 1, "gsi2": 1}  # with an idempotency key
CLAIM = {"table": 1}
APPLY = {"table": 1}
BEAT = {"table": 1}
ENDED = {"table": 8, "environments": 2, "audit": 2}
POSTPONED = {"table": 2, "gsi2": 2}  # on top of a claim, a heartbeat or an end that changes the due time
NEXT = {"table": 4, "gsi2": 2}  # an end makes the next deployment of its environment due
# Read units by step, beside one for each report, and three of the launcher. What docs/performance.md measures, with two
# reports, has the rest at the acceptance: it includes new processes, limits and hints.
CLAIM_READS, END_READS = 3, 2
READS = re.findall(r"by the stream, .*, ([\d.]+) read units", (PAGE.parent / "performance.md").read_text(encoding="utf-8"))
READS = round(statistics.mean(map(float, READS)), 1)
ACCEPT_READS = READS - CLAIM_READS - END_READS - 2 - 3

# Records that a shard's lanes serve in a second, if each batch is full and waits for the task of an end.
RECORDS = LANES * BATCH / (RECONCILE_SECONDS + CLEANUP_SECONDS)

# --- The quotas: name, limit, unit ------------------------------------------------------------------------------
QUOTAS = [
    ("requests", "API Gateway: rate limit of the stage (`ApiRateLimit`)", 500, "/s"),
    ("requests", "API Gateway: the account's rate", 10_000, "/s"),
    ("concurrency", "Lambda: concurrent executions of the account", 1_000, ""),
    ("table", "DynamoDB: writes of a new on-demand table", 4_000, "units/s"),
    ("reads", "DynamoDB: reads of a new on-demand table", 12_000, "units/s"),
    ("environments", "DynamoDB: partition of an organization's environments", 1_000, "units/s"),
    ("audit", "DynamoDB: partition of an organization's audit records", 1_000, "units/s"),
    ("gsi1", "DynamoDB: partition of an organization in `gsi1`", 1_000, "units/s"),
    ("gsi2", "DynamoDB: each of the four due shards in `gsi2`", 1_000, "units/s"),
    ("limiter", "DynamoDB: the item of RunTask's permits", 1_000, "units/s"),
    ("records", "Stream: records served, one shard, an end in each batch", RECORDS, "/s"),
    ("launches", "ECS: RunTask calls", CALLS_PER_SECOND, "/s"),
    ("describes", "ECS: DescribeTasks calls (100 at once)", 20, "/s"),
    ("vcpu", "Fargate: vCPUs at once (assumed quota: look yours up)", 1_000, ""),
    ("puts", "S3: PUT, one prefix", 3_500, "/s"),
    ("lists", "S3: GET and LIST, one prefix", 5_500, "/s"),
    ("events", "EventBridge: PutEvents, us-east-1", 10_000, "/s"),
]


class Demand:
    """The demand on each quota, second by second."""

    def __init__(self):
        self.at_once, self.steady = {}, {}

    def add(self, name, now, amount=1.0):
        seconds = self.at_once.setdefault(name, {})
        seconds[int(now)] = seconds.get(int(now), 0.0) + amount

    def during(self, name, begin, end, rate):
        """From `begin` to `end`; stores the changes of the rate, which are summed up at the end."""
        changes = self.steady.setdefault(name, {})
        changes[int(begin)] = changes.get(int(begin), 0.0) + rate
        changes[int(end) + 1] = changes.get(int(end) + 1, 0.0) - rate

    def spread(self, name, begin, end):
        """One from `begin` to `end`, each second with its part."""
        for second in range(int(begin), int(end) + 1):
            self.add(name, second, min(end, second + 1) - max(begin, second))

    def write(self, now, units):
        for name, amount in units.items():
            self.add(name, now, amount / (DUE_SHARDS if name == "gsi2" else 1))

    def seconds(self, name):
        once, changes, rate = self.at_once.get(name, {}), self.steady.get(name, {}), 0.0
        for second in range(max([0, *once, *changes]) + 1):
            rate += changes.get(second, 0.0)
            yield second, rate + once.get(second, 0.0)

    def of(self, name):
        """Mean over the hour of the load, and the most in a second."""
        seconds = list(self.seconds(name))
        return sum(now for second, now in seconds if second < HOUR) / HOUR, max(now for _, now in seconds)

    def refused_by(self, bucket, name):
        """The share that a bucket refuses, if callers do not retry."""
        refused = total = 0.0
        for second, now in self.seconds(name):
            bucket.has(second)
            taken = min(now, bucket.tokens)
            bucket.tokens -= taken
            refused, total = refused + now - taken, total + now
        return refused / total


class NoDemand:
    """For simulations of which no table shows the demand."""

    def add(self, *_):
        pass

    during = spread = write = add


class Deployment:
    def __init__(self, number, accepted, environment, lane, followed):
        self.number, self.accepted, self.environment, self.lane, self.followed = (
            number, accepted, environment, lane, followed)
        # ECS has the task; the table has it too; the attempt waits for its turn at ECS.
        self.waited = self.started = self.recorded = self.throttled = False
        self.attempts, self.due, self.launched, self.claimed, self.ended, self.exits = 0, None, None, None, None, None


class Simulation:
    """A load, until its last deployment has ended."""

    def __init__(self, arrivals, followers=0.0, environments=ENVIRONMENTS, *, in_turn=False, job=USUAL, shards=1,
                 watched=False):
        self.random, (self.start_seconds, self.run_seconds) = random.Random(SEED), job
        self.demand = Demand() if watched else NoDemand()
        self.heap, self.order = [], itertools.count()
        self.queues, self.busy = {}, {}
        self.waits, self.behind, self.active, self.last_start, self.last_claim, self.last_end = (
            [], 0, len(arrivals), 0.0, 0.0, 0.0)
        self.launcher = Launcher(self, shards)
        for number, at in enumerate(arrivals):
            environment = number % environments if in_turn else self.random.randrange(environments)
            lane = self.random.choice(self.launcher.lanes)
            followed = self.random.random() < followers
            self.at(at, self.accept, Deployment(number, at, environment, lane, followed))
        while self.heap:
            now, _, what, arguments = heapq.heappop(self.heap)
            what(now, *arguments)

    def at(self, now, what, *arguments):
        heapq.heappush(self.heap, (now, next(self.order), what, arguments))

    def request(self, now, count=1):
        self.demand.add("requests", now, count)
        self.demand.add("concurrency", now, count * API_SECONDS)

    def record(self, now, kind, one):
        self.at(now + self.random.uniform(*STREAM_DELAY), one.lane.deliver, kind, one, now)

    def has_turn(self, one):
        return self.queues[one.environment][0] is one

    # --- api ---
    def accept(self, now, one):
        self.request(now, 2)  # is the archive there, and the order
        self.demand.write(now, ACCEPT)
        self.demand.add("reads", now, ACCEPT_READS)
        queue = self.queues.setdefault(one.environment, [])
        one.waited = bool(queue)
        queue.append(one)
        self.launcher.due.set(one, now)
        self.record(now, "turn", one)

    def start(self, now, one):
        """ECS has accepted the task."""
        self.last_start = now
        self.at(now + self.random.triangular(*self.start_seconds), self.claim, one, now)

    def claim(self, now, one, launched):
        one.claimed = self.last_claim = now
        if one.waited:
            self.behind += 1
        else:
            self.waits.append(now - one.accepted)
        median, spread, least, most = self.run_seconds
        run = min(max(self.random.lognormvariate(math.log(median), spread), least), most)
        self.busy[one.environment] = self.busy.get(one.environment, 0.0) + now - launched + run
        self.request(now, 2)  # the claim and the module
        self.demand.add("reads", now, CLAIM_READS)
        self.demand.write(now, CLAIM)
        if one.due <= now:
            self.postpone(now, one, now + LEASE)
        self.demand.write(now + min(TALKS, run / 2), APPLY)
        self.reports(now, run)
        self.record(now, "claimed", one)
        self.demand.during("vcpu", launched, now + run, TASK_VCPU)
        if run > HEARTBEAT:
            self.at(now + HEARTBEAT, self.beats, one, now + run)
        self.at(now + run, self.end, one)

    def postpone(self, now, one, due):
        self.launcher.due.set(one, due)
        self.demand.write(now, POSTPONED)

    def beats(self, now, one, end):
        """All heartbeats of a run at the first one: from then on the due time does not come before the end."""
        due = one.due
        while now < end:
            self.demand.write(now, BEAT)
            if due < now + LEASE / 2:
                due = now + LEASE
                self.demand.write(now, POSTPONED)
            now += HEARTBEAT
        self.launcher.due.set(one, due)

    def reports(self, now, run):
        talks = min(TALKS, run / 2)
        spells = [(now, now + talks, 1 / BATCH_PAUSE), (now + talks, now + run - talks, 1 / CHATTER),
                  (now + run - talks, now + run, 1 / BATCH_PAUSE)]
        for begin, end, rate in spells:
            end = max(begin, end - 1)  # both seconds count
            self.demand.during("requests", begin, end, rate)
            self.demand.during("concurrency", begin, end, rate * API_SECONDS)
            self.demand.during("reads", begin, end, rate)
            self.demand.during("puts", begin, end, 2 * rate)  # a piece of the log, one of the events

    def end(self, now, one, failed=False):
        """The result of a run, or the launcher gives the deployment up."""
        if not failed:
            self.request(now)
            self.demand.add("puts", now)  # outputs
        self.demand.write(now, ENDED)
        self.demand.add("reads", now, END_READS)
        self.active -= 1
        self.last_end, one.ended = now, now
        one.exits = now if failed else now + self.random.uniform(*EXIT)
        if failed or not now + MIN_PUBLISH_GRACE <= one.due <= now + PUBLISH_GRACE:
            self.postpone(now, one, now + PUBLISH_GRACE)
        if one.followed:
            # The status, and pieces of the log. Each long poll reads once a second.
            self.demand.during("requests", one.accepted, now, 1 / STATUS_SECONDS + 1)
            self.demand.during("concurrency", one.accepted, now, LONG_POLLS + API_SECONDS / STATUS_SECONDS)
            self.demand.during("reads", one.accepted, now, 1 / STATUS_SECONDS + LONG_POLLS)
            self.demand.during("lists", one.accepted, now, 1)
        queue = self.queues[one.environment]
        queue.remove(one)
        self.record(now, "ended", one)
        if queue:
            self.demand.write(now, NEXT)
            self.demand.add("reads", now)
            self.launcher.due.set(queue[0], now)
            self.record(now, "turn", queue[0])


# --- Arrivals ---------------------------------------------------------------------------------------------------
def evenly(count, begin, end, seed):
    chance = random.Random(seed)
    return sorted(chance.uniform(begin, end) for _ in range(count))


def arrivals(first, within, total=DEPLOYMENTS):
    """`first` of them within the first seconds, the others evenly over the hour."""
    return evenly(first, 0, within, SEED) + evenly(total - first, within, HOUR, SEED + 1)


# --- Tables -----------------------------------------------------------------------------------------------------
def percentile(values, share):
    values = sorted(values)
    return values[min(len(values) - 1, int(share * len(values)))] if values else 0.0


def number(value):
    return f"{value:,.0f}" if value >= 10 else f"{value:,.1f}"


def waits(name, simulation):
    took, launcher = simulation.waits, simulation.launcher
    return "| {} | {:.0f} s | {:.0f} s | {:.0f} s | {:,} | {:,} | {:,} | {:,} |".format(
        name, percentile(took, 0.5), percentile(took, 0.99), max(took), simulation.behind, launcher.deferred,
        launcher.refused, launcher.failed)


def burst(name, job, environments, shards=1):
    """All deployments within a second, equally many in each environment."""
    simulation = Simulation(evenly(DEPLOYMENTS, 0, 1, SEED), environments=environments, in_turn=True, job=job,
                            shards=shards)
    launcher = simulation.launcher
    line = "| {} | {:,.0f} s | {:,.0f} s | {:,.0f} s | {:,.0f} s | {:.1f} | {:,.0f} s | {:,} | {:,} | {:,} | {:,} |"
    return line.format(
        name, DEPLOYMENTS / CALLS_PER_SECOND, max(simulation.busy.values()), simulation.last_claim, simulation.last_end,
        DEPLOYMENTS / simulation.last_start, max(lane.behind for lane in launcher.lanes), launcher.late,
        launcher.called, launcher.refused, launcher.failed)


def tables():
    minute = arrivals(1_000, 60)
    alone, followed = Simulation(minute, watched=True), Simulation(minute, followers=1.0, watched=True)
    patterns = [
        ("evenly over the hour", Simulation(evenly(DEPLOYMENTS, 0, HOUR, SEED))),
        ("1,000 in the first minute", alone),
        ("500 in the first second", Simulation(arrivals(500, 1))),
        ("1,000 in the first second", Simulation(arrivals(1_000, 1))),
        ("2,000 in the first second", Simulation(arrivals(2_000, 1))),
    ]
    head = ["accepted to claimed, p50", "p99", "most", "behind another", "retry times", "refused calls", "failed"]
    lines = ["| 10,000 deployments | " + " | ".join(head) + " |", "|---" * 8 + "|"]
    lines += [waits(name, simulation) for name, simulation in patterns]

    lines += ["", "| evenly | " + " | ".join(head) + " |", "|---" * 8 + "|"]
    for times in (6, 7, 8):
        simulation = Simulation(evenly(times * DEPLOYMENTS, 0, HOUR, SEED), environments=times * ENVIRONMENTS)
        lines.append(waits(f"{times * DEPLOYMENTS:,} in {times * ENVIRONMENTS:,} environments", simulation))

    head = ["bound by RunTask", "by the longest environment", "last claimed", "all ended", "launches/s",
            "stream behind, most", "late ends", "RunTask calls", "refused calls", "failed"]
    lines += ["", "| 10,000 in the first second | " + " | ".join(head) + " |", "|---" * 11 + "|",
              burst("usual runs, 10 in each of 1,000 environments", USUAL, 1_000),
              burst("null jobs, 10 in each of 1,000 environments", NULL, 1_000),
              burst("the same, a stream of four shards", NULL, 1_000, shards=4),
              burst("usual runs, 1 in each of 10,000 environments", USUAL, 10_000),
              burst("null jobs, 1 in each of 10,000 environments", NULL, 10_000)]

    lines += ["", "| 1,000 in the first minute | limit | none is followed: mean | peak | used | exhausted at "
              "| all are followed: mean | peak | used | exhausted at |", "|---" * 10 + "|"]
    for key, name, limit, unit in QUOTAS:
        cells = [name, f"{limit:,.0f} {unit}".strip()]
        for simulation in (alone, followed):
            mean, most = simulation.demand.of(key)
            cells += [number(mean), number(most), f"{100 * most / limit:,.0f} %",
                      f"{limit / most:,.1f} x" if most else "-"]
        lines.append("| " + " | ".join(cells) + " |")
    lines += ["", "| requests refused by the stage (500/s, 1,000 at once) | |", "|---|---|"]
    for name, simulation in (("none is followed", alone), ("all are followed", followed)):
        share = simulation.demand.refused_by(Bucket(500, 1_000), "requests")
        lines.append(f"| {name} | {100 * share:.1f} % |")
    return "\n".join(lines)


def mark(made):
    """The line before the tables, as BEGIN reads it."""
    here = pathlib.Path(__file__).parent
    digest = hashlib.sha256(f"{READS:g}\0{made}\0".encode())
    for program in ("scaling.py", "scaling_launcher.py"):
        digest.update((here / program).read_bytes())
    return f"<!-- scaling.py: begin, sha256 {digest.hexdigest()} -->\n"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--write", action="store_true", help="put the tables into docs/scaling.md")
    parser.add_argument("--check", action="store_true", help="fail if docs/scaling.md has others")
    options = parser.parse_args()
    if not (options.write or options.check):
        print(tables())
        return 0
    page = PAGE.read_text(encoding="utf-8")
    begin = BEGIN.search(page)
    end = page.find(END, begin.end() if begin else 0)
    if not begin or end < 0:
        print(f"scaling: {PAGE} has no place for the tables: {BEGIN.pattern.strip()} ... {END.strip()}", file=sys.stderr)
        return 1
    if f"| reads | {READS:g} units measured" not in page:
        print(f"scaling: {PAGE} has other reads than the {READS:g} units of performance.md", file=sys.stderr)
        return 1
    if options.check and begin.group() != mark(page[begin.end():end]):
        print("scaling: the tables of docs/scaling.md are not current; run: tests/bench/scaling.py --write",
              file=sys.stderr)
        return 1
    if options.write:
        made = tables()
        PAGE.write_text(f"{page[:begin.start()]}{mark(made)}{made}{page[end:]}", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
