"""Prints a lock: the newest Debian packages for an image. Called by scripts/lock.

newest.py KIND ARCHITECTURE FOLDER, where the folder is one for apt to work in.
"""

import sys
from pathlib import Path

import rootfs
from debian import Debian, Unavailable

kind, architecture, folder = sys.argv[1:]
table = rootfs.read_table(Path(__file__).parent.parent / kind / "packages.txt")
try:
    packages = Debian(Path(folder), architecture).newest([name for name, *_ in table])
except Unavailable as problem:
    sys.exit(f"lock: {problem}")
for package in packages:
    print(package)
