"""Versions of records in HTTP: `ETag: "<version>"`, and `If-Match` on what changes one.

A write that can be lost says which version it saw: without `If-Match` it is refused with 428, with
another version than the stored one with 412.
"""

from __future__ import annotations

import re
from typing import Any

from django.http import HttpRequest, HttpResponse
from django.utils.translation import gettext as _

from memory.api.problems import Problem

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
