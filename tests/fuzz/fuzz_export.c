/*
 * Records as a damaged or hostile file may hold them, through span into a trace file of each
 * format. The first byte chooses the format. Whatever names are in the records, what is written as
 * text is UTF-8 without control characters, and no more than a few hundred times what was read.
 */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/base/mem.h"
#include "output/trace_export/export.h"
#include "replay_main.h"
#include "pipeline/correlate/correlate.h"
#include "core/text/text.h"

#define CHECK(c)                                                                                   \
	do {                                                                                       \
		if (!(c))                                                                          \
			abort();                                                                   \
	} while (0)

#define MAX_BYTES     (1 << 20)
#define BYTES_OF_HEAD 65536 /* a page of a flame graph has its script and style */

static const char *const suffixes[] = {".pftrace", ".json", ".csv", ".folded", ".svg"};
static char folder[64];

static void remove_folder(void)
{
	char path[96];

	for (size_t i = 0; i < GS_ARRAY_LEN(suffixes); i++) {
		snprintf(path, sizeof(path), "%s/a%s", folder, suffixes[i]);
		(void)unlink(path);
	}
	(void)rmdir(folder);
}

static void make_folder(void)
{
	/* Memory, where there is such: a disk would be what is measured. */
	snprintf(folder, sizeof(folder), "%s/fuzz_export.XXXXXX",
		 access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp");
	CHECK(mkdtemp(folder));
	CHECK(atexit(remove_folder) == 0);
}

static void check_file(const char *path, bool text, size_t bytes_in)
{
	GS_CLOSE int fd = open(path, O_RDONLY | O_CLOEXEC);
	GS_FREE char *all = NULL;
	struct stat st;

	CHECK(fd >= 0 && fstat(fd, &st) == 0);
	CHECK((size_t)st.st_size <= BYTES_OF_HEAD + bytes_in * 512);
	all = malloc((size_t)st.st_size + 1);
	CHECK(all && read(fd, all, (size_t)st.st_size) == st.st_size);
	all[st.st_size] = '\0';
	if (!text)
		return;
	CHECK(strlen(all) == (size_t)st.st_size);
	for (const char *at = all; *at;) {
		size_t n;
		uint32_t c = gs_text_decode(at, &n);

		CHECK(c != 0xfffd || n == 3);
		CHECK(c >= 0x20 || c == '\n' || c == '\t' || c == '\r');
		CHECK(c != 0x7f);
		at += n;
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
	struct gs_export_options o = {.size = sizeof(o), .max_bytes = MAX_BYTES};
	GS_CLEANUP(gs_correlate_free) struct gs_correlate *span = NULL;
	struct gs_export *export = NULL;
	/* A copy of the exact size and alignment: reading past the end is caught. */
	GS_FREE uint8_t *copy = malloc(bytes ? bytes : 1);
	const char *suffix;
	struct gs_batch b;
	char path[96];

	if (!folder[0])
		make_folder();
	if (!copy || bytes == 0)
		return 0;
	suffix = suffixes[data[0] % GS_ARRAY_LEN(suffixes)];
	o.flame_by = data[0] / GS_ARRAY_LEN(suffixes) % GS_FLAME_BY_COUNT;
	bytes--;
	memcpy(copy, data + 1, bytes);
	snprintf(path, sizeof(path), "%s/a%s", folder, suffix);
	CHECK(gs_export_open(path, &o, &export, NULL) == 0);
	CHECK(gs_correlate_new(gs_export_sink(export), &span) == 0);
	/* Twice: handles and ids come again. */
	b = (struct gs_batch){copy, bytes};
	for (unsigned round = 0; round < 2; round++) {
		const struct gs_sink *sink = gs_correlate_sink(span);

		sink->push(sink->ctx, &b);
	}
	(void)gs_export_close(&export, NULL);
	check_file(path, strcmp(suffix, ".pftrace") != 0, bytes);
	return 0;
}
