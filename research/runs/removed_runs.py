"""Failed and cancelled runs in the trash: they brought nothing, so nothing goes along with them."""

from __future__ import annotations

from django.db import transaction
from django.utils import timezone
from django.utils.formats import date_format
from django.utils.translation import gettext as _

from memory.actors import Actor
from memory.errors import InvalidValue
from memory.models import Activity, ContentItem, ModelCall, Revision, Topic
from research.models import RemovedRun, Report, Run
from research.runs.trash import read_for

ENDED = (Run.Status.FAILED, Run.Status.CANCELLED)


def remove(run: Run, *, by: Actor, why: str = "") -> RemovedRun:
    """Move a run without a report to the trash.  Raises InvalidValue for one that goes on again."""
    with transaction.atomic():
        topic = Topic.objects.select_related("owner").get(pk=run.topic_id)
        run = Run.objects.select_for_update(of=("self",), no_key=True).get(pk=run.pk)
        run.topic = topic
        if run.status not in ENDED:
            words = _(
                "Only a run that failed or was cancelled goes by itself; this one is %(how)s."
            )
            raise InvalidValue(words % {"how": run.get_status_display()})
        marks = {name: getattr(topic, name) for name in ("owner", "sensitivity", "trust")}
        removed, made = RemovedRun.objects.get_or_create(
            run=run, defaults={"title": _title(run), "source": run.source, **marks}
        )
        if made:
            Revision.record_first([removed], by=by, source=run.source)
        if removed.trashed_at is None:
            removed.trash(by=by, why=why, source=run.source)
            Activity.log(topic.owner, by, "run-trashed", subject=run, label=removed.title, why=why)
    return removed


def _title(run: Run) -> str:
    told = {
        "topic": run.topic,
        "how": run.get_status_display(),
        "at": date_format(timezone.localtime(run.created), "j M Y, H:i"),
    }
    return _("%(topic)s · run %(how)s, %(at)s") % told


def restore(removed: RemovedRun, *, by: Actor) -> None:
    """Bring the run back into its topic's list."""
    with transaction.atomic():
        was = removed.trashed_at
        removed.restore(by=by)
        if was is not None:
            Activity.log(
                removed.owner, by, "run-restored", subject=removed.run, label=removed.title
            )


def forget_run(removed: RemovedRun, by: Actor) -> None:
    """Delete what was said and read in a run that is about to be deleted for good."""
    run = removed.run
    ModelCall.objects.filter(source=run.source).update(prompt=[], answer="", error="")
    items: list[ContentItem] = list(read_for(run))
    for item in items:
        item.purge(by=by)
    lines = Activity.objects.filter(subject_type="run", subject_id=str(run.pk))
    lines.update(label="", detail={})


def forget_history(topic: Topic) -> None:
    """Delete the history of a topic's reports and removed runs, which go with it for good."""
    Revision.forget(Report.objects.filter(run__topic=topic).only("pk"))
    Revision.forget(RemovedRun.objects.filter(run__topic=topic).only("pk"))
