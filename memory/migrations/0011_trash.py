import uuid

import django.core.serializers.json
import django.db.models.deletion
import django.utils.timezone
from django.conf import settings
from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("memory", "0010_conflicts")]

    operations = [
        migrations.CreateModel(
            name="PutAway",
            fields=[
                ("id", models.BigAutoField(primary_key=True, serialize=False)),
                ("record_type", models.CharField(max_length=40)),
                ("record_id", models.UUIDField(unique=True)),
                (
                    "rows",
                    models.JSONField(
                        default=dict, encoder=django.core.serializers.json.DjangoJSONEncoder
                    ),
                ),
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
                    "topic",
                    models.ForeignKey(
                        null=True,
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="+",
                        to="memory.topic",
                    ),
                ),
            ],
            options={"verbose_name_plural": "put away", "ordering": ("-id",)},
        ),
        migrations.CreateModel(
            name="FileEntry",
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
                ("path", models.CharField(max_length=40)),
                ("heading", models.JSONField(default=list)),
                ("content", models.TextField(blank=True)),
                ("removed_in", models.PositiveIntegerField(default=0)),
                (
                    "file",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="entries",
                        to="memory.memoryfile",
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
            options={"verbose_name_plural": "file entries", "ordering": ("-created",)},
        ),
        migrations.AddIndex(
            model_name="fileentry",
            index=models.Index(fields=["file", "trashed_at"], name="file_entry_of_file"),
        ),
    ]
