"""The measurements. Each function measures the rows of one subject, and yields them."""

import json
import re
import shutil
import signal
import socket
import statistics
import subprocess
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from datetime import datetime
from pathlib import Path
from typing import NamedTuple

from server import BLOCKS, NOTHING_TO_DO, Server, deployment, memory


class Row(NamedTuple):
    """A figure beside its budget."""

    what: str
    budget: str
    measured: str
    met: bool | None


def start(bench):
    """From exec to ready, on a new table and on an existing one."""
    new, again = [], []
    for _ in range(15):
        with Server(bench.programs, bench.tofu) as server:
            new.append(server.started_in)
            # The server is idle when it is stopped.
            time.sleep(0.2)
            server.stop()
            again.append(server.start())
            time.sleep(0.2)
    for what, took in [("empty", new), ("existing", again)]:
        median = statistics.median(took) * 1000
        yield Row(f"`canyon local`: exec to ready, {what} table", "<= 30 ms", f"{median:.1f} ms",
                  median <= 30)


def get_runner(bench):
    """Requests a second that read one runner, and those that a bare axum server answers with one line of JSON."""
    with Server(bench.programs, bench.tofu) as server, hello(bench) as address:
        server.prepare(0)
        bare = wrk(server, 8, 5, 'wrk.method = "GET"', "runners/laptop", address)
        load = wrk(server, 8, 8, 'wrk.method = "GET"', "runners/laptop")
    yield Row("`GET runner`, 8 connections, cores shared with the client, beside a bare axum server",
              ">= 0.45 x, p99 <= 2.2 x",
              f"{load.rate:,.0f} /s, p99 {load.p99:.2f} ms beside {bare.rate:,.0f} /s, p99 {bare.p99:.2f} ms: "
              f"{load.rate / bare.rate:.2f} x, p99 {load.p99 / bare.p99:.1f} x",
              load.rate >= 0.45 * bare.rate and load.p99 <= 2.2 * bare.p99)


def long_polls(bench):
    """Requests beside 500 of one viewer that wait for the end of a deployment, and without them."""
    with Server(bench.programs, BLOCKS) as server:
        server.prepare(1)
        waits_for = server.deploy("e0")["id"]
        until(60, lambda: attempt(server, waits_for).get("claimed_at"))
        script = 'wrk.method = "GET"'
        without = wrk(server, 8, 5, script, "projects")
        path = f"/orgs/local/deployments/{waits_for}/actions/wait-for-complete?timeout_in_seconds=25"
        head = f"GET {path} HTTP/1.1\r\nhost: {server.address}\r\nauthorization: Bearer {server.token}\r\n\r\n"
        with ExitStack() as waiting:
            host, port = server.address.split(":")
            for _ in range(500):
                poll = waiting.enter_context(socket.create_connection((host, int(port))))
                poll.sendall(head.encode())
            time.sleep(1)
            beside = wrk(server, 8, 5, script, "projects")
    yield Row("`GET projects` beside 500 long polls of one viewer", "p99 <= 2 x without",
              f"p99 {beside.p99:.2f} ms beside {without.p99:.2f} ms: {beside.p99 / without.p99:.2f} x",
              beside.p99 <= 2 * without.p99)


# The bytes of the items and index entries that one acceptance writes, with 15 deployments before it in the queue.
ACCEPTED_BYTES = 4_400


def accept(bench):
    """Deployments accepted, each durable, beside a SQLite transaction of as many bytes with an fsync. A job that never ends
    occupies each environment, so that no counted deployment starts a job."""
    environments = 200
    with tempfile.TemporaryDirectory(prefix="canyon-bench-") as folder:
        output = subprocess.run([bench.programs / "canyon-bench-peer", "commits", f"{folder}/peer.db",
                                 str(ACCEPTED_BYTES), "2000"], check=True, capture_output=True, text=True).stdout
        commit = json.loads(output)
    with Server(bench.programs, BLOCKS) as server:
        server.prepare(environments)
        for n in range(environments):
            server.deploy(f"e{n}")
        until(60, lambda: all(d["status"] == "running" for d in server.deployments()))
        one = wrk(server, 1, 4, posts(environments), "deployments")
        eight = wrk(server, 8, 5, posts(environments), "deployments")
        waiting = sum(d["status"] == "queued" for d in server.deployments())
        if waiting < one.count + eight.count:
            raise SystemExit(f"bench: {one.count + eight.count} accepted, but {waiting} wait")
    yield Row("`POST deployments`, one client, beside a SQLite transaction of the same bytes with an fsync",
              "p50 <= 2.5 x",
              f"p50 {one.p50:.2f} ms, p99 {one.p99:.2f} ms beside p50 {commit['p50_ms']:.2f} ms, "
              f"p99 {commit['p99_ms']:.2f} ms: {one.p50 / commit['p50_ms']:.1f} x",
              one.p50 <= 2.5 * commit["p50_ms"])
    yield Row("deployments accepted, 8 clients", ">= 2,000 /s", f"{eight.rate:,.0f} /s, p99 {eight.p99:.1f} ms",
              eight.rate >= 2_000)


def no_op(bench):
    """Jobs whose `tofu` does nothing: the rest is Canyon's own time, including three processes (`init`, `plan`,
    `output`). Then the memory that 1,000 such jobs leave in use."""
    with Server(bench.programs, NOTHING_TO_DO) as server:
        server.prepare(8)
        time.sleep(2)
        idle = server.memory()
        connection = server.connect()
        ended = []
        for _ in range(50):
            accepted = server.deploy("e0", connection=connection)["id"]
            ended.append(server.wait(accepted, connection))
        begun = time.perf_counter()
        with ThreadPoolExecutor(8) as clients:
            list(clients.map(lambda n: drain(server, f"e{n}", 125), range(8)))
        rate = 1_000 / (time.perf_counter() - begun)
        time.sleep(2)
        after = server.memory()
        succeeded = sum(d["status"] == "succeeded" for d in server.deployments())
        if succeeded != 1_050:
            raise SystemExit(f"bench: {succeeded} of 1,050 no-op deployments succeeded")
    running = statistics.median(passed(d, d["attempts"][0]["claimed_at"]) for d in ended)
    done = statistics.median(passed(d, d["completed_at"]) for d in ended)
    yield Row("accepted -> claimed by its process", "-", f"p50 {running:.0f} ms", None)
    yield Row("no-op job as a process: accepted -> done", "p50 <= 18 ms", f"p50 {done:.0f} ms",
              done <= 18)
    yield Row("no-op jobs as processes, 8 environments at once", ">= 120 /s", f"{rate:.0f} /s",
              rate >= 120)
    yield Row("resident memory of `canyon local`, idle", "<= 26 MiB", f"{idle:.1f} MiB", idle <= 26)
    yield Row("resident memory of `canyon local` after 1,000 deployments", "<= 36 MiB",
              f"{after:.1f} MiB", after <= 36)


def drain(server, environment, count):
    """A client that deploys again when its last deployment has ended."""
    connection = server.connect()
    for _ in range(count):
        server.wait(server.deploy(environment, connection=connection)["id"], connection)


def deploy(bench):
    """`canyon deploy` and plain OpenTofu on the same files, alternating."""
    module = bench.root / "examples/hello"
    rounds = 7
    with Server(bench.programs, bench.tofu) as server:
        server.prepare(rounds + 1)
        ours, plain = [], []
        for n in range(rounds + 1):
            begun = time.perf_counter()
            server.canyon("deploy", "bench", f"e{n}", "--module", str(module))
            ours.append(time.perf_counter() - begun)
            folder = server.folder / f"plain{n}"
            shutil.copytree(module, folder)
            begun = time.perf_counter()
            for command in (["init", "-input=false"], ["apply", "-auto-approve", "-input=false"]):
                subprocess.run([bench.tofu, *command], cwd=folder, env=server.environment,
                               check=True, stdout=subprocess.DEVNULL)
            plain.append(time.perf_counter() - begun)
    # The first round of each reads its program from disk.
    ours, plain = (statistics.median(took[1:]) for took in (ours, plain))
    yield Row("`canyon deploy` of 30 resources, beside `tofu init && tofu apply`",
              "<= 1.05 x, or + 300 ms",
              f"{ours * 1000:.0f} ms beside {plain * 1000:.0f} ms: {ours / plain:.2f} x, "
              f"{(ours - plain) * 1000:+.0f} ms", ours <= plain * 1.05 or ours - plain <= 0.3)


def drift(bench):
    """A check for drift of 30 resources and plain OpenTofu in a folder with the same state, alternating."""
    module = bench.root / "examples/hello"
    rounds = 7
    with Server(bench.programs, bench.tofu) as server:
        server.prepare(1)
        server.canyon("deploy", "bench", "e0", "--module", str(module))
        applied = server.folder / "applied"
        shutil.copytree(module, applied)

        def tofu(folder, *arguments):
            subprocess.run([bench.tofu, *arguments, "-input=false"], cwd=folder, env=server.environment,
                           check=True, stdout=subprocess.DEVNULL)

        tofu(applied, "init")
        tofu(applied, "apply", "-auto-approve")
        ours, plain = [], []
        for n in range(rounds + 1):
            begun = time.perf_counter()
            server.canyon("drift", "check", "bench", "e0", "--wait")
            ours.append(time.perf_counter() - begun)
            folder = server.folder / f"plain{n}"
            shutil.copytree(applied, folder, ignore=shutil.ignore_patterns(".terraform*"))
            begun = time.perf_counter()
            tofu(folder, "init")
            tofu(folder, "plan", "-detailed-exitcode")
            plain.append(time.perf_counter() - begun)
    # The first round of each reads its program from disk.
    ours, plain = (statistics.median(took[1:]) for took in (ours, plain))
    yield Row("`canyon drift check --wait` of 30 resources, beside `tofu init && tofu plan -detailed-exitcode`",
              "<= 1.05 x, or + 300 ms",
              f"{ours * 1000:.0f} ms beside {plain * 1000:.0f} ms: {ours / plain:.2f} x, "
              f"{(ours - plain) * 1000:+.0f} ms", ours <= plain * 1.05 or ours - plain <= 0.3)


def variables(bench):
    """`canyon deploy` beside variables in four scopes and beside none; alternating, so that a slow moment slows both."""
    module, rounds = bench.root / "examples/hello", 60
    scopes = [[], ["--project", "bench"], ["--environment-type", "bench"], ["--project", "bench", "--env", "e1"]]
    with Server(bench.programs, NOTHING_TO_DO) as none, Server(bench.programs, NOTHING_TO_DO) as many:
        for server in (none, many):
            server.prepare(rounds + 1)
        for number, scope in enumerate(scopes):
            kept = [f"SCOPE{number}_{n}=value" for n in range(13)]
            many.canyon("set", "variable", *scope, "--kind", "environment", *kept)
        more = []
        for n in range(rounds + 1):
            took = {}
            for server in (none, many) if n % 2 else (many, none):
                begun = time.perf_counter()
                server.canyon("deploy", "bench", f"e{n}", "--module", str(module))
                took[server] = time.perf_counter() - begun
            more.append((took[many] - took[none]) * 1000)
    median = statistics.median(more[1:])
    yield Row("`canyon deploy` with 52 variables in 4 scopes, beside none", "<= 5 ms more",
              f"{median:+.1f} ms", median <= 5)


def runner_memory(bench):
    """The runner's own memory while OpenTofu applies."""
    with Server(bench.programs, bench.tofu) as server:
        server.prepare(1)
        sleeping = (bench.root / "examples/slow/main.tf").read_text()
        accepted = server.deploy("e0", sleeping)["id"]
        until(20, lambda: attempt(server, accepted).get("phase") == "apply")
        time.sleep(2)
        leader = server.folder / f"data/jobs/{accepted}-1/pid"
        used = memory(leader.read_text().split()[0])
        server.wait(accepted)
    yield Row("resident memory of `canyon-runner` beside OpenTofu", "<= 15 MiB", f"{used:.1f} MiB",
              used <= 15)


def killed(bench):
    """`kill -9` of the server while 200 jobs drain."""
    with Server(bench.programs, NOTHING_TO_DO) as server:
        server.prepare(10)
        for n in range(200):
            server.deploy(f"e{n % 10}")
        server.stop(signal.SIGKILL)
        time.sleep(1)
        server.start()
        until(60, lambda: all("completed_at" in d for d in server.deployments()))
        right = sum(d["status"] == "succeeded" for d in server.deployments())
        # The folder of a job is `jobs/DEPLOYMENT-ATTEMPT`.
        planned = re.findall(r"^plan .*/jobs/(.+)-\d+/", server.journal.read_text(), re.MULTILINE)
        twice = len(planned) - len(set(planned))
    yield Row("`kill -9` of the server while 200 jobs drain", "200 end right, 0 twice",
              f"{right} end right, {twice} twice", right == len(set(planned)) == 200 and twice == 0)


def size(bench):
    """The programs as they are published."""
    for name in ("canyon", "canyon-runner"):
        mebibytes = (bench.programs / name).stat().st_size / 2**20
        yield Row(f"size of `{name}`, stripped", "-", f"{mebibytes:.1f} MiB", None)


def table(bench):
    """Requests to the table for one deployment, by a meter in the SDK client."""
    output = subprocess.run([bench.programs / "canyon-table-cost", bench.tofu, str(bench.size)],
                            check=True, capture_output=True, text=True).stdout
    readings = [json.loads(line) for line in output.splitlines()]
    least, most = readings[0], readings[-1]
    for reading in readings:
        met = reading["requests"] <= 14 and reading["write_units"] <= 30
        yield Row(f"table, accept to end, {reading['deployments']:,} deployments in it",
                  "<= 14 requests, <= 30 write units",
                  f"{reading['requests']:g} requests, {reading['write_units']:g} write units, "
                  f"{reading['read_units']:g} read units", met)
    growth = max(most[unit] / least[unit] for unit in ("requests", "write_units", "read_units"))
    yield Row(f"table, growth to {most['deployments']:,} deployments", "<= 1.05 x",
              f"{growth:.2f} x", growth <= 1.05)
    # With fewer, a page of an environment is not full.
    full = [reading for reading in readings if reading["deployments"] >= 1_000]
    if len(full) < 2:
        return
    least = full[0]
    for name, (requests, units, time) in most["patterns"].items():
        before_requests, before_units, before_time = least["patterns"][name]
        met = requests <= 1.05 * before_requests and units <= 1.05 * before_units
        yield Row(f"table, read {name}, {most['deployments']:,} deployments in it, beside {least['deployments']:,}",
                  "<= 1.05 x: requests, read units",
                  f"{requests:g} requests, {units:g} units, {time:.0f} µs beside {before_requests:g}, "
                  f"{before_units:g}, {before_time:.0f} µs: {time / before_time:.2f} x", met)


ALL = {function.__name__: function for function in
       (start, get_runner, accept, long_polls, no_op, deploy, drift, variables, runner_memory, killed, size, table)}


class Load(NamedTuple):
    """The result of `wrk`; times in milliseconds."""

    rate: float
    count: int
    p50: float
    p99: float


@contextmanager
def hello(bench):
    """A bare axum server, and its address."""
    process = subprocess.Popen([bench.programs / "canyon-bench-peer", "hello"], stdout=subprocess.PIPE, text=True)
    try:
        yield process.stdout.readline().strip()
    finally:
        process.kill()
        process.wait()


def wrk(server, connections, seconds, script, path, address=None):
    """Loads one path, of another address if one is given. The token is in `wrk`'s script file, which only its owner can read."""
    file = server.folder / "load.lua"
    file.touch(mode=0o600)
    file.write_text(f'wrk.headers["Authorization"] = "Bearer {server.token}"\n{script}\n')
    url = f"http://{address or server.address}/orgs/local/{path}"
    output = subprocess.run(
        ["wrk", "--threads", "1", "--connections", str(connections), "--duration", f"{seconds}s",
         "--latency", "--script", file, url], check=True, capture_output=True, text=True).stdout
    if "Non-2xx" in output or "Socket errors" in output:
        raise SystemExit(f"bench: {path} did not always succeed:\n{output}")
    return Load(float(re.search(r"Requests/sec:\s+([\d.]+)", output)[1]),
                int(re.search(r"(\d+) requests in", output)[1]),
                percentile(output, 50), percentile(output, 99))


def percentile(output, which):
    value, unit = re.search(rf"{which}%\s+([\d.]+)(us|ms|s)", output).groups()
    return float(value) * {"us": 0.001, "ms": 1, "s": 1000}[unit]


def posts(environments):
    """A script of `wrk` that requests a new deployment with every request, each with an idempotency key of its own,
    in each environment in turn."""
    before, after = json.dumps(deployment("ENV")).replace('\\n', '').split("ENV")
    return f"""
wrk.headers["Content-Type"] = "application/json"
local n, start = 0, tostring({{}})
function request()
  n = n + 1
  wrk.headers["Idempotency-Key"] = start .. n
  local body = '{before}e' .. n % {environments} .. '{after}'
  return wrk.format("POST", nil, nil, body)
end"""


def attempt(server, deployment_id):
    attempts = server.call("GET", f"deployments/{deployment_id}").get("attempts", [])
    return attempts[-1] if attempts else {}


def passed(answer, moment):
    """Milliseconds from the acceptance to `moment`."""
    read = lambda text: datetime.fromisoformat(text.replace("Z", "+00:00"))
    return (read(moment) - read(answer["created_at"])).total_seconds() * 1000


def until(seconds, condition):
    end = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > end:
            raise SystemExit("bench: waited in vain")
        time.sleep(0.2)
