import django.db.models.deletion
import pgtrigger.compiler
import pgtrigger.migrations
from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("research", "0003_deltas")]

    operations = [
        migrations.AddField(
            model_name="report",
            name="read_before",
            field=models.DateTimeField(blank=True, null=True),
        ),
        migrations.AddField(
            model_name="report",
            name="unread_at",
            field=models.DateTimeField(blank=True, null=True),
        ),
        migrations.CreateModel(
            name="TopicNews",
            fields=[
                (
                    "topic",
                    models.OneToOneField(
                        on_delete=django.db.models.deletion.CASCADE,
                        primary_key=True,
                        related_name="news",
                        serialize=False,
                        to="memory.topic",
                    ),
                ),
                ("changes", models.BigIntegerField(default=0)),
                ("counted", models.BigIntegerField(null=True)),
                ("told", models.JSONField(default=dict)),
            ],
            options={
                "verbose_name_plural": "topic news",
            },
        ),
        pgtrigger.migrations.AddTrigger(
            model_name="deltaitem",
            trigger=pgtrigger.compiler.Trigger(
                name="news_told",
                sql=pgtrigger.compiler.UpsertTriggerSql(
                    func="\n    PERFORM 1 FROM research_topicnews\n     WHERE topic_id IN (SELECT topic_id FROM research_run WHERE id IN (SELECT run_id FROM added))\n     ORDER BY topic_id FOR NO KEY UPDATE;\n    UPDATE research_topicnews SET changes = changes + 1\n     WHERE topic_id IN (SELECT topic_id FROM research_run WHERE id IN (SELECT run_id FROM added));\n    RETURN NULL;\n",
                    hash="bd33634ca392e4ef8ce10650ff49775d817f7ace",
                    level="STATEMENT",
                    operation="INSERT",
                    pgid="pgtrigger_news_told_c6bb1",
                    referencing="REFERENCING NEW TABLE AS added ",
                    table="research_deltaitem",
                    when="AFTER",
                ),
            ),
        ),
        pgtrigger.migrations.AddTrigger(
            model_name="deltaitem",
            trigger=pgtrigger.compiler.Trigger(
                name="news_retold",
                sql=pgtrigger.compiler.UpsertTriggerSql(
                    func="\n    PERFORM 1 FROM research_topicnews\n     WHERE topic_id IN (SELECT topic_id FROM research_run WHERE id IN (SELECT gone.run_id FROM gone JOIN added USING (id)\n              WHERE (gone.run_id, gone.position, gone.status, gone.withheld, gone.previous_fact_id,\n                     gone.sentence, gone.previous_text) IS DISTINCT FROM\n                    (added.run_id, added.position, added.status, added.withheld,\n                     added.previous_fact_id, added.sentence, added.previous_text)))\n     ORDER BY topic_id FOR NO KEY UPDATE;\n    UPDATE research_topicnews SET changes = changes + 1\n     WHERE topic_id IN (SELECT topic_id FROM research_run WHERE id IN (SELECT gone.run_id FROM gone JOIN added USING (id)\n              WHERE (gone.run_id, gone.position, gone.status, gone.withheld, gone.previous_fact_id,\n                     gone.sentence, gone.previous_text) IS DISTINCT FROM\n                    (added.run_id, added.position, added.status, added.withheld,\n                     added.previous_fact_id, added.sentence, added.previous_text)));\n    RETURN NULL;\n",
                    hash="e81c3fab91c72ed59f5a2940390d500c5ad1b226",
                    level="STATEMENT",
                    operation="UPDATE",
                    pgid="pgtrigger_news_retold_cc0f1",
                    referencing="REFERENCING OLD TABLE AS gone  NEW TABLE AS added ",
                    table="research_deltaitem",
                    when="AFTER",
                ),
            ),
        ),
        pgtrigger.migrations.AddTrigger(
            model_name="deltaitem",
            trigger=pgtrigger.compiler.Trigger(
                name="news_untold",
                sql=pgtrigger.compiler.UpsertTriggerSql(
                    func="\n    PERFORM 1 FROM research_topicnews\n     WHERE topic_id IN (SELECT topic_id FROM research_run WHERE id IN (SELECT run_id FROM gone))\n     ORDER BY topic_id FOR NO KEY UPDATE;\n    UPDATE research_topicnews SET changes = changes + 1\n     WHERE topic_id IN (SELECT topic_id FROM research_run WHERE id IN (SELECT run_id FROM gone));\n    RETURN NULL;\n",
                    hash="564840221073fcd3d8a6718b4ddd49c0958b2a25",
                    level="STATEMENT",
                    operation="DELETE",
                    pgid="pgtrigger_news_untold_a81e5",
                    referencing="REFERENCING OLD TABLE AS gone ",
                    table="research_deltaitem",
                    when="AFTER",
                ),
            ),
        ),
        pgtrigger.migrations.AddTrigger(
            model_name="report",
            trigger=pgtrigger.compiler.Trigger(
                name="news_came",
                sql=pgtrigger.compiler.UpsertTriggerSql(
                    func="\n    INSERT INTO research_topicnews (topic_id, changes, told)\n    SELECT DISTINCT run.topic_id, 1, '{}'::jsonb\n      FROM added JOIN research_run run ON run.id = added.run_id\n     ORDER BY run.topic_id\n        ON CONFLICT (topic_id) DO UPDATE SET changes = research_topicnews.changes + 1;\n    RETURN NULL;\n",
                    hash="d9d29ca6ab84ba97a37acf43cb01729bf68f7c42",
                    level="STATEMENT",
                    operation="INSERT",
                    pgid="pgtrigger_news_came_45867",
                    referencing="REFERENCING NEW TABLE AS added ",
                    table="research_report",
                    when="AFTER",
                ),
            ),
        ),
        pgtrigger.migrations.AddTrigger(
            model_name="report",
            trigger=pgtrigger.compiler.Trigger(
                name="news_read",
                sql=pgtrigger.compiler.UpsertTriggerSql(
                    func="\n    PERFORM 1 FROM research_topicnews\n     WHERE topic_id IN (SELECT topic_id FROM research_run WHERE id IN (SELECT gone.run_id FROM gone JOIN added USING (id)\n                WHERE (gone.read_at, gone.trashed_at) IS DISTINCT FROM\n                      (added.read_at, added.trashed_at)))\n     ORDER BY topic_id FOR NO KEY UPDATE;\n    UPDATE research_topicnews SET changes = changes + 1\n     WHERE topic_id IN (SELECT topic_id FROM research_run WHERE id IN (SELECT gone.run_id FROM gone JOIN added USING (id)\n                WHERE (gone.read_at, gone.trashed_at) IS DISTINCT FROM\n                      (added.read_at, added.trashed_at)));\n    RETURN NULL;\n",
                    hash="f6ea5b21d8c63f4b7e34f98b256887e75d3e3927",
                    level="STATEMENT",
                    operation="UPDATE",
                    pgid="pgtrigger_news_read_60b37",
                    referencing="REFERENCING OLD TABLE AS gone  NEW TABLE AS added ",
                    table="research_report",
                    when="AFTER",
                ),
            ),
        ),
        pgtrigger.migrations.AddTrigger(
            model_name="report",
            trigger=pgtrigger.compiler.Trigger(
                name="news_gone",
                sql=pgtrigger.compiler.UpsertTriggerSql(
                    func="\n    PERFORM 1 FROM research_topicnews\n     WHERE topic_id IN (SELECT topic_id FROM research_run WHERE id IN (SELECT run_id FROM gone))\n     ORDER BY topic_id FOR NO KEY UPDATE;\n    UPDATE research_topicnews SET changes = changes + 1\n     WHERE topic_id IN (SELECT topic_id FROM research_run WHERE id IN (SELECT run_id FROM gone));\n    RETURN NULL;\n",
                    hash="e082ad63363c33d0fce1ad6c8234b8f8a7b18df0",
                    level="STATEMENT",
                    operation="DELETE",
                    pgid="pgtrigger_news_gone_75348",
                    referencing="REFERENCING OLD TABLE AS gone ",
                    table="research_report",
                    when="AFTER",
                ),
            ),
        ),
        pgtrigger.migrations.AddTrigger(
            model_name="run",
            trigger=pgtrigger.compiler.Trigger(
                name="news_numbered",
                sql=pgtrigger.compiler.UpsertTriggerSql(
                    condition='WHEN (OLD."is_baseline" IS DISTINCT FROM (NEW."is_baseline") OR OLD."number" IS DISTINCT FROM (NEW."number"))',
                    func="UPDATE research_topicnews SET changes = changes + 1 WHERE topic_id = NEW.topic_id; RETURN NULL;",
                    hash="0f1ad6ee4a871f485d1f627e4ee78801d2845c32",
                    operation="UPDATE",
                    pgid="pgtrigger_news_numbered_06327",
                    table="research_run",
                    when="AFTER",
                ),
            ),
        ),
        migrations.RunSQL(
            "INSERT INTO research_topicnews (topic_id, changes, told)"
            " SELECT DISTINCT run.topic_id, 0, '{}'::jsonb"
            " FROM research_report report JOIN research_run run ON run.id = report.run_id",
            migrations.RunSQL.noop,
        ),
    ]
