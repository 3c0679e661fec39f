"""An issuer on loopback, with TLS. Each path is an issuer with another kind of attack.

    hostile_issuer.py FOLDER JWKS TRAP_PORT

Creates an authority in the folder, prints its port, and ends with its standard input. `good` is no attack.
"""

import gzip
import http.server
import json
import pathlib
import ssl
import sys
import threading
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[4] / "tests"))
from strict.certificates import Authority  # noqa: E402

folder, jwks, trap = pathlib.Path(sys.argv[1]), json.loads(sys.argv[2]), int(sys.argv[3])
TEN_GIB = 10 << 30
# Compressed in advance: it takes longer than the client waits.
BOMB = gzip.compress(b" " * (50 << 20))


class Issuer(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def do_GET(self):
        mode, _, rest = self.path.lstrip("/").partition("/")
        try:
            if rest == "keys":
                self.keys(mode)
            else:
                self.document(mode)
        except OSError:
            self.close_connection = True

    def document(self, mode):
        base = f"https://127.0.0.1:{self.server.server_address[1]}/{mode}"
        document = {"issuer": base, "jwks_uri": f"{base}/keys"}
        if mode == "redirect":
            self.redirect()
        elif mode == "elsewhere":
            self.answer({**document, "jwks_uri": f"https://localhost:{trap}/keys"})
        elif mode == "plain-keys":
            self.answer({**document, "jwks_uri": f"http://127.0.0.1:{trap}/keys"})
        elif mode == "user-keys":
            self.answer({**document, "jwks_uri": base.replace("//", "//user:secret@") + "/keys"})
        elif mode == "other-host":
            self.answer({**document, "jwks_uri": "https://other.example.com/keys"})
        elif mode == "other-port":
            self.answer({**document, "jwks_uri": f"https://127.0.0.1:{trap}/keys"})
        elif mode == "file":
            self.answer({**document, "jwks_uri": "file:///etc/passwd"})
        elif mode == "other-issuer":
            self.answer({**document, "issuer": base + "/"})
        elif mode == "no-json":
            self.send_whole(b"<html>", {})
        elif mode == "twice":
            text = json.dumps(document)
            self.send_whole((text[:-1] + f', "jwks_uri": "https://127.0.0.1:{trap}/keys"}}').encode(), {})
        elif mode in ("endless", "endless-chunks", "slow", "silent", "status", "gzip", "bomb"):
            self.harm(mode, mode, json.dumps(document).encode())
        else:
            self.answer(document)

    def keys(self, mode):
        if mode == "redirected-keys":
            self.redirect()
        elif mode in ("endless-keys", "slow-keys"):
            self.harm(mode.removesuffix("-keys"), mode, json.dumps(jwks).encode())
        elif mode == "many-keys":
            self.answer({"keys": jwks["keys"] * 22})
        elif mode == "no-keys":
            self.answer({"keys": []})
        elif mode == "private-keys":
            self.answer({"keys": [*jwks["keys"], {"kty": "oct", "k": "AAAA"}]})
        else:
            self.answer(jwks)

    def harm(self, harm, mode, good):
        if harm == "endless":
            self.begin({"Content-Length": str(TEN_GIB)})
            self.endless(mode, b" " * 65536)
        elif harm == "endless-chunks":
            # Without a length, the client must count.
            self.begin({"Transfer-Encoding": "chunked"})
            self.endless(mode, b"10000\r\n" + b" " * 65536 + b"\r\n")
        elif harm == "slow":
            self.begin({"Content-Length": str(len(good))})
            for byte in good:
                self.wfile.write(bytes([byte]))
                self.wfile.flush()
                time.sleep(1)
        elif harm == "silent":
            time.sleep(30)
        elif harm == "status":
            self.send_response(203)
            self.send_header("Content-Length", str(len(good)))
            self.end_headers()
            self.wfile.write(good)
        elif harm == "gzip":
            self.send_whole(gzip.compress(good), {"Content-Encoding": "gzip"})
        elif harm == "bomb":
            # Members of a gzip file follow one another (RFC 1952, section 2.2).
            self.send_whole(BOMB + gzip.compress(good), {"Content-Encoding": "gzip"})

    def endless(self, mode, piece):
        """Counts what it has sent in a file of the mode's name, which always holds a number."""
        sent, counter = 0, folder / f"{mode}.new"
        while sent < TEN_GIB:
            self.wfile.write(piece)
            sent += len(piece)
            counter.write_text(str(sent))
            counter.replace(folder / mode)

    def redirect(self):
        self.send_response(302)
        self.send_header("Location", f"https://127.0.0.1:{trap}/")
        self.send_header("Content-Length", "0")
        self.end_headers()

    def answer(self, document):
        self.send_whole(json.dumps(document).encode(), {})

    def send_whole(self, body, headers):
        self.begin({**headers, "Content-Length": str(len(body))})
        self.wfile.write(body)

    def begin(self, headers):
        self.send_response(200)
        for name, value in headers.items():
            self.send_header(name, value)
        self.end_headers()


server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Issuer)
server.daemon_threads = True
server.handle_error = lambda *_: None
tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
tls.load_cert_chain(*map(str, Authority("hostile", folder).server()))
server.socket = tls.wrap_socket(server.socket, server_side=True)
threading.Thread(target=server.serve_forever, daemon=True).start()
print(server.server_address[1], flush=True)
sys.stdin.read()
