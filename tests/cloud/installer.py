#!/usr/bin/env python3
"""Prints, as JSON, the calls of CloudFormation in the name of the installer of infra/aws/template.yaml: every action that
the published handlers of its resources name (the resource provider schemas of AWS, as cfn-lint ships them), on the ARN
that the template gives the resource.

    aws-python tests/cloud/installer.py [--parameter NAME=VALUE]

Each line has `step` (install, update, remove; rollback: a first deployment that fails), `resource`, `action`, `arn` and
`context`. Some actions are needed only for a property that the resource does not have. They are left out by the list
below, because the schemas do not mark them.
"""

import argparse
import fnmatch
import importlib.resources
import json

from stack import API_ID, Region, Template, translate

ACCOUNT, REGION = "123456789012", "us-east-1"
STEPS = {"install": ("create", "read"), "update": ("update", "read"), "remove": ("delete",), "rollback": ("delete",)}
# By type: actions that are needed for one property only, and that property. `-` marks actions that no property of ours
# needs, with the reason; a type without an entry needs all actions of its schema.
ONLY_FOR = {
    "AWS::ApiGatewayV2::Api": [("s3:*", "BodyS3Location")],
    "AWS::ApiGatewayV2::Integration": [("iam:PassRole", "CredentialsArn")],
    "AWS::DynamoDB::Table": [
        ("kinesis:*", "KinesisStreamSpecification"), ("dynamodb:*KinesisStreamingDestination", "KinesisStreamSpecification"),
        ("dynamodb:ImportTable", "ImportSourceSpecification"), ("dynamodb:DescribeImport", "ImportSourceSpecification"),
        ("s3:*", "ImportSourceSpecification"), ("logs:*", "ImportSourceSpecification"),
        ("dynamodb:*ResourcePolicy", "ResourcePolicy"), ("dynamodb:UpdateContributorInsights", "ContributorInsightsSpecification"),
        # For replicas in other regions: replication reads and writes items.
        ("dynamodb:*Replica", "Replicas"), ("dynamodb:*Item", "Replicas"), ("dynamodb:Scan", "Replicas"),
        ("dynamodb:Query", "Replicas"), ("iam:CreateServiceLinkedRole", "Replicas"),
        ("kms:*", "SSESpecification.KMSMasterKeyId"),
    ],
    "AWS::Events::EventBus": [("kms:*", "KmsKeyIdentifier"), ("events:UpdateEventBus", "KmsKeyIdentifier")],
    "AWS::Events::Rule": [("iam:PassRole", "RoleArn")],
    "AWS::IAM::Role": [
        ("iam:*RolePermissionsBoundary", "PermissionsBoundary"),
        # A boundary that CloudFormation could remove would bound nothing.
        ("iam:DeleteRolePermissionsBoundary", "-"),
        ("iam:AttachRolePolicy", "ManagedPolicyArns"), ("iam:DetachRolePolicy", "ManagedPolicyArns"),
        ("iam:UpdateRole*", "Description"),
    ],
    "AWS::KMS::Key": [("kms:DisableKey", "Enabled"), ("kms:EnableKey", "Enabled"), ("kms:DisableKeyRotation", "-")],
    "AWS::Lambda::EventSourceMapping": [("kms:*", "KmsKeyArn")],
    "AWS::Lambda::Function": [
        ("ec2:*", "VpcConfig"), ("elasticfilesystem:*", "FileSystemConfigs"), ("s3files:*", "FileSystemConfigs"),
        ("kms:*", "KmsKeyArn"), ("s3:GetObjectVersion", "Code.S3ObjectVersion"), ("lambda:GetLayerVersion", "Layers"),
        ("lambda:*CodeSigningConfig", "CodeSigningConfigArn"), ("lambda:PutRuntimeManagementConfig", "RuntimeManagementConfig"),
        ("lambda:AssociateRuntimeAlias", "RuntimeManagementConfig"), ("lambda:*RecursionConfig", "RecursiveLoop"),
        ("lambda:*ScalingConfig", "FunctionScalingConfig"), ("lambda:PassCapacityProvider", "CapacityProviderConfig"),
    ],
    "AWS::Logs::LogGroup": [
        ("logs:*DataProtectionPolicy", "DataProtectionPolicy"), ("logs:*IndexPolic*", "FieldIndexPolicies"),
        ("logs:CreateLogDelivery", "DataProtectionPolicy"), ("s3:*", "DataProtectionPolicy"),
        ("firehose:*", "DataProtectionPolicy"), ("logs:*ResourcePolic*", "ResourcePolicyDocument"),
        ("logs:PutBearerTokenAuthentication", "BearerTokenAuthenticationEnabled"),
        ("logs:PutLogGroupDeletionProtection", "DeletionProtectionEnabled"), ("logs:*KmsKey", "KmsKeyId"),
    ],
    "AWS::S3::Bucket": [
        ("s3tables:*", "MetadataTableConfiguration"), ("s3:*Metadata*", "MetadataTableConfiguration"),
        ("iam:PassRole", "ReplicationConfiguration"), ("s3:*Replication*", "ReplicationConfiguration"),
        ("s3:*Analytics*", "AnalyticsConfigurations"), ("s3:*CORS", "CorsConfiguration"), ("s3:*Cors", "CorsConfiguration"),
        ("s3:*Inventory*", "InventoryConfigurations"), ("s3:*MetricsConfiguration", "MetricsConfigurations"),
        ("s3:PutBucketNotification", "NotificationConfiguration"), ("s3:*BucketWebsite", "WebsiteConfiguration"),
        ("s3:PutAccelerateConfiguration", "AccelerateConfiguration"), ("s3:*Acl", "AccessControl"),
        ("s3:*ObjectLock*", "ObjectLockConfiguration"), ("s3:PutBucketLogging", "LoggingConfiguration"),
        ("s3:DeleteObject", "LoggingConfiguration"), ("s3:*IntelligentTiering*", "IntelligentTieringConfigurations"),
        ("s3:*Abac", "AbacStatus"), ("s3:DeleteBucketEncryption", "-"), ("s3:DeleteBucketLifecycle", "-"),
    ],
    "AWS::SNS::Topic": [
        ("sns:Subscribe", "Subscription"), ("sns:Unsubscribe", "Subscription"), ("sns:PutDataProtectionPolicy", "DataProtectionPolicy"),
        ("iam:*", "DeliveryStatusLogging"),
    ],
}


def schemas():
    found = {}
    for file in (importlib.resources.files("cfnlint") / "data/schemas/resources").iterdir():
        if file.name.endswith(".json"):
            schema = json.loads(file.read_text())
            found[schema.get("typeName")] = schema
    return found


def has(properties, path):
    for name in path.split("."):
        if not isinstance(properties, dict) or name not in properties:
            return False
        properties = properties[name]
    return True


def needed(kind, properties, action):
    of = [path for pattern, path in ONLY_FOR.get(kind, []) if fnmatch.fnmatchcase(action, pattern)]
    return "-" not in of and (not of or any(has(properties, path) for path in of))


def arns(kind, properties, action):
    """The resources that the call names."""
    def of(service, rest, region=REGION, account=ACCOUNT):
        return f"arn:aws:{service}:{region}:{account}:{rest}"

    p = properties
    if action == "iam:PassRole":
        return [p["Role"]]
    if action.startswith("s3:GetObject"):
        return ["arn:aws:s3:::aws-sam-cli-managed-default-samclisourcebucket-x/canyon/code"]
    if action.startswith("kms:") and kind not in ("AWS::KMS::Key", "AWS::KMS::Alias"):
        return [of("kms", "key/theirs")]
    if action in ("logs:DescribeLogGroups", "kms:CreateKey", "kms:ListAliases", "events:ListEventBuses"):
        return ["*"]
    return {
        "AWS::ApiGatewayV2::Api": lambda: [of("apigateway", "/apis", account=""), of("apigateway", f"/apis/{API_ID}", account="")],
        "AWS::ApiGatewayV2::Integration": lambda: [of("apigateway", f"/apis/{API_ID}/integrations/1", account="")],
        "AWS::ApiGatewayV2::Route": lambda: [of("apigateway", f"/apis/{API_ID}/routes/1", account="")],
        "AWS::ApiGatewayV2::Stage": lambda: [of("apigateway", f"/apis/{API_ID}/stages/$default", account="")],
        "AWS::CloudWatch::Alarm": lambda: [of("cloudwatch", f"alarm:{p['AlarmName']}")],
        "AWS::CloudWatch::Dashboard": lambda: [of("cloudwatch", f"dashboard/{p['DashboardName']}", region="")],
        "AWS::DynamoDB::Table": lambda: [of("dynamodb", f"table/{p['TableName']}")],
        "AWS::Events::EventBus": lambda: [of("events", f"event-bus/{p['Name']}")],
        "AWS::Events::EventBusPolicy": lambda: [of("events", "event-bus/canyon")],
        "AWS::Events::Rule": lambda: [of("events", f"rule/{'canyon/' if 'EventBusName' in p else ''}{p['Name']}")],
        "AWS::IAM::Role": lambda: [of("iam", f"role/{p['RoleName']}", region="")],
        "AWS::KMS::Alias": lambda: [of("kms", p["AliasName"]), of("kms", "key/ours")],
        "AWS::KMS::Key": lambda: [of("kms", "key/ours")],
        "AWS::Lambda::EventInvokeConfig": lambda: [of("lambda", "function:canyon-events")],
        "AWS::Lambda::EventSourceMapping": lambda: [of("lambda", "event-source-mapping:ours")],
        "AWS::Lambda::Function": lambda: [of("lambda", f"function:{p['FunctionName']}")],
        "AWS::Lambda::Permission": lambda: [of("lambda", "function:canyon-api")],
        "AWS::Logs::LogGroup": lambda: [of("logs", f"log-group:{p['LogGroupName']}")],
        "AWS::S3::Bucket": lambda: [f"arn:aws:s3:::{p['BucketName']}"],
        "AWS::S3::BucketPolicy": lambda: [f"arn:aws:s3:::canyon-{ACCOUNT}-{REGION}"],
        "AWS::SNS::Topic": lambda: [of("sns", p["TopicName"])],
        "AWS::SQS::Queue": lambda: [of("sqs", p["QueueName"])],
        "AWS::SQS::QueuePolicy": lambda: [of("sqs", "canyon-undelivered")],
    }[kind]()


def context(properties, action):
    found = {"aws:CalledViaFirst": "cloudformation.amazonaws.com", "aws:RequestedRegion": REGION}
    if action == "iam:PassRole":
        found["iam:PassedToService"] = "lambda.amazonaws.com"
    boundary = ("iam:CreateRole", "iam:PutRolePolicy", "iam:DeleteRolePolicy", "iam:PutRolePermissionsBoundary")
    if action in boundary and "PermissionsBoundary" in properties:
        found["iam:PermissionsBoundary"] = properties["PermissionsBoundary"]
    if action == "kms:ScheduleKeyDeletion":
        found["kms:ScheduleKeyDeletionPendingWindowInDays"] = str(properties["PendingWindowInDays"])
    return found


def calls(resources, known):
    for logical, resource in sorted(resources.items()):
        kind, properties = resource["Type"], resource.get("Properties", {})
        kept = resource.get("DeletionPolicy", "Delete")
        for step, operations in STEPS.items():
            if (step == "remove" and kept != "Delete") or (step == "rollback" and kept == "Retain"):
                continue
            handlers = known[kind]["handlers"]
            actions = {action for name in operations for action in handlers.get(name, {}).get("permissions", [])}
            for action in sorted(action for action in actions if needed(kind, properties, action)):
                for arn in arns(kind, properties, action):
                    yield {"step": step, "resource": logical, "action": action, "arn": arn,
                           "context": context(properties, action)}


def main():
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--parameter", action="append", default=[], metavar="NAME=VALUE")
    options = options.parse_args()
    pseudo = {
        "AWS::AccountId": ACCOUNT, "AWS::NoValue": None, "AWS::Partition": "aws", "AWS::Region": REGION,
        "AWS::StackName": "canyon", "AWS::URLSuffix": "amazonaws.com",
    }
    given = dict(parameter.split("=", 1) for parameter in options.parameter)
    template = Template(translate("infra/aws/template.yaml", Region(None, REGION)), given, pseudo)
    roles = [name for name, r in template.template["Resources"].items() if r["Type"] == "AWS::IAM::Role"]
    for role in roles:
        name = template.resolve(template.template["Resources"][role]["Properties"]["RoleName"])
        template.references[(role, "Arn")] = f"arn:aws:iam::{ACCOUNT}:role/{name}"
    for call in calls(template.resources(), schemas()):
        print(json.dumps(call))


if __name__ == "__main__":
    main()
