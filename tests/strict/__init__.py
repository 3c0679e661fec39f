"""Strict stand-ins for the control planes of the clouds.

A second implementation of the checks that AWS, Google Cloud and Azure make before they give Canyon access. It shares
no code with Canyon: PyJWT verifies tokens with the discovery document and keys that it fetches.
"""
