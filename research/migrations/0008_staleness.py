from decimal import Decimal

import django.core.validators
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
    ]
