"""Import from assistants and browsers: ChatGPT, Claude, Gemini, mem0, Letta, basic-memory, bookmarks.

Data flow: an uploaded file -> `app_of` recognizes the app by what is in it -> `items` reads it as a stream
-> memories, which become proposals in the Inbox, and documents, which go to the Library.  docs/dev/formats.md
names the documents that each reader follows.  A second import adds nothing: a memory is known by its text,
a document by its URL.
"""

from __future__ import annotations

import codecs
import html
import io
import json
import re
import zipfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, suppress
from datetime import UTC, datetime, timedelta
from functools import partial
from hashlib import sha256
from html.parser import HTMLParser
from itertools import islice
from pathlib import Path, PurePosixPath
from typing import IO, Any, NamedTuple

import ijson  # type: ignore[import-untyped]
from django.db import models
from django.utils import timezone
from django.utils.text import slugify
from django.utils.translation import gettext_lazy

from beacon_site.net.charsets import HTML
from beacon_site.text import values
from beacon_site.text.cleaning import clean, dicts_in, one_line, shorten
from beacon_site.text.dates import in_utc
from beacon_site.text.injection import injection_reason
from beacon_site.text.messages import gettext as _
from beacon_site.text.messages import ngettext
from beacon_site.text.secret_scanner import mask
from memory.accounts.archive import foreign_formats
from memory.accounts.archive.foreign_formats import Outcome, Problem
from memory.accounts.archive.importer import ImportContext
from memory.accounts.archive.zips import ImportRejected, check_plain, open_zip
from memory.models import (
    LibraryDocument,
    Note,
    Proposal,
    Revision,
    Sensitivity,
    Trust,
)
from memory.models.actors import Actor
from memory.models.errors import LimitReached, MemoryRefused
from memory.models.library import page_of
from memory.services.library.documents import PAGE_BELOW, stored_pages
from memory.services.review import proposals
from memory.services.review.risks import HoldReasons, Risk

MAX_EXAMINED = 20  # files of a zip that are opened to recognize it
MAX_CELLS = 2_000  # entries of an HTML file that are read to recognize it
MAX_EVENTS = 20_000  # of a JSON file that are read to recognize it
MAX_BOOKMARKS_BYTES = 32 * 1024 * 1024  # bytes: about 100,000 bookmarks
MAX_PAGES = 1_000  # web pages of one import that are fetched
MAX_TAGS = 50  # of a bookmark
MAX_DESCRIPTION_LENGTH = 5_000  # characters of a bookmark's
MAX_STRING_BYTES = 32 * 1024 * 1024  # bytes of a JSON file that is a single string
MAX_NOTE_BYTES = 4 * 1024 * 1024  # bytes of one Markdown file
DEEPEST = 100  # levels of JSON: real exports have about ten
MAX_TITLE_LENGTH = 500
BATCH = 50  # items stored together: a conversation can have megabytes
MAX_DOCUMENT_BYTES = 5 * 1024 * 1024  # bytes, as for any document of the Library
MAX_CELL_LENGTH = 1024 * 1024  # characters of one entry of an HTML file
_GEMINI = re.compile(r"\bGemini\b|Bard\Z")  # "Gemini Apps", "Gemini-Apps", "Applications Gemini"
_ACTIVITY = re.compile(
    r"(?:.*/)?(?:My ?Activity|[^/]*Gemini[^/]*/[^/]+)\.(?:json|html)\Z", re.IGNORECASE
)
_ASKED = re.compile(r"\A(?:Prompted|Asked(?::| Gemini| Bard)?|(?:Eingegebener Prompt|Запит):)\s+")
_NOT_ASKED = re.compile(r"\A(?:Used (?:Gemini|Bard)|Gave feedback)\b")  # without an answer
# What separates and holds the entries of Takeout's HTML form.
_CELL, _PART = '<div class="outer-cell', '<div class="content-cell'
_CELL_HEADER = re.compile(r'<p class="mdl-typography--title">(.{1,200}?)</p>', re.DOTALL)
_MOMENT = re.compile(
    r"(?=.{8,60}\Z)(?=.*\b20\d\d)(?:.*\D)?(\d{1,2}):(\d\d):\d\d(?:\s*([AP])\.?\s?M)?(?!\d)",
    re.IGNORECASE,
)
_DAY = re.compile(r"(20\d\d)-m(\d{1,2})-d(\d{1,2})\Z")
# Only zones with one meaning. A moment in any other one is read as UTC.
_ZONES = {"CET": 1, "MEZ": 1, "CEST": 2, "MESZ": 2, "BST": 1, "EST": -5, "EDT": -4, "CDT": -5}
_ZONES |= {"MST": -7, "MDT": -6, "PST": -8, "PDT": -7, "JST": 9, "KST": 9}
_CLAUDE_FILE = re.compile(
    r"(?:.*/)?(?:(?:conversations|projects|memories)(?:-\d+)?|projects/.*|memories/.*)\.json$"
)
_CONVERSATIONS = re.compile(r"(?:.*/)?conversations(?:-\d+)?\.json$")
_FRONT_MATTER = re.compile(r"\A---[ \t]*\n(.{0,5000}?\n)---[ \t]*(?:\n|\Z)", re.DOTALL)
_PERMALINK = re.compile(r"^permalink:[ \t]*(\S+)[ \t]*$", re.MULTILINE)
_TITLE = re.compile(r"^title:[ \t]*(\S.*?)[ \t]*$", re.MULTILINE)
_OBSERVATION = re.compile(r"^- \[([^\]\[]{2,40})\][ \t]+(\S.*)$", re.MULTILINE)
_HASHTAG = re.compile(r"(?<!\S)#([\w-]{2,40})")
_SECTION = re.compile(r"(?:#{1,6}[ \t]+|\*\*)([^*\n]{1,100}?)(?:\*\*)?:?$")
_BREAK = re.compile(r"</(?:p|div|li|h\d|pre|tr)>|<br ?/?>", re.IGNORECASE)
_TAG = re.compile(r"<[^<>]{0,5000}>")


class App(models.TextChoices):
    """What a file was exported from."""

    CHATGPT = "chatgpt", gettext_lazy("ChatGPT")
    CLAUDE = "claude", gettext_lazy("Claude")
    GEMINI = "gemini", gettext_lazy("Gemini")
    MEM0 = "mem0", gettext_lazy("mem0")
    LETTA = "letta", gettext_lazy("Letta")
    BASIC_MEMORY = "basic-memory", gettext_lazy("basic-memory")
    BOOKMARKS = "bookmarks", gettext_lazy("Bookmarks")

    @property
    def source(self) -> str:
        """The source of the imported items.  Every export has the same, so that nothing is imported twice."""
        return f"import:{self.value}"


class Memory(NamedTuple):
    """Something that the app remembers about its person. It becomes a proposal."""

    where: str
    text: str
    created: datetime | None = None
    tags: tuple[str, ...] = ()


class Document(NamedTuple):
    """A conversation, file or page for the Library. `url` is its identity, also in a later export."""

    where: str
    title: str
    text: str
    url: str
    created: datetime | None = None
    is_private: bool = True  # not given to models before a person allows it


Item = Memory | Document | Problem
Opener = Callable[[], AbstractContextManager[IO[bytes]]]
_GeminiEntry = tuple[datetime | None, str, list[str]]  # when, the question and its answers


# --- recognizing ----------------------------------------------------------------------------------


def app_of(path: Path) -> App | None:
    """Return the app that wrote a file, or None for any other file.  Raises ImportRejected."""
    check_plain(path)
    if zipfile.is_zipfile(path):
        with open_zip(path) as archive:
            return _app_of_zip(archive)
    with path.open("rb") as file:
        begins = file.read(512).removeprefix(codecs.BOM_UTF8).lstrip()
    if begins[:40].upper().startswith(b"<!DOCTYPE NETSCAPE-BOOKMARK"):
        return App.BOOKMARKS
    if begins[:1] == b"<":
        return App.GEMINI if _has_gemini_cells(_opener(path)) else None
    return _app_of_json(_opener(path)) if begins[:1] in (b"[", b"{", b'"') else None


def _opener(path: Path) -> Opener:
    """Return what opens a JSON file. Some Letta files are a JSON string that contains the JSON."""
    with path.open("rb") as file:
        is_string = file.read(16).lstrip().startswith(b'"')
    if is_string and path.stat().st_size <= MAX_STRING_BYTES:
        with suppress(ValueError):
            inner = json.loads(path.read_bytes())
            return lambda: io.BytesIO(inner.encode())
    return lambda: path.open("rb")


def _app_of_zip(archive: zipfile.ZipFile) -> App | None:
    names = [info.filename for info in archive.infolist() if not info.is_dir()]
    data = [one for one in names if _CLAUDE_FILE.match(one) or _ACTIVITY.match(one)]
    for name in sorted(data)[:MAX_EXAMINED]:
        open_file = partial(archive.open, name)
        if name.endswith(".html"):
            if _has_gemini_cells(open_file):
                return App.GEMINI
        elif app := _app_of_json(open_file):
            return app
    notes = [name for name in names if name.endswith(".md")]
    for name in notes[:MAX_EXAMINED]:
        front = _FRONT_MATTER.match(_text_of(archive, name))
        if front and _PERMALINK.search(front[1]):
            return App.BASIC_MEMORY
    return None


def _app_of_json(open_file: Opener) -> App | None:
    """Return the app by the names in the first object."""
    names: set[str] = set()
    try:
        with open_file() as file:
            for number, (prefix, event, value) in enumerate(_events(file)):
                if event == "map_key" and prefix in ("", "item", "memories.item", "results.item"):
                    names.add(value)
                elif prefix == "item.header" and _is_gemini(value):
                    return App.GEMINI
                if (event == "end_map" and prefix == "item") or number > MAX_EVENTS:
                    break
    except (ijson.JSONError, UnicodeDecodeError):
        pass  # JSON lines have more than one value, and a broken file is reported by its reader
    if {"mapping", "current_node"} <= names or {"mapping", "create_time"} <= names:
        return App.CHATGPT
    if "chat_messages" in names:
        return App.CLAUDE
    if names & {"conversations_memory", "project_memories"}:
        return App.CLAUDE
    if {"agents", "blocks"} <= names or {"core_memory", "agent_type"} <= names:
        return App.LETTA
    return (
        App.MEM0
        if names & {"memories", "results"} and names & {"memory", "content", "hash"}
        else None
    )


# --- reading --------------------------------------------------------------------------------------


def _events(file: IO[bytes]) -> Iterator[tuple[str, str, Any]]:
    """Yield the file's JSON events.  Raises ImportRejected if it's nested too deeply.

    Each event names the path to its value. Without a limit, 100 kB of brackets take 24 GB.
    """

    def basic() -> Iterator[tuple[str, Any]]:
        depth = 0
        for event, value in ijson.basic_parse(file, use_float=True):
            depth += event in ("start_map", "start_array")
            depth -= event in ("end_map", "end_array")
            if depth > DEEPEST:
                raise ImportRejected(_("The file is nested too deeply to be an app export."))
            yield event, value

    yield from ijson.parse(basic())


def _values(file: IO[bytes], prefix: str) -> Iterator[Any]:
    """Yield the values at a path of the file, such as `item` for those of a list."""
    yield from ijson.items(_events(file), prefix)


def _one_or_more(open_file: Opener) -> Iterator[Any]:
    """Yield the values of a list, or the only value of a file without a list."""
    with open_file() as file:
        is_list = next((event for _prefix, event, _value in _events(file)), "") == "start_array"
    with open_file() as file:
        yield from _values(file, "item" if is_list else "")


def items(path: Path, app: App, name: str = "") -> Iterator[Item]:
    """Yield the items in the file.  Raises ImportRejected if it can't be read completely.

    `name` is the file's name for people, if it is stored under another.
    """
    name = name or path.name
    reader: Any = _READERS.get(app)
    try:
        if zipfile.is_zipfile(path):
            with open_zip(path) as archive:
                yield from map(_masked, _of_zip(archive, app, reader))
        elif app == App.BOOKMARKS:
            yield from map(_masked, _bookmarks(path, name))
        else:
            yield from map(_masked, reader(name, _opener(path)))
    except ijson.JSONError as exc:
        raise ImportRejected(
            _(
                "The file is damaged or incomplete, so nothing was imported: %(why)s. Export it again."
            )
            % {"why": shorten(one_line(str(exc)), 120)}
        ) from exc


def _of_zip(archive: zipfile.ZipFile, app: App, reader: Any) -> Iterator[Item]:
    names = sorted(info.filename for info in archive.infolist() if not info.is_dir())
    if app == App.BASIC_MEMORY:
        for name in names:
            if name.endswith(".md"):
                yield from _basic_memory(name, _text_of(archive, name))
        return
    is_wanted: dict[App, Callable[[str], object]] = {
        App.CHATGPT: _CONVERSATIONS.match,
        App.CLAUDE: _CLAUDE_FILE.match,
        App.GEMINI: _ACTIVITY.match,
        App.MEM0: lambda name: name.endswith("memories.json"),
    }
    for name in names:
        if is_wanted[app](name):
            yield from reader(name, partial(archive.open, name))


def _text_of(archive: zipfile.ZipFile, name: str) -> str:
    with archive.open(name) as file:
        raw = file.read(MAX_NOTE_BYTES)
    return clean(raw.decode("utf-8-sig", "replace"))[0].replace("\r\n", "\n")


def _masked(item: Item) -> Item:
    """Remove control characters, passwords and keys from what an item says."""
    if isinstance(item, Problem):
        return item
    text = mask(clean(item.text)[0])[0]
    if isinstance(item, Memory):
        return item._replace(text=text)
    return item._replace(text=text, title=mask(clean(item.title)[0])[0])


def _when(value: Any) -> datetime | None:
    """Read seconds since 1970, or a date in ISO 8601. None if it is neither, or in the future."""
    try:
        if isinstance(value, str):
            found = datetime.fromisoformat(value)
            at = in_utc(found if found.tzinfo else found.replace(tzinfo=UTC))
        else:
            at = datetime.fromtimestamp(float(value), UTC)
    except (TypeError, ValueError, OverflowError, OSError):
        return None
    return at if at.year >= 1980 and at <= datetime.now(UTC) else None


def _as_markdown(who: str, text: str, at: datetime | None) -> str:
    when = f", {at:%Y-%m-%d %H:%M}" if at else ""
    return f"### {who}{when}\n\n{text.strip()}\n"


def _conversation(
    where: str, title: Any, parts: list[str], place: str, key: Any, at: datetime | None
) -> Item:
    """Return the document of a conversation. Without a key, its text is its identity."""
    named = one_line(str(title or "")) or _("Untitled conversation")
    text = f"# {named}\n\n" + "\n".join(parts)
    url = f"{place}{key or sha256(text.encode()).hexdigest()[:16]}"
    if not parts:
        return Problem(where, _("the conversation “%(title)s” is empty") % {"title": named[:80]})
    return Document(where, named, text, url, at)


# --- ChatGPT --------------------------------------------------------------------------------------


def _chatgpt(name: str, open_file: Opener) -> Iterator[Item]:
    discarded, instructions = 0, set()
    for number, one in enumerate(_one_or_more(open_file), start=1):
        where = _("%(file)s, conversation %(n)d") % {"file": name, "n": number}
        mapping = one.get("mapping") if isinstance(one, dict) else None
        if not isinstance(mapping, dict):
            yield Problem(where, _("it has no messages"))
            continue
        branch = _branch(mapping, one.get("current_node"))
        kept = {id(node) for node in branch}
        discarded += sum(
            1 for node in mapping.values() if id(node) not in kept and _is_said(_message(node))
        )
        texts = []
        for message in filter(None, map(_message, branch)):
            at = _when(message.get("create_time"))
            text = _chatgpt_text(message)
            for line in _instructions(message):
                if line not in instructions:
                    instructions.add(line)
                    yield Memory(where, line, at, ("custom-instructions",))
            if message.get("recipient") == "bio" and text:
                yield Memory(where, text, at)
            elif _is_said(message) and text:
                role = _field(message, "author").get("role")
                texts.append(_as_markdown(_("You") if role == "user" else "ChatGPT", text, at))
        key = one.get("conversation_id") or one.get("id")
        at = _when(one.get("update_time")) or _when(one.get("create_time"))
        yield _conversation(where, one.get("title"), texts, "https://chatgpt.com/c/", key, at)
    if discarded:
        words = ngettext(
            "%(n)d message in a discarded branch isn’t imported",
            "%(n)d messages in discarded branches aren’t imported",
            discarded,
        )
        yield Problem(name, words % {"n": discarded})


def _instructions(message: dict[str, Any]) -> list[str]:
    """Return the custom instructions in a message.

    The person's own words are in the metadata. Without it they are in the content, where ChatGPT
    explains them to the model and puts them between backticks.
    """
    own = _field(_field(message, "metadata"), "user_context_message_data")
    given = [own.get(name) for name in ("about_user_message", "about_model_message")]
    content = _field(message, "content")
    if not any(given) and content.get("content_type") == "user_editable_context":
        given = [content.get(name) for name in ("user_profile", "user_instructions")]
    found = [_between_backticks(text) for text in given if isinstance(text, str)]
    return [text for text in found if text]


def _between_backticks(text: str) -> str:
    _before, mark, rest = text.partition("```")
    inner = rest.rpartition("```")[0] if mark else ""
    return (inner or text).strip()


def _branch(mapping: dict[str, Any], current: Any) -> list[Any]:
    """Return the nodes from the root to the current one. A cycle ends the walk."""
    if current not in mapping:
        dated = [
            (float(message.get("create_time") or 0), key)
            for key, node in mapping.items()
            if (message := _message(node)) and isinstance(message.get("create_time"), int | float)
        ]
        current = max(dated, default=(0, next(iter(mapping), "")))[1]
    found, seen = [], set()
    while current in mapping and current not in seen:
        seen.add(current)
        node = mapping[current]
        found.append(node)
        current = node.get("parent") if isinstance(node, dict) else None
    return found[::-1]


def _message(node: Any) -> dict[str, Any] | None:
    message = node.get("message") if isinstance(node, dict) else None
    return message if isinstance(message, dict) else None


def _field(message: dict[str, Any], name: str) -> dict[str, Any]:
    found = message.get(name)
    return found if isinstance(found, dict) else {}


def _is_said(message: dict[str, Any] | None) -> bool:
    """Return True if a person sees the message: not a tool's, nor the assistant's thoughts."""
    if message is None or _field(message, "metadata").get("is_visually_hidden_from_conversation"):
        return False
    return (
        _field(message, "author").get("role") in ("user", "assistant")
        and message.get("recipient", "all") == "all"
        and _field(message, "content").get("content_type") in ("text", "multimodal_text", "code")
    )


def _chatgpt_text(message: dict[str, Any]) -> str:
    content = _field(message, "content")
    if content.get("content_type") == "code":
        return f"```\n{content.get('text') or ''}\n```"
    parts = content.get("parts")
    lines = []
    for part in parts if isinstance(parts, list) else []:
        if isinstance(part, str):
            lines.append(part)
        elif isinstance(part, dict):
            is_speech = "text" in part and isinstance(part["text"], str)
            lines.append(part["text"] if is_speech else _("[picture or file]"))
    return "\n\n".join(filter(str.strip, lines))


# --- Claude ---------------------------------------------------------------------------------------


def _claude(name: str, open_file: Opener) -> Iterator[Item]:
    for number, one in enumerate(_one_or_more(open_file), start=1):
        where = _("%(file)s, item %(n)d") % {"file": name, "n": number}
        if not isinstance(one, dict):
            yield Problem(where, _("it isn’t an object"))
        elif "chat_messages" in one:
            yield _claude_conversation(where, one)
        elif "conversations_memory" in one or "project_memories" in one:
            told = one.get("project_memories")
            texts = [one.get("conversations_memory")]
            texts += list(told.values()) if isinstance(told, dict) else []
            for text in texts:
                yield from _paragraphs(where, text)
        elif "prompt_template" in one or "docs" in one:
            yield from _claude_project(where, one)
        else:
            yield Problem(where, _("it isn’t a conversation, a project or a memory"))


def _claude_conversation(where: str, one: dict[str, Any]) -> Item:
    texts = []
    messages = one["chat_messages"] if isinstance(one["chat_messages"], list) else []
    for message in messages:
        if not isinstance(message, dict):
            continue
        text = _blocks(message.get("content")) or str(message.get("text") or "")
        files = [*dicts_in(message.get("attachments")), *dicts_in(message.get("files"))]
        for each in files:
            text += "\n\n" + _("[file: %(name)s]") % {
                "name": one_line(str(each.get("file_name") or "?"))
            }
            if isinstance(each.get("extracted_content"), str):
                text += f"\n\n{each['extracted_content']}"
        who = _("You") if message.get("sender") == "human" else "Claude"
        if text.strip():
            texts.append(_as_markdown(who, text, _when(message.get("created_at"))))
    at = _when(one.get("updated_at")) or _when(one.get("created_at"))
    return _conversation(
        where, one.get("name"), texts, "https://claude.ai/chat/", one.get("uuid"), at
    )


def _claude_project(where: str, one: dict[str, Any]) -> Iterator[Item]:
    name = one_line(str(one.get("name") or "")) or _("Project")
    url = f"https://claude.ai/project/{one.get('uuid') or name}"
    at = _when(one.get("updated_at"))
    parts = [str(one.get(part) or "").strip() for part in ("description", "prompt_template")]
    if any(parts):
        yield Document(where, name, "\n\n".join(filter(None, [f"# {name}", *parts])), url, at)
    for file in dicts_in(one.get("docs")):
        title = one_line(str(file.get("filename") or "?"))
        text = str(file.get("content") or "")
        if text.strip():
            made = _when(file.get("created_at"))
            yield Document(
                where, f"{name}: {title}", text, f"{url}#{file.get('uuid') or title}", made
            )


def _paragraphs(where: str, text: Any) -> Iterator[Item]:
    """Yield each paragraph of a memory, which has headings between them."""
    heading = ""
    for part in re.split(r"\n\s*\n", str(text or "")):
        lines = part.strip().split("\n")
        if match := _SECTION.fullmatch(lines[0].strip()):
            heading, lines = match[1].strip(), lines[1:]
        message = "\n".join(lines).strip()
        if message:
            yield Memory(where, f"{heading}: {message}" if heading else message)


def _blocks(content: Any) -> str:
    """Return the text of a message's blocks, with the names of the tools it used."""
    if isinstance(content, str):
        return content
    parts = []
    for block in dicts_in(content):
        if block.get("type") == "text":
            parts.append(str(block.get("text") or ""))
        elif block.get("type") == "voice_note":
            parts.append(str(block.get("transcript") or block.get("text") or ""))
        elif block.get("type") == "tool_use":
            parts.append(_("[tool: %(name)s]") % {"name": one_line(str(block.get("name") or "?"))})
    return "\n\n".join(filter(str.strip, parts))


# --- Gemini ---------------------------------------------------------------------------------------


def _gemini(name: str, open_file: Opener) -> Iterator[Item]:
    """Yield one document per day: an entry is a question with its answer, the newest first."""
    lines: list[str] = []
    last: datetime | None = None
    read = _gemini_cells if name.endswith(".html") else _gemini_records
    for one in read(name, open_file):
        if isinstance(one, Problem):
            yield one
            continue
        at, value, answers = one
        if _NOT_ASKED.match(value) and not any(answers):
            continue
        if lines and (at and at.date()) != (last and last.date()):
            yield _gemini_day(name, lines, last)
            lines = []
        last = at
        value = _ASKED.sub("", value, count=1).strip()
        texts = [_as_markdown(_("You"), value, at)] if value else []
        lines = [*texts, *(_as_markdown("Gemini", text, None) for text in answers if text), *lines]
    if lines:
        yield _gemini_day(name, lines, last)


def _is_gemini(header: Any) -> bool:
    return isinstance(header, str) and _GEMINI.search(header.strip()) is not None


def _gemini_records(_name: str, open_file: Opener) -> Iterator[_GeminiEntry]:
    with open_file() as file:
        for one in _values(file, "item"):
            if isinstance(one, dict) and _is_gemini(one.get("header")):
                answers = [_plain(each.get("html")) for each in dicts_in(one.get("safeHtmlItem"))]
                value, names = str(one.get("title") or ""), one.get("attachedFiles")
                for file_name in names if isinstance(names, list) else []:
                    params = {"name": one_line(str(file_name))}
                    value += "\n\n" + _("[file: %(name)s]") % params
                yield _when(one.get("time")), value, answers


def _gemini_cells(name: str, open_file: Opener) -> Iterator[_GeminiEntry | Problem]:
    """Read the HTML form: the question, a line with the moment, and the answer."""
    for number, cell in enumerate(_cells(open_file), start=1):
        header, body = _parts_of(cell)
        if not _is_gemini(header):
            continue
        lines = _plain(body).splitlines()
        place = next((n for n, line in enumerate(lines) if _MOMENT.match(line.strip())), None)
        if place is None:
            where = _("%(file)s, entry %(n)d") % {"file": name, "n": number}
            yield Problem(where, _("it has no date, so its question and answer can’t be separated"))
            continue
        at = _moment(lines[place].strip())
        yield at, "\n".join(lines[:place]), ["\n".join(lines[place + 1 :]).strip()]


def _has_gemini_cells(open_file: Opener) -> bool:
    cells = islice(_cells(open_file), MAX_CELLS)
    return any(_is_gemini(_parts_of(cell)[0]) for cell in cells)


def _parts_of(cell: str) -> tuple[str, str]:
    """Return the header of an entry, and the HTML of its first part."""
    header = _CELL_HEADER.search(cell)
    _before, _mark, rest = cell.partition(_PART)
    body = rest.partition(_PART)[0].partition(">")[2]
    return _plain(header[1]) if header else "", body


def _cells(open_file: Opener) -> Iterator[str]:
    """Yield the entries of an HTML file as a stream. The end of one that is too long is left out."""
    decoder = codecs.getincrementaldecoder("utf-8-sig")("replace")
    waiting, is_first = "", True
    with open_file() as file:
        while True:
            raw = file.read(65_536)
            waiting += decoder.decode(raw, final=not raw)
            *whole, waiting = waiting.split(_CELL)
            for cell in whole:
                if not is_first:  # what is above the first one is the head of the page
                    yield cell
                is_first = False
            if not raw:
                break
            # A mark may be cut in two, so the last characters stay.
            most = 0 if is_first else MAX_CELL_LENGTH
            waiting = waiting[:most] + waiting[most:][-len(_CELL) :]
    if not is_first:
        yield waiting


def _moment(line: str) -> datetime | None:
    """Read a moment as Takeout writes it in the language of the account. None if it can't."""
    days = [_DAY.match(value) for kind, value in values.typed_values(line) if kind == values.DATE]
    found, time = next(filter(None, days), None), _MOMENT.match(line)
    if found is None or time is None:
        return None
    hour, minute, half = int(time[1]), int(time[2]), (time[3] or "").upper()
    hour = hour % 12 + 12 * (half == "P") if half else hour
    zone = next((_ZONES[word] for word in line.upper().split() if word in _ZONES), 0)
    with suppress(ValueError, OverflowError):
        at = datetime(int(found[1]), int(found[2]), int(found[3]), hour, minute, tzinfo=UTC)
        return _when((at - timedelta(hours=zone)).isoformat())
    return None


def _gemini_day(name: str, texts: list[str], at: datetime | None) -> Item:
    day = f"{at:%Y-%m-%d}" if at else ""
    title = _("Gemini on %(day)s") % {"day": day} if day else _("Gemini (no date)")
    return _conversation(
        name, title, texts, "https://myactivity.google.com/product/gemini#", day, at
    )


def _plain(text: Any) -> str:
    spaced = _BREAK.sub("\n", str(text or ""))
    return re.sub(r"\n{3,}", "\n\n", html.unescape(_TAG.sub("", spaced))).strip()


# --- mem0, Letta, basic-memory ---------------------------------------------------------------------


def _mem0(name: str, open_file: Opener) -> Iterator[Item]:
    for prefix in ("memories.item", "results.item", "item"):
        number = 0
        with open_file() as file:
            for number, one in enumerate(_values(file, prefix), start=1):
                where = _("%(file)s, memory %(n)d") % {"file": name, "n": number}
                one = one if isinstance(one, dict) else {}
                text = next((t for t in map(one.get, ("memory", "content", "text")) if t), "")
                if not isinstance(text, str) or not text.strip():
                    yield Problem(where, _("it has no text"))
                elif one.get("state") in ("deleted", "archived"):
                    yield Problem(where, _("it was deleted or archived in mem0"))
                else:
                    named = one.get("categories")
                    tags = [str(tag) for tag in named] if isinstance(named, list) else []
                    yield Memory(where, text, _when(one.get("created_at")), tuple(tags))
        if number:
            return


def _letta(name: str, open_file: Opener) -> Iterator[Item]:
    """Yield the memory blocks of an agent file, and the messages of each agent."""
    for prefix in ("blocks.item", "core_memory.item"):
        with open_file() as file:
            for one in dicts_in(list(_values(file, prefix))):
                value, label = (
                    str(one.get("value") or "").strip(),
                    one_line(str(one.get("label") or "")),
                )
                if value:
                    yield Memory(f"{name}, {label}", f"{label}: {value}" if label else value)
    for prefix in ("agents.item", ""):
        with open_file() as file:
            for agent in dicts_in(list(_values(file, prefix))):
                messages = dicts_in(agent.get("messages"))
                if messages:
                    yield _letta_messages(name, agent, messages)


def _letta_messages(name: str, agent: dict[str, Any], messages: list[dict[str, Any]]) -> Item:
    title = one_line(str(agent.get("name") or "Letta"))
    texts = []
    for message in messages:
        text = _blocks(message.get("content")) or str(message.get("text") or "")
        if message.get("role") in ("user", "assistant") and text.strip():
            who = _("You") if message["role"] == "user" else title
            texts.append(_as_markdown(who, text, _when(message.get("created_at"))))
    named = _("Messages from %(name)s") % {"name": title}
    return _conversation(name, named, texts, "letta:", agent.get("id"), None)


def _basic_memory(name: str, text: str) -> Iterator[Item]:
    front = _FRONT_MATTER.match(text)
    head, body = (front[1], text[front.end() :]) if front else ("", text)
    link, named = _PERMALINK.search(head), _TITLE.search(head)
    if not body.strip():
        yield Problem(name, _("the note is empty"))
        return
    title = named[1].strip("\"'") if named else PurePosixPath(name).stem
    yield Document(name, title, body, f"memory://{link[1] if link else name}")
    for match in _OBSERVATION.finditer(body):
        tags = (match[1], *_HASHTAG.findall(match[2]))
        yield Memory(f"{name}, {title}", _HASHTAG.sub("", match[2]).strip(), None, tags)


# --- bookmarks ------------------------------------------------------------------------------------


class _Bookmark(NamedTuple):
    url: str
    title: str
    folders: tuple[str, ...]
    added: str
    tags: tuple[str, ...]
    description: str = ""


class _Bookmarks(HTMLParser):
    """Reads a Netscape bookmark file: links in folders, with their dates, tags and descriptions."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[_Bookmark] = []
        self.folders: list[str] = []
        self._open = ""
        self._text: list[str] = []
        self._link: dict[str, str | None] = {}
        self._last: _Bookmark | None = None  # its description can follow

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag in ("a", "h3", "dt", "dl", "dd"):
            self._end_description()
        if tag in ("a", "h3", "dd"):
            self._open, self._text, self._link = tag, [], dict(attrs)
        if tag in ("a", "h3", "dt", "dl"):
            self._keep()
        if tag in ("br", "p") and self._open == "dd":
            self._text.append(" ")

    def handle_data(self, data: str) -> None:
        if self._open:
            self._text.append(data)

    def handle_endtag(self, tag: str) -> None:
        text = one_line("".join(self._text))
        if tag == "h3" == self._open:
            self.folders.append(text)
        elif tag == "a" == self._open:
            url, at = self._link.get("href") or "", self._link.get("add_date") or ""
            tags = (one_line(tag) for tag in (self._link.get("tags") or "").split(","))
            named = tuple(dict.fromkeys(filter(None, tags)))
            self._last = _Bookmark(url, text or url, tuple(self.folders), at, named)
        elif tag == "dl":
            self._end_description()
            self._keep()
            if self.folders:
                self.folders.pop()
        if tag == self._open:
            self._end_description()
            self._open = ""

    def close(self) -> None:
        super().close()
        self._end_description()
        self._keep()

    def _end_description(self) -> None:
        """Give the last bookmark its description. `<DD>` usually has no end tag."""
        if self._open == "dd" and self._last is not None:
            self._last = self._last._replace(description=one_line("".join(self._text)))
        if self._open == "dd":
            self._open = ""

    def _keep(self) -> None:
        if self._last is not None:
            self.found.append(self._last)
            self._last = None


def _bookmarks(path: Path, name: str) -> Iterator[Item]:
    if path.stat().st_size > MAX_BOOKMARKS_BYTES:
        params = {"most": MAX_BOOKMARKS_BYTES // 1024**2}
        raise ImportRejected(_("The bookmarks file is larger than %(most)d MiB.") % params)
    reader, number = _Bookmarks(), 0
    decoder = codecs.getincrementaldecoder("utf-8")("replace")
    with path.open("rb") as file:
        while True:
            raw = file.read(65_536)
            reader.feed(decoder.decode(raw, final=not raw))
            if not raw:
                reader.close()
            found, reader.found = reader.found, []
            for one in found:
                number += 1
                where = _("%(file)s, bookmark %(n)d") % {"file": name, "n": number}
                if not one.url.startswith(("https://", "http://")):
                    title = one.title[:80]
                    yield Problem(where, _("“%(title)s” isn’t a web page") % {"title": title})
                    continue
                yield Document(where, one.title, _about(one), one.url, _added(one.added), False)
            if not raw:
                return


def _about(one: _Bookmark) -> str:
    """Return what the bookmark says, as the text of its document: paragraphs of one line."""
    paragraphs = [f"<{one.url}>"]
    if one.folders:
        folder = " / ".join(one.folders)
        paragraphs.append(_("Folder: %(folder)s") % {"folder": folder})
    if one.tags:
        paragraphs.append(_("Tags: %(tags)s") % {"tags": ", ".join(one.tags[:MAX_TAGS])})
    if one.description:
        paragraphs.append(one.description[:MAX_DESCRIPTION_LENGTH])
    return "\n\n".join(paragraphs) + "\n"


def _added(seconds: str) -> datetime | None:
    """Read when a bookmark was added. Some browsers write milliseconds or microseconds."""
    if not (seconds.isascii() and seconds.isdigit() and len(seconds) <= 16):
        return None
    parts = {13: 1_000, 16: 1_000_000}.get(len(seconds), 1)  # of a second, by the number of digits
    return _when(int(seconds) / parts)


_READERS: dict[App, Any] = {
    App.CHATGPT: _chatgpt,
    App.CLAUDE: _claude,
    App.GEMINI: _gemini,
    App.MEM0: _mem0,
    App.LETTA: _letta,
}


# --- storing --------------------------------------------------------------------------------------


def import_app_export(
    found: Iterator[Item],
    import_context: ImportContext,
    app: App,
    *,
    memories: bool,
    documents: bool,
    private: bool,
    only_look: bool,
) -> Outcome:
    """Store the items, or only preview that.  Raises ImportRejected if there are too many.

    Memories become proposals, and documents go to the Library.  With `private`, models and runs don't
    get the conversations and files before a person allows it.
    """
    wanted: tuple[type, ...] = (Problem, *[Memory] * memories, *[Document] * documents)
    chosen = (item for item in found if isinstance(item, wanted))
    shelf = _Shelf(import_context, app, is_private=private)

    def store(batch: Sequence[Item], _import_context: ImportContext, outcome: Outcome) -> None:
        for item in batch:
            if isinstance(item, Problem):
                outcome.refuse(item.where, item.why)
        _propose([one for one in batch if isinstance(one, Memory)], import_context, app, outcome)
        shelf.store([one for one in batch if isinstance(one, Document)], outcome)

    return foreign_formats.import_entries(
        chosen, import_context, only_look=only_look, store=store, size=BATCH, source=app.source
    )


def _writer(app: App) -> Actor:
    """Return who writes: not the person, whose words are trusted."""
    return Actor("import", app.value)


def _propose(
    found: Sequence[Memory], import_context: ImportContext, app: App, outcome: Outcome
) -> None:
    """Hold each memory for review. One that was proposed before, or is a note, isn't proposed again."""
    if not found:
        return
    owner, texts = import_context.owner, {one.text.strip() for one in found}
    proposed = Proposal.objects.for_user(owner).filter(
        record_type="note", source=app.source, after__content__in=list(texts)
    )
    seen = set(proposed.values_list("after__content", flat=True))
    seen |= set(
        Note.objects.for_user(owner).filter(content__in=texts).values_list("content", flat=True)
    )
    for one in found:
        text = one.text.strip()
        if text in seen:
            outcome.here += 1
            continue
        params = {"app": app.label, "day": f"{one.created:%Y-%m-%d}" if one.created else ""}
        words = _("Saved by %(app)s on %(day)s") if one.created else _("Saved by %(app)s")
        after = {
            "content": text, "kind": Note.Kind.LOG.value, "tags": _tags(one, app),
            "evidence": [words % params],
        }  # fmt: skip
        try:
            proposals.hold(
                owner, "note", by=_writer(app), source=app.source, before={},
                after=after, why=words % params, held=_reasons(text),
            )  # fmt: skip
        except LimitReached as exc:
            outcome.refuse(one.where, str(exc))
            for other in found[found.index(one) + 1 :]:
                outcome.refuse(
                    other.where,
                    _("Review the pending items in the Inbox, then import this file again."),
                )
            return
        except MemoryRefused as exc:
            outcome.refuse(one.where, str(exc))
            continue
        seen.add(text)
        outcome.memories += 1
        outcome.show(
            _("memory"), str(app.label), text, one.created, app.source, ", ".join(after["tags"])
        )


def _reasons(text: str) -> HoldReasons:
    """Return why a memory waits for review; an attempt to instruct a model comes first."""
    smell = injection_reason(text)
    return HoldReasons([Risk("injection", {"smell": smell})] * bool(smell) + [Risk("imported")])


def _tags(one: Memory, app: App) -> list[str]:
    """Return the tags in the form that a note's have."""
    named = (slugify(tag)[:40] for tag in (app.value, *one.tags))
    return list(dict.fromkeys(filter(None, named)))[:10]


def _with_page(text: str, stored: str) -> str:
    """Return a bookmark's text with the page below that its document has."""
    _old, below, page = stored.partition(PAGE_BELOW)
    return text.rstrip() + below + page if below else text


class _Shelf:
    """The Library during one import: which documents are there, and which came already."""

    def __init__(self, import_context: ImportContext, app: App, *, is_private: bool) -> None:
        self._owner, self._app, self._is_private = import_context.owner, app, is_private
        self._digests: dict[str, str] = {}  # of what came already, by URL
        self._pages = stored_pages(import_context.owner) if app == App.BOOKMARKS else set()

    def store(self, found: Sequence[Document], outcome: Outcome) -> None:
        """Store new documents, and give those that grew since the last import their new text."""
        there = self._there({one.url for one in found})
        new: list[LibraryDocument] = []
        for one in found:
            content = one.text.encode()
            digest = sha256(content).hexdigest()
            if len(content) > MAX_DOCUMENT_BYTES:
                params = {"title": one.title[:80], "most": MAX_DOCUMENT_BYTES // 1024**2}
                outcome.refuse(one.where, _("“%(title)s” is larger than %(most)d MiB") % params)
                continue
            came, row = self._digests.setdefault(one.url, digest), there.get(one.url)
            if row is not None and row.media_type == HTML and row.source == self._app.source:
                # the page was fetched, and stays below what the bookmark says
                one = one._replace(text=_with_page(one.text, row.text))
                content = one.text.encode()
                digest = sha256(content).hexdigest()
            if came != digest and one.is_private:
                params = {"title": one.title[:80], "url": one.url}
                words = _(
                    "“%(title)s” has the same URL as an earlier document, but different text: %(url)s"
                )
                outcome.refuse(one.where, words % params)
            elif row is None and not self._is_known(one.url, new):
                new.append(self._document(one, content, digest))
                outcome.documents += 1
                outcome.show(
                    _("document"), str(self._app.label), one.title, one.created, one.url, ""
                )
            elif row is None or not self._has_grown(row, digest):
                outcome.here += 1
            else:
                self._grow(row, one, content, outcome)
            if self._app == App.BOOKMARKS:
                self._offer_page(row or new[-1], outcome)
        LibraryDocument.objects.add(new, by=_writer(self._app), source=self._app.source)

    def _there(self, urls: set[str]) -> dict[str, LibraryDocument]:
        """Return the stored documents with these URLs. Those that this app brought come first."""
        rows = LibraryDocument.objects.for_user(self._owner).filter(url__in=urls, path="")
        ours = sorted(rows, key=lambda row: row.source == self._app.source)
        return {row.url: row for row in ours}

    def _offer_page(self, row: LibraryDocument, outcome: Outcome) -> None:
        """Count a bookmark whose page can be fetched into its document, once per page."""
        name = page_of(row.url)
        if name in self._pages or row.source != self._app.source or row.trashed_at is not None:
            return
        self._pages.add(name)
        outcome.pages += 1
        if outcome.pages <= MAX_PAGES:
            outcome.documents_of_pages.append(str(row.pk))

    @staticmethod
    def _is_known(url: str, new: Sequence[LibraryDocument]) -> bool:
        return any(row.url == url for row in new)

    def _has_grown(self, row: LibraryDocument, digest: str) -> bool:
        """Whether an earlier import stored another text, which no person has edited or put in Trash."""
        if row.source != self._app.source or row.digest == digest or row.trashed_at is not None:
            return False
        changes = Revision.objects.filter(
            record_type=row.record_type(), record_id=row.pk, before__has_key="text"
        )
        return not changes.exclude(source=self._app.source).exists()

    def _document(self, one: Document, content: bytes, digest: str) -> LibraryDocument:
        at = one.created or timezone.now()
        is_hidden = one.is_private and self._is_private
        return LibraryDocument(
            owner=self._owner, title=one_line(one.title)[:MAX_TITLE_LENGTH], text=one.text,
            media_type="text/markdown", digest=digest, size=len(content), url=one.url,
            modified_at=one.created, created=at, updated=at, trust=Trust.EXTERNAL,
            source=self._app.source,
            sensitivity=Sensitivity.SENSITIVE if is_hidden else Sensitivity.NORMAL,
        )  # fmt: skip

    def _grow(self, row: LibraryDocument, one: Document, content: bytes, outcome: Outcome) -> None:
        try:
            row.change(
                by=_writer(self._app), source=self._app.source, expected_version=row.version,
                text=one.text, digest=sha256(content).hexdigest(), size=len(content),
                modified_at=one.created or row.modified_at,
            )  # fmt: skip
        except MemoryRefused as exc:
            outcome.refuse(one.where, str(exc))
            return
        outcome.updated += 1
        label = str(self._app.label)
        outcome.show(_("updated document"), label, one.title, one.created, one.url, "")
