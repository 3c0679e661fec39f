"""Verifies AWS Signature Version 4, in headers and in presigned URLs.

Follows the AWS General Reference, "Signature Version 4 signing process". It does not use botocore, so that both sides
do not share a mistake.
"""

import datetime
import hashlib
import hmac
import time
from urllib.parse import parse_qsl, quote, urlsplit

SKEW_SECONDS = 300


class SignatureFault(Exception):
    def __init__(self, code, message):
        super().__init__(message)
        self.code = code
        self.message = message


def verify_header(world, request, service):
    """The session that signed `request` in its Authorization header, and the region it names."""
    fields = authorization(request.headers.get("authorization", ""))
    stamp = request.headers.get("x-amz-date", "")
    if abs(seconds(stamp) - time.time()) > SKEW_SECONDS:
        raise SignatureFault("SignatureDoesNotMatch", f"Signature expired: {stamp} is too far from now")
    payload = hashlib.sha256(request.body).hexdigest()
    if request.headers.get("x-amz-content-sha256", payload) != payload:
        raise SignatureFault("XAmzContentSHA256Mismatch", "The body is not what was signed")
    signed = fields["SignedHeaders"].split(";")
    needed = {"host", "x-amz-date"} | ({"x-amz-security-token"} & set(request.headers))
    if not needed <= set(signed):
        raise SignatureFault("SignatureDoesNotMatch", f"{sorted(needed - set(signed))} must be signed")
    session = find_session(world, fields["Credential"], request.headers.get("x-amz-security-token"))
    pairs = parse_qsl(urlsplit(request.target).query, keep_blank_values=True)
    canonical = canonical_request(request.method, request.path, pairs, request.headers, signed, payload)
    region = compare(session, fields["Credential"], service, stamp, canonical, fields["Signature"])
    return session, region


def verify_presigned(world, method, target, headers, service):
    """The session that signed a URL, and the region it names."""
    pairs = parse_qsl(urlsplit(target).query, keep_blank_values=True)
    query = dict(pairs)
    if len(query) != len(pairs):
        raise SignatureFault("IncompleteSignature", "a parameter is there twice")
    if query.get("X-Amz-Algorithm") != "AWS4-HMAC-SHA256":
        raise SignatureFault("IncompleteSignature", "the algorithm is not AWS4-HMAC-SHA256")
    stamp, lasts = query.get("X-Amz-Date", ""), query.get("X-Amz-Expires", "")
    if not lasts.isdigit() or seconds(stamp) + int(lasts) < time.time():
        raise SignatureFault("SignatureDoesNotMatch", "Signature expired")
    if seconds(stamp) > time.time() + SKEW_SECONDS:
        raise SignatureFault("SignatureDoesNotMatch", "Signature not yet current")
    signed = query.get("X-Amz-SignedHeaders", "").split(";")
    if "host" not in signed:
        raise SignatureFault("SignatureDoesNotMatch", "host must be signed")
    session = find_session(world, query.get("X-Amz-Credential", ""), query.get("X-Amz-Security-Token"))
    unsigned = [pair for pair in pairs if pair[0] != "X-Amz-Signature"]
    empty = hashlib.sha256(b"").hexdigest()
    path = urlsplit(target).path or "/"
    canonical = canonical_request(method, path, unsigned, headers, signed, empty)
    credential = query["X-Amz-Credential"]
    region = compare(session, credential, service, stamp, canonical, query.get("X-Amz-Signature", ""))
    return session, region


def authorization(header):
    scheme, _, rest = header.partition(" ")
    if scheme != "AWS4-HMAC-SHA256":
        raise SignatureFault("MissingAuthenticationToken", "Request is missing Authentication Token")
    fields = dict(part.strip().partition("=")[::2] for part in rest.split(","))
    if set(fields) != {"Credential", "SignedHeaders", "Signature"}:
        raise SignatureFault("IncompleteSignature", "the Authorization header is not complete")
    return fields


def find_session(world, credential, token):
    """The session of the named key; its session token must be present and correct."""
    session = world.sessions.get(credential.split("/")[0])
    if session is None or not hmac.compare_digest(session["token"], token or ""):
        message = "The security token included in the request is invalid"
        raise SignatureFault("UnrecognizedClientException", message)
    if session["ends_at"] <= time.time():
        raise SignatureFault("ExpiredTokenException", "The security token included in the request is expired")
    return session


def compare(session, credential, service, stamp, canonical, given):
    parts = credential.split("/")
    if len(parts) != 5 or parts[4] != "aws4_request" or parts[1] != stamp[:8]:
        raise SignatureFault("IncompleteSignature", f"the credential scope {credential} is not right")
    _, date, region, named, _ = parts
    if named != service:
        raise SignatureFault("SignatureDoesNotMatch", f"Credential should be scoped to service: '{service}'")
    key = f"AWS4{session['secret']}".encode()
    for part in (date, region, named, "aws4_request"):
        key = hmac.new(key, part.encode(), hashlib.sha256).digest()
    digest = hashlib.sha256(canonical.encode()).hexdigest()
    text = "\n".join(["AWS4-HMAC-SHA256", stamp, "/".join(parts[1:]), digest])
    wanted = hmac.new(key, text.encode(), hashlib.sha256).hexdigest()
    if not hmac.compare_digest(wanted, given):
        message = "The request signature we calculated does not match the signature you provided."
        raise SignatureFault("SignatureDoesNotMatch", message)
    return region


def canonical_request(method, path, pairs, headers, signed, payload):
    if signed != sorted(signed) or any(name not in headers for name in signed):
        raise SignatureFault("SignatureDoesNotMatch", "the signed headers are not all there, or not sorted")
    encoded = sorted((escape(name), escape(value)) for name, value in pairs)
    lines = [f"{name}:{' '.join(headers[name].split())}" for name in signed]
    return "\n".join(
        [
            method,
            # The path on the wire is already encoded; every service but S3 signs it encoded again.
            quote(path, safe="/-_.~"),
            "&".join(f"{name}={value}" for name, value in encoded),
            *lines,
            "",
            ";".join(signed),
            payload,
        ]
    )


def escape(text):
    return quote(text, safe="-_.~")


def seconds(stamp):
    try:
        made = datetime.datetime.strptime(stamp, "%Y%m%dT%H%M%SZ")
    except ValueError:
        raise SignatureFault("IncompleteSignature", "X-Amz-Date is not a date") from None
    return made.replace(tzinfo=datetime.timezone.utc).timestamp()
