"""Debian packages of the machine's package sources: their versions and their files.

Nothing is installed. apt works in a folder of its own, so it needs no root, fetches for another architecture too, and
checks signatures and sums as always.
"""

import fnmatch
import hashlib
import io
import os
import re
import subprocess
import tarfile
import time
import urllib.parse
from dataclasses import dataclass
from pathlib import Path

# Maximum age of apt's lists.
LISTS_SECONDS = 24 * 3600


class Unavailable(Exception):
    """A package is not available; the text names it and a remedy."""


@dataclass(frozen=True)
class Package:
    """One package in one version. As a line of text it is a line of a lock file."""

    name: str
    version: str
    architecture: str
    sha256: str

    def __str__(self):
        return f"{self.name} {self.version} {self.architecture} {self.sha256}"


def read_lock(text):
    """The packages of a lock file."""
    lines = [line.split() for line in text.splitlines() if line.strip()]
    for words in lines:
        if len(words) != 4:
            raise Unavailable(f"not a package, version, architecture and sum, as a line of a lock must be: {' '.join(words)}")
    return [Package(*words) for words in lines]


class Debian:
    """Packages for one architecture, kept in `folder`."""

    def __init__(self, folder, architecture):
        self.architecture = architecture
        self.debs = folder / "debs"
        self.apt = folder / f"apt-{architecture}"
        # Whether this process has fetched the sources' lists.
        self.asked = False
        for path in (self.debs, self.apt / "state/lists/partial", self.apt / "cache/archives/partial"):
            path.mkdir(parents=True, exist_ok=True)
        # An empty status: this apt knows of no installed package.
        (self.apt / "status").touch()

    def _apt(self, *arguments, program="apt-get"):
        settings = {
            "APT::Architecture": self.architecture,
            "APT::Architectures": self.architecture,
            "APT::Sandbox::User": "",
            "Acquire::Languages": "none",
            "Acquire::Retries": "3",
            "Dir::State": self.apt / "state",
            "Dir::State::status": self.apt / "status",
            "Dir::Cache": self.apt / "cache",
        }
        options = [part for name, value in settings.items() for part in ("-o", f"{name}={value}")]
        done = subprocess.run(
            [program, "-qq", *options, *arguments],
            cwd=self.debs, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False,
            env={**os.environ, "LC_ALL": "C"},
        )
        if done.returncode:
            raise Unavailable(f"{program} {arguments[0]} failed:\n{done.stderr.strip()}")
        return done.stdout

    def _refresh(self, now):
        stamp = self.apt / "updated"
        if now or not stamp.exists() or time.time() - stamp.stat().st_mtime > LISTS_SECONDS:
            self._apt("update")
            stamp.touch()
            self.asked = True

    def newest(self, names, refresh=False):
        """The newest version of each package that the sources offer."""
        self._refresh(refresh)
        # apt takes a second to answer, so the answer is cached for as long as its lists.
        question = hashlib.sha256(" ".join(names).encode()).hexdigest()
        answer = self.apt / f"newest-{question}"
        if not answer.exists() or answer.stat().st_mtime < (self.apt / "updated").stat().st_mtime:
            found = self._look(names)
            answer.write_text("".join(f"{found[name]}\n" for name in sorted(names)))
        return read_lock(answer.read_text())

    def _look(self, names):
        offers = self._apt("download", "--print-uris", *names)
        found = {}
        for file_name, sha256 in re.findall(r"^'\S+' (\S+) \d+ SHA256:(\w+)$", offers, re.MULTILINE):
            name, version, architecture = urllib.parse.unquote(file_name.removesuffix(".deb")).split("_")
            found[name] = Package(name, version, architecture, sha256)
        if missing := sorted(set(names) - set(found)):
            raise Unavailable(f"the machine's package sources have no {', '.join(missing)}; are they Debian 12's?")
        return found

    def vanished(self, packages):
        """Those of the packages that no source offers in their version, and that no earlier build has fetched."""
        wanted = [package for package in packages if not self.path(package).exists()]
        if not wanted:
            return []
        self._refresh(False)
        gone = self._not_offered(wanted)
        if gone and not self.asked:
            # The lists may be older than the lock.
            self._refresh(True)
            gone = self._not_offered(wanted)
        return gone

    def _not_offered(self, packages):
        lines = self._apt("madison", *(package.name for package in packages), program="apt-cache").splitlines()
        offered = {tuple(word.strip() for word in line.split("|")[:2]) for line in lines}
        return [package for package in packages if (package.name, package.version) not in offered]

    def path(self, package):
        """The path of a fetched package."""
        return self.debs / f"{package.sha256}.deb"

    def fetch(self, packages):
        """Fetches the packages to their paths, with exactly these checksums."""
        wanted = [package for package in packages if not self.path(package).exists()]
        if not wanted:
            return
        self._refresh(False)
        self._apt("download", *(f"{package.name}={package.version}" for package in wanted))
        for package in wanted:
            version = package.version.replace(":", "%3a")
            file = self.debs / f"{package.name}_{version}_{package.architecture}.deb"
            digest = hashlib.sha256(file.read_bytes()).hexdigest()
            if digest != package.sha256:
                file.unlink()
                raise Unavailable(f"{package.name} {package.version} has the sum {digest}, not {package.sha256}")
            file.rename(self.path(package))

    def control(self, package):
        """The package's description of itself, as dpkg keeps it."""
        return subprocess.check_output(["dpkg-deb", "--field", self.path(package)], text=True)

    def members(self, package, patterns):
        """The package's files and links that match: path, mode, content or link."""
        packed = subprocess.check_output(["dpkg-deb", "--fsys-tarfile", self.path(package)])
        unmatched = set(patterns)
        with tarfile.open(fileobj=io.BytesIO(packed)) as archive:
            for member in archive:
                path = member.name.removeprefix("./")
                hits = {pattern for pattern in patterns if fnmatch.fnmatchcase(path, pattern)}
                if not hits or member.isdir():
                    continue
                unmatched -= hits
                if member.issym():
                    yield path, 0o777, member.linkname
                else:
                    yield path, member.mode & 0o755, archive.extractfile(member).read()
        # A pattern may be for another architecture only.
        if len(unmatched) == len(patterns):
            raise Unavailable(f"{package.name} {package.version} has none of {', '.join(patterns)}")
