#!/usr/bin/env python3
"""A git server over HTTPS, by git's own `git http-backend`, and the part of GitHub's API that gives tokens of app installations.

    git_host.py FOLDER ADDRESS

FOLDER has `cert.pem` and `key.pem`, `repositories/`, `app.pem` (an app's public key) and `tokens.json`: which tokens may read
the repositories below which path; `aws` and `azure` stand for what the clouds at the address in `clouds` have given. Prints the
port, and ends when its standard input closes.
"""

import base64
import http.server
import json
import os
import pathlib
import ssl
import subprocess
import sys
import threading
import time

import cloud_proof

folder = pathlib.Path(sys.argv[1])
INSTALLATION = "/api/v3/app/installations/5678/access_tokens"
OF_APP = "ghs_of_the_installation"


def decoded(part):
    return base64.urlsafe_b64decode(part + "=" * (-len(part) % 4))


def is_of_app(statement):
    """Whether the app's key signed the statement, which is valid now and names the app."""
    header, claims, signature = statement.split(".")
    (folder / "signature").write_bytes(decoded(signature))
    check = ["openssl", "dgst", "-sha256", "-verify", "app.pem", "-signature", "signature"]
    signed = subprocess.run(check, cwd=folder, input=f"{header}.{claims}".encode(), capture_output=True)
    claims = json.loads(decoded(claims))
    lives = claims["iat"] <= time.time() < claims["exp"] <= time.time() + 600
    return signed.returncode == 0 and claims["iss"] == "1234" and lives


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def answer(self, status, body, headers=()):
        self.send_response(status)
        for name, value in [("Content-Length", str(len(body))), *headers]:
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    def body(self):
        return self.rfile.read(int(self.headers.get("Content-Length") or 0))

    def may_read(self, path):
        kind, _, given = (self.headers.get("Authorization") or "").partition(" ")
        tokens = json.loads((folder / "tokens.json").read_text()) | {"/app/": f"x-access-token:{OF_APP}"}
        covering = [below for below in tokens if path.startswith(below)]
        expected = tokens[max(covering, key=len)] if covering else None
        if expected in ("aws", "azure"):
            host = (self.headers.get("Host") or "").partition(":")[0]
            header = self.headers.get("Authorization")
            return cloud_proof.check(expected, (folder / "clouds").read_text(), header, host, path)
        return kind == "Basic" and base64.b64decode(given).decode() == expected

    def do_POST(self):
        if self.path != INSTALLATION:
            return self.serve()
        asked = json.loads(self.body())
        statement = (self.headers.get("Authorization") or "").removeprefix("Bearer ")
        if asked != {"permissions": {"contents": "read"}} or not is_of_app(statement):
            return self.answer(401, b'{"message": "A JSON web token could not be decoded"}')
        self.answer(201, json.dumps({"token": OF_APP, "expires_at": "2099-01-01T00:00:00Z"}).encode())

    def do_GET(self):
        self.serve()

    def serve(self):
        path, _, query = self.path.partition("?")
        if path.startswith("/moved.git") and self.server is not other:
            self.body()
            return self.answer(302, b"", [("Location", f"https://{sys.argv[2]}:{other.server_port}{self.path}")])
        try:
            may_read = self.may_read(path)
        except cloud_proof.Refused as refused:
            self.body()
            return self.answer(403, f"{refused}\n".encode(), [("Content-Type", "text/plain")])
        if not may_read:
            self.body()
            return self.answer(401, b"", [("WWW-Authenticate", 'Basic realm="git"')])
        environment = dict(
            os.environ, GIT_PROJECT_ROOT=str(folder / "repositories"), GIT_HTTP_EXPORT_ALL="1", PATH_INFO=path,
            QUERY_STRING=query, REQUEST_METHOD=self.command, CONTENT_TYPE=self.headers.get("Content-Type") or "",
            HTTP_CONTENT_ENCODING=self.headers.get("Content-Encoding") or "",
            GIT_PROTOCOL=self.headers.get("Git-Protocol") or "",
            # git reads only repositories of its own user, which these may not be in a container.
            GIT_CONFIG_COUNT="1", GIT_CONFIG_KEY_0="safe.directory", GIT_CONFIG_VALUE_0="*")
        done = subprocess.run(["git", "http-backend"], env=environment, input=self.body(), capture_output=True)
        head, _, body = done.stdout.partition(b"\r\n\r\n")
        headers = [tuple(line.split(": ", 1)) for line in head.decode().split("\r\n")]
        status = next((value for name, value in headers if name == "Status"), "200").split()[0]
        self.answer(int(status), body, [pair for pair in headers if pair[0] != "Status"])


class Other(Handler):
    """Another host, to which the first one redirects. It serves every caller, and notes the credential of each."""

    def may_read(self, path):
        with (folder / "visits").open("a") as visits:
            print(self.headers.get("Authorization"), file=visits)
        return True


tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
tls.load_cert_chain(folder / "cert.pem", folder / "key.pem")


def listen(handler):
    server = http.server.ThreadingHTTPServer((sys.argv[2], 0), handler)
    server.socket = tls.wrap_socket(server.socket, server_side=True)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return server


other = listen(Other)
print(listen(Handler).server_port, flush=True)
sys.stdin.read()
