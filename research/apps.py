"""The app that finds things out."""

from __future__ import annotations

import importlib

from django.apps import AppConfig
from django.utils.translation import gettext_lazy as _


class ResearchConfig(AppConfig):
    """Finding out: runs, reports, deltas, schedules."""

    name = "research"
    verbose_name = _("Research")
    default_auto_field = "django.db.models.BigAutoField"

    def ready(self) -> None:
        """Load the Celery application, so that shared tasks know their broker in every process.

        The health page, which is memory's, learns here how the last searches went, its trash and
        history how research's records are moved, its records which run they come from, and its registry
        of tools those of research.
        """
        importlib.import_module("beacon_site.celery")
        status = importlib.import_module("memory.system_status")
        status.FAILING.append(importlib.import_module("research.search.search_health").failing)
        importlib.import_module("research.topics.record_moves").register_kinds()
        importlib.import_module("research.topics.settings_kinds").register_kinds()
        importlib.import_module("research.recall_kinds").register()
        importlib.import_module("research.runs.origins").register()
        importlib.import_module("research.runs.traces").register()
        importlib.import_module("research.running.content_uses").register()
        importlib.import_module("research.running.content_keeping").register()
        importlib.import_module("research.archive_kinds").register_kinds()
        importlib.import_module("research.tool_research").register()
        importlib.import_module("research.account_deletion").register()
        importlib.import_module("research.facts.staleness").register()
        importlib.import_module("research.invariants")
        blocks = importlib.import_module("memory.contexts.topic_block")
        blocks.TASKS.append(importlib.import_module("research.working.memory_for_prompt").task_of)
