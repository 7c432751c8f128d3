/* Reading files that were cut, flipped, holed, mixed up or made to mislead. */
#include "common.h"

#include <pthread.h>
#include <signal.h>

/* Records in frames of about 1,000 bytes: definitions first, n_calls calls, the end. */
static struct gs_buf make_file(const struct memory_file *f, uint64_t n_calls)
{
	struct gs_recording_options o = {.size = sizeof(o), .frame_bytes = 1000};
	struct gs_buf b = records(), file;

	put_definitions(&b);
	for (uint64_t i = 0; i < n_calls; i++)
		put_call(&b, i);
	put_end(&b);
	write_file(f->path, &o, &b);
	file = content(f);
	gs_buf_fini(&b);
	return file;
}

/* The records of the data frames from..n-1. */
static struct gs_buf records_of(const struct frames *f, size_t from, size_t n)
{
	struct gs_buf b = records();

	for (size_t i = from; i < n; i++)
		if (!is_snapshot(&f->items[i]))
			gs_buf_put(&b, f->items[i].raw, f->items[i].header.raw_bytes);
	return b;
}

static void cut_everywhere_in_last_frame(void **state)
{
	struct memory_file f = memory_file();
	struct gs_buf file = make_file(&f, 95);
	struct frames frames = walk(&file);
	struct gs_buf want = records_of(&frames, 0, frames.n - 1);
	size_t last = frames.items[frames.n - 1].off;

	for (size_t n = file.bytes - 1; n >= last; n--) {
		struct gs_recording_stats st;
		struct gs_buf got;

		assert_int_equal(ftruncate(f.fd, (off_t)n), 0);
		got = read_file(f.path, &st);
		assert_same(&want, &got);
		assert_int_equal(st.cut_bytes, n - last);
		assert_int_equal(st.file_bytes, n);
		assert_int_equal(st.skipped_bytes + st.n_skipped_frames, 0);
		gs_buf_fini(&got);
	}
	gs_buf_fini(&want);
	frames_fini(&frames);
	gs_buf_fini(&file);
	close(f.fd);
}

static void cut_everywhere(void **state)
{
	struct memory_file f = memory_file();
	struct gs_buf file = make_file(&f, 25);
	struct frames frames = walk(&file);

	for (size_t n = file.bytes; n-- > 0;) {
		struct gs_recording_reader *r = NULL;
		struct gs_recording_stats st;
		struct gs_buf got, want;
		size_t whole = 0, end = sizeof(struct gs_recording_header);

		assert_int_equal(ftruncate(f.fd, (off_t)n), 0);
		if (n < end) {
			assert_int_equal(gs_recording_open(f.path, &r, NULL), -EBADMSG);
			continue;
		}
		while (frames.items[whole].off + frames.items[whole].bytes <= n) {
			end = frames.items[whole].off + frames.items[whole].bytes;
			whole++;
		}
		got = read_file(f.path, &st);
		want = records_of(&frames, 0, whole);
		assert_same(&want, &got);
		assert_int_equal(st.cut_bytes, n - end);
		assert_int_equal(st.skipped_bytes + st.n_skipped_frames, 0);
		gs_buf_fini(&got);
		gs_buf_fini(&want);
	}
	frames_fini(&frames);
	gs_buf_fini(&file);
	close(f.fd);
}

/* Zeros behind the end, as some file systems leave them after a power cut. */
static void zeros_at_the_end(void **state)
{
	struct memory_file f = memory_file();
	struct gs_buf file = make_file(&f, 25), got;
	struct frames frames = walk(&file);
	struct gs_buf want = records_of(&frames, 0, frames.n);
	struct gs_recording_stats st;

	assert_int_equal(ftruncate(f.fd, (off_t)file.bytes + 9000000), 0);
	got = read_file(f.path, &st);
	assert_same(&want, &got);
	assert_int_equal(st.cut_bytes, 9000000);
	gs_buf_fini(&got);
	gs_buf_fini(&want);
	frames_fini(&frames);
	gs_buf_fini(&file);
	close(f.fd);
}

/* Is the batch the content of some frame? Its number, or -1. */
static int find_raw(const struct frames *f, const struct gs_batch *batch)
{
	for (size_t i = 0; i < f->n; i++)
		if (batch->bytes == f->items[i].header.raw_bytes &&
		    memcmp(batch->data, f->items[i].raw, batch->bytes) == 0)
			return (int)i;
	return -1;
}

/* Every bit of a file, one at a time: at most the frame that was hit is lost, and what is handed
 * out is what was written. */
static void flip_everything(void **state)
{
	struct gs_recording_options o = {.size = sizeof(o), .frame_bytes = 250};
	struct memory_file f = memory_file();
	struct gs_buf b = records(), file;
	struct frames frames;
	size_t n_data = 0;

	put_session(&b);
	for (uint64_t i = 0; i < 6; i++)
		put_call(&b, i);
	write_file(f.path, &o, &b);
	file = content(&f);
	frames = walk(&file);
	assert_int_equal(frames.n, 5); /* three and a snapshot, in two parts */
	for (size_t i = 0; i < frames.n; i++)
		n_data += !is_snapshot(&frames.items[i]);
	for (size_t bit = 0; bit < file.bytes * 8; bit++) {
		size_t at = bit / 8, n_got = 0, hit = frames.n;
		uint8_t bad = file.data[at] ^ (uint8_t)(1 << bit % 8);
		struct gs_recording_reader *r = NULL;
		struct gs_recording_stats st;
		struct gs_batch batch;
		int e, last = -1;

		for (size_t i = 0; i < frames.n; i++)
			if (at >= frames.items[i].off &&
			    at < frames.items[i].off + frames.items[i].bytes)
				hit = i;
		assert_int_equal(pwrite(f.fd, &bad, 1, (off_t)at), 1);
		assert_int_equal(gs_recording_open(f.path, &r, NULL), 0);
		while ((e = gs_recording_next(r, &batch)) == 0) {
			int i = find_raw(&frames, &batch);

			assert_true(i >= 0 && i != (int)hit);
			if (is_snapshot(&frames.items[i]))
				continue;
			assert_true(i > last);
			last = i;
			n_got++;
		}
		assert_int_equal(e, GS_RECORDING_EOF);
		gs_recording_stats(r, &st);
		if (hit == frames.n) { /* the header of the file */
			assert_int_equal(n_got, n_data);
			assert_int_equal(st.skipped_bytes, sizeof(struct gs_recording_header));
		} else if (hit == frames.n - 1) {
			assert_int_equal(n_got, n_data - 1);
			assert_int_equal(st.cut_bytes, frames.items[hit].bytes);
		} else {
			assert_int_equal(n_got, n_data - !is_snapshot(&frames.items[hit]));
			assert_int_equal(st.n_skipped_frames, 1);
			assert_int_equal(st.skipped_bytes, frames.items[hit].bytes);
			assert_int_equal(st.cut_bytes, 0);
		}
		gs_recording_reader_close(&r);
		assert_int_equal(pwrite(f.fd, file.data + at, 1, (off_t)at), 1);
	}
	frames_fini(&frames);
	gs_buf_fini(&file);
	gs_buf_fini(&b);
	close(f.fd);
}

struct pour {
	int fd;
	const struct gs_buf *data;
};

static void *pour(void *arg)
{
	struct pour *p = arg;

	for (size_t at = 0; at < p->data->bytes;) {
		ssize_t n = write(p->fd, p->data->data + at, p->data->bytes - at);

		if (n <= 0)
			break;
		at += (size_t)n;
	}
	close(p->fd);
	return NULL;
}

/* Every call that is read has its names, counted; the number of calls. */
static size_t count_named(const char *path, size_t *ret_named, struct gs_recording_stats *st)
{
	struct gs_dict *dict = gs_dict_new();
	struct gs_buf got = read_file(path, st);
	struct gs_batch batch = batch_of(&got);
	size_t n = 0;

	*ret_named = 0;
	gs_records_for_each (&batch, r) {
		const struct gs_rec_call *c = (const void *)r;
		const struct gs_rec_function *fn;
		const struct gs_rec_thread *t;

		assert_int_equal(gs_dict_apply(dict, r), 0);
		if (r->kind != GS_REC_CALL)
			continue;
		n++;
		fn = gs_dict_function(dict, c->function);
		t = gs_dict_thread(dict, c->thread);
		*ret_named += fn && gs_dict_string(dict, fn->name_str)[0] && t &&
			      gs_dict_process(dict, t->process) && gs_dict_session(dict) &&
			      gs_dict_comm(dict, 1, 0x55550000) &&
			      strcmp(gs_dict_string(dict, t->comm_str), "python") == 0;
	}
	gs_buf_fini(&got);
	gs_dict_free(&dict);
	return n;
}

/* The same, when the bytes come through a pipe. */
static size_t count_named_in_pipe(const struct gs_buf *data, size_t *ret_named,
				  struct gs_recording_stats *st)
{
	struct pour p = {.data = data};
	pthread_t thread;
	char path[64];
	int fds[2];
	size_t n;

	signal(SIGPIPE, SIG_IGN);
	assert_int_equal(pipe(fds), 0);
	p.fd = fds[1];
	snprintf(path, sizeof(path), "/proc/self/fd/%d", fds[0]);
	assert_int_equal(pthread_create(&thread, NULL, pour, &p), 0);
	n = count_named(path, ret_named, st);
	pthread_join(thread, NULL);
	close(fds[0]);
	return n;
}

/* The frame with all definitions is lost. In a file all later calls have their names at once; from
 * a pipe those behind the next snapshot. */
static void names_survive(void **state)
{
	struct memory_file f = memory_file();
	struct gs_buf file = make_file(&f, 3000), holed = records();
	struct frames frames = walk(&file);
	struct gs_recording_stats st;
	size_t n, named, first = frames.items[0].off, second = frames.items[1].off;

	assert_int_equal(pwrite(f.fd, "damage", 6, (off_t)first + 90), 6);
	n = count_named(f.path, &named, &st);
	assert_int_equal(st.n_skipped_frames, 1);
	assert_int_equal(st.skipped_bytes, second - first);
	assert_true(n > 2980);
	assert_int_equal(named, n);

	gs_buf_put(&holed, file.data, first);
	gs_buf_put(&holed, file.data + second, file.bytes - second);
	set_content(&f, holed.data, holed.bytes);
	assert_int_equal(count_named(f.path, &named, &st), n);
	assert_int_equal(named, n);
	assert_int_equal(st.n_skipped_frames, 1);
	assert_int_equal(st.skipped_bytes, 0);

	assert_int_equal(count_named_in_pipe(&holed, &named, &st), n);
	assert_true(named > n - 64 * 11);
	assert_true(named < n);
	assert_int_equal(st.n_skipped_frames, 1);

	frames_fini(&frames);
	gs_buf_fini(&holed);
	gs_buf_fini(&file);
	close(f.fd);
}

/* The definitions and the first snapshots are lost, or part of one: the next that is whole serves.
 */
static void names_survive_without_first_snapshot(void **state)
{
	struct memory_file f = memory_file();
	struct gs_buf file = make_file(&f, 3000);
	struct frames frames = walk(&file);
	size_t n, named, n_parts = 0;
	struct gs_recording_stats st;

	assert_int_equal(pwrite(f.fd, "damage", 6, (off_t)frames.items[0].off + 90), 6);
	for (size_t i = 0; i < frames.n && n_parts < 2; i++) {
		const struct frame *x = &frames.items[i];

		if (!is_snapshot(x) || x->header.flags & GS_FRAME_SNAPSHOT_FIRST)
			continue;
		/* First its payload, then also a header: the way there is blocked. */
		assert_int_equal(pwrite(f.fd, "damage", 6, (off_t)x->off + (n_parts ? 8 : 70)), 6);
		n_parts++;
		n = count_named(f.path, &named, &st);
		assert_int_equal(st.n_skipped_frames, 1 + n_parts);
		assert_true(n > 2980);
		assert_true(named > n - 64 * 11);
	}
	assert_int_equal(n_parts, 2);
	frames_fini(&frames);
	gs_buf_fini(&file);
	close(f.fd);
}

/* A stretch of the middle, longer than the reader's window, is overwritten. */
static void long_damage(void **state)
{
	struct gs_recording_options o = {.size = sizeof(o), .frame_bytes = 4096};
	struct memory_file f = memory_file();
	struct gs_buf b = records(), file, got, want, tail;
	size_t from = 0, to = 0, gap, named, n;
	struct gs_recording_stats st;
	struct frames frames;

	put_definitions(&b);
	for (uint64_t i = 0; i < 400000; i++)
		put_call(&b, i * 0x9e3779b97f4a7c15);
	write_file(f.path, &o, &b);
	file = content(&f);
	frames = walk(&file);
	while (frames.items[from].off < 200000)
		from++;
	for (to = from; frames.items[to].off - frames.items[from].off < 5000000;)
		to++;
	gap = frames.items[to].off - frames.items[from].off;
	tail = records();
	memset(gs_buf_extend(&tail, gap), 0x47, gap);
	assert_int_equal(pwrite(f.fd, tail.data, gap, (off_t)frames.items[from].off), gap);
	n = count_named(f.path, &named, &st);
	assert_int_equal(named, n);
	assert_int_equal(st.skipped_bytes, gap);
	assert_int_equal(st.n_skipped_frames, to - from);
	assert_int_equal(st.cut_bytes, 0);

	/* The records are those before and those behind, with a snapshot between. */
	got = read_file(f.path, NULL);
	want = records_of(&frames, 0, from);
	assert_memory_equal(got.data, want.data, want.bytes);
	gs_buf_fini(&want);
	want = records_of(&frames, to, frames.n);
	assert_memory_equal(got.data + got.bytes - want.bytes, want.data, want.bytes);
	gs_buf_fini(&want);
	gs_buf_fini(&got);
	gs_buf_fini(&tail);
	frames_fini(&frames);
	gs_buf_fini(&file);
	gs_buf_fini(&b);
	close(f.fd);
}

/* Put bytes together, read them, and compare with data frames given by number (-1 ends). */
static void read_patchwork(const struct frames *frames, const struct gs_buf *patch,
			   const int *numbers, struct gs_recording_stats *st)
{
	struct memory_file f = memory_file();
	struct gs_buf want = records(), got;

	set_content(&f, patch->data, patch->bytes);
	got = read_file(f.path, st);
	for (; *numbers >= 0; numbers++)
		gs_buf_put(&want, frames->items[*numbers].raw,
			   frames->items[*numbers].header.raw_bytes);
	assert_same(&want, &got);
	gs_buf_fini(&want);
	gs_buf_fini(&got);
	close(f.fd);
}

static void put_frame(struct gs_buf *patch, const struct gs_buf *file, const struct frames *frames,
		      size_t i)
{
	gs_buf_put(patch, file->data + frames->items[i].off, frames->items[i].bytes);
}

/* Bytes between frames, frames twice, out of order, or of another file. */
static void mixed_up(void **state)
{
	struct memory_file f = memory_file(), g = memory_file();
	struct gs_buf file = make_file(&f, 25), other = make_file(&g, 25), patch = records();
	struct frames frames = walk(&file);
	struct gs_recording_stats st;

	assert_true(frames.n >= 4 && !is_snapshot(&frames.items[1]));
	gs_buf_put(&patch, file.data, sizeof(struct gs_recording_header));
	put_frame(&patch, &file, &frames, 0);
	gs_buf_puts(&patch, "GSTGSTGSTnoise");
	put_frame(&patch, &file, &frames, 1);
	put_frame(&patch, &file, &frames, 0);
	put_frame(&patch, &file, &frames, 1);
	read_patchwork(&frames, &patch, (int[]){0, 1, -1}, &st);
	assert_int_equal(st.skipped_bytes, 14);
	assert_int_equal(st.n_skipped_frames, 0);
	assert_int_equal(st.cut_bytes, frames.items[0].bytes + frames.items[1].bytes);

	gs_buf_reset(&patch);
	gs_buf_put(&patch, file.data, frames.items[1].off);
	gs_buf_put(&patch, other.data, other.bytes); /* its frames say other.file_id */
	put_frame(&patch, &file, &frames, 1);
	read_patchwork(&frames, &patch, (int[]){0, 1, -1}, &st);
	assert_int_equal(st.skipped_bytes, other.bytes);
	assert_int_equal(st.n_skipped_frames, 0);

	gs_buf_reset(&patch); /* the payload of 0 ends early: its last bytes are those of 1 */
	gs_buf_put(&patch, file.data, frames.items[1].off - 5);
	put_frame(&patch, &file, &frames, 1);
	read_patchwork(&frames, &patch, (int[]){1, -1}, &st);
	assert_int_equal(st.skipped_bytes, frames.items[0].bytes - 5);
	assert_int_equal(st.n_skipped_frames, 1);

	frames_fini(&frames);
	gs_buf_fini(&patch);
	gs_buf_fini(&file);
	gs_buf_fini(&other);
	close(f.fd);
	close(g.fd);
}

/* Lost are the definition of a function and all of the next snapshot but its last frame, after an
 * earlier one had been needed: only the snapshot after that can end the gap. */
static void end_of_a_snapshot_is_not_all(void **state)
{
	struct gs_recording_options o = {.size = sizeof(o), .frame_bytes = 1000};
	struct memory_file f = memory_file();
	struct gs_buf b = records(), file, holed = records();
	size_t n, named, n_snapshots = 0, late = 0, at;
	struct gs_recording_stats st;
	struct frames frames;

	put_definitions(&b);
	for (uint64_t i = 0; i < 1000; i++)
		put_call(&b, i);
	put_string(&b, 6, "ncclGroupEnd");
	put_function(&b, 3, 6);
	for (uint64_t i = 0; i < 5000; i++) {
		at = b.bytes;
		put_call(&b, i);
		((struct gs_rec_call *)(void *)(b.data + at))->function = 3;
	}
	write_file(f.path, &o, &b);
	file = content(&f);
	frames = walk(&file);
	gs_buf_put(&holed, file.data, frames.items[0].off);
	for (size_t i = 1; i < frames.n; i++) {
		const struct frame *x = &frames.items[i];

		n_snapshots += (x->header.flags & GS_FRAME_SNAPSHOT_FIRST) != 0;
		if (!late && memmem(x->raw, x->header.raw_bytes, "ncclGroupEnd", 12)) {
			late = i;
			assert_int_equal(n_snapshots, 1);
			continue;
		}
		if (n_snapshots == 2 && is_snapshot(x) &&
		    !(x->header.flags & GS_FRAME_SNAPSHOT_LAST))
			continue;
		put_frame(&holed, &file, &frames, i);
	}
	assert_true(late > 0 && n_snapshots > 4);
	n = count_named_in_pipe(&holed, &named, &st);
	assert_true(n > 5900);
	assert_true(named < n - 64 * 11);     /* the first 64 frames, and the gap ... */
	assert_true(named > n - 3 * 65 * 11); /* ... to the third snapshot */
	assert_int_equal(st.n_skipped_frames, 2 + 2);
	set_content(&f, holed.data, holed.bytes);
	assert_int_equal(count_named(f.path, &named, &st), n);
	assert_true(named > n - 65 * 11);
	frames_fini(&frames);
	gs_buf_fini(&holed);
	gs_buf_fini(&file);
	gs_buf_fini(&b);
	close(f.fd);
}

/* A frame whose checksums hold, so only what it says can be wrong. */
static void put_forged(struct gs_buf *patch, uint64_t file_id, uint64_t sequence, const void *raw,
		       size_t bytes, void (*spoil)(struct gs_frame_header *))
{
	struct gs_frame_header h = {
		.magic = GS_FRAME_MAGIC,
		.version = GS_RECORDING_MAJOR,
		.file_id = file_id,
		.sequence = sequence,
		.raw_bytes = (uint32_t)bytes,
		.n_records = 1,
	};
	uint8_t payload[4096];
	size_t n = ZSTD_compress(payload, sizeof(payload), raw, bytes, 1);

	assert_false(ZSTD_isError(n));
	h.payload_bytes = (uint32_t)n;
	h.payload_crc = gs_recording_crc32(payload, n);
	if (spoil)
		spoil(&h);
	h.header_crc = gs_recording_crc32(&h, offsetof(struct gs_frame_header, header_crc));
	gs_buf_put(patch, &h, sizeof(h));
	gs_buf_put(patch, payload, n);
}

static void more_raw(struct gs_frame_header *h)
{
	h->raw_bytes += 8;
}

static void less_raw(struct gs_frame_header *h)
{
	h->raw_bytes -= 8;
}

static void huge_raw(struct gs_frame_header *h)
{
	h->raw_bytes = GS_FRAME_RAW_MAX_BYTES + 1;
}

static void no_raw(struct gs_frame_header *h)
{
	h->raw_bytes = 0;
}

static void huge_payload(struct gs_frame_header *h)
{
	h->payload_bytes = UINT32_MAX;
}

static void no_payload(struct gs_frame_header *h)
{
	h->payload_bytes = 0;
}

static void more_records(struct gs_frame_header *h)
{
	h->n_records++;
}

static void later_version(struct gs_frame_header *h)
{
	h->version++;
}

static void forged(void **state)
{
	static void (*const spoilers[])(struct gs_frame_header *) = {
		NULL,         more_raw,   less_raw,     huge_raw,      no_raw,
		huge_payload, no_payload, more_records, later_version,
	};
	struct memory_file f = memory_file();
	struct gs_buf file = make_file(&f, 25), raw = records(), patch = records();
	struct gs_recording_header h;

	memcpy(&h, file.data, sizeof(h));
	put_call(&raw, 1);
	for (size_t i = 0; i <= GS_ARRAY_LEN(spoilers); i++) {
		struct gs_recording_stats st;
		struct gs_buf got;

		gs_buf_reset(&patch);
		gs_buf_put(&patch, file.data, sizeof(h));
		if (i == GS_ARRAY_LEN(spoilers)) { /* a record that is longer than the frame */
			((struct gs_record *)(void *)raw.data)->bytes =
				sizeof(struct gs_rec_call) + 8;
			put_forged(&patch, h.file_id, 0, raw.data, raw.bytes, NULL);
		} else {
			put_forged(&patch, h.file_id, 0, raw.data, raw.bytes, spoilers[i]);
		}
		set_content(&f, patch.data, patch.bytes);
		got = read_file(f.path, &st);
		assert_int_equal(st.n_frames, i == 0);
		assert_int_equal(got.bytes, i == 0 ? sizeof(struct gs_rec_call) : 0);
		assert_int_equal(st.cut_bytes, i == 0 ? 0 : patch.bytes - sizeof(h));
		gs_buf_fini(&got);
	}
	gs_buf_fini(&patch);
	gs_buf_fini(&raw);
	gs_buf_fini(&file);
	close(f.fd);
}

/* Definitions beyond one frame make a snapshot of several; the last one serves for all of it. */
static void snapshot_of_many_frames(void **state)
{
	struct gs_recording_options o = {.size = sizeof(o), .frame_bytes = 1000};
	struct memory_file f = memory_file();
	struct gs_buf b = records(), file;
	struct frames frames;
	struct gs_recording_stats st;
	size_t named, n, parts = 0;
	char text[100];

	for (uint32_t i = 6; i < 5000; i++) {
		snprintf(text, sizeof(text), "an argument of some length, number %u", i);
		put_string(&b, i, text);
	}
	put_definitions(&b);
	for (uint64_t i = 0; i < 100; i++)
		put_call(&b, i);
	write_file(f.path, &o, &b);
	file = content(&f);
	frames = walk(&file);
	for (size_t i = 0; i < frames.n; i++)
		parts += is_snapshot(&frames.items[i]);
	assert_true(parts > 5);
	/* Everything before the calls is lost. */
	gs_buf_reset(&b);
	gs_buf_put(&b, file.data, sizeof(struct gs_recording_header));
	for (size_t i = 0; i < frames.n; i++)
		if (frames.items[i].header.first_ns || is_snapshot(&frames.items[i]))
			put_frame(&b, &file, &frames, i);
	set_content(&f, b.data, b.bytes);
	n = count_named(f.path, &named, &st);
	assert_true(n >= 90);
	assert_int_equal(named, n);
	assert_int_equal(st.skipped_bytes, 0);
	assert_true(st.n_skipped_frames > 100);
	frames_fini(&frames);
	gs_buf_fini(&file);
	gs_buf_fini(&b);
	close(f.fd);
}

/* A record's text holds a whole frame of its own file's make; damage before it lets the search
 * run into it. Text that does not compress lies open in the payload. */
static void frame_inside_of_text(void **state)
{
	struct memory_file f = memory_file(), g = memory_file();
	struct gs_buf inner = make_file(&g, 25), b = records(), file, got, want;
	struct frames in = walk(&inner), out;
	struct gs_recording_stats st;
	uint64_t x = 88172645463325252;
	char text[4096];

	for (size_t i = 0; i < sizeof(text); i++) {
		x ^= x << 13;
		x ^= x >> 7;
		x ^= x << 17;
		text[i] = (char)x;
	}
	assert_true(in.items[1].bytes < 3000);
	memcpy(text + 500, inner.data + in.items[1].off, in.items[1].bytes);
	put_end(&b);
	assert_int_equal(gs_record_put_string(&b, 9, text, sizeof(text)), 0);
	write_file(f.path,
		   &(struct gs_recording_options){.size = sizeof(struct gs_recording_options),
						  .frame_bytes = 25},
		   &b);
	file = content(&f);
	assert_non_null(memmem(file.data, file.bytes, inner.data + in.items[1].off,
			       sizeof(struct gs_frame_header)));
	out = walk(&file);
	assert_int_equal(pwrite(f.fd, "damage", 6, (off_t)out.items[out.n - 1].off + 70), 6);
	got = read_file(f.path, &st);
	want = records_of(&out, 0, out.n - 1);
	assert_same(&want, &got);
	assert_int_equal(st.cut_bytes, out.items[out.n - 1].bytes);
	frames_fini(&in);
	frames_fini(&out);
	gs_buf_fini(&got);
	gs_buf_fini(&want);
	gs_buf_fini(&file);
	gs_buf_fini(&inner);
	gs_buf_fini(&b);
	close(f.fd);
	close(g.fd);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(cut_everywhere_in_last_frame),
		cmocka_unit_test(cut_everywhere),
		cmocka_unit_test(zeros_at_the_end),
		cmocka_unit_test(flip_everything),
		cmocka_unit_test(names_survive),
		cmocka_unit_test(names_survive_without_first_snapshot),
		cmocka_unit_test(long_damage),
		cmocka_unit_test(mixed_up),
		cmocka_unit_test(end_of_a_snapshot_is_not_all),
		cmocka_unit_test(forged),
		cmocka_unit_test(snapshot_of_many_frames),
		cmocka_unit_test(frame_inside_of_text),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
