"""Starts the stand-ins, prints their addresses, and runs until it gets a signal or its input closes."""

import argparse
import signal
import sys
import tempfile
from pathlib import Path

import yaml

from strict import serving
from strict.admin import Admin
from strict.arm import ResourceManager
from strict.authenticators import Authenticator
from strict.aws_sts import AwsSts
from strict.certificates import Authority
from strict.eks import Eks
from strict.entra import Entra
from strict.front import Front
from strict.gcp_iam import GcpIamCredentials
from strict.gcp_sts import GcpSts
from strict.gke import Gke
from strict.world import World

SERVICES = (AwsSts, Eks, GcpSts, GcpIamCredentials, Gke, Entra, ResourceManager, Authenticator)


def start(world, folder):
    """Starts all services; returns their addresses, and the file of the certificate authority."""
    ports = world.state.get("ports", {})
    for service in (Admin, *SERVICES):
        handler = serving.handler_of(service(world), world)
        world.addresses[service.name] = f"http://127.0.0.1:{serving.serve(handler, ports.get(service.name, 0))}"
    authority = Authority("front", folder)
    context = serving.server_context(*authority.server())
    port = serving.serve(serving.handler_of(Front(world), world), ports.get("front", 0), context)
    world.addresses["front"] = f"https://127.0.0.1:{port}"
    return {**world.addresses, "front_ca_file": authority.ca_file}


def main():
    parser = argparse.ArgumentParser(prog="strict", description=__doc__)
    parser.add_argument("--config", type=Path, help="the state to begin with, YAML; see sample.yaml")
    arguments = parser.parse_args()
    state = yaml.safe_load(arguments.config.read_text()) if arguments.config else {}
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    with tempfile.TemporaryDirectory(prefix="strict-") as folder:
        for name, where in start(World(state or {}), Path(folder)).items():
            print(f"{name}={where}")
        print("ready", flush=True)
        sys.stdin.read()


if __name__ == "__main__":
    main()
