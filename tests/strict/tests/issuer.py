"""An issuer for the tests: a key, and the two documents over TLS."""

import json
import tempfile
import time
import uuid
from pathlib import Path

import jwt
from cryptography.hazmat.primitives.asymmetric import rsa

from strict import serving
from strict.certificates import Authority
from strict.world import World

SUBJECT = "org:0190c2f0-0000-7000-8000-000000000001:runner:0190c2f0-0000-7000-8000-000000000002"


class Documents:
    name = "documents"

    def __init__(self):
        self.replies = {}

    def answer(self, request, _):
        return self.replies.get(request.path, serving.Reply(404))


class TestIssuer:
    """Serves `discovery` and `keys`; a test may change both."""

    def __init__(self):
        self.folder = tempfile.TemporaryDirectory()
        authority = Authority("issuer", Path(self.folder.name))
        self.documents = Documents()
        # Not the test's own world, which records calls.
        handler = serving.handler_of(self.documents, World({}))
        self.port = serving.serve(handler, 0, serving.server_context(*authority.server()))
        self.url = f"https://127.0.0.1:{self.port}"
        self.ca_file = str(authority.ca_file)
        self.key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
        self.jwk = json.loads(jwt.algorithms.RSAAlgorithm.to_jwk(self.key.public_key()))
        self.jwk = {"kty": "RSA", "n": self.jwk["n"], "e": self.jwk["e"], "kid": "first", "use": "sig", "alg": "RS256"}
        self.discovery = {
            "issuer": self.url,
            "jwks_uri": f"{self.url}/.well-known/jwks",
            "response_types_supported": ["id_token"],
            "subject_types_supported": ["public"],
            "id_token_signing_alg_values_supported": ["RS256"],
        }
        self.publish()

    def publish(self, discovery=None, keys=None):
        replies = self.documents.replies
        replies["/.well-known/openid-configuration"] = serving.Reply.json(200, discovery or self.discovery)
        replies["/.well-known/jwks"] = serving.Reply.json(200, {"keys": [self.jwk] if keys is None else keys})

    def state(self, **sections):
        return {"issuers": [{"url": self.url, "ca_file": self.ca_file}], **sections}

    def claims(self, audience="audience", **changes):
        now = int(time.time())
        claims = {
            "iss": self.url,
            "sub": SUBJECT,
            "aud": audience,
            "iat": now,
            "nbf": now,
            "exp": now + 600,
            "jti": str(uuid.uuid4()),
            **changes,
        }
        return claims

    def token(self, claims=None, key=None, algorithm="RS256", **headers):
        headers = {"kid": "first", **headers}
        headers = {name: value for name, value in headers.items() if value is not None}
        return jwt.encode(claims or self.claims(), key or self.key, algorithm, headers)

    def close(self):
        self.folder.cleanup()
