"""The requirements of a 64-bit ELF file: the machine, its loader, and the libraries to load."""

import struct

# e_machine, by Debian's name of the architecture.
MACHINES = {"amd64": 62, "arm64": 183}
_LOAD, _DYNAMIC, _INTERP = 1, 2, 3
_NEEDED, _STRTAB = 1, 5


def machine(content):
    """The number of the machine that it runs on."""
    return struct.unpack_from("<H", content, 18)[0]


def loader(content):
    """The path of the program that loads it."""
    start, _ = _interp(content)
    return _text(content, start)


def with_loader(content, path):
    """The same file with another loader, whose path must not be longer."""
    start, length = _interp(content)
    text = path.encode() + b"\0"
    if len(text) > length:
        raise ValueError(f"{path} is longer than {loader(content)}")
    return content[:start] + text.ljust(length, b"\0") + content[start + length:]


def _interp(content):
    for kind, _, start, _, _, length in _headers(content):
        if kind == _INTERP:
            return start, length
    raise ValueError("it names no loader")


def _headers(content):
    offset, = struct.unpack_from("<Q", content, 32)
    size, count = struct.unpack_from("<HH", content, 54)
    return [struct.unpack_from("<IIQQQQ", content, offset + index * size) for index in range(count)]


def needed(content):
    """The names of the libraries that it loads."""
    headers = _headers(content)
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
