/* When to try again. */
#include "net/grpc/grpc_client.h"

uint64_t gs_grpc_backoff_next_ns(struct gs_grpc_backoff *b, uint64_t random)
{
	uint64_t max = b->max_ns ? b->max_ns : 60000000000ULL;
	uint64_t bound = b->base_ns ? b->base_ns : 1000000000ULL;

	for (unsigned i = 0; i < b->n_failures && bound < max; i++)
		bound = bound > max / 2 ? max : bound * 2;
	if (bound > max)
		bound = max;
	if (b->n_failures < 64)
		b->n_failures++;
	return (uint64_t)((__uint128_t)random * (bound + 1) >> 64);
}

void gs_grpc_backoff_held(struct gs_grpc_backoff *b, uint64_t held_ns)
{
	if (held_ns > GS_GRPC_BACKOFF_HELD_NS)
		b->n_failures = 0;
}
