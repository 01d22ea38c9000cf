"""Accounts, their sign-ins, and the one-time links by which they are made."""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Callable
from datetime import timedelta
from typing import Any, ClassVar

import pgtrigger
from django.contrib.auth.models import AbstractUser
from django.contrib.auth.models import UserManager as DjangoUserManager
from django.db import models, transaction
from django.utils import timezone
from django.utils.translation import gettext_lazy as _

from memory.actors import Actor
from memory.models.agents import Agent
from memory.models.history import APPEND_ONLY, Activity, OwnedQuerySet

INVITATION_LIFETIME = timedelta(days=7)

# What an account starts with, each made in the transaction that makes the account.
FIRST_ROWS: list[Callable[[User], object]] = []
# Called with an account that is deleted, in that transaction: what of it lies outside the database.
LAST_ACTS: list[Callable[[User], object]] = []


class UserManager(DjangoUserManager["User"]):
    """Makes accounts together with what each starts with."""

    def _create_user(self, *args: Any, **kwargs: Any) -> User:
        with transaction.atomic():
            user: User = super()._create_user(*args, **kwargs)  # type: ignore[misc]
            for make in FIRST_ROWS:
                make(user)
        return user


class User(AbstractUser):
    """A person with an account; everything stored belongs to one."""

    display_name = models.CharField(_("name"), max_length=150, blank=True)
    time_zone = models.CharField(_("time zone"), max_length=64, default="UTC")
    language = models.CharField(_("language"), max_length=16, default="en")
    interests = models.TextField(_("interests"), blank=True)
    monthly_tokens = models.PositiveIntegerField(_("tokens a month"), null=True, blank=True)
    monthly_money = models.DecimalField(
        _("money a month"), max_digits=10, decimal_places=2, null=True, blank=True
    )
    shortcuts = models.BooleanField(_("keyboard shortcuts"), default=True)

    objects: ClassVar[UserManager] = UserManager()

    class Meta(AbstractUser.Meta):
        swappable = "AUTH_USER_MODEL"

    def __str__(self) -> str:
        return self.display_name or self.get_username()

    @property
    def actor(self) -> Actor:
        """Return this person as the one who acts."""
        return Actor.person(self)

    def delete(self, *args: Any, **kwargs: Any) -> tuple[int, dict[str, int]]:
        """Delete the account with all it owns, history included."""
        with transaction.atomic(), pgtrigger.ignore(APPEND_ONLY):
            for act in LAST_ACTS:
                act(self)
            return super().delete(*args, **kwargs)


def _research_agent(user: User) -> Agent:
    """Make the built-in research agent, whose memory is on."""
    return Agent.objects.create(owner=user, name="research", enable_memory=True)


FIRST_ROWS.append(_research_agent)


class Invitation(models.Model):
    """A one-time link that makes an account: the first one's, or one that staff gave out.

    Only the token's hash is stored; the link is shown once.
    """

    id = models.BigAutoField(primary_key=True)
    token_hash = models.CharField(max_length=64, unique=True)
    note = models.CharField(_("for whom"), max_length=150, blank=True)
    makes_staff = models.BooleanField(_("may manage people and connections"), default=False)
    is_first = models.BooleanField(default=False)
    invited_by = models.ForeignKey(User, models.CASCADE, null=True, related_name="+")
    created = models.DateTimeField(default=timezone.now)
    expires_at = models.DateTimeField()
    used_at = models.DateTimeField(null=True)
    used_by = models.ForeignKey(User, models.SET_NULL, null=True, related_name="+")

    class Meta:
        ordering = ("-id",)

    def __str__(self) -> str:
        return self.note or str(_("invitation"))

    @classmethod
    def give_out(
        cls, *, by: User | None, note: str = "", makes_staff: bool = False, is_first: bool = False
    ) -> tuple[Invitation, str]:
        """Make an invitation and return it with its token, which is not stored.

        A link for the first account replaces the one given out before.
        """
        token = secrets.token_urlsafe(32)
        if is_first:
            cls.objects.filter(is_first=True, used_at=None).delete()
        invitation = cls.objects.create(
            token_hash=cls.hash_of(token),
            note=note,
            makes_staff=makes_staff,
            is_first=is_first,
            invited_by=by,
            expires_at=timezone.now() + INVITATION_LIFETIME,
        )
        return invitation, token

    @classmethod
    def open_for(cls, token: str) -> Invitation | None:
        """Return the invitation of `token` if it can still be used.

        The first account's link is dead as soon as any account exists, any other while the
        account that gave it out is disabled.
        """
        invitation = (
            cls.objects.filter(cls._given_by_open_account(), used_at=None)
            .filter(token_hash=cls.hash_of(token), expires_at__gt=timezone.now())
            .first()
        )
        if invitation is not None and invitation.is_first and User.objects.exists():
            return None
        return invitation

    @staticmethod
    def _given_by_open_account() -> models.Q:
        return models.Q(invited_by=None) | models.Q(invited_by__is_active=True)

    @staticmethod
    def hash_of(token: str) -> str:
        """Return what is stored of a token."""
        return hashlib.sha256(token.encode()).hexdigest()

    def accept(self, *, username: str, password: str, **fields: Any) -> User | None:
        """Make the account and use the link up, or return None if it was used meanwhile."""
        with transaction.atomic():
            mine = type(self).objects.filter(self._given_by_open_account(), pk=self.pk)
            open_still = mine.filter(used_at=None).select_for_update(of=("self",))
            if open_still.first() is None or (self.is_first and User.objects.exists()):
                return None
            user = User.objects.create_user(
                username,
                password=password,
                is_staff=self.makes_staff,
                is_superuser=self.makes_staff,
                **fields,
            )
            self.used_at, self.used_by = timezone.now(), user
            self.save(update_fields=["used_at", "used_by"])
            Activity.log(user, user.actor, "account-made", subject=user)
        return user


class SignIn(models.Model):
    """One browser in which a person is signed in, so that they can see it and end it."""

    id = models.BigAutoField(primary_key=True)
    owner = models.ForeignKey(User, models.CASCADE, related_name="+")
    session_key = models.CharField(max_length=40, unique=True)
    user_agent = models.CharField(max_length=300, blank=True)
    address = models.GenericIPAddressField(null=True)
    created = models.DateTimeField(default=timezone.now)
    last_seen_at = models.DateTimeField(default=timezone.now)

    objects: ClassVar[models.Manager[SignIn]] = OwnedQuerySet.as_manager()

    class Meta:
        ordering = ("-last_seen_at",)

    def __str__(self) -> str:
        return f"{self.owner} {self.created:%Y-%m-%d}"
