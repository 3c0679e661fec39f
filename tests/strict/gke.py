"""Google Kubernetes Engine: the endpoint and certificate authority of a cluster."""

import base64
import re

from strict import api_server
from strict.gcp_iam import may, problem
from strict.serving import Reply

CLUSTER = re.compile(r"/v1/(projects/([^/]+)/locations/([^/]+)/clusters/([^/]+))")
CLOUD_PLATFORM = "https://www.googleapis.com/auth/cloud-platform"


class Gke:
    name = "gke"

    def __init__(self, world):
        self.world = world

    def answer(self, request, facts):
        named = CLUSTER.fullmatch(request.path)
        if request.method != "GET" or named is None:
            return problem(404, "NotFound", "Requested entity was not found.")
        account = self.world.bearer("gcp_account", request.bearer() or "")
        if account is None or CLOUD_PLATFORM not in account["scopes"]:
            text = "Request had invalid authentication credentials. Expected OAuth 2 access token."
            return problem(401, "Unauthenticated", text)
        path, project, location, name = named.groups()
        facts.update(account=account["email"], cluster=path)
        gcp = self.world.state["gcp"]
        bindings = gcp.get("projects", {}).get(project, {}).get("bindings", [])
        if not may(bindings, f"serviceAccount:{account['email']}", "container.clusters.get"):
            return problem(403, "PermissionDenied", f'Required "container.clusters.get" permission(s) for "{path}".')
        for cluster in gcp.get("clusters", []):
            if (cluster["project"], cluster["location"], cluster["name"]) == (project, location, name):
                return Reply.json(200, self.describe(path, cluster), "clusters.get")
        return problem(404, "NotFound", f"Not found: {path}.")

    def describe(self, path, cluster):
        server, authority = api_server.of(self.world, cluster)
        private = cluster.get("private_endpoint", "10.0.0.2")
        endpoint = server.removeprefix("https://")
        return {
            "name": cluster["name"],
            "selfLink": f"https://container.googleapis.com/v1/{path}",
            "location": cluster["location"],
            "status": cluster.get("status", "RUNNING"),
            "currentMasterVersion": "1.34.4-gke.100",
            # The endpoint of a private cluster is its private address.
            "endpoint": private if cluster.get("private") else endpoint,
            "masterAuth": {"clusterCaCertificate": base64.b64encode(authority.encode()).decode()},
            "privateClusterConfig": {
                "enablePrivateNodes": True,
                "enablePrivateEndpoint": bool(cluster.get("private")),
                "privateEndpoint": private,
                "publicEndpoint": endpoint,
            },
            "controlPlaneEndpointsConfig": {
                "ipEndpointsConfig": {
                    "enabled": True,
                    "enablePublicEndpoint": not cluster.get("private"),
                    "privateEndpoint": private,
                    "publicEndpoint": endpoint,
                },
            },
        }
