"""The text of a message: as email (text and HTML), as webhook JSON, and as short text."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from django.conf import settings as site
from django.core import signing
from django.template.loader import render_to_string
from django.urls import reverse
from django.utils import timezone
from django.utils.translation import get_language, ngettext
from django.utils.translation import gettext as _

from beacon_site.text.cleaning import one_line, shorten, without_citations
from research.models import Channel, Delivery, Report, Run
from research.services.notifications import digests
from research.services.reports import exporting

_SIGNER = signing.Signer(salt="beacon.unsubscribe", sep=".")
MAX_SUBJECT_LENGTH = 150
DIGEST, COMMENTS = "digest", "comments"  # fields of a channel that an email can turn off
NO_FOOT = {"text": "", "url": ""}


@dataclass(frozen=True, slots=True)
class Message:
    """One message in all the formats that channels use."""

    subject: str
    text: str
    short: str
    html: str
    payload: dict[str, Any]
    url: str = ""  # of the page that it's about
    unsubscribe: str = ""  # the one-click unsubscribe URL, if any


def compose(delivery: Delivery) -> Message:
    run, digest = delivery.run, delivery.digest
    if delivery.kind == Delivery.Kind.REPORT and run is not None:
        is_own = run.topic.owner_id == delivery.owner_id
        return _report(delivery, run) if is_own else _report_for_member(delivery, run)
    if delivery.kind == Delivery.Kind.FAILURE and run is not None:
        why = run.error or _("no reason was given")
        text = _("The run of “%(title)s” failed: %(why)s") % {"title": run.topic.title, "why": why}
        subject = _("%(title)s: the run failed") % {"title": run.topic.title}
        more = {"topic": _topic(run), "run": _run(run), "error": why}
        return _plain(delivery, subject, text, digests.run_url(run), "run.failed", more)
    if delivery.kind == Delivery.Kind.COMMENT and run is not None:
        return _comment(delivery, run)
    if digest is not None:
        return _digest(delivery)
    if delivery.kind == Delivery.Kind.TEST:
        text = _("This is a test of the channel “%(name)s”. It works.")
        text %= {"name": delivery.channel.name}
        return _plain(delivery, _("Test message from Beacon"), text, site.BEACON_URL, "test", {})
    return _plain(
        delivery, delivery.subject, delivery.message, site.BEACON_URL, "notice",
        {"message": delivery.message},
    )  # fmt: skip


# --- reports ---


def headline(report: Report, run: Run, changes: int) -> str:
    """Return a one-line summary of a report: “Batteries: 3 changes (Run #4)”."""
    if not report.delta:
        message = _("first report")
    elif changes:
        message = ngettext("%(n)d change", "%(n)d changes", changes) % {"n": changes}
    else:
        message = _("nothing new")
    return _("%(title)s: %(said)s (%(run)s)") % {"title": report.title, "said": message, "run": run}


def _report(delivery: Delivery, run: Run) -> Message:
    report: Report = run.report
    url = digests.run_url(run)
    items, withheld = digests.items_of([run]).get(run.pk, ([], 0))
    subject = _subject(headline(report, run, len(items)))
    foot = _foot(delivery, str(run.topic_id))
    html = exporting.html_by("research/mail_report.html", run, url=url, foot=foot)
    short = report.delta or without_citations(report.summary)
    return Message(
        subject=subject,
        text=f"{report.as_markdown()}\n-- \n{url}\n{foot['text']}\n",
        short=f"{short}\n\n{url}",
        html=html,
        url=url,
        unsubscribe=foot["url"],
        payload=_payload(
            "report.finished",
            topic=_topic(run),
            run=_run(run),
            report={
                "title": report.title,
                "summary": report.summary,
                "is_baseline": not report.delta,
                "delta_heading": report.delta_heading,
                "delta_since": report.delta_since,
                "delta_items": [asdict(item) for item in items],
                "filtered_out": withheld,
                "markdown": report.as_markdown(),
            },
        ),
    )


def _report_for_member(delivery: Delivery, run: Run) -> Message:
    """Announce a report of someone else's topic. What it says stays on its page.

    There, a person who is no longer a member can't read it.
    """
    topic, report = run.topic, run.report
    changes = len(digests.items_of([run]).get(run.pk, ([], 0))[0])
    subject = headline(report, run, changes)
    url = _shared_url(run)
    text = _("%(owner)s shares this topic with you. To stop these messages, use the topic’s menu.")
    data = {
        "topic": {"id": str(topic.pk), "title": topic.title, "owner": str(topic.owner)},
        "run": {"number": run.number, "url": url},
        "is_baseline": not report.delta,
        "changes": changes,
    }
    body = f"{subject}\n\n{text % {'owner': topic.owner}}"
    foot = _foot(delivery, str(topic.pk))
    return _plain(delivery, subject, body, url, "report.shared", data, foot)


def _comment(delivery: Delivery, run: Run) -> Message:
    """Announce a comment, without its text for the same reason."""
    comment = delivery.comment
    name = comment.name if comment is not None else ""
    params = {"name": name, "title": run.topic.title, "run": run}
    url = digests.run_url(run)
    if run.topic.owner_id != delivery.owner_id:
        url = _shared_url(run)
    url += f"#comment-{comment.pk}" if comment is not None else ""
    data = {
        "topic": {"id": str(run.topic_id), "title": run.topic.title},
        "run": {"number": run.number, "url": url},
        "author": name,
    }
    subject = _("%(title)s: %(name)s commented (%(run)s)") % params
    text = _("%(name)s commented on a report for “%(title)s” (%(run)s).") % params
    foot = _foot(delivery, COMMENTS)
    return _plain(delivery, subject, text, url, "report.commented", data, foot)


def _shared_url(run: Run) -> str:
    page = reverse("research:shared-topic-report", args=[run.topic_id, run.pk])
    return site.BEACON_URL + page


def _topic(run: Run) -> dict[str, str]:
    page = reverse("research:topic", args=[run.topic.slug])
    return {"title": run.topic.title, "slug": run.topic.slug, "url": site.BEACON_URL + page}


def _run(run: Run) -> dict[str, Any]:
    return {
        "id": run.pk,
        "number": run.number,
        "status": run.status,
        "finished_at": run.finished_at.isoformat() if run.finished_at else None,
        "new": run.new_count,
        "known": run.known_count,
        "url": digests.run_url(run),
    }


def _payload(kind: str, **data: Any) -> dict[str, Any]:
    return {"type": kind, "timestamp": timezone.now().isoformat(), "data": data}


# --- digests and other messages ---


def _digest(delivery: Delivery) -> Message:
    digest = delivery.digest
    assert digest is not None  # noqa: S101 (compose asks for it)  # nosec B101
    content = digests.content(digest)
    url = digests.digest_url(digest)
    foot = _foot(delivery, DIGEST)
    context = {"digest": digest, "said": content, "url": url, "foot": foot}
    text = render_to_string("research/mail_digest.txt", context)
    html = render_to_string(
        "research/mail_digest.html",
        context | {"style": exporting.style(), "language": get_language() or "en"},
    )
    return Message(
        subject=_subject(f"{digest}: {content.line}"),
        text=text,
        short=f"{content.line}\n\n{url}",
        html=html,
        url=url,
        unsubscribe=foot["url"],
        payload=_payload(
            "digest.created",
            digest={
                "id": str(digest.pk),
                "url": url,
                "since": digest.since.isoformat() if digest.since else None,
                "filtered_out": content.filtered_out,
            },
            topics=[
                {
                    "title": part.topic.title,
                    "slug": part.topic.slug,
                    "url": part.url,
                    "summary": part.summary,
                    "filtered_out": part.filtered_out,
                    "delta_items": [asdict(item) for item in part.items],
                }
                for part in content.parts
            ],
            quiet=[part.topic.title for part in content.quiet],
            shared=[
                {
                    "id": str(part.topic.pk),
                    "title": part.topic.title,
                    "url": part.url,
                    "unread": len(part.runs),
                    "changes": len(part.items),
                }
                for part in content.shared
            ],
            failed=[
                {"title": part.topic.title, "error": part.failed.error}
                for part in content.failed
                if part.failed
            ],
        ),
    )


def _plain(
    delivery: Delivery,
    subject: str,
    text: str,
    url: str,
    kind: str,
    data: dict[str, Any],
    foot: dict[str, str] = NO_FOOT,
) -> Message:
    context = {"subject": subject, "text": text, "url": url, "style": exporting.style()}
    context["unsubscribe"] = foot["url"]
    end = f"-- \n{foot['text']}\n" if foot["text"] else ""
    return Message(
        subject=_subject(subject),
        text=f"{text}\n\n{url}\n{end}",
        short=f"{text}\n\n{url}",
        url=url,
        unsubscribe=foot["url"],
        html=render_to_string(
            "research/mail_plain.html", context | {"language": get_language() or "en"}
        ),
        payload=_payload(kind, **data),
    )


def _subject(text: str) -> str:
    """Return a subject in one line, whatever the topic's name contains."""
    return shorten(one_line(text), MAX_SUBJECT_LENGTH)


# --- footer ---


def _foot(delivery: Delivery, what: str) -> dict[str, str]:
    """Return why the email was sent and how to unsubscribe. Empty for other channels."""
    if delivery.channel.kind != Channel.Kind.EMAIL:
        return NO_FOOT
    token = _SIGNER.sign(f"{delivery.channel_id}:{what}")
    url = site.BEACON_URL + reverse("research:unsubscribe", args=[token])
    words = _(
        "You’re receiving this because Beacon is set up to email this address. Unsubscribe: %(url)s"
    )
    return {"text": words % {"url": url}, "url": url}


def ended_by(token: str) -> tuple[str, str] | None:
    """Return the channel of an unsubscribe token, and its topic, DIGEST or COMMENTS.

    Return None if the token is invalid.
    """
    try:
        channel, _colon, what = _SIGNER.unsign(token).partition(":")
    except signing.BadSignature:
        return None
    return channel, what
