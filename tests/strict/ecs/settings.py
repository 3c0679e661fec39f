"""The resources of an account, and the behaviour of the service."""

DEFAULTS = {
    # The longest lag of a read, in seconds; each read draws its own.
    "lag_seconds": 0,
    # How long a task is PROVISIONING, PENDING, and DEPROVISIONING.
    "step_seconds": 0.05,
    # The Docker engine that really runs tasks; if None, tasks are simulated.
    "docker_host": None,
    # How many real seconds a second of `stopTimeout` takes.
    "stop_scale": 1.0,
    # Calls of RunTask: burst, per second.
    "run_task_rate": [20, 20],
    # Calls of DescribeTasks and ListTasks together: burst, per second.
    "read_rate": [100, 20],
    # Launches on Fargate, on-demand and Spot counted apart: burst, per second.
    "launch_rate": [100, 20],
    # The URL for state change events, if any.
    "event_sink": None,
    # Capacity providers and availability zones without capacity.
    "no_capacity": [],
    # The end of a simulated task: {"exit_code", "stop_code", "reason", "container_reason"}; None runs on.
    "outcome": None,
}

# Of an account: cluster names with their number of instances, {subnet: {"az", "free"}}, security groups, log groups,
# and {ARN: value} of secrets.
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
