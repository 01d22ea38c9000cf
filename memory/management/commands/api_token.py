"""`manage.py api_token USERNAME --scopes read,write`: print a new token, and nothing else, to
stdout.
"""

from __future__ import annotations

from typing import Any

from django.core.management.base import CommandError, CommandParser

from memory.accounts import tokens
from memory.management.base import MigratedCommand, account_named
from memory.models import Topic, User
from memory.models.actors import Actor
from memory.models.errors import InvalidValue


class Command(MigratedCommand):
    """Create an API token; only its hash is stored, so it is shown only now."""

    help = "Create an API token for a person’s agent, and print only the token."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("username", help="the owner of the token")
        parser.add_argument(
            "--scopes",
            default="read,write",
            help="read, write, admin, chat and (for admins only) metrics, separated by commas",
        )
        parser.add_argument("--topics", help="only these topics, by slug, separated by commas")
        parser.add_argument("--name", default="cli", help="the agent's name (default: cli)")

    def handle(self, *args: Any, **options: Any) -> None:
        owner = account_named(options["username"], User.objects.filter(is_active=True))
        scopes = options["scopes"].replace(",", " ").split()
        slugs = (options["topics"] or "").replace(",", " ").split()
        if options["topics"] is not None and not slugs:
            raise CommandError(
                "--topics needs at least one slug. No token was created. "
                "Without --topics, the token can use all of the memory."
            )
        topics = list(Topic.objects.for_user(owner).live().filter(slug__in=slugs))
        if len(topics) < len(set(slugs)):
            known = {topic.slug for topic in topics}
            raise CommandError(
                f"There’s no topic {', '.join(sorted(set(slugs) - known))}. No token was created."
            )
        try:
            _token, text = tokens.issue(
                owner, name=options["name"], scopes=scopes, by=Actor.person(owner), topics=topics
            )
        except InvalidValue as exc:
            raise CommandError(str(exc)) from exc
        self.stdout.write(text)
