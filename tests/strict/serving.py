"""One HTTP server for each service, on a port of loopback."""

import json
import ssl
import sys
import threading
import time
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qsl, urlsplit

MOST = 1024 * 1024


@dataclass
class Request:
    method: str
    target: str
    headers: dict
    body: bytes

    @property
    def path(self):
        return urlsplit(self.target).path

    @property
    def query(self):
        return dict(parse_qsl(urlsplit(self.target).query, keep_blank_values=True))

    def form(self):
        """The members of a form, each present once."""
        kind = self.headers.get("content-type", "").split(";")[0].strip()
        if kind != "application/x-www-form-urlencoded":
            return None
        pairs = parse_qsl(self.body.decode(errors="replace"), keep_blank_values=True)
        members = dict(pairs)
        return members if len(members) == len(pairs) else None

    def bearer(self):
        scheme, _, token = self.headers.get("authorization", "").partition(" ")
        return token if scheme.lower() == "bearer" and token else None


@dataclass
class Reply:
    status: int
    body: bytes = b""
    headers: dict = field(default_factory=dict)
    code: str = ""
    """The name of this answer in a record."""

    @classmethod
    def json(cls, status, value, code="", **headers):
        return cls(status, json.dumps(value).encode(), {"content-type": "application/json", **headers}, code)


class Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 256
    allow_reuse_address = True

    def handle_error(self, request, client_address):
        """A client that goes away, or does not trust the certificate, is not reported."""
        if not isinstance(sys.exc_info()[1], OSError):
            super().handle_error(request, client_address)


def serve(handler, port, context=None):
    """Starts a server in a thread of its own; returns its port."""
    server = Server(("127.0.0.1", port), handler)
    if context is not None:
        # The connection's thread does the handshake, so that a silent client delays no other.
        server.socket = context.wrap_socket(server.socket, server_side=True, do_handshake_on_connect=False)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return server.server_address[1]


def server_context(certificate, key):
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.load_cert_chain(certificate, key)
    context.set_alpn_protocols(["http/1.1"])
    return context


class QuietHandler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    timeout = 120
    disable_nagle_algorithm = True

    def log_message(self, *_):
        pass

    def read_body(self):
        """The body, or None if it is too long or of no known length."""
        if "transfer-encoding" in self.headers:
            return None
        length = self.headers.get("content-length", "0")
        if not length.isdigit() or int(length) > MOST:
            return None
        return self.rfile.read(int(length))

    def send_reply(self, reply):
        self.send_response(reply.status)
        for name, value in reply.headers.items():
            self.send_header(name, value)
        self.send_header("content-length", str(len(reply.body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(reply.body)


def handler_of(service, world):
    """A handler that asks `service`, applies faults, and records calls."""

    class Handler(QuietHandler):
        def answer(self):
            body = self.read_body()
            if body is None:
                self.close_connection = True
                return self.send_reply(Reply(413, code="TooLong"))
            headers = {name.lower(): value for name, value in self.headers.items()}
            request = Request(self.command, self.path, headers, body)
            facts = {}
            reply = play(world.fault(service.name)) or service.answer(request, facts)
            if reply is None:
                # The connection ends without an answer.
                self.close_connection = True
                return None
            if service.name != "admin":
                call = {"method": request.method, "path": request.path, "status": reply.status, "code": reply.code}
                world.record(service=service.name, **call, **facts)
            return self.send_reply(reply)

        do_GET = do_POST = do_PUT = do_PATCH = do_DELETE = answer

    return Handler


def play(fault):
    if fault is None:
        return None
    time.sleep(fault.get("wait_seconds", 0))
    if "status" not in fault:
        return None
    body = fault.get("body", "")
    body = json.dumps(body) if isinstance(body, (dict, list)) else body
    headers = {"content-type": "application/json", **fault.get("headers", {})}
    return Reply(fault["status"], body.encode(), headers, "Fault")
