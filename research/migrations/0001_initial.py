"""All tables of `research`."""

import datetime
import uuid
from decimal import Decimal

import django.contrib.postgres.fields
import django.core.validators
import django.db.models.deletion
import django.db.models.expressions
import django.utils.timezone
import pgtrigger.compiler
import pgtrigger.migrations
from django.conf import settings
from django.db import migrations, models
from django.db.models.functions import Now

from beacon_site.db.migrations import InitialMigration


class Migration(InitialMigration):
    initial = True

    dependencies = [
        ("memory", "0001_initial"),
        ("memory", "__first__"),
    ]

    operations = [
        migrations.CreateModel(
            name="Run",
            fields=[
                ("id", models.BigAutoField(primary_key=True, serialize=False)),
                ("number", models.PositiveIntegerField(blank=True, null=True)),
                (
                    "status",
                    models.CharField(
                        choices=[
                            ("queued", "queued"),
                            ("running", "running"),
                            ("succeeded", "succeeded"),
                            ("partial", "partial"),
                            ("failed", "failed"),
                            ("cancelled", "cancelled"),
                        ],
                        default="queued",
                        max_length=10,
                    ),
                ),
                (
                    "trigger",
                    models.CharField(
                        choices=[
                            ("person", "manually"),
                            ("schedule", "on schedule"),
                            ("command", "from the command line"),
                            ("agent", "by an agent"),
                            ("recheck", "to recheck stale facts"),
                        ],
                        default="person",
                        max_length=10,
                    ),
                ),
                ("actor", models.CharField(blank=True, max_length=200)),
                ("depth", models.CharField(default="quick", max_length=8)),
                ("settings", models.JSONField(blank=True, default=dict)),
                ("rechecks", models.JSONField(blank=True, default=list)),
                ("created", models.DateTimeField(default=django.utils.timezone.now)),
                ("scheduled_for", models.DateTimeField(blank=True, null=True)),
                ("started_at", models.DateTimeField(blank=True, null=True)),
                ("finished_at", models.DateTimeField(blank=True, null=True)),
                ("waiting_since", models.DateTimeField(blank=True, null=True)),
                ("heartbeat_at", models.DateTimeField(blank=True, null=True)),
                ("worker", models.CharField(blank=True, max_length=200)),
                ("is_worker_stopping", models.BooleanField(default=False)),
                ("progress", models.PositiveIntegerField(default=0)),
                ("cancel_requested_at", models.DateTimeField(blank=True, null=True)),
                ("stop_requested_at", models.DateTimeField(blank=True, null=True)),
                ("stop_reason", models.TextField(blank=True)),
                ("worked_seconds", models.FloatField(default=0)),
                ("waited_seconds", models.FloatField(default=0)),
                ("missed_slots", models.PositiveIntegerField(default=0)),
                ("is_baseline", models.BooleanField(default=True)),
                ("error", models.TextField(blank=True)),
                ("warnings", models.JSONField(blank=True, default=list)),
                ("new_count", models.PositiveIntegerField(default=0)),
                ("known_count", models.PositiveIntegerField(default=0)),
                ("returning_count", models.PositiveIntegerField(default=0)),
                ("read_count", models.PositiveIntegerField(default=0)),
                ("unsupported_count", models.PositiveIntegerField(default=0)),
                ("model_calls", models.PositiveIntegerField(default=0)),
                ("prompt_tokens", models.PositiveIntegerField(default=0)),
                ("completion_tokens", models.PositiveIntegerField(default=0)),
                (
                    "money",
                    models.DecimalField(decimal_places=6, default=Decimal("0"), max_digits=12),
                ),
                ("unpriced_calls", models.PositiveIntegerField(default=0)),
                ("manifest", models.JSONField(blank=True, default=dict)),
                (
                    "rerun_of",
                    models.ForeignKey(
                        blank=True,
                        null=True,
                        on_delete=django.db.models.deletion.SET_NULL,
                        related_name="reruns",
                        to="research.run",
                    ),
                ),
                (
                    "topic",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="runs",
                        to="memory.topic",
                    ),
                ),
                ("attempt", models.PositiveIntegerField(default=0)),
                ("tries", models.PositiveIntegerField(default=0)),
                ("crashes", models.PositiveIntegerField(default=0)),
                ("not_before", models.DateTimeField(db_default=Now())),
                ("lease_until", models.DateTimeField(blank=True, null=True)),
                ("nudged_at", models.DateTimeField(blank=True, null=True)),
            ],
            options={
                "ordering": ("-id",),
                "indexes": [
                    models.Index(fields=["topic", "-id"], name="run_of_topic"),
                    models.Index(
                        condition=models.Q(("status__in", ["queued", "running"])),
                        fields=["status", "not_before"],
                        name="run_unfinished",
                    ),
                    models.Index(
                        condition=models.Q(("status", "failed")),
                        fields=["topic"],
                        name="run_failed",
                    ),
                    models.Index(fields=["-finished_at"], name="run_by_end"),
                    models.Index(fields=["-created", "-id"], name="run_by_start"),
                ],
                "constraints": [
                    models.UniqueConstraint(
                        condition=models.Q(("status__in", ["queued", "running"])),
                        fields=("topic",),
                        name="run_one_unfinished_per_topic",
                    ),
                    models.UniqueConstraint(
                        fields=("topic", "number"), name="run_number_once_a_topic"
                    ),
                    models.UniqueConstraint(
                        fields=("topic", "scheduled_for"), name="run_once_a_slot"
                    ),
                    models.CheckConstraint(
                        condition=models.Q(
                            ("number", None),
                            ("status__in", ["succeeded", "partial"]),
                            _connector="OR",
                        ),
                        name="run_number_only_when_saved",
                    ),
                    models.CheckConstraint(
                        condition=models.Q(
                            ("waiting_since", None), ("status", "queued"), _connector="OR"
                        ),
                        name="run_waits_for_a_person_only_queued",
                    ),
                ],
            },
        ),
        migrations.CreateModel(
            name="DigestSettings",
            fields=[
                (
                    "owner",
                    models.OneToOneField(
                        on_delete=django.db.models.deletion.CASCADE,
                        primary_key=True,
                        related_name="+",
                        serialize=False,
                        to=settings.AUTH_USER_MODEL,
                    ),
                ),
                (
                    "frequency",
                    models.CharField(
                        choices=[
                            ("never", "never"),
                            ("daily", "every day"),
                            ("weekly", "every week"),
                        ],
                        default="never",
                        max_length=8,
                    ),
                ),
                (
                    "hour",
                    models.PositiveSmallIntegerField(
                        default=7, validators=[django.core.validators.MaxValueValidator(23)]
                    ),
                ),
                (
                    "weekday",
                    models.PositiveSmallIntegerField(
                        default=1, validators=[django.core.validators.MaxValueValidator(6)]
                    ),
                ),
                ("send_if_empty", models.BooleanField(default=False)),
                ("next_at", models.DateTimeField(blank=True, null=True)),
                ("time_zone", models.CharField(blank=True, default="", max_length=64)),
            ],
            options={
                "verbose_name_plural": "digest settings",
            },
        ),
        migrations.CreateModel(
            name="TopicNews",
            fields=[
                (
                    "topic",
                    models.OneToOneField(
                        on_delete=django.db.models.deletion.CASCADE,
                        primary_key=True,
                        related_name="news",
                        serialize=False,
                        to="memory.topic",
                    ),
                ),
                ("changes", models.BigIntegerField(default=0)),
                ("counted_changes", models.BigIntegerField(null=True)),
                ("counts", models.JSONField(default=dict)),
            ],
            options={
                "verbose_name_plural": "topic news",
            },
        ),
        migrations.CreateModel(
            name="TopicSettings",
            fields=[
                (
                    "topic",
                    models.OneToOneField(
                        on_delete=django.db.models.deletion.CASCADE,
                        primary_key=True,
                        related_name="settings",
                        serialize=False,
                        to="memory.topic",
                    ),
                ),
                ("objective", models.TextField(blank=True, verbose_name="objective")),
                ("focus", models.TextField(blank=True, verbose_name="focus")),
                (
                    "depth",
                    models.CharField(
                        choices=[("quick", "quick"), ("deep", "deep")],
                        default="quick",
                        max_length=8,
                        verbose_name="depth",
                    ),
                ),
                (
                    "time_frame",
                    models.CharField(
                        choices=[
                            ("any", "any time"),
                            ("day", "the last day"),
                            ("week", "the last week"),
                            ("month", "the last month"),
                            ("year", "the last year"),
                        ],
                        default="any",
                        max_length=8,
                        verbose_name="time frame",
                    ),
                ),
                (
                    "languages",
                    django.contrib.postgres.fields.ArrayField(
                        base_field=models.CharField(max_length=16),
                        blank=True,
                        default=list,
                        size=None,
                        verbose_name="languages",
                    ),
                ),
                (
                    "services",
                    django.contrib.postgres.fields.ArrayField(
                        base_field=models.CharField(max_length=20),
                        blank=True,
                        default=list,
                        size=None,
                        verbose_name="services",
                    ),
                ),
                (
                    "feeds",
                    django.contrib.postgres.fields.ArrayField(
                        base_field=models.TextField(),
                        blank=True,
                        default=list,
                        size=None,
                        verbose_name="feeds",
                    ),
                ),
                (
                    "allow_domains",
                    django.contrib.postgres.fields.ArrayField(
                        base_field=models.CharField(max_length=255),
                        blank=True,
                        default=list,
                        size=None,
                        verbose_name="allowed domains",
                    ),
                ),
                (
                    "block_domains",
                    django.contrib.postgres.fields.ArrayField(
                        base_field=models.CharField(max_length=255),
                        blank=True,
                        default=list,
                        size=None,
                        verbose_name="blocked domains",
                    ),
                ),
                (
                    "block_pages",
                    django.contrib.postgres.fields.ArrayField(
                        base_field=models.TextField(),
                        blank=True,
                        default=list,
                        size=None,
                        verbose_name="blocked pages",
                    ),
                ),
                (
                    "always_check",
                    django.contrib.postgres.fields.ArrayField(
                        base_field=models.TextField(),
                        blank=True,
                        default=list,
                        size=None,
                        verbose_name="always include",
                    ),
                ),
                (
                    "engine",
                    models.CharField(
                        default="google", max_length=20, verbose_name="SerpAPI engine"
                    ),
                ),
                (
                    "report_style",
                    models.CharField(
                        choices=[
                            ("standard", "standard"),
                            ("executive", "executive summary"),
                            ("bullets", "bullets"),
                            ("memo", "memo"),
                        ],
                        default="standard",
                        max_length=10,
                        verbose_name="report style",
                    ),
                ),
                (
                    "report_template",
                    models.TextField(blank=True, verbose_name="report template"),
                ),
                (
                    "report_max_items",
                    models.PositiveSmallIntegerField(
                        blank=True, null=True, verbose_name="items per list"
                    ),
                ),
                (
                    "report_tone",
                    models.CharField(blank=True, max_length=200, verbose_name="tone"),
                ),
                (
                    "reading",
                    models.CharField(
                        choices=[("skim", "skim"), ("normal", "normal"), ("thorough", "thorough")],
                        default="normal",
                        max_length=8,
                        verbose_name="pages to read",
                    ),
                ),
                (
                    "model",
                    models.CharField(blank=True, max_length=200, verbose_name="model"),
                ),
                (
                    "plan_review",
                    models.CharField(
                        choices=[
                            ("no", "no"),
                            ("day", "yes, but continue without a review after a day"),
                            ("wait", "yes, and wait for my review"),
                        ],
                        default="no",
                        max_length=4,
                        verbose_name="review the plan first",
                    ),
                ),
                (
                    "max_tokens",
                    models.PositiveIntegerField(
                        blank=True, null=True, verbose_name="tokens per run"
                    ),
                ),
                (
                    "max_money",
                    models.DecimalField(
                        blank=True,
                        decimal_places=2,
                        max_digits=8,
                        null=True,
                        validators=[django.core.validators.MinValueValidator(Decimal("0"))],
                        verbose_name="cost per run",
                    ),
                ),
                (
                    "max_pages",
                    models.PositiveIntegerField(
                        blank=True, null=True, verbose_name="pages per run"
                    ),
                ),
                (
                    "max_minutes",
                    models.PositiveIntegerField(
                        blank=True, null=True, verbose_name="minutes per run"
                    ),
                ),
                (
                    "month_tokens",
                    models.PositiveIntegerField(
                        blank=True, null=True, verbose_name="tokens per month"
                    ),
                ),
                (
                    "month_money",
                    models.DecimalField(
                        blank=True,
                        decimal_places=2,
                        max_digits=10,
                        null=True,
                        validators=[django.core.validators.MinValueValidator(Decimal("0"))],
                        verbose_name="cost per month",
                    ),
                ),
                (
                    "over_limit",
                    models.CharField(
                        choices=[
                            ("skip", "skip it and log a warning"),
                            ("smaller", "start a smaller run within the remaining budget"),
                        ],
                        default="skip",
                        max_length=7,
                        verbose_name="scheduled runs over the limit",
                    ),
                ),
                (
                    "stale_days",
                    models.PositiveSmallIntegerField(
                        blank=True, null=True, verbose_name="facts are stale after"
                    ),
                ),
                (
                    "recheck",
                    models.BooleanField(
                        default=False, verbose_name="recheck stale facts every month"
                    ),
                ),
                ("intent", models.TextField(blank=True, verbose_name="notify me about")),
                (
                    "notify_examples",
                    django.contrib.postgres.fields.ArrayField(
                        base_field=models.TextField(),
                        blank=True,
                        default=list,
                        size=None,
                        verbose_name="also notify me about",
                    ),
                ),
                (
                    "boost_places",
                    django.contrib.postgres.fields.ArrayField(
                        base_field=models.TextField(),
                        blank=True,
                        default=list,
                        size=None,
                        verbose_name="boosted sources",
                    ),
                ),
                (
                    "mute_places",
                    django.contrib.postgres.fields.ArrayField(
                        base_field=models.TextField(),
                        blank=True,
                        default=list,
                        size=None,
                        verbose_name="muted sources",
                    ),
                ),
                (
                    "read_next",
                    django.contrib.postgres.fields.ArrayField(
                        base_field=models.TextField(),
                        blank=True,
                        default=list,
                        size=None,
                        verbose_name="read in the next run",
                    ),
                ),
            ],
            options={
                "verbose_name_plural": "topic settings",
            },
        ),
        migrations.CreateModel(
            name="Worker",
            fields=[
                ("name", models.CharField(max_length=200, primary_key=True, serialize=False)),
                ("kind", models.CharField(max_length=8)),
                ("seen_at", models.DateTimeField()),
            ],
        ),
        migrations.CreateModel(
            name="Channel",
            fields=[
                (
                    "id",
                    models.UUIDField(
                        default=uuid.uuid4, editable=False, primary_key=True, serialize=False
                    ),
                ),
                (
                    "kind",
                    models.CharField(
                        choices=[
                            ("email", "email"),
                            ("webhook", "webhook"),
                            ("apprise", "chat or push"),
                            ("browser", "browser"),
                        ],
                        max_length=8,
                    ),
                ),
                ("name", models.CharField(max_length=150)),
                ("address", models.CharField(blank=True, max_length=500)),
                ("secret", models.TextField(blank=True, editable=False)),
                (
                    "reports",
                    models.CharField(
                        choices=[
                            ("each", "every report"),
                            ("changed", "only if something changed"),
                            ("none", "none"),
                        ],
                        default="each",
                        max_length=8,
                    ),
                ),
                ("failures", models.BooleanField(default=True)),
                ("digest", models.BooleanField(default=True)),
                ("comments", models.BooleanField(default=True)),
                ("enabled", models.BooleanField(default=True)),
                ("disabled_reason", models.TextField(blank=True)),
                ("consecutive_failures", models.PositiveIntegerField(default=0)),
                ("last_at", models.DateTimeField(blank=True, null=True)),
                ("last_ok", models.BooleanField(blank=True, null=True)),
                ("last_response", models.TextField(blank=True)),
                ("created", models.DateTimeField(default=django.utils.timezone.now)),
                ("removed_at", models.DateTimeField(blank=True, null=True)),
                (
                    "owner",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="+",
                        to=settings.AUTH_USER_MODEL,
                    ),
                ),
            ],
            options={
                "ordering": ("created", "id"),
                "indexes": [models.Index(fields=["owner", "created"], name="channel_of_owner")],
            },
        ),
        migrations.CreateModel(
            name="Correction",
            fields=[
                (
                    "id",
                    models.UUIDField(
                        default=uuid.uuid4, editable=False, primary_key=True, serialize=False
                    ),
                ),
                ("sentence", models.TextField()),
                ("key", models.CharField(max_length=16)),
                ("by", models.CharField(max_length=200)),
                ("created", models.DateTimeField(default=django.utils.timezone.now)),
                ("undone_at", models.DateTimeField(blank=True, null=True)),
                ("wrong", models.TextField(blank=True, verbose_name="mistake")),
                ("right", models.TextField(blank=True, verbose_name="correction")),
                (
                    "lesson",
                    models.ForeignKey(
                        blank=True,
                        null=True,
                        on_delete=django.db.models.deletion.SET_NULL,
                        related_name="+",
                        to="memory.observation",
                    ),
                ),
                (
                    "owner",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="+",
                        to=settings.AUTH_USER_MODEL,
                    ),
                ),
                (
                    "topic",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="corrections",
                        to="memory.topic",
                    ),
                ),
            ],
            options={
                "ordering": ("-created", "-id"),
                "indexes": [
                    models.Index(fields=["topic", "-created"], name="correction_of_topic"),
                    models.Index(fields=["owner", "-created"], name="correction_of_owner"),
                ],
            },
        ),
        migrations.CreateModel(
            name="CorrectedFact",
            fields=[
                ("id", models.BigAutoField(primary_key=True, serialize=False)),
                (
                    "action",
                    models.CharField(
                        choices=[("corrected", "corrected"), ("struck", "marked as wrong")],
                        max_length=9,
                    ),
                ),
                ("before", models.TextField()),
                ("after", models.TextField(blank=True)),
                ("version", models.PositiveIntegerField()),
                ("was_edited_by_person", models.BooleanField(default=False)),
                (
                    "previous_trust",
                    models.CharField(
                        choices=[
                            ("owner", "owner"),
                            ("agent", "agent"),
                            ("external", "external"),
                            ("quarantined", "quarantined"),
                        ],
                        default="external",
                        max_length=12,
                    ),
                ),
                (
                    "fact",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="+",
                        to="memory.topicfact",
                    ),
                ),
                (
                    "correction",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="facts",
                        to="research.correction",
                    ),
                ),
            ],
            options={
                "ordering": ("id",),
                "constraints": [
                    models.UniqueConstraint(
                        models.F("correction"), models.F("fact"), name="fact_corrected_once_by_each"
                    )
                ],
            },
        ),
        migrations.CreateModel(
            name="Digest",
            fields=[
                (
                    "id",
                    models.UUIDField(
                        default=uuid.uuid4, editable=False, primary_key=True, serialize=False
                    ),
                ),
                ("slot", models.DateTimeField()),
                ("since", models.DateTimeField(blank=True, null=True)),
                ("created", models.DateTimeField(default=django.utils.timezone.now)),
                (
                    "owner",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="+",
                        to=settings.AUTH_USER_MODEL,
                    ),
                ),
            ],
            options={
                "ordering": ("-created", "-id"),
                "constraints": [
                    models.UniqueConstraint(fields=("owner", "slot"), name="digest_once_a_slot")
                ],
            },
        ),
        migrations.CreateModel(
            name="DigestEntry",
            fields=[
                (
                    "run",
                    models.OneToOneField(
                        on_delete=django.db.models.deletion.CASCADE,
                        primary_key=True,
                        related_name="digest_entry",
                        serialize=False,
                        to="research.run",
                    ),
                ),
            ],
            options={
                "verbose_name_plural": "digest entries",
            },
        ),
        migrations.CreateModel(
            name="DeltaItem",
            fields=[
                ("id", models.BigAutoField(primary_key=True, serialize=False)),
                ("position", models.PositiveIntegerField()),
                (
                    "status",
                    models.CharField(
                        choices=[
                            ("new", "New"),
                            ("confirmed", "Confirmed"),
                            ("changed", "Changed"),
                            ("contradicted", "Contradicted"),
                            ("gone", "Gone"),
                            ("gone quiet", "Not mentioned"),
                        ],
                        max_length=12,
                    ),
                ),
                ("sentence", models.TextField()),
                ("previous_text", models.TextField(blank=True)),
                ("previous_source", models.JSONField(blank=True, default=dict)),
                ("needs_review", models.BooleanField(default=False)),
                ("compared_by", models.CharField(blank=True, max_length=200)),
                (
                    "citations",
                    django.contrib.postgres.fields.ArrayField(
                        base_field=models.PositiveIntegerField(),
                        blank=True,
                        default=list,
                        size=None,
                    ),
                ),
                ("quote", models.TextField(blank=True)),
                ("hidden_reason", models.TextField(blank=True)),
                (
                    "judged_by",
                    models.CharField(
                        blank=True,
                        choices=[
                            ("model", "the model"),
                            ("rule", "keywords"),
                            ("muted", "muted source"),
                            ("person", "you"),
                        ],
                        max_length=6,
                    ),
                ),
                ("judged", models.TextField(blank=True)),
                (
                    "conflict",
                    models.ForeignKey(
                        blank=True,
                        null=True,
                        on_delete=django.db.models.deletion.SET_NULL,
                        related_name="+",
                        to="memory.conflict",
                    ),
                ),
                (
                    "previous_fact",
                    models.ForeignKey(
                        blank=True,
                        null=True,
                        on_delete=django.db.models.deletion.SET_NULL,
                        related_name="+",
                        to="memory.topicfact",
                    ),
                ),
                (
                    "run",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="delta_items",
                        to="research.run",
                    ),
                ),
            ],
            options={
                "ordering": ("run", "position"),
                "constraints": [
                    models.UniqueConstraint(
                        models.F("run"), models.F("position"), name="delta_item_place_once"
                    )
                ],
            },
        ),
        migrations.CreateModel(
            name="Delivery",
            fields=[
                (
                    "id",
                    models.UUIDField(
                        default=uuid.uuid4, editable=False, primary_key=True, serialize=False
                    ),
                ),
                (
                    "kind",
                    models.CharField(
                        choices=[
                            ("report", "report"),
                            ("failure", "failed run"),
                            ("digest", "digest"),
                            ("comment", "comment"),
                            ("notice", "notice"),
                            ("test", "test"),
                        ],
                        max_length=8,
                    ),
                ),
                ("about", models.CharField(max_length=120)),
                ("subject", models.TextField(blank=True)),
                ("message", models.TextField(blank=True)),
                (
                    "state",
                    models.CharField(
                        choices=[
                            ("waiting", "waiting"),
                            ("sending", "sending"),
                            ("sent", "sent"),
                            ("failed", "failed"),
                            ("unsure", "delivery unknown"),
                            ("dropped", "not sent"),
                        ],
                        default="waiting",
                        max_length=8,
                    ),
                ),
                ("round", models.PositiveIntegerField(default=1)),
                ("attempted_at", models.DateTimeField(blank=True, null=True)),
                ("request", models.TextField(blank=True)),
                ("response_code", models.PositiveIntegerField(blank=True, null=True)),
                ("response", models.TextField(blank=True)),
                ("error", models.TextField(blank=True)),
                ("created", models.DateTimeField(default=django.utils.timezone.now)),
                ("ended_at", models.DateTimeField(blank=True, null=True)),
                (
                    "channel",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="deliveries",
                        to="research.channel",
                    ),
                ),
                (
                    "owner",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="+",
                        to=settings.AUTH_USER_MODEL,
                    ),
                ),
                (
                    "topic",
                    models.ForeignKey(
                        null=True,
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="+",
                        to="memory.topic",
                    ),
                ),
                (
                    "digest",
                    models.ForeignKey(
                        null=True,
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="+",
                        to="research.digest",
                    ),
                ),
                (
                    "run",
                    models.ForeignKey(
                        null=True,
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="+",
                        to="research.run",
                    ),
                ),
                ("attempt", models.PositiveIntegerField(default=0)),
                ("tries", models.PositiveIntegerField(default=0)),
                ("crashes", models.PositiveIntegerField(default=0)),
                ("not_before", models.DateTimeField(db_default=Now())),
                ("lease_until", models.DateTimeField(blank=True, null=True)),
                ("nudged_at", models.DateTimeField(blank=True, null=True)),
                ("results", models.JSONField(blank=True, default=list)),
            ],
            options={
                "verbose_name_plural": "deliveries",
                "ordering": ("-created", "-id"),
                "indexes": [
                    models.Index(fields=["owner", "-created", "-id"], name="delivery_of_owner"),
                    models.Index(fields=["channel", "-created", "-id"], name="delivery_of_channel"),
                    models.Index(
                        condition=models.Q(("state__in", ["waiting", "sending"])),
                        fields=["not_before"],
                        name="delivery_open",
                    ),
                ],
                "constraints": [
                    models.UniqueConstraint(
                        fields=("channel", "kind", "about"), name="delivery_once_a_channel"
                    )
                ],
            },
        ),
        migrations.CreateModel(
            name="Feed",
            fields=[
                (
                    "id",
                    models.UUIDField(
                        default=uuid.uuid4, editable=False, primary_key=True, serialize=False
                    ),
                ),
                ("include_private", models.BooleanField(default=False)),
                ("created", models.DateTimeField(default=django.utils.timezone.now)),
                ("ended_at", models.DateTimeField(blank=True, null=True)),
                ("opened_at", models.DateTimeField(blank=True, null=True)),
                (
                    "owner",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="+",
                        to=settings.AUTH_USER_MODEL,
                    ),
                ),
                (
                    "topic",
                    models.ForeignKey(
                        blank=True,
                        null=True,
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="+",
                        to="memory.topic",
                    ),
                ),
            ],
            options={
                "ordering": ("created", "id"),
                "indexes": [models.Index(fields=["owner", "created"], name="feed_of_owner")],
            },
        ),
        migrations.CreateModel(
            name="Hit",
            fields=[
                ("id", models.BigAutoField(primary_key=True, serialize=False)),
                ("url", models.TextField()),
                ("link", models.TextField()),
                ("domain", models.CharField(blank=True, max_length=255)),
                ("title", models.CharField(blank=True, max_length=500)),
                ("snippet", models.TextField(blank=True)),
                ("service", models.CharField(max_length=20)),
                ("queries", models.JSONField(default=list)),
                ("rank", models.PositiveIntegerField(default=0)),
                ("place", models.PositiveIntegerField(default=0)),
                ("published_at", models.DateField(blank=True, null=True)),
                ("part", models.TextField(blank=True)),
                (
                    "state",
                    models.CharField(
                        choices=[
                            ("new", "new"),
                            ("known", "known"),
                            ("returning", "read again"),
                            ("blocked", "blocked"),
                        ],
                        default="new",
                        max_length=10,
                    ),
                ),
                (
                    "reading",
                    models.CharField(
                        choices=[
                            ("not read", "not read"),
                            ("read", "read"),
                            ("near-duplicate", "near-duplicate"),
                            ("quarantined", "quarantined"),
                            ("failed", "failed"),
                        ],
                        default="not read",
                        max_length=16,
                    ),
                ),
                ("reason", models.TextField(blank=True)),
                ("cited_as", models.PositiveIntegerField(blank=True, null=True)),
                (
                    "content_item",
                    models.ForeignKey(
                        blank=True,
                        null=True,
                        on_delete=django.db.models.deletion.SET_NULL,
                        related_name="+",
                        to="memory.contentitem",
                    ),
                ),
                (
                    "run",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="hits",
                        to="research.run",
                    ),
                ),
            ],
            options={
                "ordering": ("run", "place"),
                "indexes": [models.Index(fields=["run", "place"], name="hit_of_run")],
                "constraints": [
                    models.UniqueConstraint(fields=("run", "url"), name="hit_once_a_run")
                ],
            },
        ),
        migrations.CreateModel(
            name="RemovedRun",
            fields=[
                (
                    "id",
                    models.UUIDField(
                        default=uuid.uuid4, editable=False, primary_key=True, serialize=False
                    ),
                ),
                ("source", models.CharField(default="explicit", max_length=200)),
                (
                    "trust",
                    models.CharField(
                        choices=[
                            ("owner", "owner"),
                            ("agent", "agent"),
                            ("external", "external"),
                            ("quarantined", "quarantined"),
                        ],
                        default="owner",
                        max_length=12,
                    ),
                ),
                (
                    "sensitivity",
                    models.CharField(
                        choices=[("normal", "normal"), ("sensitive", "sensitive")],
                        default="normal",
                        max_length=10,
                    ),
                ),
                ("version", models.PositiveIntegerField(default=1)),
                ("pinned", models.BooleanField(default=False)),
                (
                    "lock",
                    models.CharField(
                        choices=[
                            ("open", "open"),
                            ("append-only", "append-only"),
                            ("read-only", "read-only"),
                        ],
                        default="open",
                        max_length=12,
                    ),
                ),
                ("created", models.DateTimeField(default=django.utils.timezone.now)),
                ("updated", models.DateTimeField(default=django.utils.timezone.now)),
                ("trashed_at", models.DateTimeField(blank=True, null=True)),
                ("title", models.CharField(max_length=700)),
                (
                    "owner",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="+",
                        to=settings.AUTH_USER_MODEL,
                    ),
                ),
                (
                    "run",
                    models.OneToOneField(
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="removed",
                        to="research.run",
                    ),
                ),
            ],
            options={
                "ordering": ("-created",),
            },
        ),
        migrations.CreateModel(
            name="Report",
            fields=[
                (
                    "id",
                    models.UUIDField(
                        default=uuid.uuid4, editable=False, primary_key=True, serialize=False
                    ),
                ),
                ("source", models.CharField(default="explicit", max_length=200)),
                (
                    "trust",
                    models.CharField(
                        choices=[
                            ("owner", "owner"),
                            ("agent", "agent"),
                            ("external", "external"),
                            ("quarantined", "quarantined"),
                        ],
                        default="owner",
                        max_length=12,
                    ),
                ),
                (
                    "sensitivity",
                    models.CharField(
                        choices=[("normal", "normal"), ("sensitive", "sensitive")],
                        default="normal",
                        max_length=10,
                    ),
                ),
                ("version", models.PositiveIntegerField(default=1)),
                ("pinned", models.BooleanField(default=False)),
                (
                    "lock",
                    models.CharField(
                        choices=[
                            ("open", "open"),
                            ("append-only", "append-only"),
                            ("read-only", "read-only"),
                        ],
                        default="open",
                        max_length=12,
                    ),
                ),
                ("created", models.DateTimeField(default=django.utils.timezone.now)),
                ("updated", models.DateTimeField(default=django.utils.timezone.now)),
                ("trashed_at", models.DateTimeField(blank=True, null=True)),
                ("title", models.CharField(max_length=500)),
                ("body", models.TextField(blank=True)),
                ("delta", models.TextField(blank=True)),
                ("delta_heading", models.CharField(blank=True, max_length=200)),
                ("delta_since", models.CharField(blank=True, max_length=200)),
                ("summary", models.TextField(blank=True)),
                ("sources", models.JSONField(blank=True, default=list)),
                ("checks", models.JSONField(blank=True, default=list)),
                ("written_by", models.CharField(max_length=200)),
                ("is_extractive", models.BooleanField(default=False)),
                ("is_quiet", models.BooleanField(default=False)),
                ("read_at", models.DateTimeField(blank=True, null=True)),
                ("unread_at", models.DateTimeField(blank=True, null=True)),
                ("read_before", models.DateTimeField(blank=True, null=True)),
                (
                    "owner",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="+",
                        to=settings.AUTH_USER_MODEL,
                    ),
                ),
                (
                    "run",
                    models.OneToOneField(
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="report",
                        to="research.run",
                    ),
                ),
            ],
            options={
                "ordering": ("-created", "-id"),
                "indexes": [
                    models.Index(
                        condition=models.Q(("read_at", None), ("trashed_at", None)),
                        fields=["owner", "-created"],
                        name="report_unread",
                    ),
                    models.Index(fields=["owner", "-created", "-id"], name="report_of_owner"),
                    models.Index(
                        models.F("owner"),
                        models.OrderBy(
                            models.Case(
                                models.When(
                                    read_at=None,
                                    then=models.Func(
                                        models.Value("UTC"),
                                        models.ExpressionWrapper(
                                            django.db.models.expressions.CombinedExpression(
                                                models.Func(
                                                    models.Value("UTC"),
                                                    models.F("created"),
                                                    function="timezone",
                                                    output_field=models.DateTimeField(),
                                                ),
                                                "+",
                                                models.Value(datetime.timedelta(days=365250)),
                                            ),
                                            output_field=models.DateTimeField(),
                                        ),
                                        function="timezone",
                                        output_field=models.DateTimeField(),
                                    ),
                                ),
                                default=models.F("created"),
                            ),
                            descending=True,
                        ),
                        models.OrderBy(models.F("id"), descending=True),
                        condition=models.Q(("trashed_at", None)),
                        name="report_unread_first",
                    ),
                ],
            },
        ),
        migrations.AddField(
            model_name="correction",
            name="report",
            field=models.ForeignKey(
                on_delete=django.db.models.deletion.CASCADE,
                related_name="corrections",
                to="research.report",
            ),
        ),
        migrations.CreateModel(
            name="CheckedSentence",
            fields=[
                (
                    "id",
                    models.UUIDField(
                        default=uuid.uuid4, editable=False, primary_key=True, serialize=False
                    ),
                ),
                ("sentence", models.TextField()),
                ("key", models.CharField(max_length=16)),
                ("by", models.CharField(max_length=200)),
                ("created", models.DateTimeField(default=django.utils.timezone.now)),
                ("undone_at", models.DateTimeField(blank=True, null=True)),
                (
                    "owner",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="+",
                        to=settings.AUTH_USER_MODEL,
                    ),
                ),
                (
                    "report",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="checked_sentences",
                        to="research.report",
                    ),
                ),
            ],
            options={
                "ordering": ("created", "id"),
                "indexes": [
                    models.Index(fields=["owner", "-created"], name="checked_sentence_of_owner")
                ],
                "constraints": [
                    models.UniqueConstraint(
                        models.F("report"),
                        models.F("key"),
                        condition=models.Q(("undone_at", None)),
                        name="sentence_checked_once",
                    )
                ],
            },
        ),
        migrations.CreateModel(
            name="Schedule",
            fields=[
                (
                    "topic",
                    models.OneToOneField(
                        on_delete=django.db.models.deletion.CASCADE,
                        primary_key=True,
                        related_name="schedule",
                        serialize=False,
                        to="memory.topic",
                    ),
                ),
                (
                    "preset",
                    models.CharField(
                        choices=[
                            ("none", "manually"),
                            ("daily", "every day"),
                            ("weekdays", "every weekday"),
                            ("weekly", "every week"),
                            ("monthly", "every month"),
                            ("cron", "cron expression"),
                        ],
                        default="none",
                        max_length=8,
                        verbose_name="how often",
                    ),
                ),
                (
                    "cron",
                    models.CharField(blank=True, max_length=100, verbose_name="cron expression"),
                ),
                (
                    "time_zone",
                    models.CharField(default="UTC", max_length=64, verbose_name="time zone"),
                ),
                ("paused", models.BooleanField(default=False, verbose_name="paused")),
                (
                    "missed",
                    models.CharField(
                        choices=[
                            ("once", "catch up with one run"),
                            ("skip", "skip missed runs"),
                        ],
                        default="once",
                        max_length=4,
                        verbose_name="missed runs",
                    ),
                ),
                ("next_run_at", models.DateTimeField(blank=True, null=True)),
                ("recheck_at", models.DateTimeField(blank=True, null=True)),
            ],
            options={
                "indexes": [
                    models.Index(
                        condition=models.Q(
                            ("paused", False), models.Q(("next_run_at", None), _negated=True)
                        ),
                        fields=["next_run_at"],
                        name="schedule_due",
                    )
                ],
            },
        ),
        migrations.CreateModel(
            name="SharedLink",
            fields=[
                (
                    "id",
                    models.UUIDField(
                        default=uuid.uuid4, editable=False, primary_key=True, serialize=False
                    ),
                ),
                ("note", models.CharField(blank=True, max_length=150)),
                ("ends_at", models.DateTimeField()),
                ("ended_at", models.DateTimeField(blank=True, null=True)),
                ("view_count", models.PositiveIntegerField(default=0)),
                ("opened_at", models.DateTimeField(blank=True, null=True)),
                ("created", models.DateTimeField(default=django.utils.timezone.now)),
                (
                    "owner",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="+",
                        to=settings.AUTH_USER_MODEL,
                    ),
                ),
                (
                    "report",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="shared_links",
                        to="research.report",
                    ),
                ),
            ],
            options={
                "ordering": ("-created", "-id"),
                "indexes": [
                    models.Index(fields=["owner", "-created"], name="shared_link_of_owner")
                ],
            },
        ),
        migrations.CreateModel(
            name="Step",
            fields=[
                ("id", models.BigAutoField(primary_key=True, serialize=False)),
                ("name", models.CharField(max_length=40)),
                ("part", models.PositiveIntegerField(default=0)),
                ("position", models.PositiveIntegerField(default=0)),
                ("is_follow_up", models.BooleanField(default=False)),
                (
                    "state",
                    models.CharField(
                        choices=[
                            ("waiting", "waiting"),
                            ("running", "running"),
                            ("done", "done"),
                            ("skipped", "skipped"),
                            ("failed", "failed"),
                        ],
                        default="waiting",
                        max_length=8,
                    ),
                ),
                ("input_hash", models.CharField(blank=True, max_length=64)),
                ("output", models.JSONField(blank=True, default=dict)),
                ("counts", models.JSONField(blank=True, default=dict)),
                ("prompt_tokens", models.PositiveIntegerField(default=0)),
                ("completion_tokens", models.PositiveIntegerField(default=0)),
                (
                    "money",
                    models.DecimalField(decimal_places=6, default=Decimal("0"), max_digits=12),
                ),
                ("unpriced_calls", models.PositiveIntegerField(default=0)),
                ("detail", models.TextField(blank=True)),
                ("warning", models.TextField(blank=True)),
                ("started_at", models.DateTimeField(blank=True, null=True)),
                ("finished_at", models.DateTimeField(blank=True, null=True)),
                (
                    "run",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="steps",
                        to="research.run",
                    ),
                ),
                ("attempt", models.PositiveIntegerField(default=0)),
                ("tries", models.PositiveIntegerField(default=0)),
                ("crashes", models.PositiveIntegerField(default=0)),
                ("not_before", models.DateTimeField(db_default=Now())),
                ("lease_until", models.DateTimeField(blank=True, null=True)),
                ("nudged_at", models.DateTimeField(blank=True, null=True)),
            ],
            options={
                "ordering": ("run", "position", "part"),
                "indexes": [
                    models.Index(
                        condition=models.Q(("is_follow_up", True)),
                        fields=["state", "not_before"],
                        name="step_follow_ups",
                    )
                ],
                "constraints": [
                    models.UniqueConstraint(fields=("run", "name", "part"), name="step_once_a_run")
                ],
            },
        ),
        migrations.CreateModel(
            name="ToolCall",
            fields=[
                ("id", models.BigAutoField(primary_key=True, serialize=False)),
                ("part", models.PositiveIntegerField()),
                ("position", models.PositiveIntegerField()),
                ("attempt", models.PositiveIntegerField(default=0)),
                ("round", models.PositiveIntegerField()),
                ("tool", models.CharField(max_length=80)),
                ("arguments", models.JSONField(blank=True, default=dict)),
                ("result", models.TextField(blank=True)),
                ("is_error", models.BooleanField(default=False)),
                ("milliseconds", models.PositiveIntegerField(default=0)),
                ("created", models.DateTimeField(default=django.utils.timezone.now)),
                (
                    "content_item",
                    models.ForeignKey(
                        blank=True,
                        null=True,
                        on_delete=django.db.models.deletion.SET_NULL,
                        related_name="+",
                        to="memory.contentitem",
                    ),
                ),
                (
                    "run",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="tool_calls",
                        to="research.run",
                    ),
                ),
            ],
            options={
                "ordering": ("run", "part", "position"),
                "constraints": [
                    models.UniqueConstraint(
                        fields=("run", "part", "position"), name="tool_call_once_a_track"
                    )
                ],
            },
        ),
        migrations.CreateModel(
            name="TopicNotices",
            fields=[
                (
                    "topic",
                    models.OneToOneField(
                        on_delete=django.db.models.deletion.CASCADE,
                        primary_key=True,
                        related_name="notices",
                        serialize=False,
                        to="memory.topic",
                    ),
                ),
                ("is_custom", models.BooleanField(default=False)),
                (
                    "reports",
                    models.CharField(
                        choices=[
                            ("each", "every report"),
                            ("changed", "only if something changed"),
                            ("none", "none"),
                        ],
                        default="each",
                        max_length=8,
                    ),
                ),
                ("failures", models.BooleanField(default=True)),
                ("in_digest", models.BooleanField(default=True)),
                (
                    "left_out",
                    models.ManyToManyField(blank=True, related_name="+", to="research.channel"),
                ),
            ],
            options={
                "verbose_name_plural": "topic notices",
            },
        ),
        migrations.AddField(
            model_name="digestentry",
            name="digest",
            field=models.ForeignKey(
                on_delete=django.db.models.deletion.CASCADE,
                related_name="entries",
                to="research.digest",
            ),
        ),
        pgtrigger.migrations.AddTrigger(
            model_name="run",
            trigger=pgtrigger.compiler.Trigger(
                name="news_numbered",
                sql=pgtrigger.compiler.UpsertTriggerSql(
                    condition='WHEN (OLD."is_baseline" IS DISTINCT FROM (NEW."is_baseline") OR OLD."number" IS DISTINCT FROM (NEW."number"))',
                    func="UPDATE research_topicnews SET changes = changes + 1 WHERE topic_id = NEW.topic_id; RETURN NULL;",
                    hash="0f1ad6ee4a871f485d1f627e4ee78801d2845c32",
                    operation="UPDATE",
                    pgid="pgtrigger_news_numbered_06327",
                    table="research_run",
                    when="AFTER",
                ),
            ),
        ),
        pgtrigger.migrations.AddTrigger(
            model_name="deltaitem",
            trigger=pgtrigger.compiler.Trigger(
                name="news_told",
                sql=pgtrigger.compiler.UpsertTriggerSql(
                    func="\n    PERFORM 1 FROM research_topicnews\n     WHERE topic_id IN (SELECT topic_id FROM research_run WHERE id IN (SELECT run_id FROM added))\n     ORDER BY topic_id FOR NO KEY UPDATE;\n    UPDATE research_topicnews SET changes = changes + 1\n     WHERE topic_id IN (SELECT topic_id FROM research_run WHERE id IN (SELECT run_id FROM added));\n    RETURN NULL;\n",
                    hash="bd33634ca392e4ef8ce10650ff49775d817f7ace",
                    level="STATEMENT",
                    operation="INSERT",
                    pgid="pgtrigger_news_told_c6bb1",
                    referencing="REFERENCING NEW TABLE AS added ",
                    table="research_deltaitem",
                    when="AFTER",
                ),
            ),
        ),
        pgtrigger.migrations.AddTrigger(
            model_name="deltaitem",
            trigger=pgtrigger.compiler.Trigger(
                name="news_retold",
                sql=pgtrigger.compiler.UpsertTriggerSql(
                    func="\n    PERFORM 1 FROM research_topicnews\n     WHERE topic_id IN (SELECT topic_id FROM research_run WHERE id IN (SELECT gone.run_id FROM gone JOIN added USING (id)\n              WHERE (gone.run_id, gone.position, gone.status, gone.hidden_reason, gone.previous_fact_id,\n                     gone.sentence, gone.previous_text) IS DISTINCT FROM\n                    (added.run_id, added.position, added.status, added.hidden_reason,\n                     added.previous_fact_id, added.sentence, added.previous_text)))\n     ORDER BY topic_id FOR NO KEY UPDATE;\n    UPDATE research_topicnews SET changes = changes + 1\n     WHERE topic_id IN (SELECT topic_id FROM research_run WHERE id IN (SELECT gone.run_id FROM gone JOIN added USING (id)\n              WHERE (gone.run_id, gone.position, gone.status, gone.hidden_reason, gone.previous_fact_id,\n                     gone.sentence, gone.previous_text) IS DISTINCT FROM\n                    (added.run_id, added.position, added.status, added.hidden_reason,\n                     added.previous_fact_id, added.sentence, added.previous_text)));\n    RETURN NULL;\n",
                    hash="a24632759294b0f58faf182b69d33e8db474f0fa",
                    level="STATEMENT",
                    operation="UPDATE",
                    pgid="pgtrigger_news_retold_cc0f1",
                    referencing="REFERENCING OLD TABLE AS gone  NEW TABLE AS added ",
                    table="research_deltaitem",
                    when="AFTER",
                ),
            ),
        ),
        pgtrigger.migrations.AddTrigger(
            model_name="deltaitem",
            trigger=pgtrigger.compiler.Trigger(
                name="news_untold",
                sql=pgtrigger.compiler.UpsertTriggerSql(
                    func="\n    PERFORM 1 FROM research_topicnews\n     WHERE topic_id IN (SELECT topic_id FROM research_run WHERE id IN (SELECT run_id FROM gone))\n     ORDER BY topic_id FOR NO KEY UPDATE;\n    UPDATE research_topicnews SET changes = changes + 1\n     WHERE topic_id IN (SELECT topic_id FROM research_run WHERE id IN (SELECT run_id FROM gone));\n    RETURN NULL;\n",
                    hash="564840221073fcd3d8a6718b4ddd49c0958b2a25",
                    level="STATEMENT",
                    operation="DELETE",
                    pgid="pgtrigger_news_untold_a81e5",
                    referencing="REFERENCING OLD TABLE AS gone ",
                    table="research_deltaitem",
                    when="AFTER",
                ),
            ),
        ),
        pgtrigger.migrations.AddTrigger(
            model_name="report",
            trigger=pgtrigger.compiler.Trigger(
                name="news_came",
                sql=pgtrigger.compiler.UpsertTriggerSql(
                    func="\n    INSERT INTO research_topicnews (topic_id, changes, counts)\n    SELECT DISTINCT run.topic_id, 1, '{}'::jsonb\n      FROM added JOIN research_run run ON run.id = added.run_id\n     ORDER BY run.topic_id\n        ON CONFLICT (topic_id) DO UPDATE SET changes = research_topicnews.changes + 1;\n    RETURN NULL;\n",
                    hash="12fa54c49a255ec00c37f304e856e919203ed9a2",
                    level="STATEMENT",
                    operation="INSERT",
                    pgid="pgtrigger_news_came_45867",
                    referencing="REFERENCING NEW TABLE AS added ",
                    table="research_report",
                    when="AFTER",
                ),
            ),
        ),
        pgtrigger.migrations.AddTrigger(
            model_name="report",
            trigger=pgtrigger.compiler.Trigger(
                name="news_read",
                sql=pgtrigger.compiler.UpsertTriggerSql(
                    func="\n    PERFORM 1 FROM research_topicnews\n     WHERE topic_id IN (SELECT topic_id FROM research_run WHERE id IN (SELECT gone.run_id FROM gone JOIN added USING (id)\n                WHERE (gone.read_at, gone.trashed_at) IS DISTINCT FROM\n                      (added.read_at, added.trashed_at)))\n     ORDER BY topic_id FOR NO KEY UPDATE;\n    UPDATE research_topicnews SET changes = changes + 1\n     WHERE topic_id IN (SELECT topic_id FROM research_run WHERE id IN (SELECT gone.run_id FROM gone JOIN added USING (id)\n                WHERE (gone.read_at, gone.trashed_at) IS DISTINCT FROM\n                      (added.read_at, added.trashed_at)));\n    RETURN NULL;\n",
                    hash="f6ea5b21d8c63f4b7e34f98b256887e75d3e3927",
                    level="STATEMENT",
                    operation="UPDATE",
                    pgid="pgtrigger_news_read_60b37",
                    referencing="REFERENCING OLD TABLE AS gone  NEW TABLE AS added ",
                    table="research_report",
                    when="AFTER",
                ),
            ),
        ),
        pgtrigger.migrations.AddTrigger(
            model_name="report",
            trigger=pgtrigger.compiler.Trigger(
                name="news_gone",
                sql=pgtrigger.compiler.UpsertTriggerSql(
                    func="\n    PERFORM 1 FROM research_topicnews\n     WHERE topic_id IN (SELECT topic_id FROM research_run WHERE id IN (SELECT run_id FROM gone))\n     ORDER BY topic_id FOR NO KEY UPDATE;\n    UPDATE research_topicnews SET changes = changes + 1\n     WHERE topic_id IN (SELECT topic_id FROM research_run WHERE id IN (SELECT run_id FROM gone));\n    RETURN NULL;\n",
                    hash="e082ad63363c33d0fce1ad6c8234b8f8a7b18df0",
                    level="STATEMENT",
                    operation="DELETE",
                    pgid="pgtrigger_news_gone_75348",
                    referencing="REFERENCING OLD TABLE AS gone ",
                    table="research_report",
                    when="AFTER",
                ),
            ),
        ),
        migrations.AddConstraint(
            model_name="correction",
            constraint=models.UniqueConstraint(
                models.F("report"),
                models.F("key"),
                condition=models.Q(("undone_at", None)),
                name="sentence_corrected_once",
            ),
        ),
        migrations.CreateModel(
            name="AffectedLine",
            fields=[
                (
                    "id",
                    models.UUIDField(
                        default=uuid.uuid4, editable=False, primary_key=True, serialize=False
                    ),
                ),
                ("record_type", models.CharField(max_length=20)),
                ("record_id", models.UUIDField()),
                ("line_key", models.CharField(max_length=16)),
                ("score", models.PositiveSmallIntegerField(default=1)),
                ("created", models.DateTimeField(default=django.utils.timezone.now)),
                ("dismissed_at", models.DateTimeField(blank=True, null=True)),
                (
                    "item",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="affects",
                        to="research.deltaitem",
                    ),
                ),
                (
                    "owner",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="+",
                        to=settings.AUTH_USER_MODEL,
                    ),
                ),
            ],
            options={
                "ordering": ("item", "id"),
                "indexes": [
                    models.Index(
                        condition=models.Q(("dismissed_at", None)),
                        fields=["owner", "-created"],
                        name="affected_line_of_owner",
                    )
                ],
                "constraints": [
                    models.UniqueConstraint(
                        models.F("item"),
                        models.F("record_id"),
                        models.F("line_key"),
                        name="line_affected_once_by_each",
                    )
                ],
            },
        ),
        migrations.CreateModel(
            name="Comment",
            fields=[
                (
                    "id",
                    models.UUIDField(
                        default=uuid.uuid4, editable=False, primary_key=True, serialize=False
                    ),
                ),
                ("name", models.CharField(max_length=150)),
                ("text", models.TextField()),
                ("created", models.DateTimeField(default=django.utils.timezone.now)),
                ("edited_at", models.DateTimeField(blank=True, null=True)),
                (
                    "author",
                    models.ForeignKey(
                        blank=True,
                        null=True,
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="+",
                        to=settings.AUTH_USER_MODEL,
                    ),
                ),
                (
                    "report",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="comments",
                        to="research.report",
                    ),
                ),
            ],
            options={
                "ordering": ("created", "id"),
                "indexes": [
                    models.Index(fields=["report", "created", "id"], name="comment_of_report")
                ],
            },
        ),
    ]
