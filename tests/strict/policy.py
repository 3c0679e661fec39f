"""Policies of AWS IAM: trust policies of roles, and policies of their rights.

Evaluated as the IAM user guide says ("Policy evaluation logic"): a matching Deny wins, else a matching Allow, else the
call is refused. Setting the state refuses unknown elements instead of ignoring them.
"""

import fnmatch
import re

OPERATORS = tuple(kind + test for kind in ("String", "Arn") for test in ("Equals", "NotEquals", "Like", "NotLike"))


def as_list(value):
    return value if isinstance(value, list) else [value]


def check_policy(policy, trust):
    if policy.get("Version") != "2012-10-17":
        raise ValueError("a policy must have the Version 2012-10-17")
    for statement in as_list(policy.get("Statement", [])):
        if statement.get("Effect") not in ("Allow", "Deny"):
            raise ValueError("a statement must have the Effect Allow or Deny")
        known = {"Sid", "Effect", "Action", "Condition", "Principal" if trust else "Resource"}
        if set(statement) - known or "Action" not in statement:
            raise ValueError(f"a statement has {sorted(statement)}, known here are {sorted(known)}")
        if trust and set(statement.get("Principal", {})) != {"Federated"}:
            raise ValueError("a trust policy's Principal must be Federated here")
        for operator in statement.get("Condition", {}):
            if operator not in OPERATORS:
                raise ValueError(f"the condition {operator} is not known here")


def matches(pattern, text):
    """`*` and `?` of IAM; no brackets, unlike a shell."""
    escaped = pattern.replace("[", "[[]")
    return re.match(fnmatch.translate(escaped), text) is not None


def matches_arn(pattern, text):
    """Matches each of the six parts by itself; ArnEquals and ArnLike are the same ("Condition operators")."""
    wanted, given = pattern.split(":", 5), text.split(":", 5)
    return len(wanted) == len(given) == 6 and all(map(matches, wanted, given))


def comparison(operator):
    if operator.startswith("Arn"):
        return matches_arn
    return matches if "Like" in operator else str.__eq__


def holds(condition, context):
    """Every operator and key must match, with one of the key's values."""
    for operator, tests in condition.items():
        test, negated = comparison(operator), "Not" in operator
        for key, wanted in tests.items():
            given = {name.lower(): value for name, value in context.items()}.get(key.lower())
            if given is None:
                # A missing key matches no positive test, and every negated one.
                if negated:
                    continue
                return False
            if any(test(value, given) for value in as_list(wanted)) == negated:
                return False
    return True


def allows(policies, action, resource, context=None):
    granted = False
    for policy in policies:
        for statement in as_list(policy["Statement"]):
            named = any(matches(name.lower(), action.lower()) for name in as_list(statement["Action"]))
            about = any(matches(name, resource) for name in as_list(statement.get("Resource", "*")))
            if not (named and about and holds(statement.get("Condition", {}), context or {})):
                continue
            if statement["Effect"] == "Deny":
                return False
            granted = True
    return granted


def trusts(policy, provider_arn, context):
    """Whether the trust policy accepts a token of the OIDC provider."""
    granted = False
    for statement in as_list(policy["Statement"]):
        if provider_arn not in as_list(statement["Principal"]["Federated"]):
            continue
        if not any(matches(name, "sts:AssumeRoleWithWebIdentity") for name in as_list(statement["Action"])):
            continue
        if not holds(statement.get("Condition", {}), context):
            continue
        if statement["Effect"] == "Deny":
            return False
        granted = True
    return granted
