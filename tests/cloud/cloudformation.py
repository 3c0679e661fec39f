#!/usr/bin/env python3
"""CloudFormation in front of moto: adds what `sam` and `aws` need and moto does not do. Every call to another service
goes to moto unchanged.

    aws-python tests/cloud/cloudformation.py --moto http://127.0.0.1:5000 [--port 0]

* It translates a SAM template with AWS's own translator, as CloudFormation does on its side.
* It refuses a template with named roles to a caller that does not acknowledge them (CAPABILITY_NAMED_IAM).
* It resolves the template, because moto has no support for API Gateway v2 and for some other kinds of resources.
* It keeps what `RetainExceptOnCreate` retains; moto knows `Retain` alone.
* It answers with the outputs, tags and template of the stack; moto loses some of them after a change set.

It prints `listening on URL` once it answers.
"""

import argparse
import hashlib
import http.client
import http.server
import json
import sys
import threading
import urllib.parse
import warnings
from xml.sax.saxutils import escape

import boto3
from samtranslator.parser.parser import Parser
from samtranslator.translator.translator import Translator
from samtranslator.yaml_helper import yaml_parse

from stack import API_ID, Template, name_integrations

NAMESPACE = "http://cloudformation.amazonaws.com/doc/2010-05-15/"
HOP = {"connection", "content-length", "date", "server", "transfer-encoding"}
# Resources that moto does not create from a template. The tests read these from the template
# itself.
NOT_IN_MOTO = ("AWS::ApiGatewayV2::",)


class Refused(Exception):
    """A refusal by CloudFormation: code and message."""


def members(form, name):
    """A list of the query protocol: strings, or structures as dictionaries."""
    found = {}
    for key, value in form.items():
        if key.startswith(f"{name}.member."):
            number, _, field = key.removeprefix(f"{name}.member.").partition(".")
            if field:
                found.setdefault(int(number), {})[field] = value
            else:
                found[int(number)] = value
    return [found[number] for number in sorted(found)]


def replaced(resource):
    """On AWS a mapping to another stream is another mapping; moto would keep the old stream. Under a name of its own moto
    creates the new mapping and removes the old one, as CloudFormation does."""
    if resource["Type"] != "AWS::Lambda::EventSourceMapping":
        return ""
    source = json.dumps(resource["Properties"]["EventSourceArn"], sort_keys=True)
    return hashlib.sha256(source.encode()).hexdigest()[:8]


class CloudFormation:
    """Facts about the stacks that moto does not store, by their names."""

    def __init__(self, moto, account="123456789012"):
        self.moto, self.account = moto, account
        self.lock = threading.Lock()
        self.values, self.sources, self.bodies = {}, {}, {}

    def client(self, service, region):
        return boto3.Session("test", "test", region_name=region).client(service, endpoint_url=self.moto)

    def template(self, form, region):
        if "TemplateURL" not in form:
            return form["TemplateBody"]
        bucket, key = urllib.parse.urlparse(form.pop("TemplateURL")).path.lstrip("/").split("/", 1)
        return self.client("s3", region).get_object(Bucket=bucket, Key=key)["Body"].read().decode()

    def prepare(self, form, region):
        """Replaces the call's template with one that moto can create."""
        name = form["StackName"]
        source = self.template(form, region)
        written = yaml_parse(source)
        roles = [r for r in written["Resources"].values() if r["Type"] == "AWS::IAM::Role"]
        named = any("RoleName" in role.get("Properties", {}) for role in roles)
        if named and "CAPABILITY_NAMED_IAM" not in members(form, "Capabilities"):
            raise Refused("InsufficientCapabilitiesException", "Requires capabilities : [CAPABILITY_NAMED_IAM]")
        if "Transform" in written:
            session = boto3.Session("test", "test", region_name=region)
            written = Translator({}, Parser(), boto_session=session).translate(written, {})
        values = dict(self.values.get(name, {}))
        given = {}
        for parameter in members(form, "Parameters"):
            key = parameter["ParameterKey"]
            previous = parameter.get("UsePreviousValue") == "true"
            given[key] = values.get(key) if previous else parameter.get("ParameterValue", "")
        body = self.resolved(written, {k: v for k, v in given.items() if v is not None}, name, region)
        self.values[name], self.sources[name] = given, source
        self.bodies[name] = {"TemplateBody": json.dumps(body), "Tags": members(form, "Tags")}
        for key in [key for key in form if key.startswith("Parameters.")]:
            del form[key]
        form["TemplateBody"] = self.bodies[name]["TemplateBody"]

    def resolved(self, written, given, name, region):
        pseudo = {
            "AWS::AccountId": self.account, "AWS::NoValue": None, "AWS::Partition": "aws",
            "AWS::Region": region, "AWS::StackName": name, "AWS::URLSuffix": "amazonaws.com",
        }
        try:
            template = Template(written, given, pseudo)
        except SystemExit as error:
            raise Refused("ValidationError", str(error)) from error
        template.references[("HttpApi", None)] = API_ID
        template.references[("HttpApi", "ApiEndpoint")] = f"https://{API_ID}.execute-api.{region}.amazonaws.com"
        name_integrations(template)
        if "EventBus" in written["Resources"]:
            # moto does not resolve a reference to a bus.
            bus = written["Resources"]["EventBus"]["Properties"]["Name"]
            template.references[("EventBus", None)] = template.resolve(bus)
        resources = {}
        for logical, resource in template.resources().items():
            if not resource["Type"].startswith(NOT_IN_MOTO):
                if resource.get("DeletionPolicy") == "RetainExceptOnCreate":
                    resource["DeletionPolicy"] = "Retain"
                resources[logical + replaced(resource)] = resource
        outputs = template.resolve(written.get("Outputs", {}))
        return {"Resources": resources, "Outputs": outputs}

    def get_template(self, form):
        """The template as the caller gave it; moto has only the resolved one."""
        name = form["StackName"].split("/")[1] if form["StackName"].startswith("arn:") else form["StackName"]
        if name not in self.sources:
            return None
        return (f'<GetTemplateResponse xmlns="{NAMESPACE}"><GetTemplateResult><TemplateBody>'
                f"{escape(self.sources[name])}</TemplateBody><StagesAvailable><member>Original</member>"
                "</StagesAvailable></GetTemplateResult></GetTemplateResponse>").encode()

    def settle(self, form, region):
        """After a change set moto lacks new outputs and tags: an update to the same template adds both."""
        name = form["StackName"]
        self.client("cloudformation", region).update_stack(
            StackName=name, Capabilities=["CAPABILITY_NAMED_IAM"], **self.bodies[name])


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    cloudformation = None

    def respond(self):
        body = self.read_body()
        scope = self.headers.get("Authorization", "").partition("Credential=")[2].split("/")
        try:
            if len(scope) > 4 and scope[3] == "cloudformation":
                self.of_cloudformation(body, scope[2])
            else:
                self.answer(*self.forward(body))
        except Refused as refused:
            code, message = refused.args
            text = (f'<ErrorResponse xmlns="{NAMESPACE}"><Error><Type>Sender</Type><Code>{code}</Code><Message>'
                    f"{escape(message)}</Message></Error><RequestId>0</RequestId></ErrorResponse>")
            self.answer(400, [("Content-Type", "text/xml")], text.encode())

    def of_cloudformation(self, body, region):
        form = dict(urllib.parse.parse_qsl(body.decode(), keep_blank_values=True))
        action = form["Action"]
        with self.cloudformation.lock:
            if action in ("CreateChangeSet", "CreateStack", "UpdateStack"):
                self.cloudformation.prepare(form, region)
                body = urllib.parse.urlencode(form).encode()
            if action == "GetTemplate":
                found = self.cloudformation.get_template(form)
                if found:
                    return self.answer(200, [("Content-Type", "text/xml")], found)
            status, headers, said = self.forward(body)
            if action == "ExecuteChangeSet" and status == 200:
                self.cloudformation.settle(form, region)
        self.answer(status, headers, said)

    def read_body(self):
        if self.headers.get("Transfer-Encoding", "").lower() != "chunked":
            return self.rfile.read(int(self.headers.get("Content-Length") or 0))
        body = b""
        while length := int(self.rfile.readline().split(b";")[0], 16):
            body += self.rfile.read(length)
            self.rfile.readline()
        self.rfile.readline()
        return body

    def forward(self, body):
        upstream = urllib.parse.urlparse(self.cloudformation.moto)
        connection = http.client.HTTPConnection(upstream.hostname, upstream.port)
        headers = {name: value for name, value in self.headers.items() if name.lower() not in HOP}
        connection.request(self.command, self.path, body, {**headers, "Content-Length": str(len(body))})
        response = connection.getresponse()
        said = response.read()
        connection.close()
        return response.status, response.getheaders(), said

    def answer(self, status, headers, body):
        self.send_response(status)
        for name, value in headers:
            if name.lower() not in HOP:
                self.send_header(name, value)
        # The answer to HEAD has the length of the body that it does not send.
        length = dict((n.lower(), v) for n, v in headers).get("content-length") if self.command == "HEAD" else None
        self.send_header("Content-Length", length or str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    do_DELETE = do_GET = do_HEAD = do_PATCH = do_POST = do_PUT = respond

    def log_message(self, *_):
        pass


def main():
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--moto", required=True, help="where moto listens")
    options.add_argument("--port", type=int, default=0)
    options = options.parse_args()
    warnings.simplefilter("ignore")
    Handler.cloudformation = CloudFormation(options.moto)
    server = http.server.ThreadingHTTPServer(("127.0.0.1", options.port), Handler)
    print(f"listening on http://127.0.0.1:{server.server_address[1]}", flush=True)
    server.serve_forever()


if __name__ == "__main__":
    sys.exit(main())
