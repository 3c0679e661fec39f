"""The layer from Debian: the CA bundle, and for the runner the files that git, ssh and scripts need."""

import json
from pathlib import Path

import elf
import git_tree
import licences
from debian import Unavailable
from layer import Layer

BUNDLE = "etc/ssl/certs/ca-certificates.crt"
# The tree that a container job finds in a volume at this path: crates/runner/src/inject.rs describes it.
INJECTED = "canyon"


def own(kind):
    """The component that the files of an image's own folder belong to."""
    return f"canyon-{kind}-image"


def has_injected(kind):
    """Whether the image has the tree for container jobs. Agents start no such job in their own image."""
    return kind == "runner"


def read_table(path):
    """The words of each line, without comments."""
    lines = path.read_text().splitlines()
    return [line.split() for line in lines if line.strip() and not line.startswith("#")]


def build(debian, packages, folder):
    """The layer, from packages that were fetched and the tables in `folder`."""
    patterns = {name: globs for name, *globs in read_table(folder / "packages.txt")}
    layer = Layer()
    certificates = {}
    for package in packages:
        _add_package(layer, certificates, debian, package, patterns[package.name])
    bundle = b"".join(content for _, content in sorted(certificates.items()))
    layer.file(BUNDLE, bundle, 0o644, "ca-certificates")
    if has_injected(folder.name):
        # A hard link in the archive, because its content is the same.
        layer.file(f"{INJECTED}/bin/{Path(BUNDLE).name}", bundle, 0o644, "ca-certificates")
        for name in ("run", "work"):
            layer.folder(f"{INJECTED}/{name}", 0o1777)
    for source in sorted((folder / "etc").iterdir()):
        layer.file(f"etc/{source.name}", source.read_bytes(), 0o644, own(folder.name))
    # One tree below /usr, as on an installed Debian 12.
    for name in ("bin", "sbin", "lib", "lib64"):
        layer.folder(f"usr/{name}")
        layer.link(name, f"usr/{name}")
    if (applets := folder / "applets.txt").exists():
        for (applet,) in read_table(applets):
            layer.link(f"usr/bin/{applet}", "busybox")
    # For any user: a platform may choose the id.
    for path in ("tmp", json.loads((folder / "config.json").read_text())["WorkingDir"].strip("/")):
        layer.folder(path, 0o1777)
    for path in ("dev", "proc", "sys", "root"):
        layer.folder(path)
    if has_injected(folder.name):
        git_tree.add(layer)
    _check(layer, debian.architecture)
    return layer


def _add_package(layer, certificates, debian, package, patterns):
    copyright_file = f"usr/share/doc/{package.name}/copyright"
    for path, mode, content in debian.members(package, [*patterns, copyright_file, f"usr/share/doc/{package.name}"]):
        if path.endswith(".crt"):
            certificates[path] = content if content.endswith(b"\n") else content + b"\n"
            continue
        if path.split("/")[0] in ("bin", "sbin", "lib", "lib64"):
            path = f"usr/{path}"
        if isinstance(content, str):
            layer.link(path, content)
        else:
            layer.file(path, content, mode, package.name)
    status = f"var/lib/dpkg/status.d/{package.name}"
    layer.file(status, debian.control(package).encode(), 0o644, package.name)
    _, copyright_text, _ = layer.entries.get(copyright_file, (None, b"", None))
    layer.licences[package.name] = licences.declared(copyright_file, copyright_text)


def _check(layer, architecture):
    """Checks that each program is for this architecture, and finds its libraries."""
    names = {path.rsplit("/", 1)[-1] for path in layer.entries}
    for path, (_, content, _) in layer.entries.items():
        if not isinstance(content, bytes) or not content.startswith(b"\x7fELF"):
            continue
        if elf.machine(content) != elf.MACHINES[architecture]:
            raise Unavailable(f"{path} is not for {architecture}")
        if missing := [name for name in elf.needed(content) if name not in names]:
            raise Unavailable(f"{path} needs {', '.join(missing)}; add the package to packages.txt")
