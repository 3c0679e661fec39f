"""The launcher of tests/bench/scaling.py: the stream, the sweep, and the rate limiter that both share.

Each number names the code or the template that it comes from. Numbers marked as assumed were not measured on AWS.
"""
import bisect
import collections
import math

# --- The stream: infra/aws/template.yaml, LauncherMapping -------------------------------------------------------
LANES, BATCH = 10, 25  # of each shard
STREAM_DELAY = (0.1, 0.6)  # assumed. Lambda polls a shard four times a second
# --- The sweep: SweepRule and SweepFunction in the template, launcher/src/function.rs, launcher/src/sweep.rs ----
SWEEP_EVERY, SWEEP_TIMEOUT, END_RESERVE, REPORT_RESERVE = 60, 55, 15, 3
PASS_PAUSE, PASS_WAIT = 0.25, 1
MAX_DUE, DUE_SHARDS = 1_000, 4
AT_ONCE = 32  # MAX_AT_ONCE is 64. A single organization gets half (launcher/src/fair_slots.rs)
# --- Permits: launcher/dispatch/src/ecs/start.rs ----------------------------------------------------------------
CALLS_PER_SECOND, BURST, PERMIT_TIMEOUT = 20, 20, 2
THROTTLE_PAUSE = 3  # launcher/dispatch/src/ecs/refusal.rs
TOKEN_HELD = 50 * 60  # launcher/dispatch/src/ecs.rs: an attempt that has not started by then ends as `lost`
MAX_ATTEMPTS, LOST_PAUSE = 5, 1  # crates/domain/src/failure.rs, class `lost`
# --- Due times: crates/domain/src/lifecycle.rs, crates/domain/src/deadline.rs, crates/store/src/deployment_ends.rs
START_RETRY_INTERVAL, QUEUE_CHECK, LEASE = 10, 300, 60
MIN_PUBLISH_GRACE, PUBLISH_GRACE, CLEANUP_RETRY_AFTER = 20, 60, 180  # launcher/src/cleanup.rs has the third
EXIT_PAUSES = (0.1, 0.2, 0.4, 0.8, 0.5)  # launcher/src/cleanup.rs: they double until 2 s (EXIT_WAIT) are over
# --- Assumed durations, in seconds ------------------------------------------------------------------------------
RECONCILE_SECONDS = 0.05  # reads, a decision and perhaps a write
BATCH_SECONDS = 0.1  # an invocation that only publishes
LAUNCH_SECONDS = 0.1  # the reads and the transaction of a launch
CALL_SECONDS = 0.4  # RunTask, and the write of its answer
CALL_DELAY = (0, 0.2)  # how much later than its permit says a call reaches ECS: clocks, connections, busy processes
DESCRIBE_SECONDS = 0.15  # DescribeTasks; it waits 50 ms for others to join
EXIT = (1, 3)  # from a result until ECS shows that the task's container has stopped
QUERY_SECONDS = 0.05  # the four queries of a pass
# --- Units: crates/store/src/deployments.rs and rate_limiter.rs. `gsi2` has the due times, in four shards -------
LAUNCH = {"table": 6, "environments": 2, "gsi2": 2}
SAVE = {"table": 1}  # a step that does not change the due time, such as the task's ARN
POSTPONE = {"table": 3, "gsi2": 2}  # a step that does
END_PUBLISHED = {"table": 3, "gsi2": 1}
# When the launcher looks at the tasks of an end, from the begin of its batch, and how long it does so at most.
LOOKS = tuple(number * DESCRIBE_SECONDS + sum(EXIT_PAUSES[:number]) for number in range(len(EXIT_PAUSES) + 1))
CLEANUP_SECONDS = LOOKS[-1] + DESCRIBE_SECONDS


class Bucket:
    """A token bucket with a refill rate and a size."""

    def __init__(self, rate, size):
        self.rate, self.size, self.tokens, self.at = rate, size, size, 0.0

    def has(self, now, tokens=1):
        self.tokens = min(self.size, self.tokens + (now - self.at) * self.rate)
        self.at = now
        return self.tokens >= tokens


class RateLimiter:
    """The item of the table, as crates/store/src/rate_limiter.rs changes it."""

    INTERVAL = 1 / CALLS_PER_SECOND
    TOLERANCE = INTERVAL * (BURST - 1)

    def __init__(self):
        self.full_at = self.last_retry_at = -math.inf

    def acquire(self, now):
        """A wait, whether a permit is taken, and the write units."""
        latest = now + self.TOLERANCE + PERMIT_TIMEOUT
        if self.full_at <= now:
            self.full_at = now + self.INTERVAL
            return 0.0, True, 2
        if self.full_at <= latest:
            self.full_at += self.INTERVAL
            return max(0.0, self.full_at - self.INTERVAL - self.TOLERANCE - now), True, 1
        earliest = max(self.full_at - self.TOLERANCE - PERMIT_TIMEOUT, now)
        units = 2 if self.last_retry_at >= earliest else 3
        self.last_retry_at = max(self.last_retry_at, earliest) + self.INTERVAL
        return self.last_retry_at - now, False, units


class DueIndex:
    """The deployments by due time, in four shards."""

    def __init__(self):
        self.shards = [[] for _ in range(DUE_SHARDS)]

    def set(self, one, at):
        shard = self.shards[one.number % DUE_SHARDS]
        if one.due is not None:
            del shard[bisect.bisect_left(shard, (one.due, one.number))]
        one.due = at
        if at is not None:
            bisect.insort(shard, (at, one.number, one))

    def read(self, now):
        found = []
        for shard in self.shards:
            found += shard[:min(MAX_DUE, bisect.bisect_right(shard, (now, math.inf)))]
        return [one for _, _, one in sorted(found)]


class Launcher:
    """What one reconciliation does, for a `worker`: a lane of the stream or an invocation of the sweep.

    The reconciliation calls the worker's `done` at its end, and does not continue after the worker is over. As in the
    launcher, the stream and the sweep may both start an attempt until its task is recorded, unless the attempt waits
    for its turn at ECS: both take a permit and call RunTask, and ECS answers the second call with the first one's task.
    """

    def __init__(self, simulation, shards):
        self.simulation, self.at, self.random, self.demand = (
            simulation, simulation.at, simulation.random, simulation.demand)
        self.limiter, self.due = RateLimiter(), DueIndex()
        # One task a call. "20 calls per second (burst and sustained)", and 100 launches at once, 20 a second.
        self.calls, self.tasks = Bucket(20, 20), Bucket(20, 100)
        self.called = self.deferred = self.refused = self.failed = self.late = 0
        self.lanes = [Lane(self) for _ in range(shards * LANES)]
        self.sweep = Sweep(self)

    def postpone(self, now, one, at):
        self.due.set(one, at)
        self.demand.write(now, POSTPONE)

    def reconcile(self, now, one, worker):
        self.demand.add("reads", now, 2)
        done = now + RECONCILE_SECONDS
        if one.ended is not None:
            if one.due is not None and one.due <= now:
                self.publish_late(now, one, worker)
            else:  # a record that comes after the end
                self.demand.add("describes", now, 1 / worker.JOINED)
            done = now + DESCRIBE_SECONDS
        elif one.claimed is not None:
            if one.due is not None and one.due <= now:
                self.postpone(now, one, one.claimed + LEASE)
        elif one.launched is None:
            self.demand.add("reads", now)
            if one.due > now:
                pass  # a record that comes after the sweep
            elif not self.simulation.has_turn(one):
                self.postpone(now, one, now + QUEUE_CHECK)
            else:
                one.attempts, one.launched, one.throttled = one.attempts + 1, now, False
                self.due.set(one, now + START_RETRY_INTERVAL)
                self.demand.write(now, LAUNCH)
                self.at(now + LAUNCH_SECONDS, self.start, one, worker)
                return
        elif one.recorded:
            self.postpone(now, one, now + START_RETRY_INTERVAL)
            self.demand.add("describes", now, 1 / worker.JOINED)
            done = now + DESCRIBE_SECONDS
        elif not one.throttled or one.due <= now:  # even if another process has just launched it
            self.at(done, self.start, one, worker)
            return
        self.at(done, worker.done, one)

    def start(self, now, one, worker):
        if worker.over:
            return
        if now - one.launched >= TOKEN_HELD and not one.started:
            self.lose(now, one)
            self.at(now, worker.done, one)
            return
        wait, is_granted, units = self.limiter.acquire(now)
        self.demand.write(now, {"table": units, "limiter": units})
        if is_granted:
            one.throttled = False
            self.at(now + wait + self.random.uniform(*CALL_DELAY), self.call, one, worker)
            return
        self.deferred += 1
        self.throttle(now, one, now + wait)
        self.at(now, worker.done, one)

    def throttle(self, now, one, at):
        """The attempt waits for its turn at ECS, unless another process has changed the deployment meanwhile."""
        if one.recorded or one.claimed is not None or (one.throttled and one.due > now):
            return
        one.throttled = True
        self.postpone(now, one, at)

    def call(self, now, one, worker):
        if worker.over:
            return
        self.called += 1
        self.demand.add("launches", now)
        self.at(now + CALL_SECONDS, worker.done, one)
        if self.calls.has(now) and self.tasks.has(now):
            self.calls.tokens -= 1
            self.at(now + CALL_SECONDS, self.record, one)
            if not one.started:
                self.tasks.tokens -= 1
                one.started = True
                self.simulation.start(now, one)
        else:
            self.refused += 1
            self.throttle(now, one, now + THROTTLE_PAUSE)

    def record(self, now, one):
        """Writes the task's ARN. The write fails if another process has recorded meanwhile that the attempt waits."""
        self.demand.write(now, SAVE)
        one.recorded = one.recorded or not one.throttled

    def lose(self, now, one):
        """The attempt has waited too long for its start."""
        if one.attempts < MAX_ATTEMPTS:
            one.launched = None
            self.postpone(now, one, now + LOST_PAUSE * 2 ** (one.attempts - 1))
        else:
            self.failed += 1
            self.simulation.end(now, one, failed=True)

    def publish_late(self, now, one, worker):
        """The end came due before the stream's batch had finished with it, so it is published twice."""
        self.late += 1
        self.postpone(now, one, now + CLEANUP_RETRY_AFTER)
        self.demand.add("events", now, 3)
        self.demand.add("describes", now, 1 / worker.JOINED)
        if now >= one.exits:
            self.close(now, one)

    def close(self, now, one):
        self.due.set(one, None)
        self.demand.write(now, END_PUBLISHED)

    def clean_up(self, now, one, worker):
        """The stream has published the end: waits until the job has exited. Returns how often the launcher asks ECS."""
        self.demand.add("reads", now)
        for asked, look in enumerate(LOOKS, start=1):
            answered = now + look + DESCRIBE_SECONDS
            if answered >= one.exits:
                self.at(answered, self.close, one)
                break
        self.at(answered, worker.done, one)
        return asked


class Lane:
    """The records of a tenth of a shard's keys: one batch at a time. A batch ends with its last reconciliation."""

    JOINED, over = 1, False  # each observation is a call of DescribeTasks of its own

    def __init__(self, launcher):
        self.launcher, self.records, self.left, self.began = launcher, collections.deque(), 0, 0.0
        self.behind = 0.0  # the longest time from a write to its batch

    def deliver(self, now, kind, one, written):
        self.records.append((kind, one, written))
        if not self.left:
            self.batch(now)

    def batch(self, now):
        launcher, last, asked = self.launcher, {}, 0
        self.began = now
        for _ in range(min(BATCH, len(self.records))):
            kind, one, written = self.records.popleft()
            self.behind = max(self.behind, now - written)
            last[one] = kind
            launcher.demand.add("records", now)
            launcher.demand.add("events", now)
        self.left = len(last)
        for one, kind in last.items():
            if kind == "ended":
                asked = max(asked, launcher.clean_up(now, one, self))
            elif kind == "turn" and one.launched is not None:
                # The lane launches it by the record's image, loses against the sweep, and reads the deployment.
                launcher.at(now + LAUNCH_SECONDS, launcher.reconcile, one, self)
            elif kind == "turn" or (one.due is not None and one.due <= now):
                launcher.reconcile(now, one, self)
            else:
                launcher.at(now + BATCH_SECONDS, self.done, one)
        for look in LOOKS[:asked]:  # one call for all tasks of a batch
            launcher.demand.add("describes", now + look)

    def done(self, now, _):
        self.left -= 1
        if not self.left:
            self.launcher.demand.spread("concurrency", self.began, now)
            if self.records:
                self.batch(now)


class Sweep:
    """The function `sweep`, which begins every minute and is never called twice at once."""

    JOINED = AT_ONCE / 4  # assumed: how many observations one DescribeTasks answers

    def __init__(self, launcher):
        self.launcher = launcher
        launcher.at(launcher.random.uniform(0, SWEEP_EVERY), self.begin)

    def begin(self, now):
        if self.launcher.simulation.active:
            Invocation(self.launcher, now)
            self.launcher.at(now + SWEEP_EVERY, self.begin)


class Invocation:
    """Passes until nothing is due or the time is over; then it waits for the reconciliations that it has begun."""

    JOINED = Sweep.JOINED

    def __init__(self, launcher, now):
        self.launcher, self.began, self.over = launcher, now, False
        self.waiting, self.busy, self.seen = collections.deque(), set(), set()
        self.free, self.pause, self.passes, self.joins = AT_ONCE, PASS_PAUSE, 0, False
        self.is_last = False
        launcher.at(now + SWEEP_TIMEOUT - REPORT_RESERVE, self.cut)
        self.query(now)

    def query(self, now):
        self.launcher.at(now + QUERY_SECONDS, self.do_pass)

    def do_pass(self, now):
        due = self.launcher.due.read(now)
        self.launcher.demand.add("reads", now, 2 + len(due) * 0.02)  # half a unit for 4 KB of the index
        if not due:
            self.is_last = True
        known = len(self.seen)
        self.seen.update(due)
        self.pause = PASS_PAUSE if len(self.seen) > known else self.pause * 2
        for one in due:
            if one not in self.busy:
                self.busy.add(one)
                self.waiting.append(one)
        self.fill(now)
        self.passes, self.joins = self.passes + 1, True
        self.joined(now)
        if self.joins:
            self.launcher.at(now + PASS_WAIT, self.waited, self.passes)

    def fill(self, now):
        while self.free and self.waiting:
            self.free -= 1
            self.launcher.reconcile(now, self.waiting.popleft(), self)

    def done(self, now, one):
        if self.over:
            return
        self.free += 1
        self.busy.discard(one)
        self.fill(now)
        self.joined(now)

    def joined(self, now):
        """If no reconciliation runs, the invocation continues or ends."""
        if self.busy:
            return
        if self.is_last:
            self.cut(now)
        elif self.joins:
            self.go_on(now)

    def waited(self, now, passes):
        if self.joins and passes == self.passes and not self.over:
            self.go_on(now)

    def go_on(self, now):
        self.joins = False
        if self.is_last or now + self.pause + END_RESERVE >= self.began + SWEEP_TIMEOUT:
            self.is_last = True
            if not self.busy:
                self.cut(now)
        else:
            self.query(now + self.pause)

    def cut(self, now):
        """The end. What still runs or waits stays due."""
        if not self.over:
            self.over = True
            self.launcher.demand.spread("concurrency", self.began, now)
