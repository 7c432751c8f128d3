/* The store against what a head needs: once, whole, durable, readable while it is written. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <zstd.h>

#include "core/base/clock.h"
#include "core/base/mem.h"
#include "store_folder.h"

static int64_t node_of(struct gs_store *s, const char *machine)
{
	struct gs_store_node n = {.id = 0};
	int64_t id = 0;

	snprintf(n.machine_id, sizeof(n.machine_id), "%s", machine);
	snprintf(n.hostname, sizeof(n.hostname), "host-%s", machine);
	assert_int_equal(gs_store_node(s, &n, &id), 0);
	assert_true(id > 0);
	return id;
}

static struct gs_store_stream stream_of(struct gs_store *s, int64_t node, uint64_t stream)
{
	struct gs_store_stream want = {
		.node = node, .stream = stream, .kind = GS_STORE_SAMPLES, .title = "x"};
	struct gs_store_stream got;

	assert_int_equal(gs_store_stream(s, &want, &got), 0);
	assert_int_equal(got.stream, stream);
	assert_int_equal(got.node, node);
	return got;
}

/* Batch n of a stream: n x 8 bytes that tell n, packed when n is even. */
static int append(struct gs_store *s, int64_t stream, uint64_t n, int64_t wall_ns)
{
	uint64_t words[256];
	uint8_t packed[4096];
	struct gs_store_batch b = {.seq = n,
				   .first_wall_ns = wall_ns,
				   .last_wall_ns = wall_ns + 900,
				   .n_samples = 2,
				   .missed_samples = 1,
				   .lost_batches = n / 10,
				   .lost_samples = n / 5,
				   .raw_bytes = (uint32_t)(n % 200 + 1) * 8,
				   .data = words,
				   .bytes = (n % 200 + 1) * 8};

	for (size_t i = 0; i < GS_ARRAY_LEN(words); i++)
		words[i] = n;
	if (n % 2 == 0) {
		b.bytes = ZSTD_compress(packed, sizeof(packed), words, b.bytes, 1);
		b.data = packed;
		b.codec = GS_STORE_ZSTD;
	}
	return gs_store_append(s, stream, &b);
}

/* The same, and committed. */
static int append_one(struct gs_store *s, int64_t stream, uint64_t n, int64_t wall_ns)
{
	int r = gs_store_begin(s);

	if (r == 0)
		r = append(s, stream, n, wall_ns);
	if (r == 0)
		return gs_store_commit(s);
	gs_store_rollback(s);
	return r;
}

static unsigned count(struct gs_store *s, struct gs_store_range range, int64_t *ret_first)
{
	struct gs_store_cursor *c = NULL;
	struct gs_store_found found;
	unsigned n = 0;
	int64_t before = INT64_MIN;
	int r;

	assert_int_equal(gs_store_cursor_open(s, &range, &c), 0);
	while ((r = gs_store_cursor_next(c, &found)) == 0) {
		const uint64_t *words = found.records.data;

		assert_true(found.batch.first_wall_ns >= before);
		before = found.batch.first_wall_ns;
		assert_int_equal(found.records.bytes, (found.batch.seq % 200 + 1) * 8);
		for (size_t i = 0; i < found.records.bytes / 8; i++)
			assert_int_equal(words[i], found.batch.seq);
		if (n++ == 0 && ret_first)
			*ret_first = found.batch.first_wall_ns;
	}
	assert_int_equal(r, GS_STORE_END);
	gs_store_cursor_close(&c);
	return n;
}

#define ALL ((struct gs_store_range){.from_wall_ns = INT64_MIN, .to_wall_ns = INT64_MAX})

static void once_and_whole(void **state)
{
	const struct folder *f = *state;
	struct gs_store *s = open_store(f, GS_STORE_WRITE);
	int64_t a = node_of(s, "a"), b = node_of(s, "b");
	struct gs_store_stream x = stream_of(s, a, 7), y = stream_of(s, b, UINT64_MAX);
	struct gs_store_range range = ALL;
	int64_t first = 0;

	assert_int_equal(node_of(s, "a"), a);
	assert_int_equal(x.last_seq, 0);
	assert_int_equal(gs_store_begin(s), 0);
	for (uint64_t n = 1; n <= 100; n++) {
		assert_int_equal(append(s, x.id, n, (int64_t)n * 1000), 0);
		assert_int_equal(append(s, y.id, n, (int64_t)n * 1000 + 5), 0);
	}
	assert_int_equal(append(s, x.id, 100, 1), -EEXIST);
	assert_int_equal(append(s, x.id, 3, 1), -EEXIST);
	assert_int_equal(gs_store_commit(s), 0);
	/* Given up: the number can be used again. */
	assert_int_equal(gs_store_begin(s), 0);
	assert_int_equal(append(s, x.id, 101, 101000), 0);
	gs_store_rollback(s);
	x = stream_of(s, a, 7);
	assert_int_equal(x.last_seq, 100);
	assert_int_equal(x.n_samples, 200);
	assert_int_equal(x.missed_samples, 100);
	assert_int_equal(x.lost_batches, 10);
	assert_int_equal(x.lost_samples, 20);
	assert_int_equal(x.first_wall_ns, 1000);
	assert_int_equal(x.last_wall_ns, 100900);
	assert_int_equal(append(s, x.id, 101, 101000), -EINVAL); /* not in a transaction */
	assert_int_equal(append_one(s, x.id, 101, 101000), 0);
	assert_int_equal(count(s, range, &first), 201);
	assert_int_equal(first, 1000);
	range.nodes = &b;
	range.n_nodes = 1;
	assert_int_equal(count(s, range, &first), 100);
	range.stream = x.id;
	assert_int_equal(count(s, range, &first), 0);
	range = (struct gs_store_range){.from_wall_ns = 10900, .to_wall_ns = 20000};
	/* Those of 10000 reach to 10900, and 10005 to 10905. */
	assert_int_equal(count(s, range, &first), 20);
	assert_int_equal(first, 10000);
	range.kind = GS_STORE_TRACE;
	assert_int_equal(count(s, range, NULL), 0);
	gs_store_close(&s);
}

static void refused(void **state)
{
	const struct folder *f = *state;
	struct gs_store *s = open_store(f, GS_STORE_WRITE), *other = NULL;
	struct gs_store_stream x = stream_of(s, node_of(s, "a"), 1);
	struct gs_store_batch b = {.seq = 0, .data = "12345678", .bytes = 8, .raw_bytes = 8};
	struct gs_buf raw = GS_BUF_INIT(GS_STORE_BATCH_MAX + 64);
	struct gs_err err;

	assert_int_equal(gs_store_open(f->path, GS_STORE_WRITE, &other, &err), -EBUSY);
	assert_non_null(strstr(err.text, "another head"));
	assert_int_equal(gs_store_begin(s), 0);
	assert_int_equal(gs_store_append(s, x.id, &b), -EINVAL);
	b.seq = UINT64_MAX;
	assert_int_equal(gs_store_append(s, x.id, &b), -EINVAL);
	b.seq = 1;
	b.raw_bytes = GS_STORE_BATCH_MAX + 8;
	assert_int_equal(gs_store_append(s, x.id, &b), -EINVAL);
	/* Of a stream that there is not. */
	b.raw_bytes = 8;
	assert_int_equal(gs_store_append(s, 999, &b), -EEXIST);
	gs_store_rollback(s);
	assert_int_equal(gs_store_unpack(GS_STORE_PLAIN, "12345678", 8, 16, &raw), -EBADMSG);
	assert_int_equal(gs_store_unpack(GS_STORE_PLAIN, "1234567", 7, 7, &raw), -EBADMSG);
	assert_int_equal(gs_store_unpack(GS_STORE_ZSTD, "12345678", 8, 16, &raw), -EBADMSG);
	assert_int_equal(gs_store_unpack(2, "12345678", 8, 8, &raw), -EBADMSG);
	assert_int_equal(gs_store_unpack(GS_STORE_PLAIN, "12345678", 8, 8, &raw), 0);
	assert_int_equal(raw.bytes, 8);
	gs_buf_fini(&raw);
	gs_store_close(&s);
}

static void write_text(const char *dir, const char *text, size_t bytes, off_t at)
{
	char path[128];
	int fd;

	snprintf(path, sizeof(path), "%s/head.db", dir);
	fd = open(path, O_WRONLY | O_CREAT, 0600);
	assert_true(fd >= 0);
	assert_int_equal(pwrite(fd, text, bytes, at), bytes);
	close(fd);
}

static void not_ours(void **state)
{
	const struct folder *f = *state;
	struct gs_store *s = NULL;
	struct gs_err err;

	write_text(f->path, "this is not a database, but a letter to somebody ............", 60, 0);
	assert_int_equal(gs_store_open(f->path, GS_STORE_WRITE, &s, &err), -EUCLEAN);
	assert_non_null(strstr(err.text, "head.db"));
	assert_int_equal(gs_store_open("/nonexistent/x", GS_STORE_WRITE, &s, &err), -ENOENT);
	assert_int_equal(gs_store_open("/nonexistent/x", GS_STORE_READ, &s, &err), -ENOENT);
}

static void newer_layout(void **state)
{
	const struct folder *f = *state;
	struct gs_store *s = open_store(f, GS_STORE_WRITE);
	struct gs_err err;

	gs_store_close(&s);
	/* user_version stands at byte 60 of the file, most significant first (fileformat2.html). */
	write_text(f->path, "\0\0\0\x63", 4, 60);
	assert_int_equal(gs_store_open(f->path, GS_STORE_WRITE, &s, &err), -EUCLEAN);
	assert_non_null(strstr(err.text, "newer"));
}

static int add_number(void *ctx, const struct gs_store_session *session)
{
	int64_t *sum = ctx;

	*sum = *sum * 10 + session->number;
	return 0;
}

static int add_mark(void *ctx, const struct gs_store_annotation *mark)
{
	strcat(ctx, mark->name);
	strcat(ctx, mark->values);
	return 0;
}

static void sessions(void **state)
{
	const struct folder *f = *state;
	struct gs_store *s = open_store(f, GS_STORE_WRITE);
	struct gs_store_session a = {
		.name = "train", .interval_ns = 5, .nodes = "gpu*", .nvlink = true};
	struct gs_store_session b = {.name = "träin 2"}, got;
	int64_t seen = 0;
	char marks[200] = "";

	assert_int_equal(gs_store_session_start(s, &a), 0);
	assert_int_equal(gs_store_session_start(s, &b), 0);
	assert_int_equal(gs_store_session_start(s, &a), -EEXIST);
	assert_int_equal(strlen(a.id), 32);
	assert_int_equal(gs_store_session_get(s, "träin 2", &got), 0);
	assert_int_equal(got.number, b.number);
	assert_int_equal(gs_store_session_get(s, a.id, &got), -ENOENT); /* a.id was drawn anew */
	assert_int_equal(gs_store_session_get(s, "train", &got), 0);
	assert_int_equal(got.state, GS_STORE_SESSION_ACTIVE);
	assert_int_equal(got.interval_ns, 5);
	assert_string_equal(got.nodes, "gpu*");
	assert_true(got.nvlink && !got.bandwidth);
	assert_true(got.start_wall_ns > 0 && got.end_wall_ns == 0);
	assert_int_equal(gs_store_sessions(s, 0, 0, add_number, &seen), 0);
	assert_int_equal(seen, 21);
	assert_int_equal(gs_store_session_stop(s, got.number, 1), 0);
	assert_int_equal(gs_store_session_stop(s, got.number, 1), -EALREADY);
	assert_int_equal(gs_store_session_stop(s, 77, 1), -ENOENT);
	assert_int_equal(gs_store_session_get(s, "train", &got), 0);
	assert_int_equal(got.end_wall_ns, got.start_wall_ns); /* never before its start */
	/* The name is free again; by name the newest is found. */
	a.name[0] = 't';
	assert_int_equal(gs_store_session_start(s, &a), 0);
	assert_int_equal(gs_store_session_get(s, "train", &got), 0);
	assert_int_equal(got.number, 3);
	assert_int_equal(gs_store_session_resume(s, 1), -EEXIST);
	assert_int_equal(gs_store_session_delete(s, got.number), -EBUSY);
	for (int i = 2; i; i--) {
		struct gs_store_annotation m = {
			.session = got.number, .wall_ns = i, .values = "{\"x\":1}"};

		strcpy(m.kind, "mark");
		strcpy(m.name, i == 1 ? "one" : "two");

		assert_int_equal(gs_store_annotation_add(s, &m), 0);
	}
	assert_int_equal(gs_store_annotations(s, got.number, add_mark, marks), 0);
	assert_string_equal(marks, "one{\"x\":1}two{\"x\":1}");
	/* A head that ended: what was active can be gone on with. */
	gs_store_close(&s);
	s = open_store(f, GS_STORE_WRITE);
	assert_int_equal(gs_store_sessions_interrupted(s), 2);
	assert_int_equal(gs_store_sessions_interrupted(s), 0);
	seen = 0;
	assert_int_equal(gs_store_sessions(s, 0, GS_STORE_SESSION_RECOVERABLE, add_number, &seen),
			 0);
	assert_int_equal(seen, 32);
	assert_int_equal(gs_store_session_resume(s, 3), 0);
	assert_int_equal(gs_store_session_resume(s, 3), -EALREADY);
	assert_int_equal(gs_store_session_stop(s, 3, INT64_MAX), 0);
	assert_int_equal(gs_store_session_delete(s, 3), 0);
	assert_int_equal(gs_store_session_delete(s, 3), -ENOENT);
	marks[0] = 0;
	assert_int_equal(gs_store_annotations(s, 3, add_mark, marks), 0);
	assert_string_equal(marks, "");
	gs_store_close(&s);
}

static void names(void **state)
{
	static const char *const good[] = {"a", "run 1", "2026-11-21_10:00", "épo@ch+2", "训练.1"};
	static const char *const bad[] = {
		"",         ".",       "../x",     "a/b",          "-x",   " x",
		"a\nb",     "a\tb",    "a\x7f",    "\xc3\x28",     "\xff", "a;b",
		"a'b",      "<a>",     "\xc2\x80", "\xed\xa0\x80", "..",   "a\\b",
		"a\u202eb", "\u2066a", "a\u061c",  "a\u200fb"};
	char name[200];

	for (size_t i = 0; i < GS_ARRAY_LEN(good); i++)
		if (!gs_store_session_name_valid(good[i]))
			fail_msg("%s is refused", good[i]);
	for (size_t i = 0; i < GS_ARRAY_LEN(bad); i++)
		if (gs_store_session_name_valid(bad[i]))
			fail_msg("%s is taken", bad[i]);
	memset(name, 'a', sizeof(name));
	name[128] = 0;
	assert_true(gs_store_session_name_valid(name));
	name[128] = 'a';
	name[129] = 0;
	assert_false(gs_store_session_name_valid(name));
}

static void old_ones(void **state)
{
	const struct folder *f = *state;
	struct gs_store *s = open_store(f, GS_STORE_WRITE);
	struct gs_store_stream x = stream_of(s, node_of(s, "a"), 1);
	struct gs_store_session kept = {.name = "kept"};
	struct gs_store_usage usage;
	int64_t now = (int64_t)gs_clock_wall_ns();

	assert_int_equal(gs_store_begin(s), 0);
	for (uint64_t n = 1; n <= 100; n++) /* half before now, half behind */
		assert_int_equal(append(s, x.id, n, now + ((int64_t)n - 50) * 60000000000ll), 0);
	assert_int_equal(gs_store_commit(s), 0);
	assert_int_equal(gs_store_session_start(s, &kept), 0);
	assert_int_equal(gs_store_expire(s, INT64_MAX, 7), 7);
	assert_int_equal(gs_store_expire(s, INT64_MAX, 1000), 42 + 1);
	assert_int_equal(gs_store_expire(s, INT64_MAX, 1000), 0);
	assert_int_equal(gs_store_usage(s, &usage), 0);
	assert_int_equal(usage.n_batches, 50);
	assert_true(usage.file_bytes > 0);
	/* An end lets go of what is behind it, a deletion of the rest. */
	assert_int_equal(gs_store_session_stop(s, kept.number, now + 10 * 60000000000ll), 0);
	assert_in_range(gs_store_expire(s, INT64_MAX, 1000), 39, 41);
	assert_int_equal(gs_store_session_delete(s, kept.number), 0);
	assert_in_range(gs_store_expire(s, INT64_MAX, 1000), 9, 11);
	assert_int_equal(count(s, ALL, NULL), 0);
	gs_store_close(&s);
}

/* Killed at any moment: what was committed is there, once, and nothing that was not. */
static void killed(void **state)
{
	const struct folder *f = *state;

	for (int round = 0; round < 15; round++) {
		uint64_t last = 0, n;
		int told[2];
		pid_t pid;

		assert_int_equal(pipe(told), 0);
		pid = fork();
		if (pid == 0) {
			struct gs_store *s = open_store(f, GS_STORE_WRITE);
			struct gs_store_stream x = stream_of(s, node_of(s, "a"), 1);

			for (n = x.last_seq;;) {
				assert_int_equal(gs_store_begin(s), 0);
				for (int i = 0; i < 10; i++, n++)
					assert_int_equal(append(s, x.id, n + 1, (int64_t)n * 1000),
							 0);
				assert_int_equal(gs_store_commit(s), 0);
				if (write(told[1], &n, sizeof(n)) != (ssize_t)sizeof(n))
					_exit(1);
			}
		}
		close(told[1]);
		for (int i = 0; i <= round % 5; i++)
			assert_int_equal(read(told[0], &last, sizeof(last)), sizeof(last));
		usleep((useconds_t)(round * 173)); /* somewhere in a transaction */
		kill(pid, SIGKILL);
		waitpid(pid, NULL, 0);
		while (read(told[0], &n, sizeof(n)) == (ssize_t)sizeof(n))
			last = n;
		close(told[0]);

		struct gs_store *s = open_store(f, GS_STORE_WRITE);
		struct gs_store_stream x = stream_of(s, node_of(s, "a"), 1);

		assert_true(x.last_seq == last || x.last_seq == last + 10);
		assert_int_equal(count(s, ALL, NULL), x.last_seq);
		gs_store_close(&s);
	}
}

/* The log cut anywhere, as a power cut may leave it: a prefix of the transactions, whole. */
static void torn_log(void **state)
{
	const struct folder *f = *state;
	GS_FREE char *log = NULL, *db = NULL;
	char db_path[128], log_path[128];
	struct stat db_st, log_st;
	pid_t pid = fork();
	int fd;

	if (pid == 0) {
		struct gs_store *s = open_store(f, GS_STORE_WRITE);
		struct gs_store_stream x = stream_of(s, node_of(s, "a"), 1);

		for (uint64_t n = 1; n <= 20; n++)
			assert_int_equal(append_one(s, x.id, n, (int64_t)n * 1000), 0);
		raise(SIGKILL); /* without tidying up */
	}
	waitpid(pid, NULL, 0);
	snprintf(db_path, sizeof(db_path), "%s/head.db", f->path);
	snprintf(log_path, sizeof(log_path), "%s/head.db-wal", f->path);
	assert_int_equal(stat(db_path, &db_st), 0);
	assert_int_equal(stat(log_path, &log_st), 0);
	db = malloc((size_t)db_st.st_size);
	log = malloc((size_t)log_st.st_size);
	fd = open(db_path, O_RDONLY);
	assert_int_equal(read(fd, db, (size_t)db_st.st_size), db_st.st_size);
	close(fd);
	fd = open(log_path, O_RDONLY);
	assert_int_equal(read(fd, log, (size_t)log_st.st_size), log_st.st_size);
	close(fd);
	for (off_t size = log_st.st_size; size > log_st.st_size / 2; size -= 7919) {
		struct gs_store *s;

		fd = open(db_path, O_WRONLY | O_TRUNC);
		assert_int_equal(write(fd, db, (size_t)db_st.st_size), db_st.st_size);
		close(fd);
		fd = open(log_path, O_WRONLY | O_CREAT | O_TRUNC, 0600);
		assert_int_equal(write(fd, log, (size_t)size), size);
		close(fd);
		s = open_store(f, GS_STORE_WRITE);
		assert_int_equal(count(s, ALL, NULL), stream_of(s, node_of(s, "a"), 1).last_seq);
		gs_store_close(&s);
	}
}

/* Full: told as such, nothing half, and it goes on when there is room again. */
static void disk_full(void **state)
{
	const struct folder *f = *state;
	uint64_t n = 0, committed = 0;
	struct gs_store_stream x;
	struct gs_store *s;
	int r = 0;

	/* A file system of its own, which nobody else sees. */
	if (unshare(CLONE_NEWNS) < 0 || mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0 ||
	    mount("small", f->path, "tmpfs", 0, "size=1m") < 0) {
		print_message("SKIP: only root can make a small file system\n");
		skip();
	}
	s = open_store(f, GS_STORE_WRITE);
	x = stream_of(s, node_of(s, "a"), 1);
	while (r == 0 && n < 10000) {
		r = gs_store_begin(s);
		for (int i = 0; r == 0 && i < 10; i++) {
			n++;
			r = append(s, x.id, n, (int64_t)n * 1000);
		}
		if (r == 0)
			r = gs_store_commit(s);
		else
			gs_store_rollback(s);
		if (r == 0)
			committed = n;
	}
	assert_int_equal(r, -ENOSPC);
	assert_true(gs_store_trouble(s)[0]);
	assert_int_equal(mount("small", f->path, "tmpfs", MS_REMOUNT, "size=20m"), 0);
	assert_int_equal(stream_of(s, 1, 1).last_seq, committed);
	assert_int_equal(append_one(s, x.id, committed + 1, (int64_t)n * 1000), 0);
	assert_int_equal(count(s, ALL, NULL), committed + 1);
	gs_store_close(&s);
	assert_int_equal(umount(f->path), 0);
}

/* Readers see whole transactions while somebody writes. */
static void read_while_written(void **state)
{
	const struct folder *f = *state;
	struct gs_store *s = open_store(f, GS_STORE_WRITE), *reader;
	struct gs_store_stream x = stream_of(s, node_of(s, "a"), 1);

	assert_int_equal(append_one(s, x.id, 1, 1000), 0);
	reader = open_store(f, GS_STORE_READ);
	assert_int_equal(gs_store_begin(s), 0);
	assert_int_equal(append(s, x.id, 2, 2000), 0);
	assert_int_equal(count(reader, ALL, NULL), 1);
	assert_int_equal(gs_store_commit(s), 0);
	assert_int_equal(count(reader, ALL, NULL), 2);
	assert_int_equal(append_one(reader, x.id, 3, 3000), -EACCES);
	gs_store_close(&reader);
	gs_store_close(&s);
}

#define SECOND 1000000000ll

/* A batch between two times of the node's clock, which is behind the head's by the offset. */
static int append_lossy(struct gs_store *s, int64_t stream, uint64_t seq, double first_s,
			double last_s, uint64_t missed, uint64_t lost_so_far, double offset_s)
{
	static const uint64_t word = 1;
	const struct gs_store_batch b = {.seq = seq,
					 .first_wall_ns = (int64_t)(first_s * SECOND),
					 .last_wall_ns = (int64_t)(last_s * SECOND),
					 .clock_offset_ns = (int64_t)(offset_s * SECOND),
					 .n_samples = 1,
					 .missed_samples = missed,
					 .lost_samples = lost_so_far,
					 .raw_bytes = 8,
					 .data = &word,
					 .bytes = 8};
	int r = gs_store_begin(s);

	if (r == 0)
		r = gs_store_append(s, stream, &b);
	if (r == 0)
		return gs_store_commit(s);
	gs_store_rollback(s);
	return r;
}

static void check_losses(struct gs_store *s, double start_s, double end_s, unsigned lost,
			 unsigned missed)
{
	struct gs_store_session session = {.start_wall_ns = (int64_t)(start_s * SECOND),
					   .end_wall_ns = (int64_t)(end_s * SECOND)};
	struct gs_store_tally got;

	assert_int_equal(gs_store_session_tally(s, &session, &got), 0);
	assert_int_equal(got.lost_samples, lost);
	assert_int_equal(got.missed_samples, missed);
}

/* What was lost before a session began, or after its end, is not the session's. */
static void losses_of_a_session(void **state)
{
	const struct folder *f = *state;
	struct gs_store *s = open_store(f, GS_STORE_WRITE);
	int64_t a = stream_of(s, node_of(s, "m1"), 1).id, b = stream_of(s, node_of(s, "m2"), 1).id;

	assert_int_equal(append_lossy(s, a, 1, 100, 101, 0, 0, 0), 0);
	check_losses(s, 50, 200, 0, 0);
	/* Stopped from 101 to 151; then 7 were dropped before they could be delivered. */
	assert_int_equal(append_lossy(s, a, 2, 151, 151, 50, 0, 0), 0);
	assert_int_equal(append_lossy(s, a, 3, 158, 159, 0, 7, 0), 0);
	assert_int_equal(append_lossy(s, a, 4, 160, 161, 0, 7, 0), 0);
	assert_int_equal(append_lossy(s, a, 4, 160, 161, 3, 9, 0), -EEXIST);
	check_losses(s, 90, 155, 4, 50); /* half of the time from 151 to 159 */
	check_losses(s, 90, 159, 7, 50);
	check_losses(s, 126, 200, 7, 25);
	check_losses(s, 159, 200, 0, 0);
	check_losses(s, 90, 101, 0, 0);
	/* By the head's clock; and a stream's first batch may say so, too. */
	assert_int_equal(append_lossy(s, b, 1, 1000, 1001, 2, 1, 500), 0);
	check_losses(s, 1000, 1001, 0, 0);
	check_losses(s, 1500, 1501, 1, 2);
	check_losses(s, 90, 2000, 8, 52);
	/* They go with the batches; none of that takes what is newer. */
	assert_true(gs_store_expire(s, 500 * SECOND, 100) == 4);
	assert_int_equal(gs_store_expire(s, 500 * SECOND, 100), 0);
	check_losses(s, 90, 2000, 1, 2);
	gs_store_close(&s);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
#define TEST(name) cmocka_unit_test_setup_teardown(name, folder_setup, folder_teardown)
		TEST(once_and_whole),     TEST(refused),
		TEST(not_ours),           TEST(newer_layout),
		TEST(sessions),           TEST(names),
		TEST(old_ones),           TEST(killed),
		TEST(torn_log),           TEST(disk_full),
		TEST(read_while_written), TEST(losses_of_a_session),
#undef TEST
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
