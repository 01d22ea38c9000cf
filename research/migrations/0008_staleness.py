import uuid
from decimal import Decimal

import django.core.validators
import django.db.models.deletion
import django.utils.timezone
from django.conf import settings
from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("research", "0007_intents")]

    operations = [
        migrations.AddField(
            model_name="run",
            name="rechecks",
            field=models.JSONField(blank=True, default=list),
        ),
        migrations.AddField(
            model_name="schedule",
            name="recheck_at",
            field=models.DateTimeField(blank=True, null=True),
        ),
        migrations.AddField(
            model_name="topicsettings",
            name="month_money",
            field=models.DecimalField(
                blank=True,
                decimal_places=2,
                max_digits=10,
                null=True,
                validators=[django.core.validators.MinValueValidator(Decimal("0"))],
                verbose_name="money a month",
            ),
        ),
        migrations.AddField(
            model_name="topicsettings",
            name="month_tokens",
            field=models.PositiveIntegerField(blank=True, null=True, verbose_name="tokens a month"),
        ),
        migrations.AddField(
            model_name="topicsettings",
            name="over_limit",
            field=models.CharField(
                choices=[
                    ("skip", "skip it and say so"),
                    ("smaller", "run it smaller, with what is left"),
                ],
                default="skip",
                max_length=7,
                verbose_name="a scheduled run that would not fit",
            ),
        ),
        migrations.AddField(
            model_name="topicsettings",
            name="recheck",
            field=models.BooleanField(default=False, verbose_name="recheck stale facts each month"),
        ),
        migrations.AddField(
            model_name="topicsettings",
            name="stale_days",
            field=models.PositiveSmallIntegerField(
                blank=True, null=True, verbose_name="facts are stale after"
            ),
        ),
        migrations.AlterField(
            model_name="run",
            name="trigger",
            field=models.CharField(
                choices=[
                    ("person", "by hand"),
                    ("schedule", "by schedule"),
                    ("command", "by command"),
                    ("agent", "by an agent"),
                    ("recheck", "to check stale facts again"),
                ],
                default="person",
                max_length=10,
            ),
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
            options={"ordering": ("-created",)},
        ),
    ]
