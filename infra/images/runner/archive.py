"""An image as one file for `docker load`, `ctr images import` and tools for OCI layouts."""

import hashlib
import io
import json
import tarfile

_MANIFEST = "application/vnd.oci.image.manifest.v1+json"
_CONFIG = "application/vnd.oci.image.config.v1+json"
_LAYER = "application/vnd.oci.image.layer.v1.tar+gzip"


def config(container, layers, architecture, created):
    """The image's configuration: its digest is the image's id, independent of the layers' compression."""
    return _bytes({
        "architecture": architecture,
        "os": "linux",
        "created": created,
        "config": container,
        "rootfs": {"type": "layers", "diff_ids": [layer["diff_id"] for _, layer in layers]},
        "history": [{"created": created, "created_by": f"scripts/image: {name}"} for name, layer in layers],
    })


def pack(configuration, layers, blob, name):
    """The archive of an image called `name`. Returns it with the digests of configuration and manifest."""
    blobs = {_digest(configuration): configuration}
    for _, layer in layers:
        blobs[layer["digest"]] = blob(layer)
    manifest = _bytes({
        "schemaVersion": 2,
        "mediaType": _MANIFEST,
        "config": _descriptor(_CONFIG, configuration),
        "layers": [{"mediaType": _LAYER, "digest": layer["digest"], "size": layer["size"]} for _, layer in layers],
    })
    blobs[_digest(manifest)] = manifest
    index = {
        "schemaVersion": 2,
        "manifests": [{
            **_descriptor(_MANIFEST, manifest),
            "annotations": {
                # The first for containerd, which needs the whole name, the second for all other tools.
                "io.containerd.image.name": name,
                "org.opencontainers.image.ref.name": name.rsplit(":", 1)[-1],
            },
        }],
    }
    # Docker's own description of the same blobs.
    docker = [{
        "Config": _path(_digest(configuration)),
        "RepoTags": [name],
        "Layers": [_path(layer["digest"]) for _, layer in layers],
    }]
    files = {
        "oci-layout": _bytes({"imageLayoutVersion": "1.0.0"}),
        "index.json": _bytes(index),
        "manifest.json": _bytes(docker),
        **{_path(digest): content for digest, content in blobs.items()},
    }
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w", format=tarfile.USTAR_FORMAT) as archive:
        for path, content in sorted(files.items()):
            header = tarfile.TarInfo(path)
            header.size = len(content)
            archive.addfile(header, io.BytesIO(content))
    return packed.getvalue(), _digest(configuration), _digest(manifest)


def _bytes(value):
    return json.dumps(value, sort_keys=True, separators=(",", ":")).encode()


def _digest(content):
    return f"sha256:{hashlib.sha256(content).hexdigest()}"


def _path(digest):
    return f"blobs/{digest.replace(':', '/')}"


def _descriptor(kind, content):
    return {"mediaType": kind, "digest": _digest(content), "size": len(content)}
