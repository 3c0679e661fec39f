"""Verifies tokens with PyJWT, as strictly as it can: one on each line of the standard input, `1` or `0` for each.

    judge.py JWKS ISSUER AUDIENCE SUBJECT
"""

import json
import sys

import jwt

jwks, issuer, audience, subject = sys.argv[1:]
ALGORITHMS = {"RSA": "RS256", "EC": "ES256", "OKP": "EdDSA"}
keys = {key["kid"]: (jwt.PyJWK(key, algorithm=ALGORITHMS[key["kty"]]), ALGORITHMS[key["kty"]])
        for key in json.loads(jwks)["keys"]}


def is_good(token):
    try:
        key, algorithm = keys[jwt.get_unverified_header(token)["kid"]]
        claims = jwt.decode(token, key, algorithms=[algorithm], audience=audience, issuer=issuer, leeway=60,
                            options={"require": ["exp", "iss", "aud", "sub"]})
        return claims["sub"] == subject
    except (jwt.PyJWTError, KeyError, TypeError, ValueError, OverflowError):
        return False


for line in sys.stdin:
    print(1 if is_good(line.rstrip("\n")) else 0)
