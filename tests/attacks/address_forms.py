"""All known ways to write the address of a machine that must stay private."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterator
from urllib.parse import quote

# Loopback, private, link-local, shared, metadata of four clouds, multicast, broadcast, "this".
TARGETS = (
    "127.0.0.1", "127.255.255.254", "10.0.0.1", "172.16.0.1", "192.168.1.1", "169.254.169.254",
    "169.254.170.2", "100.64.0.1", "100.100.100.200", "168.63.129.16", "198.18.0.1", "224.0.0.1",
    "255.255.255.255", "0.0.0.0",
)  # fmt: skip
SPECIAL_SIX = (
    "::1", "::", "::2", "fe80::1", "fec0::1", "fc00::1", "fd00:ec2::254", "ff02::1", "ff0e::1",
    "100::1", "2001::1", "2001:db8::1", "5f00::1", "3fff::1",
)  # fmt: skip
LOCAL_NAMES = (
    "localhost", "LOCALHOST", "localhost.", "LocalHost..", "ｌｏｃａｌｈｏｓｔ", "ⓛⓞⓒⓐⓛⓗⓞⓢⓣ", "localho\u00adst",
    "local\u200bhost", "loc\u0430lhost", "%6c%6f%63alhost", "ip6-localhost", "intranet", "db", "redis",
    "metadata", "kubernetes", "host\u3002", "xn--localhost-", "[localhost]", "localhost:80",
)  # fmt: skip
# Names that a stranger may own and point wherever they like: all of them lead to this machine.
LEADING_HERE = (
    "localhost.localdomain", "localtest.me", "127.0.0.1.nip.io", "7f000001.rbndr.example",
    "metadata.google.internal", "metadata.google.internal.", "kubernetes.default.svc",
    "xn--mnchen-3ya.evil.example", "MÜNCHEN.evil.example", "evil。example", "evil．example", "evil｡example",
    "ｅｖｉｌ.example", "e_vil.example", "-.evil.example", "a.b.c.d.e.f.evil.example", "faß.evil.example",
    "xn--a.evil.example", "xn--.evil.example", "xn--99999.evil.example", "1.2.3.4.evil.example", "0x7f.evil.example", "2130706433.evil.example", "evil.example.",
)  # fmt: skip
REDIRECTS = (301, 302, 303, 307, 308)


def notations(address: str) -> Iterator[tuple[str, str]]:
    """Yield the notations of an IPv4 address with their names."""
    parts = [int(part) for part in address.split(".")]
    a, b = parts[:2]
    whole = int(ipaddress.IPv4Address(address))
    yield "as it is", address
    yield "a dot behind", f"{address}."
    yield "one number", str(whole)
    yield "one hexadecimal number", f"{whole:#x}"
    yield "one in capitals", f"0X{whole:X}"
    yield "one octal number", f"0{whole:o}"
    yield "more than 32 bits", str(whole + 2**32)
    yield "two parts", f"{a}.{whole & 0xFFFFFF}"
    yield "three parts", f"{a}.{b}.{whole & 0xFFFF}"
    yield "octal parts", ".".join(f"0{part:o}" for part in parts)
    yield "padded octal parts", ".".join(f"0000{part:o}" for part in parts)
    yield "hexadecimal parts", ".".join(f"{part:#x}" for part in parts)
    yield "mixed parts", f"{a:#x}.0{b:o}.{whole & 0xFFFF}"
    yield "full-width digits", address.translate({0x30 + n: 0xFF10 + n for n in range(10)})
    yield (
        "circled digits",
        address.translate({0x30: 0x24EA} | {0x31 + n: 0x2460 + n for n in range(9)}),
    )
    yield "Arabic digits", address.translate({0x30 + n: 0x660 + n for n in range(10)})
    yield "bold digits", address.translate({0x30 + n: 0x1D7CE + n for n in range(10)})
    yield "superscript digits", address.replace("1", "¹").replace("2", "²")
    for dot in "。．｡․":
        yield f"the dot U+{ord(dot):04X}", address.replace(".", dot)
    yield "percent-encoded", "".join(f"%{ord(sign):02x}" for sign in address)
    yield "percent-encoded dots", address.replace(".", "%2e")
    yield "percent-encoded twice", address.replace(".", "%252e")
    yield "an ideographic dot encoded", address.replace(".", quote("。"))
    yield "a name and a password", f"example.org:443@{address}"
    yield "a backslash", f"example.org\\@{address}"
    yield "an empty name", f"@{address}"
    yield "a space", f" {address}"
    yield "a tab inside", address.replace(".", "\t.", 1)
    yield "no width inside", address.replace(".", "\u200b.", 1)
    yield "two dots", address.replace(".", "..", 1)
    yield "a zone", f"{address}%25eth0"
    yield "brackets", f"[{address}]"
    yield "the future", f"[v1.{address}]"
    for called, six in inside_six(address):
        yield called, f"[{six}]"


def inside_six(address: str) -> Iterator[tuple[str, str]]:
    """Yield the IPv6 addresses that contain an IPv4 address."""
    whole = int(ipaddress.IPv4Address(address))
    high, low = f"{whole >> 16:x}", f"{whole & 0xFFFF:x}"
    yield "mapped", f"::ffff:{address}"
    yield "mapped, in hexadecimal", f"::ffff:{high}:{low}"
    yield "mapped, in full", f"0:0:0:0:0:FFFF:{high}:{low}"
    yield "compatible", f"::{address}"
    yield "translated", f"::ffff:0:{address}"
    yield "NAT64", f"64:ff9b::{high}:{low}"
    yield "local NAT64", f"64:ff9b:1::{high}:{low}"
    yield "6to4", f"2002:{high}:{low}::1"
    yield (
        "Teredo",
        f"2001:0:{high}:{low}:8000:ffff:{0xFFFF ^ (whole >> 16):x}:{0xFFFF ^ (whole & 0xFFFF):x}",
    )


def hosts() -> list[str]:
    """Return every host, of all targets in all notations and of all names without a dot."""
    written = [host for target in TARGETS for _called, host in notations(target)]
    six = [f"[{address}]" for address in SPECIAL_SIX]
    zoned = [f"[{address}%25lo]" for address in SPECIAL_SIX] + ["[::1%25]", "[fe80::1%eth0]"]
    return list(dict.fromkeys([*written, *six, *zoned, *LOCAL_NAMES]))


def urls(port: int) -> list[str]:
    """Return the URL of a page on each host, and URLs that are odd as a whole."""
    plain = [f"http://{host}:{port}/x" for host in hosts()]
    return [*plain, *odd_urls(port)]


def odd_urls(port: int) -> list[str]:
    """Return URLs whose form reveals the host, or that aren't web addresses."""
    here = f"127.0.0.1:{port}"
    return [
        f"//{here}/", f"http:{here}", f"http:/{here}/", f"http:///{here}/", f"http://///{here}/",
        f"http:\\\\{here}\\", f"http://example.org#@{here}/", f"http://example.org?@{here}/",
        f"http://{here}#.example.org/", f"http://{here}\\.example.org/", f"http://a:b@{here}/",
        f"http://{here}:80/", f"HTTP://{here}/", f"hTTp://{here}", f"http://{here}/%0d%0aHost:x",
        f"http://example.org\r\nHost: {here}/", f"http://example.org/\r\n\r\nGET http://{here}/",
        f"http://example.org%23@{here}/", f"http://example.org%2f@{here}/", f"http://[::]:{port}%2f",
        f"file://{here}/etc/passwd", "file:///etc/passwd", "file:/etc/passwd", "/etc/passwd",
        f"gopher://{here}/_x", f"dict://{here}/x", f"ftp://{here}/", f"ldap://{here}/", f"ws://{here}/",
        f"unix:///run/postgresql#{here}", f"jar:http://{here}!/", f"view-source:http://{here}/",
        f"blob:http://{here}/", f"feed:http://{here}/", f"feed://{here}/", "data:text/html,x",
        "javascript:alert(1)", f"netdoc://{here}/", f"sftp://{here}/", f"tftp://{here}/",
        f"http://{here}\u202e/", f"\ufeffhttp://{here}/", f"\x00http://{here}/", f"http://{here}\x00/",
        f"https://127.0.0.1:{port}/", "http://127.0.0.1:22/", "http://127.0.0.1:0/", "http://127.0.0.1:-1/",
        "http://example.org:22/", "http://example.org:5432/", "http://example.org:6379/",
        "http://example.org:99999/", "http://example.org:１/", "http://example.org: 80/", "http://:80/",
    ]  # fmt: skip
