from django.db import migrations


class Migration(migrations.Migration):
    dependencies = [("research", "0003_deltas")]

    operations = []
