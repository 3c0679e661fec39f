"""Amazon CloudWatch Logs, as far as Canyon reads it: GetLogEvents, page by page."""

import json
import threading

from strict import policy, sigv4
from strict.ecs.fault import EcsFault
from strict.serving import Reply

TARGET = "Logs_20140328."
# The real pages have up to 10,000 events or 1 MiB.
PAGE = 200


class Logs:
    name = "aws_logs"

    def __init__(self, world, clock, settings):
        self.world, self.clock, self.settings = world, clock, settings
        self.lock = threading.Lock()
        self.streams = {}

    def keep(self, task, container, output):
        options = container.get("logConfiguration", {}).get("options")
        if options is None:
            return
        stream = f"{options['awslogs-stream-prefix']}/{container['name']}/{task.id}"
        lines = output.decode(errors="replace").split("\n")
        with self.lock:
            # The log driver drops empty lines.
            self.streams[options["awslogs-group"], stream] = [line for line in lines if line]

    def write(self, group, stream, lines):
        with self.lock:
            self.streams[group, stream] = lines

    def answer(self, request, facts):
        action = request.headers.get("x-amz-target", "").removeprefix(TARGET)
        facts["action"] = action
        try:
            session, region = sigv4.verify_header(self.world, request, "logs")
            return Reply.json(200, self.events(session, region, json.loads(request.body)), action)
        except sigv4.SignatureFault as fault:
            return Reply.json(400, {"__type": fault.code, "message": fault.message}, fault.code)
        except EcsFault as fault:
            return Reply.json(fault.status, {"__type": fault.code, "message": fault.message}, fault.code)

    def events(self, session, region, body):
        group, stream = body["logGroupName"], body["logStreamName"]
        arn = f"arn:{session['partition']}:logs:{region}:{session['account']}:log-group:{group}:log-stream:{stream}"
        if not policy.allows(self.settings.policies(session), "logs:GetLogEvents", arn):
            raise EcsFault("AccessDeniedException", f"User: {session['arn']} is not authorized to perform: "
                           f"logs:GetLogEvents on resource: {arn}")
        with self.lock:
            lines = self.streams.get((group, stream))
        if lines is None:
            raise EcsFault("ResourceNotFoundException", "The specified log stream does not exist.")
        start = int(body.get("nextToken", "f/0").removeprefix("f/"))
        page = lines[start : start + PAGE]
        at = int(self.clock.now() * 1000)
        events = [{"timestamp": at, "ingestionTime": at, "message": line} for line in page]
        return {"events": events, "nextForwardToken": f"f/{start + len(page)}", "nextBackwardToken": f"b/{start}"}
