"""The user of a cloud's bearer token in a cluster, as that cloud's authenticator determines it.

A cloud runs its authenticator beside the API server, which calls it by a webhook (TokenReview); so does the tests'
cluster. The RBAC of the API server decides the user's rights.
"""

import base64
import binascii
import http.client
import json
import re
import xml.etree.ElementTree as ElementTree
from urllib.parse import parse_qs, urlsplit

from strict.aws_sts import NAMESPACE
from strict.entra import AKS_SERVER
from strict.gke import CLOUD_PLATFORM
from strict.serving import Reply

EKS_PREFIX = "k8s-aws-v1."
# aws-iam-authenticator, pkg/token: the allowed query parameters of a presigned URL.
EKS_PARAMETERS = {
    "action",
    "version",
    "x-amz-algorithm",
    "x-amz-credential",
    "x-amz-date",
    "x-amz-expires",
    "x-amz-security-token",
    "x-amz-signature",
    "x-amz-signedheaders",
    "x-amz-user-agent",
}
STS_HOST = re.compile(r"sts(\.[a-z0-9-]+)?\.amazonaws\.com(\.cn)?")
EKS_LONGEST = 4 * 1024


class Authenticator:
    name = "authenticator"

    def __init__(self, world):
        self.world = world

    def answer(self, request, facts):
        if (request.method, request.path) != ("POST", "/authenticate"):
            return Reply(404, code="NotFound")
        try:
            bearer = json.loads(request.body)["spec"]["token"]
        except (ValueError, KeyError, TypeError):
            return Reply(400, code="Malformed")
        known = next(filter(None, (cloud(self.world, bearer) for cloud in (gke, eks, aks))), None)
        status = {"authenticated": False}
        if known is not None:
            facts["user"] = known[0]
            status = {"authenticated": True, "user": {"username": known[0], "groups": known[1]}}
        review = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenReview", "status": status}
        return Reply.json(200, review, "known" if known else "unknown")


def gke(world, bearer):
    """User and groups. The user of a service account is its address."""
    account = world.bearer("gcp_account", bearer)
    if account is None or CLOUD_PLATFORM not in account["scopes"]:
        return None
    return account["email"], []


def aks(world, bearer):
    """User and groups. The user of a principal is its object id; the token must be for the API servers of AKS."""
    caller = world.bearer("azure", bearer)
    if caller is None or caller["aud"] != AKS_SERVER:
        return None
    return caller["oid"], []


def eks(world, bearer):
    """User and groups. The cluster's access entry names the user of a role."""
    address = presigned(bearer)
    if address is None:
        return None
    for cluster in world.state.get("aws", {}).get("clusters", []):
        arn = caller_identity(world, address, cluster["name"])
        if arn is not None:
            return access_entry(cluster, arn)
    return None


def presigned(bearer):
    """The URL in a token, if the authenticator would call it."""
    if not bearer.startswith(EKS_PREFIX) or len(bearer) > EKS_LONGEST:
        return None
    encoded = bearer.removeprefix(EKS_PREFIX)
    if "=" in encoded:
        return None
    try:
        address = base64.b64decode(encoded + "=" * (-len(encoded) % 4), altchars=b"-_", validate=True).decode()
    except (binascii.Error, UnicodeDecodeError):
        return None
    parts = urlsplit(address)
    query = {name.lower(): values for name, values in parse_qs(parts.query, keep_blank_values=True).items()}
    signed = query.get("x-amz-signedheaders", [""])[0].split(";")
    good = (
        parts.scheme == "https"
        and STS_HOST.fullmatch(parts.netloc)
        and parts.path == "/"
        and set(query) <= EKS_PARAMETERS
        and all(len(values) == 1 for values in query.values())
        and query.get("action") == ["GetCallerIdentity"]
        and "x-k8s-aws-id" in signed
        and query.get("x-amz-expires", [""])[0].isdigit()
        and 0 <= int(query["x-amz-expires"][0]) <= 900
    )
    return address if good else None


def caller_identity(world, address, cluster):
    """Calls the URL at the stand-in of STS, with the signed host name."""
    parts, sts = urlsplit(address), urlsplit(world.addresses["aws_sts"])
    connection = http.client.HTTPConnection(sts.hostname, sts.port, timeout=10)
    try:
        headers = {"host": parts.netloc, "x-k8s-aws-id": cluster}
        connection.request("GET", f"/?{parts.query}", headers=headers)
        response = connection.getresponse()
        body = response.read()
    finally:
        connection.close()
    if response.status != 200:
        return None
    found = ElementTree.fromstring(body).find(f".//{{{NAMESPACE}}}Arn")
    return None if found is None else found.text


def access_entry(cluster, arn):
    """An assumed role's ARN contains the role's name without its path, and the session."""
    named = re.fullmatch(r"arn:([^:]+):sts::(\d+):assumed-role/([^/]+)/(.+)", arn)
    if named is None:
        return None
    partition, account, role, session = named.groups()
    for entry in cluster.get("access_entries", []):
        principal = entry["principal_arn"]
        same = principal.startswith(f"arn:{partition}:iam::{account}:role/") and principal.rsplit("/", 1)[1] == role
        if same:
            user = entry.get("username", arn).replace("{{SessionName}}", session)
            return user, entry.get("groups", [])
    return None
