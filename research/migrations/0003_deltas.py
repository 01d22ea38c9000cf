from django.db import migrations


class Migration(migrations.Migration):
    dependencies = [("research", "0002_shared_links"), ("memory", "0014_budgets")]

    operations = []
