from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("research", "0003_deltas")]

    operations = [
        migrations.AddField(
            model_name="report",
            name="read_before",
            field=models.DateTimeField(blank=True, null=True),
        ),
        migrations.AddField(
            model_name="report",
            name="unread_at",
            field=models.DateTimeField(blank=True, null=True),
        ),
    ]
