"""Google's IAM Service Account Credentials, and the permissions of principals."""

import json
import re
from datetime import datetime, timedelta, timezone

from strict.serving import Reply

METHOD = re.compile(r"/v1/projects/-/serviceAccounts/([^/:]+):generateAccessToken")
ROLES = {
    "roles/iam.workloadIdentityUser": {"iam.serviceAccounts.getAccessToken", "iam.serviceAccounts.getOpenIdToken"},
    "roles/iam.serviceAccountTokenCreator": {"iam.serviceAccounts.getAccessToken"},
    "roles/container.clusterViewer": {"container.clusters.get", "container.clusters.list"},
    "roles/container.viewer": {"container.clusters.get", "container.clusters.list"},
    "roles/container.developer": {"container.clusters.get", "container.clusters.list"},
    "roles/container.admin": {"container.clusters.get", "container.clusters.list"},
    "roles/viewer": {"container.clusters.get"},
}


def may(bindings, member, permission):
    return any(permission in ROLES[b["role"]] and member in b["members"] for b in bindings)


def problem(status, code, message):
    names = {400: "INVALID_ARGUMENT", 401: "UNAUTHENTICATED", 403: "PERMISSION_DENIED", 404: "NOT_FOUND"}
    return Reply.json(status, {"error": {"code": status, "message": message, "status": names[status]}}, code)


class GcpIamCredentials:
    name = "gcp_iam_credentials"

    def __init__(self, world):
        self.world = world

    def answer(self, request, facts):
        named = METHOD.fullmatch(request.path)
        if request.method != "POST" or named is None:
            return problem(404, "NotFound", "Requested entity was not found.")
        federated = self.world.bearer("gcp_federated", request.bearer() or "")
        if federated is None:
            text = "Request had invalid authentication credentials. Expected OAuth 2 access token."
            return problem(401, "Unauthenticated", text)
        email = named.group(1)
        facts.update(principal=federated["principal"], account=email)
        account = self.world.state.get("gcp", {}).get("service_accounts", {}).get(email)
        permission = "iam.serviceAccounts.getAccessToken"
        # For a missing account Google gives the same answer as for a forbidden one.
        if account is None or not may(account.get("bindings", []), federated["principal"], permission):
            text = f"Permission '{permission}' denied on resource (or it may not exist)."
            return problem(403, "PermissionDenied", text)
        return self.token(request, email, account)

    def token(self, request, email, account):
        try:
            asked = json.loads(request.body)
            seconds = float(asked.get("lifetime", "3600s").removesuffix("s"))
            scopes = asked["scope"]
        except (ValueError, KeyError, AttributeError):
            return problem(400, "InvalidArgument", "Request contains an invalid argument.")
        if not scopes or not isinstance(scopes, list):
            return problem(400, "InvalidArgument", "Scope is missing.")
        if not 0 < seconds <= 3600:
            return problem(400, "InvalidArgument", "lifetime: must be at most 3600s.")
        seconds = min(seconds, account.get("token_seconds", seconds))
        bearer = self.world.give_bearer("gcp_account", "ya29.c.", seconds, email=email, scopes=scopes)
        ends_at = datetime.now(timezone.utc) + timedelta(seconds=seconds)
        answer = {"accessToken": bearer, "expireTime": ends_at.strftime("%Y-%m-%dT%H:%M:%SZ")}
        return Reply.json(200, answer, "generateAccessToken")
