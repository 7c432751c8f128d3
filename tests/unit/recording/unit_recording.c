/* Writing and reading when nothing is damaged, and all that can keep a file from being written. */
#include "common.h"

#include <pthread.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>

static void all_kinds(void **state)
{
	struct memory_file f = memory_file();
	struct gs_recording_stats st;
	struct gs_buf b = records(), got;

	put_all_kinds(&b);
	write_file(f.path, NULL, &b);
	got = read_file(f.path, &st);
	assert_same(&b, &got);
	assert_int_equal(st.n_frames, 1);
	assert_int_equal(st.n_records, 18);
	assert_int_equal(st.file_bytes, lseek(f.fd, 0, SEEK_END));
	assert_int_equal(st.cut_bytes, 0);
	assert_int_equal(st.skipped_bytes, 0);
	assert_int_equal(st.n_skipped_frames, 0);
	gs_buf_fini(&b);
	gs_buf_fini(&got);
	close(f.fd);
}

static void no_records(void **state)
{
	struct memory_file f = memory_file();
	struct gs_recording_stats st;
	struct gs_buf b = records(), got;

	write_file(f.path, NULL, &b);
	assert_int_equal(lseek(f.fd, 0, SEEK_END), sizeof(struct gs_recording_header));
	got = read_file(f.path, &st);
	assert_int_equal(got.bytes, 0);
	assert_int_equal(st.n_frames, 0);
	assert_int_equal(st.cut_bytes, 0);
	close(f.fd);
}

static void frame_sizes(void **state)
{
	static const uint32_t sizes[] = {1, 120, 121, 4096, 65536, 1 << 20, GS_FRAME_RAW_MAX_BYTES};
	struct gs_buf b = records();

	put_definitions(&b);
	for (uint64_t i = 0; i < 60000; i++) {
		put_call(&b, i);
		if (i % 9000 == 0)
			memset(gs_record_put(&b, KIND_OF_THE_FUTURE, GS_RECORD_MAX_BYTES, 0) +
				       sizeof(struct gs_record),
			       (int)i, 1000);
	}
	put_end(&b);
	for (size_t i = 0; i < GS_ARRAY_LEN(sizes); i++) {
		struct gs_recording_options o = {.size = sizeof(o), .frame_bytes = sizes[i]};
		struct memory_file f = memory_file();
		struct gs_recording_stats st;
		struct gs_buf got, file;
		struct frames frames;

		write_file(f.path, &o, &b);
		got = read_file(f.path, &st);
		assert_same(&b, &got);
		assert_int_equal(st.skipped_bytes + st.cut_bytes + st.n_skipped_frames, 0);
		file = content(&f);
		frames = walk(&file);
		for (size_t k = 0; k < frames.n; k++) {
			assert_true(frames.items[k].header.raw_bytes <= GS_FRAME_RAW_MAX_BYTES);
			assert_true(frames.items[k].header.raw_bytes <
				    (size_t)sizes[i] + GS_RECORD_MAX_BYTES);
		}
		frames_fini(&frames);
		gs_buf_fini(&file);
		gs_buf_fini(&got);
		close(f.fd);
	}
	gs_buf_fini(&b);
}

static void frame_header_says(void **state)
{
	struct gs_recording_options o = {.size = sizeof(o),
					 .frame_bytes = 10 * sizeof(struct gs_rec_call)};
	struct memory_file f = memory_file();
	struct gs_buf b = records(), file;
	struct frames frames;

	put_end(&b);
	for (uint64_t i = 0; i < 10; i++)
		put_call(&b, 10 - i);
	put_end(&b);
	write_file(f.path, &o, &b);
	file = content(&f);
	frames = walk(&file);
	assert_int_equal(frames.n, 2);
	assert_int_equal(frames.items[0].header.n_records, 11);
	assert_int_equal(frames.items[0].header.first_ns, 1000000000 + 5000);
	assert_int_equal(frames.items[0].header.last_ns, 1000000000 + 50000 + 1800 + 370);
	assert_int_equal(frames.items[0].header.flags, 0);
	assert_int_equal(frames.items[1].header.n_records, 1);
	assert_int_equal(frames.items[1].header.first_ns, 0);
	assert_int_equal(frames.items[1].header.last_ns, 0);
	frames_fini(&frames);
	gs_buf_fini(&file);
	gs_buf_fini(&b);
	close(f.fd);
}

static size_t count_snapshots(const struct frames *f)
{
	size_t n = 0;

	for (size_t i = 0; i < f->n; i++)
		n += (f->items[i].header.flags & GS_FRAME_SNAPSHOT_FIRST) != 0;
	return n;
}

/* Every 64 frames or 16 MiB of records, and at the end; handed out never when nothing is lost. */
static void snapshots(void **state)
{
	static const struct {
		uint32_t frame_bytes;
		uint64_t n_calls;
		size_t n_snapshots;
	} cases[] = {
		{4800, 40 * 64 * 3 + 120, 3 + 1},
		{4800, 40 * 10, 1},
		{1 << 20, 2 * (17 << 20) / sizeof(struct gs_rec_call), 2 + 1},
		{0, 100, 0}, /* one frame: nothing to be lost but itself */
	};

	for (size_t i = 0; i < GS_ARRAY_LEN(cases); i++) {
		struct gs_recording_options o = {.size = sizeof(o),
						 .frame_bytes = cases[i].frame_bytes};
		struct memory_file f = memory_file();
		struct gs_buf b = records(), got, file;
		struct frames frames;

		put_definitions(&b);
		for (uint64_t k = 0; k < cases[i].n_calls; k++)
			put_call(&b, k);
		put_end(&b);
		write_file(f.path, &o, &b);
		file = content(&f);
		frames = walk(&file);
		assert_int_equal(count_snapshots(&frames), cases[i].n_snapshots);
		assert_false(is_snapshot(&frames.items[frames.n - 1]));
		got = read_file(f.path, NULL);
		assert_same(&b, &got);
		frames_fini(&frames);
		gs_buf_fini(&got);
		gs_buf_fini(&file);
		gs_buf_fini(&b);
		close(f.fd);
	}
}

/* Many definitions and few records: snapshots stay below a quarter. */
static void snapshots_are_bounded(void **state)
{
	struct gs_recording_options o = {.size = sizeof(o), .frame_bytes = 960};
	struct memory_file f = memory_file();
	struct gs_buf b = records(), file;
	uint64_t data_bytes = 0, snapshot_bytes = 0, one = 0;
	struct frames frames;

	for (uint32_t i = 1; i < 10000; i++)
		put_thread(&b, i, 1, 0);
	for (uint64_t i = 0; i < 20000; i++)
		put_call(&b, i);
	write_file(f.path, &o, &b);
	file = content(&f);
	frames = walk(&file);
	for (size_t i = 0; i < frames.n; i++) {
		const struct frame *x = &frames.items[i];

		if (x->header.flags & GS_FRAME_SNAPSHOT_FIRST)
			one = 0;
		*(is_snapshot(x) ? &snapshot_bytes : &data_bytes) += x->header.raw_bytes;
		one += x->header.raw_bytes;
	}
	assert_true(count_snapshots(&frames) >= 2);
	assert_true(snapshot_bytes <= data_bytes / 4 + one + 240000);
	frames_fini(&frames);
	gs_buf_fini(&file);
	gs_buf_fini(&b);
	close(f.fd);
}

static void maximum(void **state)
{
	static const uint64_t limits[] = {100, 10000, 100000, 300000, 500000};
	struct gs_buf b = records(), defs = records(), tail = records();

	put_definitions(&defs);
	for (uint64_t i = 0; i < 50000; i++)
		put_call(&b, i * 2654435761u);
	put_counter(&b);
	put_stats(&tail);
	put_string(&tail, 6, "late");
	put_thread(&tail, 2, 1, 6);
	put_end(&tail);
	for (size_t i = 0; i < GS_ARRAY_LEN(limits); i++) {
		struct gs_recording_options o = {.size = sizeof(o), .max_bytes = limits[i]};
		struct memory_file f = memory_file();
		struct gs_batch batches[] = {batch_of(&defs), batch_of(&b), batch_of(&tail)};
		size_t n[GS_REC_COUNT] = {0};
		struct gs_recording_stats st;
		struct gs_recording *j = NULL;
		const struct gs_sink *sink;
		struct gs_batch all;
		uint64_t left_out;
		struct gs_buf got;

		assert_int_equal(gs_recording_create(f.path, &o, &j, NULL), 0);
		sink = gs_recording_sink(j);
		for (size_t k = 0; k < 3; k++)
			assert_int_equal(sink->push(sink->ctx, &batches[k]), 0);
		left_out = gs_recording_left_out(j);
		assert_int_equal(gs_recording_close(&j, NULL), 0);
		got = read_file(f.path, &st);
		all = batch_of(&got);
		gs_records_for_each (&all, r) {
			if (r->kind == GS_REC_CALL) /* the first ones, without a hole */
				assert_int_equal(
					((const struct gs_rec_call *)(const void *)r)->bytes,
					n[GS_REC_CALL] * 2654435761u * 4096);
			if (r->kind == GS_REC_LOSS) {
				const struct gs_rec_loss *l = (const void *)r;

				assert_int_equal(l->cause, GS_LOSS_FULL);
				assert_int_equal(l->count, left_out);
				assert_int_equal(n[GS_REC_END], 0);
			}
			n[r->kind]++;
		}
		assert_int_equal(n[GS_REC_LOSS], 1);
		assert_int_equal(n[GS_REC_CALL] + n[GS_REC_COUNTER] + left_out, 50001);
		assert_true(left_out > 0);
		assert_int_equal(n[GS_REC_STATS], 1);
		assert_int_equal(n[GS_REC_END], 1);
		assert_int_equal(n[GS_REC_THREAD], 2);
		assert_int_equal(n[GS_REC_STRING], 6);
		/* Definitions, statistics and a snapshot come on top. */
		assert_true(st.file_bytes <= limits[i] + 2500);
		if (limits[i] >= 100000)
			assert_true(st.file_bytes + 40000 >= limits[i]);
		gs_buf_fini(&got);
		close(f.fd);
	}
	gs_buf_fini(&b);
	gs_buf_fini(&defs);
	gs_buf_fini(&tail);
}

static void flush_shows(void **state)
{
	struct memory_file f = memory_file();
	struct gs_recording_reader *r = NULL;
	struct gs_recording_stats st;
	struct gs_buf b = records();
	struct gs_batch batch, got;
	struct gs_recording *j = NULL;
	const struct gs_sink *sink;

	put_definitions(&b);
	batch = batch_of(&b);
	assert_int_equal(gs_recording_create(f.path, NULL, &j, NULL), 0);
	sink = gs_recording_sink(j);
	assert_int_equal(gs_recording_open(f.path, &r, NULL), 0);
	assert_int_equal(gs_recording_next(r, &got), GS_RECORDING_EOF);
	assert_int_equal(sink->flush(sink->ctx), 0); /* nothing to write */
	for (int i = 1; i <= 3; i++) {
		assert_int_equal(sink->push(sink->ctx, &batch), 0);
		assert_int_equal(gs_recording_next(r, &got), GS_RECORDING_EOF);
		assert_int_equal(sink->flush(sink->ctx), 0);
		assert_int_equal(gs_recording_next(r, &got), 0); /* the file has grown */
		assert_int_equal(got.bytes, b.bytes);
		assert_memory_equal(got.data, b.data, b.bytes);
		gs_recording_stats(r, &st);
		assert_int_equal(st.n_frames, i);
	}
	gs_recording_reader_close(&r);
	assert_int_equal(gs_recording_close(&j, NULL), 0);
	gs_buf_fini(&b);
	close(f.fd);
}

static void sync_writes_what_is_pending(void **state)
{
	struct gs_recording_options o = {.size = sizeof(o), .sync_every_ms = 1};
	struct memory_file f = memory_file();
	struct gs_buf b = records(), got;
	struct gs_recording *j = NULL;
	const struct gs_sink *sink;
	struct gs_batch batch;

	put_definitions(&b);
	batch = batch_of(&b);
	assert_int_equal(gs_recording_create(f.path, &o, &j, NULL), 0);
	sink = gs_recording_sink(j);
	usleep(2000);
	assert_int_equal(sink->push(sink->ctx, &batch), 0);
	got = read_file(f.path, NULL);
	assert_same(&b, &got);
	assert_int_equal(gs_recording_close(&j, NULL), 0);
	gs_buf_fini(&got);
	gs_buf_fini(&b);
	close(f.fd);
}

static void malformed_batch(void **state)
{
	struct memory_file f = memory_file();
	struct gs_buf b = records(), good = records(), got;
	struct gs_recording *j = NULL;
	const struct gs_sink *sink;
	struct gs_batch batch;

	put_call(&good, 1);
	put_call(&b, 1);
	put_call(&b, 2);
	((struct gs_record *)(void *)(b.data + sizeof(struct gs_rec_call)))->bytes = 12;
	batch = batch_of(&b);
	assert_int_equal(gs_recording_create(f.path, NULL, &j, NULL), 0);
	sink = gs_recording_sink(j);
	assert_int_equal(sink->push(sink->ctx, &batch), -EINVAL);
	batch = batch_of(&good);
	assert_int_equal(sink->push(sink->ctx, &batch), 0);
	assert_int_equal(gs_recording_close(&j, NULL), 0);
	put_call(&good, 1);
	got = read_file(f.path, NULL);
	assert_same(&good, &got);
	gs_buf_fini(&got);
	gs_buf_fini(&good);
	gs_buf_fini(&b);
	close(f.fd);
}

static void bad_options(void **state)
{
	struct gs_recording_options big = {.size = sizeof(big),
					   .frame_bytes = GS_FRAME_RAW_MAX_BYTES + 1};
	struct gs_recording_options level = {.size = sizeof(level), .compression_level = 99};
	struct gs_recording_options shorter = {
		.size = offsetof(struct gs_recording_options, frame_bytes),
		.frame_bytes = GS_FRAME_RAW_MAX_BYTES + 1};
	struct memory_file f = memory_file();
	struct gs_recording *j = NULL;
	struct gs_err err = {0};

	assert_int_equal(gs_recording_create(f.path, &big, &j, &err), -EINVAL);
	assert_string_equal(err.text, "journal frames of 4194305 bytes: at most 4194304");
	assert_int_equal(gs_recording_create(f.path, &level, &j, &err), -EINVAL);
	assert_non_null(strstr(err.text, "compression level 99: zstd has "));
	assert_null(j);
	/* A caller built before frame_bytes was there. */
	assert_int_equal(gs_recording_create(f.path, &shorter, &j, &err), 0);
	assert_int_equal(gs_recording_close(&j, &err), 0);
	assert_int_equal(gs_recording_close(&j, &err), 0); /* NULL: nothing */
	close(f.fd);
}

static void cannot_create(void **state)
{
	char dir[] = "/tmp/gst-XXXXXX", path[64], text[128];
	struct gs_recording *j = NULL;
	struct gs_err err = {0};

	assert_int_equal(gs_recording_create("/no/such/folder/x.gst", NULL, &j, &err), -ENOENT);
	assert_string_equal(err.text,
			    "cannot write /no/such/folder/x.gst: No such file or directory");
	assert_int_equal(gs_recording_create("/tmp", NULL, &j, &err), -EISDIR);
	assert_string_equal(err.text, "cannot write /tmp: Is a directory");
	assert_non_null(mkdtemp(dir));
	assert_int_equal(chmod(dir, 0555), 0);
	snprintf(path, sizeof(path), "%s/x.gst", dir);
	snprintf(text, sizeof(text), "cannot write %s: Permission denied", path);
	if (geteuid() == 0)
		assert_int_equal(seteuid(65534), 0);
	assert_int_equal(gs_recording_create(path, NULL, &j, &err), -EACCES);
	assert_string_equal(err.text, text);
	if (getuid() == 0)
		assert_int_equal(seteuid(0), 0);
	assert_int_equal(rmdir(dir), 0);
	assert_int_equal(gs_recording_create("/dev/full", NULL, &j, &err), -ENOSPC);
	assert_string_equal(err.text, "cannot write /dev/full: No space left on device");
	assert_null(j);
}

/* The limit falls inside of a frame: that frame goes, and the error stays. */
static void disk_full(void **state)
{
	static const rlim_t limits[] = {41, 104, 300, 5000, 30001, 70000};
	char path[] = "/tmp/gst-XXXXXX";
	struct gs_buf b = records();
	struct rlimit old, low;
	int fd = mkstemp(path);

	assert_true(fd >= 0);
	signal(SIGXFSZ, SIG_IGN);
	assert_int_equal(getrlimit(RLIMIT_FSIZE, &old), 0);
	for (uint64_t i = 0; i < 80; i++)
		put_call(&b, i * 2654435761u);
	for (size_t i = 0; i < GS_ARRAY_LEN(limits); i++) {
		struct gs_recording_options o = {.size = sizeof(o), .frame_bytes = 4800};
		struct gs_batch batch = batch_of(&b);
		struct gs_recording *j = NULL;
		struct gs_recording_stats st;
		const struct gs_sink *sink;
		struct gs_err err = {0};
		struct gs_buf got;
		int e, n = 0;

		low = (struct rlimit){limits[i], old.rlim_max};
		assert_int_equal(gs_recording_create(path, &o, &j, &err), 0);
		assert_int_equal(setrlimit(RLIMIT_FSIZE, &low), 0);
		sink = gs_recording_sink(j);
		while ((e = sink->push(sink->ctx, &batch)) == 0)
			n++;
		assert_int_equal(setrlimit(RLIMIT_FSIZE, &old), 0);
		assert_int_equal(e, -EFBIG);
		/* There would be room again, but what was lost is lost. */
		assert_int_equal(sink->push(sink->ctx, &batch), -EFBIG);
		assert_int_equal(sink->flush(sink->ctx), -EFBIG);
		assert_int_equal(gs_recording_close(&j, &err), -EFBIG);
		assert_null(j);
		assert_non_null(strstr(err.text, ": File too large"));
		got = read_file(path, &st);
		assert_int_equal(st.cut_bytes, 0);
		assert_true(st.file_bytes <= limits[i]);
		assert_int_equal(got.bytes % 4800, 0);
		assert_true(got.bytes / 4800 >= (size_t)n * 2);
		for (size_t k = 0; k < got.bytes; k += 4800)
			assert_memory_equal(got.data + k, b.data + k % b.bytes, 4800);
		gs_buf_fini(&got);
	}
	gs_buf_fini(&b);
	close(fd);
	unlink(path);
}

/* Only closing finds out that there is no room. */
static void disk_full_at_close(void **state)
{
	char path[] = "/tmp/gst-XXXXXX";
	struct gs_buf b = records();
	struct gs_batch batch;
	struct gs_recording *j = NULL;
	const struct gs_sink *sink;
	struct rlimit old, low;
	struct gs_err err = {0};
	struct stat st;
	int fd = mkstemp(path);

	assert_true(fd >= 0);
	signal(SIGXFSZ, SIG_IGN);
	put_definitions(&b);
	batch = batch_of(&b);
	assert_int_equal(getrlimit(RLIMIT_FSIZE, &old), 0);
	low = (struct rlimit){100, old.rlim_max};
	assert_int_equal(gs_recording_create(path, NULL, &j, &err), 0);
	sink = gs_recording_sink(j);
	assert_int_equal(sink->push(sink->ctx, &batch), 0);
	assert_int_equal(setrlimit(RLIMIT_FSIZE, &low), 0);
	assert_int_equal(gs_recording_close(&j, &err), -EFBIG);
	assert_int_equal(setrlimit(RLIMIT_FSIZE, &old), 0);
	assert_int_equal(stat(path, &st), 0); /* the file that took the other one's place */
	assert_int_equal(st.st_size, sizeof(struct gs_recording_header));
	gs_buf_fini(&b);
	close(fd);
	unlink(path);
}

struct drain {
	int fd;
	struct gs_buf got;
};

static void *drain(void *arg)
{
	struct drain *d = arg;
	char data[1000];
	ssize_t n;

	while ((n = read(d->fd, data, sizeof(data))) > 0)
		gs_buf_put(&d->got, data, (size_t)n);
	return NULL;
}

static void *pour(void *arg)
{
	struct drain *d = arg;

	for (size_t at = 0; at < d->got.bytes;) {
		size_t n = d->got.bytes - at < 777 ? d->got.bytes - at : 777;
		ssize_t w = write(d->fd, d->got.data + at, n);

		if (w <= 0)
			break;
		at += (size_t)w;
	}
	close(d->fd);
	return NULL;
}

/* Through a pipe both ways, in pieces that end anywhere. */
static void pipes(void **state)
{
	struct gs_recording_options o = {.size = sizeof(o), .frame_bytes = 200000};
	struct gs_buf b = records(), got;
	struct gs_recording_stats st;
	struct drain d = {.got = records()};
	pthread_t thread;
	char path[64];
	int fds[2];

	put_definitions(&b);
	for (uint64_t i = 0; i < 100000; i++)
		put_call(&b, i * 2654435761u);
	put_end(&b);
	assert_int_equal(pipe(fds), 0);
	d.fd = fds[0];
	assert_int_equal(pthread_create(&thread, NULL, drain, &d), 0);
	snprintf(path, sizeof(path), "/proc/self/fd/%d", fds[1]);
	write_file(path, &o, &b);
	close(fds[1]);
	pthread_join(thread, NULL);
	close(fds[0]);

	assert_int_equal(pipe(fds), 0);
	d.fd = fds[1];
	/* The path is opened before the pouring begins to close its end. */
	snprintf(path, sizeof(path), "/proc/self/fd/%d", fds[0]);
	assert_int_equal(pthread_create(&thread, NULL, pour, &d), 0);
	got = read_file(path, &st);
	pthread_join(thread, NULL);
	close(fds[0]);
	assert_same(&b, &got);
	assert_int_equal(st.file_bytes, d.got.bytes);
	assert_int_equal(st.cut_bytes + st.skipped_bytes, 0);
	gs_buf_fini(&d.got);
	gs_buf_fini(&got);
	gs_buf_fini(&b);
}

/* A pipe that nobody reads any more. */
static void pipe_closed(void **state)
{
	struct gs_buf b = records();
	struct gs_batch batch;
	struct gs_recording *j = NULL;
	const struct gs_sink *sink;
	char path[64];
	int fds[2];

	signal(SIGPIPE, SIG_IGN);
	put_definitions(&b);
	batch = batch_of(&b);
	assert_int_equal(pipe(fds), 0);
	snprintf(path, sizeof(path), "/proc/self/fd/%d", fds[1]);
	assert_int_equal(gs_recording_create(path, NULL, &j, NULL), 0);
	close(fds[0]);
	close(fds[1]);
	sink = gs_recording_sink(j);
	assert_int_equal(sink->push(sink->ctx, &batch), 0);
	assert_int_equal(sink->flush(sink->ctx), -EPIPE);
	assert_int_equal(sink->push(sink->ctx, &batch), -EPIPE);
	assert_int_equal(gs_recording_close(&j, NULL), -EPIPE);
	gs_buf_fini(&b);
}

static void open_refused(const char *path, int code, const char *text)
{
	struct gs_recording_reader *r = NULL;
	struct gs_err err = {0};

	assert_int_equal(gs_recording_open(path, &r, &err), code);
	assert_null(r);
	if (!strstr(err.text, text))
		fail_msg("'%s' lacks '%s'", err.text, text);
}

static void patch_header(const struct memory_file *f, size_t at, uint64_t value, size_t bytes)
{
	struct gs_recording_header h;

	assert_int_equal(pread(f->fd, &h, sizeof(h), 0), sizeof(h));
	memcpy((char *)&h + at, &value, bytes);
	h.header_crc = gs_recording_crc32(&h, offsetof(struct gs_recording_header, header_crc));
	assert_int_equal(pwrite(f->fd, &h, sizeof(h), 0), sizeof(h));
}

static void cannot_open(void **state)
{
	struct memory_file f = memory_file();
	struct gs_buf b = records();
	char text[4096], id;

	open_refused("/no/such/x.gst", -ENOENT,
		     "cannot read /no/such/x.gst: No such file or directory");
	open_refused("/tmp", -EISDIR, "cannot read /tmp: Is a directory");
	open_refused(f.path, -EBADMSG, " is empty, not a .gst file");
	set_content(&f, "#!", 2);
	open_refused(f.path, -EBADMSG, " is not a .gst file");
	memset(text, 'x', sizeof(text));
	set_content(&f, text, sizeof(text));
	open_refused(f.path, -EBADMSG, " is not a .gst file");
	set_content(&f, GS_RECORDING_MAGIC, GS_RECORDING_MAGIC_BYTES);
	open_refused(f.path, -EBADMSG, " ends inside its header");
	write_file(f.path, NULL, &b);
	patch_header(&f, offsetof(struct gs_recording_header, major), 2, 2);
	open_refused(f.path, -EBADMSG, " is of format version 2, this program reads up to 1");
	patch_header(&f, offsetof(struct gs_recording_header, major), 1, 2);
	patch_header(&f, offsetof(struct gs_recording_header, record_version), 4, 4);
	open_refused(f.path, -EBADMSG, " holds records of version 4");
	patch_header(&f, offsetof(struct gs_recording_header, record_version), 2, 4);
	open_refused(f.path, -EBADMSG, " holds records of version 2");
	patch_header(&f, offsetof(struct gs_recording_header, record_version), GS_RECORD_VERSION,
		     4);
	patch_header(&f, offsetof(struct gs_recording_header, flags), 8, 4);
	open_refused(f.path, -EBADMSG, "(flags 0x8)");
	patch_header(&f, offsetof(struct gs_recording_header, flags), 0, 4);
	patch_header(&f, offsetof(struct gs_recording_header, header_bytes), 39, 4);
	open_refused(f.path, -EBADMSG, "the header of ");
	patch_header(&f, offsetof(struct gs_recording_header, header_bytes), 5000, 4);
	open_refused(f.path, -EBADMSG, " is damaged");
	patch_header(&f, offsetof(struct gs_recording_header, header_bytes), 48, 4);
	open_refused(f.path, -EBADMSG, " ends inside its header");
	patch_header(&f, offsetof(struct gs_recording_header, header_bytes), 40, 4);
	/* In the file's id, which is random: no byte is another one for certain. */
	assert_int_equal(pread(f.fd, &id, 1, 30), 1);
	id ^= 1;
	assert_int_equal(pwrite(f.fd, &id, 1, 30), 1);
	open_refused(f.path, -EBADMSG, "the header of ");
	close(f.fd);
}

/* A later minor version with a longer header and flags of frames that are not known here. */
static void later_minor_version(void **state)
{
	struct memory_file f = memory_file();
	struct gs_buf b = records(), file, got;
	struct gs_recording_stats st;

	put_all_kinds(&b);
	write_file(f.path, NULL, &b);
	patch_header(&f, offsetof(struct gs_recording_header, minor), 7, 2);
	patch_header(&f, offsetof(struct gs_recording_header, header_bytes), 56, 4);
	file = content(&f);
	assert_int_equal(pwrite(f.fd, "sixteen bytes more", 16, 40), 16);
	assert_int_equal(pwrite(f.fd, file.data + 40, file.bytes - 40, 56), file.bytes - 40);
	got = read_file(f.path, &st);
	assert_same(&b, &got);
	assert_int_equal(st.skipped_bytes, 0);
	gs_buf_fini(&got);
	gs_buf_fini(&file);
	gs_buf_fini(&b);
	close(f.fd);
}

/* Killed anywhere, what can be read is what was written first, without a hole. */
static void killed(void **state)
{
	struct gs_recording_options o = {.size = sizeof(o), .frame_bytes = 2000};

	for (int round = 0; round < 20; round++) {
		struct memory_file f = memory_file();
		struct gs_recording_reader *r = NULL;
		struct gs_recording_stats st;
		struct gs_batch batch;
		uint64_t n = 0;
		pid_t pid;
		int e;

		pid = fork();
		assert_true(pid >= 0);
		if (pid == 0) {
			struct gs_recording *j = NULL;
			struct gs_buf b = records();

			if (gs_recording_create(f.path, &o, &j, NULL) < 0)
				_exit(1);
			for (uint64_t i = 0;; i++) {
				const struct gs_sink *sink = gs_recording_sink(j);

				gs_buf_reset(&b);
				put_call(&b, i);
				batch = batch_of(&b);
				if (sink->push(sink->ctx, &batch) < 0 || i > 10000000)
					_exit(1);
			}
		}
		/* Any size will do, so that rounds end at different ones. */
		while (lseek(f.fd, 0, SEEK_END) < 40 + round * 3001)
			usleep(50);
		usleep((useconds_t)round * 97);
		assert_int_equal(kill(pid, SIGKILL), 0);
		assert_int_equal(waitpid(pid, NULL, 0), pid);
		assert_int_equal(gs_recording_open(f.path, &r, NULL), 0);
		while ((e = gs_recording_next(r, &batch)) == 0) {
			gs_records_for_each (&batch, rec) {
				assert_int_equal(
					((const struct gs_rec_call *)(const void *)rec)->bytes,
					n++ * 4096);
			}
		}
		assert_int_equal(e, GS_RECORDING_EOF);
		gs_recording_stats(r, &st);
		assert_int_equal(st.n_records, n);
		assert_int_equal(st.n_skipped_frames + st.skipped_bytes, 0);
		gs_recording_reader_close(&r);
		close(f.fd);
	}
}

/* From the last frame to the first, and then on from each: what comes is what came. */
static void places(void **state)
{
	struct gs_recording_options o = {.size = sizeof(o), .frame_bytes = 1000};
	struct memory_file f = memory_file();
	struct gs_recording_place place[64];
	struct gs_buf seen[64], b = records();
	struct gs_recording_reader *r = NULL;
	struct gs_batch batch;
	struct gs_err err;
	size_t n = 0;
	int e;

	put_definitions(&b);
	for (uint64_t i = 0; i < 200; i++)
		put_call(&b, i);
	put_end(&b);
	write_file(f.path, &o, &b);
	assert_int_equal(gs_recording_open(f.path, &r, &err), 0);
	for (;; n++) {
		assert_true(n < GS_ARRAY_LEN(place));
		gs_recording_position(r, &place[n]);
		e = gs_recording_next(r, &batch);
		if (e)
			break;
		seen[n] = GS_BUF_INIT(1u << 20);
		assert_int_equal(gs_buf_put(&seen[n], batch.data, batch.bytes), 0);
	}
	assert_int_equal(e, GS_RECORDING_EOF);
	assert_true(n > 10);
	for (size_t i = n; i-- > 0;) {
		assert_int_equal(gs_recording_seek(r, &place[i]), 0);
		for (size_t k = i; k < n && k < i + 3; k++) {
			assert_int_equal(gs_recording_next(r, &batch), 0);
			assert_int_equal(batch.bytes, seen[k].bytes);
			assert_memory_equal(batch.data, seen[k].data, batch.bytes);
		}
	}
	assert_int_equal(gs_recording_seek(r, &place[n]), 0);
	assert_int_equal(gs_recording_next(r, &batch), GS_RECORDING_EOF);
	while (n--)
		gs_buf_fini(&seen[n]);
	gs_recording_reader_close(&r);
	gs_buf_fini(&b);
	close(f.fd);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(all_kinds),
		cmocka_unit_test(no_records),
		cmocka_unit_test(frame_sizes),
		cmocka_unit_test(frame_header_says),
		cmocka_unit_test(snapshots),
		cmocka_unit_test(snapshots_are_bounded),
		cmocka_unit_test(maximum),
		cmocka_unit_test(flush_shows),
		cmocka_unit_test(sync_writes_what_is_pending),
		cmocka_unit_test(malformed_batch),
		cmocka_unit_test(bad_options),
		cmocka_unit_test(cannot_create),
		cmocka_unit_test(disk_full),
		cmocka_unit_test(disk_full_at_close),
		cmocka_unit_test(pipes),
		cmocka_unit_test(pipe_closed),
		cmocka_unit_test(cannot_open),
		cmocka_unit_test(later_minor_version),
		cmocka_unit_test(killed),
		cmocka_unit_test(places),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
