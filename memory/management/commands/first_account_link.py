"""`manage.py first_account_link`: the one-time link that creates the first account."""

from __future__ import annotations

from typing import Any

from django.conf import settings
from django.urls import reverse
from django.utils.translation import gettext as _

from memory.management.base import MigratedCommand
from memory.models import Invitation, User


class Command(MigratedCommand):
    """Print only the link; if there is already an account, say so on stderr."""

    help = "Print the one-time link that creates the first account, unless an account exists."

    def handle(self, *args: Any, **options: Any) -> None:
        """Issue a link, which replaces the previous one."""
        if User.objects.exists():
            self.stderr.write(
                _("There’s already an account. Its admin can invite others in Settings → Users.")
            )
            return
        _invitation, token = Invitation.create_with_token(by=None, grants_admin=True, is_first=True)
        self.stdout.write(settings.BEACON_URL + reverse("memory:first-account", args=[token]))
