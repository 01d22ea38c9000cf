import uuid

import django.core.validators
import django.db.models.deletion
import django.utils.timezone
from django.conf import settings
from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
        ("research", "0005_citations"),
    ]

    operations = [
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
                    "often",
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
                ("even_if_quiet", models.BooleanField(default=False)),
                ("next_at", models.DateTimeField(blank=True, null=True)),
                ("zone", models.CharField(blank=True, default="", max_length=64)),
            ],
            options={
                "verbose_name_plural": "digest settings",
            },
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
                            ("email", "e-mail"),
                            ("webhook", "webhook"),
                            ("apprise", "Apprise"),
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
                ("enabled", models.BooleanField(default=True)),
                ("off_because", models.TextField(blank=True)),
                ("failed_in_row", models.PositiveIntegerField(default=0)),
                ("last_at", models.DateTimeField(blank=True, null=True)),
                ("last_ok", models.BooleanField(blank=True, null=True)),
                ("last_said", models.TextField(blank=True)),
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
                            ("failure", "failure of a run"),
                            ("digest", "digest"),
                            ("notice", "notice"),
                            ("test", "test"),
                        ],
                        max_length=8,
                    ),
                ),
                ("about", models.CharField(max_length=120)),
                ("subject", models.CharField(blank=True, max_length=300)),
                ("message", models.TextField(blank=True)),
                (
                    "state",
                    models.CharField(
                        choices=[
                            ("waiting", "waiting"),
                            ("sending", "being sent"),
                            ("sent", "sent"),
                            ("failed", "given up"),
                            ("unsure", "not known whether it arrived"),
                            ("dropped", "not sent"),
                        ],
                        default="waiting",
                        max_length=8,
                    ),
                ),
                ("attempt", models.PositiveIntegerField(default=0)),
                ("round", models.PositiveIntegerField(default=1)),
                ("tried", models.PositiveIntegerField(default=0)),
                ("not_before", models.DateTimeField(default=django.utils.timezone.now)),
                ("nudged_at", models.DateTimeField(blank=True, null=True)),
                ("lease_until", models.DateTimeField(blank=True, null=True)),
                ("handed_at", models.DateTimeField(blank=True, null=True)),
                ("request", models.TextField(blank=True)),
                ("response_code", models.PositiveIntegerField(blank=True, null=True)),
                ("response", models.TextField(blank=True)),
                ("error", models.TextField(blank=True)),
                ("tries", models.JSONField(blank=True, default=list)),
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
                    "run",
                    models.ForeignKey(
                        null=True,
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="+",
                        to="research.run",
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
            ],
            options={
                "verbose_name_plural": "deliveries",
                "ordering": ("-created", "-id"),
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
                (
                    "digest",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="entries",
                        to="research.digest",
                    ),
                ),
            ],
            options={
                "verbose_name_plural": "digest entries",
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
                ("with_private", models.BooleanField(default=False)),
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
                ("own", models.BooleanField(default=False)),
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
        migrations.AddIndex(
            model_name="channel",
            index=models.Index(fields=["owner", "created"], name="channel_of_owner"),
        ),
        migrations.AddConstraint(
            model_name="digest",
            constraint=models.UniqueConstraint(fields=("owner", "slot"), name="digest_once_a_slot"),
        ),
        migrations.AddIndex(
            model_name="delivery",
            index=models.Index(fields=["owner", "-created", "-id"], name="delivery_of_owner"),
        ),
        migrations.AddIndex(
            model_name="delivery",
            index=models.Index(fields=["channel", "-created", "-id"], name="delivery_of_channel"),
        ),
        migrations.AddIndex(
            model_name="delivery",
            index=models.Index(
                condition=models.Q(("state__in", ["waiting", "sending"])),
                fields=["not_before"],
                name="delivery_open",
            ),
        ),
        migrations.AddConstraint(
            model_name="delivery",
            constraint=models.UniqueConstraint(
                fields=("channel", "kind", "about"), name="delivery_once_a_channel"
            ),
        ),
        migrations.AddIndex(
            model_name="feed",
            index=models.Index(fields=["owner", "created"], name="feed_of_owner"),
        ),
    ]
