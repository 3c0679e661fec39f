import unittest

from strict import cel, policy


def trust(condition, effect="Allow", principal="provider"):
    statement = {"Effect": effect, "Action": "sts:AssumeRoleWithWebIdentity", "Condition": condition}
    return {"Version": "2012-10-17", "Statement": [{**statement, "Principal": {"Federated": principal}}]}


class TrustPolicies(unittest.TestCase):
    def test_a_condition_must_hold_for_every_key_of_every_operator(self):
        context = {"host:sub": "org:1:runner:2", "host:aud": "sts.amazonaws.com"}
        context["aws:arn"] = "arn:aws:ecs:a:1:cluster/c"
        cases = [
            ({"StringEquals": {"host:sub": "org:1:runner:2", "host:aud": "sts.amazonaws.com"}}, True),
            ({"StringEquals": {"HOST:SUB": "org:1:runner:2"}}, True),
            ({"StringEquals": {"host:sub": ["org:9", "org:1:runner:2"]}}, True),
            ({"StringEquals": {"host:sub": "org:1:runner:2", "host:aud": "other"}}, False),
            ({"StringEquals": {"host:sub": "org:1:*"}}, False),
            ({"StringEquals": {"other:sub": "org:1:runner:2"}}, False),
            ({"StringLike": {"host:sub": "org:1:runner:*"}}, True),
            ({"StringLike": {"host:sub": "org:?:runner:?"}}, True),
            ({"StringLike": {"host:sub": "org:1:runner:"}}, False),
            ({"StringLike": {"host:sub": "org:[1]:runner:2"}}, False),
            ({"StringLike": {"host:sub": "org:*"}, "StringEquals": {"host:aud": "other"}}, False),
            ({"StringNotEquals": {"host:sub": "org:1:runner:2"}}, False),
            ({"StringNotEquals": {"other:sub": "x"}}, True),
            ({"ArnEquals": {"aws:arn": "arn:aws:ecs:a:1:cluster/c"}}, True),
            ({"ArnEquals": {"aws:arn": "arn:aws:ecs:*:1:cluster/?"}}, True),
            ({"ArnLike": {"aws:arn": "arn:aws:*:cluster/c"}}, False),
            ({"ArnNotEquals": {"aws:arn": "arn:aws:ecs:a:1:cluster/c"}}, False),
            ({"ArnEquals": {"aws:arn": "arn:aws:ecs:a:1:cluster/d"}}, False),
            ({}, True),
        ]
        for condition, expected in cases:
            with self.subTest(condition):
                self.assertEqual(policy.trusts(trust(condition), "provider", context), expected)
        self.assertFalse(policy.trusts(trust({}, principal="another"), "provider", context))
        self.assertFalse(policy.trusts(trust({}, effect="Deny"), "provider", context))

    def test_what_is_not_understood_is_refused_and_not_passed_over(self):
        for condition in ({"StringEqualsIfExists": {}}, {"ForAnyValue:StringLike": {}}, {"Bool": {}}):
            with self.subTest(condition), self.assertRaises(ValueError):
                policy.check_policy(trust(condition), trust=True)
        wide = trust({})
        wide["Statement"][0]["Principal"] = "*"
        with self.assertRaises((ValueError, AttributeError)):
            policy.check_policy(wide, trust=True)

    def test_a_deny_wins_over_an_allow(self):
        allow = {"Effect": "Allow", "Action": "eks:*", "Resource": "*"}
        deny = {"Effect": "Deny", "Action": "eks:DescribeCluster", "Resource": "arn:aws:eks:*:*:cluster/secret"}
        policies = [{"Version": "2012-10-17", "Statement": [allow, deny]}]
        for name, expected in (("open", True), ("secret", False)):
            arn = f"arn:aws:eks:eu-central-1:123456789012:cluster/{name}"
            self.assertEqual(policy.allows(policies, "eks:DescribeCluster", arn), expected)
        self.assertFalse(policy.allows(policies, "ecs:RunTask", "*"))


class Conditions(unittest.TestCase):
    assertion = {"sub": "org:1:runner:2", "aud": "x", "admin": True}
    names = {"assertion": assertion, "google": {"subject": "s"}, "attribute": {}}

    def test_expressions_are_true_when_cel_says_so(self):
        cases = [
            ("assertion.sub == 'org:1:runner:2'", True),
            ('assertion["sub"] == "org:1:runner:2"', True),
            ("assertion.sub.startsWith('org:1:')", True),
            ("assertion.sub.startsWith('org:2:') || google.subject == 's'", True),
            ("assertion.sub.startsWith('org:1:') && google.subject == 't'", False),
            ("!(assertion.aud in ['y', 'z'])", True),
            ("assertion.sub.matches('^org:[0-9]:runner:.$')", True),
            ("assertion.admin == 'true'", False),
            ("'org:' + '1' != assertion.sub", True),
        ]
        for text, expected in cases:
            with self.subTest(text):
                self.assertIs(cel.truth(cel.evaluate(text, self.names)), expected)

    def test_what_is_no_expression_here_is_refused(self):
        wrong = ("", "assertion.sub ==", "has(assertion.sub)", "a ? b : c", "a.size()", "1 2", "a == 'x")
        for text in wrong:
            with self.subTest(text), self.assertRaises(cel.CelFault):
                cel.parse(text)
        for text in ("assertion.absent == 'x'", "assertion.sub && true", "assertion.admin.startsWith('x')"):
            with self.subTest(text), self.assertRaises(cel.CelFault):
                cel.truth(cel.evaluate(text, self.names))
