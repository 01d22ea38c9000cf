"""What an endpoint shows of itself in use, remembered for as long as the process lives."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

from beacon_site.providers.endpoint_kinds import kind_of
from beacon_site.providers.llm import JSON_MODES, LlmProfile
from beacon_site.providers.openai_reply import CallFailed

PROMPT = len(JSON_MODES) - 1  # the lowest rung
REFUSED_FORMAT = (400, 415, 422)  # "this response_format I do not know"
BROKE_ON_FORMAT = (500, 501)  # llama-cpp-python answers json_schema so, but so does an outage
_UNKNOWN_FIELD = re.compile(r"unrecognized|unsupported|not supported|unknown|extra", re.I)
STRIKES = 2  # doubtful signs before a rung is given up for good


@dataclass(frozen=True, slots=True)
class Form:
    """How one endpoint wants to be asked: the name of the limit, in pieces or whole, and counted.

    `counts` says whether a stream may be asked to tell its usage.
    """

    limit_field: str
    stream: bool = False
    counts: bool = True


@dataclass(slots=True)
class Learned:
    """What an endpoint has shown of itself in this process."""

    rung: int
    limit_field: str
    strikes: int = 0
    certain_at: int = STRIKES
    streams: bool | None = None
    stream_counts: bool = True
    ignored_schema: bool = False

    def doubt(self, rung: int) -> None:
        """Count a sign, perhaps of an outage, that only `rung` works; believe it at the last."""
        self.strikes += 1
        if self.strikes >= self.certain_at:
            self.rung, self.strikes = rung, 0


@lru_cache(maxsize=64)
def learned_about(profile: LlmProfile) -> Learned:
    """Return what is remembered for this profile; equal profiles share it."""
    rung = JSON_MODES.index(profile.json_mode) if profile.json_mode in JSON_MODES else 0
    limit_field = profile.max_tokens_field or kind_of(profile).limit_field
    return Learned(rung, limit_field, streams=profile.streams)


def in_form(params: Mapping[str, Any], form: Form, max_tokens: int) -> dict[str, Any]:
    """Return the parameters of a request in the given form."""
    made = {**params, form.limit_field: max_tokens}
    if form.stream and form.counts:
        made["stream_options"] = {"include_usage": True}
    return made


def another_form(form: Form, failed: CallFailed) -> Form | None:
    """Return the form to ask in instead if the endpoint complained about this one, else None."""
    said, field = failed.said, form.limit_field
    refused = failed.status in REFUSED_FORMAT
    if form.stream and refused and ("stream_options" in said or "include_usage" in said):
        return replace(form, counts=False)
    other = "max_completion_tokens" if field == "max_tokens" else "max_tokens"
    named = f"'{field}'" in said or bool(_UNKNOWN_FIELD.search(said) and field in said)
    if (refused and named) or (failed.status == 400 and other in said):
        return replace(form, limit_field=other)
    if form.stream and (refused or failed.status == 501) and "stream" in said.lower():
        return replace(form, stream=False)
    return None
