/* Reports of jobs in the store, and files of the layout before there were any. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <math.h>
#include <sqlite3.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/base/mem.h"
#include "server/store/report.h"
#include "store_folder.h"

static struct folder *folder; /* of the test that runs */

static int setup(void **state)
{
	int r = folder_setup(state);

	folder = *state;
	return r;
}

static void sql(const char *text)
{
	char path[128];
	sqlite3 *db = NULL;

	snprintf(path, sizeof(path), "%s/head.db", folder->path);
	assert_int_equal(sqlite3_open(path, &db), SQLITE_OK);
	assert_int_equal(sqlite3_exec(db, text, NULL, NULL, NULL), SQLITE_OK);
	sqlite3_close(db);
}

static int64_t number(const char *text)
{
	char path[128];
	sqlite3 *db = NULL;
	sqlite3_stmt *stmt = NULL;
	int64_t n;

	snprintf(path, sizeof(path), "%s/head.db", folder->path);
	assert_int_equal(sqlite3_open(path, &db), SQLITE_OK);
	assert_int_equal(sqlite3_prepare_v2(db, text, -1, &stmt, NULL), SQLITE_OK);
	assert_int_equal(sqlite3_step(stmt), SQLITE_ROW);
	n = sqlite3_column_int64(stmt, 0);
	sqlite3_finalize(stmt);
	sqlite3_close(db);
	return n;
}

static int64_t stream_of(struct gs_store *s, const char *machine, uint64_t stream)
{
	struct gs_store_node n = {.id = 0};
	struct gs_store_stream want = {.stream = stream, .kind = GS_STORE_JOBS}, got;

	snprintf(n.machine_id, sizeof(n.machine_id), "%s", machine);
	snprintf(n.hostname, sizeof(n.hostname), "host-%s", machine);
	assert_int_equal(gs_store_node(s, &n, &want.node), 0);
	assert_int_equal(gs_store_stream(s, &want, &got), 0);
	return got.id;
}

static struct gs_store_report report_of(const char *name, const char *job, unsigned state,
					int64_t begin)
{
	struct gs_store_report r = {.state = state,
				    .source = "agent",
				    .kind = "slurm",
				    .user = "ada",
				    .name = "train",
				    .job_class = "CPU-bound",
				    .score = 42,
				    .begin_wall_ns = begin,
				    .end_wall_ns = begin + 100};

	snprintf(r.report, sizeof(r.report), "%s", name);
	snprintf(r.job, sizeof(r.job), "%s", job);
	return r;
}

/* With the report's name as its document. */
static int put(struct gs_store *s, int64_t stream, uint64_t seq, const struct gs_store_report *r)
{
	char text[128] = "";
	struct gs_store_batch b = {.seq = seq,
				   .first_wall_ns = r->begin_wall_ns,
				   .last_wall_ns = r->end_wall_ns,
				   .n_samples = 1,
				   .clock_offset_ns = 7,
				   .raw_bytes = 64,
				   .data = text,
				   .bytes = 64};
	int code;

	snprintf(text, sizeof(text), "%-64s", r->report);
	assert_int_equal(gs_store_begin(s), 0);
	code = gs_store_report_put(s, stream, &b, r);
	if (code == 0)
		return gs_store_commit(s);
	gs_store_rollback(s);
	return code;
}

struct seen {
	char reports[256]; /* their names, in order */
	char first_text[65];
	struct gs_store_report last;
	unsigned n, stop_at;
};

static int see(void *ctx, const struct gs_store_report *r, const char *text, size_t bytes)
{
	struct seen *seen = ctx;
	size_t n = strlen(seen->reports);

	if (seen->stop_at && seen->n == seen->stop_at)
		return 1;
	snprintf(seen->reports + n, sizeof(seen->reports) - n, "%s%s", n ? " " : "", r->report);
	if (text && !seen->n)
		snprintf(seen->first_text, sizeof(seen->first_text), "%.*s", (int)bytes, text);
	seen->last = *r;
	seen->n++;
	return 0;
}

static struct seen look(struct gs_store *s, struct gs_store_report_query q)
{
	struct seen seen = {.n = 0};

	assert_int_equal(gs_store_reports(s, &q, see, &seen), 0);
	return seen;
}

static void a_report_is_stored_once_and_replaced_by_its_name(void **state)
{
	struct gs_store *s = open_store(folder, GS_STORE_WRITE);
	int64_t a = stream_of(s, "a", 1), b = stream_of(s, "b", 1);
	struct gs_store_report r = report_of("r1", "4711", GS_STORE_REPORT_RUNNING, 1000);
	struct seen seen;

	(void)state;
	assert_int_equal(put(s, a, 1, &r), 0);
	assert_int_equal(put(s, a, 1, &r), -EEXIST);
	r.state = GS_STORE_REPORT_FINISHED;
	r.end_wall_ns = 5000;
	assert_int_equal(put(s, a, 2, &r), 0);
	/* The same name of another node is another report. */
	assert_int_equal(put(s, b, 1, &r), 0);
	seen = look(s, (struct gs_store_report_query){.hostname = "host-a", .whole = true});
	assert_int_equal(seen.n, 1);
	assert_int_equal(seen.last.state, GS_STORE_REPORT_FINISHED);
	assert_int_equal(seen.last.begin_wall_ns, 1007); /* by the head's clock */
	assert_int_equal(seen.last.end_wall_ns, 5007);
	assert_memory_equal(seen.first_text, "r1 ", 3);
	assert_int_equal(look(s, (struct gs_store_report_query){.state = 0}).n, 2);
	assert_int_equal(number("SELECT count(*) FROM batch"), 0);
	gs_store_close(&s);
}

static void what_a_killed_one_left_behind_is_partial(void **state)
{
	struct gs_store *s = open_store(folder, GS_STORE_WRITE);
	int64_t a = stream_of(s, "a", 1), b = stream_of(s, "b", 1);
	struct gs_store_report old = report_of("old", "4711", GS_STORE_REPORT_RUNNING, 1000);
	struct gs_store_report other = report_of("other", "4712", GS_STORE_REPORT_RUNNING, 1000);
	struct gs_store_report fresh = report_of("new", "4711", GS_STORE_REPORT_RUNNING, 2000);
	struct seen seen;

	(void)state;
	assert_int_equal(put(s, a, 1, &old), 0);
	assert_int_equal(put(s, a, 2, &other), 0);
	assert_int_equal(put(s, b, 1, &old), 0);
	assert_int_equal(put(s, a, 3, &fresh), 0);
	seen = look(s, (struct gs_store_report_query){.state = GS_STORE_REPORT_PARTIAL});
	assert_int_equal(seen.n, 1);
	assert_string_equal(seen.last.report, "old");
	assert_string_equal(seen.last.hostname, "host-a");
	gs_store_close(&s);
}

static void no_report_of_a_node_is_refused_and_takes_no_number(void **state)
{
	struct gs_store *s = open_store(folder, GS_STORE_WRITE);
	int64_t a = stream_of(s, "a", 1);
	struct gs_store_report bad[5];

	(void)state;
	for (size_t i = 0; i < GS_ARRAY_LEN(bad); i++)
		bad[i] = report_of("r", "1", GS_STORE_REPORT_FINISHED, 1000);
	bad[0].report[0] = bad[1].job[0] = '\0';
	bad[2].state = 4;
	bad[3].begin_wall_ns = 0;
	bad[4].end_wall_ns = 1;
	for (size_t i = 0; i < GS_ARRAY_LEN(bad); i++)
		assert_int_equal(put(s, a, 1, &bad[i]), -EINVAL);
	assert_int_equal(number("SELECT last_seq FROM stream"), 0);
	gs_store_close(&s);
}

static void lists_are_chosen_and_come_in_pages(void **state)
{
	struct gs_store *s = open_store(folder, GS_STORE_WRITE);
	int64_t a = stream_of(s, "a", 1);
	struct gs_store_report_query q = {.state = 0};
	struct seen seen, next = {.stop_at = 2};
	char after[GS_STORE_REPORT_AFTER_BYTES];

	(void)state;
	for (unsigned i = 1; i <= 5; i++) {
		char name[8], job[8];
		struct gs_store_report r;

		snprintf(name, sizeof(name), "r%u", i);
		snprintf(job, sizeof(job), "%u", i);
		/* The last two begin at the same time. */
		r = report_of(name, job,
			      i == 5 ? GS_STORE_REPORT_RUNNING : GS_STORE_REPORT_FINISHED,
			      i == 5 ? 4000 : i * 1000);
		if (i == 2)
			strcpy(r.user, "bob");
		if (i == 3)
			strcpy(r.name, "trains");
		if (i == 4)
			r.score = NAN;
		assert_int_equal(put(s, a, i, &r), 0);
	}
	assert_string_equal(look(s, q).reports, "r5 r4 r3 r2 r1");
	assert_true(isnan(look(s, (struct gs_store_report_query){.job = "4"}).last.score));
	q = (struct gs_store_report_query){.user = "bob"};
	assert_string_equal(look(s, q).reports, "r2");
	q = (struct gs_store_report_query){.user = "b' OR 1 --"};
	assert_string_equal(look(s, q).reports, "");
	q = (struct gs_store_report_query){.name = "train"};
	assert_string_equal(look(s, q).reports, "r5 r4 r2 r1");
	q = (struct gs_store_report_query){.name = "train*"};
	assert_string_equal(look(s, q).reports, "r5 r4 r3 r2 r1");
	q = (struct gs_store_report_query){.name = "*"};
	assert_int_equal(look(s, q).n, 5);
	q = (struct gs_store_report_query){.not_running = true, .kind = "slurm"};
	assert_string_equal(look(s, q).reports, "r4 r3 r2 r1");
	q = (struct gs_store_report_query){.kind = "user"};
	assert_string_equal(look(s, q).reports, "");
	q = (struct gs_store_report_query){.from_wall_ns = 2050, .to_wall_ns = 3500};
	assert_string_equal(look(s, q).reports, "r3 r2");
	/* Page by page, also between two of the same time. */
	q = (struct gs_store_report_query){.state = 0};
	next.stop_at = 1;
	assert_int_equal(gs_store_reports(s, &q, see, &next), 1);
	gs_store_report_newer(&next.last, after);
	assert_int_equal(gs_store_report_older(&q, after), 0);
	seen = look(s, q);
	assert_string_equal(seen.reports, "r4 r3 r2 r1");
	for (const char *const *bad = (const char *const[]){"x", "1", "1-", "-", "1-0", "1-2x",
							    "99999999999999999999-1", NULL};
	     *bad; bad++)
		assert_int_equal(gs_store_report_older(&q, *bad), -EINVAL);
	gs_store_close(&s);
}

static void old_ones_go_with_their_streams(void **state)
{
	const int64_t day = 86400000000000ll;
	struct gs_store *s = open_store(folder, GS_STORE_WRITE);
	int64_t a = stream_of(s, "a", 1), b = stream_of(s, "a", 2);
	struct gs_store_report old = report_of("old", "1", GS_STORE_REPORT_FINISHED, 1000);
	struct gs_store_report fresh = report_of("new", "2", GS_STORE_REPORT_FINISHED, 9 * day);

	(void)state;
	assert_int_equal(put(s, a, 1, &old), 0);
	assert_int_equal(put(s, b, 1, &fresh), 0);
	assert_int_equal(gs_store_stream_end(s, a), 0);
	assert_int_equal(gs_store_stream_end(s, b), 0);
	assert_int_equal(gs_store_report_expire(s, 5 * day, 100), 1);
	assert_int_equal(gs_store_report_expire(s, 5 * day, 100), 0);
	assert_string_equal(look(s, (struct gs_store_report_query){.state = 0}).reports, "new");
	assert_int_equal(number("SELECT count(*) FROM stream"), 1);
	gs_store_close(&s);
}

static int know(void *ctx, const struct gs_store_node *node)
{
	(void)node;
	++*(int *)ctx;
	return 0;
}

static void who_sends_only_reports_is_no_node_to_watch(void **state)
{
	struct gs_store *s = open_store(folder, GS_STORE_WRITE);
	struct gs_store_stream want = {.stream = 9, .kind = GS_STORE_SAMPLES}, got;
	struct gs_store_node n = {.machine_id = "c", .hostname = "c"};
	int known = 0;

	(void)state;
	(void)stream_of(s, "a", 1);
	assert_int_equal(gs_store_nodes(s, know, &known), 0);
	assert_int_equal(known, 0);
	assert_int_equal(gs_store_node(s, &n, &want.node), 0); /* it never sent anything */
	assert_int_equal(gs_store_nodes(s, know, &known), 0);
	assert_int_equal(known, 1);
	assert_int_equal(gs_store_stream(s, &want, &got), 0);
	assert_int_equal(gs_store_nodes(s, know, &known), 0);
	assert_int_equal(known, 2);
	gs_store_close(&s);
}

static void a_file_of_the_first_layout_is_brought_up_to_date(void **state)
{
	struct gs_store *s = open_store(folder, GS_STORE_WRITE);
	struct gs_store_session session = {.name = "kept"};
	struct gs_store_report r = report_of("r", "1", GS_STORE_REPORT_FINISHED, 1000);
	struct gs_store_report got;
	struct gs_err err;
	GS_CLEANUP(gs_buf_fini) struct gs_buf text = GS_BUF_INIT(1 << 20);

	(void)state;
	assert_int_equal(gs_store_session_start(s, &session), 0);
	gs_store_close(&s);
	sql("DROP TABLE finding; DROP TABLE loss; DROP TABLE job_report; PRAGMA user_version = 1");
	/* Who only reads leaves it as it is, and finds none. */
	s = open_store(folder, GS_STORE_READ);
	assert_int_equal(look(s, (struct gs_store_report_query){.state = 0}).n, 0);
	assert_int_equal(gs_store_report_get(s, 1, &got, &text), -ENOENT);
	gs_store_close(&s);
	assert_int_equal(number("PRAGMA user_version"), 1);
	s = open_store(folder, GS_STORE_WRITE);
	assert_true(number("PRAGMA user_version") >= 4);
	assert_int_equal(put(s, stream_of(s, "a", 1), 1, &r), 0);
	assert_int_equal(gs_store_report_get(s, 1, &got, &text), 0);
	assert_string_equal(got.report, "r");
	assert_int_equal(gs_store_session_get(s, "kept", &session), 0);
	gs_store_close(&s);
	/* A step that cannot be done leaves the layout before it, and says so. */
	sql("DROP TABLE finding; DROP TABLE loss; DROP TABLE job_report; PRAGMA user_version = 1;"
	    "CREATE TABLE job_report (x)");
	assert_true(gs_store_open(folder->path, GS_STORE_WRITE, &s, &err) < 0);
	assert_non_null(strstr(err.text, "cannot bring up to date"));
	assert_int_equal(number("PRAGMA user_version"), 1);
	/* And one of a newer program is not touched. */
	sql("PRAGMA user_version = 99");
	assert_int_equal(gs_store_open(folder->path, GS_STORE_WRITE, &s, &err), -EUCLEAN);
	assert_non_null(strstr(err.text, "newer gpuscope"));
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, folder_teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(a_report_is_stored_once_and_replaced_by_its_name),
		TEST(what_a_killed_one_left_behind_is_partial),
		TEST(no_report_of_a_node_is_refused_and_takes_no_number),
		TEST(lists_are_chosen_and_come_in_pages),
		TEST(old_ones_go_with_their_streams),
		TEST(who_sends_only_reports_is_no_node_to_watch),
		TEST(a_file_of_the_first_layout_is_brought_up_to_date),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
