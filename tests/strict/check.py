"""Refuses a state that the clouds would refuse, or that is not implemented here."""

import re
from urllib.parse import urlsplit

from strict import cel
from strict.arm import ROLES as AZURE_ROLES
from strict.entra import MOST_CREDENTIALS
from strict.gcp_iam import ROLES as GCP_ROLES
from strict.policy import check_policy

SECTIONS = {"ports", "issuers", "front", "api_server", "aws", "gcp", "azure", "faults"}


def check_state(state):
    unknown = set(state) - SECTIONS
    if unknown:
        raise ValueError(f"{sorted(unknown)} is not known; known are {sorted(SECTIONS)}")
    for issuer in state.get("issuers", []):
        check_issuer(issuer["url"])
    check_aws(state.get("aws", {}))
    check_gcp(state.get("gcp", {}))
    check_azure(state.get("azure", {}))


def check_issuer(url):
    parts = urlsplit(url)
    if parts.scheme != "https" or parts.query or parts.fragment or url.endswith("/"):
        raise ValueError(f"the issuer {url} must be https, without query, fragment and slash at its end")


def check_aws(aws):
    for account_id, account in aws.get("accounts", {}).items():
        if re.fullmatch(r"\d{12}", str(account_id)) is None:
            raise ValueError(f"the account {account_id} is not 12 digits")
        for provider in account.get("oidc_providers", []):
            check_issuer(provider["url"])
        for role in account.get("roles", {}).values():
            check_policy(role["trust_policy"], trust=True)
            for policy in role.get("policies", []):
                check_policy(policy, trust=False)


def check_gcp(gcp):
    for provider in gcp.get("providers", []):
        check_issuer(provider["issuer"])
        audiences = provider.get("allowed_audiences", [])
        if len(audiences) > 10 or any(len(audience) > 256 for audience in audiences):
            raise ValueError("a provider has at most 10 audiences of at most 256 characters")
        mapping = provider.get("attribute_mapping", {"google.subject": "assertion.sub"})
        if "google.subject" not in mapping:
            raise ValueError("a provider must map google.subject")
        for expression in [*mapping.values(), provider.get("attribute_condition", "true")]:
            try:
                cel.parse(expression)
            except cel.CelFault as fault:
                raise ValueError(str(fault)) from None
    holders = [*gcp.get("service_accounts", {}).values(), *gcp.get("projects", {}).values()]
    for binding in (binding for holder in holders for binding in holder.get("bindings", [])):
        if binding["role"] not in GCP_ROLES:
            raise ValueError(f"the role {binding['role']} is not known here")


def check_azure(azure):
    for tenant in azure.get("tenants", {}).values():
        for client_id, application in tenant.get("applications", {}).items():
            check_credentials(client_id, application.get("federated_credentials", []))
    for assignment in azure.get("role_assignments", []):
        if assignment["role"] not in AZURE_ROLES:
            raise ValueError(f"the role {assignment['role']} is not known here")


def check_credentials(client_id, credentials):
    if len(credentials) > MOST_CREDENTIALS:
        raise ValueError(f"{client_id} has more than {MOST_CREDENTIALS} federated credentials")
    pairs = [(credential["issuer"], credential["subject"]) for credential in credentials]
    if len(set(pairs)) != len(pairs):
        raise ValueError(f"{client_id} has two federated credentials of one issuer and subject")
    for credential in credentials:
        check_issuer(credential["issuer"])
        if len(credential["audiences"]) != 1:
            raise ValueError("a federated credential has one audience")
        if any("*" in text for text in (credential["issuer"], credential["subject"])):
            raise ValueError("a federated credential has no wildcards")
