"""`manage.py first_account_link`: the one-time link that makes the first account."""

from __future__ import annotations

from typing import Any

from django.conf import settings
from django.urls import reverse
from django.utils.translation import gettext as _

from beacon_site.management_base import MigratedCommand
from memory.models import Invitation, User


class Command(MigratedCommand):
    """Print the link alone; if there is an account already, say so on stderr."""

    help = "Print the one-time link that makes the first account; nothing if there is one."

    def handle(self, *args: Any, **options: Any) -> None:
        """Give out a link, which replaces the one given out before."""
        if User.objects.exists():
            self.stderr.write(
                _("There is an account already: its staff invite others under Settings, People.")
            )
            return
        _invitation, token = Invitation.give_out(by=None, makes_staff=True, is_first=True)
        self.stdout.write(settings.BEACON_URL + reverse("memory:first-account", args=[token]))
