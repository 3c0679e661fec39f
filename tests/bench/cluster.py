"""Measures a deployment to the cluster of `scripts/cluster`, and compares it with a Job of the same pod. Both run the
runner's image. In Canyon's Job the runner works, with a script that does nothing in place of OpenTofu; the other Job
runs /bin/true. The other Job is created by the request of `kubectl create job`, without the time of kubectl itself."""

import base64
import copy
import json
import os
import shutil
import ssl
import statistics
import subprocess
import tempfile
import threading
import time
import urllib.request
import uuid
from pathlib import Path

from rows import Row
from server import Server

ROUNDS = 15
NOTHING = "#!/bin/sh\n[ \"$1\" != output ] || echo '{}'\n"
ACCOUNT = "canyon-runner"


class Cluster:
    """A namespace of its own, and what `scripts/cluster` wrote about the cluster."""

    def __init__(self):
        cache = os.environ.get("CANYON_CACHE") or Path.home() / ".cache/canyon"
        folder = Path(cache) / "cluster"
        if not (folder / "env").is_file():
            raise SystemExit("bench: no cluster runs: scripts/cluster up")
        lines = (folder / "env").read_text().splitlines()
        self.settings = dict(line.split("=", 1) for line in lines)
        self.kubeconfig = folder / "kubeconfig"
        self.token = self.kubectl("config", "view", "--raw", "-o", "jsonpath={.users[0].user.token}")
        self.namespace = f"canyon-bench-{uuid.uuid4().hex[:8]}"

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.kubectl("delete", "namespace", self.namespace, "--wait=false", "--ignore-not-found")

    def kubectl(self, *arguments, given=None):
        command = [self.settings["KUBECTL"], "--kubeconfig", self.kubeconfig, *arguments]
        done = subprocess.run(command, input=given, check=True, capture_output=True, text=True, timeout=60)
        return done.stdout

    def file(self, name):
        return Path(self.settings[name])

    def image(self):
        """The runner's image, with a script that does nothing in place of OpenTofu."""
        name = f"{self.settings['REGISTRY']}/canyon-bench:test"
        environment = os.environ | {"DOCKER_HOST": self.settings["DOCKER_HOST"]}
        with tempfile.TemporaryDirectory(prefix="canyon-bench-") as folder:
            tofu = Path(folder) / "tofu"
            tofu.write_text(NOTHING)
            tofu.chmod(0o755)
            (Path(folder) / "Dockerfile").write_text(
                f"FROM {self.settings['RUNNER_IMAGE']}\nCOPY tofu /usr/local/bin/tofu\n")
            subprocess.run(["docker", "build", "--quiet", "--tag", name, folder], env=environment, check=True,
                           capture_output=True)
        subprocess.run([Path(__file__).parents[2] / "scripts/cluster", "load", name], check=True,
                       stdout=subprocess.DEVNULL)
        return name

    def jobs(self, query="", body=None):
        """The answer of the API server about the namespace's Jobs, or to the creation of one."""
        context = ssl.create_default_context(cafile=self.settings["CA_FILE"])
        address = f"{self.settings['SERVER']}/apis/batch/v1/namespaces/{self.namespace}/jobs{query}"
        headers = {"Authorization": f"Bearer {self.token}", "Content-Type": "application/json"}
        request = urllib.request.Request(address, body, headers)
        return urllib.request.urlopen(request, context=context, timeout=600)

    def completions(self):
        """When each Job of the namespace was first seen to be complete, by its name: a watch, as it comes."""
        seen, changed = {}, threading.Condition()

        def events():
            while True:
                with self.jobs("?watch=1") as stream:
                    for line in stream:
                        event = json.loads(line)
                        # The API server may end a watch with an error: then another watch begins.
                        if event["type"] == "ERROR":
                            break
                        yield event["object"]

        def read():
            for job in events():
                ends = {one["type"] for one in job.get("status", {}).get("conditions", []) if one["status"] == "True"}
                if ends & {"Complete", "Failed"}:
                    with changed:
                        seen.setdefault(job["metadata"]["name"], (time.perf_counter(), "Complete" in ends))
                        changed.notify_all()

        threading.Thread(target=read, daemon=True).start()

        def wait(name):
            with changed:
                if not changed.wait_for(lambda: name in seen, timeout=90):
                    raise SystemExit(f"bench: Job {name} does not end")
            ended, well = seen[name]
            if not well:
                raise SystemExit(f"bench: Job {name} failed")
            return ended

        return wait


class ClusterServer(Server):
    """A Canyon that pods reach, and whose tokens the API server trusts."""

    def __init__(self, bench, cluster):
        super().__init__(bench.programs, bench.tofu)
        keys = self.folder / "data/keys"
        keys.mkdir(parents=True)
        shutil.copy(cluster.file("ISSUER_KEY"), keys / "issuer.pk8")
        self.cluster = cluster
        self.address = f"{cluster.settings['NODE_ADDRESS']}:0"
        self.arguments = ["--issuer-url", cluster.settings["ISSUER_URL"]]

    def prepare_cluster(self, image):
        """A runner for the cluster, with the trust that Canyon prints, and one environment."""
        self.cluster.file("ISSUER_TARGET_FILE").write_text(self.address)
        namespace, settings = self.cluster.namespace, self.cluster.settings
        authority = base64.b64encode(self.cluster.file("CA_FILE").read_bytes()).decode()
        template = {"spec": {"containers": [{"name": "canyon-runner", "image": image}]}}
        runner = {
            "type": "kubernetes",
            "cluster": {
                "cluster_data": {"server": settings["SERVER"], "certificate_authority_data": authority},
                "auth": {"oidc": {"audience": settings["OIDC_AUDIENCE"]}},
            },
            "job": {"namespace": namespace, "service_account": ACCOUNT, "pod_template": template},
        }
        state = {"type": "kubernetes", "namespace": namespace}
        for path, body in [
            ("env-types", {"id": "bench"}),
            ("projects", {"id": "bench"}),
            ("runners", {"id": "cluster", "runner_configuration": runner, "state_storage_configuration": state}),
            ("runner-rules", {"runner_id": "cluster"}),
            ("projects/bench/envs", {"id": "e0", "env_type_id": "bench"}),
        ]:
            self.call("POST", path, body)
        for document in self.call("GET", "runners/cluster/trust")["documents"]:
            if "kubectl apply" in document["place"]:
                self.cluster.kubectl("apply", "-f", "-", given=document["text"])


def twin(job):
    """The same Job, whose work is /bin/true."""
    spec = copy.deepcopy(job["spec"])
    name = f"twin-{uuid.uuid4().hex[:12]}"
    for made_by_the_server in ("selector", "suspend", "manualSelector"):
        spec.pop(made_by_the_server, None)
    spec["template"]["metadata"] = {}
    container = spec["template"]["spec"]["containers"][0]
    container["command"] = ["/bin/true"]
    container.pop("args", None)
    return name, json.dumps({
        "apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": name}, "spec": spec})


def cluster(bench):
    """From acceptance to the Job's completion, alternating with the other Job."""
    with Cluster() as place, ClusterServer(bench, place) as server:
        server.prepare_cluster(place.image())
        completed = place.completions()
        ours, theirs = [], []
        for turn in range(ROUNDS + 1):
            begun = time.perf_counter()
            name = f"canyon-{uuid.UUID(server.deploy('e0')['id']).hex}-1"
            took = completed(name) - begun
            job = json.loads(place.kubectl("-n", place.namespace, "get", "job", name, "-o", "json"))
            other, text = twin(job)
            begun = time.perf_counter()
            place.jobs(body=text.encode()).close()
            their_time = completed(other) - begun
            # The first round warms up both.
            if turn:
                ours.append(took)
                theirs.append(their_time)
    mine, other = statistics.median(ours), statistics.median(theirs)
    yield Row("A deployment to a cluster, accepted to Job complete; a Job of the same pod, created by one request, beside it",
              "<= 1.15 x", f"{mine:.2f} s and {other:.2f} s, {mine / other:.2f} x", mine <= 1.15 * other)


ALL = {"cluster": cluster}
