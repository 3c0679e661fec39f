"""The licences that a Debian package declares, as SPDX expressions."""

import re

# Debian's short names that differ in SPDX (Debian's "Machine-readable debian/copyright file", section 7.1).
_NAMES = {
    "apache-2": "Apache-2.0",
    "apache-2.0": "Apache-2.0",
    "artistic": "Artistic-1.0-Perl",
    "bsd-2-clause": "BSD-2-Clause",
    "bsd-3-clause": "BSD-3-Clause",
    "bsd-4-clause": "BSD-4-Clause",
    "bsd-4-clause-uc": "BSD-4-Clause-UC",
    "bsl-1.0": "BSL-1.0",
    "cc0-1.0": "CC0-1.0",
    "curl": "curl",
    "expat": "MIT",
    "fsfullr": "FSFULLR",
    "gfdl-1.2": "GFDL-1.2-only",
    "gfdl-1.3": "GFDL-1.3-only",
    "gfdl-1.3+": "GFDL-1.3-or-later",
    "gpl-1": "GPL-1.0-only",
    "gpl-1+": "GPL-1.0-or-later",
    "gpl-2": "GPL-2.0-only",
    "gpl-2+": "GPL-2.0-or-later",
    "gpl-3": "GPL-3.0-only",
    "gpl-3+": "GPL-3.0-or-later",
    "isc": "ISC",
    "lgpl-2": "LGPL-2.0-only",
    "lgpl-2+": "LGPL-2.0-or-later",
    "lgpl-2.1": "LGPL-2.1-only",
    "lgpl-2.1+": "LGPL-2.1-or-later",
    "lgpl-3": "LGPL-3.0-only",
    "lgpl-3+": "LGPL-3.0-or-later",
    "mit": "MIT",
    "mpl-1.1": "MPL-1.1",
    "mpl-2.0": "MPL-2.0",
    "oldap-2.8": "OLDAP-2.8",
    "openldap-2.8": "OLDAP-2.8",
    "x11": "X11",
    "zlib": "Zlib",
}


def declared(path, content):
    """The declaration of a package's copyright file: an SPDX expression, and the names in it that SPDX does not know."""
    text = content.decode(errors="replace")
    found = {name for line in re.findall(r"^License:[ \t]*(\S[^\n]*)$", text, re.MULTILINE) for name in _split(line)}
    extracted = {}
    names = sorted({_name(name, extracted) for name in sorted(found)})
    is_readable = text.startswith("Format:") and names
    return {
        "declared": " AND ".join(names) if is_readable else "NOASSERTION",
        "comment": f"all of it is in /{path}",
        "extracted": extracted if is_readable else {},
    }


def _split(line):
    """The short names in one field. It lists every choice and exception, and so never claims too many rights."""
    return [part for part in re.split(r"(?:,?\s+(?:and|or)\s+|[,/]\s*)", line.strip()) if part]


def _name(name, extracted):
    plain = name.removesuffix(".0") if name.lower().startswith(("gpl", "lgpl")) else name
    plain = plain.replace(".0+", "+") if plain.lower().startswith(("gpl", "lgpl")) else plain
    if known := _NAMES.get(plain.lower()):
        return known
    identity = f"LicenseRef-Debian-{re.sub(r'[^A-Za-z0-9.]+', '-', name).strip('-')}"
    extracted[identity] = {
        "licenseId": identity,
        "name": name,
        "extractedText": f"'{name}' in the copyright file of a Debian package, which holds its text.",
    }
    return identity
