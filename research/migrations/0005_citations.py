import uuid

import django.db.models.deletion
import django.utils.timezone
from django.conf import settings
from django.db import migrations, models

# Runs that were verified before: what the step counted.
COUNTED = """
    UPDATE research_run SET unsupported_count = (step.counts->>'unsupported')::int
    FROM research_step step
    WHERE step.run_id = research_run.id AND step.name = 'verify'
      AND step.counts->>'unsupported' ~ '^[0-9]{1,6}$'
"""


class Migration(migrations.Migration):
    dependencies = [
        ("memory", "0012_lessons"),
        ("research", "0004_reading"),
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
    ]

    operations = [
        migrations.AddField(
            model_name="report",
            name="checks",
            field=models.JSONField(blank=True, default=list),
        ),
        migrations.AddField(
            model_name="run",
            name="unsupported_count",
            field=models.PositiveIntegerField(default=0),
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
                ("taken_back_at", models.DateTimeField(blank=True, null=True)),
                ("wrong", models.TextField(verbose_name="what is wrong")),
                ("right", models.TextField(blank=True, verbose_name="what is right")),
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
                    "report",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="corrections",
                        to="research.report",
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
            },
        ),
        migrations.CreateModel(
            name="CorrectedFact",
            fields=[
                ("id", models.BigAutoField(primary_key=True, serialize=False)),
                (
                    "act",
                    models.CharField(
                        choices=[("corrected", "corrected"), ("struck", "struck")], max_length=9
                    ),
                ),
                ("before", models.TextField()),
                ("after", models.TextField(blank=True)),
                ("version", models.PositiveIntegerField()),
                ("was_touched", models.BooleanField(default=False)),
                (
                    "was_trust",
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
            },
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
                ("taken_back_at", models.DateTimeField(blank=True, null=True)),
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
                        condition=models.Q(("taken_back_at", None)),
                        name="sentence_checked_once",
                    )
                ],
            },
        ),
        migrations.AddIndex(
            model_name="correction",
            index=models.Index(fields=["topic", "-created"], name="correction_of_topic"),
        ),
        migrations.AddIndex(
            model_name="correction",
            index=models.Index(fields=["owner", "-created"], name="correction_of_owner"),
        ),
        migrations.AddConstraint(
            model_name="correction",
            constraint=models.UniqueConstraint(
                models.F("report"),
                models.F("key"),
                condition=models.Q(("taken_back_at", None)),
                name="sentence_corrected_once",
            ),
        ),
        migrations.AddConstraint(
            model_name="correctedfact",
            constraint=models.UniqueConstraint(
                models.F("correction"), models.F("fact"), name="fact_corrected_once_by_each"
            ),
        ),
        migrations.RunSQL(COUNTED, migrations.RunSQL.noop),
    ]
