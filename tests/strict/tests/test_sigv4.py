"""Requests signed by botocore, the SDK of AWS itself."""

import base64
import time
import unittest
from urllib.parse import urlsplit

import botocore.session
from botocore.auth import SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials
from botocore.model import ServiceId
from botocore.signers import RequestSigner

from strict import authenticators, sigv4
from strict.aws_sts import AwsSts
from strict.serving import Request, handler_of, serve
from strict.world import World

ROLE = "arn:aws:iam::123456789012:role/team/canyon"
SESSION = {
    "secret": "wJalrXUtnFEMI",
    "token": "IQoJsession",
    "partition": "aws",
    "account": "123456789012",
    "role": "team/canyon",
    "role_arn": ROLE,
    "role_id": "AROAEXAMPLE",
    "session_name": "acme-shop",
    "arn": "arn:aws:sts::123456789012:assumed-role/canyon/acme-shop",
}
CLUSTER = {
    "name": "my-cluster",
    "region": "eu-central-1",
    "account": "123456789012",
    "access_entries": [{"principal_arn": ROLE, "username": "canyon:{{SessionName}}", "groups": ["runners"]}],
}


def world():
    made = World({"aws": {"clusters": [CLUSTER]}})
    made.sessions["ASIAEXAMPLE"] = {**SESSION, "ends_at": time.time() + 600}
    return made


def credentials():
    return Credentials("ASIAEXAMPLE", SESSION["secret"], SESSION["token"])


def signed(service="eks", url="http://127.0.0.1:1/clusters/my%20cluster?b=2&a=1%2F", body=b""):
    request = AWSRequest("GET", url, data=body)
    SigV4Auth(credentials(), service, "eu-central-1").add_auth(request)
    headers = {name.lower(): value for name, value in request.headers.items()}
    headers["host"] = urlsplit(url).netloc
    return Request("GET", url.split("127.0.0.1:1", 1)[1], headers, body)


def eks_token(cluster="my-cluster", lasts=60, host="sts.eu-central-1.amazonaws.com", scheme="https", more=""):
    """A token as `aws eks get-token` makes it."""
    session = botocore.session.get_session()
    events = session.get_component("event_emitter")
    signer = RequestSigner(ServiceId("sts"), "eu-central-1", "sts", "v4", credentials(), events)
    url = f"{scheme}://{host}/?Action=GetCallerIdentity&Version=2011-06-15{more}"
    request = {"method": "GET", "url": url, "body": {}, "headers": {"x-k8s-aws-id": cluster}, "context": {}}
    url = signer.generate_presigned_url(request, region_name="eu-central-1", expires_in=lasts, operation_name="")
    return "k8s-aws-v1." + base64.urlsafe_b64encode(url.encode()).decode().rstrip("=")


class Signatures(unittest.TestCase):
    def test_what_botocore_signs_is_good(self):
        session, region = sigv4.verify_header(world(), signed(), "eks")
        self.assertEqual((session["role_arn"], region), (ROLE, "eu-central-1"))

    def test_what_was_changed_afterwards_is_not(self):
        def change(**changes):
            request = signed()
            for name, value in changes.items():
                setattr(request, name, value)
            return request

        def header(name, value):
            request = signed()
            request.headers[name] = value
            return request

        cases = [
            ("method", change(method="POST"), "SignatureDoesNotMatch"),
            ("path", change(target="/clusters/other?b=2&a=1%2F"), "SignatureDoesNotMatch"),
            ("query", change(target="/clusters/my%20cluster?b=3&a=1%2F"), "SignatureDoesNotMatch"),
            ("body", change(body=b"x"), "SignatureDoesNotMatch"),
            ("host", header("host", "evil.example"), "SignatureDoesNotMatch"),
            ("date", header("x-amz-date", "20200101T000000Z"), "SignatureDoesNotMatch"),
            ("token", header("x-amz-security-token", "other"), "UnrecognizedClientException"),
            ("none", header("authorization", ""), "MissingAuthenticationToken"),
            ("service", signed(service="sts"), "SignatureDoesNotMatch"),
        ]
        for name, request, code in cases:
            with self.subTest(name), self.assertRaises(sigv4.SignatureFault) as caught:
                sigv4.verify_header(world(), request, "eks")
            self.assertEqual(caught.exception.code, code, name)

    def test_credentials_end(self):
        ended = world()
        ended.sessions["ASIAEXAMPLE"]["ends_at"] = time.time() - 1
        with self.assertRaises(sigv4.SignatureFault) as caught:
            sigv4.verify_header(ended, signed(), "eks")
        self.assertEqual(caught.exception.code, "ExpiredTokenException")


class EksTokens(unittest.TestCase):
    def setUp(self):
        self.world = world()
        port = serve(handler_of(AwsSts(self.world), self.world), 0)
        self.world.addresses["aws_sts"] = f"http://127.0.0.1:{port}"

    def test_a_token_of_the_aws_cli_is_the_user_of_the_access_entry(self):
        self.assertEqual(authenticators.eks(self.world, eks_token()), ("canyon:acme-shop", ["runners"]))

    def test_a_token_for_anything_else_is_nobody(self):
        cases = {
            "another cluster": eks_token(cluster="other"),
            "too long": eks_token(lasts=901),
            "another host": eks_token(host="sts.evil.example"),
            "plain http": eks_token(scheme="http"),
            "a further parameter": eks_token(more="&X=1"),
            "padding": eks_token() + "=",
            "another prefix": eks_token().replace("k8s-aws-v1.", "k8s-aws-v2."),
            "empty": "",
        }
        for name, token in cases.items():
            with self.subTest(name):
                self.assertIsNone(authenticators.eks(self.world, token))

    def test_a_role_without_an_access_entry_is_nobody(self):
        self.world.state["aws"]["clusters"][0]["access_entries"] = []
        self.assertIsNone(authenticators.eks(self.world, eks_token()))
