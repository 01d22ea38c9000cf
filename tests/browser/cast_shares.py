"""Reports shared by links in every state, for the checked pages."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from django.utils import timezone

from memory.models import Topic
from research.models import Report, SharedLink
from research.pages import shares
from research.services.topics import sharing

COMMENT = """The second source is only a **draft**. Before we rely on it:

- ask the maintainers when `3.15` is due
- compare it with [last year’s plan](https://example.org/plan)"""


def members(owner: Any, reader: Any) -> dict[str, str]:
    """Share the same topic with a person who has read the first of its reports, and return its pages."""
    topic = Topic.objects.for_user(owner).get(title="Asynchronous I/O")
    member = sharing.add_member(topic, reader.username, "editor", by=owner.actor)
    sharing.mark_read(member, 1)
    report = Report.objects.get(run__number=2, run__topic=topic)
    run = report.run_id
    sharing.add_comment(report, COMMENT, author=owner)
    own = sharing.add_comment(report, "لا أرى ذلك في المصدر الثاني.\n\n再确认一下。", author=reader)
    sharing.edit_comment(own, f"{own.text} https://docs.example/" + "x" * 90, by=reader.actor)
    page = f"/topics/shared/{topic.pk}/"
    return {
        "people": f"/topics/{topic.slug}/people/",
        "member": page,
        "member report": f"{page}runs/{run}/",
        "member settings": f"{page}settings/",
        "commented": f"/topics/{topic.slug}/runs/{run}/",
        "comment": f"{page}runs/{run}/comments/{own.pk}/",
    }


def shared(owner: Any) -> dict[str, str]:
    """Share the report with a delta of all kinds: active, revoked and expired links."""
    second = Report.objects.for_user(owner).filter(
        run__number=2, run__topic__title="Asynchronous I/O"
    )
    report = second.select_related("run__topic").get()
    links = [
        shares.make_link(report, days=days, note=note, by=owner.actor)
        for days, note in ((30, "Ines, 实验室"), (365, ""), (7, "the board"), (1, "a mistake"))
    ]
    shares.open_link(links[0].token)
    SharedLink.objects.filter(pk=links[2].pk).update(ends_at=timezone.now() - timedelta(days=3))
    shares.end(links[3], by=owner.actor)
    return {
        "share": f"/topics/{report.run.topic.slug}/runs/{report.run_id}/share/",
        "shared": f"/shared/{links[0].token}/",
        "shared over": f"/shared/{links[3].token}/",
    }
