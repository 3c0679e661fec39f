#!/usr/bin/env python3
"""Prints docs/aws-permissions.md, what each function may do, from infra/aws/template.yaml.

    aws-python infra/aws/permissions.py > docs/aws-permissions.md
    aws-python infra/aws/permissions.py --check     # fails if the page is not what this prints

Every statement of a role has a reason, in the role's metadata `Reasons` under its Sid.
"""

import re
import sys
from pathlib import Path

from samtranslator.yaml_helper import yaml_parse

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs/aws-permissions.md"
FUNCTIONS = ["api", "issuer", "launcher", "events", "sweep"]
# The only statement whose actions support no resource names.
WITHOUT_RESOURCE = {"Trace"}

INTRODUCTION = """\
# What each function may do on AWS

`infra/aws/permissions.py` generates this page from [infra/aws/template.yaml](../infra/aws/template.yaml), and a test
compares the two. Each function has its own role. Names such as `Table` are names of the template's resources. A function
has no permissions but those listed here: no role scans the table, reads other tables, buckets or keys, or passes a role,
and only `sweep` deletes objects: those of deployments that their organization keeps no longer ([retention](retention.md)).
"""


class Fault(Exception):
    """The template breaks a rule that this page states."""


def statements(template, function):
    """The statements of a function's role, with their reasons."""
    role = template["Resources"][f"{function.capitalize()}Role"]
    reasons = dict(role["Metadata"]["Reasons"])
    for policy in role["Properties"]["Policies"]:
        for statement in policy["PolicyDocument"]["Statement"]:
            if "Fn::If" in statement:
                _, statement, _ = statement["Fn::If"]
            sid = statement["Sid"]
            if sid not in reasons:
                raise Fault(f"statement {sid} of {function} has no reason")
            actions, resources = as_list(statement["Action"]), as_list(statement["Resource"])
            if any("*" in action for action in actions):
                raise Fault(f"statement {sid} of {function} allows actions that it does not name")
            if "*" in resources and sid not in WITHOUT_RESOURCE:
                raise Fault(f"statement {sid} of {function} is for every resource")
            yield actions, [text(resource) for resource in resources], limits(statement), reasons.pop(sid)
    if reasons:
        raise Fault(f"reasons without a statement in {function}: {', '.join(reasons)}")


def as_list(value):
    return value if isinstance(value, list) else [value]


def limits(statement):
    """The conditions of a statement, as the end of a sentence about its resources."""
    keys = [tested for tests in statement.get("Condition", {}).values() for tested in tests.items()]
    conditions = [f"`{key}` {' or '.join(map(text, as_list(values)))}" for key, values in keys]
    return f"; only {', '.join(conditions)}" if conditions else ""


def text(resource):
    """A resource as the page names it."""
    if isinstance(resource, str):
        return f"`{resource}`"
    (kind, value), = resource.items()
    if kind == "Fn::GetAtt":
        logical, attribute = value if isinstance(value, list) else value.split(".")
        return f"stream of `{logical}`" if attribute == "StreamArn" else f"`{logical}`"
    if kind == "Fn::Sub":
        value = re.sub(r"^arn:\$\{AWS::Partition\}:\w+:\$\{AWS::Region\}:\$\{AWS::AccountId\}:", "", value)
        value = re.sub(r"\$\{(\w+)\.Arn\}", r"\1", value)
        return f"`{value}`"
    if kind == "Ref":
        return f"those of parameter `{value}`"
    if kind == "Fn::If":
        _, yes, no = value
        if no == {"Ref": "AWS::NoValue"}:
            return text(yes)
        return f"{text(no)}, or {text(yes)}"
    raise Fault(f"a resource that is named by {kind}")


def page(template):
    roles = {function: list(statements(template, function)) for function in FUNCTIONS}
    allowed = {name: {action for actions, *_ in role for action in actions} for name, role in roles.items()}
    lines = [INTRODUCTION, "| action | " + " | ".join(f"`{name}`" for name in FUNCTIONS) + " |"]
    lines.append("|---|" + "---|" * len(FUNCTIONS))
    for action in sorted(set().union(*allowed.values())):
        marks = ["x" if action in allowed[name] else "" for name in FUNCTIONS]
        lines.append(f"| `{action}` | " + " | ".join(marks) + " |")
    for name, role in roles.items():
        lines += ["", f"## `{name}`", "", "| actions | on | why |", "|---|---|---|"]
        for actions, resources, limited, why in role:
            named = ", ".join(f"`{action}`" for action in actions)
            lines.append(f"| {named} | {', '.join(resources)}{limited} | {why} |")
    return "\n".join(lines) + "\n"


def main():
    try:
        made = page(yaml_parse((ROOT / "infra/aws/template.yaml").read_text()))
    except Fault as fault:
        sys.exit(f"permissions.py: {fault}")
    if sys.argv[1:] == ["--check"]:
        if not PAGE.is_file() or PAGE.read_text() != made:
            sys.exit("docs/aws-permissions.md differs from the template; generate it again:\n"
                     "    aws-python infra/aws/permissions.py > docs/aws-permissions.md")
    elif sys.argv[1:]:
        sys.exit(__doc__)
    else:
        sys.stdout.write(made)


if __name__ == "__main__":
    main()
