"""What Activity calls what became of channels, messages, digests and feeds."""

from __future__ import annotations

from django.utils.translation import gettext_lazy as _

WORDS = {
    "channel-changed": _("channel changed"),
    "channel-key-renewed": _("signs with a new key"),
    "channel-made": _("channel made"),
    "channel-off": _("channel switched off, since it failed"),
    "channel-put-back": _("channel taken back"),
    "channel-removed": _("channel removed"),
    "delivered": _("sent"),
    "delivery-given-up": _("could not be sent, and was given up"),
    "delivery-unsure": _("may have arrived or not"),
    "digest-made": _("digest made"),
    "digest-settings-changed": _("settings of the digest changed"),
    "feed-ended": _("feed ended"),
    "feed-made": _("feed made"),
    "notices-chosen": _("notifications chosen"),
    "schedule-failing": _("schedule paused, since its runs failed"),
    "unsubscribed": _("no more mails, by the link in one"),
}
SUBJECTS = {
    "channel": _("channel"),
    "delivery": _("message"),
    "digest": _("digest"),
    "feed": _("feed"),
}
