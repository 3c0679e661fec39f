"""Task definitions, and the rules of a definition for Fargate."""

import copy
import json
import re

from strict.ecs.fault import client

NAME = re.compile(r"[A-Za-z0-9_-]{1,255}")
ROLE = re.compile(r"arn:[a-z-]+:iam::\d{12}:role/.+")
SECRET = re.compile(r"arn:[a-z-]+:(ssm:[^:]+:\d{12}:parameter/.+|secretsmanager:[^:]+:\d{12}:secret:.+)")
# CPU units: minimum and maximum memory, and the step (developer guide, "Task size").
SIZES = {256: (512, 2048, 512), 512: (1024, 4096, 1024), 1024: (2048, 8192, 1024), 2048: (4096, 16384, 1024)}
SIZES |= {4096: (8192, 30720, 1024), 8192: (16384, 61440, 4096), 16384: (32768, 122880, 8192)}
KNOWN = {
    *("family", "taskRoleArn", "executionRoleArn", "networkMode", "containerDefinitions", "requiresCompatibilities"),
    *("cpu", "memory", "tags", "ephemeralStorage", "runtimePlatform", "volumes"),
}
CONTAINER = {
    *("name", "image", "essential", "environment", "secrets", "stopTimeout", "linuxParameters", "logConfiguration"),
    *("user", "readonlyRootFilesystem", "entryPoint", "command", "workingDirectory", "dependsOn", "mountPoints"),
}
# "Task definition max size" (service quotas of ECS), and the most containers in one.
MAX_BYTES, MAX_CONTAINERS = 64 * 1024, 10


class Definitions:
    def __init__(self):
        self.families = {}

    def register(self, account, region, partition, body):
        check(body)
        family = body["family"]
        revisions = self.families.setdefault((account, region, family), [])
        arn = f"arn:{partition}:ecs:{region}:{account}:task-definition/{family}:{len(revisions) + 1}"
        definition = {key: copy.deepcopy(value) for key, value in body.items() if key != "tags"}
        definition.update(taskDefinitionArn=arn, revision=len(revisions) + 1, status="ACTIVE")
        # An EC2 instance accepts whatever Fargate accepts.
        definition["compatibilities"] = sorted({"EC2", *body["requiresCompatibilities"]})
        for container in definition["containerDefinitions"]:
            # As in the real answers, missing fields are present and empty.
            for name in ("environment", "secrets", "mountPoints", "volumesFrom", "portMappings"):
                container.setdefault(name, [])
        definition.setdefault("volumes", [])
        revisions.append({"definition": definition, "tags": body.get("tags", [])})
        return revisions[-1]

    def find(self, account, region, name):
        """By family, `family:revision` or ARN: the named revision, or the last active one."""
        family, _, revision = name.rsplit("/", 1)[-1].partition(":")
        revisions = self.families.get((account, region, family), [])
        if revision:
            return next((r for r in revisions if str(r["definition"]["revision"]) == revision), None)
        active = [r for r in revisions if r["definition"]["status"] == "ACTIVE"]
        return active[-1] if active else None

    def deregister_all(self):
        for revisions in self.families.values():
            for revision in revisions:
                revision["definition"]["status"] = "INACTIVE"


def check(body):
    unknown = set(body) - KNOWN
    if unknown:
        raise client(f"{sorted(unknown)} is unknown to tests/strict/ecs/definitions.py: add it there if Canyon is to send it.")
    if NAME.fullmatch(body.get("family", "")) is None:
        raise client("Family contains invalid characters or is too long.")
    if body.get("networkMode") != "awsvpc":
        raise client("Fargate only supports network mode 'awsvpc'.")
    if body.get("requiresCompatibilities") == ["EC2"]:
        if "ephemeralStorage" in body:
            raise client("Ephemeral storage is only supported for tasks on Fargate.")
    elif body.get("requiresCompatibilities") == ["FARGATE"]:
        check_size(body)
    else:
        raise client("Canyon requires one launch type.")
    for name in ("executionRoleArn", "taskRoleArn"):
        if name in body and ROLE.fullmatch(body[name]) is None:
            raise client(f"Role is not valid: {body[name]}")
    storage = body.get("ephemeralStorage", {}).get("sizeInGiB", 21)
    if not 21 <= storage <= 200:
        raise client("Ephemeral storage must be between 21 and 200 GiB.")
    if body.get("runtimePlatform", {}).get("cpuArchitecture", "X86_64") not in ("X86_64", "ARM64"):
        raise client("The cpuArchitecture is not valid.")
    length = len(json.dumps(body, separators=(",", ":"), ensure_ascii=False).encode())
    if length > MAX_BYTES:
        raise client(f"Actual length: '{length}'. Max allowed length is '{MAX_BYTES}' bytes.")
    check_tags(body.get("tags", []), client)
    volumes = check_volumes(body.get("volumes", []), body["requiresCompatibilities"])
    containers = body["containerDefinitions"]
    names = [container.get("name") for container in containers]
    if not 1 <= len(containers) <= MAX_CONTAINERS or len(names) != len(set(names)):
        raise client("Container.name should not be null or empty, and be unique in a task definition.")
    if not any(is_essential(container) for container in containers):
        raise client("Invalid setting for task definition: at least one essential container must be specified.")
    for container in containers:
        check_container(container, body)
        check_mounts(container, volumes)
    check_dependencies(containers)


def is_essential(container):
    return container.get("essential", True)


def main_of(definition):
    """The container with whose end the task ends."""
    return next(container for container in definition["containerDefinitions"] if is_essential(container))


def check_volumes(volumes, compatibilities):
    names = [volume.get("name", "") for volume in volumes]
    if len(names) != len(set(names)) or not all(NAME.fullmatch(name) for name in names):
        raise client("Volume names must be unique, and have only letters, numbers, hyphens and underscores.")
    for volume in volumes:
        if set(volume) - {"name", "host"}:
            raise client(f"{sorted(volume)} is unknown to tests/strict/ecs/definitions.py: add it there if Canyon is to send it.")
        if volume.get("host", {}).get("sourcePath") and compatibilities == ["FARGATE"]:
            raise client("host.sourcePath should not be set for volumes in Fargate.")
    return set(names)


def check_mounts(container, volumes):
    paths = [mount.get("containerPath", "") for mount in container.get("mountPoints", [])]
    if len(paths) != len(set(paths)) or not all(path.startswith("/") for path in paths):
        raise client("Invalid mount point: containerPath must be absolute, and unique in its container.")
    for mount in container.get("mountPoints", []):
        if mount.get("sourceVolume") not in volumes:
            raise client(f"Unknown volume '{mount.get('sourceVolume')}'.")


def check_dependencies(containers):
    """API reference, "ContainerDependency"."""
    known = {container["name"]: container for container in containers}
    needs = {name: [need["containerName"] for need in one.get("dependsOn", [])] for name, one in known.items()}
    for container in containers:
        for need in container.get("dependsOn", []):
            name, condition = need["containerName"], need["condition"]
            if name not in known:
                raise client(f"Invalid 'dependsOn' setting for container. Container '{name}' is not defined.")
            if condition not in ("START", "COMPLETE", "SUCCESS"):
                raise client(f"Invalid 'dependsOn' setting for container: {condition} needs a health check, or is unknown.")
            if condition != "START" and is_essential(known[name]):
                raise client(f"Container '{name}' is essential: condition {condition} can't be set on an essential container.")
    in_order(needs)


def in_order(needs):
    """The names, each after those that it needs."""
    found = []
    while len(found) < len(needs):
        ready = [name for name in needs if name not in found and set(needs[name]) <= set(found)]
        if not ready:
            raise client("Invalid 'dependsOn' setting: the dependencies of containers have a cycle.")
        found += ready
    return found


def check_size(body):
    cpu, memory = int(body.get("cpu", 0)), int(body.get("memory", 0))
    least, most, step = SIZES.get(cpu, (1, 0, 1))
    exists = least <= memory <= most and memory % step == 0 and (cpu, memory) != (256, 1536)
    if not exists:
        raise client("No Fargate configuration exists for given values: "
                     f"{cpu} CPU, {memory} memory. See the Amazon ECS documentation for the valid values.")


def check_container(container, body):
    # SDKs send a `cpu` of 0, which means that it is not set.
    unknown = {name for name, value in container.items() if (name, value) != ("cpu", 0)} - CONTAINER
    if unknown:
        raise client(f"{sorted(unknown)} is unknown to tests/strict/ecs/definitions.py: add it there if Canyon is to send it.")
    if NAME.fullmatch(container.get("name", "")) is None or not container.get("image"):
        raise client("Container.image should not be null or empty.")
    if not 0 < container.get("stopTimeout", 30) <= 120:
        raise client("Invalid 'stopTimeout' setting for container: the most is 120 on Fargate.")
    arguments = container.get("command", []) + container.get("entryPoint", [])
    if not all(isinstance(argument, str) for argument in arguments):
        raise client("Container.command and entryPoint are lists of strings.")
    names = [pair["name"] for pair in container.get("environment", []) + container.get("secrets", [])]
    if len(names) != len(set(names)):
        raise client("The secret name must be unique and not shared with any new or existing environment variables")
    for secret in container.get("secrets", []):
        if SECRET.fullmatch(secret["valueFrom"]) is None:
            raise client(f"The valueFrom of secret {secret['name']} is no ARN.")
    if (container.get("secrets") or container.get("logConfiguration")) and "executionRoleArn" not in body:
        raise client("When you are specifying container secrets, you must also specify a value for 'executionRoleArn'.")
    if container.get("linuxParameters", {}).get("capabilities", {}).get("add"):
        raise client("Invalid setting for container: 'linuxParameters.capabilities.add' is not valid on Fargate.")
    log = container.get("logConfiguration")
    if log is not None:
        needed = {"awslogs-group", "awslogs-region", "awslogs-stream-prefix"}
        if log.get("logDriver") != "awslogs" or not needed <= set(log.get("options", {})):
            raise client("Log driver awslogs requires options: " + ", ".join(sorted(needed)))


def check_tags(tags, fault):
    keys = [tag["key"] for tag in tags]
    if len(tags) > 50 or len(keys) != len(set(keys)):
        raise fault("Too many tags, or a key twice.")
    for tag in tags:
        text = tag["key"] + tag.get("value", "")
        good = 1 <= len(tag["key"]) <= 128 and len(tag.get("value", "")) <= 256
        if not good or tag["key"].lower().startswith("aws:") or re.search(r"[^\w .:/=+@-]", text):
            raise fault(f"The tag {tag['key']} is not valid.")
