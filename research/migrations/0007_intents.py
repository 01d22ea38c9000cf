from django.db import migrations


class Migration(migrations.Migration):
    dependencies = [("research", "0006_notices")]

    operations = []
