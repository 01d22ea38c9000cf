"""Zip files that escape their folder, never end, have false headers or are incomplete."""

from __future__ import annotations

import io
import random
import stat
import struct
import zipfile
import zlib
from collections.abc import Iterator

LINE = b'{"id": "1", "content": "A note."}\n'
OUT = (
    "../x.md", "a/../../x.md", "..\\x.md", "a\\..\\..\\x.md", "/etc/cron.d/x.md", "\\x.md", "//host/x.md",
    "C:/x.md", "c:x.md", "a/..", "..", "../", "./../x.md", "a/b/../../../x.md", "\x00", "\x00.md",
    "/proc/self/environ.md", "../../.ssh/authorized_keys.md", "\\\\host\\share\\x.md",
)  # fmt: skip


def plain(**files: bytes) -> bytes:
    """Return an ordinary zip; `__` in a name stands for a dot."""
    return packed({name.replace("__", "."): held for name, held in files.items()})


def packed(files: dict[str, bytes], mode: int = 0o100644) -> bytes:
    """Return a zip of the files, each with that mode."""
    held = io.BytesIO()
    with zipfile.ZipFile(held, "w", zipfile.ZIP_DEFLATED) as zipped:
        for name, content in files.items():
            info = zipfile.ZipInfo("placeholder")
            info.filename, info.external_attr = name, mode << 16
            info.compress_type = zipfile.ZIP_DEFLATED
            zipped.writestr(info, content)
    return held.getvalue()


def twice() -> bytes:
    """Return a zip with two files of one name."""
    return packed({"a.md": b"one", "b.md": b"two"}).replace(b"b.md", b"a.md")


def flagged(bit: int) -> bytes:
    """Return a zip whose file claims to be encrypted, or uses an unknown compression."""
    raw = bytearray(packed({"a.md": b"words"}))
    for mark, at in ((b"PK\x03\x04", 6), (b"PK\x01\x02", 8)):
        place = raw.index(mark) + at
        raw[place : place + 2] = struct.pack("<H", bit)
    return bytes(raw)


def misnamed() -> bytes:
    """Return a zip whose name is declared as UTF-8 but isn't."""
    return packed({"ü.md": b"words"}).replace("ü".encode(), b"\xff\xfe")


def overlapping(count: int = 40, size: int = 30_000) -> bytes:
    """Return a zip whose files share one packed kernel, each quoting the head of the next."""
    packer = zlib.compressobj(9, zlib.DEFLATED, -15)
    content = (b"- a line of text that repeats itself\n" * (size // 37 + 1))[:size]
    data = packer.compress(content) + packer.flush()
    body, listed, at = b"", b"", 0
    heads: list[tuple[bytes, bytes, bytes]] = []
    for number in reversed(range(count)):
        name = f"{number:05}.md".encode()
        fields = struct.pack("<HHHHHIIIHH", 20, 0, 8, 0, 33, zlib.crc32(content), len(data),
                             len(content), len(name), 0)  # fmt: skip
        head = b"PK\x03\x04" + fields + name
        heads.append((head, fields, name))
        body = head + data
        quoted = struct.pack("<BHH", 0, len(head), 0xFFFF ^ len(head)) + head
        data, content = quoted + data, head + content
    for head, fields, name in reversed(heads):
        listed += b"PK\x01\x02" + struct.pack("<H", 20) + fields
        listed += struct.pack("<HHHII", 0, 0, 0, 0, at) + name
        at += len(head) + 5
    end = struct.pack("<IHHHHIIH", 0x06054B50, 0, 0, count, count, len(listed), len(body), 0)
    return body + listed + end


def refused() -> Iterator[tuple[str, bytes]]:
    """Yield files that must be rejected, each with a description."""
    for name in OUT:
        yield f"a name that leads out: {name!r}", packed({"a.md": b"words", name: b"words"})
    yield "two files of one name", twice()
    yield "a password", flagged(1)
    yield "a strong password", flagged(0x41)
    yield "a patch", flagged(0x20)
    yield "a name that is no UTF-8", misnamed()
    yield "files that overlap", overlapping()
    yield "a bomb of one file", packed({"a.md": bytes(20_000_000)})
    yield "a bomb of many files", packed({f"{n}.md": bytes(900_000) for n in range(9)})
    whole = packed({"a.md": LINE * 50, "b.md": LINE})
    for cut in range(0, len(whole) - 1, len(whole) // 12):
        yield f"cut after {cut} bytes", whole[:cut]
    for held in (b"PK", b"PK\x05\x06", b"PK\x05\x06" + b"\xff" * 18, b"\x1f\x8b" + b"\x00" * 40):
        yield f"no zip: {held[:6]!r}", held


def harmless() -> Iterator[tuple[str, bytes]]:
    """Yield files that look bad but are harmless: they're read as text and not unpacked."""
    for kind in (stat.S_IFLNK, stat.S_IFCHR, stat.S_IFBLK, stat.S_IFIFO, stat.S_IFSOCK):
        yield f"a link or device: {kind:o}", packed({"a.md": b"/etc/passwd"}, kind | 0o777)
    yield "a set-uid file", packed({"a.md": b"words"}, 0o104777)
    yield "names that differ by case alone", plain(a__md=b"- one", A__md=b"- two")
    yield "a zip within", packed({"a.md": packed({"b.md": bytes(5_000_000)})})


def damaged(count: int) -> Iterator[bytes]:
    """Yield copies of an archive with some bytes changed, always the same ones."""
    chance = random.Random(7)
    whole = packed({"manifest.json": b"{}", "data/notes.jsonl": LINE * 30, "ünï.md": b"- a\n" * 20})
    for _number in range(count):
        raw = bytearray(whole)
        for _byte in range(chance.choice([1, 1, 2, 4])):
            raw[chance.randrange(len(raw))] = chance.choice([0, 1, 127, 128, 255])
        yield bytes(raw)
