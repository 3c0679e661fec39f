"""The requirements of a 64-bit ELF file: the machine, and the libraries to load."""

import struct

# e_machine, by Debian's name of the architecture.
MACHINES = {"amd64": 62, "arm64": 183}
_LOAD, _DYNAMIC = 1, 2
_NEEDED, _STRTAB = 1, 5


def machine(content):
    """The number of the machine that it runs on."""
    return struct.unpack_from("<H", content, 18)[0]


def needed(content):
    """The names of the libraries that it loads."""
    offset, = struct.unpack_from("<Q", content, 32)
    size, count = struct.unpack_from("<HH", content, 54)
    headers = [struct.unpack_from("<IIQQQQ", content, offset + index * size) for index in range(count)]
    for kind, _, start, _, _, length in headers:
        if kind == _DYNAMIC:
            tags = list(struct.iter_unpack("<QQ", content[start:start + length]))
            table = _offset(headers, dict(tags)[_STRTAB])
            return [_text(content, table + value) for tag, value in tags if tag == _NEEDED]
    return []


def _offset(headers, address):
    """The offset of an address in the file."""
    for kind, _, offset, start, _, length in headers:
        if kind == _LOAD and start <= address < start + length:
            return offset + address - start
    raise ValueError(f"the address {address:#x} is in no segment")


def _text(content, start):
    return content[start:content.index(b"\0", start)].decode()
