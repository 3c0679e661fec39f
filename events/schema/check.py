#!/usr/bin/env python3
"""Checks events, a JSON list on standard input, against the schemas of this folder.

    aws-python events/schema/check.py < list.json
"""

import json
import sys
from pathlib import Path

from jsonschema import Draft202012Validator

HERE = Path(__file__).resolve().parent


def validator(detail_type):
    names = {
        "deployment.rejected": "deployment-rejected",
        "schedule.destroy-announced": "schedule-destroy-announced",
    }
    name = names.get(detail_type, "deployment-event")
    schema = json.loads((HERE / f"{name}.json").read_text())
    Draft202012Validator.check_schema(schema)
    # Consumers ignore what they do not know; what is published must all be described.
    schema["additionalProperties"] = False
    return Draft202012Validator(schema)


faults = [
    f"{event['detail-type']}: {fault.json_path}: {fault.message}"
    for event in json.load(sys.stdin)
    for fault in validator(event["detail-type"]).iter_errors(event["detail"])
]
if faults:
    sys.exit("\n".join(faults))
