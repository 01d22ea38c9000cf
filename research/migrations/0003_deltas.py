import django.db.models.deletion
from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("research", "0002_shared_links"), ("memory", "0014_budgets")]

    operations = [
        migrations.AddField(
            model_name="deltaitem",
            name="compared_by",
            field=models.CharField(blank=True, max_length=200),
        ),
        migrations.AddField(
            model_name="deltaitem",
            name="conflict",
            field=models.ForeignKey(
                blank=True,
                null=True,
                on_delete=django.db.models.deletion.SET_NULL,
                related_name="+",
                to="memory.conflict",
            ),
        ),
        migrations.AddField(
            model_name="deltaitem",
            name="previous_source",
            field=models.JSONField(blank=True, default=dict),
        ),
        migrations.AddField(
            model_name="deltaitem",
            name="unsure",
            field=models.BooleanField(default=False),
        ),
    ]
