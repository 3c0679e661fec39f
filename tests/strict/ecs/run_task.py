"""RunTask: its refusals, its answers, and its memory of client tokens."""

import json
import re

from strict.ecs.definitions import check_tags
from strict.ecs.fault import EcsFault, client, invalid

DAY, HOUR = 24 * 3600, 3600
MAX_OVERRIDES = 8192
KNOWN = {
    *("cluster", "taskDefinition", "count", "clientToken", "startedBy", "networkConfiguration", "overrides", "tags"),
    *("propagateTags", "enableECSManagedTags", "platformVersion", "launchType", "capacityProviderStrategy"),
}
NO_CAPACITY = "Capacity is unavailable at this time. Please try again later or in a different availability zone"


class Tokens:
    """"The lower of 24 hours and the lifetime of the resource plus one hour"."""

    def __init__(self, clock):
        self.clock = clock
        self.known = {}

    def find(self, cluster_arn, token):
        entry = self.known.get((cluster_arn, token))
        if entry is None:
            return None
        now, stopped = self.clock.now(), [task.stopped_at for task in entry["tasks"] if task.is_stopped()]
        lapsed = len(stopped) == len(entry["tasks"]) and now > max(stopped) + HOUR
        if now > entry["at"] + DAY or lapsed:
            del self.known[cluster_arn, token]
            return None
        return entry

    def keep(self, cluster_arn, token, body, tasks):
        self.known[cluster_arn, token] = {"at": self.clock.now(), "body": body, "tasks": tasks}


def check(body, account, definition):
    unknown = set(body) - KNOWN
    if unknown:
        raise invalid(f"{sorted(unknown)} is unknown to tests/strict/ecs/run_task.py: add it there if Canyon is to send it.")
    if body.get("count", 1) != 1:
        raise invalid("Canyon asks for one task at a time.")
    token = body.get("clientToken", "")
    if re.fullmatch(r"[!-~]{1,64}", token) is None:
        raise invalid("clientToken must be up to 64 characters of ASCII 33-126.")
    if re.fullmatch(r"[A-Za-z0-9_/-]{1,128}", body.get("startedBy", "")) is None:
        raise invalid("startedBy contains invalid characters or is too long.")
    if ("launchType" in body) == ("capacityProviderStrategy" in body):
        raise invalid("Specifying both a launch type and capacity provider strategy is not supported, nor is neither.")
    launch_type = body.get("launchType", "FARGATE")
    if launch_type not in definition["compatibilities"]:
        raise invalid(f"Task definition does not support launch_type {launch_type}.")
    if launch_type == "EC2":
        check_ec2(body, account)
    if body.get("platformVersion", "LATEST") not in ("LATEST", "1.4.0"):
        raise EcsFault("PlatformUnknownException", "The platform version could not be found.")
    check_tags(body.get("tags", []), invalid)
    check_overrides(body, definition)
    check_network(body.get("networkConfiguration", {}).get("awsvpcConfiguration"), account)
    for item in body.get("capacityProviderStrategy", []):
        if item["capacityProvider"] not in account["capacity_providers"]:
            raise invalid(f"The specified capacity provider '{item['capacityProvider']}' was not found. Specify a "
                          "valid name and try again.")


def check_ec2(body, account):
    if "platformVersion" in body:
        raise invalid("The platform version must be null when specifying an EC2 launch type.")
    if body.get("networkConfiguration", {}).get("awsvpcConfiguration", {}).get("assignPublicIp") == "ENABLED":
        raise invalid("Assign public IP is not supported for this launch type.")
    if not account["instances"]:
        raise invalid("No Container Instances were found in your cluster.")


def check_overrides(body, definition):
    overrides = body.get("overrides", {})
    length = len(json.dumps(overrides, separators=(",", ":"), ensure_ascii=False))
    if length > MAX_OVERRIDES:
        raise invalid(f"Container Overrides length must be at most {MAX_OVERRIDES}")
    names = {container["name"] for container in definition["containerDefinitions"]}
    for override in overrides.get("containerOverrides", []):
        if override.get("name") not in names:
            raise invalid(f"Override for container named {override.get('name')} is not a container in the TaskDefinition.")
        if set(override) - {"name", "environment"}:
            raise invalid("Canyon overrides nothing but variables.")


def check_network(network, account):
    if network is None or not network.get("subnets"):
        raise invalid("Network Configuration must be provided when networkMode 'awsvpc' is specified.")
    if len(network["subnets"]) > 16 or len(network.get("securityGroups", [])) > 5:
        raise invalid("subnets can have at most 16 items and securityGroups at most 5.")
    for subnet in network["subnets"]:
        if subnet not in account["subnets"]:
            raise invalid(f"Error retrieving subnet information for [{subnet}]: The subnet ID '{subnet}' does not "
                          "exist (ErrorCode: InvalidSubnetID.NotFound)")
    for group in network.get("securityGroups", []):
        if group not in account["security_groups"]:
            raise invalid(f"Error retrieving security group information for [{group}]: The security group "
                          f"'{group}' does not exist (ErrorCode: InvalidGroup.NotFound)")


def provider_of(body):
    """The capacity provider with the largest weight; bases do not matter for one task."""
    strategy = body.get("capacityProviderStrategy")
    if not strategy:
        return body["launchType"]
    return max(strategy, key=lambda item: (item.get("base", 0), item.get("weight", 0)))["capacityProvider"]


def room(body, account, settings):
    """The failures of a launch without capacity, or none."""
    network = body["networkConfiguration"]["awsvpcConfiguration"]
    subnets = [account["subnets"][name] for name in network["subnets"]]
    full = settings["no_capacity"]
    if provider_of(body) in full or all(subnet.get("az") in full for subnet in subnets):
        return [{"reason": NO_CAPACITY}]
    if all(subnet.get("free", 100) <= 0 for subnet in subnets):
        return [{"reason": "RESOURCE:ENI"}]
    return []


def variables(body, definition):
    """The variables of each container, by its name."""
    found = {}
    for container in definition["containerDefinitions"]:
        pairs = list(container.get("environment", []))
        for override in body.get("overrides", {}).get("containerOverrides", []):
            pairs += override.get("environment", []) if override["name"] == container["name"] else []
        found[container["name"]] = {pair["name"]: pair["value"] for pair in pairs}
    return found


def brief(task):
    """The answer to a repeated call about a stopped task: "only the ARN and the status"."""
    if task.is_stopped():
        return {"taskArn": task.arn, "lastStatus": "STOPPED", "desiredStatus": "STOPPED"}
    return task.seen(task.clock.now())


def repeat(entry, raw):
    """The answer to a known client token: the same request gets its tasks, another request is refused."""
    if entry["body"] != raw:
        arns = [task.arn for task in entry["tasks"]]
        raise EcsFault("ConflictException", "The clientToken was used with other parameters.", resourceIds=arns)
    return {"tasks": [brief(task) for task in entry["tasks"]], "failures": []}


def no_definition():
    return client("TaskDefinition not found.")
