from django.db import migrations


class Migration(migrations.Migration):
    dependencies = [("memory", "0009_search_terms_room")]

    operations = []
