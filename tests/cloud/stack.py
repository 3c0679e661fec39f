#!/usr/bin/env python3
"""Creates the stack of infra/aws/template.yaml in moto and prints its resources as one JSON document.

    aws-python tests/cloud/stack.py --template infra/aws/template.yaml --endpoint http://127.0.0.1:5000 --stack canyon \
        --parameter ApiUrl=http://127.0.0.1:8080

moto does not support SAM: the template goes through AWS's own translator first. moto does not support some kinds of
resources either (`not_created` lists them); those are described from the template, with all its functions resolved.
moto skips API Gateway v2, so the API has no URL of its own here: set the parameter ApiUrl.

With `--resources` it creates nothing, and prints the resources and outputs that the template declares with these parameters.
"""

import argparse
import ast
import json
import re
import sys

import boto3
from samtranslator.parser.parser import Parser
from samtranslator.translator.translator import Translator
from samtranslator.yaml_helper import yaml_parse

NAMES = ["api", "events", "issuer", "launcher", "sweep"]
# moto creates no HTTP API; this is the id of the missing one.
API_ID = "canyonapi0"


class Template:
    """A template whose parameters are known. References to resources are resolved once they exist."""

    def __init__(self, template, given, pseudo):
        self.template = template
        self.values = {**parameters(template, given), **pseudo}
        self.references = {}

    def resolve(self, node):
        """`node` with every intrinsic function applied, except those on resources that do not exist yet."""
        if isinstance(node, list):
            return [value for value in map(self.resolve, node) if value is not None]
        if not isinstance(node, dict):
            return node
        name, argument = next(iter(node.items())) if len(node) == 1 else (None, None)
        if name == "Ref":
            if argument in self.values:
                return self.values[argument]
            return self.references.get((argument, None), node)
        if name == "Fn::GetAtt":
            logical, attribute = argument.split(".", 1) if isinstance(argument, str) else argument
            return self.references.get((logical, attribute), {name: [logical, attribute]})
        if name == "Fn::If":
            condition, yes, no = argument
            return self.resolve(yes if self.holds({"Condition": condition}) else no)
        if name == "Fn::Sub":
            text, own = argument if isinstance(argument, list) else (argument, {})
            named = ((own.get(part.get("Ref"), part) if isinstance(part, dict) else part) for part in parts(text))
            return self.join("", [self.resolve(part) for part in named])
        if name == "Fn::Join":
            return self.join(argument[0], self.resolve(argument[1]))
        resolved = {key: self.resolve(value) for key, value in node.items()}
        return {key: value for key, value in resolved.items() if value is not None}

    def join(self, separator, values):
        if any(isinstance(value, dict) for value in values):
            return {"Fn::Join": [separator, values]}
        return separator.join(map(str, values))

    def holds(self, condition):
        name, argument = next(iter(condition.items()))
        if name == "Condition":
            return self.holds(self.template["Conditions"][argument])
        if name == "Fn::Not":
            return not self.holds(argument[0])
        if name in ("Fn::And", "Fn::Or"):
            return (all if name == "Fn::And" else any)(map(self.holds, argument))
        if name == "Fn::Equals":
            left, right = map(self.resolve, argument)
            return str(left) == str(right)
        sys.exit(f"stack.py: it cannot tell whether {name} holds")

    def resources(self):
        """The resources whose condition holds, as far as they can be resolved."""
        found = {}
        for logical, resource in self.template["Resources"].items():
            condition = resource.get("Condition")
            if condition is None or self.holds({"Condition": condition}):
                kept = {key: value for key, value in resource.items() if key not in ("Condition", "Metadata")}
                found[logical] = self.resolve(kept)
        return found


def parameters(template, given):
    known = template.get("Parameters", {})
    if unknown := set(given) - set(known):
        sys.exit(f"stack.py: the template has no parameter {', '.join(sorted(unknown))}")
    values = {}
    for name, parameter in known.items():
        value = given.get(name, parameter.get("Default"))
        items = str(value).split(",") if parameter["Type"] == "CommaDelimitedList" else [str(value)]
        if not all(re.search(parameter.get("AllowedPattern", ""), item) for item in items):
            sys.exit(f"stack.py: parameter {name} cannot be {value!r}: {parameter.get('ConstraintDescription', '')}")
        if parameter["Type"] == "CommaDelimitedList":
            value = items
        values[name] = int(value) if parameter["Type"] == "Number" else value
    return values


def parts(text):
    """The text of a Fn::Sub as literals and references."""
    for literal, name in re.findall(r"([^$]+|\$(?!\{))|\$\{([^}]+)\}", text):
        if literal:
            yield literal
        elif "." in name:
            yield {"Fn::GetAtt": name.split(".", 1)}
        else:
            yield {"Ref": name}


def references(node):
    """Every reference to a resource that is still in `node`."""
    if isinstance(node, list):
        for value in node:
            yield from references(value)
    elif isinstance(node, dict):
        if set(node) == {"Ref"}:
            yield node["Ref"], None
        elif set(node) == {"Fn::GetAtt"}:
            yield tuple(node["Fn::GetAtt"])
        else:
            for value in node.values():
                yield from references(value)


class Region:
    """moto's region, through boto3."""

    def __init__(self, endpoint, region):
        self.region = region
        self.session = boto3.Session("test", "test", region_name=region)
        self.endpoint = endpoint

    def client(self, service):
        return self.session.client(service, endpoint_url=self.endpoint)


def translate(path, region):
    with open(path) as file:
        template = yaml_parse(file.read())
    for resource in template["Resources"].values():
        if resource["Type"] == "AWS::Serverless::Function":
            resource["Properties"]["CodeUri"] = "s3://stub/stub.zip"  # the functions run elsewhere
    translated = Translator({}, Parser(), boto_session=region.session).translate(template, {})
    for resource in translated["Resources"].values():
        if resource["Type"] == "AWS::Lambda::Function":
            resource["Properties"]["Code"] = {"ZipFile": "-"}
    return translated


def create(template, region, stack):
    """Creates the stack, learns every name and ARN from it, and returns its resources with these filled in."""
    for reference, value in {
        ("HttpApi", None): API_ID,
        ("HttpApi", "ApiEndpoint"): f"https://{API_ID}.execute-api.{region.region}.amazonaws.com",
        # moto does not resolve a reference to a bus.
        ("EventBus", None): template.resolve(template.template["Resources"]["EventBus"]["Properties"]["Name"]),
    }.items():
        template.references[reference] = value
    name_integrations(template)
    made = keys(template, region)
    resources = template.resources()
    outputs = template.resolve(template.template["Outputs"])
    # moto resolves each reference once, as an additional output.
    wanted = sorted(set(references([resources, outputs])), key=str)
    body = {
        "Resources": {name: resource for name, resource in resources.items() if name not in made},
        "Outputs": {
            f"R{number}": {"Value": {"Ref": logical} if attribute is None else {"Fn::GetAtt": [logical, attribute]}}
            for number, (logical, attribute) in enumerate(wanted)
        },
    }
    cloudformation = region.client("cloudformation")
    cloudformation.create_stack(StackName=stack, TemplateBody=json.dumps(body), Capabilities=["CAPABILITY_NAMED_IAM"])
    [stood] = cloudformation.describe_stacks(StackName=stack)["Stacks"]
    if stood["StackStatus"] != "CREATE_COMPLETE":
        sys.exit(f"stack.py: the stack is {stood['StackStatus']}: {stood.get('StackStatusReason')}")
    found = {output["OutputKey"]: output["OutputValue"] for output in stood["Outputs"]}
    for number, reference in enumerate(wanted):
        template.references[reference] = found[f"R{number}"]
    listed = cloudformation.describe_stack_resources(StackName=stack)["StackResources"]
    created = {resource.get("LogicalResourceId") for resource in listed}  # moto skips the others
    return template.resources(), created | made


def name_integrations(template):
    """The name of an integration, which moto does not create, is its name in the template."""
    for logical, resource in template.template["Resources"].items():
        if resource["Type"] == "AWS::ApiGatewayV2::Integration":
            template.references[(logical, None)] = logical


def keys(template, region):
    """Creates the signing keys, and returns their names: from a template, moto creates only encryption keys."""
    made = set()
    for logical, resource in template.resources().items():
        properties = resource.get("Properties", {})
        if resource["Type"] == "AWS::KMS::Key" and properties["KeyUsage"] != "ENCRYPT_DECRYPT":
            wanted = {name: properties[name] for name in ("Description", "KeyUsage", "KeySpec")}
            key = region.client("kms").create_key(**wanted)["KeyMetadata"]
            template.references[(logical, None)] = key["KeyId"]
            template.references[(logical, "Arn")] = key["Arn"]
            made.add(logical)
    return made


def functions(region, of_type):
    """Each function by its short name; facts that moto does not store come from the template."""
    client = region.client("lambda")
    found = {}
    for logical, declared in of_type("AWS::Lambda::Function").items():
        stored = client.get_function_configuration(FunctionName=declared["FunctionName"])
        short = logical.removesuffix("Function").lower()
        arn = stored["FunctionArn"]
        calls = [
            properties
            for properties in of_type("AWS::Lambda::EventInvokeConfig").values()
            if properties["FunctionName"] == stored["FunctionName"]
        ]
        found[short] = {
            "name": stored["FunctionName"],
            "arn": arn,
            "role": stored["Role"],
            "environment": stored["Environment"]["Variables"],
            "timeout": stored["Timeout"],
            "memory": stored["MemorySize"],
            "handler": stored["Handler"],
            "runtime": stored["Runtime"],
            "architectures": declared["Architectures"],
            "tracing": declared["TracingConfig"]["Mode"],
            "reserved_concurrency": declared.get("ReservedConcurrentExecutions"),
            "log_group": declared["LoggingConfig"]["LogGroup"],
            "asynchronous": calls[0] if calls else None,
            "permissions": [
                {"principal": permission["Principal"], "source_arn": permission["SourceArn"]}
                for permission in of_type("AWS::Lambda::Permission").values()
                if permission["FunctionName"] == stored["FunctionName"]
            ],
        }
    if sorted(found) != NAMES:
        sys.exit(f"stack.py: expected the functions {NAMES}, found {sorted(found)}")
    return found


def routes(made, of_type):
    """Each route's key, and the function of its integration."""
    integrations, short = of_type("AWS::ApiGatewayV2::Integration"), {f["arn"]: name for name, f in made.items()}
    return {
        route["RouteKey"]: short[integrations[route["Target"].removeprefix("integrations/")]["IntegrationUri"]]
        for route in of_type("AWS::ApiGatewayV2::Route").values()
    }


def statements(region, role_arn):
    """A role's policy, as moto stores it, each Action and Resource as a list."""
    iam = region.client("iam")
    role = role_arn.rsplit("/", 1)[1]
    found = []
    for name in iam.list_role_policies(RoleName=role)["PolicyNames"]:
        document = iam.get_role_policy(RoleName=role, PolicyName=name)["PolicyDocument"]
        # moto stores the policies of a template as Python prints them, not as JSON.
        for statement in ast.literal_eval(document)["Statement"]:
            lists = {key: as_list(statement[key]) for key in ("Action", "Resource")}
            found.append({**statement, **lists})
    return found


def as_list(value):
    return value if isinstance(value, list) else [value]


def table(region, properties):
    """The table in the form of `create_table`, from moto's table."""
    stored = region.client("dynamodb").describe_table(TableName=properties["TableName"])["Table"]
    return {
        "arn": stored["TableArn"],
        "stream_arn": stored["LatestStreamArn"],
        "create": {
            "TableName": stored["TableName"],
            "KeySchema": stored["KeySchema"],
            "AttributeDefinitions": stored["AttributeDefinitions"],
            "GlobalSecondaryIndexes": [
                {key: index[key] for key in ("IndexName", "KeySchema", "Projection")}
                for index in stored["GlobalSecondaryIndexes"]
            ],
            "BillingMode": stored["BillingModeSummary"]["BillingMode"],
            "StreamSpecification": stored["StreamSpecification"],
            "DeletionProtectionEnabled": stored["DeletionProtectionEnabled"],
            "SSESpecification": {"Enabled": properties["SSESpecification"]["SSEEnabled"]},
        },
        "ttl": properties["TimeToLiveSpecification"],
        "point_in_time_recovery": properties["PointInTimeRecoverySpecification"]["PointInTimeRecoveryEnabled"],
    }


def rules(region, of_type):
    """Each rule with its targets, as moto stores them."""
    client = region.client("events")
    found = []
    for properties in of_type("AWS::Events::Rule").values():
        bus = properties.get("EventBusName", "default")
        rule = client.describe_rule(Name=properties["Name"], EventBusName=bus)
        targets = client.list_targets_by_rule(Rule=rule["Name"], EventBusName=bus)["Targets"]
        found.append({
            "name": rule["Name"],
            "arn": rule["Arn"],
            "bus": bus,
            "pattern": json.loads(rule["EventPattern"]) if rule.get("EventPattern") else None,
            "schedule": rule.get("ScheduleExpression"),
            "targets": [
                {
                    "function": target["Arn"].rsplit("-", 1)[1],
                    "arn": target["Arn"],
                    "dlq": target.get("DeadLetterConfig", {}).get("Arn"),
                    "retry_policy": target.get("RetryPolicy"),
                    "input_transformer": target.get("InputTransformer"),
                }
                for target in targets
            ],
        })
    return found


def queues(region, of_type):
    client = region.client("sqs")
    found = {}
    for properties in of_type("AWS::SQS::Queue").values():
        url = client.get_queue_url(QueueName=properties["QueueName"])["QueueUrl"]
        attributes = client.get_queue_attributes(QueueUrl=url, AttributeNames=["All"])["Attributes"]
        found[properties["QueueName"]] = {
            "url": url,
            "arn": attributes["QueueArn"],
            "retention_seconds": int(attributes["MessageRetentionPeriod"]),
            "encrypted": properties["SqsManagedSseEnabled"] or "KmsMasterKeyId" in properties,
        }
    return found


def report(template, region, stack, resources, created):
    def of_type(kind):
        return {name: r.get("Properties", {}) for name, r in resources.items() if r["Type"] == kind}

    def only(kind):
        [properties] = of_type(kind).values()
        return properties

    made = functions(region, of_type)
    stored_table = table(region, only("AWS::DynamoDB::Table"))
    # Selected by its stream, since moto may hold other stacks' mappings.
    mappings = region.client("lambda").list_event_source_mappings(EventSourceArn=stored_table["stream_arn"])
    [mapping] = mappings["EventSourceMappings"]
    stage = only("AWS::ApiGatewayV2::Stage")
    bucket = only("AWS::S3::Bucket")
    region.client("s3").head_bucket(Bucket=bucket["BucketName"])
    keys = {name: template.references[(name, "Arn")] for name in of_type("AWS::KMS::Key")}
    bus = region.client("events").describe_event_bus(Name=only("AWS::Events::EventBus")["Name"])
    return {
        "stack": stack,
        "region": region.region,
        "functions": made,
        "roles": {name: statements(region, function["role"]) for name, function in made.items()},
        "table": stored_table,
        "event_source_mapping": {key: value for key, value in mapping.items() if key != "LastModified"},
        "rules": rules(region, of_type),
        "api": {
            "url": template.values["ApiUrl"] or template.references[("HttpApi", "ApiEndpoint")],
            "cors": only("AWS::ApiGatewayV2::Api").get("CorsConfiguration"),
            "endpoint_disabled": only("AWS::ApiGatewayV2::Api").get("DisableExecuteApiEndpoint", False),
            "integrations": of_type("AWS::ApiGatewayV2::Integration"),
            "routes": routes(made, of_type),
            "stage": stage["StageName"],
            "rate_limit": stage["DefaultRouteSettings"]["ThrottlingRateLimit"],
            "burst_limit": stage["DefaultRouteSettings"]["ThrottlingBurstLimit"],
            "access_log": stage["AccessLogSettings"],
        },
        "queues": queues(region, of_type),
        "keys": {
            "signing": made["issuer"]["environment"]["CANYON_SIGNING_KEYS"].split(","),
            "signing_of_stack": keys["SigningKey"],
            "job_signing": made["issuer"]["environment"]["CANYON_JOB_SIGNING_KEYS"].split(","),
            "master": keys["MasterKey"],
            "properties": of_type("AWS::KMS::Key"),
        },
        "bus": {
            "name": bus["Name"],
            "arn": bus["Arn"],
            "policies": list(of_type("AWS::Events::EventBusPolicy").values()),
        },
        "bucket": {"name": bucket["BucketName"], "properties": bucket, "policy": only("AWS::S3::BucketPolicy")},
        "log_groups": {p["LogGroupName"]: p["RetentionInDays"] for p in of_type("AWS::Logs::LogGroup").values()},
        "alarms": {p["AlarmName"]: p for p in of_type("AWS::CloudWatch::Alarm").values()},
        "retained": {name: r["DeletionPolicy"] for name, r in resources.items() if "DeletionPolicy" in r},
        "outputs": {name: output["Value"] for name, output in template.resolve(template.template["Outputs"]).items()},
        "not_created": sorted({r["Type"] for name, r in resources.items() if name not in created}),
    }


def main():
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--template", default="infra/aws/template.yaml")
    options.add_argument("--endpoint", help="where moto listens")
    options.add_argument("--resources", action="store_true", help="print what the template declares, and make nothing")
    options.add_argument("--stack", default="canyon")
    options.add_argument("--region", default="us-east-1")
    options.add_argument("--account", default="123456789012", help="the account that moto plays")
    options.add_argument("--parameter", action="append", default=[], metavar="NAME=VALUE")
    options = options.parse_args()
    region = Region(options.endpoint, options.region)
    pseudo = {
        "AWS::AccountId": options.account,
        "AWS::NoValue": None,
        "AWS::Partition": "aws",
        "AWS::Region": options.region,
        "AWS::StackName": options.stack,
        "AWS::URLSuffix": "amazonaws.com",
    }
    given = dict(parameter.split("=", 1) for parameter in options.parameter)
    template = Template(translate(options.template, region), given, pseudo)
    if options.resources:
        outputs = template.resolve(template.template["Outputs"])
        json.dump({"resources": template.resources(), "outputs": outputs}, sys.stdout, sort_keys=True)
        return
    resources, created = create(template, region, options.stack)
    json.dump(report(template, region, options.stack, resources, created), sys.stdout, indent=1, sort_keys=True)
    print()


if __name__ == "__main__":
    main()
