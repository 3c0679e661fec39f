import copy
import unittest

from strict.ecs import definitions
from strict.ecs.fault import EcsFault

MAIN = {
    "name": "main",
    "image": "a:1",
    "entryPoint": ["/canyon/bin/canyon-runner"],
    "dependsOn": [{"containerName": "inject", "condition": "SUCCESS"}],
    "mountPoints": [{"sourceVolume": "canyon", "containerPath": "/canyon"}],
    "stopTimeout": 120,
}
INJECT = {
    "name": "inject",
    "image": "b:1",
    "essential": False,
    "command": ["inject", "/canyon/volume"],
    "mountPoints": [{"sourceVolume": "canyon", "containerPath": "/canyon/volume"}],
}


def definition():
    return {
        "family": "canyon-a",
        "networkMode": "awsvpc",
        "requiresCompatibilities": ["FARGATE"],
        "cpu": "256",
        "memory": "512",
        "containerDefinitions": [copy.deepcopy(INJECT), copy.deepcopy(MAIN)],
        "volumes": [{"name": "canyon", "host": {}}],
    }


class Definitions(unittest.TestCase):
    def refusal(self, change):
        body = definition()
        inject, main = body["containerDefinitions"]
        change(body, inject, main)
        with self.assertRaises(EcsFault) as raised:
            definitions.check(body)
        self.assertEqual(raised.exception.code, "ClientException")
        return raised.exception.message

    def test_two_containers_of_which_one_waits_for_the_other_are_accepted(self):
        definitions.check(definition())
        self.assertEqual(definitions.main_of(definition())["name"], "main")

    def test_what_ecs_refuses_is_refused(self):
        def unknown(_body, _inject, main):
            main["dependsOn"][0]["containerName"] = "none"

        def essential(_body, inject, _main):
            del inject["essential"]

        def healthy(_body, _inject, main):
            main["dependsOn"][0]["condition"] = "HEALTHY"

        def cycle(_body, inject, _main):
            inject["dependsOn"] = [{"containerName": "main", "condition": "START"}]

        def late(_body, _inject, main):
            main["stopTimeout"] = 121

        def long(_body, inject, _main):
            inject["command"] = ["x" * 70_000]

        def volume(body, _inject, _main):
            body["volumes"] = []

        def path(body, _inject, _main):
            body["volumes"][0]["host"]["sourcePath"] = "/etc"

        def twice(_body, inject, _main):
            inject["name"] = "main"

        def none_essential(_body, _inject, main):
            main["essential"] = False

        cases = [
            (unknown, "Container 'none' is not defined"),
            (essential, "can't be set on an essential container"),
            (healthy, "HEALTHY"),
            (cycle, "cycle"),
            (late, "stopTimeout"),
            (long, "Max allowed length is '65536' bytes"),
            (volume, "Unknown volume 'canyon'"),
            (path, "host.sourcePath"),
            (twice, "unique"),
            (none_essential, "essential container"),
        ]
        for change, words in cases:
            with self.subTest(change.__name__):
                self.assertIn(words, self.refusal(change))
