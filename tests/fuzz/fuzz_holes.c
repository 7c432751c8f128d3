/*
 * Files of any size with little in them, for readers that go from a file's begin to its end: names
 * of generated code (perf maps) and .gst files. What is read is bounded by what is in the file.
 */
#include "sparse_file.h"

#include "core/base/mem.h"
#include "pipeline/recording/recording.h"
#include "pipeline/recording/recording_int.h"
#include "replay_main.h"
#include "sources/unwind/perf_map.h"

/* Bytes that this process has read so far, as the kernel counts them. */
static uint64_t bytes_read(void)
{
	GS_FCLOSE FILE *f = fopen("/proc/self/io", "re");
	unsigned long long n = 0;

	if (f && fscanf(f, "rchar: %llu", &n) != 1)
		abort();
	return n;
}

static void read_perf_map(const struct sparse_file *f)
{
	uint64_t before = gs_guard_bytes_read(sparse_guard());
	GS_FOREIGN_CLOSE struct gs_foreign file = GS_FOREIGN_INIT;
	struct gs_perf_maps *all = gs_perf_maps_new();
	struct gs_perf_map *m = gs_perf_map_new(all);
	char name[64];

	if (!m || gs_foreign_open(f->path, NULL, &file) < 0)
		abort();
	gs_perf_map_read(m, &file, 1000000000);
	(void)gs_perf_map_name(m, 0x1000, name, sizeof(name));
	if (gs_perf_maps_bytes(all) > GS_PERF_MAPS_BYTES)
		abort();
	gs_perf_map_free(&m);
	gs_perf_maps_free(&all);
	sparse_check(f, before);
}

/* Checksums of the headers that chunks begin with, and of the bytes that frames claim, where they
 * have them. */
static void mend(const struct sparse_file *f)
{
	struct gs_recording_header file;
	struct gs_frame_header h;

	if (pread(f->fd, &file, sizeof(file), 0) != sizeof(file))
		return;
	file.header_crc =
		gs_recording_crc32(&file, offsetof(struct gs_recording_header, header_crc));
	if (pwrite(f->fd, &file, sizeof(file), 0) != sizeof(file))
		abort();
	for (unsigned i = 0; i < f->n_chunks; i++) {
		off_t at = (off_t)f->at[i] + (f->at[i] ? 0 : (off_t)sizeof(file));
		uint8_t payload[4 * SPARSE_PAGE];

		if (pread(f->fd, &h, sizeof(h), at) != sizeof(h) || h.magic != GS_FRAME_MAGIC)
			continue;
		h.file_id = file.file_id;
		if (h.payload_bytes <= sizeof(payload) &&
		    pread(f->fd, payload, h.payload_bytes, at + (off_t)sizeof(h)) ==
			    h.payload_bytes)
			h.payload_crc = gs_recording_crc32(payload, h.payload_bytes);
		h.header_crc = gs_recording_crc32(&h, offsetof(struct gs_frame_header, header_crc));
		if (pwrite(f->fd, &h, sizeof(h), at) != sizeof(h))
			abort();
	}
}

static void read_gst(const struct sparse_file *f)
{
	struct gs_recording_reader *r = NULL;
	struct gs_recording_stats st;
	struct gs_batch batch;
	struct gs_err err;
	uint64_t before;
	int e;

	mend(f);
	before = bytes_read();
	if (gs_recording_open(f->path, &r, &err) < 0)
		return;
	while ((e = gs_recording_next(r, &batch)) == 0)
		;
	gs_recording_stats(r, &st);
	gs_recording_reader_close(&r);
	if (e != GS_RECORDING_EOF ||
	    bytes_read() - before > (64u << 20) + f->n_chunks * (16ull << 20) ||
	    st.vain_bytes > (72ull << 20) + 4 * f->bytes)
		abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
	struct sparse_file f;

	sparse_open(&f, data, bytes);
	read_perf_map(&f);
	read_gst(&f);
	sparse_close(&f);
	return 0;
}
