"""What a program sends, read strictly: JSON of a bounded size and depth, texts that can be stored.

Characters that Postgres cannot hold (NUL, lone surrogates, controls) are taken out of all texts,
and the answer's header `Beacon-Cleaned` names the fields: the same boundary as everywhere.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable
from contextlib import suppress
from typing import Any
from urllib.parse import unquote

from django.http import HttpRequest
from django.utils.datastructures import MultiValueDict
from django.utils.translation import gettext as _
from ninja.parser import Parser

from memory.api.problems import Problem
from memory.texts.text import clean, one_line

MOST_BODY = 1024 * 1024  # bytes of a request
MOST_CONTENT_BODY = 12 * 1024 * 1024  # of one that stores a content item: 8 MiB, as JSON escapes it
MOST_DEPTH = 32  # lists and objects inside one another
JSON = "application/json"
CLEANED = "Beacon-Cleaned"
_WITH_BODY = ("POST", "PUT", "PATCH", "DELETE")


class _Malformed(ValueError):
    """JSON that its format allows, or Python reads, and that is refused here all the same."""


def check_size(request: HttpRequest, most: int = MOST_BODY) -> None:
    """Refuse a body before it is read: one too large, without its length, or not JSON."""
    if request.method not in _WITH_BODY:
        return
    if request.headers.get("Transfer-Encoding"):
        words = _("Send the request with its Content-Length: a body in chunks is not read.")
        raise Problem(411, words)
    have = _length(request)
    if have > most:
        told = {"most": f"{most:,}", "have": f"{have:,}"}
        words = _("A request to this address has at most %(most)s bytes; this has %(have)s.")
        if most == MOST_CONTENT_BODY:
            words += " " + _("The text of a content item has at most 8 MiB: store it in parts.")
        raise Problem(413, words % told, most=most)
    if have and request.content_type != JSON:
        told_type = {"have": request.content_type or "-"}
        words = _("Send JSON, with the header Content-Type: application/json; this is “%(have)s”.")
        raise Problem(415, words % told_type)


def _length(request: HttpRequest) -> int:
    try:
        return max(int(request.META.get("CONTENT_LENGTH") or 0), 0)
    except ValueError:
        return 0


class StrictParser(Parser):
    """Reads bodies and query strings as described above."""

    def parse_body(self, request: HttpRequest) -> Any:
        """Return the JSON of the body.  Raises Problem, with the reason in words."""
        value = parsed(request.body)
        taken: list[str] = []
        value = _cleaned(value, taken)
        _note(request, taken)
        return value

    def parse_querydict(
        self, data: MultiValueDict[str, Any], list_fields: list[str], request: HttpRequest
    ) -> dict[str, Any]:
        """Return the query string's values, with spaces for what no row can hold.

        So they stay as long as they were sent: nothing of them is stored, but lengths are checked.
        """
        read = super().parse_querydict(data, list_fields, request)
        return {
            name: [_spaced(one) for one in value] if isinstance(value, list) else _spaced(value)
            for name, value in read.items()
        }


def parsed(body: bytes) -> Any:
    """Return the value of a JSON text.  Raises Problem for what is none, or too deep."""
    words = ""
    try:
        value = json.loads(
            body.decode("utf-8-sig"), object_pairs_hook=_object, parse_constant=_no_number
        )
        _check_depth(value)
    except _Malformed as exc:
        words = str(exc)
    except UnicodeDecodeError:
        words = _("The body is not UTF-8.")
    except RecursionError:
        words = _too_deep()
    except ValueError as exc:
        words = _("The body is not JSON: %(why)s.") % {"why": exc}
    if words:
        raise Problem(400, words + " " + _("Nothing was done."))
    return value


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        named = Counter(name for name, _value in pairs)
        twice = next(name for name, times in named.items() if times > 1)
        raise _Malformed(_("The body names “%(name)s” twice in one object.") % {"name": twice[:80]})
    return found


def _no_number(text: str) -> Any:
    raise _Malformed(_("The body holds %(text)s, which is no number in JSON.") % {"text": text})


def _too_deep() -> str:
    return _("The body has lists and objects more than %(most)d deep.") % {"most": MOST_DEPTH}


def _check_depth(value: Any) -> None:
    level: list[Any] = [value]
    for _depth in range(MOST_DEPTH + 1):
        level = [inner for one in level for inner in _inside(one)]
        if not level:
            return
    raise _Malformed(_too_deep())


def _inside(value: Any) -> Iterable[Any]:
    found: Iterable[Any] = ()
    if isinstance(value, dict):
        found = value.values()
    elif isinstance(value, list):
        found = value
    return [one for one in found if isinstance(one, dict | list)]


def _spaced(text: str) -> str:
    kept, was_cleaned = clean(text)
    return "".join(clean(char)[0] or " " for char in text) if was_cleaned else kept


def _cleaned(value: Any, taken: list[str], place: str = "") -> Any:
    """Return the value with its texts cleaned; `taken` gets the fields that had something."""
    if isinstance(value, str):
        text, was_cleaned = clean(value)
        if was_cleaned:
            taken.append(place or "body")
        return text
    if isinstance(value, dict):
        kept = {}
        for name, one in value.items():
            field = clean(name)[0]
            kept[field] = _cleaned(one, taken, place or field)
        return kept
    return [_cleaned(one, taken, place) for one in value] if isinstance(value, list) else value


def said_in(request: HttpRequest) -> str:
    """Return all text that a request holds, on one line: its address and the texts of its body."""
    texts = [unquote(request.get_full_path())]
    with suppress(ValueError, RecursionError):  # not JSON: it was refused, and quotes nothing
        texts += texts_in(json.loads(request.body or b"null"))
    return one_line(clean("\n".join(texts))[0])


def texts_in(value: Any) -> list[str]:
    """Return all texts in a JSON value, the names of its fields too."""
    if isinstance(value, str):
        return [value]
    names = list(value) if isinstance(value, dict) else []
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return [*names, *(text for one in inner for text in texts_in(one))]


def _note(request: HttpRequest, taken: list[str]) -> None:
    if taken:
        fields = dict.fromkeys([*getattr(request, "api_cleaned", ()), *taken])
        request.api_cleaned = tuple(fields)  # type: ignore[attr-defined]


def cleaned_header(request: HttpRequest) -> str:
    """Return what the answer's header says: the fields from which characters were taken."""
    fields = getattr(request, "api_cleaned", ())
    return ", ".join(field for field in fields if field.isascii() and field.isprintable())[:500]
