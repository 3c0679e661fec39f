"""Google's Security Token Service: tokens of workload identity pool providers."""

from strict import cel, issuers
from strict.serving import Reply
from strict.world import digest

GRANT = "urn:ietf:params:oauth:grant-type:token-exchange"
ACCESS_TOKEN = "urn:ietf:params:oauth:token-type:access_token"
JWT_TYPES = ("urn:ietf:params:oauth:token-type:jwt", "urn:ietf:params:oauth:token-type:id_token")
SCOPES = ("https://www.googleapis.com/auth/cloud-platform", "https://www.googleapis.com/auth/iam")
HOST = "//iam.googleapis.com/"
LONGEST_SUBJECT = 127


class GcpFault(Exception):
    def __init__(self, error, description):
        super().__init__(description)
        self.error, self.description = error, description


class GcpSts:
    name = "gcp_sts"

    def __init__(self, world):
        self.world = world

    def answer(self, request, facts):
        if (request.method, request.path) != ("POST", "/v1/token"):
            return Reply.json(404, {"error": {"code": 404, "message": "Not found", "status": "NOT_FOUND"}}, "NOT_FOUND")
        try:
            return self.exchange(request.form(), facts)
        except GcpFault as fault:
            value = {"error": fault.error, "error_description": fault.description}
            return Reply.json(400, value, fault.error)

    def exchange(self, form, facts):
        if form is None or form.get("grant_type") != GRANT:
            raise GcpFault("invalid_request", 'Invalid value for "grant_type".')
        if form.get("requested_token_type") != ACCESS_TOKEN:
            raise GcpFault("invalid_request", 'Invalid value for "requested_token_type".')
        if form.get("subject_token_type") not in JWT_TYPES:
            raise GcpFault("invalid_request", 'Invalid value for "subject_token_type".')
        if not set(form.get("scope", "").split()) & set(SCOPES):
            raise GcpFault("invalid_scope", "Some requested scopes were invalid.")
        audience, token = form.get("audience", ""), form.get("subject_token", "")
        facts.update(audience=audience, token=digest(token))
        if not audience.startswith(HOST):
            text = 'Invalid value for "audience". This value should be the full resource name of the Identity Provider.'
            raise GcpFault("invalid_request", text)
        provider = self.provider(audience)
        claims = self.believe(token, provider)
        facts.update(sub=claims["sub"], jti=claims["jti"], aud=claims["aud"])
        subject = subject_of(provider, claims)
        pool = audience.removeprefix(HOST).split("/providers/")[0]
        bearer = self.world.give_bearer(
            "gcp_federated", "ya29.d.", 3600, principal=f"principal:{HOST}{pool}/subject/{subject}"
        )
        answer = {"access_token": bearer, "issued_token_type": ACCESS_TOKEN, "token_type": "Bearer", "expires_in": 3599}
        return Reply.json(200, answer, "token")

    def provider(self, audience):
        providers = self.world.state.get("gcp", {}).get("providers", [])
        for provider in providers:
            if HOST + provider["name"] == audience and not provider.get("disabled"):
                return provider
        text = 'The target service indicated by the "audience" parameters is invalid. This might either be because'
        text = f"{text} the pool or provider is disabled or deleted or because it doesn't exist."
        raise GcpFault("invalid_target", text)

    def believe(self, token, provider):
        try:
            claims = issuers.verify(self.world, token, provider["issuer"])
        except issuers.TokenFault as fault:
            raise token_fault(fault, provider) from None
        own = HOST + provider["name"]
        allowed = provider.get("allowed_audiences") or [own, f"https:{own}"]
        if claims["aud"] not in allowed:
            text = f"The audience in ID Token [{claims['aud']}] does not match the expected audience."
            raise GcpFault("invalid_grant", text)
        return claims


def token_fault(fault, provider):
    if fault.kind == "issuer":
        text = f"The issuer in ID Token does not match the expected ones: {provider['issuer']}."
        return GcpFault("invalid_grant", text)
    if fault.kind == "expired":
        return GcpFault("invalid_grant", "ID Token expired.")
    if fault.kind in ("unreachable", "discovery"):
        text = f"Error connecting to the given credential's issuer. ({fault.detail})"
        return GcpFault("invalid_grant", text)
    return GcpFault("invalid_grant", f"The ID Token is not valid: {fault.detail}.")


def subject_of(provider, claims):
    """The mapped `google.subject`, if the attribute condition allows it."""
    mapping = provider.get("attribute_mapping", {"google.subject": "assertion.sub"})
    names = {"assertion": claims, "google": {}, "attribute": {}}
    try:
        for target, expression in mapping.items():
            group, name = target.split(".", 1)
            names[group][name] = cel.evaluate(expression, {"assertion": claims})
        subject = names["google"]["subject"]
        condition = provider.get("attribute_condition")
        good = condition is None or cel.truth(cel.evaluate(condition, names))
    except (cel.CelFault, KeyError) as fault:
        raise GcpFault("invalid_grant", f"The attribute mapping cannot be evaluated: {fault}.") from None
    if not good:
        raise GcpFault("unauthorized_client", "The given credential is rejected by the attribute condition.")
    if not isinstance(subject, str) or not 0 < len(subject.encode()) <= LONGEST_SUBJECT:
        text = f"The size of mapped attribute google.subject exceeds the {LONGEST_SUBJECT} bytes limit."
        raise GcpFault("invalid_grant", text)
    return subject
