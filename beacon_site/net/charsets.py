"""Decoding a document's bytes, even if it declares no charset or a wrong one; media types.

The order: byte order mark, UTF-8 if the bytes are valid UTF-8 beyond ASCII, the server's
header, the document's own declaration, and otherwise detection by the letters.
"""

from __future__ import annotations

import codecs
import re

from charset_normalizer import from_bytes

SAMPLE_BYTES = 64 * 1024
DECLARED_WITHIN = 4096
# If more than this share of characters can't be decoded, the declaration was wrong.
TOLERATED_SHARE = 0.005

MARKS = (
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF32_LE, "utf-32-le"),
    (codecs.BOM_UTF32_BE, "utf-32-be"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)
# Browsers read these names as the larger charset, and so do we.
WIDER = {
    "ascii": "cp1252",
    "iso8859-1": "cp1252",
    "iso8859-9": "cp1254",
    "iso8859-11": "cp874",
    "tis-620": "cp874",
    "shift_jis": "cp932",
    "gb2312": "gb18030",
    "gbk": "gb18030",
    "euc_kr": "cp949",
    "big5": "big5hkscs",
}
ALIASES = {
    "x-sjis": "cp932",
    "windows-31j": "cp932",
    "ms932": "cp932",
    "x-euc-jp": "euc_jp",
    "x-gbk": "gb18030",
    "x-big5": "big5hkscs",
    "windows-949": "cp949",
    "ks_c_5601-1987": "cp949",
    "windows-874": "cp874",
    "x-mac-cyrillic": "mac_cyrillic",
    "macintosh": "mac_roman",
    "x-cp1251": "cp1251",
    "iso-8859-8-i": "iso8859_8",
    "unicode": "utf-16-le",
}
# These would interpret escapes chosen by the page, or aren't charsets of documents.
NEVER = frozenset(
    {"utf-7", "hz", "idna", "punycode", "unicode-escape", "raw-unicode-escape", "undefined"}
)
# Detection mistakes short Western texts for these, since their letters overlap.
LATIN = re.compile(
    r"cp12(50|52|54|57)|iso8859_(1|2|3|4|9|10|13|14|15|16)|mac_.*|cp(437|85\d)|hp_.*"
)
WESTERN = frozenset(
    "ÀÁÂÃÄÅÆÇÈÉÊËÌÍÎÏÑÒÓÔÕÖØÙÚÛÜßàáâãäåæçèéêëìíîïñòóôõöøùúûüÿŒœ ¡«»¿°£§©®·‘’‚“”„•–—…€"
)
DECLARATION = re.compile(
    rb"""(?:<meta[^>]{0,200}?charset\s*=|<\?xml[^>]{0,200}?encoding\s*=)\s*["']?\s*([\w.:-]{1,40})""",
    re.IGNORECASE,
)
# Used in Japanese email and old pages.  Seven bits with escapes, so it looks like plain ASCII.
ISO_2022 = ((b"\x1b$)C", "iso2022_kr"), (b"\x1b$", "iso2022_jp_2"), (b"\x1b(J", "iso2022_jp_2"))
MARKUP = re.compile(rb"<(script|style)\b.*?</\1\s*>|<[^<>]{0,2000}>", re.IGNORECASE | re.DOTALL)


def decode(content: bytes, declared: str = "") -> str:
    """Return the text of an HTML or text document; `declared` is the server's charset.

    Never fails: bytes that can't be decoded become U+FFFD.
    """
    for mark, name in MARKS:
        if content.startswith(mark):
            return content[len(mark) :].decode(name, "replace")
    wide = _unmarked_utf16(content, known_charset(declared))
    if wide:
        return content.decode(wide, "replace")
    for escape, name in ISO_2022:
        if escape in content[:SAMPLE_BYTES] and content[:SAMPLE_BYTES].isascii():
            return content.decode(name, "replace")
    if _is_utf8(content):
        return content.decode("utf-8", "replace")
    for name in (known_charset(declared), known_charset(_declared_within(content))):
        text = content.decode(name, "replace") if name else ""
        if text and text.count("\ufffd") <= max(2, TOLERATED_SHARE * len(text)):
            return text
    return content.decode(_detected(content), "replace")


def known_charset(name: str) -> str:
    """Return Python's name for a charset that documents can use, or "" for any other."""
    name = name.strip().strip("\"'").lower()
    name = ALIASES.get(name, name)
    try:
        found = codecs.lookup(name).name
        b"a".decode(found)  # fails for codecs that aren't charsets, such as zlib
    except (LookupError, ValueError, AssertionError):
        return ""
    return "" if found.replace("_", "-") in NEVER else WIDER.get(found, found)


def _is_utf8(content: bytes) -> bool:
    """Return whether the bytes are UTF-8; a size limit may have cut off the last character."""
    try:
        codecs.getincrementaldecoder("utf-8")().decode(content)
    except UnicodeDecodeError:
        return False
    return True


def _unmarked_utf16(content: bytes, declared: str) -> str:
    """Detect UTF-16 by its ASCII letters: every other byte is NUL, as in no other charset."""
    sample = content[:2000]
    half = len(sample) // 2
    even, odd = sample[0::2].count(0), sample[1::2].count(0)
    if half < 8 or not even + odd:
        return ""
    if declared.startswith(("utf-16", "utf-32")):
        return declared
    if odd > 0.2 * half and even < 0.02 * half:
        return "utf-16-le"
    return "utf-16-be" if even > 0.2 * half and odd < 0.02 * half else ""


def _declared_within(content: bytes) -> str:
    match = DECLARATION.search(content[:DECLARED_WITHIN])
    return match.group(1).decode("ascii", "replace") if match else ""


def _detected(content: bytes) -> str:
    """Guess by the letters only, since markup is ASCII in every charset and hides them."""
    sample = MARKUP.sub(b" ", content[: 4 * SAMPLE_BYTES])[:SAMPLE_BYTES]
    # A character cut in half at the end of the sample would rule out its charset.
    lines = sample.rsplit(b"\n", 1)
    sample = lines[0] if len(lines[0]) > SAMPLE_BYTES // 2 else sample
    best = from_bytes(sample).best()
    name = known_charset(best.encoding) if best is not None else ""
    if not name or (LATIN.fullmatch(name.replace("-", "_")) and _is_western(sample)):
        return "cp1252"
    return name


def _is_western(sample: bytes) -> bool:
    high = {char for char in sample.decode("cp1252", "replace") if char > "~"}
    return high <= WESTERN


# --- media types ---


MARKDOWN, PLAIN = "text/markdown", "text/plain"
HTML, PDF = "text/html", "application/pdf"
_OFFICE = "application/vnd.openxmlformats-officedocument."
DOCX = _OFFICE + "wordprocessingml.document"
PPTX = _OFFICE + "presentationml.presentation"
XLSX = _OFFICE + "spreadsheetml.sheet"
EPUB = "application/epub+zip"
EML = "message/rfc822"
SRT, VTT = "application/x-subrip", "text/vtt"

OFFICE_KINDS = frozenset({DOCX, PPTX, XLSX, EPUB, EML, SRT, VTT})  # for extract_office.py
