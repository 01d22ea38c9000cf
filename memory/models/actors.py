"""Who acts: a person, an agent, or one of Beacon's own parts."""

from __future__ import annotations

from dataclasses import dataclass

from django.contrib.auth.base_user import AbstractBaseUser


@dataclass(frozen=True, slots=True)
class Actor:
    """The writer as stored in the database: `human:alice`, `agent:claude`, `research`."""

    kind: str
    name: str = ""

    def __str__(self) -> str:
        return f"{self.kind}:{self.name}" if self.name else self.kind

    @property
    def is_person(self) -> bool:
        """Whether this is a person. Only people can unlock records, and their text is trusted."""
        return self.kind == "human"

    @classmethod
    def person(cls, user: AbstractBaseUser) -> Actor:
        return cls("human", user.get_username())


RESEARCH = Actor("research")
REFLECTOR = Actor("reflector")
MAINTENANCE = Actor("maintenance")
SYSTEM = Actor("system")
