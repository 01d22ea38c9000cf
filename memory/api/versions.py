"""Versions of records in HTTP: `ETag: "<version>"`, and `If-Match` on changes.

A change of one record locks its row from reading to answering, so that the version in the answer
is its own, and `If-Match: *` accepts any version.

A write that could overwrite another must name the version it saw: 428 without `If-Match`, 412 if
the stored version differs.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from contextvars import ContextVar
from functools import wraps
from typing import Any, TypeVar

from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse
from django.utils.translation import gettext as _

from beacon_site.db.errors import retried
from memory.api.problems import Problem

Rows = TypeVar("Rows", bound=QuerySet[Any])
_holds: ContextVar[bool] = ContextVar("_holds", default=False)

_TAGS = re.compile(r'\s*(?:(W/)?"([^"]*)"|([^\s,"]+))\s*(?:,|$)')

# The parameter in the OpenAPI document.
IF_MATCH: dict[str, Any] = {
    "parameters": [
        {
            "in": "header",
            "name": "If-Match",
            "required": True,
            "schema": {"type": "string", "examples": ['"1"']},
            "description": "The ETag of the version this change is based on. * matches any version.",
        }
    ]
}
# The same for an endpoint that can also create the record.
IF_MATCH_OR_NONE: dict[str, Any] = {
    "parameters": [
        {**IF_MATCH["parameters"][0], "required": False},
        {
            "in": "header",
            "name": "If-None-Match",
            "required": False,
            "schema": {"type": "string", "enum": ["*"]},
            "description": "Send * instead of If-Match to create a file that doesn't exist yet.",
        },
    ]
}


def one_transaction(act: Callable[..., Any]) -> Callable[..., Any]:
    """Make a PATCH, PUT or DELETE one transaction, in which `locked_rows()` locks what it changes.

    It is retried once if it loses to another transaction.
    """

    @wraps(act)
    def answer(request: HttpRequest, *args: Any, **kwargs: Any) -> Any:
        if request.method not in ("PATCH", "PUT", "DELETE"):
            return act(request, *args, **kwargs)
        token = _holds.set(True)
        try:
            return retried(lambda: act(request, *args, **kwargs))
        finally:
            _holds.reset(token)

    return answer


def locked_rows(rows: Rows) -> Rows:
    """Lock the rows until the transaction of `one_transaction` ends.

    Outside of one, they aren't locked.
    """
    return rows.select_for_update(of=("self",), no_key=True) if _holds.get() else rows


def tag_of(version: int) -> str:
    return f'"{version}"'


def tagged(response: HttpResponse, record: Any) -> None:
    """Set the answer's ETag to the record's version."""
    response["ETag"] = tag_of(record.version)


def expected_version(request: HttpRequest, record: Any) -> int:
    """Return the version in If-Match; the model compares it on writing.

    Raises Problem: 428 if the header is missing, 412 if it names another version.
    """
    header = request.headers.get("If-Match", "")
    if not header.strip():
        words = _(
            "Nothing was changed. Send an If-Match header with the ETag from your last read, such as If-Match: %(tag)s."
        )
        raise Problem(428, words % {"tag": tag_of(record.version)}, current=record.version)
    if header.strip() == "*" or str(record.version) in _versions(header):
        return int(record.version)
    words = _(
        "This has changed since you read it, so nothing was saved. It’s now at version %(version)d. Read it again, apply your change and send it again."
    )
    raise Problem(412, words % {"version": record.version}, current=record.version)


def _versions(header: str) -> list[str]:
    """Return the versions that a header names; weak ones match nothing (RFC 9110, 13.1.1)."""
    found = _TAGS.findall(header[:500])
    return [quoted or bare for weak, quoted, bare in found if not weak]
