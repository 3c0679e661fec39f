"""A test's controls: the fate of tasks, the time, and the recorded calls."""

import json

from strict.serving import Reply


class Control:
    name = "ecs_control"

    def __init__(self, ecs, logs):
        self.ecs, self.logs = ecs, logs

    def answer(self, request, _):
        body = json.loads(request.body or b"{}")
        asked = (request.method, request.path)
        if asked == ("GET", "/tasks"):
            return Reply.json(200, self.tasks())
        if asked == ("GET", "/bodies"):
            with self.ecs.lock:
                return Reply.json(200, list(self.ecs.bodies))
        if asked == ("POST", "/clock"):
            self.ecs.clock.advance(body["seconds"])
        elif asked == ("POST", "/faults"):
            with self.ecs.lock:
                self.ecs.faults = body
        elif asked == ("POST", "/end"):
            # A simulated task ends like this.
            self.ecs.fargate.end(self.task(body), body)
        elif asked == ("POST", "/interrupt"):
            self.ecs.fargate.stop(self.task(body), body["stop_code"], body["reason"])
        elif asked == ("POST", "/kill"):
            # The process is gone at once, as if the kernel had killed it.
            self.task(body).container.kill("SIGKILL")
        elif asked == ("POST", "/log"):
            self.logs.write(body["group"], body["stream"], body["lines"])
        elif asked == ("POST", "/deregister"):
            with self.ecs.lock:
                self.ecs.definitions.deregister_all()
        else:
            return Reply.json(404, {"message": f"no {asked}"})
        return Reply.json(200, {})

    def task(self, body):
        return self.ecs.tasks.all[body["task"]]

    def tasks(self):
        with self.ecs.tasks.lock:
            tasks = list(self.ecs.tasks.all.values())
        for task in tasks:
            task.advance()
        return [task.facts for task in tasks]
