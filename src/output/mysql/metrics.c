/* What the agent exports about writing to a database. */
#include <stdio.h>

#include "core/base/mem.h"
#include "output/mysql/mysql_int.h"

static void put_stats(struct gs_metrics *p, const struct gs_mysql_stats *s, const char *prefix)
{
	const struct {
		const char *name;
		enum gs_metrics_kind kind;
		double value;
		const char *help;
	} rows[] = {
		{"connected", GS_METRICS_GAUGE, s->is_connected,
		 "1 while connected to the database server."},
		{"samples", GS_METRICS_COUNTER, (double)s->samples,
		 "Samples committed by the database server."},
		{"repeated_samples", GS_METRICS_COUNTER, (double)s->repeated_samples,
		 "Samples sent again that the database server had already committed."},
		{"rejected_samples", GS_METRICS_COUNTER, (double)s->rejected_samples,
		 "Samples dropped because the tables do not accept their values."},
		{"lost_samples", GS_METRICS_COUNTER, (double)s->lost_samples,
		 "Samples dropped because the spool was full."},
		{"failures", GS_METRICS_COUNTER, (double)s->failures,
		 "Connections and transactions that failed and were retried."},
		{"removed_rows", GS_METRICS_COUNTER, (double)s->removed_rows,
		 "Rows removed because they were older than mysql.retention."},
		{"waiting_samples", GS_METRICS_GAUGE, (double)s->waiting_samples,
		 "Samples waiting for the database server."},
		{"last_success_timestamp_seconds", GS_METRICS_GAUGE,
		 (double)s->last_ok_wall_ns / 1e9,
		 "When the database server last committed samples, in seconds since 1970."},
	};
	char name[GS_METRICS_NAME_BYTES];

	for (size_t i = 0; i < GS_ARRAY_LEN(rows); i++) {
		snprintf(name, sizeof(name), "%s_mysql_%s", prefix, rows[i].name);
		gs_metrics_one(p, name, rows[i].kind, rows[i].value, rows[i].help);
	}
}

void gs_mysql_put_metrics(struct gs_metrics *p, struct gs_mysql *m, const char *prefix)
{
	struct gs_mysql_stats stats;

	if (!m)
		return;
	gs_mysql_read_stats(m, &stats);
	put_stats(p, &stats, prefix);
}
