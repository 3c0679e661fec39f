"""Pushes a module package to an OCI registry, as `oras push` does.

    oci_push.py REGISTRY CA REPOSITORY TAG

The files are JSON on standard input: names and texts. Prints the digest of the manifest.
"""

import base64
import hashlib
import io
import json
import ssl
import sys
import urllib.request
import zipfile

registry, authority, repository, tag = sys.argv[1:]
MANIFEST = "application/vnd.oci.image.manifest.v1+json"
tls = ssl.create_default_context(cafile=authority)
proof = "Basic " + base64.b64encode(b"robot:right-password").decode()


def call(method, url, body, **headers):
    request = urllib.request.Request(url, data=body, method=method, headers={"Authorization": proof, **headers})
    return urllib.request.urlopen(request, context=tls)


def digest(content):
    return "sha256:" + hashlib.sha256(content).hexdigest()


def blob(content, media_type):
    begun = call("POST", f"https://{registry}/v2/{repository}/blobs/uploads/", b"").headers["Location"]
    call("PUT", f"{begun}&digest={digest(content)}", content, **{"Content-Type": "application/octet-stream"})
    return {"mediaType": media_type, "digest": digest(content), "size": len(content)}


archive = io.BytesIO()
with zipfile.ZipFile(archive, "w") as package:
    for name, text in json.load(sys.stdin).items():
        package.writestr(name, text)
manifest = json.dumps({
    "schemaVersion": 2,
    "mediaType": MANIFEST,
    "artifactType": "application/vnd.opentofu.modulepkg",
    "config": blob(b"{}", "application/vnd.oci.empty.v1+json"),
    "layers": [blob(archive.getvalue(), "archive/zip")],
}).encode()
call("PUT", f"https://{registry}/v2/{repository}/manifests/{tag}", manifest, **{"Content-Type": MANIFEST})
print(digest(manifest))
