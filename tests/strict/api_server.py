"""The real API server behind every cluster of every cloud here."""

from pathlib import Path

from strict import certificates


def of(world, cluster):
    """Address and certificate authority of a cluster: the real ones, unless the state names wrong ones."""
    known = world.state.get("api_server", {})
    server = cluster.get("endpoint") or known.get("server", "https://127.0.0.1:1")
    authority = cluster.get("ca_pem") or Path(known["ca_file"]).read_text()
    return server, authority


def client_certificate(world, user, group):
    known = world.state["api_server"]
    authority, key = (Path(known[name]).read_bytes() for name in ("ca_file", "ca_key_file"))
    return certificates.for_user(authority, key, user, group)
