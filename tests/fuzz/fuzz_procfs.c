/* /proc/PID/{stat,status,cmdline}: names and arguments are chosen by the traced process. */
#include <assert.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "sources/identity/identity_int.h"
#include "sources/cuda_visible/visible.h"
#include "replay_main.h"

static void check_text(const char *text, size_t max_bytes)
{
	assert(memchr(text, '\0', max_bytes));
	for (size_t i = 0; text[i]; i++)
		assert((unsigned char)text[i] >= 0x20 && text[i] != 0x7f);
}

/* The environment, of which the process decides, too. */
static void check_environment(const char *text, size_t bytes)
{
	static const struct gs_cuda_visible_gpus gpus = {
		.n = 2, .one_model = true, .uuid = {"GPU-a1", "GPU-a2"}};
	static const struct gs_cuda_visible_gpus divided = {.n = 2,
							    .one_model = true,
							    .uuid = {"GPU-a1", "GPU-a2"},
							    .n_instances = {0, 1},
							    .instance = {NULL, "3/1"}};
	char out[64], now[64], list[64];
	int only;

	gs_cuda_visible_parse(text, bytes, false, &gpus, out, sizeof(out));
	check_text(out, sizeof(out));
	gs_cuda_visible_parse(text, bytes, true, &gpus, now, sizeof(now));
	check_text(now, sizeof(now));
	for (unsigned i = 0; i < 8; i++) {
		struct gs_cuda_visible_facts facts = {
			.first = out, .now = now, .open = i >> 1, .begun = i & 1};

		gs_cuda_visible_settle(&gpus, &facts, list, sizeof(list), &only);
		check_text(list, sizeof(list));
		assert(only >= -1 && only < 64);
	}
	gs_cuda_visible_parse(text, bytes, true, &divided, out, sizeof(out));
	check_text(out, sizeof(out));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
	/* A copy of the exact size: reading past the end is seen. */
	char *text = malloc(bytes ? bytes : 1), out[64];
	struct gs_identity_stat stat = {0};
	uint32_t uid = 0, ns_pid = 0;

	if (!text)
		return 0;
	if (bytes)
		memcpy(text, data, bytes);
	if (gs_identity_parse_stat(text, bytes, &stat))
		check_text(stat.comm, sizeof(stat.comm));
	gs_identity_parse_status(text, bytes, &uid, &ns_pid);
	gs_identity_parse_cmdline(text, bytes, out, sizeof(out));
	check_text(out, sizeof(out));
	check_environment(text, bytes);
	free(text);
	return 0;
}
