/*
 * Records of processes as they may write them, in files of two doors that are otherwise in order, through what makes events and cells
 * of them into ingest and a summary. The input is the ring; its last bytes are the sums and the calls that are open.
 */
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/base/mem.h"
#include "pipeline/aggregate/aggregate.h"
#include "model/companion/python.h"
#include "pipeline/inside/inside.h"
#include "replay_main.h"

#define RING_BYTES 65536u

static void put_at(int fd, const void *from, size_t bytes, uint64_t at)
{
	if (pwrite(fd, from, bytes, (off_t)at) != (ssize_t)bytes)
		abort();
}

/* Names out of the second half of the input, open functions and a sum out of its begin. */
static void put_python(int fd, const uint8_t *data, size_t bytes)
{
	const uint64_t at = gs_companion_python_at(1, RING_BYTES),
		       names_at = gs_companion_python_names_at(1, RING_BYTES);
	const size_t half = bytes / 2 & ~(size_t)7;
	const uint32_t numbers[2] = {2, 1}; /* frames, rows */
	uint64_t written = (bytes - half) & ~7ull;

	put_at(fd, numbers, sizeof(numbers), at);
	put_at(fd, data, half < 64 ? half : 64,
	       at + offsetof(struct gs_companion_python_thread, frames));
	put_at(fd, data, half < 64 ? half : 64,
	       at + offsetof(struct gs_companion_python_thread, rows));
	put_at(fd, &written, sizeof(written), names_at);
	put_at(fd, data + half, written,
	       names_at + offsetof(struct gs_companion_python_names, names));
}

/* A file of that process and door, with one thread. */
static void make_file(const char *folder, uint32_t pid, uint32_t door, const uint8_t *data,
		      size_t bytes)
{
	struct gs_companion_head head = {.magic = GS_COMPANION_MAGIC,
					 .version = GS_COMPANION_VERSION,
					 .pid = pid,
					 .start_ns = 1,
					 .doors = 1u << door,
					 .state = data[0],
					 .n_slots = 1,
					 .ring_bytes = RING_BYTES,
					 .rings_at = GS_COMPANION_SLOTS_AT +
						     sizeof(struct gs_companion_slot)};
	struct gs_companion_slot slot = {.tid = 1, .has_sums = 1, .n_open = 2 + door};
	static struct gs_companion_sums sums;
	size_t tail = bytes < sizeof(slot.open) ? bytes : sizeof(slot.open);
	char path[320];
	struct stat st;
	int fd;

	snprintf(path, sizeof(path), "%s/%u-%u", folder, pid, 1 + door);
	fd = open(path, O_RDWR | O_CREAT | O_EXCL, 0600);
	if (fd < 0 || stat("/proc/self/ns/pid", &st) < 0 ||
	    ftruncate(fd, (off_t)gs_companion_file_bytes(1, RING_BYTES, head.doors)) < 0)
		abort();
	head.pid_namespace = st.st_ino;
	slot.written = (bytes < RING_BYTES ? bytes : RING_BYTES) & ~7ull;
	memcpy(slot.open, data + bytes - tail, tail);
	memcpy(slot.inner, data, bytes < sizeof(slot.inner) ? bytes : sizeof(slot.inner));
	memcpy(&slot.lost, data + bytes - tail,
	       tail < sizeof(slot.lost) ? tail : sizeof(slot.lost));
	sums.n = 1;
	memcpy(&sums.sum[0], data, bytes < sizeof(sums.sum[0]) ? bytes : sizeof(sums.sum[0]));
	put_at(fd, &head, sizeof(head), 0);
	put_at(fd, &slot, sizeof(slot), GS_COMPANION_SLOTS_AT);
	put_at(fd, data, slot.written, head.rings_at);
	put_at(fd, &sums, offsetof(struct gs_companion_sums, sum) + sizeof(sums.sum[0]),
	       head.rings_at + RING_BYTES);
	if (door == GS_COMPANION_PYTHON)
		put_python(fd, data, bytes);
	close(fd);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
	static struct gs_identity *place; /* of a /proc that has no process */
	const struct gs_companion_files_options fo = {.size = sizeof(fo)};
	GS_CLEANUP(gs_summary_free) struct gs_summary *summary = NULL;
	GS_CLEANUP(gs_aggregate_free) struct gs_aggregate *view = NULL;
	GS_CLEANUP(gs_ingest_free) struct gs_ingest *feed = NULL;
	struct gs_companion_files *files = NULL;
	struct gs_ingest_options io = {.size = sizeof(io), .mode = GS_SESSION_EVENTS};
	struct gs_inside *inside = NULL;
	GS_CLEANUP(gs_func_set_free) struct gs_func_set *funcs = gs_func_set_new();
	bool wanted[GS_FUNC_FIXED] = {false};

	if (!funcs || !bytes) {
		if (!funcs)
			abort();
		return 0;
	}
	io.funcs = funcs;

	for (unsigned id = 1; id < GS_FUNC_FIXED && id <= gs_func_count(); id++)
		wanted[id] = gs_func_by_id(id)->desc.layer <= GS_LAYER_NCCL;
	if (!place)
		place = gs_identity_new("/nonexistent");
	io.place = place;
	if (gs_companion_files_new(&fo, &files, NULL) < 0 || gs_aggregate_new(&view) < 0 ||
	    gs_ingest_new(&io, &feed) < 0 ||
	    gs_ingest_add_sink(feed, "view", gs_aggregate_sink(view)) < 0 ||
	    gs_inside_new(files, wanted, &inside) < 0)
		abort();
	make_file(gs_companion_files_folder(files), 1, GS_COMPANION_CALLS, data, bytes);
	make_file(gs_companion_files_folder(files), 2, GS_COMPANION_OPS, data, bytes);
	make_file(gs_companion_files_folder(files), 1, GS_COMPANION_PYTHON, data, bytes);
	gs_inside_set_ops(inside, funcs);
	gs_inside_set_feed(inside, feed);
	gs_inside_set_python(inside, true);
	gs_inside_poll(inside, true);
	gs_inside_stop(inside);
	gs_ingest_end(feed, -1, "");
	if (gs_aggregate_make_summary(view, &summary) < 0)
		abort();
	gs_inside_free(&inside);
	gs_companion_files_free(&files);
	return 0;
}
