"""Starts ECS, its logs, and the token service that issues its credentials."""

import argparse
import json
import signal
import sys
from pathlib import Path

from strict import issuers, serving
from strict.admin import Admin
from strict.aws_sts import AwsSts
from strict.ecs import containers
from strict.ecs.clock import Buckets, Clock
from strict.ecs.control import Control
from strict.ecs.events import Events
from strict.ecs.fargate import Fargate
from strict.ecs.logs import Logs
from strict.ecs.service import Ecs
from strict.ecs.settings import Settings
from strict.ecs.tasks import Tasks
from strict.world import World


class BelievingSts(AwsSts):
    """Checks no signature: for tests of later checks."""

    def believe(self, token, partition, account_id, account):
        claims = issuers.unverified(token)[1]
        return claims, f"arn:{partition}:iam::{account_id}:oidc-provider/tests"


def main():
    parser = argparse.ArgumentParser(prog="strict.ecs", description=__doc__)
    parser.add_argument("--config", type=Path, required=True, help="the state to begin with, JSON")
    parser.add_argument("--believe", action="store_true", help="verify no token, only what follows")
    arguments = parser.parse_args()
    world = World(json.loads(arguments.config.read_text()))
    clock, settings = Clock(), Settings(world)
    tasks = Tasks(clock, settings, Events(settings))
    logs = Logs(world, clock, settings)
    ecs = Ecs(world, clock, settings, tasks, Fargate(clock, settings, logs), Buckets(clock))
    sts = (BelievingSts if arguments.believe else AwsSts)(world)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    try:
        for service in (Admin(world), sts, ecs, logs, Control(ecs, logs)):
            print(f"{service.name}=http://127.0.0.1:{serving.serve(serving.handler_of(service, world), 0)}")
        print("ready", flush=True)
        sys.stdin.read()
    finally:
        containers.remove_all(settings["docker_host"], tasks)


if __name__ == "__main__":
    main()
