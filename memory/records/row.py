"""One note or observation as a row of its list: what it shows, and where its links lead."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from functools import cache, cached_property, lru_cache
from typing import Any

from django.apps import apps
from django.utils import timezone
from django.utils.html import escape
from django.utils.safestring import SafeString
from django.utils.text import Truncator
from django.utils.translation import get_language

from memory.addresses import address
from memory.models.trash import TRASH_DAYS
from memory.recall.query_text import with_values
from memory.recall.snippets import marked, passage
from memory.records.list_query import CHANGED, NOTES, ListQuery, query_of
from memory.texts.terms import ENGLISH
from memory.texts.text import in_brief

SHOWN, UNFOLDED = 280, 4_000  # characters of a record in its row, and unfolded there


@dataclass
class Row:
    """One record in the list, the words that were asked for marked.

    A page has fifty of them, so what is asked for more than once is kept.
    """

    record: Any
    wanted: ListQuery
    language: str = ENGLISH  # as which the words are stemmed
    origin: str = ""  # its source in words, such as Run #3 of “Batteries”
    writer: str = ""  # the agent that wrote it, where its source does not say so

    @cached_property
    def beginning(self) -> str:
        """Return the record's text as far as a row can unfold it, and one character."""
        text = getattr(self.record, "beginning", None)
        return str(self.record.content if text is None else text)[: UNFOLDED + 1]

    @cached_property
    def label(self) -> SafeString:
        """Return what names the record among others, for those who hear its buttons."""
        return escape(in_brief(self.beginning, 60))

    @property
    def short(self) -> SafeString:
        """Return what the row shows: the whole text, or the passage that fits the words best."""
        words = self.wanted.question.words
        short = passage(self.beginning, words, SHOWN, self.language)
        return marked(short, words, self.language)

    @property
    def is_long(self) -> bool:
        """Whether there is more of it than the row shows."""
        return len(self.beginning) > SHOWN

    @property
    def whole(self) -> SafeString:
        """Return the whole text, as far as a row unfolds it."""
        return marked(self.beginning[:UNFOLDED], self.wanted.question.words, self.language)

    @property
    def is_cut(self) -> bool:
        """Whether even the unfolded row does not show all."""
        return len(self.beginning) > UNFOLDED

    @property
    def when(self) -> Any:
        """Return the moment that the list is about: written, or changed where that is the order."""
        return self.record.updated if self.wanted.sort == CHANGED else self.record.created

    @property
    def has_expired(self) -> bool:
        """Whether it is not recalled any more because its time is over."""
        expires = getattr(self.record, "expires_at", None)
        return expires is not None and expires <= timezone.now()

    @property
    def purged_at(self) -> Any:
        """Return when a record in the trash goes for good."""
        return self.record.trashed_at and self.record.trashed_at + timedelta(days=TRASH_DAYS)

    @property
    def may_be_trashed(self) -> bool:
        """Whether the row offers the trash: the soul, agent and user note that stand do not."""
        return self.wanted.listed is not NOTES or not self.record.is_standing_identity

    @cached_property
    def url(self) -> str:
        """Return the address of the record's page."""
        return self._page_of(self.record.pk)

    @property
    def edit_url(self) -> str:
        """Return the address of the page on which all fields are edited."""
        return address(f"memory:{self.wanted.listed.type}-edit", self.record.pk)

    @property
    def inline_url(self) -> str:
        """Return the address of the row as a form."""
        return address("memory:record-inline", self.record.pk, self.wanted.listed.type)

    @property
    def act_url(self) -> str:
        """Return the address of the one act that every row offers: trash, in the trash restore."""
        act = "record-restore" if self.record.trashed_at else "record-trash"
        return address(f"memory:{act}", self.record.pk, self.wanted.listed.type)

    @property
    def successor_url(self) -> str:
        """Return the address of the note that replaced this one."""
        return self._page_of(self.record.superseded_by_id)

    @property
    def older_url(self) -> str:
        """Return the address of the observation that says almost the same."""
        return self._page_of(self.record.near_duplicate_of_id)

    @property
    def kind(self) -> str:
        """Return in words which kind of note, or category of observation, it is."""
        field = "kind" if self.wanted.listed is NOTES else "category"
        return _word(self.record._meta.label, field, getattr(self.record, field), get_language())

    @property
    def stability(self) -> str:
        """Return in words how long a note is meant to hold."""
        return _word(self.record._meta.label, "stability", self.record.stability, get_language())

    @property
    def tags(self) -> list[tuple[str, str]]:
        """Return the tags as they are shown, each with the query that asks for it."""
        return [(_clipped(tag, 40), _asking("tag", tag)) for tag in self.record.tags]

    @property
    def topic(self) -> str:
        """Return the topic's title, cut to what a row has room for."""
        return _clipped(self.record.topic.title, 40)

    @property
    def source(self) -> str:
        """Return the source in words, since `run:4` says little: cut to what a row has room for."""
        return _clipped(self.origin or self.record.source, 24)

    @property
    def topic_query(self) -> str:
        """Return the query that asks for what is of the same topic."""
        return _asking("topic", self.record.topic.slug)

    @property
    def source_query(self) -> str:
        """Return the query that asks for what came from the same source."""
        return _asking("source", self.record.source)

    def _page_of(self, key: Any) -> str:
        return address(f"memory:{self.wanted.listed.type}", key)


# A page has a hundred of these, of few different ones; made anew each, they took much of its time.
@lru_cache(maxsize=1_000)
def _asking(field: str, value: str) -> str:
    """Return the query string that asks for all with this value."""
    return query_of(with_values("", field, [value]))


def _clipped(text: str, most: int) -> str:
    """Return what `truncatechars` does; that is slow, so short texts are spared it."""
    return text if len(text) <= most else Truncator(text).chars(most)


@cache
def _word(model: str, field: str, value: str, _language: str | None) -> str:
    """Return what a choice is called in the language of the page."""
    choices = apps.get_model(model)._meta.get_field(field).flatchoices
    return str(dict(choices).get(value, value))
