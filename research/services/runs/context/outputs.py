"""What the steps of a run hand to each other: the outputs that their rows store as JSON.

`RunContext.output` returns these types by the step's name. A recheck's steps have the same names and
types, so the fields that only they have are optional here. What only pages show isn't listed.
"""

from __future__ import annotations

from typing import Any, NotRequired, TypedDict

Versions = dict[str, list[str]]  # URL -> the ETag and the date that its server named


class LoadedMemory(TypedDict):
    """load_memory: the topic's memory (`TopicMemory.as_json`), or None for a baseline."""

    memory: dict[str, Any] | None
    problem: str
    expires_at: NotRequired[str | None]


class PlanReviewed(TypedDict):
    """Who reviewed a plan, and when. `by` is empty if the run continued without a review."""

    by: str
    at: str
    edited: bool


class PlanOutput(TypedDict):
    """plan: the queries, and the rules and records that they follow."""

    queries: list[str]
    by: str
    always: NotRequired[list[str]]
    not_at: NotRequired[list[str]]
    observations: NotRequired[list[str]]
    taught: NotRequired[list[str]]
    proposed: NotRequired[list[str]]  # before a person edited them
    reviewed: NotRequired[PlanReviewed]
    facts: NotRequired[list[str]]  # that a recheck checks


class AskedQuery(TypedDict):
    """One query to one service, without its hits. If `tries` is 0, it was skipped."""

    query: str
    service: str
    hits: int
    tries: int
    ms: int
    problem: str
    may_retry: bool
    retry_after: float | None
    unreachable: bool


class SearchOutput(TypedDict):
    """search: the queries sent so far, and the services in the topic's order."""

    asked: list[AskedQuery]
    order: list[str]
    versions: NotRequired[Versions]  # of a recheck


class FilterOutput(TypedDict):
    """filter_seen: the number of hits of each state, and of those left out by each rule."""

    new: int
    known: int
    returning: int
    blocked: int
    left_out: NotRequired[dict[str, int]]
    queries: NotRequired[list[str]]  # of a recheck
    versions: NotRequired[Versions]  # of a recheck


class TrackOutput(TypedDict):
    """One track: its notes, and what it searched for and opened."""

    track: str
    notes: str
    asked: list[AskedQuery]
    opened: list[int]


class TrackNotes(TypedDict):
    """The notes of a track for the report."""

    track: str
    notes: str


class TracksOutput(TypedDict, total=False):
    """tracks: the places of the hits that the tracks opened, and their notes, or why there are none."""

    opened: list[int]
    tracks: list[TrackNotes]
    why: str


class ReadOutput(TypedDict):
    """read: the versions of pages that servers named. The counts are there once it's done."""

    versions: Versions
    read: NotRequired[int]
    read_again: NotRequired[int]
    failed: NotRequired[int]
    near_duplicates: NotRequired[int]


class Finding(TypedDict):
    """A sentence of the report with its sources and its quote."""

    sentence: str
    citations: list[int]
    quote: str


class VerifiedFinding(Finding):
    """A finding after its check. `support` is `page` or `snippet`, where the quote was found."""

    supported: bool
    support: str


class CitedSource(TypedDict):
    """One numbered source of the report."""

    n: int
    url: str
    link: str
    title: str
    domain: str
    published_at: str | None
    state: str
    quotes: list[dict[str, Any]]
    is_earlier: NotRequired[bool]  # of a known fact, whose page wasn't read in this run
    trust: NotRequired[str]
    derived_from: NotRequired[dict[str, Any]]
    repeated_by: NotRequired[list[dict[str, Any]]]


class SentenceCheck(TypedDict):
    """Whether a cited sentence is supported, by how many sources, and how many are independent."""

    sentence: str
    key: str
    supported: bool
    why: str
    sources: int
    independent: int


class WriteOutput(TypedDict):
    """write: the report. The first `main` findings are the facts of a baseline.

    `changes` are those of `Change.as_json`, and `standing` the IDs of facts that stay.
    """

    summary: str
    body: str
    findings: list[Finding]
    main: int
    changes: list[dict[str, Any]]
    standing: list[str]
    sources: list[CitedSource]
    written_by: str
    is_extractive: bool
    is_quiet: bool
    quiet: str
    checked: str  # what was checked again, for a template
    heading: str
    since: str
    fell_back: bool  # a model failed, so the report was written without it


class VerifyOutput(TypedDict):
    """verify: the report with its unsupported sentences marked."""

    findings: list[VerifiedFinding]
    changes: list[dict[str, Any]]
    body: str
    sources: list[CitedSource]
    checks: list[SentenceCheck]


class JudgeOutput(TypedDict, total=False):
    """judge: the changes with their judgment. Empty for a first run."""

    changes: list[dict[str, Any]]
    by: str


class SaveOutput(TypedDict):
    """save: the run's number, what changed in memory, and why it wasn't saved, if so."""

    number: int
    facts_learned: int
    facts_confirmed: int
    facts_retired: int
    problem: str
