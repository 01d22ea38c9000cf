import django.contrib.postgres.fields
from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("research", "0006_notices")]

    operations = [
        migrations.AddField(
            model_name="deltaitem",
            name="judged",
            field=models.TextField(blank=True),
        ),
        migrations.AddField(
            model_name="deltaitem",
            name="judged_by",
            field=models.CharField(
                blank=True,
                choices=[
                    ("model", "the model"),
                    ("rule", "the rule"),
                    ("muted", "its source is muted"),
                    ("person", "you"),
                ],
                max_length=6,
            ),
        ),
        migrations.AddField(
            model_name="topicsettings",
            name="tell_also",
            field=django.contrib.postgres.fields.ArrayField(
                base_field=models.TextField(),
                blank=True,
                default=list,
                size=None,
                verbose_name="tell me such things too",
            ),
        ),
        migrations.AddField(
            model_name="topicsettings",
            name="boost_places",
            field=django.contrib.postgres.fields.ArrayField(
                base_field=models.TextField(),
                blank=True,
                default=list,
                size=None,
                verbose_name="look here first",
            ),
        ),
        migrations.AddField(
            model_name="topicsettings",
            name="mute_places",
            field=django.contrib.postgres.fields.ArrayField(
                base_field=models.TextField(),
                blank=True,
                default=list,
                size=None,
                verbose_name="never announced alone",
            ),
        ),
        migrations.AddField(
            model_name="topicsettings",
            name="read_next",
            field=django.contrib.postgres.fields.ArrayField(
                base_field=models.TextField(),
                blank=True,
                default=list,
                size=None,
                verbose_name="read next time",
            ),
        ),
    ]
