"""Addresses of research's pages."""

from __future__ import annotations

from django.urls import URLPattern, path

from research.views import topic_acts, topic_settings, topics

app_name = "research"
_topics = [
    path("topics/", topics.topics, name="topics"),
    path("topics/bulk/", topics.topics_bulk, name="topics-bulk"),
    path("topics/bulk/undo/", topics.topics_undo, name="topics-undo"),
    path("topics/sample/", topics.topics_sample, name="topics-sample"),
    path("topics/new/", topic_settings.topic_new, name="topic-new"),
    path("topics/new/known/", topic_settings.topic_known, name="topic-known"),
    path("topics/new/schedule/", topic_settings.schedule_preview, name="schedule-preview"),
]

# one topic: its settings, and what its buttons do
_topic_acts = [
    path("topics/<uuid:pk>/restore/", topic_acts.topic_restore, name="topic-restore"),
    path("topics/<slug:slug>/settings/", topic_settings.topic_settings, name="topic-settings"),
    path("topics/<slug:slug>/run/", topic_acts.topic_run, name="topic-run"),
    path("topics/<slug:slug>/pause/", topic_acts.topic_pause, name="topic-pause"),
    path("topics/<slug:slug>/resume/", topic_acts.topic_resume, name="topic-resume"),
    path("topics/<slug:slug>/archive/", topic_acts.topic_archive, name="topic-archive"),
    path("topics/<slug:slug>/unarchive/", topic_acts.topic_unarchive, name="topic-unarchive"),
    path("topics/<slug:slug>/duplicate/", topic_acts.topic_duplicate, name="topic-duplicate"),
    path("topics/<slug:slug>/trash/", topic_acts.topic_trash, name="topic-trash"),
]

urlpatterns: list[URLPattern] = [*_topics, *_topic_acts]
