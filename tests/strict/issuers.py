"""Verifies tokens of an outside issuer, as the clouds do: with its discovery document and its keys."""

import http.client
import json
import ssl
import time
from urllib.parse import urlsplit

import jwt

MOST = 64 * 1024
KEPT_SECONDS = 300
SKEW_SECONDS = 60


class TokenFault(Exception):
    """Why a token is rejected. Each cloud turns `kind` into its own message."""

    def __init__(self, kind, detail):
        super().__init__(f"{kind}: {detail}")
        self.kind = kind
        self.detail = detail


def unverified(raw):
    """The header and the claims, not verified yet."""
    try:
        header = jwt.get_unverified_header(raw)
        claims = jwt.decode(raw, options={"verify_signature": False})
    except jwt.PyJWTError as error:
        raise TokenFault("malformed", str(error)) from None
    return header, claims


def verify(world, raw, issuer):
    """The claims of `raw`, which must be from `issuer` and valid now. Audience and subject are for the caller."""
    header, claims = unverified(raw)
    if header.get("alg") != "RS256":
        raise TokenFault("algorithm", f"{header.get('alg')} is not RS256")
    if set(header) - {"alg", "kid", "typ"}:
        raise TokenFault("malformed", f"header has {sorted(set(header) - {'alg', 'kid', 'typ'})}")
    if claims.get("iss") != issuer:
        raise TokenFault("issuer", f"{claims.get('iss')} is not {issuer}")
    key = find_key(world, issuer, header.get("kid"))
    try:
        claims = jwt.decode(
            raw,
            key,
            algorithms=["RS256"],
            issuer=issuer,
            leeway=SKEW_SECONDS,
            options={"verify_aud": False, "require": ["iss", "sub", "aud", "exp", "iat", "nbf", "jti"]},
        )
    except jwt.ExpiredSignatureError:
        raise TokenFault("expired", f"ended at {claims.get('exp')}") from None
    except jwt.InvalidSignatureError:
        raise TokenFault("signature", "the signature is not by the key of that kid") from None
    except jwt.PyJWTError as error:
        raise TokenFault("claims", str(error)) from None
    check_claims(claims)
    return claims


def check_claims(claims):
    """The checks that PyJWT leaves to its caller. There is no leeway: an expired token is rejected."""
    now = time.time()
    if claims["exp"] <= now:
        raise TokenFault("expired", f"ended at {claims['exp']}")
    if claims["exp"] - claims["iat"] > 24 * 3600:
        raise TokenFault("claims", "it is good for longer than a day")
    for name in ("sub", "jti"):
        if not isinstance(claims[name], str) or not claims[name]:
            raise TokenFault("claims", f"{name} is not a text")
    if not isinstance(claims["aud"], str) or not claims["aud"]:
        raise TokenFault("claims", "aud is not one text")


def find_key(world, issuer, kid):
    if not isinstance(kid, str) or not kid:
        raise TokenFault("key", "the header has no kid")
    kept = world.keys.get(issuer)
    # As in the clouds, an unknown key causes another fetch.
    if kept is None or kept[0] + KEPT_SECONDS < time.time() or kid not in kept[1]:
        kept = (time.time(), fetch_keys(world, issuer))
        world.keys[issuer] = kept
    if kid not in kept[1]:
        raise TokenFault("key", "the issuer has no key of that kid")
    return kept[1][kid]


def fetch_keys(world, issuer):
    discovery = fetch(world, issuer, f"{issuer}/.well-known/openid-configuration")
    if discovery.get("issuer") != issuer:
        raise TokenFault("discovery", f"the document is of {discovery.get('issuer')}, not of {issuer}")
    if "RS256" not in discovery.get("id_token_signing_alg_values_supported", []):
        raise TokenFault("discovery", "the document does not name RS256")
    for name in ("response_types_supported", "subject_types_supported"):
        if not discovery.get(name):
            raise TokenFault("discovery", f"the document has no {name}")
    address = discovery.get("jwks_uri", "")
    if urlsplit(address).netloc != urlsplit(issuer).netloc:
        raise TokenFault("discovery", f"jwks_uri {address} is elsewhere")
    keys = {}
    for jwk in fetch(world, issuer, address).get("keys", []):
        if jwk.get("kty") != "RSA" or jwk.get("use", "sig") != "sig" or jwk.get("alg", "RS256") != "RS256":
            continue
        if {"d", "p", "q", "dp", "dq", "qi"} & set(jwk):
            raise TokenFault("discovery", "the key set holds a private key")
        if jwk["kid"] in keys:
            raise TokenFault("discovery", "two keys have one kid")
        keys[jwk["kid"]] = jwt.PyJWK(jwk).key
    if not keys:
        raise TokenFault("discovery", "the key set has no RSA key for signatures")
    return keys


def fetch(world, issuer, address):
    """A JSON document over verified TLS. Redirects are not followed."""
    parts = urlsplit(address)
    if parts.scheme != "https":
        raise TokenFault("unreachable", f"{address} is not https")
    trusted = next((known for known in world.state.get("issuers", []) if known["url"] == issuer), {})
    context = ssl.create_default_context(cafile=trusted.get("ca_file"))
    connection = http.client.HTTPSConnection(parts.hostname, parts.port or 443, timeout=5, context=context)
    try:
        connection.request("GET", parts.path, headers={"accept": "application/json"})
        response = connection.getresponse()
        body = response.read(MOST + 1)
    except (OSError, http.client.HTTPException) as error:
        raise TokenFault("unreachable", f"{address}: {error}") from None
    finally:
        connection.close()
    world.record(service="issuer", method="GET", path=parts.path, status=response.status, code="")
    if response.status != 200 or len(body) > MOST:
        raise TokenFault("unreachable", f"{address}: HTTP status {response.status}, {len(body)} bytes")
    try:
        document = json.loads(body)
    except ValueError:
        document = None
    if not isinstance(document, dict):
        raise TokenFault("discovery", f"{address} is not a JSON object")
    return document
