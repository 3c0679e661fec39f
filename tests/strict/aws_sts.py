"""AWS Security Token Service: AssumeRoleWithWebIdentity and GetCallerIdentity."""

import re
import time
from datetime import datetime, timezone
from xml.sax.saxutils import escape

from strict import issuers, policy, sigv4
from strict.serving import Reply
from strict.world import digest

NAMESPACE = "https://sts.amazonaws.com/doc/2011-06-15/"
VERSION = "2011-06-15"
NOT_AUTHORIZED = "Not authorized to perform sts:AssumeRoleWithWebIdentity"
ROLE = re.compile(r"arn:(aws|aws-us-gov|aws-cn|aws-eusc):iam::(\d{12}):role/(.*)")


class StsFault(Exception):
    def __init__(self, status, code, message):
        super().__init__(message)
        self.status, self.code, self.message = status, code, message


class AwsSts:
    name = "aws_sts"

    def __init__(self, world):
        self.world = world

    def answer(self, request, facts):
        try:
            members = self.members(request)
            facts["action"] = members.get("Action", "")
            if members.get("Version") != VERSION:
                raise StsFault(400, "InvalidAction", f"Could not find operation for version {members.get('Version')}")
            if members.get("Action") == "AssumeRoleWithWebIdentity":
                return self.assume(members, facts)
            if members.get("Action") == "GetCallerIdentity":
                return self.identity(request)
            raise StsFault(400, "InvalidAction", f"Could not find operation {members.get('Action')}")
        except StsFault as fault:
            return error(fault)
        except sigv4.SignatureFault as fault:
            return error(StsFault(403, fault.code, fault.message))

    @staticmethod
    def members(request):
        if request.path not in ("", "/"):
            raise StsFault(404, "UnknownOperationException", "no such path")
        if request.method == "GET":
            return request.query
        members = request.form()
        if request.method != "POST" or members is None:
            raise StsFault(400, "MalformedInput", "the request is not a form")
        return members

    def assume(self, members, facts):
        role_arn, session = members.get("RoleArn", ""), members.get("RoleSessionName", "")
        token, seconds = members.get("WebIdentityToken", ""), members.get("DurationSeconds", "3600")
        facts.update(role_arn=role_arn, session_name=session, token=digest(token))
        check_session(session)
        named = ROLE.fullmatch(role_arn)
        if named is None or len(token) < 4:
            raise StsFault(400, "ValidationError", f"{role_arn} is invalid")
        partition, account_id, role_name = named.groups()
        account = self.world.state.get("aws", {}).get("accounts", {}).get(account_id, {})
        if account.get("sts_disabled"):
            text = f"STS is not activated in this region for account:{account_id}. Your account administrator can"
            raise StsFault(403, "RegionDisabledException", f"{text} activate STS in this region using the IAM Console.")
        role = account.get("roles", {}).get(role_name)
        claims, provider_arn = self.believe(token, partition, account_id, account)
        facts.update(sub=claims["sub"], jti=claims["jti"], aud=claims["aud"])
        host = claims["iss"].removeprefix("https://")
        context = {f"{host}:sub": claims["sub"], f"{host}:aud": claims["aud"]}
        # A missing role gets the same answer as one that does not trust the token, so that callers cannot
        # find out which roles exist.
        if role is None or not policy.trusts(role["trust_policy"], provider_arn, context):
            raise StsFault(403, "AccessDenied", NOT_AUTHORIZED)
        check_seconds(seconds, role)
        return self.session(partition, account_id, role_name, role, session, int(seconds), claims)

    def believe(self, token, partition, account_id, account):
        try:
            issuer = issuers.unverified(token)[1].get("iss", "")
        except issuers.TokenFault as fault:
            text = f"The ID Token provided is not a valid JWT. ({fault.detail})"
            raise StsFault(400, "InvalidIdentityToken", text) from None
        provider = next((p for p in account.get("oidc_providers", []) if p["url"] == issuer), None)
        if provider is None:
            text = f"No OpenIDConnect provider found in your account for {issuer}"
            raise StsFault(400, "InvalidIdentityToken", text)
        try:
            claims = issuers.verify(self.world, token, issuer)
        except issuers.TokenFault as fault:
            raise token_fault(fault) from None
        if claims["aud"] not in provider["client_ids"]:
            raise StsFault(400, "InvalidIdentityToken", "Incorrect token audience")
        host = issuer.removeprefix("https://")
        return claims, f"arn:{partition}:iam::{account_id}:oidc-provider/{host}"

    def session(self, partition, account_id, role_name, role, session_name, seconds, claims):
        world = self.world
        ends_at = int(time.time()) + seconds
        key = "ASIA" + re.sub(r"[^A-Z0-9]", "A", world.secret("", 16).upper())[:16]
        plain_name = role_name.rsplit("/", 1)[-1]
        known = {
            "secret": world.secret("", 30),
            "token": world.secret("IQoJ", 200),
            "ends_at": ends_at,
            "partition": partition,
            "account": account_id,
            "role": role_name,
            "role_arn": f"arn:{partition}:iam::{account_id}:role/{role_name}",
            "role_id": role.get("id", f"AROA{digest(role_name).upper()}"),
            "session_name": session_name,
            "arn": f"arn:{partition}:sts::{account_id}:assumed-role/{plain_name}/{session_name}",
        }
        with world.lock:
            world.sessions[key] = known
        return result(
            "AssumeRoleWithWebIdentity",
            f"""<Credentials><AccessKeyId>{key}</AccessKeyId><SecretAccessKey>{known['secret']}</SecretAccessKey>
<SessionToken>{known['token']}</SessionToken><Expiration>{stamp(ends_at)}</Expiration></Credentials>
<AssumedRoleUser><Arn>{escape(known['arn'])}</Arn>
<AssumedRoleId>{known['role_id']}:{escape(session_name)}</AssumedRoleId></AssumedRoleUser>
<Audience>{escape(claims['aud'])}</Audience><Provider>{escape(claims['iss'])}</Provider>
<SubjectFromWebIdentityToken>{escape(claims['sub'])}</SubjectFromWebIdentityToken>""",
        )

    def identity(self, request):
        if "X-Amz-Signature" in request.query:
            session, _ = sigv4.verify_presigned(self.world, request.method, request.target, request.headers, "sts")
        else:
            session, _ = sigv4.verify_header(self.world, request, "sts")
        return result(
            "GetCallerIdentity",
            f"<Arn>{escape(session['arn'])}</Arn><UserId>{session['role_id']}:{escape(session['session_name'])}"
            f"</UserId><Account>{session['account']}</Account>",
        )


def check_session(name):
    if re.fullmatch(r"[\w+=,.@-]{2,64}", name, re.ASCII) is None:
        text = f"1 validation error detected: Value '{name}' at 'roleSessionName' failed to satisfy constraint: "
        raise StsFault(400, "ValidationError", text + r"Member must satisfy regular expression pattern: [\w+=,.@-]*")


def check_seconds(text, role):
    if not text.isdigit() or not 900 <= int(text) <= 43200:
        raise StsFault(400, "ValidationError", f"Value '{text}' at 'durationSeconds' failed to satisfy constraint")
    if int(text) > role.get("max_session_seconds", 3600):
        text = "The requested DurationSeconds exceeds the MaxSessionDuration set for this role."
        raise StsFault(400, "ValidationError", text)


def token_fault(fault):
    if fault.kind == "expired":
        return StsFault(400, "ExpiredTokenException", f"Token expired: {fault.detail}")
    if fault.kind == "unreachable":
        return StsFault(400, "IDPCommunicationError", f"Error communicating with the identity provider: {fault.detail}")
    if fault.kind in ("key", "signature", "discovery"):
        text = "Couldn't retrieve verification key from your identity provider, please reference"
        text = f"{text} AssumeRoleWithWebIdentity documentation for requirements ({fault.detail})"
        return StsFault(400, "InvalidIdentityToken", text)
    return StsFault(400, "InvalidIdentityToken", f"The ID Token provided is not valid: {fault.detail}")


def stamp(seconds):
    return datetime.fromtimestamp(seconds, timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")


def result(action, inner):
    text = f"""<{action}Response xmlns="{NAMESPACE}"><{action}Result>{inner}</{action}Result>
<ResponseMetadata><RequestId>00000000-0000-0000-0000-000000000000</RequestId></ResponseMetadata></{action}Response>"""
    return Reply(200, text.encode(), {"content-type": "text/xml"}, action)


def error(fault):
    text = f"""<ErrorResponse xmlns="{NAMESPACE}"><Error><Type>Sender</Type><Code>{fault.code}</Code>
<Message>{escape(fault.message)}</Message></Error>
<RequestId>00000000-0000-0000-0000-000000000000</RequestId></ErrorResponse>"""
    return Reply(fault.status, text.encode(), {"content-type": "text/xml"}, fault.code)
