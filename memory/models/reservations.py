"""What calls of a model that are under way may cost at most, so that limits hold across them."""

from __future__ import annotations

from datetime import timedelta
from decimal import Decimal
from typing import Any, ClassVar, Self

from django.db import models
from django.utils import timezone

# No call of a model takes longer; what stands longer was left by a process that died.
LIFETIME = timedelta(minutes=15)


class CallReservationQuerySet(models.QuerySet[Any]):
    """The questions asked of reservations."""

    def of(self, user: Any) -> Self:
        """Keep what `user` owns: the one owner filter."""
        return self.filter(owner=user)

    def run_out(self) -> Self:
        """Keep those that count no more: whoever made them died before the call was counted."""
        return self.filter(created__lte=timezone.now() - LIFETIME)

    def held(self) -> Self:
        """Keep those of calls that can still be under way."""
        return self.filter(created__gt=timezone.now() - LIFETIME)


class CallReservation(models.Model):
    """One call that is under way: the most that it can spend, gone once the call is counted.

    `money` is 0 where the price is not known.
    """

    id = models.BigAutoField(primary_key=True)
    owner = models.ForeignKey("memory.User", models.CASCADE, related_name="+")
    topic = models.ForeignKey("memory.Topic", models.CASCADE, null=True, related_name="+")
    source = models.CharField(max_length=200, blank=True)
    tokens = models.PositiveIntegerField()
    money = models.DecimalField(max_digits=12, decimal_places=6, default=Decimal(0))
    created = models.DateTimeField(default=timezone.now)

    objects: ClassVar[CallReservationQuerySet] = CallReservationQuerySet.as_manager()  # type: ignore[assignment]

    class Meta:
        indexes = [models.Index(fields=["owner", "created"], name="reservation_of_owner")]

    def __str__(self) -> str:
        return f"{self.source}: {self.tokens}"
