"""Memory's background tasks, scheduled by Celery beat."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import timedelta
from itertools import islice
from typing import Any

import structlog
from celery import shared_task
from django.apps import apps
from django.utils import timezone

from beacon_site.db.advisory_locks import LockId, advisory_lock
from beacon_site.db.errors import LoggedFailure
from beacon_site.db.statistics import analyze_changed
from beacon_site.worker_threads import FINDS_NOTHING
from memory.accounts import oauth, sign_ins
from memory.accounts.archive import jobs
from memory.agents.chat import end as conversation_end
from memory.agents.chat import turn as conversation_turn
from memory.agents.chat import without as chat_without
from memory.models import (
    Activity,
    ApiAnswer,
    CallReservation,
    PublishDue,
    Remembered,
    Undo,
    User,
)
from memory.models.actors import MAINTENANCE
from memory.models.errors import InvalidValue
from memory.models.remembered import TRASH_DAYS
from memory.pages.records import bulk
from memory.services import backups, topic_memory
from memory.services.content import items as content_services
from memory.services.files import agent_folders, mirror, mirror_disk
from memory.services.files import condensing as file_condensing
from memory.services.library import folder as library_folder
from memory.services.notes import maintenance
from memory.services.records import invariants, traces
from memory.services.review import conflicts as conflict_services
from memory.services.review import contradictions
from memory.services.review import proposals as review_services
from memory.services.search import bm25, embedding, ratings

logger = structlog.get_logger(__name__)


@shared_task(acks_late=True)
def answer_message(message_id: int) -> None:
    """Write one answer in a session; safe to deliver twice."""
    conversation_turn.answer(message_id)


@shared_task(acks_late=True)
def finish_session(reflection_id: int) -> None:
    """Save what matters from an ended session; safe to deliver twice."""
    conversation_end.finish(reflection_id)


@shared_task
def answer_without(owner_id: int, key: str, query: dict[str, Any]) -> None:
    """Answer a message with and without chosen memories; the page polls for the answers."""
    chat_without.perform(owner_id, key, query)


@shared_task
def condense_file(file_id: str, version: int) -> None:
    """Ask the model for a shorter text of a memory file; the page polls for the answer."""
    file_condensing.perform(file_id, version)


@shared_task
def empty_trash() -> None:
    """Purge what has been in Trash for more than 30 days, one record at a time.

    A record that can't be purged is logged and doesn't stop the others.
    """
    before = timezone.now() - timedelta(days=TRASH_DAYS)
    gone: dict[User, Counter[str]] = defaultdict(Counter)
    for model in apps.get_models():
        if not issubclass(model, Remembered):
            continue
        rows = model.objects.filter(trashed_at__lt=before).select_related("owner")
        records = rows.iterator(chunk_size=200)
        while some := list(islice(records, traces.AT_ONCE)):
            with traces.together():
                for record in some:
                    gone[record.owner][model.record_type()] += _purge(record)
    for owner, kinds in gone.items():
        told: dict[str, Any] = {name: number for name, number in kinds.items() if number}
        if told:
            Activity.log(owner, MAINTENANCE, "trash-pruned", days=TRASH_DAYS, **told)
    if gone:
        logger.info("trash emptied", purged=sum(kinds.total() for kinds in gone.values()))


def _purge(record: Remembered) -> bool:
    """Purge one record and return whether that worked; the next run tries again.

    A record that was restored in the meantime stays, without a log entry.
    """
    with (
        _failure_in_activity(record.owner, "purge-failed", "not deleted permanently", record),
        suppress(InvalidValue),
    ):
        record.purge(by=MAINTENANCE)
        return True
    return False


@contextmanager
def _failure_in_activity(
    owner: User, kind: str, event: str, subject: Remembered | None = None
) -> Iterator[None]:
    """Log a failure of the block, also in the owner's Activity, and continue with the next owner."""
    with LoggedFailure(event, owner=owner.pk, subject=str(subject.pk) if subject else "") as job:
        yield
    if job.error:
        why = type(job.error).__name__
        Activity.log(owner, MAINTENANCE, kind, subject=subject, warning=True, why=why)


@shared_task
def forget_api_answers() -> None:
    """Delete stored API answers after a day.

    Also delete expired undos, old ratings, and reservations of calls whose process died, which no
    longer count.
    """
    ApiAnswer.objects.old().delete()
    CallReservation.objects.run_out().delete()
    Undo.objects.filter(expires_at__lt=timezone.now()).delete()
    ratings.tidy()


@shared_task
def forget_sign_ins() -> None:
    """Delete expired browser sessions, old failed sign-ins and apps that were never allowed."""
    sign_ins.forget_over()
    sign_ins.forget_old_failures()
    oauth.forget_unused()


@shared_task
def publish_due() -> None:
    """Update copies of topics in Redis that couldn't be updated when the topic changed."""
    topic_memory.process_all_due()


FINDS_NOTHING["memory.tasks.publish_due"] = lambda: not PublishDue.objects.exists()


@shared_task
def scan_library_folder() -> None:
    """Import changes in the watched folder into the library; safe to deliver twice."""
    library_folder.scan_if_due(every=0, seconds=library_folder.TASK_SECONDS)
    library_folder.forget_unwatched()
    analyze_changed()


@shared_task
def follow_agent_folders() -> None:
    """Synchronize the folders of agents with their files in Beacon; safe to deliver twice."""
    agent_folders.catch_up()


@shared_task
def follow_mirror() -> None:
    """Synchronize memory files with their copies on disk; safe to deliver twice."""
    mirror.catch_up()


def _mirror_is_settled() -> bool:
    # A network folder can hang, and the beat would hang with it.
    return mirror_disk.is_in_data_folder() and mirror.is_settled()


FINDS_NOTHING["memory.tasks.follow_mirror"] = _mirror_is_settled


@shared_task
def embed_due() -> None:
    """Create the embeddings that records wait for; safe to deliver twice.

    Only one task does so at a time. After an import it takes minutes, and if every worker did it,
    no run could start and no bulk action could continue.
    """
    with advisory_lock(LockId.EMBEDDING) as is_mine:
        if is_mine and (made := embedding.process_due()):
            logger.info("embeddings created", made=made)
            analyze_changed()


@shared_task(acks_late=True)
def run_bulk_action(pk: str) -> None:
    """Do a bulk action, or continue it; safe to deliver twice."""
    bulk.run_bulk_action(pk)
    analyze_changed()


@shared_task(acks_late=True, soft_time_limit=3_600, time_limit=3_660)
def run_archive_job(pk: str) -> None:
    """Do one export, or preview or store one import; safe to deliver twice."""
    jobs.perform(pk)
    analyze_changed()


@shared_task
def back_up_if_due() -> None:
    """Start the backup that the plan asks for; safe to deliver twice."""
    backups.ask_if_due()


@shared_task(acks_late=True, soft_time_limit=3_600, time_limit=3_660)
def make_backup(pk: int) -> None:
    """Make one backup; safe to deliver twice."""
    backups.perform(pk)


@shared_task
def forget_archives() -> None:
    """Delete exports and imports older than a week, with their files."""
    jobs.forget_old()


@shared_task(soft_time_limit=3_600, time_limit=3_660)
def follow_languages() -> None:
    """Rebuild the search index of people who changed their language; safe to deliver twice."""
    for owner_id in bm25.owners_in_another_language():
        for owner in User.objects.filter(pk=owner_id):
            read = bm25.rebuild_owner(owner)
            logger.info("index rebuilt", owner=owner_id, language=owner.language, **read)
            analyze_changed()


FINDS_NOTHING["memory.tasks.follow_languages"] = lambda: not bm25.owners_in_another_language()


@shared_task
def verify() -> None:
    """Check the stored data without repairing it. System status shows the result."""
    for result in invariants.verify(quick=True):
        if result.rows:
            logger.warning("invariant broken", name=result.invariant.name, rows=len(result.rows))


@shared_task
def maintain() -> None:
    """Prune and merge everyone's notes, one owner after the other; safe to deliver twice.

    First, undecided proposals expire, and conflicts that have lost a side are closed.
    Contradictions and near-duplicates are searched last.
    """
    review_services.expire_due()
    for owner_id in maintenance.owners_in_need():
        maintain_notes_of(owner_id)
    conflict_services.resolve_missing_sides()
    for owner_id in conflict_services.owners_with_news(conflict_services.day_ago()):
        find_conflicts_of(owner_id)


@shared_task
def find_contradictions(records: list[list[str]]) -> None:
    """Compare records that were just written with the rest of memory; safe to deliver twice."""
    contradictions.report_each(records)


@shared_task
def find_conflicts_of(owner_id: int) -> None:
    """Search for one owner's contradictions and near-duplicates.

    A failure is logged and doesn't stop other owners.
    """
    owner = User.objects.filter(pk=owner_id).first()
    if owner is None:
        return
    with _failure_in_activity(owner, "upkeep-failed", "search for conflicts failed"):
        contradictions.report_since(owner, conflict_services.day_ago())
        conflict_services.find(owner)


@shared_task
def maintain_notes_of(owner_id: int, by_person: bool = False) -> None:
    """Prune and merge one owner's notes; a failure is logged and doesn't stop other owners."""
    owner = User.objects.filter(pk=owner_id).first()
    if owner is None:
        return
    with _failure_in_activity(owner, "upkeep-failed", "maintenance of notes failed"):
        maintenance.maintain(owner, by=owner.actor if by_person else MAINTENANCE)


@shared_task
def retire_content() -> None:
    """Move content past its retention to Trash; safe to deliver twice.

    A failure is logged and doesn't stop other owners.
    """
    for owner in User.objects.filter(pk__in=content_services.owners_in_need()):
        with _failure_in_activity(
            owner, "content-retiring-failed", "old content not moved to Trash"
        ):
            content_services.retire(owner)
