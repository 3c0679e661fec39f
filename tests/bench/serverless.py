"""The measurements of the functions. Each function measures the rows of one subject, and yields them."""

import json
import os
import subprocess
import tempfile
from pathlib import Path

from rows import Row

POLLS_A_MINUTE = 12  # AgentPollSeconds, 5
FUNCTIONS = ("api", "events", "issuer", "launcher", "sweep")


def lambda_size(bench):
    """The programs as they are published, for this machine."""
    for name in FUNCTIONS:
        megabytes = (bench.published / name / "bootstrap").stat().st_size / 1e6
        # Those of `scripts/build` for x86_64.
        budget = {"api": 19.4, "events": 12, "issuer": 7.8}.get(name, 17.4)
        yield Row(f"size of `{name}`, stripped", f"<= {budget} MB", f"{megabytes:.1f} MB",
                  megabytes <= budget)


def lambda_start(bench):
    """Alternating starts: hello, api, events, issuer, launcher, sweep, hello, ..."""
    found = {reading["program"]: reading for reading in readings(bench, "start", published(bench))}
    hello = found["hello"]
    for name in ("hello", *FUNCTIONS):
        median, p90 = found[name]["next_ms"]
        ratio = median / hello["next_ms"][0]
        yield Row(f"`{name}`: exec to its first `/invocation/next`",
                  "-" if name == "hello" else "<= 2 x `hello`",
                  f"p50 {median:.1f} ms, p90 {p90:.1f} ms" + ("" if name == "hello" else f": {ratio:.1f} x"),
                  None if name == "hello" else ratio <= 2)
    median, p90 = hello["answered_ms"]
    yield Row("`hello`: exec to its first answer", "-", f"p50 {median:.1f} ms, p90 {p90:.1f} ms", None)
    median, p90 = found["api"]["answered_ms"]
    yield Row("`api`: exec to its first answered `GET runner`", "p50 <= 12 ms, p90 <= 18 ms",
              f"p50 {median:.1f} ms, p90 {p90:.1f} ms", median <= 12 and p90 <= 18)


def lambda_warm(bench):
    """Processor time, so that other programs do not count."""
    for reading in readings(bench, "warm", published(bench)):
        median, p90 = reading["cpu_ms"]
        yield Row(f"`api`, warm: processor time of `{reading['request']}`", "-",
                  f"p50 {median:.2f} ms, p90 {p90:.2f} ms", None)


def lambda_table(bench):
    """Requests and units for a deployment, by function."""
    found = readings(bench, "deployment", bench.debug, str(bench.size))
    for reading in found:
        by = "the stream" if reading["by"] == "stream" else "the sweep alone"
        met = reading["requests"] <= 14 and reading["write_units"] <= 30
        yield Row(f"table, accept to published end by {by}, {reading['deployments']:,} deployments in it",
                  "<= 14 requests, <= 30 write units",
                  f"{reading['requests']:g} requests, {reading['write_units']:g} write units, "
                  f"{reading['read_units']:g} read units", met)
    stream = [reading for reading in found if reading["by"] == "stream"]
    growth = max(stream[-1][unit] / stream[0][unit] for unit in ("requests", "write_units", "read_units"))
    yield Row(f"table, growth to {stream[-1]['deployments']:,} deployments", "<= 1.05 x",
              f"{growth:.2f} x", growth <= 1.05)
    functions = {}
    for call, (requests, _) in stream[0]["operations"].items():
        function, operation = call.split()
        functions.setdefault(function, []).append(f"{requests:g} {operation}")
    for function, calls in functions.items():
        yield Row(f"of these, requests of `{function}`", "-", ", ".join(calls), None)


def lambda_sweep(bench):
    """One minute of the functions that the clock starts."""
    for reading in readings(bench, "sweep", published(bench), "10000"):
        functions = " and ".join(f"`{name}`" for name in reading["functions"])
        bounded = reading["of"] == "schedules"
        yield Row(f"a minute of {functions}, {reading['count']:,} {reading['of']}, none due",
                  "<= 6 requests" if bounded else "-",
                  f"{reading['requests']:g} requests, {reading['read_units']:g} read units, "
                  f"{reading['cpu_ms'][0]:.1f} ms of processor time",
                  reading["requests"] <= 6 if bounded else None)


def lambda_agents(bench):
    """A session and a poll of an idle agent, beside 100, 1,000 and 10,000 agents."""
    found = readings(bench, "agents", published(bench), "10000")
    for reading in found:
        for what in ("session", "poll"):
            requests, units = usage(reading[what]["operations"])
            median, p90 = reading[what]["cpu_ms"]
            yield Row(f"a {what} of an idle agent, of {reading['agents']:,}", "-",
                      f"{requests:.1f} requests, {units:.1f} units, processor time of `api` p50 {median:.2f} ms, "
                      f"p90 {p90:.2f} ms", None)
    few, many = (usage(reading["poll"]["operations"])[0] for reading in (found[0], found[-1]))
    yield Row(f"requests of a poll, growth to {found[-1]['agents']:,} agents", "<= 1.05 x", f"{many / few:.2f} x",
              many / few <= 1.05)
    cpu = found[-1]["poll"]["cpu_ms"][0] / 1000
    yield Row("10,000 idle agents: polls a minute; processors that `api` keeps busy", "-",
              f"{10_000 * POLLS_A_MINUTE:,}; {10_000 * POLLS_A_MINUTE / 60 * cpu:.1f}", None)


def usage(operations):
    """The requests and the units of all operations, but those of the stream."""
    counted = [pair for name, pair in operations.items() if name.startswith("api ")]
    return sum(pair[0] for pair in counted), sum(pair[1] for pair in counted)


def lambda_burst(bench):
    """10,000 null deployments at once in 1,000 environments, on a strict ECS with AWS's rates."""
    size = 10_000
    (reading,) = readings(bench, "burst", published(bench), str(size))
    least = size / 20
    failed, never_ran = reading["failed"], len(reading["never_ran"])
    twice = reading["tasks"] - reading["attempts"]
    yield Row(f"{size:,} deployments at once into {reading['environments']:,} environments, on ECS's real rates: all ended",
              "all succeed, none runs twice", f"{failed} failed, {never_ran} never ran, {twice} twice; "
              f"{reading['attempts']:,} attempts", failed + never_ran + twice == 0 and reading["tasks"] == size)
    yield Row("of these: accepted; drained, beside 20 launches a second without a pause", "-",
              f"{reading['accepted_seconds']:.0f} s; {reading['drained_seconds']:.0f} s beside {least:.0f} s: "
              f"{reading['drained_seconds'] / least:.2f} x", None)
    for action in ("RunTask", "DescribeTasks", "ListTasks"):
        calls, throttled = reading["calls"][action]
        yield Row(f"of these: calls of {action}, throttled", "-", f"{calls:,}, {throttled:,}", None)
    yield Row("of these: requests to the table for each deployment", "-", f"{reading['requests'] / size:.1f}", None)


ALL = {function.__name__: function for function in
       (lambda_size, lambda_start, lambda_warm, lambda_table, lambda_sweep, lambda_agents, lambda_burst)}


def readings(bench, what, functions, *size):
    """The output of `canyon-serverless-cost`."""
    output = subprocess.run(
        [bench.programs / "canyon-serverless-cost", what, functions,
         bench.programs / "canyon-runner", *size],
        check=True, stdout=subprocess.PIPE, text=True,
        env=os.environ | {"PATH": f"{Path(bench.tofu).parent}:{os.environ['PATH']}"}).stdout
    return [json.loads(line) for line in output.splitlines()]


def published(bench):
    """A folder with the published functions by their names, and `hello` beside them."""
    if not hasattr(bench, "by_name"):
        bench.by_name = tempfile.TemporaryDirectory(prefix="canyon-bench-")
        folder = Path(bench.by_name.name)
        for name in FUNCTIONS:
            (folder / name).symlink_to(bench.published / name / "bootstrap")
        (folder / "hello").symlink_to(bench.programs / "hello")
    return bench.by_name.name
