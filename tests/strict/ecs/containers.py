"""The container of a task, run by Docker."""

import threading

import docker
from docker import errors

LABEL = "canyon.strict.ecs"
MIB = 1024 * 1024


def start(fargate, task, definition, environment):
    threading.Thread(target=run, args=(fargate, task, definition, environment), daemon=True).start()


def run(fargate, task, definition, environment):
    daemon = docker.DockerClient(base_url=fargate.settings["docker_host"], timeout=600)
    spec = definition["containerDefinitions"][0]
    task.set(lastStatus="PENDING")
    try:
        image(daemon, spec["image"])
        container = create(daemon, task, definition, spec, environment)
    except errors.APIError as error:
        reason = f"CannotPullContainerError: pull image manifest has been retried 1 time(s): {error.explanation}"
        return fargate.fail(task, reason)
    try:
        container.start()
    except errors.APIError as error:
        container.remove(force=True)
        return fargate.fail(task, f"CannotStartContainerError: {error.explanation}")
    task.container = container
    task.set(lastStatus="RUNNING", container={"lastStatus": "RUNNING", "runtimeId": container.id})
    timeout = spec.get("stopTimeout", 30) * fargate.settings["stop_scale"]
    threading.Thread(target=stop_when_asked, args=(task, container, timeout), daemon=True).start()
    exit_code = container.wait()["StatusCode"]
    task.stop_asked.set()
    container.reload()
    fargate.logs.keep(task, definition, container.logs(stdout=True, stderr=True))
    ended = {"lastStatus": "STOPPED", "exitCode": exit_code}
    if container.attrs["State"]["OOMKilled"]:
        ended["reason"] = "OutOfMemoryError: Container killed due to memory usage"
    changes = {"lastStatus": "DEPROVISIONING", "container": ended}
    if not task.is_asked_to_stop():
        changes.update(desiredStatus="STOPPED", stopCode="EssentialContainerExited",
                       stoppedReason="Essential container in task exited")
    task.set(**changes)
    container.remove(force=True)
    task.plan = [(task.clock.now() + fargate.settings["step_seconds"], {"lastStatus": "STOPPED"})]
    return None


def image(daemon, name):
    try:
        daemon.images.get(name)
    except errors.ImageNotFound:
        daemon.images.pull(name)


def create(daemon, task, definition, spec, environment):
    dropped = spec.get("linuxParameters", {}).get("capabilities", {}).get("drop", [])
    return daemon.containers.create(
        spec["image"],
        name=f"ecs-{task.id}",
        environment=environment,
        labels={LABEL: task.arn},
        cap_drop=dropped,
        init=spec.get("linuxParameters", {}).get("initProcessEnabled", False),
        mem_limit=int(definition["memory"]) * MIB,
        memswap_limit=int(definition["memory"]) * MIB,
        read_only=spec.get("readonlyRootFilesystem", False),
        user=spec.get("user"),
    )


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
