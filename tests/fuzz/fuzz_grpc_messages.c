/* Messages in runs of bytes, cut anywhere: the same come whatever the cuts; and texts of headers.
 */
#include <assert.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "replay_main.h"
#include "net/grpc/grpc_int.h"

/* A number made of all messages and how it ended. */
static uint64_t run(const uint8_t *data, size_t bytes, size_t piece, bool late)
{
	struct gs_grpc_held held = {.max_bytes = 1U << 20};
	struct gs_grpc_inbox in;
	uint64_t hash = 14695981039346656037ULL;
	int r = 0;

	gs_grpc_inbox_init(&in, &held, 5000);
	for (size_t at = 0, turn = 0; at < bytes && r >= 0; at += piece, turn++) {
		size_t n = bytes - at < piece ? bytes - at : piece;
		const void *message;
		size_t got, used;

		assert(gs_grpc_inbox_put(&in, data + at, n) == 0);
		if (!late || turn % 2 || at + piece >= bytes)
			while ((r = gs_grpc_inbox_next(&in, &message, &got, &used)) == 1)
				for (size_t i = 0; i <= got; i++)
					hash = (hash ^
						(i < got ? ((const uint8_t *)message)[i] : 256)) *
					       1099511628211ULL;
		assert(gs_grpc_inbox_keep(&in) == 0);
	}
	hash += (uint64_t)(uint32_t)r;
	gs_grpc_inbox_fini(&in);
	assert(held.bytes == 0);
	return hash;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
	char *text = malloc(bytes + 1), out[256];
	uint8_t binary[256];
	uint64_t wanted, ns;

	if (!text || bytes > 100000) {
		free(text);
		return 0;
	}
	if (bytes)
		memcpy(text, data, bytes);
	text[bytes] = '\0';
	wanted = run(data, bytes, bytes ? bytes : 1, false);
	assert(run(data, bytes, 1, false) == wanted);
	assert(run(data, bytes, 7, true) == wanted);
	gs_grpc_percent_decode(text, strlen(text), out, sizeof(out));
	assert(strlen(out) < sizeof(out));
	gs_grpc_percent_encode(text, out, sizeof(out));
	assert(strlen(out) < sizeof(out) && gs_grpc_value_valid("a", 1));
	(void)gs_grpc_timeout_parse(text, &ns);
	(void)gs_grpc_bin_decode(text, binary, sizeof(binary));
	(void)gs_grpc_name_valid(text);
	free(text);
	return 0;
}
