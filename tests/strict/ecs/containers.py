"""The containers of a task, run by Docker one after the other, as they depend on each other."""

import threading

import docker
from docker import errors
from docker.types import Mount

from strict.ecs.definitions import in_order, is_essential

LABEL = "canyon.strict.ecs"
MIB = 1024 * 1024


def start(fargate, task, definition, environment):
    run = Run(fargate, task, definition, environment)
    threading.Thread(target=run.to_the_end, daemon=True).start()


class Run:
    def __init__(self, fargate, task, definition, environment):
        self.fargate, self.task, self.definition, self.environment = fargate, task, definition, environment
        self.daemon = docker.DockerClient(base_url=fargate.settings["docker_host"], timeout=600)

    def to_the_end(self):
        specs = {spec["name"]: spec for spec in self.definition["containerDefinitions"]}
        needs = {name: [need["containerName"] for need in spec.get("dependsOn", [])] for name, spec in specs.items()}
        self.task.set(lastStatus="PENDING")
        try:
            for name in in_order(needs):
                if not self.container(specs[name]):
                    break
        finally:
            self.remove_volumes()

    def container(self, spec):
        """Runs a container to its end. Returns whether the next one may start."""
        try:
            image(self.daemon, spec["image"])
            container = self.create(spec)
        except errors.APIError as error:
            reason = f"CannotPullContainerError: pull image manifest has been retried 1 time(s): {error.explanation}"
            return self.fail(spec, reason)
        try:
            container.start()
        except errors.APIError as error:
            container.remove(force=True)
            return self.fail(spec, f"CannotStartContainerError: {error.explanation}")
        running = {"lastStatus": "RUNNING", "runtimeId": container.id, **image_digest(container.image)}
        if is_essential(spec):
            self.task.container = container
            self.task.set(lastStatus="RUNNING", container=running)
        else:
            self.task.set(others=running)
        timeout = spec.get("stopTimeout", 30) * self.fargate.settings["stop_scale"]
        threading.Thread(target=stop_when_asked, args=(self.task, container, timeout), daemon=True).start()
        exit_code = container.wait()["StatusCode"]
        container.reload()
        self.fargate.logs.keep(self.task, spec, container.logs(stdout=True, stderr=True))
        ended = {"lastStatus": "STOPPED", "exitCode": exit_code}
        if container.attrs["State"]["OOMKilled"]:
            ended["reason"] = "OutOfMemoryError: Container killed due to memory usage"
        if is_essential(spec):
            self.task.stop_asked.set()
            self.end(ended)
        container.remove(force=True)
        if is_essential(spec):
            # The end comes after the removal, so that a stopped task has no container.
            self.plan([(self.soon(), {"lastStatus": "STOPPED"})])
            return False
        self.task.set(others=ended)
        if self.task.is_asked_to_stop():
            stopped = {"lastStatus": "STOPPED"}
            self.plan([(self.soon(), {"lastStatus": "STOPPED", "container": stopped})])
            return False
        if exit_code != 0:
            self.plan(self.fargate.unmet_dependency(self.soon(), exit_code))
            return False
        return True

    def end(self, ended):
        changes = {"lastStatus": "DEPROVISIONING", "container": ended}
        if not self.task.is_asked_to_stop():
            changes.update(desiredStatus="STOPPED", stopCode="EssentialContainerExited",
                           stoppedReason="Essential container in task exited")
        self.task.set(**changes)

    def fail(self, spec, reason):
        which = "container" if is_essential(spec) else "others"
        self.task.set(**{which: {"reason": reason}})
        self.fargate.fail(self.task, reason)
        return False

    def plan(self, steps):
        self.task.plan = steps

    def soon(self):
        return self.task.clock.now() + self.fargate.settings["step_seconds"]

    def create(self, spec):
        dropped = spec.get("linuxParameters", {}).get("capabilities", {}).get("drop", [])
        name = f"ecs-{self.task.id}" if is_essential(spec) else f"ecs-{self.task.id}-{spec['name']}"
        memory = int(self.definition["memory"]) * MIB
        return self.daemon.containers.create(
            spec["image"],
            command=spec.get("command"),
            entrypoint=spec.get("entryPoint"),
            name=name,
            environment=self.environment[spec["name"]],
            labels={LABEL: self.task.arn},
            cap_drop=dropped,
            init=spec.get("linuxParameters", {}).get("initProcessEnabled", False),
            mem_limit=memory,
            memswap_limit=memory,
            mounts=[self.mount(mount) for mount in spec.get("mountPoints", [])],
            read_only=spec.get("readonlyRootFilesystem", False),
            user=spec.get("user"),
            working_dir=spec.get("workingDirectory"),
        )

    def volume(self, name):
        return f"ecs-{self.task.id}-{name}"

    def mount(self, mount):
        """A volume of Fargate belongs to root, with mode 0755, and gets nothing of an image that does not declare it."""
        source = self.volume(mount["sourceVolume"])
        self.daemon.volumes.create(source, labels={LABEL: self.task.arn})
        read_only = mount.get("readOnly", False)
        return Mount(mount["containerPath"], source, type="volume", read_only=read_only, no_copy=True)

    def remove_volumes(self):
        for volume in self.definition.get("volumes", []):
            try:
                self.daemon.volumes.get(self.volume(volume["name"])).remove(force=True)
            except errors.APIError:
                pass  # no container had it


def image(daemon, name):
    try:
        daemon.images.get(name)
    except errors.ImageNotFound:
        daemon.images.pull(name)


def image_digest(of):
    """ECS names the digest of an image of a registry (API reference, Container)."""
    names = of.attrs.get("RepoDigests") or []
    return {"imageDigest": names[0].split("@")[1]} if names else {}


def stop_when_asked(task, container, timeout):
    """Docker stops like Fargate: SIGTERM, and SIGKILL after the timeout."""
    task.stop_asked.wait()
    try:
        container.stop(timeout=max(1, round(timeout)))
    except errors.APIError:
        pass


def remove_all(docker_host, tasks):
    if not docker_host:
        return
    daemon = docker.DockerClient(base_url=docker_host, timeout=60)
    for container in daemon.containers.list(all=True, filters={"label": LABEL}, ignore_removed=True):
        if container.labels[LABEL] not in tasks.all:
            continue
        try:
            container.remove(force=True)
        except errors.APIError:
            pass  # it ended by itself
    for volume in daemon.volumes.list(filters={"label": LABEL}):
        if (volume.attrs.get("Labels") or {}).get(LABEL) not in tasks.all:
            continue
        try:
            volume.remove(force=True)
        except errors.APIError:
            pass  # its task has removed it
