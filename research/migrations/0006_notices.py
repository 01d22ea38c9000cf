from django.db import migrations


class Migration(migrations.Migration):
    dependencies = [("research", "0005_citations")]

    operations = []
