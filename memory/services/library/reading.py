"""Converting documents to text for the library.

Markdown and plain text are kept unchanged. All other types are read by the same separate process as
web pages.
"""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass
from pathlib import PurePath

from beacon_site.net.charsets import (
    DOCX,
    EML,
    EPUB,
    HTML,
    MARKDOWN,
    OFFICE_KINDS,
    PDF,
    PLAIN,
    PPTX,
    SRT,
    VTT,
    XLSX,
    decode,
)
from beacon_site.net.errors import ProviderRejected
from beacon_site.net.extract import get_extractor
from beacon_site.text.cleaning import clean, match_key, one_line, plain
from beacon_site.text.messages import gettext as _
from beacon_site.text.secret_scanner import mask

MAX_BYTES = 5 * 1024 * 1024  # bytes of one document
MAX_TITLE_LENGTH = 500

MEDIA_TYPES = {
    ".md": MARKDOWN,
    ".markdown": MARKDOWN,
    ".mdx": MARKDOWN,
    ".txt": PLAIN,
    ".text": PLAIN,
    ".rst": PLAIN,
    ".adoc": PLAIN,
    ".asciidoc": PLAIN,
    ".org": PLAIN,
    ".tex": PLAIN,
    ".csv": PLAIN,
    ".tsv": PLAIN,
    ".ics": PLAIN,
    ".json": PLAIN,
    ".yaml": PLAIN,
    ".yml": PLAIN,
    ".html": HTML,
    ".htm": HTML,
    ".xhtml": HTML,
    ".pdf": PDF,
    ".docx": DOCX,
    ".pptx": PPTX,
    ".xlsx": XLSX,
    ".epub": EPUB,
    ".eml": EML,
    ".srt": SRT,
    ".vtt": VTT,
}
# Files without an extension are usually for programs. These names are for people.
FOR_PEOPLE = frozenset(
    (
        "authors bugs changelog changes contributing contributors copying copyright faq "
        "history install license licence maintainers manifesto news notice readme releases "
        "security thanks todo"
    ).split()
)
# Names that are only meaningful together with their folder.
_PLACES = frozenset(
    ["content", "contents", "doc", "docs", "documentation", "pages", "source", "src"]
)
# First sections of documents whose title is only in the name of the file.
_SECTIONS = frozenset(
    [
        "abstract",
        "background",
        "contents",
        "description",
        "introduction",
        "motivation",
        "overview",
        "summary",
        "table of contents",
    ]
)
_COMMON = FOR_PEOPLE | {"index", "main", "overview", "introduction", "default"}

_FRONT_MATTER = re.compile(r"\A---\r?\n(.{0,5000}?)\r?\n(?:---|\.\.\.)\r?\n", re.DOTALL)
_TITLE_LINE = re.compile(r"^title:\s*[\"']?(.+?)[\"']?\s*$", re.MULTILINE)
_HEADING = re.compile(r"^#{1,2}[ \t]+(.+?)[ \t]*#*[ \t]*$", re.MULTILINE)
_HTML_HEADING = re.compile(r"^[ \t]*<h[12]\b[^<>]*>(.+?)</h[12]>", re.MULTILINE | re.IGNORECASE)
_UNDERLINED = re.compile(r"^(\S.{0,150})\r?\n(={3,}|-{3,}|\*{3,}|~{3,})[ \t]*$", re.MULTILINE)
DATA = (".json", ".yaml", ".yml")
_DATA_TITLE = re.compile(
    r"^(?: {0,4}|\t)[\"']?(?:title|name|label)[\"']?[ \t]*:[ \t]+"
    r"(?:\"([^\"\n]+)\"|'([^'\n]+)'|(?!true|false|null|\d)([^\s\"'{\[|>&*#][^\n{\[#]*?))[ \t]*,?[ \t]*(?:#.*)?$",
    re.MULTILINE,
)
_TAG = re.compile(r"</?[a-zA-Z][^<>]{0,2000}>")
_CONTROL = re.compile(r"[\x00-\x08\x0b\x0e-\x1a\x1c-\x1f\ufffd]")


@dataclass(frozen=True, slots=True)
class DocumentText:
    """A document's text. `problem` says why it couldn't be read."""

    title: str
    text: str
    media_type: str
    digest: str
    size: int
    problem: str = ""


def media_type_of(name: str) -> str:
    """Return the media type by the name's extension, or "" if it isn't supported."""
    path = PurePath(name)
    if path.suffix:
        return MEDIA_TYPES.get(path.suffix.lower(), "")
    first_word = re.split(r"[-_ ]", path.name.lower(), maxsplit=1)[0]
    return PLAIN if first_word in FOR_PEOPLE else ""


def read_document(name: str, content: bytes) -> DocumentText:
    """Read one document. `name` gives its type, and a title if the document has none.

    Raises ProviderUnavailable if the HTML and PDF reader is too busy. Problems with the document
    itself are in `problem`.
    """
    kind = media_type_of(name)
    stem = _name_from_path(PurePath(name))
    digest = hashlib.sha256(content).hexdigest()
    title = text = problem = ""
    if kind and not content.strip():
        problem = empty()
    elif not kind:
        problem = _(
            "This type of document isn’t supported. Use Markdown, text, HTML, PDF, Word, PowerPoint, Excel, CSV, JSON, YAML, EPUB, LaTeX, calendars, email or subtitles."
        )
    elif len(content) > MAX_BYTES:
        problem = _("The document is larger than 5 MiB.")
    elif kind in (HTML, PDF) or kind in OFFICE_KINDS:
        title, text, problem = _extracted(content, kind)
    else:
        text, problem = _as_written(content)
        is_data = name.lower().endswith(DATA)
        title = _title_of_data(text) if is_data else title_of(text)
        if match_key(title) in _SECTIONS:
            title = ""
    title = one_line(mask(_placed(title, PurePath(name)) or stem)[0])[:MAX_TITLE_LENGTH]
    return DocumentText(title or _("untitled"), mask(text)[0], kind, digest, len(content), problem)


def _name_from_path(path: PurePath) -> str:
    """Return a document's name from its file, with the folder's name if the file's is common."""
    stem = clean(path.stem)[0]
    folder = _folder_of(path)
    return f"{folder}: {stem}" if folder and stem.lower() in _COMMON else stem


def _placed(title: str, path: PurePath) -> str:
    """Return the title, with the folder's name if both the file's name and the title say little."""
    folder = _folder_of(path)
    if not title or not folder or path.stem.lower() not in _COMMON or len(title.split()) > 2:
        return title
    return title if match_key(folder) in match_key(title) else f"{folder}: {title}"


def _folder_of(path: PurePath) -> str:
    """Return the name of the nearest folder that isn't only where a project keeps its documents."""
    names = (clean(name)[0] for name in reversed(path.parent.parts))
    return next((name for name in names if name.lower() not in _PLACES), "")


def title_of(text: str) -> str:
    """Return the title in a Markdown or plain text, or "" if it has none."""
    front = _FRONT_MATTER.match(text)
    if front and (named := _TITLE_LINE.search(front.group(1))):
        return named.group(1)
    body = text[front.end() if front else 0 :][:20_000]
    kinds = (_HEADING, _UNDERLINED, _HTML_HEADING)
    headings = [found for kind in kinds if (found := kind.search(body))]
    first = min(headings, key=lambda found: found.start(), default=None)
    return plain(_TAG.sub(" ", first.group(1))) if first else ""


def _title_of_data(text: str) -> str:
    """Return the title that JSON or YAML has at its top, or ""."""
    match = _DATA_TITLE.search(text[:2_000])
    return one_line(match[1] or match[2] or match[3]) if match else ""


def _extracted(content: bytes, kind: str) -> tuple[str, str, str]:
    try:
        found = get_extractor().extract(content, content_type=kind)
    except ProviderRejected as exc:
        return "", "", str(exc)
    return found.title, found.text, ""


def _as_written(content: bytes) -> tuple[str, str]:
    """Return the text of a file, and the problem with it or ""."""
    if b"\x00" in content[:8192] and not content.startswith((b"\xff\xfe", b"\xfe\xff")):
        return "", _("The file isn’t text, despite its name.")
    text = decode(content, "")
    beginning = text[:4000]
    text = clean(text)[0].replace("\r\n", "\n").replace("\r", "\n")
    if len(_CONTROL.findall(beginning)) > 0.02 * len(beginning):
        return "", _("The file isn’t text, despite its name.")
    return (text, "") if text.strip() else ("", empty())


def empty() -> str:
    """Return the problem of a document without text."""
    return _("The document is empty.")
