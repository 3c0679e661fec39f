"""Each cloud from a token to the address of a cluster, and the likely mistake at each step."""

import base64
import json
import re
import unittest
from urllib.parse import urlencode

from strict.arm import ResourceManager
from strict.authenticators import Authenticator
from strict.aws_sts import AwsSts
from strict.entra import AKS_SERVER, Entra
from strict.gcp_iam import GcpIamCredentials
from strict.gcp_sts import ACCESS_TOKEN, GRANT, HOST, GcpSts
from strict.gke import Gke
from strict.serving import Request
from strict.tests.issuer import SUBJECT, TestIssuer
from strict.world import World

POOL = "projects/1/locations/global/workloadIdentityPools/pool"
PROVIDER = f"{POOL}/providers/canyon"
ACCOUNT = "canyon@p.iam.gserviceaccount.com"
TENANT, CLIENT, OBJECT, SUBSCRIPTION = (f"{n}" * 8 + "-0000-4000-8000-000000000000" for n in "1234")
CLUSTER = f"/subscriptions/{SUBSCRIPTION}/resourceGroups/g/providers/Microsoft.ContainerService/managedClusters/c"
FORM = {"content-type": "application/x-www-form-urlencoded"}


def form(path, **members):
    return Request("POST", path, FORM, urlencode(members).encode())


def bearing(method, path, token, body=b""):
    return Request(method, path, {"authorization": f"Bearer {token}"}, body)


class Clouds(unittest.TestCase):
    def setUp(self):
        self.issuer = TestIssuer()
        self.addCleanup(self.issuer.close)
        self.world = World(self.issuer.state(gcp=self.gcp(), azure=self.azure(), api_server=self.api_server()))
        self.world.addresses.update(azure_resource_manager="http://127.0.0.1:1")

    def api_server(self):
        key = self.issuer.ca_file
        return {"server": "https://10.0.0.1", "ca_file": key, "ca_key_file": key}

    def gcp(self):
        user = {"role": "roles/iam.workloadIdentityUser", "members": [f"principal:{HOST}{POOL}/subject/{SUBJECT}"]}
        viewer = {"role": "roles/container.viewer", "members": [f"serviceAccount:{ACCOUNT}"]}
        condition = "google.subject != 'x'"
        return {
            "providers": [{"name": PROVIDER, "issuer": self.issuer.url, "attribute_condition": condition}],
            "service_accounts": {ACCOUNT: {"bindings": [user]}},
            "projects": {"p": {"bindings": [viewer]}},
            "clusters": [{"project": "p", "location": "l", "name": "c"}],
        }

    def azure(self):
        credential = {"issuer": self.issuer.url, "subject": SUBJECT, "audiences": ["api://AzureADTokenExchange"]}
        application = {"object_id": OBJECT, "federated_credentials": [credential]}
        role = {"principal_id": OBJECT, "role": "Azure Kubernetes Service Cluster User Role"}
        return {
            "tenants": {TENANT: {"applications": {CLIENT: application}}},
            "role_assignments": [{**role, "scope": f"/subscriptions/{SUBSCRIPTION}/resourceGroups/g"}],
            "clusters": [{"name": "c", "resource_group": "g", "subscription_id": SUBSCRIPTION}],
        }

    def ask(self, service, request, status):
        reply = service(self.world).answer(request, {})
        self.assertEqual(reply.status, status, reply.body)
        return json.loads(reply.body)

    def exchange(self, status=200, audience=HOST + PROVIDER, **changes):
        members = {
            "grant_type": GRANT,
            "requested_token_type": ACCESS_TOKEN,
            "subject_token_type": "urn:ietf:params:oauth:token-type:jwt",
            "scope": "https://www.googleapis.com/auth/iam",
            "audience": audience,
            "subject_token": self.issuer.token(self.issuer.claims(HOST + PROVIDER)),
            **changes,
        }
        return self.ask(GcpSts, form("/v1/token", **members), status)

    def account(self, token, status=200, email=ACCOUNT, **changes):
        asked = {"scope": ["https://www.googleapis.com/auth/cloud-platform"], "lifetime": "3600s", **changes}
        path = f"/v1/projects/-/serviceAccounts/{email}:generateAccessToken"
        return self.ask(GcpIamCredentials, bearing("POST", path, token, json.dumps(asked).encode()), status)

    def review(self, token):
        body = json.dumps({"spec": {"token": token}}).encode()
        return self.ask(Authenticator, Request("POST", "/authenticate", {}, body), 200)["status"]

    def test_google_cloud(self):
        federated = self.exchange()["access_token"]
        token = self.account(federated)["accessToken"]
        cluster = self.ask(Gke, bearing("GET", "/v1/projects/p/locations/l/clusters/c", token), 200)
        self.assertEqual(cluster["endpoint"], "10.0.0.1")
        self.assertIn(b"BEGIN CERTIFICATE", base64.b64decode(cluster["masterAuth"]["clusterCaCertificate"]))
        self.assertEqual(self.review(token)["user"]["username"], ACCOUNT)
        # A federated token is not a token of the service account.
        self.assertFalse(self.review(federated)["authenticated"])
        self.ask(Gke, bearing("GET", "/v1/projects/p/locations/l/clusters/c", federated), 401)
        self.ask(Gke, bearing("GET", "/v1/projects/p/locations/l/clusters/d", token), 404)
        self.ask(Gke, bearing("GET", "/v1/projects/q/locations/l/clusters/c", token), 403)
        self.account(token, 401)
        self.account(federated, 403, email="other@p.iam.gserviceaccount.com")
        self.account(federated, 400, lifetime="3601s")

    def test_google_cloud_refuses(self):
        for name, expected, changes in [
            ("another provider", "invalid_target", {"audience": f"{HOST}{POOL}/providers/other"}),
            ("with a scheme", "invalid_request", {"audience": f"https:{HOST}{PROVIDER}"}),
            ("another audience", "invalid_grant", {"subject_token": self.issuer.token(self.issuer.claims("other"))}),
            ("another grant", "invalid_request", {"grant_type": "client_credentials"}),
            ("another scope", "invalid_scope", {"scope": "email"}),
            (
                "a subject of 128 bytes",
                "invalid_grant",
                {"subject_token": self.issuer.token(self.issuer.claims(HOST + PROVIDER, sub="s" * 128))},
            ),
            (
                "the condition",
                "unauthorized_client",
                {"subject_token": self.issuer.token(self.issuer.claims(HOST + PROVIDER, sub="x"))},
            ),
        ]:
            with self.subTest(name):
                self.assertEqual(self.exchange(400, **changes)["error"], expected)
        other = self.issuer.token(self.issuer.claims(HOST + PROVIDER, sub="other"))
        self.account(self.exchange(subject_token=other)["access_token"], 403)

    def entra(self, status=200, tenant=TENANT, **changes):
        members = {
            "grant_type": "client_credentials",
            "client_id": CLIENT,
            "scope": "https://management.azure.com/.default",
            "client_assertion_type": "urn:ietf:params:oauth:client-assertion-type:jwt-bearer",
            "client_assertion": self.issuer.token(self.issuer.claims("api://AzureADTokenExchange")),
            **changes,
        }
        return self.ask(Entra, form(f"/{tenant}/oauth2/v2.0/token", **members), status)

    def test_azure(self):
        token = self.entra()["access_token"]
        path = f"{CLUSTER}/listClusterUserCredential?api-version=2025-01-01"
        found = self.ask(ResourceManager, bearing("POST", path, token), 200)
        config = json.loads(base64.b64decode(found["kubeconfigs"][0]["value"]))
        self.assertEqual(config["clusters"][0]["cluster"]["server"], "https://10.0.0.1")
        self.assertIn(AKS_SERVER, config["users"][0]["user"]["exec"]["args"])
        server = self.entra(scope=f"{AKS_SERVER}/.default")["access_token"]
        self.assertEqual(self.review(server)["user"]["username"], OBJECT)
        # Each token is for one audience.
        self.assertFalse(self.review(token)["authenticated"])
        self.ask(ResourceManager, bearing("POST", path, server), 401)
        self.ask(ResourceManager, bearing("POST", path.split("?")[0], token), 400)
        self.ask(ResourceManager, bearing("POST", path.replace("Clusters/c", "Clusters/d"), token), 404)
        self.ask(ResourceManager, bearing("POST", path.replace("resourceGroups/g", "resourceGroups/gg"), token), 403)

    def test_entra_refuses(self):
        def token(**claims):
            return self.issuer.token(self.issuer.claims(**{"audience": "api://AzureADTokenExchange", **claims}))

        claims = self.issuer.claims("api://AzureADTokenExchange")
        other_algorithm = self.issuer.token(claims, algorithm="RS512")
        for name, code, changes in [
            ("another tenant", 90002, {"tenant": CLIENT}),
            ("another application", 700016, {"client_id": TENANT}),
            ("another subject", 700213, {"client_assertion": token(sub="other")}),
            ("another case", 7002138, {"client_assertion": token(sub=SUBJECT.upper())}),
            ("another issuer", 700211, {"client_assertion": token(iss="https://other.example")}),
            ("another audience", 700212, {"client_assertion": token(audience="other")}),
            ("RS512", 700027, {"client_assertion": other_algorithm}),
            ("ended", 700024, {"client_assertion": token(exp=1_700_000_000)}),
            ("a secret", 7000218, {"client_assertion_type": "secret"}),
            ("no default scope", 1002012, {"scope": "https://management.azure.com"}),
            ("an unknown resource", 500011, {"scope": "https://other.example/.default"}),
        ]:
            with self.subTest(name):
                status = 400 if code in (90002, 700016, 1002012, 500011) else 401
                self.assertEqual(self.entra(status, **changes)["error_codes"], [code])

    def test_the_secrets_that_were_given_out_are_listed(self):
        token = self.entra()["access_token"]
        self.assertIn(token, self.world.secrets())


class Sts(unittest.TestCase):
    def setUp(self):
        self.issuer = TestIssuer()
        self.addCleanup(self.issuer.close)
        host = self.issuer.url.removeprefix("https://")
        statement = {
            "Effect": "Allow",
            "Principal": {"Federated": f"arn:aws:iam::123456789012:oidc-provider/{host}"},
            "Action": "sts:AssumeRoleWithWebIdentity",
            "Condition": {"StringEquals": {f"{host}:sub": SUBJECT, f"{host}:aud": "sts.amazonaws.com"}},
        }
        role = {"trust_policy": {"Version": "2012-10-17", "Statement": [statement]}}
        account = {
            "oidc_providers": [{"url": self.issuer.url, "client_ids": ["sts.amazonaws.com", "other"]}],
            "roles": {"canyon": role},
        }
        self.world = World(self.issuer.state(aws={"accounts": {"123456789012": account}}))

    def assume(self, **changes):
        members = {
            "Action": "AssumeRoleWithWebIdentity",
            "Version": "2011-06-15",
            "RoleArn": "arn:aws:iam::123456789012:role/canyon",
            "RoleSessionName": "acme-shop",
            "WebIdentityToken": self.issuer.token(self.issuer.claims("sts.amazonaws.com")),
            **changes,
        }
        reply = AwsSts(self.world).answer(form("/", **members), {})
        code = re.search(r"<Code>(.*?)</Code>", reply.body.decode())
        return reply.status, code and code.group(1)

    def test_the_trusted_subject_gets_a_session(self):
        self.assertEqual(self.assume(), (200, None))
        (session,) = self.world.sessions.values()
        self.assertEqual(session["arn"], "arn:aws:sts::123456789012:assumed-role/canyon/acme-shop")

    def test_all_others_do_not(self):
        def token(audience="sts.amazonaws.com", **claims):
            return {"WebIdentityToken": self.issuer.token(self.issuer.claims(audience, **claims))}

        arn = "arn:aws:iam::123456789012:role"
        cases = [
            ("another subject", token(sub="other"), (403, "AccessDenied")),
            ("an audience that the role does not trust", token("other"), (403, "AccessDenied")),
            ("an audience that IAM does not know", token("unknown"), (400, "InvalidIdentityToken")),
            ("another issuer", token(iss="https://other.example"), (400, "InvalidIdentityToken")),
            ("an ended token", token(exp=1_700_000_000), (400, "ExpiredTokenException")),
            ("an absent role", {"RoleArn": f"{arn}/other"}, (403, "AccessDenied")),
            ("another account", {"RoleArn": f"{arn}/canyon".replace("1234", "4321")}, (400, "InvalidIdentityToken")),
            ("another partition", {"RoleArn": f"{arn}/canyon".replace("aws", "aws-cn")}, (403, "AccessDenied")),
            ("a session with a space", {"RoleSessionName": "a b"}, (400, "ValidationError")),
            ("a session too long", {"RoleSessionName": "a" * 65}, (400, "ValidationError")),
            ("two hours", {"DurationSeconds": "7200"}, (400, "ValidationError")),
            ("a minute", {"DurationSeconds": "60"}, (400, "ValidationError")),
        ]
        for name, changes, expected in cases:
            with self.subTest(name):
                self.assertEqual(self.assume(**changes), expected)
        self.assertEqual(self.world.sessions, {})
