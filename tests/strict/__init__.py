"""Strict stand-ins for the control planes of the clouds.

A second implementation of what AWS, Google Cloud and Azure check before they let Canyon in. It shares no
code with Canyon: tokens are verified by PyJWT against the discovery document and keys that it fetches.
"""
