"""A `canyon local` of its own for a measurement, and requests to it."""

import http.client
import json
import os
import re
import shutil
import signal
import subprocess
import tempfile
import threading
import time
from pathlib import Path

# Replaces OpenTofu where only Canyon's own time counts. It records each call.
NOTHING_TO_DO = """#!/bin/sh
echo "$1 $PWD" >>"{journal}"
[ "$1" != output ] || echo '{{}}'
"""
# A job that runs until it is stopped, so that later deployments in its environment wait.
BLOCKS = "#!/bin/sh\nexec sleep 900\n"


class Server:
    """Starts on a free port in a new folder; removes everything at its end."""

    def __init__(self, programs, tofu):
        """`tofu` is a path to the real one, or the text of a script that replaces it."""
        self.programs = Path(programs)
        self.folder = Path(tempfile.mkdtemp(prefix="canyon-bench-"))
        self.journal = self.folder / "journal"
        bin_folder = self.folder / "bin"
        bin_folder.mkdir()
        if os.path.isabs(tofu):
            (bin_folder / "tofu").symlink_to(tofu)
        else:
            (bin_folder / "tofu").write_text(tofu.format(journal=self.journal))
            (bin_folder / "tofu").chmod(0o755)
        path = f"{bin_folder}:{self.programs}:/usr/bin:/bin"
        self.environment = {"PATH": path, "HOME": str(self.folder), "CANYON_LOG": "warn"}
        self.address = "127.0.0.1:0"
        self.arguments = []
        self.process = None

    def __enter__(self):
        self.started_in = self.start()
        return self

    def __exit__(self, *_):
        self.stop()
        for leader in self.folder.glob("data/jobs/*/pid"):
            try:
                os.killpg(int(leader.read_text().split()[0]), signal.SIGKILL)
            except (ProcessLookupError, ValueError, FileNotFoundError):
                pass
        shutil.rmtree(self.folder, ignore_errors=True)

    def start(self):
        """Returns the seconds from exec until it reports that it is ready."""
        begun = time.perf_counter()
        self.process = subprocess.Popen(
            [self.programs / "canyon", "local", "--listen", self.address,
             "--data-dir", self.folder / "data", *self.arguments],
            env=self.environment, stderr=subprocess.PIPE, text=True)
        line = self.process.stderr.readline()
        took = time.perf_counter() - begun
        if "is ready at" not in line:
            raise SystemExit(f"bench: canyon local did not start: {line}{self.process.stderr.read()}")
        self.address = line.split("//")[1].strip()
        # Its log is not needed, but a full pipe would block it.
        threading.Thread(target=self.process.stderr.read, daemon=True).start()
        variables = dict(re.findall(r"export (\w+)=(.*)", (self.folder / "data/env").read_text()))
        self.environment |= variables
        self.token = variables["CANYON_TOKEN"]
        return took

    def stop(self, how=signal.SIGTERM):
        if self.process and self.process.poll() is None:
            self.process.send_signal(how)
            try:
                self.process.wait(15)
            except subprocess.TimeoutExpired:
                self.process.kill()
                raise SystemExit("bench: canyon local did not end within 15 s of SIGTERM") from None

    def connect(self):
        return http.client.HTTPConnection(self.address, timeout=60)

    def call(self, method, path, body=None, connection=None):
        """The answer of `/orgs/local/<path>`; any other status than success ends the benchmark."""
        connection = connection or self.connect()
        headers = {"Authorization": f"Bearer {self.token}", "Content-Type": "application/json"}
        connection.request(method, f"/orgs/local/{path}", body and json.dumps(body), headers)
        answer = connection.getresponse()
        text = answer.read()
        if answer.status >= 300:
            raise SystemExit(f"bench: {method} {path}: {answer.status} {text[:300]}")
        return json.loads(text) if text else None

    def canyon(self, *arguments):
        """The command line, as users run it."""
        subprocess.run([self.programs / "canyon", *arguments], env=self.environment, check=True,
                       stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    def prepare(self, environments):
        """A runner, a rule, and environments `e0`, `e1`, ... of project `bench`."""
        state = {"type": "local", "path": str(self.folder / "state")}
        connection = self.connect()
        for path, body in [
            ("env-types", {"id": "bench"}),
            ("projects", {"id": "bench"}),
            ("runners", {"id": "laptop", "runner_configuration": {"type": "local"},
                         "state_storage_configuration": state}),
            ("runner-rules", {"runner_id": "laptop"}),
        ]:
            self.call("POST", path, body, connection)
        for n in range(environments):
            self.call("POST", "projects/bench/envs", {"id": f"e{n}", "env_type_id": "bench"},
                      connection)

    def deploy(self, environment, source_code="", connection=None):
        return self.call("POST", "deployments", deployment(environment, source_code), connection)

    def wait(self, deployment_id, connection=None):
        path = f"deployments/{deployment_id}/actions/wait-for-complete?timeout_in_seconds=25"
        return self.call("GET", path, None, connection)

    def deployments(self):
        """All deployments, newest first."""
        items, page = [], ""
        connection = self.connect()
        while page is not None:
            answer = self.call("GET", f"deployments?per_page=100{page}", None, connection)
            items += answer["items"]
            token = answer.get("next_page_token")
            page = f"&page={token}" if token else None
        return items

    def memory(self):
        return memory(self.process.pid)


def deployment(environment, source_code=""):
    """The body of a request for a deployment."""
    module = {"source": "inline", "source_code": source_code or "# nothing\n", "inputs": {}}
    return {"mode": "deploy", "project_id": "bench", "env_id": environment, "module": module}


def memory(pid):
    """Resident MiB of a process."""
    status = Path(f"/proc/{pid}/status").read_text()
    return int(re.search(r"VmRSS:\s+(\d+)", status)[1]) / 1024
