"""Correct facts and report sentences, mark them as checked or wrong, and undo that."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date
from typing import Any

from django.db import IntegrityError, transaction
from django.db.models import Exists, OuterRef, Q
from django.utils import timezone
from django.utils.translation import gettext_lazy

from beacon_site.text.cleaning import clean, is_visible, match_key, one_line, shorten
from beacon_site.text.messages import gettext as _
from memory.models import Activity, Observation, Revision, Sensitivity, Topic, TopicFact, Trust
from memory.models.actors import Actor
from memory.models.errors import InvalidValue, MemoryRefused, StaleWrite
from memory.services.context import topic_block
from memory.services.observations.saving import write_observation
from memory.services.records import history as record_history
from research.claims.matching import match
from research.models import CheckedSentence, CorrectedFact, Correction, Report
from research.services.runs.reporting.sentences import ReportSentence

_WORDS = ("text", "url", "state")


class FactConflict(MemoryRefused):
    """Someone changed the same text in the meantime. Holds the common ancestor and the current version."""

    def __init__(self, base: str, theirs: TopicFact, change: Revision) -> None:
        super().__init__(
            _(
                "This fact has changed since you opened it. Nothing was saved. Compare both versions, then save again to keep yours."
            )
        )
        self.base = base
        self.theirs = theirs
        self.change = change


def edit_fact(
    fact: TopicFact,
    text: str,
    url: str,
    *,
    by: Actor,
    seen: int | None = None,
    **dates: date | None,
) -> None:
    """Correct `fact`, and when it is true, as it was in version `seen`, or as it is loaded if `seen` is None.

    Changes by others to order or lock aren't a conflict. A struck or retired fact becomes current
    again with the new text. Raises FactConflict if text, URL or state changed in the meantime or
    version `seen` never existed, InvalidValue and LimitReached.
    """
    try:
        with transaction.atomic():
            if fact.state != TopicFact.State.CURRENT and seen in (None, fact.version):
                fact.unstrike(by=by)
                seen = fact.version
            fact.edit(text, by=by, expected_version=seen, url=url, **dates)
    except StaleWrite as exc:
        with transaction.atomic():
            now = TopicFact.objects.select_for_update().get(pk=fact.pk)
            seen = seen or 0
            # If the version never existed, the whole history is unseen.
            later = _later_changes(now, seen if seen <= now.version else 0)
            if later:
                base = next((c.before["text"] for c in later if "text" in c.before), now.text)
                raise FactConflict(base, now, later[-1]) from exc
            now.edit(text, by=by, url=url, **dates)
        fact.refresh_from_db()


def _later_changes(fact: TopicFact, seen: int) -> list[Revision]:
    """Return the revisions after version `seen` that changed what the fact says, oldest first."""
    revisions = Revision.objects.filter(
        record_type=fact.record_type(), record_id=fact.pk, version__gt=seen
    )
    found = revisions.order_by("version")
    return [
        change
        for change in found
        if any(change.before.get(name) != change.after.get(name) for name in _WORDS)
    ]


def move_fact(fact: TopicFact, way: str, *, by: Actor) -> None:
    """Move a current fact one place `up` or `down`. At the end of the list, it doesn't move."""
    with transaction.atomic():
        # Read the order under the lock, or a later move would undo an earlier one.
        Topic.objects.select_for_update(no_key=True).get(pk=fact.topic_id)
        current = TopicFact.objects.filter(topic=fact.topic_id).current()
        ids = list(current.values_list("pk", flat=True))
        if fact.pk not in ids:
            return
        place = ids.index(fact.pk)
        other = place - 1 if way == "up" else place + 1
        if 0 <= other < len(ids):
            ids[place], ids[other] = ids[other], ids[place]
            TopicFact.objects.reorder(fact.topic, ids, by=by)


def restore_fact(fact: TopicFact, *, by: Actor) -> None:
    """Restore a fact from the trash, as a current fact if there is room.

    Raises LimitReached if people have eight of them already, and InvalidValue if a run has found
    the same fact again. Then it stays in the trash.
    """
    with transaction.atomic():
        Topic.objects.select_for_update().get(pk=fact.topic_id)
        if fact.trashed_at is not None and fact.state == TopicFact.State.CURRENT:
            current = list(TopicFact.objects.filter(topic=fact.topic_id).current())
            if any(other.key == fact.key for other in current):
                raise InvalidValue(_("The topic already has this fact."))
            if fact.is_kept:
                TopicFact.check_room(current)
            if len(current) >= TopicFact.MAX_CURRENT:
                replaceable = [other for other in current if not other.is_kept]
                replaceable[-1].retire(
                    by=by,
                    why=_("removed to make room for a fact restored from Trash"),
                    how=TopicFact.RetiredAs.OUTRANKED,
                )
        fact.restore(by=by)


# --- sentences ---

MAX_WORDS = 1000  # in each of the two texts
MAX_SENTENCES = 40  # that a run is instructed not to repeat
MAX_FACTS = 20  # of a topic that are compared with a sentence


SeenFact = tuple[TopicFact, int]  # a fact, and the version that the person saw


def facts_of(report: Report, sentence: ReportSentence) -> list[TopicFact]:
    """Return the topic's facts that say the same as a sentence, current ones first.

    They use the same words, or others with the same numbers, names and negations.
    """
    rows = TopicFact.objects.filter(topic=report.run.topic_id).live()
    rows = rows.exclude(state=TopicFact.State.STRUCK)
    key = match_key(sentence.text)
    same = list(rows.filter(key=key).order_by("state", "position")[:MAX_FACTS])
    rest = list(rows.current().exclude(key=key)[:MAX_FACTS])
    alike = [fact for fact in rest if _says(fact, sentence)]
    return same + alike


def _says(fact: TopicFact, sentence: ReportSentence) -> bool:
    found = match(sentence.text, [fact.text])
    return found is not None and found.kind == "confirmed"


# --- checked by a person ---


def check(report: Report, sentence: ReportSentence, *, by: Actor) -> bool:
    """Mark a sentence as checked by a person. Return False if it already is."""
    try:
        with transaction.atomic():
            made = CheckedSentence.objects.create(
                owner=report.owner,
                report=report,
                sentence=sentence.text,
                key=sentence.key,
                by=str(by),
            )
            _log(made, report, by, "sentence-checked")
    except IntegrityError:
        return False
    return True


def uncheck(report: Report, key: str, *, by: Actor) -> bool:
    """Remove the mark. Return False if the sentence has none."""
    with transaction.atomic():
        standing = CheckedSentence.objects.filter(report=report, key=key).standing()
        one = standing.select_for_update().first()
        if one is None:
            return False
        CheckedSentence.objects.filter(pk=one.pk).update(undone_at=timezone.now())
        _log(one, report, by, "sentence-unchecked")
    return True


def _log(subject: Any, report: Report, by: Actor, kind: str, **detail: Any) -> None:
    label = f"{report.title}, {report.run}: {shorten(subject.sentence, 80)}"
    subject.topic_id = report.run.topic_id  # the activity log needs the topic
    Activity.log(report.owner, by, kind, subject=subject, label=label[:200], **detail)


# --- marked as wrong ---


def checked_words(wrong: str, right: str) -> tuple[str, str]:
    """Return both texts as stored. Raises InvalidValue by field if both are empty or one is too long."""
    wrong, right = one_line(clean(wrong)[0]), one_line(clean(right)[0])
    errors = {}
    if not is_visible(wrong) and not is_visible(right):
        errors["wrong"] = [_("Describe what’s wrong, so later runs can learn from it.")]
    for name, text in (("wrong", wrong), ("right", right)):
        if len(text) > MAX_WORDS:
            words = _("Use at most %(most)d characters (currently %(count)d).")
            errors[name] = [words % {"most": MAX_WORDS, "count": len(text)}]
    if errors:
        raise InvalidValue(" ".join(one for many in errors.values() for one in many), errors=errors)
    return wrong, right


def correct(
    report: Report,
    sentence: ReportSentence,
    *,
    wrong: str = "",
    right: str = "",
    facts: Sequence[SeenFact] = (),
    by: Actor,
) -> Correction:
    """Mark a sentence as wrong, and correct or strike its facts in the versions the person saw.

    With `right`, the first current fact gets that text and the others are struck. Without it, all
    are struck. Later runs get a lesson. The report's text doesn't change. Raises
    InvalidValue, LimitReached, or FactConflict if a fact changed since. Then nothing is stored.
    """
    wrong, right = checked_words(wrong, right)
    try:
        with transaction.atomic():
            _hold(report.run.topic_id)
            correction = Correction.objects.create(
                owner=report.owner,
                topic_id=report.run.topic_id,
                report=report,
                sentence=sentence.text,
                key=sentence.key,
                wrong=wrong,
                right=right,
                by=str(by),
            )
            done = _change_facts(correction, facts, by=by)
            correction.lesson = _taught(correction, report, facts, by)
            correction.save(update_fields=["lesson"])
            _log(correction, report, by, "report-corrected", facts=len(done))
    except IntegrityError as exc:
        if "sentence_corrected_once" not in str(exc):
            raise
        problem = _("This sentence already has a correction. Undo it first.")
        raise InvalidValue(problem) from exc
    return correction


def _taught(
    correction: Correction, report: Report, facts: Sequence[SeenFact], by: Actor
) -> Observation:
    """Write the lesson. It quotes the facts, so it is sensitive if one of them is."""
    is_secret = any(fact.sensitivity == Sensitivity.SENSITIVE for fact, _version in facts)
    return write_observation(
        report.owner,
        "lesson",
        _lesson(correction, report),
        by=by,
        tags=[topic_block.TAG],
        topic=report.run.topic,
        trust=Trust.OWNER,
        sensitivity=Sensitivity.SENSITIVE if is_secret else Sensitivity.NORMAL,
        step_name=str(report.run)[:200],
        step_type="RUN",
    )


def _lesson(correction: Correction, report: Report) -> str:
    values = {
        "title": shorten(report.title, 120),
        "run": report.run,
        "said": correction.sentence,
        "wrong": correction.wrong,
        "right": correction.right,
    }
    if correction.right and not correction.wrong:
        return _("%(title)s, %(run)s said: “%(said)s” Correct: %(right)s") % values
    if correction.right:
        return (
            _("%(title)s, %(run)s said: “%(said)s” This is wrong: %(wrong)s Correct: %(right)s")
            % values
        )
    return _("%(title)s, %(run)s said: “%(said)s” This is wrong: %(wrong)s") % values


def _change_facts(
    correction: Correction, facts: Sequence[SeenFact], *, by: Actor
) -> list[CorrectedFact]:
    why = _("corrected in a report")
    if correction.wrong:
        why = _("corrected in a report: %(wrong)s") % {"wrong": shorten(correction.wrong, 200)}
    is_current = TopicFact.State.CURRENT
    first = next((fact for fact, _version in facts if fact.state == is_current), None)
    done = []
    for fact, version in facts:
        _check_seen(fact, version)
        before = fact.text
        was = {"was_edited_by_person": fact.edited_by_person, "previous_trust": fact.trust}
        if correction.right and fact is first:
            edit_fact(fact, correction.right, fact.url, by=by, seen=version)
            fact.refresh_from_db()
            action, after = CorrectedFact.Action.CORRECTED, fact.text
        else:
            fact.strike(by=by, why=why)
            action, after = CorrectedFact.Action.STRUCK, ""
        done.append(
            CorrectedFact(
                correction=correction,
                fact=fact,
                action=action,
                before=before,
                after=after,
                version=fact.version,
                **was,
            )
        )
    return CorrectedFact.objects.bulk_create(done)


def _hold(topic_id: Any) -> None:
    """Lock the topic before its facts, like saving a run does, to avoid a deadlock."""
    Topic.objects.select_for_update().get(pk=topic_id)


def _check_seen(shown: TopicFact, version: int) -> None:
    """Raise InvalidValue if the fact's text changed since the person saw it."""
    fact = TopicFact.objects.select_for_update().get(pk=shown.pk)
    if fact.version == version:
        return
    then = record_history.state_at(fact, version)
    if version > fact.version or {"text", "state"} & then.keys() or fact.trashed_at:
        problem = _(
            "The fact “%(fact)s” has changed since you opened this page. Nothing was saved, but your text is still here. Check the current fact, then save again."
        )
        raise InvalidValue(problem % {"fact": shorten(fact.text, 120)})
    shown.refresh_from_db()


def corrected_sentences(topic: Topic) -> dict[str, bool]:
    """Return the sentences of the topic's reports that people marked as wrong, newest first.

    The value says whether its fact or lesson is marked sensitive.
    """
    secret = Q(lesson__sensitivity=Sensitivity.SENSITIVE) | Exists(
        CorrectedFact.objects.filter(
            correction=OuterRef("pk"), fact__sensitivity=Sensitivity.SENSITIVE
        )
    )
    rows = Correction.objects.filter(topic=topic).standing().annotate(is_secret=secret)
    values: dict[str, bool] = {}
    for sentence, is_secret in rows.values_list("sentence", "is_secret")[:MAX_SENTENCES]:
        values[sentence] = is_secret or values.get(sentence, False)
    return values


# --- undo ---

PROBLEM = gettext_lazy("The correction can’t be fully undone, so nothing was changed. %(why)s")


def undo_change(correction: Correction, *, by: Actor) -> bool:
    """Undo a correction: facts, lesson and mark. Return False if it is already undone.

    Raises MemoryRefused if a fact changed again since. Then nothing is undone.
    """
    with transaction.atomic():
        _hold(correction.topic_id)
        mine = Correction.objects.filter(pk=correction.pk).standing().select_for_update()
        if not mine.exists():
            return False
        for changed in correction.facts.order_by("-id"):
            _undo_fact(changed, by=by)
        lesson = correction.lesson
        if lesson is not None and lesson.trashed_at is None:
            lesson.trash(by=by, why=_("the correction was undone"))
        mine.update(undone_at=timezone.now())
        _log(correction, correction.report, by, "correction-undone")
    return True


def _undo_fact(changed: CorrectedFact, *, by: Actor) -> None:
    rows = Revision.objects.filter(
        owner=changed.correction.owner_id,
        record_type=TopicFact.record_type(),
        record_id=changed.fact_id,
        version=changed.version,
    )
    revision = rows.first()
    if revision is None:  # imported from an archive without history
        raise MemoryRefused(str(PROBLEM) % {"why": _("The fact’s history is missing.")})
    try:
        fact = record_history.undo(revision, by=by)
        fact.refresh_from_db()
        # Runs can replace it again, and its trust is as before.
        why = _("the correction was undone")
        fact.change(
            by=by,
            why=why,
            edited_by_person=changed.was_edited_by_person,
            trust=changed.previous_trust,
        )
    except MemoryRefused as exc:
        raise MemoryRefused(str(PROBLEM) % {"why": exc}) from exc
