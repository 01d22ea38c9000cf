"""`/topics/{slug}/sources`: what each source contributed to a topic, and its rule."""

from __future__ import annotations

from datetime import datetime
from typing import Any, Literal, Self

from django.http import HttpResponse
from django.utils.translation import gettext as _
from pydantic import BaseModel, Field

from memory.api.auth import READ, WRITE, ApiRequest, only_people
from memory.api.frame import Body, router
from memory.api.paging import PAGE, Listing, PageParams, closed, opened
from memory.api.problems import not_found
from memory.api.shown import Textless, item, shows
from research.execution import agents_topics
from research.sources import figures as sources_figures
from research.sources import rules as source_rules
from research.sources.figures import DeskRow, Rules, SourcesFilter
from research.sources.rules import ALL, TOPIC
from research.topics import page as topic_page

api = router("topics")
_SOURCES = "/{slug:slug}/sources"
Acts = Literal["block", "boost", "mute", "none"]


class SourcesQuery(PageParams):
    """Which sources, in which order."""

    by: Literal["domain", "page"] = "domain"
    q: str = Field("", max_length=200, description="Words in the title or URL.")
    domain: str = Field("", max_length=255, description="Only pages on this domain.")
    state: Literal[
        "", "block", "boost", "mute", "cited", "facts", "contradicted", "unsupported", "failed",
        "quarantined",
    ] = ""  # fmt: skip
    sort: str = Field(
        "cited",
        max_length=20,
        description="A count, last_at or name. Prefix it with ^ for ascending order.",
    )


class TopicSourceOut(BaseModel):
    """One domain or page, and its contributions to the topic."""

    place: str = Field(description="The domain, or the page's canonical URL.")
    domain: str
    title: str
    pages: int
    returned: int
    read: int
    cited: int
    facts: int = Field(description="Facts first found here.")
    confirmed: int
    contradicted: int
    unsupported: int = Field(description="Sentences that cite it but aren't supported by it.")
    failed: int
    why_unread: str
    last_seen: datetime | None
    here: Acts = Field(description="The topic's rule for exactly this domain or page.")
    in_all: Acts = Field(description="The rule for exactly this domain or page in all topics.")
    effect: Acts = Field(description="The rule that applies in the next run.")

    @classmethod
    def of(cls, row: DeskRow) -> Self:
        figures = row.figures
        same = ("place", "domain", "title", "pages", *sources_figures.FIGURES)
        return cls(
            why_unread=figures.why,
            last_seen=figures.last_at,
            here=row.here,  # type: ignore[arg-type]
            in_all=row.in_all,  # type: ignore[arg-type]
            effect=row.effect,  # type: ignore[arg-type]
            **{name: getattr(figures, name) for name in same},
        )


class SourceRuleIn(Body):
    """A rule for a source, which applies from the next run."""

    place: str = Field(min_length=1, max_length=2048, description="A domain or a URL.")
    act: Acts
    everywhere: bool = Field(False, description="For all topics of the owner.")


class SourceRuleOut(Textless):
    """A rule as stored, and the one it replaced."""

    place: str
    act: Acts
    before: Acts


@api.get(_SOURCES, auth=READ, response=Listing[TopicSourceOut])
def list_sources(
    request: ApiRequest, slug: str, wanted: SourcesQuery = PAGE
) -> Listing[TopicSourceOut]:
    """List a topic's domains or pages, with their contributions."""
    topic, name = _topic(request, slug), f"sources of {slug}"
    asked = SourcesFilter.of(wanted.model_dump())
    rules, start = Rules.of(topic), sources_figures.offset_of(opened(wanted, name))
    question = sources_figures.question(asked, rules)
    found = sources_figures.page_of(topic, question, offset=start, size=wanted.limit + 1)
    more = str(start + wanted.limit) if len(found) > wanted.limit else None
    rows = [sources_figures.row_of(one, rules) for one in found[: wanted.limit]]
    shows()
    return Listing(items=[item(TopicSourceOut.of, row) for row in rows], next=closed(more, name))


@api.patch(_SOURCES, auth=WRITE, response=SourceRuleOut)
def treat_source(
    request: ApiRequest, response: HttpResponse, slug: str, rule: SourceRuleIn
) -> SourceRuleOut:
    """Block, boost or mute a source, or remove its rule (`none`). Applies from the next run.

    403 for agents: muting hides changes from the owner, and only the owner can set rules for all
    topics or change their own.
    """
    topic = _topic(request, slug)
    if rule.everywhere or rule.act == "mute":
        only_people(request.auth, _("Only a person can mute a source or set rules for all topics."))
    caller = request.auth
    if not caller.by.is_person:
        agents_topics.check_own(topic, caller.by)
        trust = caller.write_trust
        agents_topics.check_review(caller.owner, [rule.place], by=caller.by, trust=trust)
    scope = ALL if rule.everywhere else TOPIC
    changed = source_rules.set_rule(topic, rule.place, rule.act, scope=scope, by=request.auth.by)
    return SourceRuleOut(place=changed.place, act=rule.act, before=changed.before)  # type: ignore[arg-type]


def _topic(request: ApiRequest, slug: str) -> Any:
    caller = request.auth
    topics: Any = topic_page.topics_of(caller.owner).filter(slug=slug)
    if not caller.by.is_person:
        topics = topics.for_agents()
    topic = topics.first()
    if topic is None:
        raise not_found(_("This topic doesn’t exist, is in Trash, or isn’t yours."))
    return topic
