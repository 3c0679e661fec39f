"""One layer of an image: a tar archive that depends only on its content."""

import gzip
import hashlib
import io
import json
import os
import tarfile
from pathlib import Path


class Layer:
    """Folders, files and links by their absolute path without the leading slash. All belong to root."""

    def __init__(self):
        self.entries = {}
        # The licences that Debian packages in it declare, by package.
        self.licences = {}

    def folder(self, path, mode=0o755):
        """Adds a folder."""
        self.entries[path] = (mode, None, None)

    def file(self, path, content, mode, component):
        """Adds a file of the software `component`, as the SBOM names it."""
        self.entries[path] = (mode, content, component)

    def link(self, path, target):
        """Adds a symbolic link."""
        self.entries[path] = (0o777, target, None)

    def files(self):
        """The files with their data for an SBOM."""
        return [
            {
                "path": path,
                "component": component,
                "sha1": hashlib.sha1(content).hexdigest(),
                "sha256": hashlib.sha256(content).hexdigest(),
                "binary": content.startswith(b"\x7fELF"),
            }
            for path, (_, content, component) in sorted(self.entries.items())
            if isinstance(content, bytes)
        ]

    def pack(self):
        """The archive. Of two files alike, the second is a hard link to the first."""
        packed = io.BytesIO()
        seen = {}
        with tarfile.open(fileobj=packed, mode="w", format=tarfile.USTAR_FORMAT) as archive:
            for path in sorted(self._with_parents()):
                mode, content, _ = self.entries.get(path, (0o755, None, None))
                header = tarfile.TarInfo(path)
                header.mode = mode
                if content is None:
                    header.type = tarfile.DIRTYPE
                elif isinstance(content, str):
                    header.type, header.linkname = tarfile.SYMTYPE, content
                elif content and (mode, content) in seen:
                    header.type, header.linkname = tarfile.LNKTYPE, seen[mode, content]
                else:
                    header.size = len(content)
                    seen[mode, content] = path
                archive.addfile(header, io.BytesIO(content) if header.isreg() else None)
        return packed.getvalue()

    def _with_parents(self):
        return {*self.entries} | {
            parent.as_posix() for path in self.entries for parent in Path(path).parents if parent != Path(".")
        }


class Store:
    """A cache of packed layers, by a key of their inputs."""

    def __init__(self, folder, anew):
        self.folder = folder
        self.anew = anew
        folder.mkdir(parents=True, exist_ok=True)

    def layer(self, key, make, level=6):
        """The description of the packed layer that `make` returns, from the cache if present."""
        description = self.folder / f"{key}.json"
        if self.anew or not description.exists():
            layer = make()
            plain = layer.pack()
            packed = gzip.compress(plain, level, mtime=0)
            digest = hashlib.sha256(packed).hexdigest()
            write(self.folder / digest, packed)
            # Written last: its presence means that the layer is complete.
            write(description, json.dumps({
                "diff_id": f"sha256:{hashlib.sha256(plain).hexdigest()}",
                "digest": f"sha256:{digest}",
                "size": len(packed),
                "unpacked": len(plain),
                "files": layer.files(),
                "licences": layer.licences,
            }).encode())
        description.touch()
        return json.loads(description.read_text())

    def blob(self, description):
        """A packed layer's bytes."""
        path = self.folder / description["digest"].removeprefix("sha256:")
        path.touch()
        return path.read_bytes()

    def forget(self, seconds, now):
        """Removes layers that were not used for this time."""
        for path in self.folder.iterdir():
            if now - path.stat().st_mtime > seconds:
                path.unlink(missing_ok=True)


def write(path, content):
    """Writes a file as a whole or not at all."""
    part = path.with_name(f"{path.name}.{os.getpid()}.part")
    part.write_bytes(content)
    part.replace(path)
