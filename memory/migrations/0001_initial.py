"""All tables of `memory`, and how three of them are stored on disk.

Search terms have room beside each row: a save counts thousands of them, and without room each new
figure went to another page, and its entry of the index too.  The texts of files and of their
history aren't compressed by Postgres: a save of a large file stores its text three times, which
took 50 ms more for a quarter less disk.
"""

import uuid
from decimal import Decimal

import django.contrib.auth.validators
import django.contrib.postgres.fields
import django.contrib.postgres.indexes
import django.contrib.postgres.search
import django.core.serializers.json
import django.core.validators
import django.db.models.deletion
import django.db.models.functions.comparison
import django.db.models.functions.text
import django.utils.timezone
import pgtrigger.compiler
import pgtrigger.migrations
from django.conf import settings
from django.db import migrations, models
from django.db.models.functions import Now

import memory.models.accounts
import memory.models.proposals
import memory.models.search_index
from beacon_site.db.migrations import InitialMigration


def _stored(how: str) -> str:
    """Return the statements that store the large texts of files and of history as `how`."""
    return (
        f"ALTER TABLE memory_revision ALTER before SET STORAGE {how}, "
        f"ALTER after SET STORAGE {how};"
        f"ALTER TABLE memory_memoryfile ALTER content SET STORAGE {how}"
    )


class Migration(InitialMigration):
    initial = True

    dependencies = [
        ("auth", "0012_alter_user_first_name_max_length"),
    ]

    operations = [
        migrations.CreateModel(
            name="User",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("password", models.CharField(max_length=128, verbose_name="password")),
                (
                    "last_login",
                    models.DateTimeField(blank=True, null=True, verbose_name="last login"),
                ),
                (
                    "is_superuser",
                    models.BooleanField(
                        default=False,
                        help_text="Designates that this user has all permissions without explicitly assigning them.",
                        verbose_name="superuser status",
                    ),
                ),
                (
                    "username",
                    models.CharField(
                        error_messages={"unique": "A user with that username already exists."},
                        help_text="Required. 150 characters or fewer. Letters, digits and @/./+/-/_ only.",
                        max_length=150,
                        unique=True,
                        validators=[django.contrib.auth.validators.UnicodeUsernameValidator()],
                        verbose_name="username",
                    ),
                ),
                (
                    "first_name",
                    models.CharField(blank=True, max_length=150, verbose_name="first name"),
                ),
                (
                    "last_name",
                    models.CharField(blank=True, max_length=150, verbose_name="last name"),
                ),
                (
                    "email",
                    models.EmailField(blank=True, max_length=254, verbose_name="email address"),
                ),
                (
                    "is_staff",
                    models.BooleanField(
                        default=False,
                        help_text="Designates whether the user can log into this admin site.",
                        verbose_name="staff status",
                    ),
                ),
                (
                    "is_active",
                    models.BooleanField(
                        default=True,
                        help_text="Designates whether this user should be treated as active. Unselect this instead of deleting accounts.",
                        verbose_name="active",
                    ),
                ),
                (
                    "date_joined",
                    models.DateTimeField(
                        default=django.utils.timezone.now, verbose_name="date joined"
                    ),
                ),
                ("display_name", models.CharField(blank=True, max_length=150, verbose_name="name")),
                (
                    "time_zone",
                    models.CharField(default="UTC", max_length=64, verbose_name="time zone"),
                ),
                (
                    "language",
                    models.CharField(default="en", max_length=16, verbose_name="language"),
                ),
                (
                    "page_language",
                    models.CharField(blank=True, max_length=10, verbose_name="page language"),
                ),
                ("interests", models.TextField(blank=True, verbose_name="interests")),
                (
                    "monthly_tokens",
                    models.PositiveIntegerField(
                        blank=True, null=True, verbose_name="tokens per month"
                    ),
                ),
                (
                    "monthly_money",
                    models.DecimalField(
                        blank=True,
                        decimal_places=2,
                        max_digits=10,
                        null=True,
                        verbose_name="cost per month",
                    ),
                ),
                ("shortcuts", models.BooleanField(default=True, verbose_name="keyboard shortcuts")),
                (
                    "pinned",
                    models.JSONField(
                        blank=True, default=list, editable=False, verbose_name="pinned items"
                    ),
                ),
                (
                    "groups",
                    models.ManyToManyField(
                        blank=True,
                        help_text="The groups this user belongs to. A user will get all permissions granted to each of their groups.",
                        related_name="user_set",
                        related_query_name="user",
                        to="auth.group",
                        verbose_name="groups",
                    ),
                ),
                (
                    "user_permissions",
                    models.ManyToManyField(
                        blank=True,
                        help_text="Specific permissions for this user.",
                        related_name="user_set",
                        related_query_name="user",
                        to="auth.permission",
                        verbose_name="user permissions",
                    ),
                ),
            ],
            options={
                "verbose_name": "user",
                "verbose_name_plural": "users",
                "abstract": False,
                "swappable": "AUTH_USER_MODEL",
            },
            managers=[
                ("objects", memory.models.accounts.UserManager()),
            ],
        ),
        migrations.CreateModel(
            name="Agent",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("name", models.CharField(max_length=80)),
                ("enable_memory", models.BooleanField(default=False)),
                ("share_with_subagents", models.BooleanField(default=True)),
                ("use_model_compaction", models.BooleanField(default=False)),
                ("compaction_prompt", models.TextField(blank=True)),
                ("read_trust", models.CharField(blank=True, editable=False, max_length=12)),
                ("read_at", models.DateTimeField(editable=False, null=True)),
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
                "constraints": [
                    models.UniqueConstraint(
                        fields=("owner", "name"), name="agent_name_once_an_owner"
                    )
                ],
            },
        ),
        migrations.CreateModel(
            name="AgentScope",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("scope", models.CharField(max_length=200)),
                ("agent", models.CharField(max_length=80)),
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
                "constraints": [
                    models.UniqueConstraint(
                        fields=("owner", "scope"), name="agent_scope_once_an_owner"
                    )
                ],
            },
        ),
        migrations.CreateModel(
            name="ApiToken",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("hash", models.CharField(max_length=64, unique=True)),
                (
                    "scopes",
                    django.contrib.postgres.fields.ArrayField(
                        base_field=models.CharField(max_length=10), default=list, size=None
                    ),
                ),
                (
                    "topic_ids",
                    django.contrib.postgres.fields.ArrayField(
                        base_field=models.UUIDField(), blank=True, default=list, size=None
                    ),
                ),
                ("created", models.DateTimeField(default=django.utils.timezone.now)),
                ("expires_at", models.DateTimeField(blank=True, null=True)),
                ("last_used_at", models.DateTimeField(blank=True, null=True)),
                ("revoked_at", models.DateTimeField(blank=True, null=True)),
                (
                    "agent",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="tokens",
                        to="memory.agent",
                    ),
                ),
            ],
        ),
        migrations.CreateModel(
            name="ApiAnswer",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("key", models.CharField(max_length=255)),
                ("fingerprint", models.CharField(max_length=64)),
                ("status", models.PositiveSmallIntegerField()),
                ("headers", models.JSONField(default=dict)),
                ("body", models.TextField(blank=True)),
                ("bare", models.TextField(blank=True)),
                ("trust", models.CharField(blank=True, max_length=12)),
                (
                    "record_ids",
                    django.contrib.postgres.fields.ArrayField(
                        base_field=models.UUIDField(), default=list, size=None
                    ),
                ),
                ("created", models.DateTimeField(default=django.utils.timezone.now)),
                (
                    "token",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="+",
                        to="memory.apitoken",
                    ),
                ),
            ],
            options={
                "indexes": [
                    django.contrib.postgres.indexes.GinIndex(
                        fields=["record_ids"], name="apianswer_by_record"
                    ),
                    models.Index(fields=["created"], name="apianswer_by_age"),
                ],
                "constraints": [
                    models.UniqueConstraint(
                        fields=("token", "key"), name="apianswer_key_once_a_token"
                    )
                ],
            },
        ),
        migrations.CreateModel(
            name="OAuthClient",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("client_id", models.CharField(max_length=1000, unique=True)),
                ("name", models.CharField(max_length=80)),
                (
                    "redirect_uris",
                    django.contrib.postgres.fields.ArrayField(
                        base_field=models.CharField(max_length=1000), size=None
                    ),
                ),
                ("read_at", models.DateTimeField(null=True)),
                ("created", models.DateTimeField(default=django.utils.timezone.now)),
            ],
        ),
        migrations.CreateModel(
            name="OAuthGrant",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("resource", models.CharField(max_length=1000)),
                ("redirect_uri", models.CharField(max_length=1000)),
                ("challenge", models.CharField(max_length=43)),
                ("family", models.CharField(max_length=64, unique=True)),
                ("secret", models.CharField(max_length=64)),
                ("access_until", models.DateTimeField(null=True)),
                (
                    "client",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="grants",
                        to="memory.oauthclient",
                    ),
                ),
                (
                    "token",
                    models.OneToOneField(
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="grant",
                        to="memory.apitoken",
                    ),
                ),
            ],
        ),
        migrations.CreateModel(
            name="Archive",
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
                            ("export", "export"),
                            ("import", "import"),
                            ("pages", "web pages"),
                        ],
                        max_length=6,
                    ),
                ),
                (
                    "state",
                    models.CharField(
                        choices=[
                            ("waiting", "waiting"),
                            ("running", "running"),
                            ("checked", "previewed"),
                            ("done", "done"),
                            ("failed", "failed"),
                            ("stopped", "stopped"),
                        ],
                        default="waiting",
                        max_length=8,
                    ),
                ),
                ("name", models.CharField(blank=True, max_length=200)),
                ("size", models.PositiveBigIntegerField(default=0)),
                (
                    "options",
                    models.JSONField(
                        blank=True,
                        default=dict,
                        encoder=django.core.serializers.json.DjangoJSONEncoder,
                    ),
                ),
                (
                    "result",
                    models.JSONField(
                        blank=True,
                        default=dict,
                        encoder=django.core.serializers.json.DjangoJSONEncoder,
                    ),
                ),
                ("problem", models.TextField(blank=True)),
                ("is_confirmed", models.BooleanField(default=False)),
                ("created", models.DateTimeField(default=django.utils.timezone.now)),
                ("started_at", models.DateTimeField(blank=True, null=True)),
                ("finished_at", models.DateTimeField(blank=True, null=True)),
                (
                    "owner",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="+",
                        to=settings.AUTH_USER_MODEL,
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
                "ordering": ("-created",),
                "indexes": [models.Index(fields=["owner", "-created"], name="archive_of_owner")],
            },
        ),
        migrations.CreateModel(
            name="BulkAction",
            fields=[
                (
                    "id",
                    models.UUIDField(
                        default=uuid.uuid4, editable=False, primary_key=True, serialize=False
                    ),
                ),
                ("page", models.CharField(max_length=12)),
                ("act", models.CharField(max_length=20)),
                ("query", models.TextField(blank=True)),
                (
                    "arguments",
                    models.JSONField(
                        blank=True,
                        default=dict,
                        encoder=django.core.serializers.json.DjangoJSONEncoder,
                    ),
                ),
                ("before", models.DateTimeField(default=django.utils.timezone.now)),
                (
                    "state",
                    models.CharField(
                        choices=[
                            ("waiting", "waiting"),
                            ("running", "running"),
                            ("done", "done"),
                            ("failed", "failed"),
                            ("undone", "undone"),
                        ],
                        default="waiting",
                        max_length=8,
                    ),
                ),
                ("total", models.PositiveIntegerField(null=True)),
                ("done", models.PositiveIntegerField(default=0)),
                ("unchanged", models.PositiveIntegerField(default=0)),
                ("problem", models.TextField(blank=True)),
                ("created", models.DateTimeField(default=django.utils.timezone.now)),
                ("finished_at", models.DateTimeField(blank=True, null=True)),
                (
                    "owner",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="+",
                        to=settings.AUTH_USER_MODEL,
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
                "ordering": ("-created",),
                "indexes": [models.Index(fields=["state", "created"], name="bulk_act_to_do")],
            },
        ),
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
                        verbose_name="type",
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
                (
                    "reason",
                    models.CharField(
                        blank=True,
                        choices=[
                            ("version", "different version"),
                            ("date", "different date"),
                            ("time", "different time"),
                            ("amount", "different amount"),
                            ("number", "different number"),
                            ("polarity", "opposite meaning"),
                            ("similar", "almost the same wording"),
                            ("replaces", "possible update"),
                            ("sources", "disputed by a source"),
                        ],
                        max_length=8,
                    ),
                ),
                (
                    "state",
                    models.CharField(
                        choices=[("open", "open"), ("resolved", "resolved")],
                        default="open",
                        max_length=8,
                    ),
                ),
                (
                    "resolution",
                    models.CharField(
                        blank=True,
                        choices=[
                            ("left", "kept older"),
                            ("right", "kept newer"),
                            ("both", "kept both"),
                            ("merged", "merged"),
                            (
                                "gone",
                                "resolved automatically because one side is no longer current",
                            ),
                        ],
                        max_length=6,
                    ),
                ),
                ("resolved_by", models.CharField(blank=True, max_length=200)),
                ("resolved_at", models.DateTimeField(blank=True, null=True)),
                ("results", models.JSONField(blank=True, default=list)),
                ("lines", models.JSONField(blank=True, default=list)),
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
                        models.F("lines"),
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
            name="Connection",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                (
                    "kind",
                    models.CharField(
                        choices=[
                            ("model", "model"),
                            ("embeddings", "embeddings"),
                            ("search", "search"),
                        ],
                        max_length=12,
                    ),
                ),
                ("name", models.CharField(max_length=40)),
                ("base_url", models.CharField(blank=True, max_length=500, verbose_name="URL")),
                ("model", models.CharField(blank=True, max_length=200, verbose_name="model")),
                ("secret", models.TextField(blank=True, editable=False)),
                ("profile", models.JSONField(blank=True, default=dict)),
                ("prices", models.JSONField(blank=True, default=dict)),
                ("updated", models.DateTimeField(auto_now=True)),
            ],
            options={
                "constraints": [
                    models.UniqueConstraint(
                        fields=("kind", "name"), name="connection_once_a_service"
                    )
                ],
            },
        ),
        migrations.CreateModel(
            name="Embedding",
            fields=[
                ("id", models.BigAutoField(primary_key=True, serialize=False)),
                ("record_type", models.CharField(max_length=40)),
                ("object_id", models.UUIDField()),
                ("model", models.CharField(max_length=120)),
                ("dimensions", models.PositiveIntegerField()),
                (
                    "values",
                    django.contrib.postgres.fields.ArrayField(
                        base_field=memory.models.search_index.RealField(), size=None
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
            ],
            options={
                "indexes": [
                    models.Index(
                        fields=["owner", "model", "record_type"], name="embedding_of_owner"
                    )
                ],
                "constraints": [
                    models.UniqueConstraint(
                        fields=("record_type", "object_id"), name="embedding_once"
                    )
                ],
            },
        ),
        migrations.CreateModel(
            name="EmbeddingDue",
            fields=[
                ("id", models.BigAutoField(primary_key=True, serialize=False)),
                ("record_type", models.CharField(max_length=40)),
                ("object_id", models.UUIDField()),
                ("tries", models.PositiveIntegerField(default=0)),
                ("not_before", models.DateTimeField(default=django.utils.timezone.now)),
                ("created", models.DateTimeField(default=django.utils.timezone.now)),
                ("needs_local_embedder", models.BooleanField(default=False)),
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
                "verbose_name_plural": "embeddings due",
                "indexes": [models.Index(fields=["not_before"], name="embedding_due_next")],
                "constraints": [
                    models.UniqueConstraint(
                        fields=("record_type", "object_id"), name="embedding_due_once"
                    )
                ],
            },
        ),
        migrations.CreateModel(
            name="FileDraft",
            fields=[
                (
                    "id",
                    models.UUIDField(
                        default=uuid.uuid4, editable=False, primary_key=True, serialize=False
                    ),
                ),
                ("path", models.CharField(max_length=400)),
                ("content", models.TextField(blank=True)),
                ("note", models.CharField(blank=True, max_length=300)),
                ("seen", models.PositiveIntegerField(default=0)),
                ("updated", models.DateTimeField(default=django.utils.timezone.now)),
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
                "constraints": [
                    models.UniqueConstraint(fields=("owner", "path"), name="file_draft_once_a_path")
                ],
            },
        ),
        migrations.CreateModel(
            name="Invitation",
            fields=[
                ("id", models.BigAutoField(primary_key=True, serialize=False)),
                ("token_hash", models.CharField(max_length=64, unique=True)),
                ("note", models.CharField(blank=True, max_length=150, verbose_name="recipient")),
                (
                    "grants_admin",
                    models.BooleanField(
                        default=False, verbose_name="admin (can manage users and connections)"
                    ),
                ),
                ("is_first", models.BooleanField(default=False)),
                ("created", models.DateTimeField(default=django.utils.timezone.now)),
                ("expires_at", models.DateTimeField()),
                ("used_at", models.DateTimeField(null=True)),
                (
                    "invited_by",
                    models.ForeignKey(
                        null=True,
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="+",
                        to=settings.AUTH_USER_MODEL,
                    ),
                ),
                (
                    "used_by",
                    models.ForeignKey(
                        null=True,
                        on_delete=django.db.models.deletion.SET_NULL,
                        related_name="+",
                        to=settings.AUTH_USER_MODEL,
                    ),
                ),
            ],
            options={
                "ordering": ("-id",),
            },
        ),
        migrations.CreateModel(
            name="LibraryDocument",
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
                ("text", models.TextField(blank=True)),
                ("path", models.TextField(blank=True)),
                ("url", models.TextField(blank=True)),
                ("media_type", models.CharField(blank=True, max_length=100)),
                ("digest", models.CharField(blank=True, max_length=64)),
                ("size", models.PositiveIntegerField(default=0)),
                ("modified_at", models.DateTimeField(blank=True, null=True)),
                ("problem", models.TextField(blank=True)),
                ("content_version", models.PositiveIntegerField(default=1)),
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
                "indexes": [
                    models.Index(fields=["owner", "-created", "-id"], name="library_of_owner"),
                    models.Index(
                        condition=models.Q(("path", ""), _negated=True),
                        fields=["-created", "-id"],
                        name="library_of_folder",
                    ),
                ],
                "constraints": [
                    models.UniqueConstraint(
                        condition=models.Q(
                            models.Q(("path", ""), _negated=True), ("trashed_at", None)
                        ),
                        fields=("owner", "path"),
                        name="library_path_once_an_owner",
                    )
                ],
            },
        ),
        migrations.CreateModel(
            name="LibraryFolder",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("folder", models.TextField()),
                ("checked_at", models.DateTimeField(null=True)),
                ("files", models.PositiveIntegerField(default=0)),
                ("unreadable", models.PositiveIntegerField(default=0)),
                ("remaining", models.PositiveIntegerField(default=0)),
                ("problem", models.TextField(blank=True)),
                (
                    "owner",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="+",
                        to=settings.AUTH_USER_MODEL,
                    ),
                ),
            ],
        ),
        migrations.CreateModel(
            name="MemoryFile",
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
                ("path", models.CharField(max_length=400)),
                ("content", models.TextField(blank=True)),
                ("summary", models.CharField(blank=True, max_length=400)),
                (
                    "summary_by",
                    models.CharField(
                        choices=[
                            ("beacon", "Beacon"),
                            ("person", "a person"),
                            ("agent", "an agent"),
                        ],
                        default="beacon",
                        editable=False,
                        max_length=6,
                    ),
                ),
                ("size", models.PositiveIntegerField(default=0)),
                ("blame", models.JSONField(blank=True, default=list)),
                ("section_locks", models.JSONField(blank=True, default=list)),
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
                "ordering": ("path",),
                "constraints": [
                    models.UniqueConstraint(
                        condition=models.Q(("trashed_at", None)),
                        fields=("owner", "path"),
                        name="memory_file_once",
                    )
                ],
            },
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
                ("path", models.CharField(max_length=400)),
                ("heading", models.JSONField(default=list)),
                ("content", models.TextField(blank=True)),
                ("removed_in", models.PositiveIntegerField(default=0)),
                (
                    "owner",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="+",
                        to=settings.AUTH_USER_MODEL,
                    ),
                ),
                (
                    "file",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="entries",
                        to="memory.memoryfile",
                    ),
                ),
            ],
            options={
                "verbose_name_plural": "file entries",
                "ordering": ("-created",),
                "indexes": [models.Index(fields=["file", "trashed_at"], name="file_entry_of_file")],
            },
        ),
        migrations.CreateModel(
            name="MirroredFile",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("path", models.CharField(max_length=400)),
                ("version", models.PositiveIntegerField(default=0)),
                ("digest", models.CharField(blank=True, max_length=64)),
                ("stamp", models.CharField(blank=True, max_length=80)),
                ("refused", models.CharField(blank=True, max_length=64)),
                ("problem", models.TextField(blank=True)),
                ("synced_at", models.DateTimeField(default=django.utils.timezone.now)),
                ("committed", models.PositiveIntegerField(default=0)),
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
                "constraints": [
                    models.UniqueConstraint(
                        fields=("owner", "path"), name="mirrored_file_once_a_path"
                    )
                ],
            },
        ),
        migrations.CreateModel(
            name="MirrorFolder",
            fields=[
                (
                    "id",
                    models.PositiveSmallIntegerField(
                        default=1, editable=False, primary_key=True, serialize=False
                    ),
                ),
                ("identity", models.UUIDField(default=uuid.uuid4)),
                ("place", models.TextField(blank=True)),
                ("problem", models.TextField(blank=True)),
                ("git_problem", models.TextField(blank=True)),
                (
                    "root",
                    models.ForeignKey(
                        null=True,
                        on_delete=django.db.models.deletion.SET_NULL,
                        related_name="+",
                        to=settings.AUTH_USER_MODEL,
                    ),
                ),
            ],
        ),
        migrations.CreateModel(
            name="Proposal",
            fields=[
                (
                    "id",
                    models.UUIDField(
                        default=uuid.uuid4, editable=False, primary_key=True, serialize=False
                    ),
                ),
                ("actor", models.CharField(max_length=200)),
                ("source", models.CharField(blank=True, max_length=200)),
                ("record_type", models.CharField(max_length=40)),
                ("target_id", models.UUIDField(blank=True, null=True)),
                ("version_seen", models.PositiveIntegerField(blank=True, null=True)),
                (
                    "before",
                    models.JSONField(
                        blank=True,
                        default=dict,
                        encoder=django.core.serializers.json.DjangoJSONEncoder,
                    ),
                ),
                (
                    "after",
                    models.JSONField(
                        default=dict, encoder=django.core.serializers.json.DjangoJSONEncoder
                    ),
                ),
                (
                    "edited",
                    models.JSONField(
                        blank=True,
                        default=dict,
                        encoder=django.core.serializers.json.DjangoJSONEncoder,
                    ),
                ),
                ("result_id", models.UUIDField(blank=True, null=True)),
                ("results", models.JSONField(blank=True, default=list)),
                ("reason", models.TextField(blank=True)),
                ("hold_reasons", models.TextField(blank=True)),
                (
                    "danger",
                    models.PositiveSmallIntegerField(
                        choices=[
                            (1, "Prompt injection"),
                            (2, "Changes to your own words"),
                            (3, "Rules and identity"),
                            (4, "From pages and documents"),
                            (5, "Other changes"),
                        ],
                        default=5,
                    ),
                ),
                ("risks", models.JSONField(blank=True, default=list)),
                (
                    "state",
                    models.CharField(
                        choices=[
                            ("waiting", "waiting"),
                            ("accepted", "accepted"),
                            ("rejected", "rejected"),
                            ("expired", "expired"),
                        ],
                        default="waiting",
                        max_length=10,
                    ),
                ),
                ("decided_by", models.CharField(blank=True, max_length=200)),
                ("decided_at", models.DateTimeField(blank=True, null=True)),
                ("decision_reason", models.TextField(blank=True)),
                ("created", models.DateTimeField(default=django.utils.timezone.now)),
                (
                    "expires_at",
                    models.DateTimeField(default=memory.models.proposals._a_lifetime_from_now),
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
                "ordering": ("created", "id"),
                "indexes": [
                    models.Index(fields=["owner", "state", "created"], name="proposal_of_owner"),
                    models.Index(
                        condition=models.Q(("state", "waiting")),
                        fields=["owner", "danger", "created", "id"],
                        name="proposal_by_danger",
                    ),
                ],
            },
        ),
        migrations.CreateModel(
            name="PublishDue",
            fields=[
                ("id", models.BigAutoField(primary_key=True, serialize=False)),
                ("slug", models.CharField(max_length=80)),
                ("tried_at", models.DateTimeField(editable=False, null=True)),
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
                "verbose_name": "topic to publish",
                "verbose_name_plural": "topics to publish",
                "ordering": ("id",),
                "indexes": [models.Index(fields=["owner", "slug"], name="publish_due_of_slug")],
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
                        verbose_name="type",
                    ),
                ),
                ("name", models.CharField(max_length=255, verbose_name="name")),
                ("reason", models.TextField(blank=True, verbose_name="reason")),
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
        migrations.CreateModel(
            name="ReviewLevel",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("kind", models.CharField(default="default", max_length=40)),
                ("writer", models.CharField(blank=True, max_length=200)),
                (
                    "level",
                    models.CharField(
                        choices=[
                            ("accept", "accept"),
                            ("hold risky", "hold risky"),
                            ("hold all", "hold all"),
                        ],
                        default="hold risky",
                        max_length=10,
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
                "constraints": [
                    models.UniqueConstraint(
                        fields=("owner", "kind", "writer"), name="review_level_once_a_kind"
                    )
                ],
            },
        ),
        migrations.CreateModel(
            name="Revision",
            fields=[
                ("id", models.BigAutoField(primary_key=True, serialize=False)),
                ("record_type", models.CharField(max_length=40)),
                ("record_id", models.UUIDField()),
                ("label", models.CharField(blank=True, max_length=200)),
                ("version", models.PositiveIntegerField()),
                ("actor", models.CharField(max_length=200)),
                ("reason", models.TextField(blank=True)),
                ("source", models.CharField(blank=True, max_length=200)),
                (
                    "before",
                    models.JSONField(
                        default=dict, encoder=django.core.serializers.json.DjangoJSONEncoder
                    ),
                ),
                (
                    "after",
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
            ],
            options={
                "ordering": ("-id",),
                "indexes": [
                    models.Index(
                        fields=["record_type", "record_id", "-id"], name="revision_of_record"
                    ),
                    models.Index(fields=["owner", "-created", "-id"], name="revision_of_owner"),
                    models.Index(
                        fields=["owner", "record_type", "-created", "-id"], name="revision_of_type"
                    ),
                    models.Index(
                        models.F("owner"),
                        models.Func(
                            models.F("actor"),
                            models.Value(":"),
                            models.Value(1),
                            function="split_part",
                            output_field=models.TextField(),
                        ),
                        models.OrderBy(models.F("created"), descending=True),
                        models.OrderBy(models.F("id"), descending=True),
                        name="revision_by_actor",
                    ),
                    models.Index(fields=["source"], name="revision_by_source"),
                    models.Index(
                        fields=["owner", "created"],
                        include=["record_type", "record_id"],
                        condition=models.Q(("version__gt", 1)),
                        name="revision_of_change",
                    ),
                    models.Index(
                        fields=["owner", "created"],
                        include=["actor", "record_type"],
                        condition=models.Q(("version", 1)),
                        name="revision_of_start",
                    ),
                ],
            },
        ),
        migrations.CreateModel(
            name="SavedView",
            fields=[
                ("id", models.BigAutoField(primary_key=True, serialize=False)),
                (
                    "page",
                    models.CharField(
                        choices=[
                            ("notes", "notes"),
                            ("observations", "observations"),
                            ("content", "content"),
                            ("recall", "recall"),
                            ("activity", "activity"),
                            ("files", "files"),
                            ("library", "library"),
                            ("topics", "topics"),
                            ("reports", "reports"),
                        ],
                        max_length=12,
                    ),
                ),
                ("name", models.CharField(max_length=60, verbose_name="name")),
                ("query", models.TextField(blank=True)),
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
                "ordering": ("page", "name"),
                "constraints": [
                    models.UniqueConstraint(
                        fields=("owner", "page", "name"), name="saved_view_name_once_a_page"
                    )
                ],
            },
        ),
        migrations.CreateModel(
            name="Undo",
            fields=[
                (
                    "id",
                    models.UUIDField(
                        default=uuid.uuid4, editable=False, primary_key=True, serialize=False
                    ),
                ),
                ("act", models.CharField(max_length=40)),
                (
                    "arguments",
                    models.JSONField(
                        blank=True,
                        default=dict,
                        encoder=django.core.serializers.json.DjangoJSONEncoder,
                    ),
                ),
                ("created", models.DateTimeField(default=django.utils.timezone.now)),
                ("expires_at", models.DateTimeField(db_index=True)),
                ("used_at", models.DateTimeField(blank=True, null=True)),
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
            },
        ),
        migrations.CreateModel(
            name="ScratchpadEntry",
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
                ("key", models.CharField(db_collation="C", max_length=200, verbose_name="key")),
                ("value", models.TextField(blank=True, verbose_name="value")),
                ("scope", models.CharField(default="owner", max_length=200, verbose_name="scope")),
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
                "verbose_name_plural": "scratchpad entries",
                "ordering": ("key",),
                "constraints": [
                    models.UniqueConstraint(
                        condition=models.Q(("trashed_at", None)),
                        fields=("owner", "scope", "key"),
                        name="scratchpad_key_once_a_scope",
                    )
                ],
            },
        ),
        migrations.CreateModel(
            name="SearchSpace",
            fields=[
                ("id", models.AutoField(primary_key=True, serialize=False)),
                ("record_type", models.CharField(max_length=40)),
                ("language", models.CharField(default="en", max_length=8)),
                ("documents", models.BigIntegerField(default=0)),
                ("length", models.BigIntegerField(default=0)),
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
                "constraints": [
                    models.UniqueConstraint(
                        fields=("owner", "record_type"), name="search_space_once_an_owner_and_type"
                    )
                ],
            },
        ),
        migrations.CreateModel(
            name="SearchEntry",
            fields=[
                ("id", models.BigAutoField(primary_key=True, serialize=False)),
                ("record_id", models.UUIDField()),
                ("length", models.PositiveIntegerField()),
                ("words", django.contrib.postgres.search.SearchVectorField()),
                ("kind", models.CharField(blank=True, max_length=12)),
                ("topic_id", models.UUIDField(blank=True, null=True)),
                ("created", models.DateTimeField(default=django.utils.timezone.now)),
                ("until", models.DateTimeField(blank=True, null=True)),
                ("is_current", models.BooleanField(default=True)),
                ("trust", models.CharField(default="owner", max_length=12)),
                ("sensitivity", models.CharField(default="normal", max_length=10)),
                ("paused", models.BooleanField(default=False)),
                (
                    "space",
                    models.ForeignKey(
                        db_index=False,
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="entries",
                        to="memory.searchspace",
                    ),
                ),
            ],
            options={
                "verbose_name_plural": "search entries",
                "indexes": [
                    django.contrib.postgres.indexes.GinIndex(
                        fastupdate=False, fields=["words"], name="search_entry_words"
                    ),
                    models.Index(
                        condition=models.Q(("is_current", False)),
                        fields=["space"],
                        name="search_entry_superseded",
                    ),
                    models.Index(fields=["space", "created"], name="search_entry_created"),
                ],
                "constraints": [
                    models.UniqueConstraint(
                        fields=("space", "record_id"), name="search_entry_once_a_record"
                    )
                ],
            },
        ),
        migrations.CreateModel(
            name="SearchTerm",
            fields=[
                (
                    "pk",
                    models.CompositePrimaryKey(
                        "space_id",
                        "lexeme",
                        blank=True,
                        editable=False,
                        primary_key=True,
                        serialize=False,
                    ),
                ),
                ("lexeme", models.TextField(db_collation="C")),
                ("documents", models.IntegerField()),
                ("max_count", models.SmallIntegerField(default=255)),
                ("min_length", models.IntegerField(default=0)),
                (
                    "space",
                    models.ForeignKey(
                        db_index=False,
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="terms",
                        to="memory.searchspace",
                    ),
                ),
            ],
        ),
        migrations.CreateModel(
            name="Section",
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
                ("position", models.PositiveIntegerField()),
                ("heading", models.JSONField(default=list)),
                ("content", models.TextField(blank=True)),
                (
                    "file",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="sections",
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
            options={
                "ordering": ("file", "position"),
                "indexes": [
                    models.Index(fields=["owner", "-created", "-id"], name="section_of_owner")
                ],
            },
        ),
        migrations.CreateModel(
            name="Session",
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
                ("title", models.CharField(blank=True, max_length=200)),
                ("ended_at", models.DateTimeField(blank=True, null=True)),
                (
                    "agent",
                    models.ForeignKey(
                        null=True,
                        on_delete=django.db.models.deletion.SET_NULL,
                        related_name="+",
                        to="memory.agent",
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
                "abstract": False,
            },
        ),
        migrations.CreateModel(
            name="Message",
            fields=[
                ("id", models.BigAutoField(primary_key=True, serialize=False)),
                ("position", models.PositiveIntegerField()),
                ("role", models.CharField(max_length=12)),
                ("content", models.TextField()),
                ("tool_calls", models.JSONField(blank=True, default=list)),
                ("cites", models.JSONField(blank=True, default=list)),
                ("is_index", models.BooleanField(default=False)),
                (
                    "state",
                    models.CharField(
                        choices=[
                            ("waiting", "waiting"),
                            ("answering", "answering"),
                            ("done", "done"),
                            ("failed", "failed"),
                        ],
                        default="done",
                        max_length=10,
                    ),
                ),
                ("by", models.CharField(blank=True, max_length=10)),
                ("notice", models.TextField(blank=True)),
                ("created", models.DateTimeField(default=django.utils.timezone.now)),
                (
                    "session",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="messages",
                        to="memory.session",
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
                "ordering": ("session", "position"),
                "constraints": [
                    models.UniqueConstraint(
                        fields=("session", "position"), name="message_position_once"
                    )
                ],
                "indexes": [
                    models.Index(
                        condition=models.Q(("state__in", ["waiting", "answering"])),
                        fields=["id"],
                        name="message_unanswered",
                    )
                ],
            },
        ),
        migrations.CreateModel(
            name="SignIn",
            fields=[
                ("id", models.BigAutoField(primary_key=True, serialize=False)),
                ("session_key", models.CharField(max_length=40, unique=True)),
                ("user_agent", models.CharField(blank=True, max_length=300)),
                ("address", models.GenericIPAddressField(null=True)),
                ("forms_digest", models.CharField(blank=True, max_length=64)),
                ("created", models.DateTimeField(default=django.utils.timezone.now)),
                ("last_seen_at", models.DateTimeField(default=django.utils.timezone.now)),
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
                "ordering": ("-last_seen_at",),
            },
        ),
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
                "indexes": [models.Index(fields=["owner", "-created"], name="snapshot_of_owner")],
            },
        ),
        migrations.CreateModel(
            name="SourceRule",
            fields=[
                ("id", models.BigAutoField(primary_key=True, serialize=False)),
                ("place", models.TextField(verbose_name="place")),
                (
                    "act",
                    models.CharField(
                        choices=[("block", "block"), ("boost", "boost"), ("mute", "mute")],
                        max_length=5,
                        verbose_name="action",
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
            ],
            options={
                "ordering": ("place",),
                "constraints": [
                    models.UniqueConstraint(
                        fields=("owner", "place"), name="source_rule_once_a_place"
                    )
                ],
            },
        ),
        migrations.CreateModel(
            name="Topic",
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
                ("title", models.CharField(max_length=500, verbose_name="topic")),
                ("slug", models.CharField(max_length=80)),
                ("summary", models.TextField(blank=True, verbose_name="summary")),
                ("expires_at", models.DateTimeField(blank=True, null=True)),
                ("run_count", models.PositiveIntegerField(default=0)),
                ("memory_runs", models.PositiveIntegerField(default=0)),
                ("last_run_at", models.DateTimeField(blank=True, null=True)),
                (
                    "labels",
                    django.contrib.postgres.fields.ArrayField(
                        base_field=models.CharField(max_length=40),
                        blank=True,
                        default=list,
                        size=None,
                        verbose_name="labels",
                    ),
                ),
                ("archived_at", models.DateTimeField(blank=True, null=True)),
                ("private", models.BooleanField(default=False, verbose_name="private")),
                ("read_at", models.DateTimeField(blank=True, null=True)),
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
                "indexes": [
                    models.Index(fields=["owner", "-created", "-id"], name="topic_of_owner")
                ],
                "constraints": [
                    models.UniqueConstraint(
                        condition=models.Q(("trashed_at", None)),
                        fields=("owner", "slug"),
                        name="topic_slug_once_an_owner",
                    )
                ],
            },
        ),
        migrations.CreateModel(
            name="Source",
            fields=[
                ("id", models.BigAutoField(primary_key=True, serialize=False)),
                ("url", models.TextField()),
                ("link", models.TextField(blank=True)),
                ("domain", models.CharField(max_length=255)),
                ("title", models.CharField(blank=True, max_length=500)),
                ("published_at", models.DateField(blank=True, null=True)),
                ("first_run", models.PositiveIntegerField()),
                ("last_run", models.PositiveIntegerField()),
                ("times_read", models.PositiveIntegerField(default=0)),
                ("times_cited", models.PositiveIntegerField(default=0)),
                ("first_at", models.DateTimeField(default=django.utils.timezone.now)),
                ("last_at", models.DateTimeField(default=django.utils.timezone.now)),
                ("etag", models.CharField(blank=True, max_length=300)),
                ("last_modified", models.CharField(blank=True, max_length=100)),
                (
                    "topic",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="sources",
                        to="memory.topic",
                    ),
                ),
            ],
            options={
                "ordering": ("-last_run", "id"),
                "indexes": [
                    models.Index(fields=["topic", "-last_run", "id"], name="source_of_topic")
                ],
                "constraints": [
                    models.UniqueConstraint(fields=("topic", "url"), name="source_once_a_topic")
                ],
            },
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
                ("url", models.TextField(blank=True, verbose_name="URL")),
                ("size", models.PositiveIntegerField(default=0, verbose_name="size")),
                ("action", models.CharField(blank=True, max_length=80, verbose_name="action")),
                (
                    "run_step",
                    models.CharField(blank=True, max_length=200, verbose_name="step of the run"),
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
                (
                    "snapshot",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="items",
                        to="memory.snapshot",
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
            options={
                "ordering": ("snapshot", "position"),
                "constraints": [
                    models.UniqueConstraint(
                        fields=("snapshot", "item_id"), name="snapshot_item_once"
                    )
                ],
            },
        ),
        migrations.CreateModel(
            name="SeenUrl",
            fields=[
                ("id", models.BigAutoField(primary_key=True, serialize=False)),
                ("url", models.TextField()),
                ("returned_in", models.PositiveIntegerField()),
                ("place", models.PositiveIntegerField(default=0)),
                ("returned_at", models.DateTimeField()),
                (
                    "topic",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="seen_urls",
                        to="memory.topic",
                    ),
                ),
            ],
            options={
                "ordering": ("-returned_in", "place"),
                "indexes": [
                    models.Index(
                        fields=["topic", "-returned_in", "place"], name="seen_url_of_topic"
                    )
                ],
                "constraints": [
                    models.UniqueConstraint(fields=("topic", "url"), name="seen_url_once_a_topic")
                ],
            },
        ),
        migrations.CreateModel(
            name="Reflection",
            fields=[
                ("id", models.BigAutoField(primary_key=True, serialize=False)),
                ("source", models.CharField(max_length=200)),
                (
                    "state",
                    models.CharField(
                        choices=[
                            ("waiting", "waiting"),
                            ("running", "running"),
                            ("skipped", "skipped"),
                            ("done", "done"),
                            ("failed", "failed"),
                        ],
                        default="waiting",
                        max_length=10,
                    ),
                ),
                ("why", models.TextField(blank=True)),
                ("by", models.CharField(blank=True, max_length=10)),
                ("rounds", models.PositiveIntegerField(default=0)),
                ("assessment", models.TextField(blank=True)),
                (
                    "calls",
                    models.JSONField(
                        blank=True,
                        default=list,
                        encoder=django.core.serializers.json.DjangoJSONEncoder,
                    ),
                ),
                (
                    "changes",
                    models.JSONField(
                        blank=True,
                        default=list,
                        encoder=django.core.serializers.json.DjangoJSONEncoder,
                    ),
                ),
                ("created", models.DateTimeField(default=django.utils.timezone.now)),
                ("finished_at", models.DateTimeField(blank=True, null=True)),
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
                        on_delete=django.db.models.deletion.SET_NULL,
                        related_name="+",
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
                "constraints": [
                    models.UniqueConstraint(
                        fields=("owner", "source"), name="reflection_once_a_source"
                    )
                ],
            },
        ),
        migrations.CreateModel(
            name="TrashedRows",
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
            options={
                "verbose_name_plural": "moved to Trash",
                "ordering": ("-id",),
            },
        ),
        migrations.CreateModel(
            name="Observation",
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
                (
                    "category",
                    models.CharField(
                        choices=[
                            ("finding", "finding"),
                            ("insight", "insight"),
                            ("lesson", "lesson"),
                        ],
                        max_length=7,
                        verbose_name="category",
                    ),
                ),
                ("content", models.TextField(verbose_name="observation")),
                ("scope", models.CharField(default="owner", max_length=200, verbose_name="scope")),
                ("step_name", models.CharField(blank=True, max_length=200, verbose_name="step")),
                (
                    "step_type",
                    models.CharField(
                        blank=True,
                        choices=[("GOAL", "goal"), ("AGENT", "agent"), ("RUN", "run")],
                        max_length=5,
                        verbose_name="type of step",
                    ),
                ),
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
                ("digest", models.CharField(editable=False, max_length=64)),
                ("paused", models.BooleanField(default=False, verbose_name="paused")),
                (
                    "near_duplicate_of",
                    models.ForeignKey(
                        blank=True,
                        null=True,
                        on_delete=django.db.models.deletion.SET_NULL,
                        related_name="near_duplicates",
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
                        blank=True,
                        null=True,
                        on_delete=django.db.models.deletion.SET_NULL,
                        related_name="observations",
                        to="memory.topic",
                    ),
                ),
            ],
            options={
                "ordering": ("-created", "-id"),
                "indexes": [
                    models.Index(
                        condition=models.Q(("trashed_at", None)),
                        fields=["owner", "-created", "-id"],
                        name="observation_of_owner",
                    ),
                    models.Index(
                        condition=models.Q(("trashed_at", None)),
                        fields=["owner", "category", "-created", "-id"],
                        name="observation_of_category",
                    ),
                    models.Index(
                        condition=models.Q(("trashed_at", None)),
                        fields=["owner", "trust", "-created", "-id"],
                        name="observation_of_trust",
                    ),
                    models.Index(
                        condition=models.Q(("trashed_at", None)),
                        fields=["owner", "-updated", "-id"],
                        name="observation_changed",
                    ),
                    models.Index(
                        fields=["owner", "source", "-created"],
                        name="observation_by_source",
                        opclasses=["int8_ops", "varchar_pattern_ops", "timestamptz_ops"],
                    ),
                    models.Index(
                        condition=models.Q(
                            ("pinned", True),
                            ("paused", True),
                            models.Q(("lock", "open"), _negated=True),
                            ("sensitivity", "sensitive"),
                            _connector="OR",
                        ),
                        fields=["owner", "-created", "-id"],
                        name="observation_marked",
                    ),
                    models.Index(
                        condition=models.Q(("trashed_at", None), _negated=True),
                        fields=["owner", "-created", "-id"],
                        name="observation_in_trash",
                    ),
                    models.Index(fields=["topic", "-created"], name="observation_of_topic"),
                    django.contrib.postgres.indexes.GinIndex(
                        fields=["tags"], name="observation_by_tag"
                    ),
                ],
                "constraints": [
                    models.CheckConstraint(
                        condition=models.Q(("category__in", ["finding", "insight", "lesson"])),
                        name="observation_category_known",
                    ),
                    models.UniqueConstraint(
                        condition=models.Q(("trashed_at", None)),
                        fields=("owner", "source", "category", "digest"),
                        name="observation_once_a_source",
                    ),
                ],
            },
        ),
        migrations.CreateModel(
            name="Note",
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
                (
                    "kind",
                    models.CharField(
                        choices=[
                            ("log", "log"),
                            ("summary", "summary"),
                            ("rule", "rule"),
                            ("soul", "soul"),
                            ("agent", "agent"),
                            ("user", "user"),
                        ],
                        default="log",
                        max_length=8,
                        verbose_name="type",
                    ),
                ),
                ("content", models.TextField(verbose_name="note")),
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
                ("confidence", models.FloatField(default=1.0, verbose_name="confidence")),
                (
                    "stability",
                    models.CharField(
                        choices=[
                            ("volatile", "temporary"),
                            ("stable", "stable"),
                            ("permanent", "permanent"),
                        ],
                        default="stable",
                        max_length=9,
                        verbose_name="stability",
                    ),
                ),
                (
                    "ttl_days",
                    models.PositiveIntegerField(
                        blank=True, null=True, verbose_name="expires after"
                    ),
                ),
                ("expires_at", models.DateTimeField(blank=True, null=True)),
                (
                    "evidence",
                    django.contrib.postgres.fields.ArrayField(
                        base_field=models.TextField(),
                        blank=True,
                        default=list,
                        size=None,
                        verbose_name="evidence",
                    ),
                ),
                ("job", models.CharField(blank=True, max_length=200)),
                ("edited_by_person", models.BooleanField(default=False)),
                ("paused", models.BooleanField(default=False, verbose_name="paused")),
                (
                    "owner",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="+",
                        to=settings.AUTH_USER_MODEL,
                    ),
                ),
                (
                    "superseded_by",
                    models.ForeignKey(
                        blank=True,
                        null=True,
                        on_delete=django.db.models.deletion.RESTRICT,
                        related_name="supersedes",
                        to="memory.note",
                    ),
                ),
                (
                    "topic",
                    models.ForeignKey(
                        blank=True,
                        null=True,
                        on_delete=django.db.models.deletion.SET_NULL,
                        related_name="notes",
                        to="memory.topic",
                    ),
                ),
            ],
            options={
                "ordering": ("-created", "-id"),
                "indexes": [
                    models.Index(
                        condition=models.Q(("trashed_at", None)),
                        fields=["owner", "-created", "-id"],
                        name="note_of_owner",
                    ),
                    models.Index(
                        condition=models.Q(("trashed_at", None)),
                        fields=["owner", "kind", "-created", "-id"],
                        name="note_of_kind",
                    ),
                    models.Index(
                        condition=models.Q(("trashed_at", None)),
                        fields=["owner", "trust", "-created", "-id"],
                        name="note_of_trust",
                    ),
                    models.Index(
                        condition=models.Q(("trashed_at", None)),
                        fields=["owner", "-updated", "-id"],
                        name="note_changed",
                    ),
                    models.Index(
                        fields=["owner", "source", "-created"],
                        name="note_by_source",
                        opclasses=["int8_ops", "varchar_pattern_ops", "timestamptz_ops"],
                    ),
                    models.Index(
                        condition=models.Q(
                            ("pinned", True),
                            ("paused", True),
                            models.Q(("lock", "open"), _negated=True),
                            ("sensitivity", "sensitive"),
                            _connector="OR",
                        ),
                        fields=["owner", "-created", "-id"],
                        name="note_marked",
                    ),
                    models.Index(
                        condition=models.Q(("trashed_at", None), _negated=True),
                        fields=["owner", "-created", "-id"],
                        name="note_in_trash",
                    ),
                    models.Index(fields=["owner", "expires_at"], name="note_by_expiry"),
                    models.Index(fields=["topic", "-created"], name="note_of_topic"),
                    models.Index(
                        condition=models.Q(("pinned", True)),
                        fields=["owner", "kind", "-created"],
                        name="note_pinned",
                    ),
                    django.contrib.postgres.indexes.GinIndex(fields=["tags"], name="note_by_tag"),
                    models.Index(
                        models.F("owner"),
                        django.db.models.functions.text.MD5("content"),
                        name="note_by_text",
                    ),
                ],
                "constraints": [
                    models.CheckConstraint(
                        condition=models.Q(
                            ("kind__in", ["log", "summary", "rule", "soul", "agent", "user"])
                        ),
                        name="note_kind_known",
                    ),
                    models.CheckConstraint(
                        condition=models.Q(("stability__in", ["volatile", "stable", "permanent"])),
                        name="note_stability_known",
                    ),
                    models.CheckConstraint(
                        condition=models.Q(
                            models.Q(("stability", "permanent"), _negated=True),
                            models.Q(("expires_at", None), ("ttl_days", None)),
                            _connector="OR",
                        ),
                        name="note_permanent_never_expires",
                    ),
                    models.CheckConstraint(
                        condition=models.Q(("confidence__gte", 0), ("confidence__lte", 1)),
                        name="note_confidence_in_0_1",
                    ),
                    models.CheckConstraint(
                        condition=models.Q(("superseded_by", models.F("id")), _negated=True),
                        name="note_not_superseded_by_itself",
                    ),
                    models.UniqueConstraint(
                        condition=models.Q(
                            ("kind__in", ["soul", "agent", "user"]),
                            ("superseded_by", None),
                            ("trashed_at", None),
                        ),
                        fields=("owner", "kind"),
                        name="note_one_active_identity",
                    ),
                ],
            },
        ),
        migrations.CreateModel(
            name="ModelCall",
            fields=[
                ("id", models.BigAutoField(primary_key=True, serialize=False)),
                ("purpose", models.CharField(max_length=40)),
                ("source", models.CharField(max_length=200)),
                ("model", models.CharField(max_length=200)),
                ("prompt_tokens", models.PositiveIntegerField(default=0)),
                ("completion_tokens", models.PositiveIntegerField(default=0)),
                (
                    "money",
                    models.DecimalField(
                        decimal_places=6, default=Decimal("0"), max_digits=12, null=True
                    ),
                ),
                ("milliseconds", models.PositiveIntegerField(default=0)),
                ("prompt", models.JSONField(default=list)),
                ("answer", models.TextField(blank=True)),
                ("error", models.TextField(blank=True)),
                (
                    "failure",
                    models.CharField(
                        blank=True,
                        choices=[
                            ("unavailable", "it couldn’t be reached or was unavailable"),
                            ("rejected", "it rejected the request"),
                            ("nonsense", "its answer couldn’t be used"),
                            ("left", "Beacon stopped waiting for the answer"),
                        ],
                        max_length=12,
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
                        on_delete=django.db.models.deletion.SET_NULL,
                        related_name="+",
                        to="memory.topic",
                    ),
                ),
            ],
            options={
                "ordering": ("-id",),
                "indexes": [
                    models.Index(fields=["source"], name="modelcall_by_source"),
                    models.Index(fields=["owner", "-created", "-id"], name="modelcall_of_owner"),
                ],
            },
        ),
        migrations.CreateModel(
            name="ContentItem",
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
                ("url", models.TextField(blank=True, verbose_name="URL")),
                ("size", models.PositiveIntegerField(default=0, verbose_name="size")),
                ("action", models.CharField(blank=True, max_length=80, verbose_name="action")),
                (
                    "run_step",
                    models.CharField(blank=True, max_length=200, verbose_name="step of the run"),
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
                    "related_to",
                    models.ManyToManyField(
                        blank=True, to="memory.contentitem", verbose_name="related items"
                    ),
                ),
                (
                    "topic",
                    models.ForeignKey(
                        blank=True,
                        null=True,
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="content_items",
                        to="memory.topic",
                    ),
                ),
            ],
            options={
                "indexes": [
                    models.Index(fields=["owner", "-created"], name="content_of_owner"),
                    models.Index(fields=["owner", "scope", "-created"], name="content_of_scope"),
                    models.Index(
                        condition=models.Q(("run_step", ""), _negated=True),
                        fields=["run_step"],
                        name="content_run_step",
                    ),
                ],
            },
        ),
        migrations.CreateModel(
            name="CallReservation",
            fields=[
                ("id", models.BigAutoField(primary_key=True, serialize=False)),
                ("source", models.CharField(blank=True, max_length=200)),
                ("tokens", models.PositiveIntegerField()),
                (
                    "money",
                    models.DecimalField(decimal_places=6, default=Decimal("0"), max_digits=12),
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
            options={
                "indexes": [models.Index(fields=["owner", "created"], name="reservation_of_owner")],
            },
        ),
        migrations.CreateModel(
            name="Activity",
            fields=[
                ("id", models.BigAutoField(primary_key=True, serialize=False)),
                ("actor", models.CharField(max_length=200)),
                ("kind", models.CharField(max_length=40)),
                ("subject_type", models.CharField(blank=True, max_length=40)),
                ("subject_id", models.CharField(blank=True, max_length=64)),
                ("label", models.CharField(blank=True, max_length=300)),
                (
                    "detail",
                    models.JSONField(
                        blank=True,
                        default=dict,
                        encoder=django.core.serializers.json.DjangoJSONEncoder,
                    ),
                ),
                ("is_warning", models.BooleanField(default=False)),
                ("created", models.DateTimeField(default=django.utils.timezone.now)),
                (
                    "owner",
                    models.ForeignKey(
                        null=True,
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="+",
                        to=settings.AUTH_USER_MODEL,
                    ),
                ),
                (
                    "topic",
                    models.ForeignKey(
                        editable=False,
                        null=True,
                        on_delete=django.db.models.deletion.SET_NULL,
                        related_name="+",
                        to="memory.topic",
                    ),
                ),
            ],
            options={
                "verbose_name_plural": "activity",
                "ordering": ("-id",),
                "indexes": [
                    models.Index(fields=["owner", "-created", "-id"], name="activity_of_owner"),
                    models.Index(
                        condition=models.Q(("is_warning", True)),
                        fields=["owner", "-created", "-id"],
                        name="activity_warning",
                    ),
                ],
            },
        ),
        migrations.CreateModel(
            name="TopicFact",
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
                ("text", models.TextField(verbose_name="fact")),
                ("url", models.TextField(blank=True, verbose_name="source URL")),
                ("source_title", models.CharField(blank=True, max_length=500)),
                ("quote", models.TextField(blank=True)),
                ("published_at", models.DateField(blank=True, null=True)),
                (
                    "state",
                    models.CharField(
                        choices=[
                            ("current", "current"),
                            ("struck", "marked as wrong"),
                            ("retired", "replaced"),
                        ],
                        default="current",
                        max_length=8,
                    ),
                ),
                ("position", models.PositiveIntegerField(default=0)),
                ("key", models.TextField(blank=True)),
                ("edited_by_person", models.BooleanField(default=False)),
                ("first_run", models.PositiveIntegerField(blank=True, null=True)),
                ("retired_run", models.PositiveIntegerField(blank=True, null=True)),
                (
                    "retired_as",
                    models.CharField(
                        blank=True,
                        choices=[
                            ("replaced", "replaced"),
                            ("outranked", "not in the top 10"),
                            ("gone", "no longer found"),
                        ],
                        max_length=9,
                    ),
                ),
                ("confirmed_at", models.DateTimeField(blank=True, null=True)),
                ("confirmed_run", models.PositiveIntegerField(blank=True, null=True)),
                ("contradicted_at", models.DateTimeField(blank=True, null=True)),
                (
                    "support",
                    models.CharField(
                        blank=True,
                        choices=[
                            ("page", "quote found in the stored page"),
                            ("snippet", "quote found only in the search result"),
                        ],
                        max_length=8,
                    ),
                ),
                ("source_count", models.PositiveIntegerField(default=0)),
                ("independent_count", models.PositiveIntegerField(default=0)),
                ("quote_checked_at", models.DateTimeField(blank=True, null=True)),
                ("chain", models.UUIDField(default=uuid.uuid4, editable=False)),
                (
                    "question",
                    models.CharField(blank=True, max_length=120, verbose_name="question"),
                ),
                (
                    "true_from",
                    models.DateField(blank=True, null=True, verbose_name="true from"),
                ),
                (
                    "true_until",
                    models.DateField(blank=True, null=True, verbose_name="true until"),
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
                        related_name="facts",
                        to="memory.topic",
                    ),
                ),
            ],
            options={
                "ordering": ("position", "created"),
                "indexes": [
                    models.Index(fields=["topic", "state", "position"], name="fact_of_topic"),
                    models.Index(fields=["topic", "chain"], name="fact_of_chain"),
                ],
            },
        ),
        migrations.CreateModel(
            name="Use",
            fields=[
                ("id", models.BigAutoField(primary_key=True, serialize=False)),
                ("record_type", models.CharField(max_length=40)),
                ("record_id", models.UUIDField()),
                ("place", models.CharField(max_length=200)),
                ("created", models.DateTimeField(default=django.utils.timezone.now)),
                ("used_at", models.DateTimeField(default=django.utils.timezone.now)),
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
                "ordering": ("-id",),
                "indexes": [
                    models.Index(fields=["owner", "-id"], name="use_of_owner"),
                    models.Index(fields=["owner", "-used_at"], name="use_by_time"),
                ],
                "constraints": [
                    models.UniqueConstraint(fields=("record_id", "place"), name="use_once_a_place")
                ],
            },
        ),
        pgtrigger.migrations.AddTrigger(
            model_name="revision",
            trigger=pgtrigger.compiler.Trigger(
                name="append_only",
                sql=pgtrigger.compiler.UpsertTriggerSql(
                    func="RAISE EXCEPTION 'pgtrigger: Cannot update or delete rows from % table', TG_TABLE_NAME;",
                    hash="92dc3a4782c230945a7b1b6c00971eccd6b85768",
                    operation="UPDATE OR DELETE",
                    pgid="pgtrigger_append_only_556f3",
                    table="memory_revision",
                    when="BEFORE",
                ),
            ),
        ),
        pgtrigger.migrations.AddTrigger(
            model_name="searchentry",
            trigger=pgtrigger.compiler.Trigger(
                name="counted",
                sql=pgtrigger.compiler.UpsertTriggerSql(
                    func="\n    PERFORM 1 FROM memory_searchspace\n     WHERE owner_id IN (SELECT owner_id FROM memory_searchspace\n                         WHERE id IN (SELECT space_id FROM added))\n     ORDER BY id FOR NO KEY UPDATE;\n    UPDATE memory_searchspace space\n       SET documents = space.documents + more.documents, length = space.length + more.length\n      FROM (SELECT space_id, count(*) AS documents, sum(length) AS length\n              FROM added GROUP BY space_id) more\n     WHERE space.id = more.space_id;\n    INSERT INTO memory_searchterm AS term (space_id, lexeme, documents, max_count, min_length)\n    SELECT added.space_id, word.lexeme, count(*),\n           coalesce(max(cardinality(word.positions)), 1), min(added.length)\n      FROM added, unnest(added.words) word GROUP BY 1, 2 ORDER BY 1, 2\n        ON CONFLICT (space_id, lexeme) DO UPDATE\n       SET documents = term.documents + excluded.documents,\n           max_count = greatest(term.max_count, excluded.max_count),\n           min_length = least(term.min_length, excluded.min_length);\n    RETURN NULL;\n",
                    hash="57e043e4c3aa03caac4baa58451359d589e4ab4f",
                    level="STATEMENT",
                    operation="INSERT",
                    pgid="pgtrigger_counted_b5ddc",
                    referencing="REFERENCING NEW TABLE AS added ",
                    table="memory_searchentry",
                    when="AFTER",
                ),
            ),
        ),
        pgtrigger.migrations.AddTrigger(
            model_name="searchentry",
            trigger=pgtrigger.compiler.Trigger(
                name="discounted",
                sql=pgtrigger.compiler.UpsertTriggerSql(
                    func="\n    PERFORM 1 FROM memory_searchspace\n     WHERE owner_id IN (SELECT owner_id FROM memory_searchspace\n                         WHERE id IN (SELECT space_id FROM gone))\n     ORDER BY id FOR NO KEY UPDATE;\n    UPDATE memory_searchspace space\n       SET documents = space.documents - less.documents, length = space.length - less.length\n      FROM (SELECT space_id, count(*) AS documents, sum(length) AS length\n              FROM gone GROUP BY space_id) less\n     WHERE space.id = less.space_id;\n    UPDATE memory_searchterm term SET documents = term.documents - less.documents\n      FROM (SELECT gone.space_id, word.lexeme, count(*) AS documents\n              FROM gone, unnest(gone.words) word GROUP BY 1, 2) less\n     WHERE term.space_id = less.space_id AND term.lexeme = less.lexeme;\n    RETURN NULL;\n",
                    hash="2665b3f9350e1dc2648816c5f0f6c43937db6ce1",
                    level="STATEMENT",
                    operation="DELETE",
                    pgid="pgtrigger_discounted_7ab53",
                    referencing="REFERENCING OLD TABLE AS gone ",
                    table="memory_searchentry",
                    when="AFTER",
                ),
            ),
        ),
        pgtrigger.migrations.AddTrigger(
            model_name="searchentry",
            trigger=pgtrigger.compiler.Trigger(
                name="recounted",
                sql=pgtrigger.compiler.UpsertTriggerSql(
                    func="\n    IF NOT EXISTS (SELECT 1 FROM gone JOIN added USING (id, space_id)\n                    WHERE gone.words <> added.words OR gone.length <> added.length)\n       AND NOT EXISTS (SELECT 1 FROM gone JOIN added USING (id)\n                        WHERE gone.space_id <> added.space_id) THEN\n        RETURN NULL;\n    END IF;\n    PERFORM 1 FROM memory_searchspace\n     WHERE owner_id IN (SELECT owner_id FROM memory_searchspace\n                         WHERE id IN (SELECT space_id FROM gone\n                                      UNION SELECT space_id FROM added))\n     ORDER BY id FOR NO KEY UPDATE;\n    UPDATE memory_searchspace space\n       SET documents = space.documents + change.documents, length = space.length + change.length\n      FROM (SELECT space_id, sum(one) AS documents, sum(length) AS length\n              FROM (SELECT space_id, -1 AS one, -length AS length FROM gone\n                    UNION ALL SELECT space_id, 1, length FROM added) both_\n             GROUP BY space_id) change\n     WHERE space.id = change.space_id;\n    INSERT INTO memory_searchterm AS term (space_id, lexeme, documents, max_count, min_length)\n    SELECT space_id, lexeme, sum(one), max(max_count), min(length)\n      FROM (SELECT gone.space_id, word.lexeme, -1 AS one, 1 AS max_count, gone.length\n              FROM gone, unnest(gone.words) word\n            UNION ALL\n            SELECT added.space_id, word.lexeme, 1, coalesce(cardinality(word.positions), 1),\n                   added.length\n              FROM added, unnest(added.words) word) both_\n     GROUP BY 1, 2 ORDER BY 1, 2\n        ON CONFLICT (space_id, lexeme) DO UPDATE\n       SET documents = term.documents + excluded.documents,\n           max_count = greatest(term.max_count, excluded.max_count),\n           min_length = least(term.min_length, excluded.min_length)\n     WHERE excluded.documents <> 0 OR excluded.max_count > term.max_count\n        OR excluded.min_length < term.min_length;\n    RETURN NULL;\n",
                    hash="167a4101cd4ca40bb4ac6b3ccb49eb1bf85acfca",
                    level="STATEMENT",
                    operation="UPDATE",
                    pgid="pgtrigger_recounted_3e835",
                    referencing="REFERENCING OLD TABLE AS gone  NEW TABLE AS added ",
                    table="memory_searchentry",
                    when="AFTER",
                ),
            ),
        ),
        migrations.CreateModel(
            name="BackupFile",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("attempt", models.PositiveIntegerField(default=0)),
                ("tries", models.PositiveIntegerField(default=0)),
                ("crashes", models.PositiveIntegerField(default=0)),
                ("not_before", models.DateTimeField(db_default=Now())),
                ("lease_until", models.DateTimeField(blank=True, null=True)),
                ("nudged_at", models.DateTimeField(blank=True, null=True)),
                (
                    "state",
                    models.CharField(
                        choices=[
                            ("waiting", "waiting"),
                            ("running", "running"),
                            ("done", "done"),
                            ("failed", "failed"),
                        ],
                        default="waiting",
                        max_length=7,
                    ),
                ),
                ("name", models.CharField(max_length=120, unique=True)),
                ("size", models.PositiveBigIntegerField(default=0)),
                ("rows", models.PositiveBigIntegerField(default=0)),
                ("is_tested", models.BooleanField(default=False)),
                (
                    "problem",
                    models.CharField(
                        blank=True,
                        choices=[
                            ("not-written", "The backup couldn’t be written."),
                            (
                                "not-copied",
                                "The backup was created, but couldn’t be copied to its bucket.",
                            ),
                            ("not-restored", "The test restore failed."),
                            ("differs", "Tables that differed after the test restore:"),
                            ("crashed", "The worker stopped unexpectedly several times."),
                        ],
                        max_length=12,
                    ),
                ),
                ("detail", models.TextField(blank=True)),
                ("created", models.DateTimeField(default=django.utils.timezone.now)),
                ("started_at", models.DateTimeField(blank=True, null=True)),
                ("finished_at", models.DateTimeField(blank=True, null=True)),
                (
                    "requested_by",
                    models.ForeignKey(
                        blank=True,
                        null=True,
                        on_delete=django.db.models.deletion.SET_NULL,
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
            name="BackupPlan",
            fields=[
                (
                    "id",
                    models.PositiveSmallIntegerField(
                        default=1, editable=False, primary_key=True, serialize=False
                    ),
                ),
                (
                    "every",
                    models.CharField(
                        choices=[
                            ("never", "Never"),
                            ("day", "Every day"),
                            ("week", "Every Sunday"),
                        ],
                        default="never",
                        max_length=5,
                        verbose_name="Back up",
                    ),
                ),
                (
                    "hour",
                    models.PositiveSmallIntegerField(
                        default=3,
                        validators=[django.core.validators.MaxValueValidator(23)],
                        verbose_name="Hour (UTC)",
                    ),
                ),
                (
                    "keep",
                    models.PositiveSmallIntegerField(
                        default=7,
                        help_text="Older automatic backups are deleted. Manual ones stay until you delete them.",
                        validators=[
                            django.core.validators.MinValueValidator(1),
                            django.core.validators.MaxValueValidator(365),
                        ],
                        verbose_name="Backups to keep",
                    ),
                ),
                (
                    "tests_restore",
                    models.BooleanField(
                        default=True,
                        help_text="Restores each backup into a scratch database and compares every table. This needs as much free disk space as the database uses.",
                        verbose_name="Test each backup",
                    ),
                ),
                ("changed_at", models.DateTimeField(default=django.utils.timezone.now)),
                ("written_at", models.DateTimeField(blank=True, editable=False, null=True)),
            ],
            options={
                "constraints": [
                    models.CheckConstraint(condition=models.Q(("id", 1)), name="one_backup_plan")
                ],
            },
        ),
        migrations.CreateModel(
            name="MountedFolder",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("name", models.CharField(max_length=40, unique=True)),
                ("place", models.CharField(max_length=1000)),
                ("real_path", models.CharField(blank=True, max_length=1000)),
                (
                    "layout",
                    models.CharField(
                        blank=True,
                        choices=[
                            ("claude", "Claude Code"),
                            ("codex", "Codex"),
                            ("repository", "repository"),
                            ("letta", "Letta"),
                            ("vault", "Markdown folder"),
                        ],
                        max_length=10,
                    ),
                ),
                (
                    "problem",
                    models.CharField(
                        blank=True,
                        choices=[
                            (
                                "missing",
                                "The folder doesn’t exist. Files imported from it stay in Beacon, and nothing is written to disk.",
                            ),
                            (
                                "moved",
                                "The path now points to a different folder, so nothing is read or written.",
                            ),
                            ("unreadable", "The folder can’t be read."),
                            (
                                "read-only",
                                "Beacon can’t write to the folder. It will save your edits there as soon as it can.",
                            ),
                            (
                                "unmounted",
                                "The folder is no longer in BEACON_AGENT_DIRS. Its files stay in Beacon.",
                            ),
                        ],
                        max_length=10,
                    ),
                ),
                ("detail", models.CharField(blank=True, max_length=300)),
                ("files", models.PositiveIntegerField(default=0)),
                ("skipped", models.JSONField(blank=True, default=list)),
                ("checked_at", models.DateTimeField(blank=True, null=True)),
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
                "ordering": ("name",),
            },
        ),
        migrations.CreateModel(
            name="OwnKey",
            fields=[
                ("secret", models.TextField(blank=True, editable=False)),
                (
                    "owner",
                    models.OneToOneField(
                        on_delete=django.db.models.deletion.CASCADE,
                        primary_key=True,
                        related_name="own_key",
                        serialize=False,
                        to=settings.AUTH_USER_MODEL,
                    ),
                ),
                ("origin", models.CharField(max_length=300)),
                ("updated", models.DateTimeField(auto_now=True)),
            ],
            options={
                "abstract": False,
            },
        ),
        migrations.CreateModel(
            name="NameAlias",
            fields=[
                ("id", models.BigAutoField(primary_key=True, serialize=False)),
                ("key", models.CharField(max_length=60)),
                ("name", models.CharField(max_length=60)),
                ("target_key", models.CharField(max_length=60)),
                ("target", models.CharField(max_length=60)),
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
                "verbose_name_plural": "name aliases",
                "ordering": ("target_key", "key"),
                "constraints": [
                    models.UniqueConstraint(fields=("owner", "key"), name="name_alias_once"),
                    models.CheckConstraint(
                        condition=models.Q(("key", models.F("target_key")), _negated=True),
                        name="name_alias_of_another",
                    ),
                ],
            },
        ),
        migrations.CreateModel(
            name="Rating",
            fields=[
                (
                    "id",
                    models.UUIDField(
                        default=uuid.uuid4, editable=False, primary_key=True, serialize=False
                    ),
                ),
                ("question", models.CharField(max_length=1000)),
                ("language", models.CharField(max_length=8)),
                ("key", models.CharField(max_length=64)),
                ("record_type", models.CharField(max_length=40)),
                ("record_id", models.UUIDField()),
                ("position", models.PositiveIntegerField(default=0)),
                (
                    "value",
                    models.CharField(
                        choices=[("useful", "useful"), ("not-useful", "not useful")], max_length=10
                    ),
                ),
                ("reason", models.CharField(blank=True, max_length=300)),
                ("actor", models.CharField(max_length=200)),
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
                "indexes": [
                    models.Index(
                        fields=["owner", "value", "-created", "-id"], name="rating_of_owner"
                    ),
                    models.Index(fields=["record_id"], name="rating_of_record"),
                ],
                "constraints": [
                    models.UniqueConstraint(
                        fields=("owner", "key", "record_id", "position"),
                        name="rating_once_a_question",
                    )
                ],
            },
        ),
        migrations.CreateModel(
            name="Membership",
            fields=[
                ("id", models.BigAutoField(primary_key=True, serialize=False)),
                (
                    "role",
                    models.CharField(
                        choices=[
                            ("viewer", "viewer"),
                            ("commenter", "commenter"),
                            ("editor", "editor"),
                        ],
                        default="viewer",
                        max_length=10,
                        verbose_name="role",
                    ),
                ),
                ("username", models.CharField(max_length=150)),
                ("read_run", models.PositiveIntegerField(default=0)),
                ("notify", models.BooleanField(default=False)),
                ("created", models.DateTimeField(default=django.utils.timezone.now)),
                (
                    "topic",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="members",
                        to="memory.topic",
                    ),
                ),
                (
                    "user",
                    models.ForeignKey(
                        null=True,
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="memberships",
                        to=settings.AUTH_USER_MODEL,
                    ),
                ),
            ],
            options={
                "ordering": ("created", "id"),
                "constraints": [
                    models.UniqueConstraint(
                        fields=("topic", "username"), name="member_once_a_topic"
                    )
                ],
            },
        ),
        migrations.RunSQL(
            "ALTER TABLE memory_searchterm SET (fillfactor = 50)",
            "ALTER TABLE memory_searchterm RESET (fillfactor)",
        ),
        migrations.RunSQL(_stored("EXTERNAL"), _stored("EXTENDED")),
    ]
