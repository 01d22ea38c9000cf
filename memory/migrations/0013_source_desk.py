import django.db.models.deletion
import django.utils.timezone
from django.conf import settings
from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("memory", "0012_lessons")]

    operations = [
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
                        verbose_name="act",
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
    ]
