import uuid

import django.contrib.postgres.fields
import django.db.models.deletion
import django.utils.timezone
from django.conf import settings
from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("memory", "0006_first_files"),
    ]

    operations = [
        migrations.CreateModel(
            name="Snapshot",
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
                ("title", models.CharField(blank=True, max_length=200, verbose_name="title")),
                ("scope", models.CharField(max_length=200, verbose_name="scope")),
                ("format", models.PositiveSmallIntegerField(default=1, editable=False)),
                ("count", models.PositiveIntegerField(default=0, editable=False)),
                ("size", models.PositiveBigIntegerField(default=0, editable=False)),
            ],
        ),
        migrations.CreateModel(
            name="SnapshotItem",
            fields=[
                (
                    "type",
                    models.CharField(
                        choices=[
                            ("action_result", "action result"),
                            ("web_content", "web content"),
                            ("database_result", "database result"),
                            ("custom", "custom"),
                        ],
                        default="custom",
                        max_length=20,
                        verbose_name="type",
                    ),
                ),
                ("content", models.TextField(blank=True, verbose_name="content")),
                ("scope", models.CharField(default="owner", max_length=200, verbose_name="scope")),
                (
                    "tags",
                    django.contrib.postgres.fields.ArrayField(
                        base_field=models.CharField(max_length=80),
                        blank=True,
                        default=list,
                        size=None,
                        verbose_name="tags",
                    ),
                ),
                ("title", models.CharField(blank=True, max_length=500, verbose_name="title")),
                ("url", models.TextField(blank=True, verbose_name="address")),
                ("size", models.PositiveIntegerField(default=0, verbose_name="size")),
                ("action", models.CharField(blank=True, max_length=80, verbose_name="action")),
                (
                    "kept_with",
                    models.CharField(blank=True, max_length=200, verbose_name="kept with"),
                ),
                ("id", models.BigAutoField(primary_key=True, serialize=False)),
                ("position", models.PositiveIntegerField()),
                ("item_id", models.UUIDField()),
                (
                    "related_to",
                    django.contrib.postgres.fields.ArrayField(
                        base_field=models.UUIDField(), blank=True, default=list, size=None
                    ),
                ),
                ("source", models.CharField(max_length=200)),
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
                ("pinned", models.BooleanField(default=False)),
                ("created", models.DateTimeField()),
            ],
            options={
                "ordering": ("snapshot", "position"),
            },
        ),
        migrations.RemoveIndex(
            model_name="contentitem",
            name="content_by_scope",
        ),
        migrations.AddField(
            model_name="contentitem",
            name="action",
            field=models.CharField(blank=True, max_length=80, verbose_name="action"),
        ),
        migrations.AddField(
            model_name="contentitem",
            name="kept_with",
            field=models.CharField(blank=True, max_length=200, verbose_name="kept with"),
        ),
        migrations.AlterField(
            model_name="contentitem",
            name="content",
            field=models.TextField(blank=True, verbose_name="content"),
        ),
        migrations.AlterField(
            model_name="contentitem",
            name="related_to",
            field=models.ManyToManyField(
                blank=True, to="memory.contentitem", verbose_name="related items"
            ),
        ),
        migrations.AlterField(
            model_name="contentitem",
            name="scope",
            field=models.CharField(default="owner", max_length=200, verbose_name="scope"),
        ),
        migrations.AlterField(
            model_name="contentitem",
            name="size",
            field=models.PositiveIntegerField(default=0, verbose_name="size"),
        ),
        migrations.AlterField(
            model_name="contentitem",
            name="tags",
            field=django.contrib.postgres.fields.ArrayField(
                base_field=models.CharField(max_length=80),
                blank=True,
                default=list,
                size=None,
                verbose_name="tags",
            ),
        ),
        migrations.AlterField(
            model_name="contentitem",
            name="title",
            field=models.CharField(blank=True, max_length=500, verbose_name="title"),
        ),
        migrations.AlterField(
            model_name="contentitem",
            name="type",
            field=models.CharField(
                choices=[
                    ("action_result", "action result"),
                    ("web_content", "web content"),
                    ("database_result", "database result"),
                    ("custom", "custom"),
                ],
                default="custom",
                max_length=20,
                verbose_name="type",
            ),
        ),
        migrations.AlterField(
            model_name="contentitem",
            name="url",
            field=models.TextField(blank=True, verbose_name="address"),
        ),
        migrations.AddIndex(
            model_name="contentitem",
            index=models.Index(fields=["owner", "scope", "-created"], name="content_of_scope"),
        ),
        migrations.AddIndex(
            model_name="contentitem",
            index=models.Index(
                condition=models.Q(("kept_with", ""), _negated=True),
                fields=["kept_with"],
                name="content_kept_with",
            ),
        ),
        migrations.AddField(
            model_name="snapshot",
            name="owner",
            field=models.ForeignKey(
                on_delete=django.db.models.deletion.CASCADE,
                related_name="+",
                to=settings.AUTH_USER_MODEL,
            ),
        ),
        migrations.AddField(
            model_name="snapshotitem",
            name="snapshot",
            field=models.ForeignKey(
                on_delete=django.db.models.deletion.CASCADE,
                related_name="items",
                to="memory.snapshot",
            ),
        ),
        migrations.AddField(
            model_name="snapshotitem",
            name="topic",
            field=models.ForeignKey(
                null=True,
                on_delete=django.db.models.deletion.CASCADE,
                related_name="+",
                to="memory.topic",
            ),
        ),
        migrations.AddIndex(
            model_name="snapshot",
            index=models.Index(fields=["owner", "-created"], name="snapshot_of_owner"),
        ),
        migrations.AddConstraint(
            model_name="snapshotitem",
            constraint=models.UniqueConstraint(
                fields=("snapshot", "item_id"), name="snapshot_item_once"
            ),
        ),
        migrations.AlterField(
            model_name="savedview",
            name="page",
            field=models.CharField(
                choices=[
                    ("notes", "notes"),
                    ("observations", "observations"),
                    ("content", "content"),
                    ("recall", "recall"),
                    ("activity", "activity"),
                ],
                max_length=12,
            ),
        ),
    ]
