import base64
import hmac
import json
import time
import unittest

import jwt
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa

from strict import issuers
from strict.serving import Reply
from strict.tests.issuer import TestIssuer
from strict.world import World


def confused(issuer, public):
    """PyJWT makes no such token: signed by HMAC, with the public key as the secret."""
    header = {"alg": "HS256", "kid": "first", "typ": "JWT"}
    parts = [json.dumps(part).encode() for part in (header, issuer.claims())]
    text = b".".join(base64.urlsafe_b64encode(part).rstrip(b"=") for part in parts)
    signature = base64.urlsafe_b64encode(hmac.digest(public, text, "sha256")).rstrip(b"=")
    return (text + b"." + signature).decode()


class Tokens(unittest.TestCase):
    def setUp(self):
        self.issuer = TestIssuer()
        self.addCleanup(self.issuer.close)
        self.world = World(self.issuer.state())

    def refused(self, token, kind, name):
        with self.subTest(name), self.assertRaises(issuers.TokenFault) as caught:
            issuers.verify(self.world, token, self.issuer.url)
        self.assertEqual(caught.exception.kind, kind, f"{name}: {caught.exception}")

    def test_a_good_token_is_believed_and_the_keys_are_fetched_once(self):
        for _ in range(3):
            claims = issuers.verify(self.world, self.issuer.token(), self.issuer.url)
            self.assertEqual(claims["iss"], self.issuer.url)
        self.assertEqual(len(self.world.calls()), 2)

    def test_a_forged_token_is_not_believed(self):
        issuer, now = self.issuer, int(time.time())
        public = issuer.key.public_key().public_bytes(
            serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo
        )
        other_key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
        header, claims, signature = issuer.token().split(".")
        other = base64.urlsafe_b64encode(json.dumps(issuer.claims(sub="org:other")).encode()).decode().rstrip("=")
        cases = [
            ("alg none", jwt.encode(issuer.claims(), None, "none", {"kid": "first"}), "algorithm"),
            ("alg HS256 of the public key", confused(issuer, public), "algorithm"),
            ("alg ES256", issuer.token(key=ec.generate_private_key(ec.SECP256R1()), algorithm="ES256"), "algorithm"),
            ("alg RS512", issuer.token(algorithm="RS512"), "algorithm"),
            ("another's key", issuer.token(key=other_key), "signature"),
            ("other claims", f"{header}.{other}.{signature}", "signature"),
            ("no signature", f"{header}.{claims}.", "signature"),
            ("unknown kid", issuer.token(kid="second"), "key"),
            ("no kid", issuer.token(kid=None), "key"),
            ("a key of its own", issuer.token(jwk=issuer.jwk), "malformed"),
            ("keys elsewhere", issuer.token(jku="https://evil.example"), "malformed"),
            ("another issuer", issuer.token(issuer.claims(iss="https://evil.example")), "issuer"),
            ("an issuer with a slash", issuer.token(issuer.claims(iss=f"{issuer.url}/")), "issuer"),
            ("ended a second ago", issuer.token(issuer.claims(exp=now - 1)), "expired"),
            ("not begun", issuer.token(issuer.claims(nbf=now + 300)), "claims"),
            ("made in the future", issuer.token(issuer.claims(iat=now + 300)), "claims"),
            ("good for two days", issuer.token(issuer.claims(exp=now + 2 * 86400)), "claims"),
            ("many audiences", issuer.token(issuer.claims(audience=["a", "b"])), "claims"),
            ("nonsense", "a.b.c", "malformed"),
        ]
        for name in ("sub", "aud", "exp", "iat", "nbf", "jti"):
            claims = issuer.claims()
            del claims[name]
            cases.append((f"without {name}", issuer.token(claims), "claims"))
        for name, token, kind in cases:
            self.refused(token, kind, name)

    def test_an_issuer_whose_documents_are_wrong_is_not_believed(self):
        issuer = self.issuer
        cases = [
            ("of another issuer", {**issuer.discovery, "issuer": "https://evil.example"}, None),
            ("keys elsewhere", {**issuer.discovery, "jwks_uri": "https://evil.example/jwks"}, None),
            ("without RS256", {**issuer.discovery, "id_token_signing_alg_values_supported": ["ES256"]}, None),
            ("without response types", {**issuer.discovery, "response_types_supported": []}, None),
            ("no keys", None, []),
            ("a private key", None, [{**issuer.jwk, "d": "AQAB"}]),
            ("two keys of one kid", None, [issuer.jwk, issuer.jwk]),
        ]
        for name, discovery, keys in cases:
            self.world.keys.clear()
            issuer.publish(discovery, keys)
            self.refused(issuer.token(), "discovery", name)

    def test_a_redirect_is_not_followed_and_another_certificate_not_trusted(self):
        documents = self.issuer.documents.replies
        documents["/moved"] = documents["/.well-known/openid-configuration"]
        documents["/.well-known/openid-configuration"] = Reply(302, headers={"location": "/moved"})
        self.refused(self.issuer.token(), "unreachable", "redirect")
        self.issuer.publish()
        self.world.replace({"issuers": []})
        self.refused(self.issuer.token(), "unreachable", "certificate")

    def test_an_unknown_key_is_reason_to_look_again(self):
        issuers.verify(self.world, self.issuer.token(), self.issuer.url)
        other_key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
        jwk = json.loads(jwt.algorithms.RSAAlgorithm.to_jwk(other_key.public_key()))
        self.issuer.publish(keys=[self.issuer.jwk, {"kty": "RSA", "n": jwk["n"], "e": jwk["e"], "kid": "second"}])
        token = self.issuer.token(key=other_key, kid="second")
        self.assertEqual(issuers.verify(self.world, token, self.issuer.url)["iss"], self.issuer.url)
