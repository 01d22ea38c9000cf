"""The Celery application, and the signals by which workers say that they live or leave."""

from __future__ import annotations

import os

from celery import Celery

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "beacon_site.settings")

app = Celery("beacon")
app.config_from_object("django.conf:settings", namespace="CELERY")
app.autodiscover_tasks()
