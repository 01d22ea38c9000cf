"""The app that holds what is known."""

from __future__ import annotations

import importlib

from django.apps import AppConfig
from django.utils.translation import gettext_lazy as _


class MemoryConfig(AppConfig):
    """What is known, and the rules for knowing it."""

    name = "memory"
    verbose_name = _("Memory")
    default_auto_field = "django.db.models.BigAutoField"

    def ready(self) -> None:
        """Let the published copy of topics follow their changes."""
        publishing = importlib.import_module("memory.publishing")
        topics = importlib.import_module("memory.models.topics")
        topics.Topic.ON_CHANGE.append(publishing.follow)
