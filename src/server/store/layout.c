/*
 * The layout of the file, also described in doc/cluster.md: a list of steps, each of which is one
 * transaction that brings a file of the layout before it to its own. A file is never brought back.
 */
#include "server/store/store_int.h"

#include "core/base/mem.h"

/* Before anything is in the file. 16 KiB hold a handful of batches without overflow pages. */
static const char pragmas_sql[] = "PRAGMA page_size = 16384;"
				  "PRAGMA journal_mode = WAL;";

/* Nodes, streams, batches, sessions. */
static const char layout_1_sql[] =
	"CREATE TABLE node (id INTEGER PRIMARY KEY, machine_id TEXT NOT NULL, instance TEXT NOT "
	"NULL,"
	" hostname TEXT NOT NULL, first_wall_ns INTEGER NOT NULL DEFAULT 0,"
	" last_wall_ns INTEGER NOT NULL DEFAULT 0, UNIQUE (machine_id, instance)) STRICT;"
	"CREATE TABLE stream (id INTEGER PRIMARY KEY, node INTEGER NOT NULL REFERENCES node (id),"
	" stream INTEGER NOT NULL, kind INTEGER NOT NULL, title TEXT NOT NULL,"
	" last_seq INTEGER NOT NULL DEFAULT 0, n_samples INTEGER NOT NULL DEFAULT 0,"
	" lost_batches INTEGER NOT NULL DEFAULT 0, lost_samples INTEGER NOT NULL DEFAULT 0,"
	" missed_samples INTEGER NOT NULL DEFAULT 0, first_wall_ns INTEGER NOT NULL DEFAULT 0,"
	" last_wall_ns INTEGER NOT NULL DEFAULT 0, ended INTEGER NOT NULL DEFAULT 0,"
	/* the least and the greatest clock_offset_ns of its batches that is not 0 */
	" clock_low_ns INTEGER, clock_high_ns INTEGER,"
	" UNIQUE (node, stream)) STRICT;"
	"CREATE TABLE batch (id INTEGER PRIMARY KEY, stream INTEGER NOT NULL REFERENCES stream "
	"(id),"
	" seq INTEGER NOT NULL, first_wall_ns INTEGER NOT NULL, last_wall_ns INTEGER NOT NULL,"
	" clock_offset_ns INTEGER NOT NULL, n_samples INTEGER NOT NULL, codec INTEGER NOT NULL,"
	" raw_bytes INTEGER NOT NULL, data BLOB NOT NULL) STRICT;"
	/* By time, since batches come nearly so: its end is the only part that is written. It holds
	 * all that is needed to count, so that records are not read for it. */
	"CREATE INDEX batch_time ON batch (first_wall_ns, stream, last_wall_ns, clock_offset_ns,"
	" n_samples);"
	"CREATE TABLE session (number INTEGER PRIMARY KEY AUTOINCREMENT, id TEXT NOT NULL UNIQUE,"
	" name TEXT NOT NULL, state INTEGER NOT NULL, start_wall_ns INTEGER NOT NULL,"
	" end_wall_ns INTEGER NOT NULL, interval_ns INTEGER NOT NULL, bandwidth INTEGER NOT NULL,"
	" nvlink INTEGER NOT NULL, metrics TEXT NOT NULL, nodes TEXT NOT NULL,"
	" report_metrics TEXT NOT NULL) STRICT;"
	/* state 2: stopped */
	"CREATE UNIQUE INDEX session_name ON session (name) WHERE state <> 2;"
	"CREATE TABLE mark (session INTEGER NOT NULL REFERENCES session (number) ON DELETE CASCADE,"
	" wall_ns INTEGER NOT NULL, kind TEXT NOT NULL, name TEXT NOT NULL, vals TEXT NOT NULL) "
	"STRICT;"
	"CREATE INDEX mark_session ON mark (session, wall_ns);"
	"PRAGMA application_id = 1735616612;";
_Static_assert(STORE_APPLICATION == 1735616612, "as the first step says");

/* Reports of jobs. A report that comes again (of a job that runs) takes its own place: node and
 * report are its identity. Times are by the head's clock. */
static const char layout_2_sql[] =
	"CREATE TABLE job_report (id INTEGER PRIMARY KEY AUTOINCREMENT,"
	" node INTEGER NOT NULL REFERENCES node (id), report TEXT NOT NULL,"
	" state INTEGER NOT NULL, source TEXT NOT NULL, kind TEXT NOT NULL, job TEXT NOT NULL,"
	" user TEXT NOT NULL, name TEXT NOT NULL, class TEXT NOT NULL, score REAL,"
	" begin_wall_ns INTEGER NOT NULL, end_wall_ns INTEGER NOT NULL,"
	" received_wall_ns INTEGER NOT NULL, codec INTEGER NOT NULL, raw_bytes INTEGER NOT NULL,"
	" data BLOB NOT NULL, UNIQUE (node, report)) STRICT;"
	/* All that lists are chosen by, so that reports are not read for it. */
	"CREATE INDEX job_report_time ON job_report (begin_wall_ns, id, end_wall_ns, state, user,"
	" name, job);"
	"CREATE INDEX job_report_job ON job_report (job, node);"
	"CREATE INDEX job_report_end ON job_report (end_wall_ns);";

/* When samples were lost, by the head's clock. Of what was lost before there was this table only
 * the sums are known: they stand at the end of the stream. */
static const char layout_3_sql[] =
	"CREATE TABLE loss (id INTEGER PRIMARY KEY, stream INTEGER NOT NULL REFERENCES stream (id),"
	" begin_wall_ns INTEGER NOT NULL, end_wall_ns INTEGER NOT NULL,"
	" lost_samples INTEGER NOT NULL, missed_samples INTEGER NOT NULL) STRICT;"
	"CREATE INDEX loss_time ON loss (end_wall_ns);"
	"INSERT INTO loss (stream, begin_wall_ns, end_wall_ns, lost_samples, missed_samples)"
	" SELECT id, last_wall_ns + coalesce(clock_high_ns, 0),"
	" last_wall_ns + coalesce(clock_high_ns, 0), lost_samples, missed_samples FROM stream"
	" WHERE lost_samples > 0 OR missed_samples > 0;";

/* Findings of jobs over many nodes. data: JSON. */
static const char layout_4_sql[] =
	"CREATE TABLE finding (id INTEGER PRIMARY KEY AUTOINCREMENT, run INTEGER NOT NULL,"
	" number INTEGER NOT NULL, kind TEXT NOT NULL, job TEXT NOT NULL, node TEXT NOT NULL,"
	" communicator INTEGER NOT NULL, rank INTEGER NOT NULL, n_ranks INTEGER NOT NULL,"
	" begin_wall_ns INTEGER NOT NULL, found_wall_ns INTEGER NOT NULL,"
	" end_wall_ns INTEGER NOT NULL, text TEXT NOT NULL, data TEXT NOT NULL,"
	" UNIQUE (run, number)) STRICT;"
	"CREATE INDEX finding_job ON finding (job, id);"
	"CREATE INDEX finding_end ON finding (end_wall_ns);";

static const char *const steps[] = {layout_1_sql, layout_2_sql, layout_3_sql, layout_4_sql};

int store_layout_newest(void)
{
	return (int)GS_ARRAY_LEN(steps);
}

static int step_layout(struct gs_store *s, int to)
{
	char version[48];
	int r = store_exec(s, "BEGIN IMMEDIATE");

	snprintf(version, sizeof(version), "PRAGMA user_version = %d", to);
	if (r == 0)
		r = store_exec(s, steps[to - 1]);
	if (r == 0)
		r = store_exec(s, version);
	if (r == 0)
		r = gs_store_commit(s);
	if (r == 0)
		s->layout = to;
	else
		gs_store_rollback(s);
	return r;
}

int store_layout_bring(struct gs_store *s)
{
	int r = s->layout == 0 ? store_exec(s, pragmas_sql) : 0;

	while (r == 0 && s->layout < store_layout_newest())
		r = step_layout(s, s->layout + 1);
	return r;
}
