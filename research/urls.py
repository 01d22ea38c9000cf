"""URLs of research's pages."""

from __future__ import annotations

from django.urls import URLPattern, URLResolver, path

from beacon_site.web.responses import moved
from memory.api import chat_completions
from research.api.joined import api
from research.pages import (
    activity,
    channels,
    digests,
    facts,
    home,
    inbox,
    metrics,
    palette,
    places,
    report_list,
    reports,
    runs,
    schedules,
    shared_topics,
    shares,
    sources,
    topic_settings,
    topics,
    week,
)

app_name = "research"
_topics = [
    path("topics/", topics.topics, name="topics"),
    path("topics/bulk/", topics.topics_bulk, name="topics-bulk"),
    path("topics/sample/", topics.topics_sample, name="topics-sample"),
    path("topics/new/", topic_settings.topic_new, name="topic-new"),
    path("topics/new/known/", topic_settings.topic_known, name="topic-known"),
    path("topics/new/schedule/", topic_settings.schedule_preview, name="schedule-preview"),
]

# one topic: its settings and actions
_topic_acts = [
    path("topics/<slug:slug>/settings/", topic_settings.topic_settings, name="topic-settings"),
    path("topics/<slug:slug>/run/", topics.topic_run, name="topic-run"),
    path("topics/<slug:slug>/pause/", topics.topic_act, {"act": "pause"}, name="topic-pause"),
    path("topics/<slug:slug>/resume/", topics.topic_act, {"act": "resume"}, name="topic-resume"),
    path("topics/<slug:slug>/archive/", topics.topic_act, {"act": "archive"}, name="topic-archive"),
    path(
        "topics/<slug:slug>/unarchive/",
        topics.topic_act,
        {"act": "unarchive"},
        name="topic-unarchive",
    ),
    path("topics/<slug:slug>/duplicate/", topics.topic_duplicate, name="topic-duplicate"),
    path("topics/<slug:slug>/trash/", topics.topic_trash, name="topic-trash"),
]

_TOPIC = "topics/<slug:slug>/"
_schedule = [
    path("schedule/", schedules.schedules, name="calendar"),
    path(
        "topics/<slug:slug>/schedule/hour/<int:hour>/",
        schedules.schedule_hour,
        name="schedule-hour",
    ),
    path(
        "topics/<slug:slug>/schedule/missed/<slug:choice>/",
        schedules.schedule_missed,
        name="schedule-missed",
    ),
]

_RUN = "topics/<slug:slug>/runs/<int:run_id>/"
_runs = [
    path(_RUN, runs.run_detail, name="run"),
    path(_RUN + "progress/", runs.run_progress, name="run-progress"),
    path(_RUN + "trace/", runs.run_trace, name="run-trace"),
    path(_RUN + "cancel/", runs.run_cancel, name="run-cancel"),
    path(_RUN + "stop/", runs.run_stop, name="run-stop"),
    path(_RUN + "try/", runs.run_try, name="run-try"),
    path(_RUN + "retry/", runs.run_retry, name="run-retry"),
    path(_RUN + "rerun/", runs.run_rerun, name="run-rerun"),
    path(_RUN + "plan/", runs.run_plan, name="run-plan"),
    path(_RUN + "plan/anew/", runs.run_replan, name="run-replan"),
    path(_RUN + "read/", report_list.report_read, name="report-read"),
    path(_RUN + "unread/", report_list.report_unread, name="report-unread"),
    path(_RUN + "told/<int:item>/", facts.notify_about_similar, name="notify-similar"),
    path(_RUN + "trash/", runs.run_to_trash, name="run-trash"),
    path(_RUN + "export/<str:kind>", reports.run_export, name="run-export"),
]
_SENTENCE = _RUN + "sentences/<slug:key>/"
_sentences = [
    path(_RUN + "sources/<int:n>/", reports.run_source, name="run-source"),
    path(_RUN + "sentences/", reports.report_sentences_page, name="report-sentences"),
    path(_SENTENCE + "correct/", reports.sentence_correct, name="sentence-correct"),
    path(_SENTENCE + "check/", reports.sentence_check, name="sentence-check"),
    path(_SENTENCE + "uncheck/", reports.sentence_uncheck, name="sentence-uncheck"),
    path(_TOPIC + "corrections/", reports.topic_corrections, name="topic-corrections"),
]
_shares = [
    path(_RUN + "share/", shares.report_share, name="report-share"),
    path("reports/shared-links/", shares.shared_links, name="shared-links"),
    path("shared-links/<uuid:pk>/end/", shares.link_end, name="shared-link-end"),
    path("shared-links/<uuid:pk>/resume/", shares.link_resume, name="shared-link-resume"),
    path("shared/<str:token>/", shares.shared_report, name="shared-report"),  # without a sign-in
]
# Another person's topic. Slugs are unique per owner, so its URLs have its ID.
_SHARED = "topics/shared/<uuid:pk>/"
_COMMENTS = _SHARED + "runs/<int:run_id>/comments/"
_members = [
    path(_SHARED, shared_topics.shared_topic, name="shared-topic"),
    path(_SHARED + "facts/", shared_topics.shared_facts, name="shared-topic-facts"),
    path(_SHARED + "sources/", shared_topics.shared_sources, name="shared-topic-sources"),
    path(_SHARED + "reports/", shared_topics.shared_reports, name="shared-topic-reports"),
    path(
        _SHARED + "runs/<int:run_id>/",
        shared_topics.shared_run,
        name="shared-topic-report",
    ),
    path(_SHARED + "settings/", shared_topics.shared_settings, name="shared-topic-settings"),
    path(_SHARED + "run/", shared_topics.shared_run_start, name="shared-topic-run"),
    path(_COMMENTS, shared_topics.comment_add, name="comment-add"),
    path(_COMMENTS + "<uuid:key>/", shared_topics.comment_edit, name="comment"),
    path(_COMMENTS + "<uuid:key>/delete/", shared_topics.comment_delete, name="comment-delete"),
    path(_SHARED + "read/", shared_topics.shared_read, name="shared-topic-read"),
    path(_SHARED + "notify/", shared_topics.shared_notify, name="shared-topic-notify"),
    path(_SHARED + "leave/", shared_topics.shared_leave, name="shared-topic-leave"),
    path(_TOPIC + "people/", shared_topics.topic_people, name="topic-people"),
    path(_TOPIC + "people/<int:pk>/role/", shared_topics.member_role, name="topic-member-role"),
    path(
        _TOPIC + "people/<int:pk>/remove/", shared_topics.member_remove, name="topic-member-remove"
    ),
]
_CHANNEL = "settings/channels/<uuid:pk>/"
_notices = [
    path("settings/channels/", channels.channel_list, name="channels"),
    path("settings/channels/new/<str:kind>/", channels.channel_new, name="channel-new"),
    path(_CHANNEL, channels.channel, name="channel"),
    path(_CHANNEL + "test/", channels.channel_test, name="channel-test"),
    path(_CHANNEL + "key/", channels.channel_key, name="channel-key"),
    path(_CHANNEL + "remove/", channels.channel_remove, name="channel-remove"),
    path("settings/deliveries/<uuid:pk>/", channels.delivery, name="delivery"),
    path("settings/deliveries/<uuid:pk>/again/", channels.delivery_again, name="delivery-retry"),
    path("settings/deliveries/<uuid:pk>/give-up/", inbox.delivery_give_up, name="delivery-give-up"),
    path("settings/digest/", channels.digest_settings, name="digest-settings"),
    path("settings/feeds/", channels.feed_add, name="feed-add"),
    path("settings/feeds/<uuid:pk>/end/", channels.feed_end, name="feed-revoke"),
    path("settings/mails/", channels.kept_mails, name="stored-emails"),
    path("topics/<slug:slug>/notices/", channels.topic_notices, name="topic-notices"),
    path("digest/", digests.digest_list, name="digests"),
    path("digest/<uuid:pk>/", digests.digest, name="digest"),
    path("feeds/<str:token>/", digests.feed, name="feed"),  # for anyone with the URL
    path("unsubscribe/<str:token>/", digests.unsubscribe, name="unsubscribe"),  # likewise
]
_reports = [
    path("reports/", report_list.reports, name="reports"),
    path("reports/mark/", report_list.reports_mark, name="reports-mark"),
]

# Home, the tabs of one topic, its facts, and Trash
_home = [
    path("", home.home, name="home"),
    path("palette/", palette.palette, name="palette"),
    path("pins/", places.pin, name="pin"),
    path("inbox/", inbox.inbox, name="inbox"),
    path("topics/trash/", topics.topics_trash, name="topics-trash"),
    path("topics/<uuid:pk>/purge/", topics.topic_purge, name="topic-purge"),
]
_topic = [
    path(_TOPIC, topics.topic, name="topic"),
    path(_TOPIC + "note/", topics.sentence_note, name="sentence-note"),
    path(_TOPIC + "affects/<uuid:pk>/dismiss/", topics.affects_dismiss, name="affects-dismiss"),
    path(_TOPIC + "affects/<uuid:pk>/restore/", topics.affects_restore, name="affects-restore"),
    path(_TOPIC + "forecast/", runs.topic_forecast, name="topic-forecast"),
    path(_TOPIC + "timeline/", moved("research:topic-facts"), name="topic-timeline-moved"),
    path(_TOPIC + "sources/", sources.topic_sources, name="topic-sources"),
    path(_TOPIC + "sources/act/", sources.source_act, name="source-act"),
    path(_TOPIC + "sources/forget/", sources.source_forget_url, name="source-forget-url"),
    path(_TOPIC + "sources/next/", sources.read_next, name="read-next"),
    path(_TOPIC + "sources/next/not/", sources.read_next_not, name="read-next-cancel"),
    path(_TOPIC + "sources/sources.csv", sources.sources_export, name="sources-export"),
    path("settings/sources/", sources.source_rules_page, name="source-rules"),
    path(_TOPIC + "runs/", topics.topic_runs, name="topic-runs"),
    path(_TOPIC + "read/", report_list.topic_read, name="topic-read"),
    path(_TOPIC + "unread/", report_list.topic_unread, name="topic-unread"),
    path(_TOPIC + "compare/", reports.compare, name="compare"),
    path(_TOPIC + "memory/", topics.topic_memory_page, name="topic-memory"),
    path(_TOPIC + "memory.json", topics.topic_memory_json, name="topic-memory-json"),
    path(_TOPIC + "memory/end/", topics.topic_act, {"act": "end-memory"}, name="topic-end-memory"),
    path(_TOPIC + "memory/revive/", topics.topic_act, {"act": "revive"}, name="topic-revive"),
]
_FACT = _TOPIC + "facts/<uuid:pk>/"
_facts = [
    path(_TOPIC + "facts/", facts.topic_facts, name="topic-facts"),
    path(_FACT, facts.fact, name="fact"),
    path(_FACT + "edit/", facts.fact_edit, name="fact-edit"),
    path(_FACT + "history/", facts.fact_history_page, name="fact-history"),
    path(_FACT + "question/", facts.fact_question, name="fact-question"),
    path(_FACT + "strike/", facts.fact_strike, name="fact-strike"),
    path(_FACT + "take-back/", facts.fact_act, {"act": "take-back"}, name="fact-unstrike"),
    path(_FACT + "lock/", facts.fact_act, {"act": "lock"}, name="fact-lock"),
    path(_FACT + "unlock/", facts.fact_act, {"act": "unlock"}, name="fact-unlock"),
    path(_FACT + "up/", facts.fact_act, {"act": "up"}, name="fact-up"),
    path(_FACT + "down/", facts.fact_act, {"act": "down"}, name="fact-down"),
    path(_TOPIC + "recheck/", facts.topic_recheck, name="topic-recheck"),
    path(_FACT + "recheck/", facts.fact_recheck, name="fact-recheck"),
    path(_FACT + "trash/", facts.fact_act, {"act": "trash"}, name="fact-trash"),
]
_rules = [
    path(_TOPIC + "rules/", sources.topic_rules, name="topic-rules"),
    path(_TOPIC + "rules/add/", sources.rule_add, name="rule-add"),
    path(_TOPIC + "rules/remove/", sources.rule_remove, name="rule-remove"),
]

_activity = [
    path("activity/", activity.activity, name="activity"),
    path("agents/activity/", activity.agents_activity, name="agents-activity"),
    path("activity/week/", week.week, name="week"),
    path("activity/changes/<int:pk>/", activity.activity_change_page, name="activity-change"),
    path("activity/changes/<int:pk>/restore/", activity.activity_restore, name="activity-restore"),
    path("activity/export/<str:kind>", activity.activity_file, name="activity-file"),
]

urlpatterns: list[URLPattern | URLResolver] = [
    *_home,
    *_topics,
    *_topic,
    *_topic_acts,
    *_schedule,
    *_facts,
    *_rules,
    *_runs,
    *_sentences,
    *_reports,
    *_shares,
    *_members,
    *_notices,
    *_activity,
    path("metrics", metrics.metrics, name="metrics"),
    path("api/v1/", api.urls),
    # OpenAI's API, whose clients expect these paths
    path("v1/chat/completions", chat_completions.completions, name="chat-completions"),
    path("v1/models", chat_completions.models, name="chat-models"),
]
