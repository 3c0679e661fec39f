#!/usr/bin/env python3
"""Simulates 10,000 deployments in an hour over 2,000 environments against the quotas of an AWS account.

    tests/bench/scaling.py            prints the tables of docs/scaling.md
    tests/bench/scaling.py --write    puts them into docs/scaling.md
    tests/bench/scaling.py --check    fails if docs/scaling.md has others

The program contacts no server, and its seed is fixed: the same program gives the same tables. What has feedback is
simulated event by event: the queue of each environment, the lanes of the stream, refused launches and their retries by
the sweep. What has none (requests, units, open polls) is summed by the second. docs/scaling.md cites the documentation
of each quota; the figures of Canyon name the code that they come from.
"""
import argparse
import heapq
import itertools
import math
import pathlib
import random
import sys

PAGE = pathlib.Path(__file__).resolve().parents[2] / "docs" / "scaling.md"
BEGIN, END = "<!-- scaling.py: begin -->", "<!-- scaling.py: end -->"
SEED = 7

# --- The load ---------------------------------------------------------------------------------------------------
DEPLOYMENTS = 10_000
HOUR = 3_600
ENVIRONMENTS = 2_000
# Assumed: how long Fargate takes from RunTask to the claim, and how long a run takes from claim to end.
START = (20, 90, 35)  # seconds: least, most, most frequent (triangular)
RUN_MEDIAN, RUN_SPREAD, RUN_LEAST, RUN_MOST = 90, 0.7, 20, 1_800  # seconds (log-normal)
TASK_VCPU = 1

# --- Canyon -----------------------------------------------------------------------------------------------------
API_SECONDS = 0.03  # assumed: wall time of a warm, short request
BATCH_SECONDS = 0.1  # assumed: an invocation of the launcher without a launch
RUN_TASK_SECONDS = 0.5  # assumed: a launch, RunTask included
STREAM_DELAY = (0.1, 0.6)  # assumed. Lambda polls a shard four times a second
SHARDS, LANES, BATCH = 1, 10, 25  # infra/aws/template.yaml: LauncherMapping. One shard is the worst case
SWEEP_EVERY, SWEEP_LASTS, AT_ONCE = 60, 40, 32  # SweepRule; launcher/src/function.rs; launcher/src/sweep.rs
MAX_ATTEMPTS, FIRST_PAUSE = 5, 5  # crates/domain/src/failure.rs, class `throttled`
HEARTBEAT = 15  # functions/src/app/runs.rs
TALKS, BATCH_PAUSE, CHATTER = 10, 0.35, 10  # seconds at begin and end with uploads, at least
# 300 ms apart (crates/runner/src/shipper.rs); in between OpenTofu reports every 10 s that it still works.
STATUS_SECONDS, LONG_POLLS = 0.5, 2  # crates/cli/src/follow.rs: the status twice a second, beside two long polls
# Write units by step, from crates/store/src/deployments.rs; `environments` and `audit` are one partition each.
ACCEPT = {"table": 13, "environments": 2, "audit": 2, "gsi1": 1, "gsi2": 1}
LAUNCH = {"table": 6, "environments": 2, "gsi2": 2}
CLAIM = {"table": 1}
APPLY = {"table": 1}
BEAT = {"table": 3, "gsi2": 2}
ENDED = {"table": 8, "environments": 2, "audit": 2, "gsi2": 2}
END_PUBLISHED = {"table": 3, "gsi2": 1}
DUE_SHARDS = 4

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
    ("records", "Stream: records served, one shard", SHARDS * LANES * BATCH / (BATCH_SECONDS + RUN_TASK_SECONDS), "/s"),
    ("launches", "ECS: RunTask calls", 20, "/s"),
    ("vcpu", "Fargate: vCPUs at once (assumed quota: look yours up)", 1_000, ""),
    ("puts", "S3: PUT, one prefix", 3_500, "/s"),
    ("lists", "S3: GET and LIST, one prefix", 5_500, "/s"),
    ("events", "EventBridge: PutEvents, us-east-1", 10_000, "/s"),
]


class Bucket:
    """A token bucket with a refill rate and a size."""

    def __init__(self, rate, size):
        self.rate, self.size, self.tokens, self.at = rate, size, size, 0.0

    def has(self, now, tokens=1):
        self.tokens = min(self.size, self.tokens + (now - self.at) * self.rate)
        self.at = now
        return self.tokens >= tokens


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


class Deployment:
    def __init__(self, accepted, environment, lane, followed):
        self.accepted, self.environment, self.lane, self.followed = accepted, environment, lane, followed
        self.attempts, self.claimed, self.waited = 0, None, False


class Simulation:
    """One hour. `tries` is how often a refused call is retried at once, with the SDK's pauses, before the
    attempt counts as failed."""

    def __init__(self, arrivals, followers=0.0, environments=ENVIRONMENTS, tries=1):
        self.random, self.tries = random.Random(SEED), tries
        self.demand = Demand()
        # One task a call. "20 calls per second (burst and sustained)", and 100 launches at once, 20 a second.
        self.calls, self.tasks = Bucket(20, 20), Bucket(20, 100)
        self.queues, self.lanes = {}, [{"busy": False, "records": []} for _ in range(SHARDS * LANES)]
        self.heap, self.order = [], itertools.count()
        self.due, self.waits, self.behind, self.refused, self.failed, self.active = [], [], 0, 0, 0, 0
        for at in arrivals:
            environment = self.random.randrange(environments)
            lane = self.random.randrange(len(self.lanes))
            followed = self.random.random() < followers
            self.at(at, self.accept, Deployment(at, environment, lane, followed))
            self.active += 1
        self.at(self.random.uniform(0, SWEEP_EVERY), self.sweep)
        while self.heap:
            now, _, what, arguments = heapq.heappop(self.heap)
            what(now, *arguments)

    def at(self, now, what, *arguments):
        heapq.heappush(self.heap, (now, next(self.order), what, arguments))

    def request(self, now, count=1):
        self.demand.add("requests", now, count)
        self.demand.add("concurrency", now, count * API_SECONDS)

    # --- api ---
    def accept(self, now, one):
        self.request(now, 2)  # is the archive there, and the order
        self.demand.write(now, ACCEPT)
        self.demand.add("reads", now, 4)
        queue = self.queues.setdefault(one.environment, [])
        one.waited = bool(queue)
        queue.append(one)
        self.record(now, "turn", one)

    def claim(self, now, one, launched):
        one.claimed = now
        if one.waited:
            self.behind += 1
        else:
            self.waits.append(now - one.accepted)
        run = min(max(self.random.lognormvariate(math.log(RUN_MEDIAN), RUN_SPREAD), RUN_LEAST), RUN_MOST)
        self.request(now, 2)  # the claim and the module
        self.demand.write(now, CLAIM)
        self.demand.add("reads", now, 4)
        self.demand.write(now + TALKS, APPLY)
        self.reports(now, run)
        self.record(now, "claimed", one)
        self.demand.during("vcpu", launched, now + run, TASK_VCPU)
        self.at(now + run, self.end, one)

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
        for beat in range(HEARTBEAT, int(run), HEARTBEAT):
            self.demand.write(now + beat, BEAT)

    def end(self, now, one):
        self.request(now)
        self.demand.write(now, ENDED)
        self.demand.add("reads", now, 3)
        self.demand.add("puts", now)  # outputs
        self.over(now, one)

    def over(self, now, one):
        self.active -= 1
        if one.followed:
            self.demand.during("requests", one.accepted, now, 1 / STATUS_SECONDS + 1)  # the status, and pieces of the log
            self.demand.during("concurrency", one.accepted, now, LONG_POLLS + API_SECONDS / STATUS_SECONDS)
            self.demand.during("reads", one.accepted, now, 1 / STATUS_SECONDS + LONG_POLLS)  # each poll reads once a second
            self.demand.during("lists", one.accepted, now, 1)
        queue = self.queues[one.environment]
        queue.remove(one)
        self.record(now, "ended", one)
        if queue:
            self.record(now, "turn", queue[0])

    # --- launcher ---
    def record(self, now, kind, one):
        self.at(now + self.random.uniform(*STREAM_DELAY), self.deliver, kind, one)

    def deliver(self, now, kind, one):
        lane = self.lanes[one.lane]
        lane["records"].append((kind, one))
        if not lane["busy"]:
            self.batch(now, lane)

    def batch(self, now, lane):
        batch, lane["records"] = lane["records"][:BATCH], lane["records"][BATCH:]
        lane["busy"] = bool(batch)
        if not batch:
            return
        launches = 0
        for kind, one in batch:
            self.demand.add("reads", now, 2)
            if kind == "turn" and one.attempts == 0 and self.queues[one.environment][:1] == [one]:
                launches += 1
                self.launch(now, one)
            else:
                self.demand.add("events", now)
            if kind == "ended":
                self.demand.write(now, END_PUBLISHED)
        lasts = BATCH_SECONDS + (RUN_TASK_SECONDS if launches else 0)
        self.demand.add("concurrency", now, lasts)
        self.demand.add("records", now, len(batch))
        self.at(now + lasts, self.batch, lane)

    def launch(self, now, one):
        one.attempts += 1
        self.demand.write(now, LAUNCH)
        self.demand.add("reads", now, 4)
        if one.attempts == 1:
            self.demand.add("events", now)
        self.call(now, one, 1)

    def call(self, now, one, tried):
        self.demand.add("launches", now)
        if self.calls.has(now) and self.tasks.has(now):
            self.calls.tokens -= 1
            self.tasks.tokens -= 1
            self.at(now + self.random.triangular(*START), self.claim, one, now)
            return
        self.refused += 1
        if tried < self.tries:
            self.at(now + self.random.random() * 2 ** (tried - 1), self.call, one, tried + 1)
            return
        self.demand.write(now, CLAIM)  # the attempt is over
        if one.attempts < MAX_ATTEMPTS:
            heapq.heappush(self.due, (now + FIRST_PAUSE * 2 ** (one.attempts - 1), next(self.order), one))
        else:
            self.failed += 1
            self.demand.write(now, ENDED)
            self.over(now, one)

    # --- sweep ---
    def sweep(self, now):
        if self.active:
            self.demand.add("reads", now, 2)
            self.look(now, now, 0.25)
            self.at(now + SWEEP_EVERY, self.sweep)

    def look(self, now, began, pause):
        due = []
        while self.due and self.due[0][0] <= now:
            due.append(heapq.heappop(self.due)[2])
        if not due:
            return
        for index, one in enumerate(due):
            self.at(now + index // AT_ONCE * RUN_TASK_SECONDS, self.launch, one)
        done = now + math.ceil(len(due) / AT_ONCE) * RUN_TASK_SECONDS
        self.demand.during("concurrency", now, done, 1)
        if done < began + SWEEP_LASTS:
            self.at(done + pause, self.look, began, pause * 2)


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
    took = simulation.waits
    return "| {} | {:.0f} s | {:.0f} s | {:.0f} s | {:,} | {:,} | {:,} |".format(
        name, percentile(took, 0.5), percentile(took, 0.99), max(took), simulation.behind, simulation.refused,
        simulation.failed)


def tables():
    minute, second = arrivals(1_000, 60), arrivals(1_000, 1)
    patterns = [
        ("evenly over the hour", Simulation(evenly(DEPLOYMENTS, 0, HOUR, SEED))),
        ("1,000 in the first minute", Simulation(minute)),
        ("500 in the first second", Simulation(arrivals(500, 1))),
        ("1,000 in the first second", Simulation(second)),
        ("1,000 in the first second, each call tried three times", Simulation(second, tries=3)),
        ("2,000 in the first second", Simulation(arrivals(2_000, 1))),
    ]
    head = ["accepted to claimed, p50", "p99", "most", "behind another", "refused calls", "failed"]
    lines = ["| 10,000 deployments | " + " | ".join(head) + " |", "|---" * 7 + "|"]
    lines += [waits(name, simulation) for name, simulation in patterns]

    lines += ["", "| evenly | " + " | ".join(head) + " |", "|---" * 7 + "|"]
    for times in (2, 4, 6, 8):
        simulation = Simulation(evenly(times * DEPLOYMENTS, 0, HOUR, SEED), environments=times * ENVIRONMENTS)
        lines.append(waits(f"{times * DEPLOYMENTS:,} in {times * ENVIRONMENTS:,} environments", simulation))

    alone, followed = Simulation(minute), Simulation(minute, followers=1.0)
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


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--write", action="store_true", help="put the tables into docs/scaling.md")
    parser.add_argument("--check", action="store_true", help="fail if docs/scaling.md has others")
    options = parser.parse_args()
    made = tables()
    if not (options.write or options.check):
        print(made)
        return 0
    page = PAGE.read_text(encoding="utf-8")
    before, _, rest = page.partition(BEGIN)
    _, found, after = rest.partition(END)
    if not found:
        print(f"scaling: {PAGE} has no place for the tables: {BEGIN} ... {END}", file=sys.stderr)
        return 1
    new = f"{before}{BEGIN}\n{made}\n{END}{after}"
    if options.check and new != page:
        print("scaling: the tables of docs/scaling.md are not current; run: tests/bench/scaling.py --write",
              file=sys.stderr)
        return 1
    if options.write:
        PAGE.write_text(new, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
