from decimal import Decimal

import django.db.models.deletion
import django.utils.timezone
from django.conf import settings
from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("memory", "0013_source_desk")]

    operations = [
        migrations.AddField(
            model_name="source",
            name="etag",
            field=models.CharField(blank=True, max_length=300),
        ),
        migrations.AddField(
            model_name="source",
            name="last_modified",
            field=models.CharField(blank=True, max_length=100),
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
    ]
