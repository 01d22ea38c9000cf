from django.db import migrations


class Migration(migrations.Migration):
    dependencies = [("memory", "0011_trash")]

    operations = []
