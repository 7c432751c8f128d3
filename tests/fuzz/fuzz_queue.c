/*
 * Files of batches that wait for a head, as a damaged disk or another program may have left them.
 * Checksums are mended first, since they would stop nearly every mutation. What is got has the
 * order and the sizes that were promised, and a file that claims more than it has is cut.
 */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

#include "core/base/mem.h"
#include "core/queue/queue_int.h"
#include "replay_main.h"

#define CHECK(c)                                                                                   \
	do {                                                                                       \
		if (!(c))                                                                          \
			abort();                                                                   \
	} while (0)

static char folder[64];

static void remove_files(void)
{
	static const char *const names[] = {"state", "lock"};
	char path[128];

	for (unsigned i = 0; i < GS_ARRAY_LEN(names); i++) {
		snprintf(path, sizeof(path), "%s/%s", folder, names[i]);
		(void)unlink(path);
	}
}

static void remove_folder(void)
{
	char path[128];

	remove_files();
	snprintf(path, sizeof(path), "%s/%020u.batches", folder, 1u);
	(void)unlink(path);
	(void)rmdir(folder);
}

static void make_folder(void)
{
	snprintf(folder, sizeof(folder), "%s/fuzz_queue.XXXXXX",
		 access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp");
	CHECK(mkdtemp(folder));
	CHECK(atexit(remove_folder) == 0);
}

/* Checksums of entries that lie one behind the other. */
static void mend(uint8_t *data, size_t bytes)
{
	const size_t skip = offsetof(struct queue_entry, seq);
	struct queue_entry e;

	for (size_t off = 0; bytes - off >= sizeof(e); off += sizeof(e) + e.bytes) {
		uLong crc;

		memcpy(&e, data + off, sizeof(e));
		if (e.magic != SPOOL_MAGIC || e.bytes > bytes - off - sizeof(e))
			return;
		crc = crc32(0, (const Bytef *)&e + skip, (uInt)(sizeof(e) - skip));
		e.crc = (uint32_t)crc32(crc, data + off + sizeof(e), e.bytes);
		memcpy(data + off, &e, sizeof(e));
	}
}

static void write_segment(const uint8_t *data, size_t bytes)
{
	GS_FREE uint8_t *copy = malloc(bytes + 1);
	char path[128];
	int fd;

	CHECK(copy);
	memcpy(copy, data, bytes);
	mend(copy, bytes);
	snprintf(path, sizeof(path), "%s/%020u.batches", folder, 1u);
	fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
	CHECK(fd >= 0 && write(fd, copy, bytes) == (ssize_t)bytes);
	close(fd);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
	struct gs_queue_options o = {.size = sizeof(o), .dir = folder};
	struct gs_queue_batch b;
	struct gs_queue *spool = NULL;
	struct gs_err err = {{0}};
	uint64_t seq = 0;
	size_t got = 0;
	int r;

	if (!folder[0])
		make_folder();
	remove_files();
	write_segment(data, bytes);
	if (gs_queue_open(&o, &spool, &err) < 0)
		return 0;
	/* Each batch once, in its order; together no more than the file had. */
	while ((r = gs_queue_get(spool, seq + 1, &b)) != GS_QUEUE_END) {
		CHECK(r == 0 && b.seq > seq && b.bytes <= GS_QUEUE_BATCH_MAX);
		seq = b.seq;
		got += sizeof(struct queue_entry) + b.bytes;
		CHECK(got <= bytes);
		if (seq % 3 == 0)
			gs_queue_ack(spool, seq);
		if (seq == UINT64_MAX)
			break;
	}
	gs_queue_close(&spool);
	return 0;
}
