"""Azure Resource Manager: AKS clusters, and the kubeconfig of one."""

import base64
import json
import re

from strict import api_server
from strict.entra import AKS_SERVER
from strict.serving import Reply

RESOURCE = re.compile(
    r"(/subscriptions/([^/]+)/resourceGroups/([^/]+)/providers/Microsoft\.ContainerService/managedClusters/([^/]+))"
    r"(/listClusterUserCredential)?",
    re.IGNORECASE,
)
MANAGEMENT = ("https://management.azure.com", "https://management.core.windows.net")
KIND = "Microsoft.ContainerService/managedClusters"
ROLES = {
    "Azure Kubernetes Service Cluster User Role": {f"{KIND}/listClusterUserCredential/action", f"{KIND}/read"},
    "Azure Kubernetes Service Contributor Role": {f"{KIND}/listClusterUserCredential/action", f"{KIND}/read"},
    "Reader": {f"{KIND}/read"},
}


class ResourceManager:
    name = "azure_resource_manager"

    def __init__(self, world):
        self.world = world

    def answer(self, request, facts):
        caller = self.world.bearer("azure", request.bearer() or "")
        if caller is None:
            return problem(401, "InvalidAuthenticationToken", "The access token is invalid.")
        if caller["aud"] not in (*MANAGEMENT, self.world.addresses[self.name]):
            text = "The access token has been obtained for wrong audience."
            return problem(401, "InvalidAuthenticationTokenAudience", text)
        named = RESOURCE.fullmatch(request.path)
        if named is None:
            return problem(404, "InvalidResourceType", "The resource type could not be found.")
        if re.fullmatch(r"\d{4}-\d\d-\d\d(-preview)?", request.query.get("api-version", "")) is None:
            text = "The api-version query parameter (?api-version=) is required for all requests."
            return problem(400, "MissingApiVersionParameter", text)
        path, subscription, group, name, credential = named.groups()
        if request.method != ("POST" if credential else "GET"):
            return problem(405, "HttpMethodNotSupported", "This method is not supported.")
        action = f"{KIND}/listClusterUserCredential/action" if credential else f"{KIND}/read"
        facts.update(oid=caller["oid"], action=action, cluster=path)
        if not self.may(caller["oid"], action, path):
            text = f"The client '{caller['app']}' with object id '{caller['oid']}' does not have authorization to"
            text = f"{text} perform action '{action}' over scope '{path}' or the scope is invalid."
            return problem(403, "AuthorizationFailed", text)
        return self.cluster(path, subscription, group, name, credential)

    def cluster(self, path, subscription, group, name, credential):
        wanted = (subscription.lower(), group.lower(), name.lower())
        for cluster in self.world.state["azure"].get("clusters", []):
            known = (cluster["subscription_id"], cluster["resource_group"], cluster["name"])
            if tuple(part.lower() for part in known) == wanted:
                if credential:
                    return Reply.json(200, self.kubeconfigs(cluster), "listClusterUserCredential")
                return Reply.json(200, describe(path, cluster), "managedClusters.get")
        text = f"The Resource '{KIND}/{name}' under resource group '{group}' was not found."
        return problem(404, "ResourceNotFound", text)

    def may(self, oid, action, path):
        for assignment in self.world.state["azure"].get("role_assignments", []):
            scope = assignment["scope"].lower().rstrip("/")
            inside = path.lower() == scope or path.lower().startswith(scope + "/")
            if assignment["principal_id"] == oid and inside and action in ROLES[assignment["role"]]:
                return True
        return False

    def kubeconfigs(self, cluster):
        server, authority = api_server.of(self.world, cluster)
        name = cluster["name"]
        user = f"clusterUser_{cluster['resource_group']}_{name}"
        config = {
            "apiVersion": "v1",
            "kind": "Config",
            "current-context": name,
            "clusters": [
                {
                    "name": name,
                    "cluster": {
                        "server": server,
                        "certificate-authority-data": base64.b64encode(authority.encode()).decode(),
                    },
                }
            ],
            "contexts": [{"name": name, "context": {"cluster": name, "user": user}}],
            "users": [{"name": user, "user": self.user(cluster)}],
        }
        value = base64.b64encode(json.dumps(config).encode()).decode()
        return {"kubeconfigs": [{"name": "clusterUser", "value": value}]}

    def user(self, cluster):
        """With Entra a plugin gets a token; without, the kubeconfig holds an administrator's certificate."""
        if cluster.get("entra", True):
            arguments = ["get-token", "--environment", "AzurePublicCloud", "--server-id", AKS_SERVER]
            version = "client.authentication.k8s.io/v1beta1"
            return {"exec": {"apiVersion": version, "command": "kubelogin", "args": arguments}}
        certificate, key = api_server.client_certificate(self.world, "masterclient", "system:masters")
        data = {"client-certificate-data": certificate, "client-key-data": key}
        return {name: base64.b64encode(pem).decode() for name, pem in data.items()}


def describe(path, cluster):
    private = bool(cluster.get("private"))
    return {
        "id": path,
        "name": cluster["name"],
        "type": KIND,
        "properties": {
            "provisioningState": "Succeeded",
            "powerState": {"code": cluster.get("power", "Running")},
            "apiServerAccessProfile": {"enablePrivateCluster": private},
            "aadProfile": {"managed": True} if cluster.get("entra", True) else None,
            "disableLocalAccounts": bool(cluster.get("entra", True)),
        },
    }


def problem(status, code, message):
    return Reply.json(status, {"error": {"code": code, "message": message}}, code)
