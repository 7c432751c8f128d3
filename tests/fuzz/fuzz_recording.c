/*
 * The reader of .gst files on any bytes. Checksums would stop nearly every mutation at the door, so
 * the target first mends those of the file header and of each frame header it can step to; the
 * lengths stay as they came. What is read must be whole records, and the books must balance.
 */
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "pipeline/recording/recording.h"
#include "pipeline/recording/recording_int.h"
#include "model/trace/dict.h"
#include "replay_main.h"

static void check(bool ok)
{
	if (!ok)
		abort();
}

static void mend(uint8_t *data, size_t size)
{
	struct gs_recording_header file;
	struct gs_frame_header h;
	size_t off = sizeof(file);

	if (size < sizeof(file))
		return;
	memcpy(&file, data, sizeof(file));
	file.header_crc =
		gs_recording_crc32(&file, offsetof(struct gs_recording_header, header_crc));
	memcpy(data, &file, sizeof(file));
	while (size - off >= sizeof(h)) {
		size_t left = size - off - sizeof(h);

		memcpy(&h, data + off, sizeof(h));
		if (h.magic != GS_FRAME_MAGIC) {
			off++;
			continue;
		}
		h.file_id = file.file_id;
		if (h.payload_bytes <= left)
			h.payload_crc = gs_recording_crc32(data + off + sizeof(h), h.payload_bytes);
		h.header_crc = gs_recording_crc32(&h, offsetof(struct gs_frame_header, header_crc));
		memcpy(data + off, &h, sizeof(h));
		off += h.payload_bytes <= left ? sizeof(h) + h.payload_bytes : 1;
	}
}

static void read_all(const char *path, size_t size)
{
	struct gs_dict *dict = gs_dict_new();
	struct gs_recording_reader *r = NULL;
	struct gs_recording_stats st;
	struct gs_err err = {0};
	struct gs_batch batch;
	uint64_t n_frames = 0, n_records = 0;
	int e = gs_recording_open(path, &r, &err);

	check(dict != NULL);
	if (e < 0) {
		check(err.text[0] != 0 && r == NULL);
		gs_dict_free(&dict);
		return;
	}
	while ((e = gs_recording_next(r, &batch)) == 0) {
		size_t at = 0;
		const struct gs_record *rec;

		while ((rec = gs_record_next(&batch, &at)) != NULL) {
			gs_dict_apply(dict, rec);
			n_records++;
		}
		check(at == batch.bytes && at > 0);
		n_frames++;
	}
	check(e == GS_RECORDING_EOF);
	gs_recording_stats(r, &st);
	check(st.file_bytes == size);
	check(st.cut_bytes + st.skipped_bytes <= size);
	check(st.n_frames == n_frames && st.n_records == n_records);
	gs_recording_reader_close(&r);
	gs_dict_free(&dict);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	int fd = memfd_create("fuzz", MFD_CLOEXEC);
	char path[64];
	uint8_t *copy = malloc(size + 1);

	check(fd >= 0 && copy != NULL);
	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	check(write(fd, data, size) == (ssize_t)size);
	read_all(path, size);
	memcpy(copy, data, size);
	mend(copy, size);
	check(pwrite(fd, copy, size, 0) == (ssize_t)size);
	read_all(path, size);
	free(copy);
	close(fd);
	return 0;
}
