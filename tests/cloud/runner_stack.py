#!/usr/bin/env python3
"""Creates the stack of infra/aws/runner/template.yaml in moto, in a region of its own, and prints its roles and outputs
as one JSON document. (moto creates no OIDC provider from a template and attaches no AWS managed policies; cfn-lint checks
those parts.)

    aws-python tests/cloud/runner_stack.py --endpoint http://127.0.0.1:5000 --region eu-north-1 --parameter IssuerUrl=...
"""

import argparse
import ast
import json

import boto3


def document_of(iam, role, policy):
    document = iam.get_role_policy(RoleName=role, PolicyName=policy)["PolicyDocument"]
    # moto stores CloudFormation's document as Python prints it.
    return ast.literal_eval(document) if isinstance(document, str) else document


def main():
    arguments = argparse.ArgumentParser()
    arguments.add_argument("--template", default="infra/aws/runner/template.yaml")
    arguments.add_argument("--endpoint", required=True)
    arguments.add_argument("--region", required=True)
    arguments.add_argument("--parameter", action="append", default=[], metavar="NAME=VALUE")
    given = arguments.parse_args()
    session = boto3.Session("test", "test", region_name=given.region)

    def client(service):
        return session.client(service, endpoint_url=given.endpoint)

    with open(given.template) as file:
        template = file.read()
    pairs = [parameter.split("=", 1) for parameter in given.parameter]
    cloudformation, iam = client("cloudformation"), client("iam")
    cloudformation.create_stack(
        StackName="runner",
        TemplateBody=template,
        Parameters=[{"ParameterKey": name, "ParameterValue": value} for name, value in pairs],
        Capabilities=["CAPABILITY_NAMED_IAM"],
    )
    stack = cloudformation.describe_stacks(StackName="runner")["Stacks"][0]
    resources = cloudformation.list_stack_resources(StackName="runner")["StackResourceSummaries"]
    roles = {}
    for resource in resources:
        if resource["ResourceType"] == "AWS::IAM::Role":
            name = resource["PhysicalResourceId"]
            role = iam.get_role(RoleName=name)["Role"]
            policies = iam.list_role_policies(RoleName=name)["PolicyNames"]
            roles[resource["LogicalResourceId"]] = {
                "name": name,
                "arn": role["Arn"],
                "trust": role["AssumeRolePolicyDocument"],
                "policies": {policy: document_of(iam, name, policy) for policy in policies},
            }
    document = {
        "status": stack["StackStatus"],
        "roles": roles,
        "outputs": {output["OutputKey"]: output["OutputValue"] for output in stack.get("Outputs", [])},
    }
    print(json.dumps(document, indent=2, default=str))


main()
