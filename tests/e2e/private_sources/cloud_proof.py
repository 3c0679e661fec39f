"""What CodeCommit and Azure Repos require of a request, as strictly as they do. Written from the documentation and without
AWS's libraries, so that both sides do not share a mistake.
"""

import base64
import calendar
import hashlib
import hmac
import json
import re
import time
import urllib.request

REGION = "eu-central-1"
SCOPE = "499b84ac-1321-427f-aa17-267ca6975798/.default"
# AWS accepts a signature for 15 minutes. A job makes one for each call, so less is enough here.
LIFE_SECONDS = 60
SKEW_SECONDS = 5


class Refused(Exception):
    """The server knows who asks, and refuses."""


def check(cloud, clouds, header, host, path):
    """Returns whether the request may read the repository; without proof the server asks for one."""
    if header is None:
        return False
    with urllib.request.urlopen(f"{clouds}/granted") as answer:
        granted = json.load(answer)
    repository = re.sub(r"/(info/refs|git-upload-pack)$", "", path)
    kind, _, given = header.partition(" ")
    if cloud == "azure":
        if kind.lower() != "bearer" or granted["azure"].get(given) != SCOPE:
            raise Refused("TF400813: The user is not authorized to access this resource.")
        if repository.endswith("/ops"):
            raise Refused("TF401019: The Git repository with name or identifier ops does not exist or you do not have "
                          "permissions for the operation you are attempting.")
        return True
    username, _, password = base64.b64decode(given).decode().partition(":") if kind == "Basic" else ("", "", "")
    key, _, token = username.partition("%")
    session = granted["sessions"].get(key)
    if session is None or token != session["token"] or session["ends_at"] <= time.time():
        raise Refused("The security token included in the request is invalid.")
    verify(session["secret"], password, host, repository)
    if repository.endswith("/ops"):
        raise Refused(f"User is not authorized to perform: codecommit:GitPull on resource: {repository}")
    return True


def verify(secret, password, host, repository):
    """Checks the signature of one repository, and that it is of now."""
    form = re.fullmatch(r"((\d{8})T\d{6})Z([0-9a-f]{64})", password)
    if form is None:
        raise Refused("The password is no signature.")
    stamp, day, signature = form.groups()
    # What is signed has no `Z`, although the time is that of UTC.
    made = calendar.timegm(time.strptime(stamp, "%Y%m%dT%H%M%S"))
    if not -LIFE_SECONDS <= made - time.time() <= SKEW_SECONDS:
        raise Refused("Signature expired.")
    request = f"GIT\n{repository}\n\nhost:{host}\n\nhost\n"
    scope = f"{day}/{REGION}/codecommit/aws4_request"
    text = "\n".join(["AWS4-HMAC-SHA256", stamp, scope, hashlib.sha256(request.encode()).hexdigest()])
    signer = f"AWS4{secret}".encode()
    for part in scope.split("/"):
        signer = hmac.new(signer, part.encode(), hashlib.sha256).digest()
    wanted = hmac.new(signer, text.encode(), hashlib.sha256).hexdigest()
    if not hmac.compare_digest(wanted, signature):
        raise Refused("The request signature we calculated does not match the signature you provided.")
