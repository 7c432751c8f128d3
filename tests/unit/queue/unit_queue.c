/* The spool against what may happen to it: ends of the program at any moment, cut and changed
 * files, full disks, bounds, old copies. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "core/base/mem.h"
#include "core/queue/queue.h"

struct folder {
	char path[64];
};

static int setup(void **state)
{
	struct folder *f = calloc(1, sizeof(*f));

	strcpy(f->path, "/tmp/unit_spool.XXXXXX");
	assert_non_null(mkdtemp(f->path));
	*state = f;
	return 0;
}

static void each_file(const char *dir, void (*fn)(const char *path, void *ctx), void *ctx)
{
	DIR *d = opendir(dir);

	assert_non_null(d);
	for (struct dirent *e; (e = readdir(d));) {
		char path[512];

		if (e->d_name[0] == '.')
			continue;
		snprintf(path, sizeof(path), "%s/%s", dir, e->d_name);
		fn(path, ctx);
	}
	closedir(d);
}

static void remove_one(const char *path, void *ctx)
{
	assert_int_equal(unlink(path), 0);
}

static int teardown(void **state)
{
	struct folder *f = *state;

	each_file(f->path, remove_one, NULL);
	assert_int_equal(rmdir(f->path), 0);
	free(f);
	return 0;
}

static struct gs_queue *open_spool(const char *dir, uint64_t max_bytes, uint32_t segment_bytes)
{
	struct gs_queue_options o = {.size = sizeof(o),
				     .dir = dir,
				     .max_bytes = max_bytes,
				     .segment_bytes = segment_bytes};
	struct gs_queue *s = NULL;
	struct gs_err err;

	if (gs_queue_open(&o, &s, &err) < 0)
		fail_msg("%s", err.text);
	return s;
}

/* Batch number n has n_samples n, and bytes that tell n. */
static int put(struct gs_queue *s, uint64_t n, size_t bytes)
{
	GS_FREE uint8_t *data = malloc(bytes + 1);
	struct gs_queue_batch b = {.first_wall_ns = (int64_t)n * 1000,
				   .last_wall_ns = (int64_t)n * 1000 + 999,
				   .n_samples = (uint32_t)n,
				   .raw_bytes = 7,
				   .codec = 1,
				   .missed_samples = n % 3,
				   .data = data,
				   .bytes = bytes};

	for (size_t i = 0; i < bytes; i++)
		data[i] = (uint8_t)(n * 31 + i);
	return gs_queue_put(s, &b);
}

static void expect(struct gs_queue *s, uint64_t ask, uint64_t n, size_t bytes)
{
	struct gs_queue_batch b;

	assert_int_equal(gs_queue_get(s, ask, &b), 0);
	assert_int_equal(b.seq, n);
	assert_int_equal(b.n_samples, n);
	assert_int_equal(b.first_wall_ns, n * 1000);
	assert_int_equal(b.last_wall_ns, n * 1000 + 999);
	assert_int_equal(b.missed_samples, n % 3);
	assert_int_equal(b.codec, 1);
	assert_int_equal(b.bytes, bytes);
	for (size_t i = 0; i < bytes; i++)
		if (b.data[i] != (uint8_t)(n * 31 + i))
			fail_msg("batch %llu differs at %zu", (unsigned long long)n, i);
}

static void in_and_out(void **state)
{
	const struct folder *f = *state;
	struct gs_queue *s = open_spool(f->path, 0, 0);
	struct gs_queue_batch b;
	struct gs_queue_stats st;
	uint64_t stream = gs_queue_stream(s);

	assert_true(stream != 0);
	assert_int_equal(gs_queue_get(s, 0, &b), GS_QUEUE_END);
	for (uint64_t n = 1; n <= 100; n++)
		assert_int_equal(put(s, n, n), 0);
	for (uint64_t n = 1; n <= 100; n++)
		expect(s, n, n, n);
	expect(s, 0, 1, 1);
	gs_queue_ack(s, 40);
	expect(s, 0, 41, 41);
	gs_queue_ack(s, 12);  /* behind: nothing changes */
	gs_queue_ack(s, 101); /* never made: nothing changes */
	expect(s, 41, 41, 41);
	gs_queue_stats(s, &st);
	assert_int_equal(st.first_seq, 41);
	assert_int_equal(st.next_seq, 101);
	assert_int_equal(st.n_batches, 60);
	assert_int_equal(st.n_samples, 60 * (41 + 100) / 2);
	assert_int_equal(st.lost_batches, 0);
	gs_queue_close(&s);
	/* The next run goes on where this one was. */
	s = open_spool(f->path, 0, 0);
	assert_int_equal(gs_queue_stream(s), stream);
	expect(s, 0, 41, 41);
	assert_int_equal(put(s, 101, 5), 0);
	gs_queue_ack(s, 101);
	assert_int_equal(gs_queue_get(s, 0, &b), GS_QUEUE_END);
	gs_queue_close(&s);
	/* Numbers go on when nothing is left, too. */
	s = open_spool(f->path, 0, 0);
	assert_int_equal(put(s, 102, 5), 0);
	expect(s, 0, 102, 5);
	gs_queue_close(&s);
}

static void one_at_a_time(void **state)
{
	const struct folder *f = *state;
	struct gs_queue *s = open_spool(f->path, 0, 0), *other = NULL;
	struct gs_queue_options o = {.size = sizeof(o), .dir = f->path};
	struct gs_err err;

	assert_int_equal(gs_queue_open(&o, &other, &err), -EBUSY);
	assert_non_null(strstr(err.text, "another gpuscope"));
	gs_queue_close(&s);
}

/* Killed at any moment: what put returned for is there. */
static void killed(void **state)
{
	const struct folder *f = *state;

	for (int round = 0; round < 20; round++) {
		int told[2];
		uint64_t last = 0, n;
		pid_t pid;

		assert_int_equal(pipe(told), 0);
		pid = fork();
		if (pid == 0) {
			struct gs_queue *s = open_spool(f->path, 0, 20000);
			struct gs_queue_stats st;

			gs_queue_stats(s, &st);
			for (n = st.next_seq;; n++) {
				if (put(s, n, 100 + n % 900) < 0 ||
				    write(told[1], &n, sizeof(n)) != (ssize_t)sizeof(n))
					_exit(1);
				if (n % 50 == 0)
					gs_queue_ack(s, n - 25);
			}
		}
		close(told[1]);
		while (last % 200 != (uint64_t)(37 + round * 7) % 200 || last == 0)
			assert_int_equal(read(told[0], &last, sizeof(last)), sizeof(last));
		kill(pid, SIGKILL);
		waitpid(pid, NULL, 0);
		while (read(told[0], &n, sizeof(n)) == (ssize_t)sizeof(n))
			last = n;
		close(told[0]);

		struct gs_queue *s = open_spool(f->path, 0, 20000);
		struct gs_queue_stats st;

		gs_queue_stats(s, &st);
		assert_in_range(st.next_seq, last + 1, last + 2);
		assert_int_equal(st.lost_batches, 0);
		assert_in_range(st.first_seq, 1, last / 50 * 50 + 1);
		for (n = st.first_seq; n < st.next_seq; n++)
			expect(s, n, n, 100 + n % 900);
		gs_queue_close(&s);
	}
}

static void newest_file(const char *path, void *ctx)
{
	char *newest = ctx;

	if (strstr(path, ".batches") && strcmp(path, newest) > 0)
		strcpy(newest, path);
}

/* A file that ends anywhere, as a power cut leaves it. */
static void torn(void **state)
{
	const struct folder *f = *state;
	struct gs_queue *s = open_spool(f->path, 0, 0);
	char newest[512] = "";
	struct stat st;

	for (uint64_t n = 1; n <= 3; n++)
		assert_int_equal(put(s, n, 200), 0);
	gs_queue_close(&s);
	each_file(f->path, newest_file, newest);
	assert_int_equal(stat(newest, &st), 0);
	for (off_t size = st.st_size; size >= 0; size -= 13) {
		uint64_t whole = (uint64_t)size / 256; /* 56 and 200 bytes each */
		struct gs_queue_stats stats;
		struct gs_queue_batch b;

		assert_int_equal(truncate(newest, size), 0);
		s = open_spool(f->path, 0, 0);
		gs_queue_stats(s, &stats);
		assert_int_equal(stats.n_batches, whole);
		assert_int_equal(stats.torn_bytes, (uint64_t)size - whole * 256);
		/* Numbers that were used before are not used again. */
		assert_int_equal(stats.next_seq, 4);
		for (uint64_t n = 1; n <= whole; n++)
			expect(s, n, n, 200);
		assert_int_equal(gs_queue_get(s, whole + 1, &b), GS_QUEUE_END);
		gs_queue_close(&s);
		if (whole == 0)
			break;
	}
}

/* Bits that changed on the disk: what is hit is not handed out, what is before it is. */
static void changed(void **state)
{
	const struct folder *f = *state;
	char newest[512] = "";
	int fd;

	for (int at = 0; at < 768; at += 31) {
		struct gs_queue *s;
		struct gs_queue_stats st;
		struct gs_queue_batch b;
		uint8_t byte;
		uint64_t first;

		each_file(f->path, remove_one, NULL);
		s = open_spool(f->path, 0, 0);
		for (uint64_t n = 1; n <= 3; n++)
			assert_int_equal(put(s, n, 200), 0);
		newest[0] = 0;
		each_file(f->path, newest_file, newest);
		fd = open(newest, O_RDWR);
		assert_int_equal(pread(fd, &byte, 1, at), 1);
		byte ^= 0x10;
		assert_int_equal(pwrite(fd, &byte, 1, at), 1);
		close(fd);
		/* While it runs: told once as lost, and gone. */
		first = (uint64_t)at / 256 + 1;
		for (uint64_t n = 1; n < first; n++)
			expect(s, n, n, 200);
		assert_int_equal(gs_queue_get(s, first, &b), -EBADMSG);
		assert_int_equal(gs_queue_get(s, first, &b), first == 3 ? GS_QUEUE_END : 0);
		gs_queue_stats(s, &st);
		assert_int_equal(st.lost_batches, 1);
		assert_int_equal(st.lost_samples, first);
		gs_queue_close(&s);
		/* After a new start: everything behind it is cut off. */
		s = open_spool(f->path, 0, 0);
		gs_queue_stats(s, &st);
		assert_int_equal(st.n_batches, first - 1);
		assert_int_equal(st.next_seq, 4);
		gs_queue_close(&s);
	}
}

/* Full: the oldest go, counted, and the numbers tell where. */
static void bounded(void **state)
{
	const struct folder *f = *state;
	struct gs_queue *s = open_spool(f->path, 10000, 2000);
	struct gs_queue_batch b;
	struct gs_queue_stats st;
	uint64_t samples = 0;

	for (uint64_t n = 1; n <= 100; n++)
		assert_int_equal(put(s, n, 444), 0); /* 500 with what stands before it */
	gs_queue_stats(s, &st);
	assert_true(st.bytes <= 10000);
	assert_int_equal(st.n_batches + st.lost_batches, 100);
	assert_in_range(st.n_batches, 16, 20);
	for (uint64_t n = 1; n <= st.lost_batches; n++)
		samples += n;
	assert_int_equal(st.lost_samples, samples);
	assert_int_equal(st.first_seq, st.lost_batches + 1);
	assert_int_equal(gs_queue_get(s, 0, &b), 0);
	assert_int_equal(b.lost_batches, st.lost_batches);
	assert_int_equal(b.lost_samples, samples);
	gs_queue_close(&s);
	s = open_spool(f->path, 10000, 2000);
	assert_int_equal(gs_queue_get(s, 0, &b), 0);
	assert_int_equal(b.lost_samples, samples);
	assert_int_equal(b.seq, st.first_seq);
	gs_queue_close(&s);
}

/* Larger than everything it may have. */
static void too_large(void **state)
{
	const struct folder *f = *state;
	struct gs_queue_options o = {
		.size = sizeof(o), .dir = f->path, .max_bytes = 1000, .max_memory_bytes = 1000};
	struct gs_queue *s = NULL;
	struct gs_queue_stats st;

	assert_int_equal(gs_queue_open(&o, &s, NULL), 0);
	assert_int_equal(put(s, 1, 100), 0);
	assert_int_equal(put(s, 2, 2000), -ENOBUFS);
	assert_int_equal(put(s, 2, GS_QUEUE_BATCH_MAX + 1), -EMSGSIZE);
	gs_queue_stats(s, &st);
	assert_int_equal(st.lost_batches, 2);
	assert_int_equal(st.lost_samples, 4);
	assert_int_equal(put(s, 2, 100), 0);
	expect(s, 1, 1, 100);
	expect(s, 2, 2, 100);
	gs_queue_close(&s);
}

static void memory_alone(void **state)
{
	struct gs_queue_options o = {
		.size = sizeof(o), .max_memory_bytes = 1 << 20, .segment_bytes = 64 << 10};
	struct gs_queue *s = NULL;
	struct gs_queue_stats st;

	assert_int_equal(gs_queue_open(&o, &s, NULL), 0);
	for (uint64_t n = 1; n <= 10000; n++)
		assert_int_equal(put(s, n, 20), 0);
	gs_queue_stats(s, &st);
	assert_int_equal(st.n_batches, 10000);
	assert_int_equal(st.memory_bytes, 10000 * 76);
	for (uint64_t n = 1; n <= 10000; n++)
		expect(s, n, n, 20);
	gs_queue_ack(s, 9999);
	expect(s, 0, 10000, 20);
	gs_queue_stats(s, &st);
	assert_true(st.memory_bytes < 128 << 10);
	gs_queue_close(&s);
}

/* A disk that fills up (here: a limit of file sizes): memory takes over, nothing is lost, and files
 * are used again when there is room. */
static void disk_full(void **state)
{
	const struct folder *f = *state;
	struct gs_queue *s = open_spool(f->path, 0, 1 << 20);
	struct rlimit before, small;
	struct gs_queue_stats st;

	signal(SIGXFSZ, SIG_IGN);
	assert_int_equal(getrlimit(RLIMIT_FSIZE, &before), 0);
	small = before;
	small.rlim_cur = 3000;
	assert_int_equal(setrlimit(RLIMIT_FSIZE, &small), 0);
	for (uint64_t n = 1; n <= 6; n++)
		assert_int_equal(put(s, n, 444), 0);
	gs_queue_stats(s, &st);
	assert_int_equal(st.disk_error, 0);
	/* Memory takes over, and the disk is left alone for a while. */
	assert_int_equal(put(s, 7, 444), 0);
	gs_queue_stats(s, &st);
	assert_true(st.disk_error < 0);
	assert_int_equal(st.memory_bytes, 500);
	assert_int_equal(put(s, 8, 444), 0);
	assert_int_equal(setrlimit(RLIMIT_FSIZE, &before), 0);
	usleep(1100000); /* so long */
	assert_int_equal(put(s, 9, 444), 0);
	for (uint64_t n = 1; n <= 9; n++)
		expect(s, n, n, 444);
	gs_queue_stats(s, &st);
	assert_int_equal(st.disk_error, 0);
	assert_int_equal(st.lost_batches, 0);
	assert_int_equal(st.n_batches, 9);
	/* What was in memory goes to the disk at the end. */
	gs_queue_ack(s, 7);
	gs_queue_close(&s);
	s = open_spool(f->path, 0, 1 << 20);
	expect(s, 0, 8, 444);
	expect(s, 9, 9, 444);
	gs_queue_stats(s, &st);
	assert_int_equal(st.n_batches, 2);
	assert_int_equal(st.lost_batches, 0);
	gs_queue_close(&s);
}

/* Files of these numbers cannot be made (or can be again). */
static void stand_in_the_way(const char *dir, uint64_t from, uint64_t to, bool away)
{
	for (uint64_t n = from; n <= to; n++) {
		char path[128];

		snprintf(path, sizeof(path), "%s/%020llu.batches", dir, (unsigned long long)n);
		assert_int_equal(away ? rmdir(path) : mkdir(path, 0700), 0);
	}
}

/* A program that is killed while its disk is full: what was in its memory is counted by the next
 * one, and no number is given twice. */
static void killed_with_memory(void **state)
{
	const struct folder *f = *state;
	struct gs_queue_stats st;
	struct gs_queue *s;
	int status;
	pid_t pid = fork();

	if (pid == 0) {
		s = open_spool(f->path, 0, 1 << 20);
		stand_in_the_way(f->path, 1, 6, false);
		for (uint64_t n = 1; n <= 6; n++)
			if (put(s, n, 444) != 0)
				_exit(1);
		gs_queue_ack(s, 3);
		_exit(0);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
	stand_in_the_way(f->path, 1, 6, true);
	s = open_spool(f->path, 0, 1 << 20);
	gs_queue_stats(s, &st);
	assert_int_equal(st.next_seq, 7);
	assert_int_equal(st.n_batches, 0);
	assert_int_equal(st.lost_batches, 3);
	assert_int_equal(st.lost_samples, 4 + 5 + 6);
	gs_queue_close(&s);
	s = open_spool(f->path, 0, 1 << 20);
	gs_queue_stats(s, &st);
	assert_int_equal(st.lost_batches, 3);
	gs_queue_close(&s);
}

/* No file can be made and memory is full: the oldest of it goes. Files stay, since nothing would be
 * gained by removing them. */
static void memory_full(void **state)
{
	const struct folder *f = *state;
	struct gs_queue_options o = {
		.size = sizeof(o), .dir = f->path, .max_memory_bytes = 8000, .segment_bytes = 2000};
	struct gs_queue *s = NULL;
	struct gs_queue_stats st;
	struct gs_queue_batch b;
	uint64_t lost = 0;

	assert_int_equal(gs_queue_open(&o, &s, NULL), 0);
	for (uint64_t n = 1; n <= 8; n++)
		assert_int_equal(put(s, n, 444), 0); /* two files */
	stand_in_the_way(f->path, 9, 40, false);
	for (uint64_t n = 9; n <= 40; n++)
		assert_int_equal(put(s, n, 444), 0);
	stand_in_the_way(f->path, 9, 40, true);
	gs_queue_stats(s, &st);
	assert_true(st.memory_bytes <= 8000);
	assert_int_equal(st.n_batches + st.lost_batches, 40);
	assert_int_equal(gs_queue_get(s, 9, &b), 0);
	assert_int_equal(b.seq, 9 + st.lost_batches);
	for (uint64_t n = 9; n < b.seq; n++)
		lost += n;
	assert_int_equal(st.lost_samples, lost);
	expect(s, 1, 1, 444); /* the files are still there */
	gs_queue_close(&s);
}

/* A new stream for what waits; what is below is forgotten, also by the next program. */
static void renewed(void **state)
{
	const struct folder *f = *state;
	struct gs_queue *s = open_spool(f->path, 0, 0);
	uint64_t stream = gs_queue_stream(s);
	struct gs_queue_stats st;

	for (uint64_t n = 1; n <= 5; n++)
		assert_int_equal(put(s, n, 50), 0);
	gs_queue_close(&s);
	s = open_spool(f->path, 0, 0);
	gs_queue_stats(s, &st);
	assert_int_equal(st.opened_seq, 6);
	for (uint64_t n = 6; n <= 8; n++)
		assert_int_equal(put(s, n, 50), 0);
	assert_int_equal(gs_queue_renew(s, 6), 0);
	assert_true(gs_queue_stream(s) != stream);
	expect(s, 0, 6, 50);
	gs_queue_close(&s);
	s = open_spool(f->path, 0, 0);
	gs_queue_stats(s, &st);
	assert_int_equal(st.n_batches, 3);
	assert_int_equal(st.next_seq, 9);
	assert_int_equal(st.lost_batches, 0);
	expect(s, 0, 6, 50);
	/* 0 keeps all */
	assert_int_equal(gs_queue_renew(s, 0), 0);
	expect(s, 0, 6, 50);
	expect(s, 8, 8, 50);
	gs_queue_close(&s);
}

/* One that no head takes is given up alone. */
static void dropped(void **state)
{
	const struct folder *f = *state;
	struct gs_queue *s = open_spool(f->path, 0, 0);
	struct gs_queue_stats st;

	for (uint64_t n = 1; n <= 5; n++)
		assert_int_equal(put(s, n, 50), 0);
	assert_int_equal(gs_queue_drop(s, 3), 0);
	assert_int_equal(gs_queue_drop(s, 3), -ENOENT);
	assert_int_equal(gs_queue_drop(s, 9), -ENOENT);
	expect(s, 2, 2, 50);
	expect(s, 3, 4, 50);
	gs_queue_stats(s, &st);
	assert_int_equal(st.n_batches, 4);
	assert_int_equal(st.n_samples, 12);
	assert_int_equal(st.lost_batches, 1);
	assert_int_equal(st.lost_samples, 3);
	gs_queue_close(&s);
}

/* Without its state a folder's numbers cannot be trusted: another stream, nothing lost. */
static void no_state(void **state)
{
	const struct folder *f = *state;
	struct gs_queue *s = open_spool(f->path, 0, 0);
	uint64_t stream = gs_queue_stream(s);
	char path[128];

	for (uint64_t n = 1; n <= 5; n++)
		assert_int_equal(put(s, n, 50), 0);
	gs_queue_close(&s);
	snprintf(path, sizeof(path), "%s/state", f->path);
	assert_int_equal(unlink(path), 0);
	s = open_spool(f->path, 0, 0);
	assert_true(gs_queue_stream(s) != stream);
	for (uint64_t n = 1; n <= 5; n++)
		expect(s, n, n, 50);
	assert_int_equal(put(s, 6, 50), 0);
	gs_queue_close(&s);
}

static struct gs_queue_stats stats_of(struct gs_queue *s)
{
	struct gs_queue_stats st;

	gs_queue_stats(s, &st);
	return st;
}

/* What had to make room while it was on its way is lost only when the head says that it did not
 * arrive. */
static void on_its_way(void **state)
{
	const struct folder *f = *state;
	struct gs_queue *s = open_spool(f->path, 10000, 2000);
	struct gs_queue_stats st;
	uint64_t n_dropped;

	for (uint64_t n = 1; n <= 10; n++)
		assert_int_equal(put(s, n, 444), 0);
	gs_queue_sent(s, 10);
	gs_queue_sent(s, 5); /* behind: it stays 10 */
	for (uint64_t n = 11; n <= 28; n++)
		assert_int_equal(put(s, n, 444), 0);
	st = stats_of(s);
	n_dropped = 28 - st.n_batches;
	/* The oldest went, all of those that are on the way: none is lost yet. */
	assert_in_range(n_dropped, 8, 10);
	assert_int_equal(st.lost_batches, 0);
	/* Some have arrived. */
	gs_queue_ack(s, 3);
	assert_int_equal(stats_of(s).lost_batches, 0);
	/* A new connection: up to 6 is stored. What went and is above never will be. */
	gs_queue_resume(s, 6);
	st = stats_of(s);
	assert_int_equal(st.lost_batches, n_dropped - 6);
	assert_int_equal(st.lost_samples, (n_dropped - 6) * (7 + n_dropped) / 2);
	/* Nothing of it is on its way now: what goes is lost at once. */
	for (uint64_t n = 29; n <= 60; n++)
		assert_int_equal(put(s, n, 444), 0);
	st = stats_of(s);
	assert_int_equal(st.lost_batches + st.n_batches, 60 - 6);
	gs_queue_close(&s);
	/* And the count outlives the program. */
	s = open_spool(f->path, 10000, 2000);
	assert_int_equal(stats_of(s).lost_batches, st.lost_batches);
	gs_queue_close(&s);
}

static void resumed(void **state)
{
	const struct folder *f = *state;
	struct gs_queue *s = open_spool(f->path, 0, 0);
	struct gs_queue_batch b;

	for (uint64_t n = 1; n <= 20; n++)
		assert_int_equal(put(s, n, 10), 0);
	gs_queue_sent(s, 20);
	/* The head has stored 12, and told 5 of them before the line broke. */
	gs_queue_ack(s, 5);
	gs_queue_resume(s, 12);
	assert_int_equal(stats_of(s).n_batches, 8);
	assert_int_equal(stats_of(s).lost_batches, 0);
	expect(s, 0, 13, 10);
	/* A head that has less (its disk was set back) does not bring back what is forgotten. */
	gs_queue_resume(s, 3);
	expect(s, 0, 13, 10);
	gs_queue_resume(s, 20);
	assert_int_equal(gs_queue_get(s, 0, &b), GS_QUEUE_END);
	assert_int_equal(stats_of(s).n_samples, 0);
	gs_queue_close(&s);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
		TEST(in_and_out),
		TEST(one_at_a_time),
		TEST(killed),
		TEST(torn),
		TEST(changed),
		TEST(bounded),
		TEST(too_large),
		TEST(memory_alone),
		TEST(disk_full),
		TEST(no_state),
		TEST(killed_with_memory),
		TEST(memory_full),
		TEST(renewed),
		TEST(dropped),
		TEST(on_its_way),
		TEST(resumed),
#undef TEST
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
