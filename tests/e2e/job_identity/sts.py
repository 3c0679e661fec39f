"""An STS in front of MinIO. MinIO does not combine roles with claims, so this STS judges a role's trust policy
and MinIO judges the token.

Arguments: the address of MinIO, its administrator's key and secret, the bucket. It prints its port when MinIO has
the two policies, which MinIO selects by a token's claim `phase`.
"""

import base64
import http.server
import json
import sys
import time
import urllib.error
import urllib.parse
import urllib.request

from botocore.auth import S3SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials

MINIO, KEY, SECRET, BUCKET = sys.argv[1:5]
ANYTHING, LOCKS = f"arn:aws:s3:::{BUCKET}/*", f"arn:aws:s3:::{BUCKET}/*.tflock"
READ = [
    {"Effect": "Allow", "Action": ["s3:ListBucket"], "Resource": [f"arn:aws:s3:::{BUCKET}"]},
    {"Effect": "Allow", "Action": ["s3:GetObject"], "Resource": [ANYTHING]},
    {"Effect": "Allow", "Action": ["s3:PutObject", "s3:DeleteObject"], "Resource": [LOCKS]},
]
WRITE = {"Effect": "Allow", "Action": ["s3:PutObject", "s3:DeleteObject"], "Resource": [ANYTHING]}
POLICIES = {"plan": READ, "apply": [*READ, WRITE]}
# For each role, the end of the subjects that it trusts (`StringLike` on `sub`).
TRUST = {f"arn:aws:iam::123456789012:role/{phase}": f":env:dev:phase:{phase}" for phase in POLICIES}
TRUST["arn:aws:iam::123456789012:role/destroy"] = ":env:dev:phase:apply"
TRUST["arn:aws:iam::123456789012:role/rescue"] = tuple(f":env:dev:phase:{phase}:role:break-glass" for phase in POLICIES)

# How long MinIO may take until it has loaded its users, in seconds.
START = 60


def make_policy(name, statements):
    url = f"{MINIO}/minio/admin/v3/add-canned-policy?name={name}"
    body = json.dumps({"Version": "2012-10-17", "Statement": statements})
    request = AWSRequest(method="PUT", url=url, data=body)
    S3SigV4Auth(Credentials(KEY, SECRET), "s3", "us-east-1").add_auth(request)
    signed = urllib.request.Request(url, body.encode(), dict(request.headers), method="PUT")
    deadline = time.monotonic() + START
    while not is_taken(signed):
        if time.monotonic() > deadline:
            sys.exit(f"MinIO does not know its users after {START} s")
        time.sleep(0.05)


def is_taken(call):
    """MinIO refuses unknown users at once. It answers requests about users with 503 until it has fetched the
    issuer's keys, which the issuer makes at the first request."""
    try:
        urllib.request.urlopen(call, timeout=10).close()
    except urllib.error.HTTPError as refused:
        said = refused.fp.read().decode()
        if refused.code == 503:
            return False
        sys.exit(f"MinIO takes no policy: {refused.code} {said}")
    return True


def subject(token):
    part = token.split(".")[1]
    return json.loads(base64.urlsafe_b64decode(part + "=" * (-len(part) % 4)))["sub"]


class Sts(http.server.BaseHTTPRequestHandler):
    def do_POST(self):
        body = self.rfile.read(int(self.headers["content-length"]))
        form = dict(urllib.parse.parse_qsl(body.decode()))
        if form["Action"] == "GetCallerIdentity":
            self.answer(200, "GetCallerIdentity", "<Arn>arn:aws:sts::123456789012:assumed-role/a/b</Arn>"
                        "<UserId>a:b</UserId><Account>123456789012</Account>")
            return
        assert form["Action"] == "AssumeRoleWithWebIdentity", form["Action"]
        role, who = form.pop("RoleArn"), subject(form["WebIdentityToken"])
        trusted = who.startswith("org:") and who.endswith(TRUST.get(role, "nobody"))
        print(f"{role} {who} {form['RoleSessionName']} {trusted}", file=sys.stderr, flush=True)
        if not trusted:
            self.refuse()
            return
        call = urllib.request.Request(MINIO, urllib.parse.urlencode(form).encode())
        try:
            with urllib.request.urlopen(call, timeout=10) as answer:
                self.send(answer.status, answer.read())
        except urllib.error.HTTPError as refused:
            print(refused.fp.read().decode(), file=sys.stderr, flush=True)
            self.send(refused.code, b"<ErrorResponse><Error><Code>AccessDenied</Code></Error></ErrorResponse>")

    def refuse(self):
        self.send(403, b"<ErrorResponse><Error><Type>Sender</Type><Code>AccessDenied</Code><Message>Not "
                  b"authorized to perform sts:AssumeRoleWithWebIdentity</Message></Error></ErrorResponse>")

    def answer(self, status, action, result):
        body = (f'<{action}Response xmlns="https://sts.amazonaws.com/doc/2011-06-15/"><{action}Result>'
                f"{result}</{action}Result></{action}Response>")
        self.send(status, body.encode())

    def send(self, status, body):
        self.send_response(status)
        self.send_header("content-type", "text/xml")
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


for policy, statements in POLICIES.items():
    make_policy(policy, statements)
server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Sts)
print(server.server_port, flush=True)
server.serve_forever()
