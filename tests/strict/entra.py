"""Microsoft Entra's token endpoint: client credentials with a federated credential as the assertion."""

import re
import time

from strict import issuers
from strict.serving import Reply
from strict.world import digest

TOKEN = re.compile(r"/([^/]+)/oauth2/v2\.0/token")
JWT_BEARER = "urn:ietf:params:oauth:client-assertion-type:jwt-bearer"
MOST_CREDENTIALS = 20
NO_MATCH = "No matching federated identity record found for presented assertion"
AKS_SERVER = "6dae42f8-4368-4678-94ff-3960e28e3630"
RESOURCES = ("https://management.azure.com", "https://management.core.windows.net", AKS_SERVER)


class EntraFault(Exception):
    def __init__(self, error, code, text, status=401):
        super().__init__(text)
        self.error, self.code, self.text, self.status = error, code, text, status


class Entra:
    name = "azure_authority"

    def __init__(self, world):
        self.world = world

    def answer(self, request, facts):
        named = TOKEN.fullmatch(request.path)
        if request.method != "POST" or named is None:
            return Reply(404, code="NotFound")
        try:
            return self.token(named.group(1), request.form(), facts)
        except EntraFault as fault:
            now = time.strftime("%Y-%m-%d %H:%M:%SZ", time.gmtime())
            text = f"AADSTS{fault.code}: {fault.text} Trace ID: 0 Correlation ID: 0 Timestamp: {now}"
            value = {"error": fault.error, "error_description": text, "error_codes": [fault.code]}
            return Reply.json(fault.status, value, f"AADSTS{fault.code}")

    def token(self, tenant_id, form, facts):
        tenant = self.world.state.get("azure", {}).get("tenants", {}).get(tenant_id)
        if tenant is None:
            text = f"Tenant '{tenant_id}' not found. Check to make sure you have the correct tenant ID and are signing"
            raise EntraFault("invalid_request", 90002, f"{text} into the correct cloud.", 400)
        if form is None or form.get("grant_type") != "client_credentials":
            raise EntraFault("unsupported_grant_type", 70003, "The app requested an unsupported grant type.", 400)
        client_id = form.get("client_id", "")
        application = tenant.get("applications", {}).get(client_id)
        if application is None:
            text = f"Application with identifier '{client_id}' was not found in the directory '{tenant_id}'."
            raise EntraFault("unauthorized_client", 700016, text, 400)
        if form.get("client_assertion_type") != JWT_BEARER or "client_secret" in form:
            text = "The request body must contain the following parameter: 'client_assertion' or 'client_secret'."
            raise EntraFault("invalid_client", 7000218, text)
        resource = self.resource(form.get("scope", ""))
        assertion = form.get("client_assertion", "")
        facts.update(tenant=tenant_id, client_id=client_id, token=digest(assertion), scope=form.get("scope"))
        claims = self.believe(assertion, application)
        facts.update(sub=claims["sub"], jti=claims["jti"], aud=claims["aud"])
        return self.give(application, client_id, tenant_id, resource)

    def resource(self, scope):
        resource = scope.removesuffix("/.default").rstrip("/")
        if not scope.endswith("/.default") or " " in scope:
            text = f"The provided value for the input parameter 'scope' is not valid. The scope {scope} is not valid."
            raise EntraFault("invalid_scope", 1002012, text, 400)
        # The stand-in of the Resource Manager also has its own address as a resource, as in a sovereign cloud.
        if resource not in (*RESOURCES, self.world.addresses["azure_resource_manager"]):
            text = f"The resource principal named {resource} was not found in the tenant."
            raise EntraFault("invalid_resource", 500011, text, 400)
        return resource

    def believe(self, assertion, application):
        """One of the federated credentials must have exactly this issuer, subject and audience."""
        try:
            _, claims = issuers.unverified(assertion)
        except issuers.TokenFault as fault:
            raise EntraFault("invalid_client", 50027, f"JWT token is invalid or malformed. ({fault.detail})") from None
        credentials = application.get("federated_credentials", [])
        wanted = (claims.get("iss"), claims.get("sub"))
        check = "Check your federated identity credential Subject, Audience and Issuer against the presented assertion."
        if not any((c["issuer"], c["subject"]) == wanted for c in credentials):
            text = f"{NO_MATCH} subject '{claims.get('sub')}'. "
            lower = [(c["issuer"], c["subject"].lower()) for c in credentials]
            if (wanted[0], str(wanted[1]).lower()) in lower:
                text += "The subject matches with case-insensitive comparison, but not with case-sensitive comparison. "
                raise EntraFault("invalid_client", 7002138, text + check)
            if not any(c["issuer"] == wanted[0] for c in credentials):
                text = f"{NO_MATCH} issuer '{wanted[0]}'. "
                raise EntraFault("invalid_client", 700211, text + check)
            raise EntraFault("invalid_client", 700213, text + check)
        matching = [c for c in credentials if (c["issuer"], c["subject"]) == wanted]
        if not any(claims.get("aud") in c["audiences"] for c in matching):
            text = f"{NO_MATCH} audience '{claims.get('aud')}'. "
            raise EntraFault("invalid_client", 700212, text + check)
        try:
            return issuers.verify(self.world, assertion, matching[0]["issuer"])
        except issuers.TokenFault as fault:
            raise token_fault(fault) from None

    def give(self, application, client_id, tenant_id, resource):
        seconds = application.get("token_seconds", 3599)
        bearer = self.world.give_bearer(
            "azure", "strict-entra.", seconds, aud=resource, app=client_id, oid=application["object_id"], tid=tenant_id
        )
        answer = {"token_type": "Bearer", "expires_in": seconds, "ext_expires_in": seconds, "access_token": bearer}
        return Reply.json(200, answer, "token")


def token_fault(fault):
    if fault.kind == "expired":
        text = f"Client assertion is not within its valid time range. {fault.detail}"
        return EntraFault("invalid_client", 700024, text)
    if fault.kind in ("unreachable", "discovery"):
        return EntraFault("invalid_request", 50166, f"Request to External OIDC endpoint failed. ({fault.detail})", 400)
    if fault.kind == "key":
        text = "The certificate with identifier used to sign the client assertion is not registered on application."
        return EntraFault("invalid_client", 700027, text)
    return EntraFault("invalid_client", 700027, f"Client assertion failed signature validation. ({fault.detail})")
