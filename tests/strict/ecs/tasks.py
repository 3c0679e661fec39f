"""Tasks, and their state in a read that lags behind."""

import copy
import random
import threading
import uuid

# "Stopped tasks only appear in the returned results for at least one hour" (API reference, DescribeTasks).
SHOWN_SECONDS = 3600
ACTIVE = ("PROVISIONING", "PENDING", "RUNNING", "DEACTIVATING", "STOPPING", "DEPROVISIONING")


class Task:
    def __init__(self, clock, publish, main, **facts):
        self.clock, self.publish = clock, publish
        # The name of the essential container.
        self.main = main
        self.lock = threading.RLock()
        self.facts = facts
        self.steps = []
        self.stopped_at = None
        self.stop_asked = threading.Event()
        self.plan = []

    @property
    def arn(self):
        return self.facts["taskArn"]

    @property
    def id(self):
        return self.arn.rsplit("/", 1)[-1]

    def set(self, at=None, **changes):
        """Sets the next state, from `at` on; `container` is of the essential container, `others` of the others."""
        with self.lock:
            at = self.clock.now() if at is None else at
            main, others = changes.pop("container", {}), changes.pop("others", {})
            self.facts.update(changes)
            for container in self.facts["containers"]:
                container.update(main if container["name"] == self.main else others)
            self.facts["version"] = self.facts.get("version", 0) + 1
            if changes.get("lastStatus") == "STOPPED":
                self.stopped_at = at
                self.facts["stoppedAt"] = at
            snapshot = copy.deepcopy(self.facts)
            self.steps.append((at, snapshot))
        self.publish(snapshot)

    def advance(self):
        """Applies the due changes of the plan: a list of (time, changes)."""
        with self.lock:
            while self.plan and self.plan[0][0] <= self.clock.now():
                at, changes = self.plan.pop(0)
                self.set(at, **copy.deepcopy(changes))

    def seen(self, at):
        """Its state at that time, which is not to be changed, or None if it did not exist yet or is no longer shown."""
        self.advance()
        with self.lock:
            if self.stopped_at is not None and at >= self.stopped_at + SHOWN_SECONDS:
                return None
            states = [facts for since, facts in self.steps if since <= at]
            return states[-1] if states else None

    def is_stopped(self):
        self.advance()
        return self.stopped_at is not None

    def is_asked_to_stop(self):
        return self.facts.get("desiredStatus") == "STOPPED"


class Tasks:
    def __init__(self, clock, settings, publish):
        self.clock, self.settings, self.publish = clock, settings, publish
        self.lock = threading.Lock()
        self.all = {}
        self.by_started = {}

    def create(self, partition, region, account, cluster, main, **facts):
        task_id = uuid.uuid4().hex
        arn = f"arn:{partition}:ecs:{region}:{account}:task/{cluster}/{task_id}"
        cluster_arn = f"arn:{partition}:ecs:{region}:{account}:cluster/{cluster}"
        task = Task(self.clock, self.publish, main, taskArn=arn, clusterArn=cluster_arn, createdAt=self.clock.now(), **facts)
        for container in task.facts["containers"]:
            container.update(taskArn=arn, containerArn=f"{arn.replace(':task/', ':container/')}/{uuid.uuid4()}")
        with self.lock:
            self.all[arn] = task
            self.by_started.setdefault(task.facts["startedBy"], []).append(task)
        task.set(lastStatus="PROVISIONING", desiredStatus="RUNNING")
        return task

    def lagged(self):
        return self.clock.now() - random.uniform(0, self.settings["lag_seconds"])

    def seen(self, cluster_arn, at, started_by=None):
        """The states at that time: of all tasks, or of those with this `startedBy`."""
        with self.lock:
            tasks = list(self.by_started.get(started_by, []) if started_by else self.all.values())
        states = (task.seen(at) for task in tasks if task.facts["clusterArn"] == cluster_arn)
        return [state for state in states if state is not None]

    def find(self, cluster_arn, name):
        """The current state, by ARN or id."""
        arn = name if name.startswith("arn:") else f"{cluster_arn.replace(':cluster/', ':task/')}/{name}"
        with self.lock:
            task = self.all.get(arn)
        return task if task is not None and task.facts["clusterArn"] == cluster_arn else None
