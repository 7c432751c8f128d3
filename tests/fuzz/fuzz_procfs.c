/* /proc/PID/{stat,status,cmdline}: names and arguments are chosen by the traced process. */
#include <assert.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "sources/identity/identity_int.h"
#include "replay_main.h"

static void check_text(const char *text, size_t max_bytes)
{
	assert(memchr(text, '\0', max_bytes));
	for (size_t i = 0; text[i]; i++)
		assert((unsigned char)text[i] >= 0x20 && text[i] != 0x7f);
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
	free(text);
	return 0;
}
