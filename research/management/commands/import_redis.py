"""`manage.py import_redis URL`: import topics from the keys `beacon:memory:*` of another Redis."""

from __future__ import annotations

from collections import Counter
from typing import Any
from urllib.parse import urlsplit

import redis
from django.core.management.base import CommandError, CommandParser
from django.utils.translation import gettext as _

from memory.management.base import MigratedCommand, account_named, only_account
from memory.models import User
from research.services.topics.redis_import import LEFT, REFUSED, TAKEN, import_keys

SECONDS = 10.0  # timeout of a response


class Command(MigratedCommand):
    """Import topics. Existing ones aren't changed, so it can be run again."""

    help = "Import topics from the beacon:memory:* keys of another Redis server, in JSON."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("url", help="such as redis://:password@host:6379/0")
        parser.add_argument(
            "--user", help="owner of the topics (optional if there’s only one account)"
        )
        parser.add_argument(
            "--dry-run", action="store_true", help="only show what would be imported"
        )

    def handle(self, *args: Any, **options: Any) -> None:
        """Import all keys and report each one. Fail at the end if any was rejected."""
        owner = self._owner(options["user"])
        counts: Counter[str] = Counter()
        words = {TAKEN: _("imported"), LEFT: _("skipped"), REFUSED: _("rejected")}
        # A URL can contain a password, so only its host and port are ever shown.
        parts = urlsplit(options["url"])
        try:
            with redis.Redis.from_url(
                options["url"], socket_connect_timeout=SECONDS, socket_timeout=SECONDS
            ) as server:
                for one in import_keys(server, owner, by=owner.actor, dry_run=options["dry_run"]):
                    counts[one.state] += 1
                    stream = self.stderr if one.state == REFUSED else self.stdout
                    stream.write(f"{words[one.state]} {one.key}: {one.words}")
        except (redis.RedisError, ValueError) as exc:
            told = {"host": parts.hostname or "?", "why": type(exc).__name__}
            text = _(
                "The Redis server at %(host)s doesn’t respond (%(why)s). Check the URL, such as "
                "redis://:password@host:6379/0."
            )
            text %= told
            done = _("Imported before the failure: %(n)d.") % {"n": counts[TAKEN]}
            raise CommandError(f"{text} {done}") from exc
        told = {name: counts[name] for name in (TAKEN, LEFT, REFUSED)}
        text = _("%(taken)d imported, %(left)d skipped, %(refused)d rejected.") % told
        if options["dry_run"]:
            text += " " + _("This was a dry run. Nothing was saved.")
        if counts[REFUSED]:
            raise CommandError(text)
        self.stdout.write(text)

    def _owner(self, username: str | None) -> User:
        people = User.objects.filter(is_active=True)
        if username:
            return account_named(username, people)
        return only_account(people, _("Specify the owner with --user USERNAME."))
