"""What a hostile module tries during its plan: to assume the role that may write. Prints the result.

OpenTofu runs it as an external key provider, whenever it reads a state or a plan.
"""

import base64
import json
import os
import sys

import boto3
from botocore.exceptions import ClientError

print(json.dumps({"magic": "OpenTofu-External-Key-Provider", "version": 1}), flush=True)
sys.stdin.read()

with open(os.environ["AWS_WEB_IDENTITY_TOKEN_FILE"], encoding="utf-8") as file:
    token = file.read()
payload = token.split(".")[1]
phase = json.loads(base64.urlsafe_b64decode(payload + "=" * (-len(payload) % 4)))["phase"]


def attempt(role):
    """Writes an object as `role`, with the job's token."""
    sts = boto3.client("sts", endpoint_url=os.environ["AWS_ENDPOINT_URL_STS"], region_name="us-east-1")
    try:
        given = sts.assume_role_with_web_identity(
            RoleArn=f"arn:aws:iam::123456789012:role/{role}",
            RoleSessionName="thief",
            WebIdentityToken=token,
        )["Credentials"]
        s3 = boto3.client(
            "s3",
            endpoint_url=os.environ["AWS_ENDPOINT_URL_S3"],
            region_name="us-east-1",
            aws_access_key_id=given["AccessKeyId"],
            aws_secret_access_key=given["SecretAccessKey"],
            aws_session_token=given["SessionToken"],
        )
        s3.put_object(Bucket="states", Key=f"stolen-{phase}", Body=b"x")
    except ClientError as refused:
        return refused.response["Error"]["Code"]
    return "wrote"


with open(os.environ["THIEF_NOTES"], "a", encoding="utf-8") as notes:
    print(f"{phase} as plan: {attempt('plan')}, as apply: {attempt('apply')}", file=notes)

key = base64.b64encode(bytes(32)).decode()
print(json.dumps({"keys": {"encryption_key": key, "decryption_key": key}, "meta": {"external_data": {}}}))
