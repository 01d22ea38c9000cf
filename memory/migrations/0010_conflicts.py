"""What does not go together until a person settles it, and sources that an owner refuses."""

import uuid

import django.contrib.postgres.fields
import django.db.models.deletion
import django.db.models.functions.comparison
import django.utils.timezone
from django.conf import settings
from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("memory", "0009_search_terms_room")]

    operations = [
        migrations.CreateModel(
            name="Conflict",
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
                            ("contradiction", "contradiction"),
                            ("near-duplicate", "near-duplicate"),
                        ],
                        max_length=14,
                        verbose_name="kind",
                    ),
                ),
                ("left_type", models.CharField(max_length=40)),
                ("left_id", models.UUIDField()),
                ("left_version", models.PositiveIntegerField()),
                ("right_type", models.CharField(max_length=40)),
                ("right_id", models.UUIDField()),
                ("right_version", models.PositiveIntegerField()),
                (
                    "topic_ids",
                    django.contrib.postgres.fields.ArrayField(
                        base_field=models.UUIDField(), blank=True, default=list, size=None
                    ),
                ),
                ("source", models.CharField(blank=True, max_length=200)),
                ("reason", models.TextField(blank=True)),
                (
                    "state",
                    models.CharField(
                        choices=[("open", "open"), ("settled", "settled")],
                        default="open",
                        max_length=7,
                    ),
                ),
                (
                    "settled_how",
                    models.CharField(
                        blank=True,
                        choices=[
                            ("left", "kept left"),
                            ("right", "kept right"),
                            ("both", "kept both"),
                            ("merged", "merged"),
                            ("gone", "settled itself: one of the two is gone"),
                        ],
                        max_length=6,
                    ),
                ),
                ("settled_by", models.CharField(blank=True, max_length=200)),
                ("settled_at", models.DateTimeField(blank=True, null=True)),
                ("results", models.JSONField(blank=True, default=list)),
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
                "ordering": ("created", "id"),
                "indexes": [
                    models.Index(fields=["owner", "state", "created"], name="conflict_of_owner"),
                    models.Index(fields=["left_id"], name="conflict_left"),
                    models.Index(fields=["right_id"], name="conflict_right"),
                ],
                "constraints": [
                    models.UniqueConstraint(
                        django.db.models.functions.comparison.Least("left_id", "right_id"),
                        django.db.models.functions.comparison.Greatest("left_id", "right_id"),
                        condition=models.Q(("state", "open")),
                        name="conflict_open_once_a_pair",
                    ),
                    models.CheckConstraint(
                        condition=models.Q(("left_id", models.F("right_id")), _negated=True),
                        name="conflict_not_with_itself",
                    ),
                ],
            },
        ),
        migrations.CreateModel(
            name="RefusedSource",
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
                        choices=[("agent", "agent"), ("domain", "domain"), ("source", "source")],
                        max_length=6,
                        verbose_name="kind",
                    ),
                ),
                ("name", models.CharField(max_length=255, verbose_name="name")),
                ("reason", models.TextField(blank=True, verbose_name="why")),
                ("refused", models.PositiveIntegerField(default=0)),
                ("last_refused_at", models.DateTimeField(blank=True, null=True)),
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
                "ordering": ("-created",),
                "constraints": [
                    models.UniqueConstraint(
                        fields=("owner", "kind", "name"), name="refused_source_once_an_owner"
                    )
                ],
            },
        ),
    ]
