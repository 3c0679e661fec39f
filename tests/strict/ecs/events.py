"""State change events, delivered as EventBridge does: at least once, and in any order."""

import json
import random
import threading
import time
import urllib.request
import uuid

# The longest delay of an event.
DELAY_SECONDS = 0.3


class Events:
    def __init__(self, settings):
        self.settings = settings

    def __call__(self, facts):
        sink = self.settings["event_sink"]
        if sink is None:
            return
        event = json.dumps(event_of(facts)).encode()
        for _ in range(random.choice([1, 1, 2])):
            threading.Thread(target=send, args=(sink, event), daemon=True).start()


def event_of(facts):
    """Developer guide, "Amazon ECS task state change events". A duplicate has the same `version`."""
    _, _, _, region, account, _ = facts["taskArn"].split(":", 5)
    return {
        "version": "0",
        "id": str(uuid.uuid4()),
        "detail-type": "ECS Task State Change",
        "source": "aws.ecs",
        "account": account,
        "time": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        "region": region,
        "resources": [facts["taskArn"]],
        "detail": facts,
    }


def send(sink, event):
    time.sleep(random.uniform(0, DELAY_SECONDS))
    request = urllib.request.Request(sink, event, {"content-type": "application/json"})
    try:
        urllib.request.urlopen(request, timeout=5).close()
    except OSError:
        pass
