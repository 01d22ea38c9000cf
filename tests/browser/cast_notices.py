"""Channels in every state, their deliveries, digests and feeds, for the checked pages."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from django.utils import timezone

from research.models import Channel, Delivery, DigestSettings, Report
from research.pages import digests as pages_digests
from research.services.notifications import channels, digests


def notices(owner: Any) -> dict[str, str]:
    """Create a channel of each kind, successful and failed deliveries, a digest, a feed."""
    by = owner.actor
    desk = channels.add(owner, kind="email", name="Desk 编辑部", address="desk@example.org", by=by)
    hook = channels.add(
        owner, kind="webhook", name="", address="https://hooks.example.org/T0/abc", by=by
    )
    Channel.objects.filter(pk=hook.pk).update(
        enabled=False, disabled_reason="“hooks.example.org” responded with 410 (Gone), so it no longer accepts messages.",
        last_at=timezone.now(), last_ok=False, last_response="“hooks.example.org” responded with 410",
    )  # fmt: skip
    report = (
        Report.objects.for_user(owner).filter(run__number=2).select_related("run__topic").first()
    )
    run = report.run
    Delivery.objects.create_for_report(run.topic, run, is_quiet=False)
    sent = Delivery.objects.get(run=run)
    failed = Delivery.objects.create(
        owner=owner, channel=hook, kind="report", about="run:0", run=run, topic=run.topic,
        subject=str(report), state="failed", attempt=7, tries=6, response_code=410,
        response="gone <b>for good</b>", request='{"type": "report.finished"}',
        error="“hooks.example.org” responded with 410 (Gone), so it no longer accepts messages.",
        results=[{"at": "2026-11-22T07:00:00+00:00", "ok": False, "code": 410,
                "said": "“hooks.example.org” responded with 410", "ms": 120}],
    )  # fmt: skip
    Delivery.objects.filter(pk=sent.pk).update(
        state="waiting", tries=2, attempt=2, error="The mail server could not be reached.",
        not_before=timezone.now() + timedelta(minutes=4),
    )  # fmt: skip
    pages_digests.add(owner, topic=None, include_private=True, by=by)
    digests.save_settings(owner, by=by, frequency="weekly", hour=7, weekday=1)
    digest = digests.make(DigestSettings(owner=owner, frequency="weekly"), timezone.now())
    return {
        "channel": f"/settings/channels/{desk.pk}/",
        "webhook": f"/settings/channels/{hook.pk}/",
        "delivery": f"/settings/deliveries/{failed.pk}/",
        "notices": f"/topics/{run.topic.slug}/notices/",
        "digest": f"/digest/{digest.pk}/" if digest else "/digest/",
    }
