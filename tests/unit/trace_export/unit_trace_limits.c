/*
 * The trace writers where things end: sizes, disks, memory, input that is not as it should be.
 * After each the file must be one that a reader of its format takes.
 */
#include "trace_file.h"

#include <errno.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include "output/trace_export/export_int.h"
#include "golden/sample_stream.h"

static const char *const suffixes[] = {".pftrace", ".json", ".csv"};

/* Allocations are counted: the linker sends them here (--wrap). */
static unsigned long n_allocations;
void *__real_malloc(size_t bytes);
void *__real_calloc(size_t n, size_t bytes);
void *__real_realloc(void *p, size_t bytes);
void *__wrap_malloc(size_t bytes);
void *__wrap_calloc(size_t n, size_t bytes);
void *__wrap_realloc(void *p, size_t bytes);

void *__wrap_malloc(size_t bytes)
{
	n_allocations++;
	return __real_malloc(bytes);
}

void *__wrap_calloc(size_t n, size_t bytes)
{
	n_allocations++;
	return __real_calloc(n, bytes);
}

void *__wrap_realloc(void *p, size_t bytes)
{
	n_allocations++;
	return __real_realloc(p, bytes);
}

static int push(struct gs_export *e, const struct gs_buf *b)
{
	const struct gs_sink *s = gs_export_sink(e);

	return s->push(s->ctx, &(struct gs_batch){b->data, b->bytes});
}

static struct gs_buf head(void)
{
	struct gs_buf b = GS_BUF_INIT(1 << 20);

	assert_int_equal(sample_session(&b) || sample_entities(&b), 0);
	return b;
}

static struct gs_buf calls(unsigned n)
{
	struct gs_buf b = GS_BUF_INIT(1 << 20);

	for (unsigned i = 0; i < n; i++)
		assert_non_null(sample_put_call(&b, 1 + i % 3, SAMPLE_FUNC_LAUNCH,
						sample_t(100 + i), 500, 0));
	return b;
}

/* The number of calls in a file that has to be whole records of its format from end to end. */
static unsigned count_calls(const char *suffix, const struct gs_buf *file)
{
	const uint8_t *p = file->data, *end = p + file->bytes;
	const char *text = (const char *)file->data;
	unsigned n = 0;

	if (strcmp(suffix, ".pftrace") == 0) {
		while (p < end) {
			struct field packet = take_field(&p, end), event;

			assert_int_equal(packet.number, 1);
			assert_int_equal(find_field(packet.data, packet.bytes, 10).value, 1);
			event = find_field(packet.data, packet.bytes, 11);
			n += event.number && find_field(event.data, event.bytes, 9).value == 1;
		}
		return n;
	}
	if (strcmp(suffix, ".json") == 0) {
		assert_string_equal(text + file->bytes - 2, "}\n");
		while ((text = strstr(text, "{\"ph\":\"X\""))) {
			n++;
			text++;
		}
		return n;
	}
	for (bool quoted = false; p < end; p++) {
		if (*p == '"')
			quoted = !quoted;
		n += *p == '\n' && !quoted;
		assert_false(p + 1 == end && (quoted || *p != '\n'));
	}
	return n - 1; /* the heading */
}

static void names(void **state)
{
	static const char *const yes[] = {"x.pftrace", "/a.b/x.json", "./.x.csv", "a.gst.csv",
					  "x.json.gz"};
	static const char *const no[] = {"",     "x",          "x.gst", "x.CSV",    "x.csv.zst",
					 "json", "a.csv/x",    "x.gz",  "x.csv.gz", ".json.gz",
					 ".csv", "d/.pftrace", "x.csv/"};
	struct gs_export *e = NULL;
	struct gs_err err;

	for (size_t i = 0; i < GS_ARRAY_LEN(yes); i++)
		assert_true(gs_export_knows(yes[i]));
	for (size_t i = 0; i < GS_ARRAY_LEN(no); i++) {
		assert_false(gs_export_knows(no[i]));
		assert_int_equal(gs_export_open(no[i], NULL, &e, &err), -EINVAL);
		assert_non_null(strstr(err.text, ".pftrace"));
		assert_null(e);
	}
	assert_int_equal(gs_export_open("/no/such/folder/x.csv", NULL, &e, &err), -ENOENT);
	assert_string_equal(err.text,
			    "cannot write /no/such/folder/x.csv: No such file or directory");
	assert_null(e);
}

/* Nothing was traced, or the stream stopped before its end: still a file of its format. */
static void short_streams(void **state)
{
	struct gs_buf h = head(), c = calls(3);

	for (size_t i = 0; i < GS_ARRAY_LEN(suffixes); i++) {
		const char *path = test_path(suffixes[i]);
		struct gs_export *e = NULL;
		struct gs_buf file;

		assert_int_equal(gs_export_open(path, NULL, &e, NULL), 0);
		assert_int_equal(gs_export_close(&e, NULL), 0);
		file = read_all(path);
		assert_int_equal(count_calls(suffixes[i], &file), 0);
		gs_buf_fini(&file);

		/* Calls and nothing that says what they are. */
		assert_int_equal(gs_export_open(path, NULL, &e, NULL), 0);
		assert_int_equal(push(e, &c), 0);
		assert_int_equal(gs_export_close(&e, NULL), 0);
		file = read_all(path);
		assert_int_equal(count_calls(suffixes[i], &file), 3);
		gs_buf_fini(&file);

		/* An older, longer file is replaced. */
		assert_int_equal(gs_export_open(path, NULL, &e, NULL), 0);
		assert_int_equal(push(e, &h), 0);
		assert_int_equal(gs_export_close(&e, NULL), 0);
		file = read_all(path);
		assert_int_equal(count_calls(suffixes[i], &file), 0);
		if (i == 1)
			assert_non_null(strstr((char *)file.data, "\"complete\":false"));
		gs_buf_fini(&file);
	}
	gs_buf_fini(&h);
	gs_buf_fini(&c);
}

static void size_limit(void **state)
{
	static const uint64_t limits[] = {1, 10000, 100000, 1500000};
	struct gs_buf h = head(), c = calls(1000);

	for (size_t k = 0; k < GS_ARRAY_LEN(limits) * GS_ARRAY_LEN(suffixes); k++) {
		const char *suffix = suffixes[k % GS_ARRAY_LEN(suffixes)];
		uint64_t limit = limits[k / GS_ARRAY_LEN(suffixes)];
		struct gs_export_options o = {.size = sizeof(o), .max_bytes = limit};
		const char *path = test_path(suffix);
		struct gs_export *e = NULL;
		uint64_t left_out;
		struct gs_buf file;
		unsigned n;

		assert_int_equal(gs_export_open(path, &o, &e, NULL), 0);
		assert_int_equal(push(e, &h), 0);
		for (int i = 0; i < 20; i++)
			assert_int_equal(push(e, &c), 0);
		left_out = gs_export_left_out(e);
		assert_int_equal(gs_export_close(&e, NULL), 0);
		file = read_all(path);
		n = count_calls(suffix, &file);
		assert_int_equal(n + left_out, 20000);
		assert_true(left_out > 0);
		if (limit > 1) {
			assert_true(file.bytes <= limit);
			assert_true(file.bytes + 4096 > limit); /* and made use of */
		} else {
			assert_int_equal(n, 0);
		}
		gs_buf_fini(&file);
	}
	gs_buf_fini(&h);
	gs_buf_fini(&c);
}

/* Options of a caller that knew no fields yet, and none at all: no limit. */
static void options_short(void **state)
{
	struct gs_export_options o = {.size = sizeof(o.size), .max_bytes = 1};
	struct gs_buf c = calls(10);
	struct gs_export *e = NULL;

	assert_int_equal(gs_export_open(test_path(".csv"), &o, &e, NULL), 0);
	assert_int_equal(push(e, &c), 0);
	assert_int_equal(gs_export_left_out(e), 0);
	assert_int_equal(gs_export_close(&e, NULL), 0);
	gs_buf_fini(&c);
}

static void disk_full(void **state)
{
	struct gs_buf h = head(), c = calls(1000);

	for (size_t i = 0; i < GS_ARRAY_LEN(suffixes); i++) {
		const char *path = test_path(suffixes[i]);
		struct gs_export *e = NULL;
		struct gs_err err = {{0}};
		char want[256];
		int r = 0;

		unlink(path);
		assert_int_equal(symlink("/dev/full", path), 0);
		assert_int_equal(gs_export_open(path, NULL, &e, &err), 0);
		assert_int_equal(push(e, &h), 0);
		for (int k = 0; k < 100 && r == 0; k++)
			r = push(e, &c);
		assert_int_equal(r, -ENOSPC);
		assert_int_equal(push(e, &c), -ENOSPC);
		assert_int_equal(gs_export_sink(e)->flush(gs_export_sink(e)->ctx), -ENOSPC);
		assert_int_equal(gs_export_close(&e, &err), -ENOSPC);
		snprintf(want, sizeof(want), "cannot write %s: No space left on device", path);
		assert_string_equal(err.text, want);
		assert_null(e);

		/* Found out only when the last of it is written. */
		assert_int_equal(gs_export_open(path, NULL, &e, &err), 0);
		assert_int_equal(gs_export_close(&e, &err), -ENOSPC);
		assert_string_equal(err.text, want);
		unlink(path);
	}
	gs_buf_fini(&h);
	gs_buf_fini(&c);
}

/* A limit on the size of files is an error, not the signal that ends a process; and what is kept
 * is readable to its last byte. */
static void file_size_limit(void **state)
{
	static const rlim_t limits[] = {20000, 100000, 1500000};
	struct gs_buf h = head(), c = calls(1000);
	struct rlimit before;

	assert_int_equal(getrlimit(RLIMIT_FSIZE, &before), 0);
	for (size_t k = 0; k < GS_ARRAY_LEN(limits) * GS_ARRAY_LEN(suffixes); k++) {
		const char *suffix = suffixes[k % GS_ARRAY_LEN(suffixes)];
		rlim_t limit = limits[k / GS_ARRAY_LEN(suffixes)];
		const char *path = test_path(suffix);
		struct gs_export *e = NULL;
		struct gs_err err;
		struct gs_buf file;
		sigset_t pending;
		int r = 0;

		setrlimit(RLIMIT_FSIZE, &(struct rlimit){limit, before.rlim_max});
		r = gs_export_open(path, NULL, &e, &err);
		if (r == 0)
			r = push(e, &h);
		for (int i = 0; i < 100 && r == 0; i++)
			r = push(e, &c);
		setrlimit(RLIMIT_FSIZE, &before);
		assert_int_equal(r, -EFBIG);
		assert_int_equal(gs_export_close(&e, &err), -EFBIG);
		assert_non_null(strstr(err.text, "File too large"));
		assert_int_equal(sigpending(&pending), 0);
		assert_false(sigismember(&pending, SIGXFSZ));
		file = read_all(path);
		assert_true(file.bytes <= limit);
		assert_true(file.bytes + 8192 + 64 > limit);
		assert_true(count_calls(suffix, &file) > 20);
		gs_buf_fini(&file);
	}
	gs_buf_fini(&h);
	gs_buf_fini(&c);
}

/* A compressed file is cut where what was written before can be read. */
static void compressed_size_limit(void **state)
{
	struct gs_buf h = head(), c = calls(1000), file, text;
	const rlim_t limit = 300000;
	struct gs_export *e = NULL;
	struct rlimit before;
	struct gs_err err;
	bool whole;
	int r;

	assert_int_equal(getrlimit(RLIMIT_FSIZE, &before), 0);
	setrlimit(RLIMIT_FSIZE, &(struct rlimit){limit, before.rlim_max});
	r = gs_export_open(test_path(".json.gz"), NULL, &e, &err);
	if (r == 0)
		r = push(e, &h);
	for (int i = 0; i < 1000 && r == 0; i++)
		r = push(e, &c);
	setrlimit(RLIMIT_FSIZE, &before);
	assert_int_equal(r, -EFBIG);
	assert_int_equal(gs_export_close(&e, &err), -EFBIG);
	file = read_all(test_path(".json.gz"));
	assert_true(file.bytes > 0 && file.bytes <= limit);
	text = inflate_all(&file, &whole);
	assert_false(whole);
	assert_true(text.bytes > file.bytes && strchr("}\n,", text.data[text.bytes - 1]));
	gs_buf_fini(&text);
	gs_buf_fini(&file);
	gs_buf_fini(&h);
	gs_buf_fini(&c);
}

/* A pipe whose reader went away is an error too. */
static void reader_gone(void **state)
{
	const char *path = test_path(".csv");
	struct gs_export *e = NULL;
	struct gs_buf c = calls(10);
	int fd[2];
	char link[64];

	unlink(path);
	assert_int_equal(pipe(fd), 0);
	snprintf(link, sizeof(link), "/proc/self/fd/%d", fd[1]);
	assert_int_equal(symlink(link, path), 0);
	assert_int_equal(gs_export_open(path, NULL, &e, NULL), 0);
	close(fd[0]);
	assert_int_equal(push(e, &c), 0);
	assert_int_equal(gs_export_close(&e, NULL), -EPIPE);
	close(fd[1]);
	unlink(path);
	gs_buf_fini(&c);
}

/* Records that are not as they should be. */
static void bad_records(void **state)
{
	struct gs_buf b = head(), cut = GS_BUF_INIT(1 << 20);
	struct gs_rec_thread *t;
	struct gs_rec_loss *l;

	/* Ids out of range, a layer and a cause of a newer writer, a kind of one. */
	t = gs_record_put(&b, GS_REC_THREAD, sizeof(*t), 0);
	assert_non_null(t);
	t->id = UINT32_MAX;
	assert_non_null(sample_put_call(&b, UINT32_MAX, UINT32_MAX, 1, UINT64_MAX, 255));
	assert_int_equal(sample_put_function(&b, 50, 999, 999, ""), 0);
	assert_non_null(sample_put_call(&b, 0, 50, UINT64_MAX, 0, 0));
	t = gs_record_put(&b, GS_REC_THREAD, sizeof(*t), 0);
	assert_non_null(t);
	t->id = 9;
	t->process = 77; /* never announced */
	assert_non_null(sample_put_call(&b, 9, SAMPLE_FUNC_FREE, 10, 10, 0));
	l = gs_record_put(&b, GS_REC_LOSS, sizeof(*l), 0);
	assert_non_null(l);
	l->layer = 999;
	l->cause = 999;
	l->detail_str = 123456;
	assert_int_equal(sample_counter(&b, 66, 123456, 99, 5, INT64_MIN), 0);
	assert_non_null(gs_record_put(&b, 900, 64, 0));
	assert_int_equal(gs_buf_put(&cut, b.data, b.bytes), 0);
	assert_int_equal(gs_buf_put(&cut, "\x40\0\6\0\0\0\0\0", 8), 0); /* says 64 bytes */

	for (size_t i = 0; i < GS_ARRAY_LEN(suffixes); i++) {
		const char *path = test_path(suffixes[i]);
		struct gs_export *e = NULL;
		struct gs_buf file;

		assert_int_equal(gs_export_open(path, NULL, &e, NULL), 0);
		assert_int_equal(push(e, &b), 0);
		assert_int_equal(push(e, &cut), -EINVAL);
		assert_int_equal(gs_export_close(&e, NULL), 0);
		file = read_all(path);
		assert_int_equal(count_calls(suffixes[i], &file), 6);
		gs_buf_fini(&file);
	}
	gs_buf_fini(&b);
	gs_buf_fini(&cut);
}

static int put_long_text(struct gs_buf *b, uint32_t id, char c)
{
	struct gs_rec_string *s = gs_record_put(b, GS_REC_STRING, sizeof(*s), 65000);

	if (!s)
		return -1;
	s->id = id;
	s->text_bytes = 65000;
	memset(s->text, c, 65000);
	return 0;
}

/* The longest texts that a record can hold, of characters that grow most: a record must stay
 * within the room that is kept for it. */
static void long_texts(void **state)
{
	static const char bytes[] = {'\x01', '"', '\xff', 'x'};

	for (size_t k = 0; k < sizeof(bytes) * GS_ARRAY_LEN(suffixes); k++) {
		const char *suffix = suffixes[k % GS_ARRAY_LEN(suffixes)];
		const char *path = test_path(suffix);
		struct gs_buf b = GS_BUF_INIT(16 << 20), file;
		struct gs_export *e = NULL;

		assert_int_equal(sample_session(&b), 0);
		for (uint32_t id = 1; id < SAMPLE_STR_FUNC0; id++)
			assert_int_equal(put_long_text(&b, id, bytes[k / GS_ARRAY_LEN(suffixes)]),
					 0);
		assert_int_equal(sample_entities(&b) || sample_attach(&b) ||
					 sample_calls_cuda(&b) || sample_calls_nccl(&b) ||
					 sample_rest(&b) || sample_end(&b),
				 0);
		assert_int_equal(gs_export_open(path, NULL, &e, NULL), 0);
		assert_int_equal(push(e, &b), 0);
		assert_int_equal(gs_export_close(&e, NULL), 0);
		file = read_all(path);
		assert_true(count_calls(suffix, &file) >= 14);
		gs_buf_fini(&file);
		gs_buf_fini(&b);
	}
}

static void no_allocation_per_call(void **state)
{
	struct gs_buf h = head(), c = calls(2000);

	for (size_t i = 0; i < GS_ARRAY_LEN(suffixes); i++) {
		struct gs_export *e = NULL;
		unsigned long before;

		assert_int_equal(gs_export_open(test_path(suffixes[i]), NULL, &e, NULL), 0);
		assert_int_equal(push(e, &h), 0);
		assert_int_equal(push(e, &c), 0); /* once for each thread */
		before = n_allocations;
		assert_true(before > 0);
		for (int k = 0; k < 20; k++)
			assert_int_equal(push(e, &c), 0);
		assert_int_equal(n_allocations, before);
		assert_int_equal(gs_export_close(&e, NULL), 0);
	}
	gs_buf_fini(&h);
	gs_buf_fini(&c);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(names),
		cmocka_unit_test(short_streams),
		cmocka_unit_test(size_limit),
		cmocka_unit_test(options_short),
		cmocka_unit_test(disk_full),
		cmocka_unit_test(file_size_limit),
		cmocka_unit_test(compressed_size_limit),
		cmocka_unit_test(reader_gone),
		cmocka_unit_test(bad_records),
		cmocka_unit_test(long_texts),
		cmocka_unit_test(no_allocation_per_call),
	};

	return cmocka_run_group_tests(tests, NULL, remove_test_files);
}
