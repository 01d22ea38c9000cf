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
    ]
