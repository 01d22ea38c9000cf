from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("memory", "0011_trash"),
    ]

    operations = [
        migrations.AddField(
            model_name="topicfact",
            name="independent_count",
            field=models.PositiveIntegerField(default=0),
        ),
        migrations.AddField(
            model_name="topicfact",
            name="quote_checked_at",
            field=models.DateTimeField(blank=True, null=True),
        ),
        migrations.AddField(
            model_name="topicfact",
            name="source_count",
            field=models.PositiveIntegerField(default=0),
        ),
        migrations.AddField(
            model_name="topicfact",
            name="support",
            field=models.CharField(
                blank=True,
                choices=[
                    ("page", "its quote stands in the kept page"),
                    ("snippet", "its quote stands in the search result alone"),
                ],
                max_length=8,
            ),
        ),
    ]
