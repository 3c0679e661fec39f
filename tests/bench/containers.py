"""Measures container jobs on the engine and in the cluster of `scripts/cluster`. The job's program writes the time of its
own first moment, so that every platform's figure has the same end. A plain container of the same image is created by the
requests of `docker run` and `kubectl create job`, without the time of these clients."""

import http.client
import io
import json
import os
import random
import socket
import statistics
import struct
import subprocess
import tarfile
import tempfile
import threading
import time
import uuid
from datetime import datetime
from pathlib import Path

from cluster import Cluster, ClusterServer
from rows import Row, until
from server import Server

ENGINE_ROUNDS = 20
CLUSTER_ROUNDS = 20
MEMORY_ROUNDS = 3
IMAGE = "canyon-bench-job:1"
PROGRAM = "/moment"
# Writes its first moment. Then it writes a hundred lines a second for the given number of seconds.
SOURCE = r"""
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

int main(int argc, char **argv) {
    struct timespec began, pause = {0, 10000000};
    int lines = argc > 1 ? 100 * atoi(argv[1]) : 0;
    if (clock_gettime(CLOCK_REALTIME, &began)) return 1;
    const char *path = getenv("OUTPUTS_FILE");
    FILE *file = path ? fopen(path, "w") : stdout;
    if (!file || fprintf(file, "{\"began\": %lld.%09ld}\n", (long long)began.tv_sec, began.tv_nsec) < 0) return 2;
    if (fflush(file)) return 3;
    for (int line = 1; line <= lines; line++) {
        printf("line %d of %d\n", line, lines);
        fflush(stdout);
        nanosleep(&pause, 0);
    }
    return 0;
}
"""
# A container job has no state.
NO_STATE = {"type": "s3", "bucket": "for-modules-only"}
# Where the runner's image has the program, and where a container job gets it (`dispatch/docker/injection.rs`).
TREE = "/canyon"
RUNNER_PROGRAM = "/canyon/bin/canyon-runner"


class EngineConnection(http.client.HTTPConnection):
    """A connection to the engine's socket."""

    def __init__(self, path):
        super().__init__("engine", timeout=60)
        self.path = path

    def connect(self):
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(self.timeout)
        self.sock.connect(self.path)


class Engine:
    """The API of the Docker engine."""

    def __init__(self, settings):
        self.host = settings["DOCKER_HOST"]
        self.runner_image = settings["RUNNER_IMAGE"]

    def read(self, method, path, body=None):
        connection = EngineConnection(self.host.removeprefix("unix://"))
        connection.request(method, path, body and json.dumps(body), {"Content-Type": "application/json"})
        answer = connection.getresponse()
        content = answer.read()
        connection.close()
        if answer.status >= 300:
            raise SystemExit(f"bench: the engine answers {method} {path}: {answer.status} {content[:300]}")
        return content

    def call(self, method, path, body=None):
        content = self.read(method, path, body)
        return json.loads(content) if content else None

    def run(self, image):
        """Seconds from the first request to the first moment of a plain container's program."""
        asked = time.time()
        container = self.call("POST", "/containers/create", {"Image": image, "Cmd": [PROGRAM]})["Id"]
        self.call("POST", f"/containers/{container}/start")
        self.call("POST", f"/containers/{container}/wait")
        # Each piece of the output has a header of eight bytes.
        output = self.read("GET", f"/containers/{container}/logs?stdout=1")[8:]
        self.call("DELETE", f"/containers/{container}?v=1")
        return json.loads(output)["began"] - asked

    def create_injector(self):
        """A container as the launcher creates to fill the volume of a container job."""
        volume = {"HostConfig": {"Mounts": [{"Target": TREE, "Type": "volume"}]}}
        body = {"Image": self.runner_image, "NetworkDisabled": True} | volume
        return self.call("POST", "/containers/create", body)["Id"]

    def inject(self):
        """Seconds that the engine takes to fill a volume, and to remove the container that did it."""
        began = time.perf_counter()
        container = self.create_injector()
        took = time.perf_counter() - began
        volume = self.call("GET", f"/containers/{container}/json")["Mounts"][0]["Name"]
        began = time.perf_counter()
        self.call("DELETE", f"/containers/{container}")
        took += time.perf_counter() - began
        self.call("DELETE", f"/volumes/{volume}")
        return took

    def injected_program(self):
        container = self.create_injector()
        archive = self.read("GET", f"/containers/{container}/archive?path={RUNNER_PROGRAM}")
        self.call("DELETE", f"/containers/{container}?v=1")
        with tarfile.open(fileobj=io.BytesIO(archive)) as files:
            return files.extractfile("canyon-runner").read()

    def remove(self, image):
        """Removes the containers of an image, which a server leaves that ends soon after its last job."""
        filters = json.dumps({"ancestor": [image]}).replace(" ", "")
        for container in self.call("GET", f"/containers/json?all=1&filters={filters}"):
            self.call("DELETE", f"/containers/{container['Id']}?v=1&force=1")

    def runner_process(self, deployment):
        """The process of the runner in a deployment's container, once it has started the program."""
        filters = {"label": [f"canyon.dev/deployment={deployment}"], "status": ["running"]}
        path = f"/containers/json?filters={json.dumps(filters)}".replace(" ", "")
        found = []

        def has_child():
            found[:] = [self.call("GET", f"/containers/{one['Id']}/json")["State"]["Pid"]
                        for one in self.call("GET", path)]
            return any(task.read_text() for pid in found for task in Path(f"/proc/{pid}/task").glob("*/children"))

        until(30, has_child)
        return found[0]


class EngineServer(Server):
    """A Canyon on loopback, as on a laptop, with a runner of type `docker`."""

    def __init__(self, bench, engine):
        super().__init__(bench.programs, bench.tofu)
        self.environment["DOCKER_HOST"] = engine.host
        self.arguments = ["--runner-image", engine.runner_image]

    def prepare_engine(self):
        for path, body in [
            ("env-types", {"id": "bench"}),
            ("projects", {"id": "bench"}),
            ("runners", {"id": "engine", "runner_configuration": {"type": "docker"},
                         "state_storage_configuration": NO_STATE}),
            ("runner-rules", {"runner_id": "engine"}),
            ("projects/bench/envs", {"id": "e0", "env_type_id": "bench"}),
        ]:
            self.call("POST", path, body)


class NodeEvents:
    """Reads the events of the node's containers from its containerd. The API server's times are whole seconds."""

    def __init__(self, settings):
        command = ["ctr", "--address", settings["NODE_SOCKET"], "--namespace", "k8s.io", "events"]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        self.events = []
        threading.Thread(target=self.read, daemon=True).start()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.terminate()
        self.process.wait()

    def read(self):
        for line in self.process.stdout:
            day, clock, _, _, _, topic, about = line.split(maxsplit=6)
            second = datetime.fromisoformat(f"{day}T{clock[:8]}+00:00").timestamp()
            self.events.append((second + float(f"0{clock[8:]}"), topic, json.loads(about)))

    def injection(self, since):
        """The seconds until a pod's init container has started after its creation, until its process ended, and until the
        main container was created. No other pod may start meanwhile."""
        events = [event for event in self.events if event[0] >= since]
        # The first container is the pod's sandbox.
        _, (created, _, container), (following, _, _) = [
            event for event in events if event[1] == "/containers/create"][:3]
        started, ended = (next(at for at, topic, about in events
                               if topic == wanted and about["container_id"] == container["id"])
                          for wanted in ("/tasks/start", "/tasks/exit"))
        return started - created, ended - started, following - ended


def pause():
    """Waits until the platform has removed the last container. The pause is random: a kubelet looks for changes of its
    containers once a second, and each round must meet another moment of that second."""
    time.sleep(0.5 + random.random())


def job_image(place):
    """Builds the image of the job, which has the program and nothing else, and copies it to the node."""
    name = f"{place.settings['REGISTRY']}/{IMAGE}"
    with tempfile.TemporaryDirectory(prefix="canyon-bench-") as folder:
        source = Path(folder) / "moment.c"
        source.write_text(SOURCE)
        subprocess.run(["cc", "-O1", "-static", "-s", "-o", source.with_suffix(""), source], check=True)
        (Path(folder) / "Dockerfile").write_text(f"FROM scratch\nCOPY moment {PROGRAM}\nUSER 65532:65532\n")
        subprocess.run(["docker", "build", "--quiet", "--tag", name, folder], check=True, capture_output=True,
                       env=os.environ | {"DOCKER_HOST": place.settings["DOCKER_HOST"]})
    subprocess.run([Path(__file__).parents[2] / "scripts/cluster", "load", name], check=True,
                   stdout=subprocess.DEVNULL)
    return name


def accept(server, image, *arguments):
    job = {"image": image, "command": [PROGRAM, *arguments]}
    body = {"mode": "deploy", "project_id": "bench", "env_id": "e0", "container": job}
    return server.call("POST", "deployments", body)["id"]


def end(server, deployment):
    ended = server.wait(deployment)
    if ended["status"] != "succeeded":
        raise SystemExit(f"bench: the container job ended: {ended['status']} {ended.get('message')}")
    return ended


def deploy(server, image):
    """Seconds from the request to the claim of the job's runner, and to the first moment of the job's program."""
    asked = time.time()
    deployment = accept(server, image)
    ended = end(server, deployment)
    claimed = datetime.fromisoformat(ended["attempts"][0]["claimed_at"].replace("Z", "+00:00")).timestamp()
    began = server.call("GET", f"deployments/{deployment}/outputs")["began"]["value"]
    return claimed - asked, began - asked


def rows_of_start(where, beside, rounds):
    """The rows of one platform from its rounds, each with a claim, the program's first moment, that of a plain container,
    and the injection, in seconds."""
    claim, ours, plain, injection = (statistics.median(took) * 1000 for took in zip(*rounds))
    ratio = statistics.median((ours - injection) for _, ours, _, injection in rounds) * 1000 / plain
    yield Row(f"container job {where}: accepted -> its program begins, beside {beside}",
              "<= 1.15 x + injection",
              f"{ours:.0f} ms beside {plain:.0f} ms: {ratio:.2f} x without the injection", ratio <= 1.15)
    yield Row(f"of these {where}: accepted -> claimed by its runner; claimed -> its program begins", "-",
              f"{claim:.0f} ms; {ours - claim:.0f} ms", None)
    yield Row(f"injection of `canyon-runner` {where}", "<= 300 ms", f"{injection:.0f} ms", injection <= 300)


def container_engine(bench):
    """On an engine: a container job, a plain container, and the injection alone, in turn."""
    with Cluster() as place:
        engine, image = Engine(place.settings), job_image(place)
        rounds = []
        with EngineServer(bench, engine) as server:
            server.prepare_engine()
            for _ in range(ENGINE_ROUNDS + 1):
                claimed, began = deploy(server, image)
                pause()
                rounds.append((claimed, began, engine.run(image), engine.inject()))
        engine.remove(image)
    # The first round warms up all three.
    yield from rows_of_start("on a Docker engine", "a plain container", rounds[1:])


def container_cluster(bench):
    """In a cluster: a container job and a plain Job, in turn. The injection is that of the container job's own pod."""
    with Cluster() as place, Cluster() as unrestricted, ClusterServer(bench, place) as server:
        image = job_image(place)
        server.prepare_cluster(place.settings["RUNNER_IMAGE"])
        # The runner's namespace refuses the pod of `kubectl create job`.
        unrestricted.kubectl("create", "namespace", unrestricted.namespace)
        completed = unrestricted.completions()
        rounds, injections = [], []
        with NodeEvents(place.settings) as node:
            for _ in range(CLUSTER_ROUNDS + 1):
                asked = time.time()
                claimed, began = deploy(server, image)
                injections.append(node.injection(asked))
                pause()
                rounds.append((claimed, began, run_job(unrestricted, completed, image), sum(injections[-1])))
                pause()
    # The first round warms up both.
    yield from rows_of_start("in a cluster", "a plain Job", rounds[1:])
    steps = (statistics.median(took) * 1000 for took in zip(*injections[1:]))
    yield Row("of the injection in a cluster: the init container starts; its process copies; the kubelet notices that it has ended",
              "-", "; ".join(f"{step:.0f} ms" for step in steps), None)


def run_job(place, completed, image):
    """Seconds from the request to the first moment of a plain Job's program."""
    name, body = plain_job(image)
    asked = time.time()
    place.jobs(body=json.dumps(body).encode()).close()
    completed(name)
    return json.loads(place.kubectl("-n", place.namespace, "logs", f"job/{name}"))["began"] - asked


def plain_job(image):
    """The name and the body of the request of `kubectl create job`."""
    name = f"plain-{uuid.uuid4().hex[:12]}"
    container = {"name": name, "image": image, "command": [PROGRAM]}
    spec = {"template": {"spec": {"containers": [container], "restartPolicy": "Never"}}}
    return name, {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": name}, "spec": spec}


def container_memory(bench):
    """The runner's own memory while it ships the program's output: the worst of three jobs."""
    with Cluster() as place:
        engine, image = Engine(place.settings), job_image(place)
        resident, peaks = [], []
        with EngineServer(bench, engine) as server:
            server.prepare_engine()
            for _ in range(MEMORY_ROUNDS):
                deployment = accept(server, image, "4")
                process = engine.runner_process(deployment)
                time.sleep(2)
                lines = Path(f"/proc/{process}/status").read_text().splitlines()
                status = dict(line.split(":", 1) for line in lines)
                if status["Name"].strip() != "canyon-runner":
                    raise SystemExit(f"bench: the container's first process is {status['Name']}")
                resident.append(int(status["VmRSS"].split()[0]) / 1024)
                peaks.append(int(status["VmHWM"].split()[0]) / 1024)
                end(server, deployment)
        engine.remove(image)
    yield Row("resident memory of the injected `canyon-runner` while its program runs", "<= 8 MiB",
              f"{max(resident):.1f} MiB, at most {max(peaks):.1f} MiB", max(resident) <= 8)


def container_table(bench):
    """Requests to the table for a container job, and for a module in the same run."""
    with Cluster() as place:
        image, settings = job_image(place), place.settings
        program, deployments = bench.programs / "canyon-table-cost", "100"
        for what, arguments in [
            ("container job", ["container", image, PROGRAM, settings["RUNNER_IMAGE"], settings["NODE_ADDRESS"]]),
            ("module", [bench.tofu]),
        ]:
            output = subprocess.run([program, *arguments, deployments], check=True, stdout=subprocess.PIPE, text=True,
                                    env=os.environ | {"DOCKER_HOST": settings["DOCKER_HOST"]}).stdout
            reading = json.loads(output)
            met = reading["requests"] <= 14 and reading["write_units"] <= 30
            yield Row(f"table, accept to end of a {what}, {reading['deployments']} deployments in it",
                      "<= 14 requests, <= 30 write units",
                      f"{reading['requests']:g} requests, {reading['write_units']:g} write units, "
                      f"{reading['read_units']:g} read units", met)
        Engine(settings).remove(image)


def container_size(_):
    """The program that a container job gets, from the runner's image."""
    with Cluster() as place:
        program = Engine(place.settings).injected_program()
    static = is_static(program)
    yield Row("size of the injected `canyon-runner`", "static",
              f"{len(program) / 2**20:.1f} MiB, {'static' if static else 'not static'}", static)


def is_static(program):
    """Whether no other program must load it: it has no ELF program header of type PT_INTERP (3)."""
    start, = struct.unpack_from("<Q", program, 32)
    size, count = struct.unpack_from("<HH", program, 54)
    return all(struct.unpack_from("<I", program, start + size * n)[0] != 3 for n in range(count))


ALL = {function.__name__: function for function in
       (container_engine, container_cluster, container_memory, container_table, container_size)}
