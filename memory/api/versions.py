"""Versions of records in HTTP: `ETag: "<version>"`, and `If-Match` on what changes one.

A change of one record holds its row from reading to answering, so that the version it answers is
its own, and `If-Match: *` takes whatever version there is.

A write that can be lost says which version it saw: without `If-Match` it is refused with 428, with
another version than the stored one with 412.
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

# What the OpenAPI document says of an endpoint that needs it.
IF_MATCH: dict[str, Any] = {
    "parameters": [
        {
            "in": "header",
            "name": "If-Match",
            "required": True,
            "schema": {"type": "string", "examples": ['"1"']},
            "description": "The ETag of the version that this change is based on; * takes any.",
        }
    ]
}
# … and of one that makes what is not there.
IF_MATCH_OR_NONE: dict[str, Any] = {
    "parameters": [
        {**IF_MATCH["parameters"][0], "required": False},
        {
            "in": "header",
            "name": "If-None-Match",
            "required": False,
            "schema": {"type": "string", "enum": ["*"]},
            "description": "In place of If-Match, where there is nothing yet: * only.",
        },
    ]
}


def one_transaction(act: Callable[..., Any]) -> Callable[..., Any]:
    """Let a PATCH, PUT or DELETE be one transaction, in which `held()` holds what it changes.

    It is tried a second time where it loses to another that waits for it.
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


def held(rows: Rows) -> Rows:
    """Hold the rows until the transaction of `one_transaction` ends; outside of one they stay free."""
    return rows.select_for_update(of=("self",), no_key=True) if _holds.get() else rows


def tag_of(version: int) -> str:
    """Return the ETag of a version."""
    return f'"{version}"'


def tagged(response: HttpResponse, record: Any) -> None:
    """Let the answer name the record's version."""
    response["ETag"] = tag_of(record.version)


def expected_version(request: HttpRequest, record: Any) -> int:
    """Return the version that the caller saw, by If-Match; the model compares it on writing.

    Raises Problem: 428 where the header is missing, 412 where it names another version.
    """
    header = request.headers.get("If-Match", "")
    if not header.strip():
        words = _(
            "Say which version you change: send the header If-Match with the ETag that reading it "
            "gave, such as If-Match: %(tag)s. Nothing was changed."
        )
        raise Problem(428, words % {"tag": tag_of(record.version)}, current=record.version)
    if header.strip() == "*" or str(record.version) in _versions(header):
        return int(record.version)
    words = _(
        "It was changed since you read it: it is at version %(version)d now. Nothing was changed: "
        "read it again, put your change into it, and send that."
    )
    raise Problem(412, words % {"version": record.version}, current=record.version)


def _versions(header: str) -> list[str]:
    """Return the versions that a header names; weak ones match nothing (RFC 9110, 13.1.1)."""
    found = _TAGS.findall(header[:500])
    return [quoted or bare for weak, quoted, bare in found if not weak]
