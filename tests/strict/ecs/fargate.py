"""Runs tasks: really, with Docker, or simulated, with an end that a test sets."""

from strict.ecs import containers

EXITED = "Essential container in task exited"


class Fargate:
    def __init__(self, clock, settings, logs):
        self.clock, self.settings, self.logs = clock, settings, logs

    def launch(self, task, definition, environment, account):
        """Checks the containers' preconditions before their start, as Fargate does."""
        for container in definition["containerDefinitions"]:
            missing = self.missing(container, account)
            if missing is not None:
                return self.fail(task, missing)
            for secret in container.get("secrets", []):
                environment[container["name"]][secret["name"]] = account["secrets"][secret["valueFrom"]]
        if self.settings["docker_host"]:
            return containers.start(self, task, definition, environment)
        return self.simulate(task)

    def missing(self, container, account):
        for secret in container.get("secrets", []):
            if secret["valueFrom"] not in account["secrets"]:
                return (
                    "ResourceInitializationError: unable to pull secrets or registry auth: execution resource "
                    "retrieval failed: unable to retrieve secret from asm: service call has been retried 1 "
                    "time(s): AccessDeniedException: User is not authorized to perform: "
                    f"secretsmanager:GetSecretValue on resource: {secret['valueFrom']}"
                )
        group = container.get("logConfiguration", {}).get("options", {}).get("awslogs-group")
        if group is not None and group not in account["log_groups"]:
            return (
                "ResourceInitializationError: failed to validate logger args: create stream has been retried 1 "
                "times: failed to create Cloudwatch log stream: ResourceNotFoundException: The specified log "
                "group does not exist. : exit status 1"
            )
        return None

    def fail(self, task, reason, code="TaskFailedToStart", containers=None):
        """A task that never runs. `containers` replaces their description."""
        now, step = self.clock.now(), self.settings["step_seconds"]
        told = {"lastStatus": "DEPROVISIONING", "desiredStatus": "STOPPED", "stopCode": code, "stoppedReason": reason}
        if containers is not None:
            told["containers"] = containers
        stopped = {"lastStatus": "STOPPED"}
        task.plan = [
            (now + step, {"lastStatus": "PENDING"}),
            (now + 2 * step, told),
            (now + 3 * step, {"lastStatus": "STOPPED", "container": stopped, "others": stopped}),
        ]

    def unmet_dependency(self, at, exit_code):
        """The end of a task one of whose containers has not succeeded: its essential one never starts."""
        step = self.settings["step_seconds"]
        return [
            (at, {"others": {"lastStatus": "STOPPED", "exitCode": exit_code}}),
            (at + step, {"lastStatus": "DEPROVISIONING", "desiredStatus": "STOPPED", "stopCode": "TaskFailedToStart",
                         "stoppedReason": "Task failed to start"}),
            (at + 2 * step, {"lastStatus": "STOPPED", "container": {"lastStatus": "STOPPED"}}),
        ]

    def simulate(self, task):
        now, step = self.clock.now(), self.settings["step_seconds"]
        outcome = self.settings["outcome"]
        if outcome is not None and outcome.get("in_provisioning"):
            # Such a task has "an empty containers array" (prefect#22410).
            return self.fail(task, outcome["reason"], containers=[])
        if outcome is not None and outcome.get("inject_exit_code"):
            task.plan = [(now + step, {"lastStatus": "PENDING", "others": {"lastStatus": "RUNNING"}})]
            task.plan += self.unmet_dependency(now + 2 * step, outcome["inject_exit_code"])
            return None
        done = {"lastStatus": "STOPPED", "exitCode": 0}
        task.plan = [
            (now + step, {"lastStatus": "PENDING"}),
            (now + 2 * step, {"lastStatus": "RUNNING", "container": {"lastStatus": "RUNNING"}, "others": done}),
        ]
        if outcome is not None:
            task.plan += self.end_plan(now + 3 * step, outcome)
        return None

    def end_plan(self, at, outcome):
        step = self.settings["step_seconds"]
        container = {"lastStatus": "STOPPED"}
        if outcome.get("exit_code") is not None:
            container["exitCode"] = outcome["exit_code"]
        if outcome.get("container_reason"):
            container["reason"] = outcome["container_reason"]
        code = outcome.get("stop_code", "EssentialContainerExited")
        reason = outcome.get("reason", EXITED)
        return [
            (at, {"lastStatus": "DEPROVISIONING", "desiredStatus": "STOPPED", "stopCode": code,
                  "stoppedReason": reason, "container": container}),
            (at + step, {"lastStatus": "STOPPED"}),
        ]

    def stop(self, task, code, reason):
        """SIGTERM now, SIGKILL after the stopTimeout. A second stop does nothing."""
        with task.lock:
            if task.is_asked_to_stop():
                return
            task.set(desiredStatus="STOPPED", stopCode=code, stoppedReason=reason)
            if self.settings["docker_host"]:
                task.stop_asked.set()
            else:
                ended = {"exit_code": 143, "stop_code": code, "reason": reason}
                task.plan = self.end_plan(self.clock.now() + self.settings["step_seconds"], ended)

    def end(self, task, outcome):
        """Ends a simulated task as a test says."""
        with task.lock:
            task.plan = self.end_plan(self.clock.now(), outcome)
            task.advance()
