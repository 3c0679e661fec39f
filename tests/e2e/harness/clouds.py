"""The secret managers of three clouds, and what a job signs in at. Follows the APIs' references; tokens are verified
with the keys of Canyon's issuer, and AWS's signatures by `strict.sigv4`.

Argument: the issuer. It prints its port. `/granted` tells what it has given, for git servers that trust it.
"""

import base64
import http.server
import json
import pathlib
import re
import secrets
import sys
import time
import urllib.parse

import jwt

sys.path.insert(0, str(pathlib.Path(__file__).parents[2]))
from strict import sigv4  # noqa: E402

ISSUER = sys.argv[1]
KEYS = jwt.PyJWKClient(f"{ISSUER}/.well-known/jwks")
PROVIDER = "//iam.googleapis.com/projects/1/locations/global/workloadIdentityPools/p/providers/canyon"
ROLE = "arn:aws:iam::123456789012:role/shop-plan"
ACCOUNT = "shop-plan@acme-secrets.iam.gserviceaccount.com"
TENANT, CLIENT = "11111111-2222-3333-4444-555555555555", "66666666-7777-8888-9999-000000000000"
# Of Key Vault, and of Azure DevOps.
SCOPES = ("https://vault.azure.net/.default", "499b84ac-1321-427f-aa17-267ca6975798/.default")
AWS = {"shop/db": {"AWSCURRENT": '{"password":"aws-manager-1"}', "AWSPREVIOUS": '{"password":"aws-manager-0"}'}}
SSM = {"/shop/db": "aws-parameter-1", "/shop/db:1": "aws-parameter-0"}
GCP = {"projects/acme-secrets/secrets/db/versions/latest": "gcp-secret-1"}
AZURE = {"/secrets/db": "azure-secret-1", "/secrets/db/0123456789abcdef0123456789abcdef": "azure-secret-0"}


class Refused(Exception):
    def __init__(self, status, body):
        super().__init__(body)
        self.status, self.body = status, body


def json_fault(status, **body):
    return Refused(status, json.dumps(body))


class World:
    sessions = {}
    federated, gcp, azure = set(), set(), {}


def claims(token, audience):
    """The claims of a token of Canyon's issuer for `audience`, of the phase `plan`."""
    key = KEYS.get_signing_key_from_jwt(token).key
    found = jwt.decode(token, key, algorithms=["RS256"], audience=audience, issuer=ISSUER)
    assert found["sub"].endswith(":project:shop:env_type:development:env:dev:phase:plan"), found["sub"]
    return found


def assume(form):
    if form.get("RoleArn") != ROLE:
        fault = "<ErrorResponse><Error><Type>Sender</Type><Code>AccessDenied</Code><Message>Not authorized to perform " \
            "sts:AssumeRoleWithWebIdentity</Message></Error></ErrorResponse>"
        raise Refused(403, fault)
    claims(form["WebIdentityToken"], "sts.amazonaws.com")
    key = "ASIA" + secrets.token_hex(8).upper()
    session = {"secret": secrets.token_hex(20), "token": secrets.token_hex(20), "ends_at": time.time() + 3600}
    World.sessions[key] = session
    ends = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(session["ends_at"]))
    return ('<AssumeRoleWithWebIdentityResponse xmlns="https://sts.amazonaws.com/doc/2011-06-15/">'
            f"<AssumeRoleWithWebIdentityResult><Credentials><AccessKeyId>{key}</AccessKeyId>"
            f"<SecretAccessKey>{session['secret']}</SecretAccessKey><SessionToken>{session['token']}</SessionToken>"
            f"<Expiration>{ends}</Expiration></Credentials></AssumeRoleWithWebIdentityResult>"
            "</AssumeRoleWithWebIdentityResponse>")


class Clouds(http.server.BaseHTTPRequestHandler):
    def do_POST(self):
        self.serve(self.posted)

    def do_GET(self):
        self.serve(self.got)

    def serve(self, answer):
        self.body = self.rfile.read(int(self.headers.get("content-length", 0)))
        self.lower = {name.lower(): value for name, value in self.headers.items()}
        parts = urllib.parse.urlsplit(self.path)
        try:
            status, body = 200, answer(parts.path, dict(urllib.parse.parse_qsl(parts.query)))
        except Refused as refused:
            status, body = refused.status, refused.body
        except sigv4.SignatureFault as fault:
            status, body = 400, json.dumps({"__type": fault.code, "message": fault.message})
        body = body if isinstance(body, str) else json.dumps(body)
        self.send_response(status)
        self.send_header("content-length", str(len(body.encode())))
        self.end_headers()
        self.wfile.write(body.encode())

    def posted(self, path, _):
        if target := self.lower.get("x-amz-target"):
            return self.aws(target, json.loads(self.body))
        if path.endswith(":generateAccessToken"):
            return self.impersonate(path)
        form = dict(urllib.parse.parse_qsl(self.body.decode()))
        if path == "/":
            assert form["Action"] == "AssumeRoleWithWebIdentity", form
            return assume(form)
        if path == "/v1/token":
            assert form["grant_type"] == "urn:ietf:params:oauth:grant-type:token-exchange", form
            assert form["subject_token_type"] == "urn:ietf:params:oauth:token-type:jwt", form
            assert form["audience"] == PROVIDER and form["scope"], form
            claims(form["subject_token"], PROVIDER)
            return {"access_token": self.granted(World.federated), "expires_in": 3600, "token_type": "Bearer"}
        assert path == f"/{TENANT}/oauth2/v2.0/token", path
        assert form["grant_type"] == "client_credentials", form
        assert form["scope"] in SCOPES, form
        assert form["client_assertion_type"] == "urn:ietf:params:oauth:client-assertion-type:jwt-bearer", form
        claims(form["client_assertion"], "api://AzureADTokenExchange")
        if form["client_id"] != CLIENT:
            text = f"AADSTS700016: Application with identifier '{form['client_id']}' was not found in the directory."
            raise json_fault(400, error="unauthorized_client", error_description=f"{text} Trace ID: 0")
        World.azure[token := secrets.token_hex(20)] = form["scope"]
        return {"access_token": token, "expires_in": 3600, "token_type": "Bearer"}

    @staticmethod
    def granted(tokens):
        tokens.add(token := secrets.token_hex(20))
        return token

    def bearer(self):
        return self.lower.get("authorization", "").removeprefix("Bearer ")

    def impersonate(self, path):
        if self.bearer() not in World.federated or path != f"/v1/projects/-/serviceAccounts/{ACCOUNT}:generateAccessToken":
            raise json_fault(403, error={"message": "iam.serviceAccounts.getAccessToken denied", "status": "PERMISSION_DENIED"})
        assert json.loads(self.body)["scope"] == ["https://www.googleapis.com/auth/cloud-platform"]
        return {"accessToken": self.granted(World.gcp), "expireTime": "2030-01-01T00:00:00Z"}

    def aws(self, target, asked):
        service = {"secretsmanager.GetSecretValue": "secretsmanager", "AmazonSSM.GetParameter": "ssm"}[target]
        request = type("Request", (), {"headers": self.lower, "body": self.body, "method": "POST",
                                       "target": self.path, "path": self.path})
        sigv4.verify_header(World, request, service)
        if service == "ssm":
            assert asked["WithDecryption"] is True
            if asked["Name"] not in SSM:
                raise json_fault(400, __type="ParameterNotFound")
            return {"Parameter": {"Name": asked["Name"], "Type": "SecureString", "Value": SSM[asked["Name"]]}}
        versions = AWS.get(asked["SecretId"])
        if versions is None:
            message = f"User is not authorized to perform: secretsmanager:GetSecretValue on resource: {asked['SecretId']}"
            raise json_fault(400, __type="AccessDeniedException", Message=message)
        return {"Name": asked["SecretId"], "SecretString": versions[asked.get("VersionStage", "AWSCURRENT")]}

    def got(self, path, query):
        if found := re.fullmatch(r"/v1/(projects/.*):access", path):
            if self.bearer() not in World.gcp or found[1] not in GCP:
                raise json_fault(403, error={"message": f"Permission denied on resource {found[1]}"})
            return {"name": found[1], "payload": {"data": base64.b64encode(GCP[found[1]].encode()).decode()}}
        if path == "/granted":
            return {"sessions": World.sessions, "azure": World.azure}
        assert query == {"api-version": "7.4"}, query
        if World.azure.get(self.bearer()) != SCOPES[0] or path not in AZURE:
            raise json_fault(404, error={"code": "SecretNotFound", "message": f"A secret with (name/id) {path} was not found"})
        return {"value": AZURE[path], "id": path}

    def log_message(self, *_):
        pass


server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Clouds)
print(server.server_address[1], flush=True)
server.serve_forever()
