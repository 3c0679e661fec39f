"""What there is in an account, and how the service behaves."""

DEFAULTS = {
    # Longest lag of a read, in seconds; each read draws its own.
    "lag_seconds": 0,
    # How long a task is PROVISIONING, PENDING, and DEPROVISIONING.
    "step_seconds": 0.05,
    # Where tasks really run; None, and they are only said to.
    "docker_host": None,
    # A second of `stopTimeout` takes so many real ones.
    "stop_scale": 1.0,
    # Calls of RunTask: so many each second, after a burst.
    "run_task_rate": [20, 20],
    # Launches on Fargate, on demand and Spot apart: burst, each second.
    "launch_rate": [100, 20],
    # Where state changes are sent, if anywhere.
    "event_sink": None,
    # Capacity providers and availability zones without room.
    "no_capacity": [],
    # What a simulated task comes to: {"exit_code", "stop_code", "reason", "container_reason"}; None runs on.
    "outcome": None,
}

# Of an account: names of clusters, how many instances they have, {subnet: {"az", "free"}}, security groups, log groups, {ARN: value} of secrets.
ACCOUNT = {
    "clusters": [],
    "instances": 0,
    "capacity_providers": ["FARGATE", "FARGATE_SPOT"],
    "subnets": {},
    "security_groups": [],
    "log_groups": [],
    "secrets": {},
}


class Settings:
    def __init__(self, world):
        self.world = world

    def __getitem__(self, name):
        return self.world.state.get("aws", {}).get("ecs", {}).get(name, DEFAULTS[name])

    def account(self, number):
        given = self.world.state.get("aws", {}).get("accounts", {}).get(number, {})
        return {**ACCOUNT, **given.get("ecs", {})}

    def policies(self, session):
        accounts = self.world.state.get("aws", {}).get("accounts", {})
        role = accounts.get(session["account"], {}).get("roles", {}).get(session["role"], {})
        return role.get("policies", [])
