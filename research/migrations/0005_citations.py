from django.db import migrations


class Migration(migrations.Migration):
    dependencies = [("research", "0004_reading")]

    operations = []
