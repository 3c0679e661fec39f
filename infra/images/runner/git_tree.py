"""A copy of git that runs in any image: with its loader and its libraries, at a fixed path.

A container job runs in an image of its author, which may have neither git nor a C library. The launcher mounts this tree there
(launcher/dispatch), and the runner starts the programs with `LD_LIBRARY_PATH` (crates/runner/src/source/git_program.rs). Their files
name a loader by an absolute path, so the copies name the one in the tree.
"""

import elf
from debian import Unavailable

TREE = "canyon-git"
# The shortest path, because it must fit in the place of the original.
_LOADER = f"{TREE}/ld.so"
# Their names in the tree, by their paths in the image.
_PROGRAMS = {"usr/bin/git": "git", "usr/lib/git-core/git-remote-http": "git-remote-http"}
_LINKS = {"git-remote-https": "git-remote-http"}


def add(layer):
    """Adds the tree, from the files of the layer."""
    components = {}
    todo = []
    for path, name in _PROGRAMS.items():
        content, component = _file(layer, path)
        original = elf.loader(content)
        layer.file(f"{TREE}/bin/{name}", elf.with_loader(content, f"/{_LOADER}"), 0o755, component)
        todo += [*elf.needed(content), original.rsplit("/", 1)[-1]]
    for name, target in _LINKS.items():
        layer.link(f"{TREE}/bin/{name}", target)
    while todo:
        name = todo.pop()
        if name not in components:
            content, components[name] = _library(layer, name)
            layer.file(f"{TREE}/lib/{name}", content, 0o755, components[name])
            todo += elf.needed(content)
    name = original.rsplit("/", 1)[-1]
    content, component = _library(layer, name)
    layer.file(_LOADER, content, 0o755, component)


def _library(layer, name):
    paths = [path for path in layer.entries if path.rsplit("/", 1)[-1] == name and not path.startswith(TREE)]
    for path in paths:
        try:
            return _file(layer, path)
        except Unavailable:
            continue
    raise Unavailable(f"{name} is not in the image; add its package to packages.txt")


def _file(layer, path, depth=8):
    """Content and component of a file, through links."""
    _, content, component = layer.entries.get(path, (None, None, None))
    if isinstance(content, bytes):
        return content, component
    if isinstance(content, str) and depth:
        folder = path.rsplit("/", 1)[0]
        target = content.lstrip("/") if content.startswith("/") else _joined(folder, content)
        if target.split("/")[0] in ("bin", "sbin", "lib", "lib64"):
            target = f"usr/{target}"
        return _file(layer, target, depth - 1)
    raise Unavailable(f"{path} is not in the image")


def _joined(folder, target):
    parts = folder.split("/")
    for part in target.split("/"):
        if part == "..":
            parts.pop()
        elif part != ".":
            parts.append(part)
    return "/".join(parts)
