"""Assembles the image of the runner or of the agent. Called by scripts/image, which builds its programs."""

import argparse
import hashlib
import json
import sys
import time
from datetime import datetime, timezone
from pathlib import Path

import archive
import elf
import rootfs
import sbom
from debian import Debian, Unavailable, read_lock
from layer import Layer, Store, write

CODE = Path(__file__).parent
# Cached layers that were not used for this time are removed.
KEEP_SECONDS = 14 * 24 * 3600


def options():
    parser = argparse.ArgumentParser()
    for name in ("program", "store", "name", "output", "version", "crates"):
        parser.add_argument(f"--{name}", required=True)
    # The image's tables and files are in the folder of this name.
    parser.add_argument("--kind", required=True, choices=("runner", "agent"))
    parser.add_argument("--tofu", type=Path)
    parser.add_argument("--architecture", required=True, choices=("amd64", "arm64"))
    parser.add_argument("--epoch", required=True, type=int)
    parser.add_argument("--revision", default="")
    parser.add_argument("--locked", type=Path)
    parser.add_argument("--newest", action="store_true")
    parser.add_argument("--replace-vanished", action="store_true")
    parser.add_argument("--refresh", action="store_true")
    parser.add_argument("--anew", action="store_true")
    parser.add_argument("--fast", action="store_true")
    return parser.parse_args()


def main():
    given = options()
    store = Path(given.store)
    created = datetime.fromtimestamp(given.epoch, timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")
    packages = debian_packages(given, store)
    for program in filter(None, (given.tofu, given.program)):
        if elf.machine(Path(program).read_bytes()) != elf.MACHINES[given.architecture]:
            raise Unavailable(f"{program} is not for {given.architecture}")
    layers = Store(store / "layers", given.anew)
    system = layers.layer(*debian_layer(given, store, packages))
    parts = [("packages of Debian", system)]
    if given.tofu:
        parts.append(("OpenTofu", layers.layer(*program_layer(given.tofu, "usr/bin/tofu", "opentofu"))))

    own = f"canyon-{given.kind}"
    top = Layer()
    program = Path(given.program).read_bytes()
    top.file(f"usr/bin/{own}", program, 0o755, own)
    if rootfs.has_injected(given.kind):
        # A hard link in the archive. A symbolic one would not do: Kubernetes jobs of modules mount their work folder at
        # this path.
        top.file(f"{rootfs.INJECTED}/bin/{own}", program, 0o755, own)
    lock = "".join(f"{package}\n" for package in packages).encode()
    top.file(f"{sbom.folder(given.kind)}/packages.lock", lock, 0o644, rootfs.own(given.kind))
    files = [file for _, part in parts for file in part["files"]]
    document = sbom.document(given, created, packages, system["licences"], [*files, *top.files()])
    top.file(f"{sbom.folder(given.kind)}/sbom.spdx.json", document, 0o644, rootfs.own(given.kind))
    key = hashlib.sha256(top.pack()).hexdigest()
    last = layers.layer(f"own-{key}-{given.fast}", lambda: top, level=1 if given.fast else 6)

    parts.append((f"{own} and the SBOM", last))
    configuration = archive.config(container(given), parts, given.architecture, created)
    image, image_id, manifest = archive.pack(configuration, parts, layers.blob, given.name)
    output = Path(given.output)
    write(output, image)
    write(output.with_suffix(".spdx.json"), document)
    layers.forget(KEEP_SECONDS, time.time())
    for name, part in parts:
        print(f"image: {part['unpacked']:>11,} bytes, packed {part['size']:>10,}: {name}")
    print(f"image: id {image_id}")
    print(f"image: manifest {manifest}")
    print(f"image: {given.name} is in {output}, {len(image):,} bytes")


def folder(given):
    """The folder with the tables of the image."""
    return CODE.parent / given.kind


def debian_packages(given, store):
    """The packages: those of a lock, or the newest ones. Differences to the lock are printed."""
    debian = Debian(store, given.architecture)
    names = [name for name, *_ in rootfs.read_table(folder(given) / "packages.txt")]
    lock = given.locked or folder(given) / f"packages.{given.architecture}.lock"
    packages = read_lock(lock.read_text())
    if sorted(package.name for package in packages) != sorted(names):
        raise Unavailable(f"{lock} does not name the packages of packages.txt; renew it with scripts/lock debian")
    newest = newest_packages(debian, names, given)
    if given.newest:
        chosen = [newest[package.name] for package in packages]
    elif gone := debian.vanished(packages):
        chosen = replaced(debian, packages, gone, lock, given.replace_vanished)
    else:
        chosen = packages
    report(packages, chosen, newest, lock)
    debian.fetch(chosen)
    return chosen


def newest_packages(debian, names, given):
    """Debian's current versions by name; only for comparison, unless the options take them."""
    if given.locked and not given.newest:
        return {}
    try:
        return {package.name: package for package in debian.newest(names, given.refresh)}
    except Unavailable as problem:
        if given.newest:
            raise
        print(f"image: it is not known whether Debian has newer packages than the lock: {problem}")
        return {}


def replaced(debian, packages, gone, lock, allowed):
    """The packages; if the options allow it, the newest ones replace those that mirrors have dropped."""
    newest = {package.name: package for package in debian.newest([package.name for package in packages])}
    if not allowed:
        names = ", ".join(f"{p.name} {p.version} (they have {newest[p.name].version})" for p in gone)
        raise Unavailable(
            f"the machine's package sources no longer have what {lock.name} names: {names}. Take the newest in place of"
            " these with --replace-vanished, or of all packages with --newest; or point the sources to Debian's snapshot"
            " archive for the same image as before. A maintainer of Canyon renews the lock: scripts/lock debian"
        )
    return [newest[package.name] if package in gone else package for package in packages]


def report(packages, chosen, newest, lock):
    """Prints where the image differs from the lock, and where the lock differs from what Debian has now."""
    for locked, taken in zip(packages, chosen):
        if taken != locked:
            print(f"image: {locked.name} {taken.version} is taken, not {locked.version} of {lock.name}")
        elif (now := newest.get(locked.name, locked)) != locked:
            print(f"image: {locked.name} {locked.version} is locked; Debian has {now.version}: scripts/lock debian")


def debian_layer(given, store, packages):
    """A key that depends on the layer's inputs, and a function that builds it."""
    made_from = hashlib.sha256("".join(f"{package}\n" for package in packages).encode())
    own = folder(given)
    for path in sorted([*CODE.glob("*.py"), *own.glob("*.txt"), *own.glob("*.json"), *own.glob("etc/*")]):
        made_from.update(f"{path.relative_to(CODE.parent)}\n".encode() + path.read_bytes())
    debian = Debian(store, given.architecture)
    return f"debian-{made_from.hexdigest()}", lambda: rootfs.build(debian, packages, own)


def program_layer(file, path, component):
    """A layer with one program in it."""
    content = file.read_bytes()

    def make():
        layer = Layer()
        layer.file(path, content, 0o755, component)
        return layer

    return f"{component}-{hashlib.sha256(content).hexdigest()}", make


def container(given):
    """The configuration with which a container starts."""
    settings = json.loads((folder(given) / "config.json").read_text())
    settings["Labels"]["org.opencontainers.image.version"] = given.version
    if given.revision:
        settings["Labels"]["org.opencontainers.image.revision"] = given.revision
    return settings


if __name__ == "__main__":
    try:
        main()
    except Unavailable as problem:
        sys.exit(f"image: {problem}")
