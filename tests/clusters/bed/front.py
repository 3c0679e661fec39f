#!/usr/bin/env python3
"""The two fixed https addresses that the API server calls, in front of servers that come and go with each test.

Canyon's issuer: requests for its two documents go to the Canyon in the target file. The last good answers are kept,
because the Canyons of all tests sign with one key.

The cloud's authenticator: the webhook with which EKS, GKE and AKS let their API servers verify the cloud's tokens.
POST /authenticate passes a TokenReview to each address in the folder of authenticators, until one accepts the token.

    front.py ADDRESS CERTIFICATE KEY TARGET_FILE KEPT_FOLDER AUTHENTICATORS_FOLDER
"""

import http.client
import http.server
import json
import pathlib
import socketserver
import ssl
import sys

DISCOVERY = "/.well-known/openid-configuration"
KEYS = "/.well-known/jwks"
AUTHENTICATE = "/authenticate"


class Front(socketserver.ThreadingMixIn, http.server.HTTPServer):
    daemon_threads = True
    allow_reuse_address = True
    request_queue_size = 128

    def __init__(self, address, certificate, key, target, kept, authenticators):
        self.url, self.target, self.kept, self.authenticators = f"https://{address}", target, kept, authenticators
        self.tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self.tls.load_cert_chain(certificate, key)
        host, port = address.rsplit(":", 1)
        super().__init__((host, int(port)), Answer)

    def get_request(self):
        plain, peer = super().get_request()
        plain.settimeout(10)
        # The connection's thread does the handshake, so that a slow client delays no other.
        return self.tls.wrap_socket(plain, server_side=True, do_handshake_on_connect=False), peer

    def handle_error(self, request, client_address):
        print("connection ended:", sys.exc_info()[1], flush=True)

    def document(self, path):
        """The document as Canyon serves it now, or served it last."""
        kept = self.kept / path.rsplit("/", 1)[1]
        try:
            fresh = ask(self.target.read_text().strip(), "GET", path)
        except (OSError, ValueError, http.client.HTTPException) as error:
            print(f"{path}: {error}", flush=True)
            return kept.read_bytes() if kept.is_file() else self.first(path)
        new = kept.with_suffix(".new")
        new.write_bytes(fresh)
        new.replace(kept)
        return fresh

    def first(self, path):
        """Written before the first Canyon runs. An API server that finds no discovery document retries only 10 s later."""
        if path != DISCOVERY:
            return None
        return json.dumps({
            "issuer": self.url, "jwks_uri": self.url + KEYS, "response_types_supported": ["id_token"],
            "subject_types_supported": ["public"], "id_token_signing_alg_values_supported": ["RS256"],
        }).encode()

    def review(self, body):
        """The first answer that accepts the token. Servers that are gone or reject it are passed over."""
        for target in sorted(self.authenticators.iterdir()):
            try:
                answer = ask(target.read_text().strip(), "POST", AUTHENTICATE, body)
            except (OSError, ValueError, http.client.HTTPException) as error:
                print(f"{target.name}: {error}", flush=True)
                continue
            if json.loads(answer).get("status", {}).get("authenticated"):
                return answer
        return json.dumps({"apiVersion": "authentication.k8s.io/v1", "kind": "TokenReview",
                           "status": {"authenticated": False}}).encode()


def ask(target, method, path, body=None):
    host, port = target.rsplit(":", 1)
    connection = http.client.HTTPConnection(host, int(port), timeout=3)
    try:
        connection.request(method, path, body, {"Content-Type": "application/json"})
        answer = connection.getresponse()
        body = answer.read()
    finally:
        connection.close()
    if answer.status != 200:
        raise ValueError(f"status {answer.status} from {target}")
    json.loads(body)
    return body


class Answer(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self):
        path = self.path.split("?", 1)[0]
        known = path in (DISCOVERY, KEYS)
        body = self.server.document(path) if known else None
        self.reply(200 if body else 503 if known else 404, body)

    def do_POST(self):
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        if self.path.split("?", 1)[0] == AUTHENTICATE:
            self.reply(200, self.server.review(body))
        else:
            self.reply(404, None)

    def reply(self, status, body):
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body or b"")))
        self.end_headers()
        self.wfile.write(body or b"")


if __name__ == "__main__":
    address, certificate, key, *paths = sys.argv[1:]
    Front(address, certificate, key, *map(pathlib.Path, paths)).serve_forever()
