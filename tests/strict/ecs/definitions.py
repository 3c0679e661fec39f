"""Task definitions, and the rules of a definition for Fargate."""

import copy
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
    *("cpu", "memory", "tags", "ephemeralStorage", "runtimePlatform"),
}
CONTAINER = {
    *("name", "image", "essential", "environment", "secrets", "stopTimeout", "linuxParameters", "logConfiguration"),
    *("user", "readonlyRootFilesystem"),
}


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
    if len(body["containerDefinitions"]) != 1:
        raise client("Container.name should not be null or empty.")
    check_tags(body.get("tags", []), client)
    check_container(body["containerDefinitions"][0], body)


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
