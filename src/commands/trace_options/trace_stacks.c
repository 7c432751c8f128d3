/* The options that ask for native stacks. */
#include <string.h>

#include "core/base/fmt.h"
#include "core/base/mem.h"
#include "commands/trace_options/trace_options_int.h"

#define DEFAULT_BYTES (8u << 10)
#define MAX_BYTES     (32u << 10)
#define RING_BYTES    (64u << 20) /* a stack is a hundred times as long as a call */

static bool take_stack_at(struct trace_options *o, const char *word)
{
	static const struct {
		const char *name;
		unsigned at;
	} choices[] = {
		{"launch", GS_AT_LAUNCH},      {"collective", GS_AT_COLLECTIVE},
		{"alloc", GS_AT_ALLOC},        {"copy", GS_AT_COPY},
		{"sync", GS_AT_SYNC},          {"sample", GS_AT_SAMPLE},
		{"slow-op", GS_AT_SLOW_SCOPE},
	};

	for (size_t i = 0; i < GS_ARRAY_LEN(choices); i++) {
		if (strcmp(word, choices[i].name) == 0) {
			o->native_stack_at |= choices[i].at;
			return true;
		}
	}
	return false;
}

bool trace_stacks_take(struct trace_options *o, char *words)
{
	char *save = NULL;

	if (strcmp(words, "native") == 0) {
		o->native_stack_at |= GS_AT_LAUNCH | GS_AT_COLLECTIVE | GS_AT_ALLOC;
		return true;
	}
	if (strncmp(words, "native,at=", 10) != 0 || !words[10])
		return false;
	for (char *w = strtok_r(words + 10, "+", &save); w; w = strtok_r(NULL, "+", &save))
		if (!take_stack_at(o, w))
			return false;
	return o->native_stack_at;
}

bool trace_stacks_take_bytes(struct trace_options *o, const char *word)
{
	uint64_t bytes;

	if (gs_parse_bytes(word, &bytes) < 0 || bytes < GS_STACK_UNIT || bytes > MAX_BYTES)
		return false;
	o->stack_bytes = (uint32_t)(bytes + GS_STACK_UNIT - 1) / GS_STACK_UNIT * GS_STACK_UNIT;
	return true;
}

void trace_stacks_settle(struct trace_options *o)
{
	if (!o->native_stack_at)
		return;
	if (!o->stack_bytes)
		o->stack_bytes = DEFAULT_BYTES;
	if (!o->ring_bytes)
		o->ring_bytes = RING_BYTES;
	if (o->native_stack_at & GS_AT_SAMPLE && !o->python_hz)
		o->python_hz = 99;
	if (o->native_stack_at & GS_AT_SLOW_SCOPE && !o->slow_scope_ns)
		o->slow_scope_ns = 1000000;
}
