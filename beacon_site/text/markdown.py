"""Rendering Markdown from any author as safe HTML, for reports, documents and notes.

There are always two protections: the parser passes no HTML through, and nh3 then removes all but
the allowed elements.  Nothing is loaded from elsewhere, so images become links.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from typing import Any
from urllib.parse import quote, urlsplit

import nh3
from django.utils.html import format_html
from django.utils.safestring import SafeString, mark_safe
from django.utils.translation import gettext as _
from markdown_it import MarkdownIt
from markdown_it.token import Token
from mdit_py_plugins.footnote import footnote_plugin
from mdit_py_plugins.tasklists import tasklists_plugin

from beacon_site.text.cleaning import clean

MAX_LENGTH = 100_000  # characters; the rest is cut, and the page says so
# The parser's time is quadratic in these.  At each limit it takes about a second.
MAX_BRACKETS = 2_000
MAX_EMPHASIS = 20_000  # of * _ ~
MAX_CELLS = 20_000  # of tables, counted as rows times columns
MAX_PIECES = 12_000  # cells and blocks together; each takes about 0.1 ms
SHIFT = 1  # a page has its own h1

TAGS = {
    "a", "abbr", "b", "blockquote", "br", "caption", "code", "dd", "del", "dl", "dt", "em", "h2",
    "h3", "h4", "h5", "h6", "hr", "i", "input", "ins", "kbd", "label", "li", "mark", "ol", "p", "pre", "q",
    "s", "section", "strong", "sub", "sup", "table", "tbody", "td", "th", "thead", "tr", "ul",
}  # fmt: skip
ATTRIBUTES = {
    "a": {"href", "title", "id"},
    "input": {"type", "checked", "disabled"},
    "li": {"id"},
    "ol": {"start"},
    "section": {"class"},
    "sup": {"class", "id"},
    "code": {"class"},
    "td": {"align"},
    "th": {"align"},
}
# Only footnotes have ids, for the links to them.  Other elements with ids could imitate parts of
# the page.
_FOOTNOTE_ID = re.compile(r"fn(?:ref)?[\w:-]{1,40}")
_CLASSES = re.compile(r"footnotes|footnote-ref|footnote-backref|language-[\w+#.-]{1,30}")
_ALIGNED = re.compile(r"text-align:\s*(left|right|center)")
_CITATION = re.compile(r"\[(\d{1,3})\]")
_DESCRIPTIONS = re.compile(r"([\\\[\]()`<])")
_IN_ADDRESS = re.compile(r"[()<>\s\\]")
_QUOTE_MARKS = re.compile(r"[\s>]*")
_DELIMITER_ROW = re.compile(r"[|:\s-]*-[|:\s-]*")
_BLOCK_MARK = re.compile(r"[-+*#=_`~>|]|\d{1,9}[.)]")
_BLOCK = re.compile(r"<(/?)(p|h[2-6]|li|blockquote|table)\b")
_SKIPPED = re.compile(r"(<(?:a|code|pre)\b.*?</(?:a|code|pre)>|<[^>]*>)", re.DOTALL)


def render(text: str) -> SafeString:
    """Return Markdown as HTML that is safe on any page.

    Headings begin at h2.  Links can lead to http(s) URLs, our own pages or anchors, and have
    rel="nofollow"; others become plain text.  A text with too much markup to render in about a
    second is shown as plain text.
    """
    text = clean(text[:MAX_LENGTH])[0]
    if _is_too_nested(text):
        message = _("This text has too much formatting to render, so it’s shown as plain text.")
        return format_html("<p>{}</p>\n<pre>{}</pre>\n", message, text)
    made = _parser().render(text, {})
    return mark_safe(_clean(made))  # noqa: S308  (this is the one place where it is made safe)  # nosec B308, B703


def tokens_of(text: str) -> list[Token]:
    """Return the blocks of a Markdown document, for other formats than HTML.

    A heading has the level that `render` gives it. A text with too much markup is one paragraph.
    """
    text = clean(text[:MAX_LENGTH])[0]
    if _is_too_nested(text):
        words = Token("text", "", 0, content=text)
        return [Token("inline", "", 0, content=text, children=[words])]
    return _parser().parse(text, {})


def by_direction(html: SafeString) -> SafeString:
    """Return rendered HTML in which each block gets its direction from its first letters.

    A text can mix scripts, so it can't have a single direction. Blocks inside an item of a list, a
    quotation or a table use that element's direction, because browsers skip elements with a
    direction when they look for the first letter.
    """
    depth = 0

    def directed(match: re.Match[str]) -> str:
        nonlocal depth
        if match[1]:
            depth -= 1
            return match[0]
        depth += 1
        return f'{match[0]} dir="auto"' if depth == 1 else match[0]

    text = _BLOCK.sub(directed, html)
    return mark_safe(text)  # noqa: S308  (only the attribute was added to safe HTML)  # nosec B308, B703


def _is_too_nested(text: str) -> bool:
    """Return True if the parser would take too long for the text."""
    bars = [count for line in text.splitlines() if (count := line.count("|"))]
    return (
        text.count("[") > MAX_BRACKETS
        or sum(map(text.count, "*_~")) > MAX_EMPHASIS
        or max(bars, default=0) * len(bars) > MAX_CELLS
        or _pieces(text) > MAX_PIECES
    )


def _pieces(text: str) -> int:
    """Return the minimum number of cells and blocks that the parser would create.

    After a delimiter row, each line up to the next blank one is a row, even without bars.
    """
    pieces = columns = 0
    after_blank = True
    for line in text.splitlines():
        marks = _QUOTE_MARKS.match(line)
        words = line[marks.end() if marks else 0 :]
        if not words:
            columns, after_blank = 0, True
            continue
        if _DELIMITER_ROW.fullmatch(words):
            columns = max(words.count("|") + (words[0] != "|") - (words.rstrip()[-1] == "|"), 1)
            pieces += columns  # of the header
        elif columns:
            pieces += columns
        elif after_blank or line[0] == ">" or _BLOCK_MARK.match(words):
            pieces += 1
        after_blank = False
    return pieces


def link(words: str, address: str) -> str:
    """Return a Markdown link that shows `words` literally, even if they are untrusted."""
    return f"[{as_words(words)}]({_IN_ADDRESS.sub(lambda sign: quote(sign.group()), address)})"


def as_words(text: str) -> str:
    """Return plain text as one line of Markdown that shows it literally."""
    return _DESCRIPTIONS.sub(r"\\\1", " ".join(text.split()))


def link_citations(html: SafeString, known: Sequence[int], prefix: str = "source-") -> SafeString:
    """Return rendered HTML in which each mark `[n]` of a known n links to `#<prefix>n`.

    Marks inside links and code, and unknown numbers, stay unchanged.
    """
    numbers = set(known)

    def linked(match: re.Match[str]) -> str:
        number = int(match.group(1))
        if number not in numbers:
            return match.group()
        return f'<sup><a href="#{prefix}{number}">[{number}]</a></sup>'

    pieces = _SKIPPED.split(html)
    outside = (
        _CITATION.sub(linked, piece) if n % 2 == 0 else piece for n, piece in enumerate(pieces)
    )
    return mark_safe("".join(outside))  # noqa: S308  (only digits and our own prefix were added)  # nosec B308, B703


@cache
def _parser() -> MarkdownIt:
    parser = MarkdownIt("commonmark", {"html": False, "maxNesting": 50})
    parser.enable(["table", "strikethrough"])
    parser.use(footnote_plugin).use(tasklists_plugin, label=True)
    parser.core.ruler.push("ours", _ours)
    parser.validateLink = _may_link  # type: ignore[method-assign, assignment]
    return parser


def _ours(state: Any) -> None:
    """Shift headings, turn images into links, and set the alignment of cells as an attribute."""
    for token in state.tokens:
        if token.type in ("heading_open", "heading_close"):
            token.tag = f"h{min(6, int(token.tag[1]) + SHIFT)}"
        if token.type in ("td_open", "th_open"):
            style = _ALIGNED.search(str(token.attrs.pop("style", "")))
            if style:
                token.attrs["align"] = style.group(1)
        if token.children:
            token.children = _without_images(token.children)


def _without_images(tokens: Sequence[Token]) -> list[Token]:
    """Return a line's tokens, with each image as a link with its description."""
    made: list[Token] = []
    inside_link = 0
    for token in tokens:
        inside_link += token.nesting if token.type in ("link_open", "link_close") else 0
        if token.type != "image":
            made.append(token)
            continue
        address = str(token.attrs.get("src", ""))
        described = "".join(child.content for child in token.children or ())
        words = Token("text", "", 0, content=described or address)
        if inside_link:
            made.append(words)
        else:
            opened = Token("link_open", "a", 1, attrs={"href": address})
            made += [opened, words, Token("link_close", "a", -1)]
    return made


def _may_link(address: str) -> bool:
    """Return True if a link can lead there: http(s), our own pages, anchors."""
    return _safe_address(address) is not None


def _safe_address(address: str) -> str | None:
    """Return the URL as browsers read it, if a link can lead there."""
    # Browsers drop these characters in a URL, so they read `java\tscript:` as `javascript:`.
    squeezed = re.sub(r"[\x00-\x20\x7f-\xa0\u200b-\u200f\u2028-\u202f\ufeff]", "", address)
    if squeezed.startswith("#"):
        return address
    if squeezed.startswith("/"):
        return address if not re.match(r"[/\\]{2}", squeezed.replace("\\", "/")) else None
    try:
        parts = urlsplit(squeezed)
        usable = parts.scheme.lower() in ("http", "https") and bool(parts.hostname)
    except ValueError:
        return None
    return address if usable and "\\" not in squeezed.split("?", 1)[0] else None


def _attribute(tag: str, name: str, value: str) -> str | None:
    """Return an attribute's value, or None if it isn't allowed."""
    if name == "href":
        return _safe_address(value)
    if name == "id":
        return value if _FOOTNOTE_ID.fullmatch(value) else None
    if name == "class":
        kept = [word for word in value.split() if _CLASSES.fullmatch(word)]
        return " ".join(kept) or None
    if tag == "input":
        fixed = {"type": "checkbox", "disabled": "disabled", "checked": "checked"}
        return fixed.get(name)
    return value


def _clean(html: str) -> str:
    return _cleaner().clean(html)


@cache
def _cleaner() -> nh3.Cleaner:
    return nh3.Cleaner(
        tags=TAGS,
        attributes=ATTRIBUTES,
        attribute_filter=_attribute,
        url_schemes={"http", "https"},
        link_rel="nofollow noopener noreferrer",
    )


# --- Citation marks in a text, such as [note:0190…] and [file:facts/user.md] ---


FILE = "file"
_PATH = r"(?:facts|episodes)/[\w.-]+\.md"
_KIND = r"note|observation|fact|report|section|file|memoryfile"
_ONE = rf"(?:(?:{_KIND})[:\s]\s*[\w./-]+|{_PATH})"
MARK = re.compile(rf"[ \t]?\[\[?({_ONE}(?:\s*[,;]\s*{_ONE})*)\]?\]", re.IGNORECASE)
_EACH = re.compile(rf"(?:(?P<kind>{_KIND})[:\s]\s*)?(?P<key>[\w./-]+)", re.IGNORECASE)


def marks_in(inside: str) -> list[str]:
    """Return the marks inside one pair of brackets, each in its normalized spelling."""
    marks = []
    for match in _EACH.finditer(inside):
        kind, key = (match["kind"] or FILE).lower(), match["key"]
        kind = FILE if kind == "memoryfile" else kind
        marks.append(f"{kind}:{key if kind == FILE else key.lower()}")
    return marks


def numbered(text: str, cites: Iterable[Mapping[str, str]]) -> str:
    """Return the answer with its marks replaced by [1], [2] …, without the model's own numbers."""
    text = re.sub(r"\[(\d{1,3})\](?!\()", r"(\1)", text)
    for number, cite in enumerate(cites, 1):
        text = text.replace(f"[{cite['mark']}]", f"[{number}]")
    return MARK.sub("", text)


def without_marks(text: str) -> str:
    return MARK.sub("", text)


def without_title(text: str, title: str) -> str:
    """Return Markdown without a first heading that says what its page is already called."""
    first, _line, rest = text.lstrip().partition("\n")
    message = first.removeprefix("# ").strip() if first.startswith("# ") else None
    return rest if message == title.strip() and rest.strip() else text
