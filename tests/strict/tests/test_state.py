import copy
import unittest
from pathlib import Path

import yaml

from strict.check import check_state

SAMPLE = yaml.safe_load((Path(__file__).parent.parent / "sample.yaml").read_text())


class States(unittest.TestCase):
    def test_the_sample_is_a_state(self):
        check_state(SAMPLE)

    def test_what_the_clouds_would_refuse_is_refused(self):
        def at(state, *path):
            for part in path:
                state = state[part]
            return state

        application = ("azure", "tenants", "11111111-1111-4111-8111-111111111111", "applications")
        application = (*application, "22222222-2222-4222-8222-222222222222")
        credential = at(SAMPLE, *application)["federated_credentials"][0]
        many = [{**credential, "subject": str(number)} for number in range(21)]
        cases = [
            ("21 federated credentials", application, "federated_credentials", many),
            ("two of one subject", application, "federated_credentials", [credential, credential]),
            ("a wildcard", application, "federated_credentials", [{**credential, "subject": "org:*"}]),
            ("two audiences", application, "federated_credentials", [{**credential, "audiences": ["a", "b"]}]),
            ("a condition that is none", ("gcp", "providers", 0), "attribute_condition", "has(assertion.sub)"),
            ("no subject", ("gcp", "providers", 0), "attribute_mapping", {"attribute.x": "assertion.sub"}),
            ("an issuer without TLS", ("gcp", "providers", 0), "issuer", "http://127.0.0.1"),
            ("11 audiences", ("gcp", "providers", 0), "allowed_audiences", ["a"] * 11),
            ("an unknown section", (), "more", {}),
        ]
        for name, path, member, value in cases:
            state = copy.deepcopy(SAMPLE)
            at(state, *path)[member] = value
            with self.subTest(name), self.assertRaises(ValueError):
                check_state(state)
