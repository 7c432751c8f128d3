/*
 * What a hostile file costs its reader is in proportion to its length. Files that once took hours:
 * each is small, or has little in it.
 */
#include "common.h"

#define FRAMES 20000u

/* This process's count of that name in /proc/self/io: of read calls, or of their bytes. */
static uint64_t io_count(const char *name)
{
	GS_FCLOSE FILE *f = fopen("/proc/self/io", "re");
	char line[64];
	uint64_t n = 0;

	if (!f)
		skip();
	while (fgets(line, sizeof(line), f))
		if (strncmp(line, name, strlen(name)) == 0)
			n = strtoull(line + strlen(name), NULL, 10);
	return n;
}

/* A header that claims so many bytes behind it. */
static struct gs_frame_header header_of(uint64_t file_id, uint64_t sequence, uint32_t payload_bytes)
{
	return (struct gs_frame_header){
		.magic = GS_FRAME_MAGIC,
		.version = GS_RECORDING_MAJOR,
		.file_id = file_id,
		.sequence = sequence,
		.payload_bytes = payload_bytes,
		.raw_bytes = 8,
		.n_records = 1,
	};
}

static void put_header(struct gs_buf *b, struct gs_frame_header h)
{

	h.header_crc = gs_recording_crc32(&h, offsetof(struct gs_frame_header, header_crc));
	assert_int_equal(gs_buf_put(b, &h, sizeof(h)), 0);
}

static struct gs_buf make_file(const struct memory_file *f, uint64_t *ret_file_id)
{
	struct gs_buf b = records(), file;
	struct gs_recording_header h;

	put_definitions(&b);
	for (uint64_t i = 0; i < 100; i++)
		put_call(&b, i);
	put_end(&b);
	write_file(f->path,
		   &(struct gs_recording_options){.size = sizeof(struct gs_recording_options),
						  .frame_bytes = 1000},
		   &b);
	gs_buf_fini(&b);
	file = content(f);
	memcpy(&h, file.data, sizeof(h));
	*ret_file_id = h.file_id;
	return file;
}

/* A tebibyte of nothing, in the middle and at the end: passed over. */
static void holes(void **state)
{
	const uint64_t hole = 1ull << 40;
	struct memory_file f = memory_file();
	struct gs_recording_stats st;
	uint64_t file_id, before;
	struct gs_buf file = make_file(&f, &file_id), want = read_file(f.path, NULL), got;
	struct frames frames = walk(&file);
	size_t off = frames.items[frames.n / 2].off, rest = file.bytes - off;

	if (ftruncate(f.fd, (off_t)off) < 0 ||
	    pwrite(f.fd, file.data + off, rest, (off_t)(off + hole)) != (ssize_t)rest ||
	    ftruncate(f.fd, (off_t)(file.bytes + 2 * hole)) < 0)
		skip(); /* memory files of this size are not to be had here */
	before = io_count("rchar:");
	got = read_file(f.path, &st);
	assert_true(io_count("rchar:") - before < 64u << 20);
	assert_same(&want, &got);
	assert_int_equal(st.skipped_bytes, hole);
	assert_int_equal(st.cut_bytes, hole);
	gs_buf_fini(&got);
	gs_buf_fini(&want);
	gs_buf_fini(&file);
	frames_fini(&frames);
	close(f.fd);
}

/* Headers side by side, each with four MiB that are none: read several times, not for each. */
static void claims(void **state)
{
	struct memory_file f = memory_file();
	uint64_t file_id, n_before;
	struct gs_buf file = make_file(&f, &file_id), got;
	struct gs_recording_stats st;

	got = read_file(f.path, &st);
	n_before = st.n_frames;
	gs_buf_fini(&got);
	while (file.bytes < 16u << 20)
		put_header(&file, header_of(file_id, 1000, GS_FRAME_PAYLOAD_MAX_BYTES));
	set_content(&f, file.data, file.bytes);
	got = read_file(f.path, &st);
	assert_int_equal(st.n_frames, n_before);
	assert_true(st.vain_bytes >= 64u << 20);
	assert_true(st.vain_bytes < (72u << 20) + 4 * file.bytes);
	gs_buf_fini(&got);
	gs_buf_fini(&file);
	close(f.fd);
}

/* Each frame tells of a gap, and no snapshot comes: the way ahead is looked along once. */
static void gaps(void **state)
{
	struct memory_file f = memory_file();
	uint64_t file_id, before;
	struct gs_buf file = make_file(&f, &file_id), raw = records(), got;
	struct gs_recording_stats st;
	uint8_t payload[1024];
	size_t n;

	put_call(&raw, 1);
	n = ZSTD_compress(payload, sizeof(payload), raw.data, raw.bytes, 1);
	assert_false(ZSTD_isError(n));
	for (uint64_t i = 0; i < FRAMES; i++) {
		struct gs_frame_header h = header_of(file_id, 1000 + 2 * i, (uint32_t)n);

		h.raw_bytes = (uint32_t)raw.bytes;
		h.payload_crc = gs_recording_crc32(payload, n);
		put_header(&file, h);
		gs_buf_put(&file, payload, n);
	}
	set_content(&f, file.data, file.bytes);
	before = io_count("syscr:");
	got = read_file(f.path, &st);
	assert_true(st.n_frames >= FRAMES && st.n_skipped_frames >= FRAMES - 1);
	assert_true(io_count("syscr:") - before < 3 * FRAMES);
	gs_buf_fini(&got);
	gs_buf_fini(&raw);
	gs_buf_fini(&file);
	close(f.fd);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(holes),
		cmocka_unit_test(claims),
		cmocka_unit_test(gaps),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
