"""What has changed since a proposal: the facts that it quotes, and the record it would change.

Data flow: proposals -> their topics -> facts that were replaced, corrected or marked as wrong ->
those whose words are in the proposal's new lines; and the versions of their targets. A handful of
queries for any number of proposals.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from django.db.models import Q
from django.utils.translation import gettext as _

from beacon_site.text.cleaning import match_key, shorten, uuid_of
from beacon_site.text.diff import Row, diff, folded
from memory.models import MemoryFile, Note, Proposal, Reflection, Revision, TopicFact, User
from memory.models.origins import HEURISTIC
from memory.services.review.risks import added_lines

MAX_FACTS = 5_000  # checked for one page of proposals, the latest changed first
MAX_ROWS = 24  # of a diff
MAX_STEPS = 20  # from a fact through its replacements to the current one
_REPLACED, _WRONG, _CORRECTED, _TARGET = "replaced", "wrong", "corrected", "target"


@dataclass(frozen=True, slots=True)
class Outdated:
    """One reason why a proposal is outdated: `old` is its text, `new` the current one.

    `kind` is replaced, wrong, corrected, or target (the record it would change was changed).
    """

    kind: str
    old: str = ""
    new: str = ""
    run: int | None = None
    version_seen: int | None = None
    version: int | None = None

    @property
    def is_target(self) -> bool:
        """Return True if the target has changed, rather than a fact."""
        return self.kind == _TARGET

    @property
    def rows(self) -> list[Row]:
        """Return the beginning of a diff of both texts."""
        return folded(diff(self.old, self.new))[:MAX_ROWS]

    @property
    def words(self) -> str:
        """Return what happened, as the heading of both texts."""
        if self.kind == _REPLACED:
            return _("Run #%(run)d replaced this") % {"run": self.run}
        if self.kind == _WRONG:
            return _("You marked this as wrong")
        if self.kind == _CORRECTED:
            return _("This fact was corrected")
        params = {"seen": self.version_seen, "now": self.version}
        if self.version is None:
            return _("Changed since this was proposed")
        if self.version_seen is None:
            return _("The file was created after the proposal")
        return _("Changed since this was proposed: version %(seen)d is now %(now)d") % params


def outdated(owner: User, proposals: Sequence[Proposal]) -> dict[UUID, list[Outdated]]:
    """Return what has changed since, for each outdated proposal."""
    found: dict[UUID, list[Outdated]] = defaultdict(list)
    for part in (_facts(owner, proposals), _files(owner, proposals), _notes(owner, proposals)):
        for key, one in part:
            found[key].append(one)
    return dict(found)


def with_newer_texts(proposal: Proposal, found: Iterable[Outdated]) -> dict[str, Any]:
    """Return what `accept` takes as `after` to store the newer texts in place of the old ones.

    Empty if there is no newer text, or the proposal paraphrases the old one.
    """
    newer = [(one.old, one.new) for one in found if one.new and not one.is_target]
    lines = proposal.after.get("lines")
    if lines:
        changed = [{**line, "content": _put_in(str(line["content"]), newer)} for line in lines]
        return {"lines": changed} if changed != lines else {}
    content = str(proposal.after.get("content", ""))
    text = _put_in(content, newer)
    return {"content": text} if text != content else {}


def _put_in(text: str, newer: Iterable[tuple[str, str]]) -> str:
    for old, new in newer:
        text = text.replace(old, new)
    return text


# --- facts ----------------------------------------------------------------------------------------


def _facts(owner: User, proposals: Sequence[Proposal]) -> Iterable[tuple[UUID, Outdated]]:
    topics = _topics(owner, proposals)
    every = {key for keys in topics.values() for key in keys}
    if not every:
        return
    gone = Q(state__in=[TopicFact.State.RETIRED, TopicFact.State.STRUCK]) | Q(version__gt=1)
    facts = TopicFact.objects.for_user(owner).live().filter(gone, topic__in=every)
    by_topic: dict[Any, list[TopicFact]] = defaultdict(list)
    for fact in facts.order_by("-updated")[:MAX_FACTS]:
        by_topic[fact.topic_id].append(fact)
    quoted: list[tuple[Proposal, TopicFact]] = []
    earlier = _earlier_texts(by_topic.values())
    for proposal in proposals:
        message = f" {match_key(' '.join(_new_lines(proposal)))} "
        for fact in (fact for key in topics.get(proposal.pk, ()) for fact in by_topic[key]):
            if f" {fact.key} " in message and fact.state != TopicFact.State.CURRENT:
                quoted.append((proposal, fact))
            for text in earlier.get(fact.pk, ()):
                key = match_key(text)
                if key != fact.key and f" {key} " in message and f" {fact.key} " not in message:
                    yield proposal.pk, Outdated(_CORRECTED, old=text, new=fact.text)
    yield from _quoted_facts_changed(owner, quoted)


def _topics(owner: User, proposals: Sequence[Proposal]) -> dict[UUID, set[Any]]:
    """Return the topics of each proposal: from its run's facts, its reflection, or its own field."""
    sources = {proposal.source.removesuffix(HEURISTIC) for proposal in proposals if proposal.source}
    of_source: dict[str, set[Any]] = defaultdict(set)
    rows = TopicFact.objects.for_user(owner).filter(source__in=sources).order_by()
    for source, topic in rows.values_list("source", "topic").distinct():
        of_source[source].add(topic)
    reflected = Reflection.objects.for_user(owner).filter(source__in=sources).exclude(topic=None)
    for source, topic in reflected.values_list("source", "topic"):
        of_source[source].add(topic)
    found: dict[UUID, set[Any]] = {}
    for one in proposals:
        found[one.pk] = set(of_source[one.source.removesuffix(HEURISTIC)])
        kind, _colon, key = one.source.partition(":")
        for named in (one.after.get("topic_id"), key if kind == "topic" else None):
            if pk := uuid_of(named):
                found[one.pk].add(pk)
    return found


def _new_lines(proposal: Proposal) -> list[str]:
    after = proposal.after
    if after.get("lines"):
        return [str(line.get("content", "")) for line in after["lines"]]
    before = str(proposal.before.get("content", ""))
    return added_lines(before, str(after.get("content", "")))


def _earlier_texts(groups: Iterable[Iterable[TopicFact]]) -> dict[Any, list[str]]:
    """Return the texts that current facts had before they were corrected."""
    ids = [
        fact.pk
        for facts in groups
        for fact in facts
        if fact.state == TopicFact.State.CURRENT and fact.version > 1
    ]
    if not ids:
        return {}
    revisions = Revision.objects.filter(
        record_type=TopicFact.record_type(), record_id__in=ids, before__has_key="text"
    )
    found: dict[Any, list[str]] = defaultdict(list)
    for key, before in revisions.order_by("id").values_list("record_id", "before"):
        if before["text"]:
            found[key].append(str(before["text"]))
    return found


def _quoted_facts_changed(
    owner: User, quoted: Sequence[tuple[Proposal, TopicFact]]
) -> Iterable[tuple[UUID, Outdated]]:
    """Add the quoted facts that are wrong or were replaced."""
    current = _current(owner, {fact.topic_id for _proposal, fact in quoted})
    successors = _successors(owner, {fact.topic_id for _proposal, fact in quoted})
    for proposal, fact in quoted:
        if (fact.topic_id, fact.key) in current:
            continue  # a later run found it again
        if fact.state == TopicFact.State.STRUCK:
            yield proposal.pk, Outdated(_WRONG, old=fact.text)
            continue
        newest, run = fact, fact.retired_run
        for _step in range(MAX_STEPS):
            following = successors.get(newest.pk)
            if following is None:
                break
            newest = following
        if newest is not fact:
            yield proposal.pk, Outdated(_REPLACED, old=fact.text, new=newest.text, run=run)


def _current(owner: User, topics: set[Any]) -> set[tuple[Any, str]]:
    if not topics:
        return set()
    rows = TopicFact.objects.for_user(owner).current().filter(topic__in=topics)
    return set(rows.values_list("topic_id", "key"))


def _successors(owner: User, topics: set[Any]) -> dict[Any, TopicFact]:
    """Return which fact replaced each retired one.

    The run that retired it named its successor in the reason, shortened, and stored that as a fact.
    """
    if not topics:
        return {}
    facts = list(TopicFact.objects.for_user(owner).live().filter(topic__in=topics))
    by_run: dict[tuple[Any, int | None], list[TopicFact]] = defaultdict(list)
    for fact in facts:
        by_run[fact.topic_id, fact.first_run].append(fact)
    retired = {fact.pk: fact for fact in facts if fact.state == TopicFact.State.RETIRED}
    reasons = Revision.objects.filter(
        record_type=TopicFact.record_type(),
        record_id__in=list(retired),
        after__state=TopicFact.State.RETIRED,
    )
    found: dict[Any, TopicFact] = {}
    for key, reason in reasons.order_by("id").values_list("record_id", "reason"):
        old = retired[key]
        for new in by_run[old.topic_id, old.retired_run]:
            if new.pk != old.pk and shorten(new.text, 300) in reason:
                found[key] = new
    return found


# --- targets --------------------------------------------------------------------------------------


def _files(owner: User, proposals: Sequence[Proposal]) -> Iterable[tuple[UUID, Outdated]]:
    """Add the files whose text has changed since the proposal.

    What accepting other proposals wrote does not count, and a new entry goes to the end of any text.
    """
    values = {
        one.pk: str(one.after.get("path", ""))
        for one in proposals
        if one.record_type == "memoryfile" and not one.after.get("entry")
    }
    if not values:
        return
    rows = MemoryFile.objects.for_user(owner).live().filter(path__in=set(values.values()))
    files = {file.path: file for file in rows}
    accepted = _accepted_versions(owner, [file.pk for file in files.values()])
    for proposal in proposals:
        file = files.get(values.get(proposal.pk, ""))
        if file is None or file.version == proposal.version_seen:
            continue
        if proposal.version_seen is None:
            since = set(range(1, file.version + 1))
        else:
            since = set(range(proposal.version_seen + 1, file.version + 1))
        before, after = str(proposal.before.get("content", "")), proposal.after.get("content")
        if file.content in (before, after) or since <= accepted[file.pk]:
            continue
        yield (
            proposal.pk,
            Outdated(_TARGET, before, str(file.content), None, proposal.version_seen, file.version),
        )


def _accepted_versions(owner: User, ids: Sequence[UUID]) -> dict[UUID, set[int]]:
    found: dict[UUID, set[int]] = defaultdict(set)
    rows = Proposal.objects.for_user(owner).filter(state=Proposal.State.ACCEPTED, result_id__in=ids)
    for results in rows.order_by().values_list("results", flat=True):
        for _type, key, version in results:
            found[UUID(key)].add(version)
    return found


def _notes(owner: User, proposals: Sequence[Proposal]) -> Iterable[tuple[UUID, Outdated]]:
    keys_by_id = {
        one.pk: one.target_id
        for one in proposals
        if one.record_type == "note" and one.target_id is not None
    }
    if not keys_by_id:
        return
    rows = Note.objects.for_user(owner).filter(pk__in=set(keys_by_id.values()))
    notes: Mapping[Any, Note] = {note.pk: note for note in rows.select_related("superseded_by")}
    for proposal in proposals:
        note = notes.get(keys_by_id.get(proposal.pk))
        if note is None:
            continue
        newest = note.superseded_by or note
        before = str(proposal.before.get("content", ""))
        if newest.content not in (before, proposal.after.get("content")):
            yield proposal.pk, Outdated(_TARGET, before, str(newest.content))
