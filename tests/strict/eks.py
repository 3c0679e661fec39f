"""Amazon EKS: DescribeCluster, for roles with a policy that allows it."""

import base64
import re
from urllib.parse import unquote

from strict import api_server, policy, sigv4
from strict.serving import Reply

CLUSTER = re.compile(r"/clusters/([^/]+)")


class Eks:
    name = "aws_eks"

    def __init__(self, world):
        self.world = world

    def answer(self, request, facts):
        named = CLUSTER.fullmatch(request.path)
        if request.method != "GET" or named is None:
            return problem(404, "UnknownOperationException", "no such operation")
        try:
            session, region = sigv4.verify_header(self.world, request, "eks")
        except sigv4.SignatureFault as fault:
            return problem(403, fault.code, fault.message)
        name = unquote(named.group(1))
        arn = f"arn:{session['partition']}:eks:{region}:{session['account']}:cluster/{name}"
        facts.update(role_arn=session["role_arn"], cluster=arn)
        accounts = self.world.state["aws"]["accounts"]
        policies = accounts[session["account"]]["roles"].get(session["role"], {}).get("policies", [])
        if not policy.allows(policies, "eks:DescribeCluster", arn, {"aws:RequestedRegion": region}):
            text = f"User: {session['arn']} is not authorized to perform: eks:DescribeCluster on resource: {arn}"
            return problem(403, "AccessDeniedException", text)
        for cluster in self.world.state["aws"].get("clusters", []):
            if (cluster["account"], cluster["region"], cluster["name"]) == (session["account"], region, name):
                return Reply.json(200, {"cluster": self.describe(arn, cluster)}, "DescribeCluster")
        return problem(404, "ResourceNotFoundException", f"No cluster found for name: {name}.")

    def describe(self, arn, cluster):
        server, authority = api_server.of(self.world, cluster)
        private = bool(cluster.get("private"))
        return {
            "name": cluster["name"],
            "arn": arn,
            "status": cluster.get("status", "ACTIVE"),
            "version": "1.34",
            "endpoint": server,
            "certificateAuthority": {"data": base64.b64encode(authority.encode()).decode()},
            "resourcesVpcConfig": {
                "endpointPublicAccess": not private,
                "endpointPrivateAccess": private,
                "publicAccessCidrs": [] if private else ["0.0.0.0/0"],
            },
            "accessConfig": {"authenticationMode": "API"},
        }


def problem(status, code, message):
    return Reply.json(status, {"message": message}, code, **{"x-amzn-ErrorType": code})
