"""Canyon's public address as the clouds reach it: TLS in front of its discovery document and keys."""

import http.client
from urllib.parse import urlsplit

from strict.serving import Reply

PATHS = ("/.well-known/openid-configuration", "/.well-known/jwks")


class Front:
    name = "front"

    def __init__(self, world):
        self.world = world

    def answer(self, request, facts):
        target = self.world.state.get("front", {}).get("target")
        if request.method != "GET" or request.path not in PATHS or target is None:
            return Reply(404, code="NotFound")
        parts = urlsplit(target)
        connection = http.client.HTTPConnection(parts.hostname, parts.port, timeout=5)
        try:
            connection.request("GET", request.path)
            response = connection.getresponse()
            return Reply(response.status, response.read(), {"content-type": "application/json"}, "document")
        except (OSError, http.client.HTTPException):
            return Reply(502, code="BadGateway")
        finally:
            connection.close()
