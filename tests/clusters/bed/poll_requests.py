"""A loop around kubectl that speaks the published protocol of remote runners, written from docs/api.md alone.

    poll_requests.py API ORG RUNNER KEY_FILE [--lose-first]

KUBECTL and KUBECONFIG say how it creates Jobs. It prints the action of each message. With --lose-first it drops the
first message. It ends when its standard input closes.
"""

import hashlib
import json
import os
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
import uuid

import jwt
from cryptography.hazmat.primitives import serialization

API, ORG, RUNNER, KEY_FILE = sys.argv[1:5]
WAIT = 2


def read_key():
    with open(KEY_FILE, "rb") as file:
        return serialization.load_pem_private_key(file.read(), password=None)


KEY = read_key()
RAW = KEY.public_key().public_bytes(serialization.Encoding.Raw, serialization.PublicFormat.Raw)
KEY_ID = hashlib.sha256(RAW).hexdigest()


def token():
    now = int(time.time())
    claims = {"sub": RUNNER, "aud": f"canyon:{ORG}", "iat": now, "exp": now + 60, "jti": str(uuid.uuid4())}
    return jwt.encode(claims, KEY, algorithm="EdDSA", headers={"kid": KEY_ID})


def post(path, headers, body=None):
    """The status and the answer. The server of a test may be down for a moment."""
    data = json.dumps(body).encode() if body is not None else b""
    headers = {"Content-Type": "application/json", **headers}
    request = urllib.request.Request(f"{API}/orgs/{ORG}/{path}", data=data, headers=headers, method="POST")
    try:
        with urllib.request.urlopen(request, timeout=WAIT + 30) as answer:
            text = answer.read()
            return answer.status, json.loads(text) if text else None
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()


def kubectl(*arguments, stdin=""):
    command = [os.environ["KUBECTL"], "--kubeconfig", os.environ["KUBECONFIG"], *arguments]
    done = subprocess.run(command, input=stdin, capture_output=True, text=True, timeout=60, check=False)
    if done.returncode:
        raise RuntimeError(f"{arguments}: {done.stderr}")
    return done.stdout


def say_failed(message, why):
    # canyon-DEPLOYMENT-ATTEMPT
    deployment = uuid.UUID(message["job_id"].split("-")[1])
    headers = {"X-Deployment-Token": message["deployment_token"]}
    body = {"status": "failure", "error": {"error": "lost", "message": why}}
    print("said", *post(f"deployments/{deployment}/results", headers, body), flush=True)


def check(message):
    found = kubectl("-n", message["namespace"], "get", "job", message["job_id"], "-o", "json", "--ignore-not-found")
    status = json.loads(found).get("status", {}) if found.strip() else None
    if status is None:
        say_failed(message, f"there is no Job {message['job_id']}")
    elif status.get("failed"):
        say_failed(message, f"the Job {message['job_id']} failed")


def handle(message):
    if message["action"] == "create-job":
        kubectl("create", "-f", "-", stdin=json.dumps(message["configuration"]))
    elif message["action"] == "check-job-status":
        check(message)
    elif message["action"] == "cancel-job":
        kubectl("-n", message["namespace"], "delete", "job", message["job_id"], "--ignore-not-found", "--wait=false")


def main():
    threading.Thread(target=lambda: (sys.stdin.read(), os._exit(0)), daemon=True).start()
    lose = "--lose-first" in sys.argv[5:]
    while True:
        path = f"remote-runners/{RUNNER}/actions/poll-requests?wait_seconds={WAIT}"
        status, message = post(path, {"Authorization": f"Bearer {token()}"})
        if status == 204:
            continue
        if status != 200:
            print("refused", status, message, flush=True)
            time.sleep(1)
            continue
        print(message["action"], message["job_id"], "lost" if lose else "", flush=True)
        if not lose:
            handle(message)
        lose = False


main()
