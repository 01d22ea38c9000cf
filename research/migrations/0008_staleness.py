from django.db import migrations


class Migration(migrations.Migration):
    dependencies = [("research", "0007_intents")]

    operations = []
