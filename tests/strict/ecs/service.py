"""Amazon ECS: authorization, rate limits, and the operations."""

import json
import threading

from strict import policy, sigv4
from strict.ecs import run_task
from strict.ecs.definitions import Definitions, main_of
from strict.ecs.fault import EcsFault, client, invalid
from strict.serving import Reply

TARGET = "AmazonEC2ContainerServiceV20141113."
PAGE = 100


class Ecs:
    name = "aws_ecs"

    def __init__(self, world, clock, settings, tasks, fargate, buckets):
        self.world, self.clock, self.settings = world, clock, settings
        self.tasks, self.fargate, self.buckets = tasks, fargate, buckets
        self.definitions = Definitions()
        self.tokens = run_task.Tokens(clock)
        self.lock = threading.RLock()
        self.bodies = []
        self.faults = []

    def answer(self, request, facts):
        action = request.headers.get("x-amz-target", "").removeprefix(TARGET)
        facts["action"] = action
        fault = self.next_fault(action)
        if fault.get("drop") == "before":
            return None
        try:
            session, region = sigv4.verify_header(self.world, request, "ecs")
            facts["caller"] = session["arn"]
            with self.lock:
                self.bodies.append({"action": action, "body": request.body.decode()})
            if "error" in fault:
                raise EcsFault(**fault["error"])
            call = Call(self, session, region, request.body, fault)
            reply = Reply.json(200, call.do(action), action)
        except sigv4.SignatureFault as error:
            reply = problem(EcsFault(error.code, error.message))
        except EcsFault as error:
            reply = problem(error)
        return None if fault.get("drop") == "after" else reply

    def next_fault(self, action):
        with self.lock:
            for fault in self.faults:
                if fault["action"] == action and fault.get("times", 1) > 0:
                    fault["times"] = fault.get("times", 1) - 1
                    return fault
        return {}


def problem(fault):
    body = {"__type": fault.code, "message": fault.message, **fault.members}
    return Reply.json(fault.status, body, fault.code, **{"x-amzn-errortype": fault.code})


class Call:
    def __init__(self, ecs, session, region, raw, fault):
        self.ecs, self.session, self.region, self.raw, self.fault = ecs, session, region, raw, fault
        self.body = json.loads(raw or b"{}")
        self.account_id, self.partition = session["account"], session["partition"]
        self.account = ecs.settings.account(self.account_id)

    def do(self, action):
        actions = {
            "RegisterTaskDefinition": self.register,
            "DescribeTaskDefinition": self.describe_definition,
            "RunTask": self.run,
            "ListTasks": self.list,
            "DescribeTasks": self.describe,
            "StopTask": self.stop,
            "DescribeClusters": self.describe_clusters,
        }
        if action not in actions:
            raise EcsFault("UnknownOperationException", f"{action} is not known")
        return actions[action]()

    def arn(self, kind, name):
        return f"arn:{self.partition}:ecs:{self.region}:{self.account_id}:{kind}/{name}"

    def allow(self, action, resource, **context):
        policies = self.ecs.settings.policies(self.session)
        if not policy.allows(policies, action, resource, context):
            text = f"User: {self.session['arn']} is not authorized to perform: {action} on resource: {resource}"
            raise EcsFault("AccessDeniedException",
                           f"{text} because no identity-based policy allows the {action} action")

    def allow_roles(self, definition):
        for name in ("executionRoleArn", "taskRoleArn"):
            if name in definition:
                service = {"iam:PassedToService": "ecs-tasks.amazonaws.com"}
                self.allow("iam:PassRole", definition[name], **service)

    def task_arn(self, cluster, name):
        """Authorization comes before the check that a task exists."""
        return name if name.startswith("arn:") else self.arn("task", f"{cluster}/{name}")

    def cluster(self):
        name = self.body.get("cluster", "default").rsplit("/", 1)[-1]
        if name not in self.account["clusters"]:
            raise EcsFault("ClusterNotFoundException", "Cluster not found.")
        return name, self.arn("cluster", name)

    def register(self):
        with self.ecs.lock:
            self.allow("ecs:RegisterTaskDefinition", "*")
            if self.body.get("tags"):
                made = {"ecs:CreateAction": "RegisterTaskDefinition"}
                self.allow("ecs:TagResource", self.arn("task-definition", f"{self.body.get('family')}:1"), **made)
            self.allow_roles(self.body)
            made = self.ecs.definitions.register(self.account_id, self.region, self.partition, self.body)
        return {"taskDefinition": made["definition"], "tags": made["tags"]}

    def describe_definition(self):
        self.allow("ecs:DescribeTaskDefinition", "*")
        found = self.ecs.definitions.find(self.account_id, self.region, self.body["taskDefinition"])
        if found is None:
            raise client("Unable to describe task definition.")
        return {"taskDefinition": found["definition"]}

    def run(self):
        name, cluster_arn = self.cluster()
        context = {"ecs:cluster": cluster_arn}
        with self.ecs.lock:
            found = self.ecs.definitions.find(self.account_id, self.region, self.body["taskDefinition"])
            if found is None:
                raise run_task.no_definition()
            definition = found["definition"]
            self.allow("ecs:RunTask", definition["taskDefinitionArn"], **context)
            if self.body.get("tags") or self.body.get("propagateTags"):
                self.allow("ecs:TagResource", self.arn("task", f"{name}/*"), **{"ecs:CreateAction": "RunTask"})
            self.allow_roles(definition)
            self.throttle("run-task", self.ecs.settings["run_task_rate"])
            run_task.check(self.body, self.account, definition)
            entry = self.ecs.tokens.find(cluster_arn, self.body["clientToken"])
            if entry is not None:
                return run_task.repeat(entry, self.raw)
            failures = self.fault.get("failures") or run_task.room(self.body, self.account, self.ecs.settings)
            if failures:
                return {"tasks": [], "failures": failures}
            provider = run_task.provider_of(self.body)
            self.throttle(f"launch/{provider}", self.ecs.settings["launch_rate"])
            task = self.create(name, definition, provider)
            answer = task.seen(self.ecs.clock.now())
            self.ecs.tokens.keep(cluster_arn, self.body["clientToken"], self.raw, [task])
        self.ecs.fargate.launch(task, definition, run_task.variables(self.body, definition), self.account)
        return {"tasks": [answer], "failures": []}

    def throttle(self, what, rate):
        """Rates are those of an account in a region."""
        if not self.ecs.buckets.take(f"{what}/{self.account_id}/{self.region}", *rate):
            raise EcsFault("ThrottlingException", "Rate exceeded")

    def create(self, cluster, definition, provider):
        containers = [
            {"name": container["name"], "image": container["image"], "lastStatus": "PENDING"}
            for container in definition["containerDefinitions"]
        ]
        return self.ecs.tasks.create(
            self.partition,
            self.region,
            self.account_id,
            cluster,
            startedBy=self.body["startedBy"],
            taskDefinitionArn=definition["taskDefinitionArn"],
            group=f"family:{definition['family']}",
            launchType="EC2" if provider == "EC2" else "FARGATE",
            capacityProviderName=None if provider == "EC2" else provider,
            cpu=definition["cpu"],
            memory=definition["memory"],
            platformVersion=None if provider == "EC2" else "1.4.0",
            overrides=self.body.get("overrides", {}),
            tags=self.body.get("tags", []),
            attachments=[{"type": "ElasticNetworkInterface", "status": "PRECREATED", "details": []}],
            containers=containers,
            main=main_of(definition)["name"],
        )

    def list(self):
        _, cluster_arn = self.cluster()
        self.allow("ecs:ListTasks", "*", **{"ecs:cluster": cluster_arn})
        self.throttle("read", self.ecs.settings["read_rate"])
        if "startedBy" in self.body and {"family", "serviceName", "launchType"} & set(self.body):
            raise invalid("startedBy must be the only filter.")
        desired = self.body.get("desiredStatus", "RUNNING")
        group = f"family:{self.body['family']}" if self.body.get("family") else None
        seen = self.ecs.tasks.seen(cluster_arn, self.ecs.tasks.lagged(), self.body.get("startedBy"))
        arns = [
            task["taskArn"]
            for task in seen
            if task["desiredStatus"] == desired and group in (None, task["group"])
        ]
        start, size = int(self.body.get("nextToken", "0")), min(self.body.get("maxResults", PAGE), PAGE)
        answer = {"taskArns": arns[start : start + size]}
        if start + size < len(arns):
            answer["nextToken"] = str(start + size)
        return answer

    def describe(self):
        cluster, cluster_arn = self.cluster()
        names = self.body["tasks"]
        if not 1 <= len(names) <= 100:
            raise invalid("Tasks can have 1 to 100 items.")
        for name in names:
            self.allow("ecs:DescribeTasks", self.task_arn(cluster, name), **{"ecs:cluster": cluster_arn})
        self.throttle("read", self.ecs.settings["read_rate"])
        at, found, failures = self.ecs.tasks.lagged(), [], []
        for name in names:
            task = self.ecs.tasks.find(cluster_arn, name)
            seen = task.seen(at) if task is not None else None
            if seen is None:
                failures.append({"arn": name, "reason": "MISSING"})
            else:
                found.append({key: value for key, value in seen.items() if key != "tags" or self.body.get("include")})
        return {"tasks": found, "failures": failures}

    def stop(self):
        cluster, cluster_arn = self.cluster()
        self.allow("ecs:StopTask", self.task_arn(cluster, self.body["task"]), **{"ecs:cluster": cluster_arn})
        task = self.ecs.tasks.find(cluster_arn, self.body["task"])
        if task is None or task.seen(self.ecs.clock.now()) is None:
            raise invalid("The referenced task was not found.")
        self.ecs.fargate.stop(task, "UserInitiated", self.body.get("reason", "Task stopped by user"))
        return {"task": task.seen(self.ecs.clock.now())}

    def describe_clusters(self):
        found, failures = [], []
        for name in self.body.get("clusters", ["default"]):
            short = name.rsplit("/", 1)[-1]
            arn = self.arn("cluster", short)
            self.allow("ecs:DescribeClusters", arn)
            if short in self.account["clusters"]:
                providers = self.account["capacity_providers"]
                found.append({"clusterArn": arn, "clusterName": short, "status": "ACTIVE", "capacityProviders": providers})
            else:
                failures.append({"arn": arn, "reason": "MISSING"})
        return {"clusters": found, "failures": failures}
