"""The bill of materials of the image, as SPDX 2.3: each package, Go module and crate in it, and each file."""

import hashlib
import json
import re
import subprocess
from pathlib import Path

from rootfs import own


def folder(kind):
    """Its folder in the image."""
    return f"usr/share/doc/canyon-{kind}"


class Bill:
    """The components and files collected so far."""

    def __init__(self, kind):
        self.kind = kind
        self.packages = {}
        self.files = []
        self.relationships = []
        self.extracted = {}

    def add(self, key, name, version, licence, purl, parent, comment=None):
        """One component; `parent` is the one that it is a part of."""
        entry = {
            "SPDXID": spdx_id("Package", key),
            "name": name,
            "versionInfo": version,
            "downloadLocation": "NOASSERTION",
            "filesAnalyzed": False,
            "licenseConcluded": "NOASSERTION",
            "licenseDeclared": licence,
            "copyrightText": "NOASSERTION",
        }
        if purl:
            entry["externalRefs"] = [{
                "referenceCategory": "PACKAGE-MANAGER", "referenceType": "purl", "referenceLocator": purl,
            }]
        if comment:
            entry["licenseComments"] = comment
        self.packages[key] = entry
        self.relate(spdx_id("Package", parent) if parent else "SPDXRef-DOCUMENT",
                    "CONTAINS" if parent else "DESCRIBES", entry["SPDXID"])

    def relate(self, one, how, other):
        self.relationships.append(
            {"spdxElementId": one, "relationshipType": how, "relatedSpdxElement": other})

    def add_files(self, files):
        """The files, each as a part of its component."""
        sums = {}
        for file in files:
            identity = spdx_id("File", file["path"])
            self.files.append({
                "SPDXID": identity,
                "fileName": f"./{file['path']}",
                "fileTypes": ["BINARY"] if file["binary"] else ["OTHER"],
                "checksums": [
                    {"algorithm": "SHA1", "checksumValue": file["sha1"]},
                    {"algorithm": "SHA256", "checksumValue": file["sha256"]},
                ],
                "licenseConcluded": "NOASSERTION",
                "licenseInfoInFiles": ["NOASSERTION"],
                "copyrightText": "NOASSERTION",
            })
            self.relate(self.packages[file["component"]]["SPDXID"], "CONTAINS", identity)
            sums.setdefault(file["component"], []).append(file["sha1"])
        for component, found in sums.items():
            code = hashlib.sha1("".join(sorted(found)).encode()).hexdigest()
            self.packages[component]["filesAnalyzed"] = True
            self.packages[component]["packageVerificationCode"] = {"packageVerificationCodeValue": code}
        code = self.packages[own(self.kind)]["packageVerificationCode"]
        code["packageVerificationCodeExcludedFiles"] = [f"./{folder(self.kind)}/sbom.spdx.json"]


def spdx_id(kind, text):
    """An identifier: the text as far as it may stand in one, and a piece of its digest where it may not."""
    plain = re.sub(r"[^A-Za-z0-9.-]", "-", text)
    suffix = "" if plain == text else f"-{hashlib.sha256(text.encode()).hexdigest()[:8]}"
    return f"SPDXRef-{kind}-{plain}{suffix}"


def document(given, created, packages, licences, files):
    """The document's bytes. `licences` holds what each package declares."""
    image = own(given.kind)
    bill = Bill(given.kind)
    bill.add(image, image, given.version, "Apache-2.0", None, None)
    for package in packages:
        found = licences[package.name]
        bill.extracted.update(found["extracted"])
        purl = (f"pkg:deb/debian/{package.name}@{package.version.replace('+', '%2B')}"
                f"?arch={package.architecture}&distro=debian-12")
        bill.add(package.name, package.name, package.version, found["declared"], purl, image, found["comment"])
    if given.tofu:
        _add_opentofu(bill, given.tofu, image)
    _add_program(bill, given, f"canyon-{given.kind}", image)
    bill.add_files(files)
    content = {
        "spdxVersion": "SPDX-2.3",
        "dataLicense": "CC0-1.0",
        "SPDXID": "SPDXRef-DOCUMENT",
        "name": f"canyon-{given.kind}-{given.version}-{given.architecture}",
        "creationInfo": {"created": created, "creators": ["Tool: canyon-scripts-image"]},
        "packages": list(bill.packages.values()),
        "files": bill.files,
        "relationships": bill.relationships,
        "hasExtractedLicensingInfos": [bill.extracted[name] for name in sorted(bill.extracted)],
    }
    digest = hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()
    content["documentNamespace"] = f"urn:canyon:{given.kind}-image:{digest}"
    return json.dumps(content, indent=1).encode() + b"\n"


def _add_opentofu(bill, tofu, image):
    """OpenTofu, and the modules that its binary says it was built from."""
    lines = subprocess.check_output(["go", "version", "-m", tofu], text=True).splitlines()
    go = lines[0].rsplit(" ", 1)[-1]
    rows = [line.split() for line in lines[1:] if line.strip()]
    version = next((row[2] for row in rows if row[0] == "mod"), "")
    if version in ("", "(devel)"):
        # Built from the module's folder, where Go does not know the version; the folder's name does.
        version = f"v{tofu.resolve().parent.name.rsplit('-', 1)[-1]}"
    bill.add("opentofu", "opentofu", version, "MPL-2.0",
             f"pkg:golang/github.com/opentofu/opentofu@{version}", image)
    bill.add("go:std", "Go standard library", go, "BSD-3-Clause", f"pkg:golang/stdlib@{go.removeprefix('go')}",
             "opentofu")
    modules = {}
    for row in rows:
        if row[0] == "dep":
            modules[row[1]] = row[1:3]
            last = row[1]
        elif row[0] == "=>":
            modules[last] = row[1:3]
    for name, module_version in sorted(modules.values()):
        bill.add(f"go:{name}", name, module_version, "NOASSERTION", f"pkg:golang/{name}@{module_version}", "opentofu",
                 "a Go module names its licence in a file only")


def _add_program(bill, given, program, image):
    """The program, and the crates that are in it: not those that only build or test it."""
    metadata = json.loads(Path(given.crates).read_text())
    crates = {crate["id"]: crate for crate in metadata["packages"]}
    nodes = {node["id"]: node for node in metadata["resolve"]["nodes"]}
    todo = [identity for identity, crate in crates.items() if crate["name"] == program]
    seen = set(todo)
    while todo:
        for dependency in nodes[todo.pop()]["deps"]:
            normal = any(kind["kind"] is None for kind in dependency["dep_kinds"])
            if normal and dependency["pkg"] not in seen and not _expands(crates[dependency["pkg"]]):
                seen.add(dependency["pkg"])
                todo.append(dependency["pkg"])
    found = sorted((crates[identity] for identity in seen), key=lambda crate: (crate["name"], crate["version"]))
    bill.add(program, program, given.version, "Apache-2.0", None, image)
    rust = metadata["rust"]
    bill.add("rust:std", "Rust standard library, with musl", rust, "(MIT OR Apache-2.0) AND MIT",
             f"pkg:generic/rust-std@{rust}", program)
    for crate in found:
        if crate["name"] != program:
            licence = re.sub(r"\s*/\s*", " OR ", crate["license"] or "NOASSERTION")
            purl = f"pkg:cargo/{crate['name']}@{crate['version']}" if crate["source"] else None
            bill.add(f"crate:{crate['name']}@{crate['version']}", crate["name"], crate["version"], licence, purl,
                     program)


def _expands(crate):
    """A procedural macro runs in the compiler and adds no code of its own."""
    return any("proc-macro" in target["kind"] for target in crate["targets"])
