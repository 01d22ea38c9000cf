"""The child process that reads pages, PDFs and feeds: `python -m beacon_site.net.extract_child`."""

from __future__ import annotations

import base64
import calendar
import io
import re
import time
from datetime import UTC, date, datetime
from typing import Any

import feedparser
import pypdf
from pypdf.errors import PyPdfError

from beacon_site.net import extract_office
from beacon_site.net.charsets import OFFICE_KINDS, decode
from beacon_site.net.child_loop import Answer, serve
from beacon_site.net.extract_html import READER_ERRORS, HostileMarkup, read_html
from beacon_site.net.reflow import join_hard_wraps, split_front_matter
from beacon_site.text.line_formats import has_own_lines

MAX_ENTRIES = 500  # the first ones of a feed
MAX_TEXT_LENGTH = 20_000  # characters of one field
MAX_LINKS = 5
_FRONT_TITLE = re.compile(r"^title:(.{1,400})$", re.MULTILINE)


def read_feed(content: bytes, url: str) -> dict[str, Any]:
    """Return {"version", "total", "start", "entries": [...]}; `total` and `start` are OpenSearch's."""
    # Sanitizing is off, because only words are used and its parser is slow on hostile markup.
    parsed: Any = feedparser.parse(
        content,
        sanitize_html=False,
        resolve_relative_uris=False,
        response_headers={"content-location": url},
    )
    return {
        "version": str(parsed.get("version") or ""),
        "total": _text(parsed.feed.get("opensearch_totalresults")),
        "start": _text(parsed.feed.get("opensearch_startindex")),
        "entries": [_entry(entry) for entry in parsed.entries[:MAX_ENTRIES]],
    }


def _entry(entry: Any) -> dict[str, Any]:
    content = entry.get("content") or [{}]
    links = [entry.get("link"), *(link.get("href") for link in entry.get("links", []))]
    return {
        "title": _text(entry.get("title")),
        "links": [_text(link) for link in links if link][:MAX_LINKS],
        "id": _text(entry.get("id")),
        "text": _text(entry.get("summary") or content[0].get("value")),
        "day": _day(entry),
    }


def _text(value: object) -> str:
    """Return a text of limited length that can be encoded as UTF-8."""
    text = value[:MAX_TEXT_LENGTH] if isinstance(value, str) else ""
    return text.encode("utf-8", "replace").decode("utf-8")


def _day(entry: Any) -> str:
    """Return the publication day, or that of the last change, in UTC as ISO text, or ""."""
    for name in ("published_parsed", "updated_parsed", "created_parsed"):
        if moment := entry.get(name):
            try:
                return datetime.fromtimestamp(calendar.timegm(moment), UTC).date().isoformat()
            except (ValueError, OverflowError, OSError):
                continue
    return ""


# --- pages, PDFs, and the loop that answers requests ---

HTML_BYTES = 2 * 1024 * 1024
TEXT_BYTES = 4 * 1024 * 1024
TEXT_CHARACTERS = 1_000_000
# The beginning of a long PDF is better than a killed reader.
PDF_SECONDS = 6.0
ALARM_SECONDS = 25  # the parent kills the child after 10 s
MARKUP = re.compile(
    rb"^(?:\xef\xbb\xbf)?\s*<(?:!doctype|!--|html|head|body|title|meta|script|div|p|h1|\?xml)\b",
    re.IGNORECASE,
)
ZIP = b"PK\x03\x04"
BINARY = (b"\x89PNG", b"\xff\xd8\xff", b"GIF8", b"RIFF", b"\x7fELF", b"\x1f\x8b")
# Office formats before 2007, and newer ones with a password.
OLE = b"\xd0\xcf\x11\xe0"


def read(
    content: bytes, content_type: str, url: str, part: tuple[str, str] | None = None
) -> dict[str, Any]:
    """Return the contents of a document; its type comes from its content, then from its header.

    With a part of a page (see `PagePart`), the text is only that part's.
    """
    kind, _, parameters = content_type.partition(";")
    kind = kind.strip().lower()
    charset = re.search(r"charset\s*=\s*[\"']?([\w.:-]+)", parameters, re.IGNORECASE)
    declared = charset.group(1) if charset else ""
    today = datetime.now(UTC).date()
    if part is not None and not is_html(content, kind):
        return {"trouble": "no parts"}
    if content.startswith(b"%PDF-") or kind == "application/pdf":
        answer = read_pdf(content, today)
    elif kind in OFFICE_KINDS or content.startswith(ZIP):
        if content.startswith(ZIP):
            kind = extract_office.kind_of_zip(content)
        answer = extract_office.read(content, kind) if kind else {"trouble": "unknown zip"}
        if answer.get("text") == "":
            answer = {"trouble": "no text"}
    elif content.startswith(OLE):
        answer = {"trouble": "old office"}
    elif content.startswith(BINARY):
        answer = {"trouble": "binary"}
    elif is_html(content, kind):
        html = decode(content[:HTML_BYTES], declared).replace("\x00", "")
        try:
            answer = read_html(html, url, today, part)
        except HostileMarkup as exc:
            answer = {"trouble": exc.args[0]}
    else:
        answer = read_plain(decode(content[:TEXT_BYTES], declared))
    if not answer.get("trouble") and not answer["text"].strip():
        trouble = "empty" if part is None else "no part"
        answer = {"trouble": trouble, "has_scripts": answer.get("has_scripts", False)}
    return answer


def is_html(content: bytes, kind: str) -> bool:
    """Return whether to read it as HTML; servers often send pages as plain text or without a type."""
    if "html" in kind or kind.endswith(("/xml", "+xml")):
        return True
    return kind in ("", "application/octet-stream", "text/plain") and bool(MARKUP.match(content))


def read_plain(text: str) -> dict[str, Any]:
    """Read plain text or Markdown, with joined paragraphs and the first heading as title.

    Data files, front matter and LaTeX keep their lines. A data file has no title.
    """
    unreadable = sum(char < " " and char not in "\n\r\t\f\x1b" for char in text[:4000])
    if unreadable > 0.02 * min(len(text), 4000):
        return {"trouble": "binary"}
    text = re.sub(r"\r\n?|\f", "\n", text).replace("\x00", "").removeprefix("\ufeff")
    front, text = split_front_matter(text)
    if not front and has_own_lines(text):
        named = re.search(r"^[ \t]*\\title\{([^{}]{1,300})\}", text, re.MULTILINE)
        title = " ".join(named.group(1).split()) if named else ""
        return {"text": text, "title": title, "date": None}
    body = join_hard_wraps(text)
    heading = re.search(r"^#{1,2}\s+(.+?)\s*#*$", body, re.MULTILINE)
    first = body.lstrip().split("\n", 1)[0].strip()
    title = _front_title(front) or (first if len(first) <= 120 else "")
    title = heading.group(1) if heading else title
    return {"text": front + body, "title": title, "date": None}


def _front_title(front: str) -> str:
    named = _FRONT_TITLE.search(front)
    title = named.group(1).strip() if named else ""
    if title[:1] in ("'", '"'):
        return title[1:].partition(title[0])[0]
    title = title.partition(" #")[0].strip()
    return "" if title[:1] in (">", "|", "") or title in ("null", "~") else title


def read_pdf(content: bytes, today: date) -> dict[str, Any]:
    """Read a PDF's text layer, as many pages as PDF_SECONDS allow."""
    ends = time.monotonic() + PDF_SECONDS
    try:
        document = pypdf.PdfReader(io.BytesIO(content))
        if document.is_encrypted and not document.decrypt(""):
            return {"trouble": "encrypted"}
        pages: list[str] = []
        for page in document.pages:
            pages.append(_dehyphenated(page.extract_text() or ""))
            if time.monotonic() > ends or sum(map(len, pages)) > TEXT_CHARACTERS:
                break
        title, published = _pdf_facts(document)
    except (*READER_ERRORS, PyPdfError, OSError, NotImplementedError):
        return {"trouble": "damaged"}
    text = join_hard_wraps("\n\n".join(pages))
    if not text:
        return {"trouble": "scanned"}
    title = title or next(filter(None, (line.strip() for line in pages[0].split("\n"))), "")
    day = published.isoformat() if published and date(1990, 1, 1) <= published <= today else None
    return {"text": text, "title": title, "date": day}


def _pdf_facts(document: pypdf.PdfReader) -> tuple[str, date | None]:
    facts = document.metadata
    if facts is None:
        return "", None
    try:
        created = facts.creation_date
    except ValueError:
        created = None
    return " ".join(str(facts.title or "").split()), created.date() if created else None


def _dehyphenated(text: str) -> str:
    return re.sub(r"(?<=[a-zà-ÿ])-\n(?=[a-zà-ÿ])", "", text)


def answer(request: dict[str, str]) -> dict[str, Any]:
    if "feed" in request:
        # Imported with the first feed, because most children never read one.

        return read_feed(base64.b64decode(request["feed"]), request["url"])
    part = (request["part_kind"], request["part"]) if "part" in request else None
    content = base64.b64decode(request["content"])
    page = read(content, request["content_type"], request["url"], part)
    if "text" in page:
        page["text"] = page["text"][:TEXT_CHARACTERS]
        page["title"] = page["title"][:300]
    return page


def _warm() -> Answer:
    """Read one small page, so that everything is loaded before the first real one."""
    words = "This sentence is here to be read once before any page is. " * 8
    page = f"<html><body><article><h1>Warm</h1><p>{words}</p></article></body></html>"
    read(page.encode(), "text/html", "")
    return answer


if __name__ == "__main__":
    serve(_warm, alarm=ALARM_SECONDS)
