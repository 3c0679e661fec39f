"""Agents: what a thousand idle ones cost a server, how soon one begins a job, and what the program itself uses."""

import json
import math
import os
import statistics
import subprocess
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from rows import Row, passed
from server import NOTHING_TO_DO, Server, memory

AGENTS = 1_000
OF_A_TOKEN = 500  # half of what Canyon allows
IDLE = 60
DEPLOYMENTS = 200
RUNNER = "far-away"


class Served:
    """A server with a runner of agents, eight environments and tokens for agents."""

    def __init__(self, bench):
        self.server = Server(bench.programs, NOTHING_TO_DO)
        self.programs = Path(bench.programs)

    def __enter__(self):
        server = self.server.__enter__()
        connection = server.connect()
        runner = {"id": RUNNER, "runner_configuration": {"type": "local", "agents": {"labels": {"of": "bench"}}},
                  "state_storage_configuration": {"type": "local", "path": str(server.folder / "state")}}
        for path, body in [("env-types", {"id": "bench"}), ("projects", {"id": "bench"}), ("runners", runner),
                           ("runner-rules", {"runner_id": RUNNER})]:
            server.call("POST", path, body, connection)
        for n in range(8):
            server.call("POST", "projects/bench/envs", {"id": f"e{n}", "env_type_id": "bench"}, connection)
        token = {"role": "agent", "runner_id": RUNNER, "labels": {"of": "bench"}}
        self.tokens = [server.call("POST", "tokens", token, connection)["secret"]
                       for _ in range(math.ceil(AGENTS / OF_A_TOKEN))]
        return self

    def __exit__(self, *how):
        self.server.__exit__(*how)

    def used(self):
        """Seconds of processor time that the server has used."""
        fields = Path(f"/proc/{self.server.process.pid}/stat").read_text().rsplit(")", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def load(self, agents, idle, deployments):
        """Runs the simulated agents. Yields each line of their output, with the server's processor time then."""
        environment = self.server.environment | {"AGENT_TOKENS": ",".join(self.tokens), "AGENT_RUNNER": RUNNER}
        command = [self.programs / "canyon-agent-load", str(agents), str(idle), str(deployments)]
        load = subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True)
        try:
            for line in load.stdout:
                said = json.loads(line)
                yield said["phase"], said, self.used()
        finally:
            load.kill()
            if load.wait() not in (0, -9):
                raise SystemExit("bench: the simulated agents failed")


def agents(bench):
    """A thousand waiting agents, then one deployment after the other; compared with a single agent."""
    alone = few(bench)
    used = {}
    with Served(bench) as served:
        for phase, said, now in served.load(AGENTS, IDLE, DEPLOYMENTS):
            used[phase] = now
            if phase == "idle":
                idle, resident = said, served.server.memory()
            if phase == "deployed":
                deployed = said
    asked = idle["requests_per_agent_minute"]
    yield Row(f"{AGENTS:,} idle agents: requests of each", "<= 3 a minute",
              f"{asked:.2f} a minute, {idle['failed']} failed", asked <= 3 and idle["failed"] == 0)
    share = (used["idle"] - used["idle begins"]) / IDLE * 100
    yield Row(f"{AGENTS:,} idle agents: processor of `canyon local`", "-", f"{share:.1f} % of one core", None)
    yield Row(f"{AGENTS:,} idle agents: resident memory of `canyon local`", "-", f"{resident:.1f} MiB", None)
    yield started(f"{AGENTS:,} agents", deployed, 150)
    yield started("1 agent", alone["deployed"], None)
    # The share of idle agents does not count for the deployments.
    cost = (used["deployed"] - used["idle"] - share / 100 * deployed["seconds"]) / DEPLOYMENTS * 1000
    yield Row(f"{AGENTS:,} agents: processor of `canyon local` for a null job, beside 1 agent", "-",
              f"{cost:.1f} ms beside {alone['cost']:.1f} ms", None)
    others = (deployed["polls"] - 2 * deployed["jobs"]) / deployed["jobs"]
    expected = AGENTS * deployed["seconds"] / 25 / deployed["jobs"]
    yield Row(f"{AGENTS:,} agents: polls that a deployment ends of those that it does not concern", "< 1",
              f"{max(0, others - expected):.1f}", others - expected < 1)


def few(bench):
    """The same with one agent."""
    used, said = {}, {}
    with Served(bench) as served:
        for phase, line, now in served.load(1, 5, DEPLOYMENTS):
            used[phase], said[phase] = now, line
    said["cost"] = (used["deployed"] - used["idle"]) / DEPLOYMENTS * 1000
    return said


def started(who, deployed, budget):
    """Offer to start: the offer is written right after the attempt, and the claim is the job's first request."""
    took = sorted(deployed["launched_to_claimed_ms"])
    p50, p99 = statistics.median(took), took[int(len(took) * 0.99) - 1]
    whole = statistics.median(deployed["accepted_to_claimed_ms"])
    return Row(f"{who}: offer -> job started, a null job", f"p50 <= {budget} ms" if budget else "-",
               f"p50 {p50:.0f} ms, p99 {p99:.0f} ms; from the acceptance p50 {whole:.0f} ms",
               p50 <= budget if budget else None)


def agent_program(bench):
    """The real program: its size, its memory, the time to its first poll, and how soon its jobs start."""
    program = Path(bench.programs) / "canyon-agent"
    size = program.stat().st_size / 1e6
    yield Row("size of `canyon-agent`, stripped, for this machine's libc", "<= 15 MB", f"{size:.1f} MB", size <= 15)
    with Served(bench) as served:
        first, idle = [], []
        for n in range(10):
            took, resident = first_poll(served, f"agent-{n}")
            first.append(took * 1000)
            idle.append(resident)
        yield Row("`canyon-agent`: exec to its first poll", "<= 100 ms",
                  f"p50 {statistics.median(first):.0f} ms, worst of 10 {max(first):.0f} ms", statistics.median(first) <= 100)
        yield Row("`canyon-agent`: resident memory, idle", "<= 20 MiB", f"{max(idle):.1f} MiB", max(idle) <= 20)
        yield from real_jobs(served)


class FirstPollServer(BaseHTTPRequestHandler):
    """The part of Canyon's API that an agent needs until its first poll, whose answer it delays."""

    protocol_version = "HTTP/1.1"

    def do_POST(self):
        self.rfile.read(int(self.headers["Content-Length"]))
        if self.path.endswith("/poll"):
            self.server.polled.set()
            time.sleep(3)
        is_opening = self.path.endswith("/sessions")
        opened = {"session": 1, "state": "adopted", "protocol": 1, "pause_ms": 0}
        body = json.dumps(opened if is_opening else {"pause_ms": 0}).encode()
        self.send_response(201 if is_opening else 200)
        self.send_header("Content-Length", str(len(body)))
        # An answer without it is not Canyon's.
        self.send_header("canyon-answer-to", self.headers["canyon-ask"])
        try:
            self.end_headers()
            self.wfile.write(body)
        except OSError:
            # The agent was killed while its poll waited.
            self.close_connection = True

    def do_DELETE(self):
        self.send_response(204)
        self.send_header("canyon-answer-to", self.headers["canyon-ask"])
        self.end_headers()

    def log_message(self, *_):
        pass


def start_agent(served, name, url=None):
    folder = served.server.folder / name
    environment = served.server.environment | {
        "CANYON_TOKEN": served.tokens[0], "CANYON_RUNNER_PATH": f"local/{RUNNER}", "CANYON_AGENT_NAME": name,
        "CANYON_AGENT_STATE_DIR": str(folder), "CANYON_JOB_DISPATCHER_TYPE": "local",
        "CANYON_AGENT_RUNNER_PROGRAM": str(served.programs / "canyon-runner"), "CANYON_LOG": "warn"}
    environment |= {"CANYON_API_URL": url} if url else {}
    return subprocess.Popen([served.programs / "canyon-agent"], env=environment, stderr=subprocess.DEVNULL)


def first_poll(served, name):
    """Seconds from exec until its first poll, and its resident memory a second later."""
    with ThreadingHTTPServer(("127.0.0.1", 0), FirstPollServer) as server:
        server.polled = threading.Event()
        server.daemon_threads = True
        threading.Thread(target=server.serve_forever, daemon=True).start()
        begun = time.perf_counter()
        process = start_agent(served, name, f"http://127.0.0.1:{server.server_address[1]}")
        try:
            if not server.polled.wait(20):
                raise SystemExit("bench: canyon-agent did not come to its first poll")
            took = time.perf_counter() - begun
            time.sleep(1)
            return took, memory(process.pid)
        finally:
            process.kill()
            process.wait()
            server.shutdown()


def real_jobs(served):
    """Null jobs as processes of the agent's machine, one after the other."""
    process = start_agent(served, "worker")
    try:
        connection = served.server.connect()
        ended = [served.server.wait(served.server.deploy(f"e{n % 8}", connection=connection)["id"], connection)
                 for n in range(50)]
        resident = memory(process.pid)
    finally:
        process.terminate()
        process.wait(40)
    wrong = [d for d in ended if d["status"] != "succeeded" or len(d["attempts"]) != 1]
    if wrong:
        raise SystemExit(f"bench: {len(wrong)} null jobs of the agent did not succeed at once: {wrong[0]}")
    first = [deployment["attempts"][0] for deployment in ended]
    took = sorted(passed({"created_at": one["launched_at"]}, one["claimed_at"]) for one in first)
    yield Row("`canyon-agent`: offer -> job started, a null job as a process", "p50 <= 150 ms",
              f"p50 {statistics.median(took):.0f} ms, worst {took[-1]:.0f} ms", statistics.median(took) <= 150)
    yield Row("`canyon-agent`: resident memory after 50 jobs", "<= 20 MiB", f"{resident:.1f} MiB", resident <= 20)


ALL = {function.__name__: function for function in (agents, agent_program)}
