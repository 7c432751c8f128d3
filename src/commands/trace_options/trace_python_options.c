/* The options that ask for stacks and calls of Python. */
#include <stdlib.h>
#include <string.h>

#include "core/base/fmt.h"
#include "core/base/mem.h"
#include "commands/trace_options/trace_options_int.h"
#include "model/trace/func.h"
#include "pipeline/correlate/python_glob.h"

#define DEFAULT_HZ 99
#define MAX_HZ     10000
#define SLOW_NS    1000000

bool trace_python_take_hz(struct trace_options *o, const char *word)
{
	char *end;
	long hz = strtol(word, &end, 10);

	if (*end || !*word || hz < 1 || hz > MAX_HZ)
		return false;
	o->python_hz = (unsigned)hz;
	o->py_stack_at |= GS_AT_SAMPLE;
	return true;
}

bool trace_python_take_at(struct trace_options *o, const char *word)
{
	static const struct {
		const char *name;
		unsigned at;
	} names[] = {
		{"launch", GS_AT_LAUNCH}, {"collective", GS_AT_COLLECTIVE},
		{"alloc", GS_AT_ALLOC},   {"copy", GS_AT_COPY},
		{"sync", GS_AT_SYNC},     {"sample", GS_AT_SAMPLE},
	};

	for (size_t i = 0; i < GS_ARRAY_LEN(names); i++) {
		if (strcmp(word, names[i].name) == 0) {
			o->py_stack_at |= names[i].at;
			return true;
		}
	}
	if (strncmp(word, "slow-op", 7) != 0 || (word[7] && word[7] != '='))
		return false;
	o->py_stack_at |= GS_AT_SLOW_SCOPE;
	return !word[7] ||
	       (gs_parse_ns(word + 8, 1000, &o->slow_scope_ns) == 0 && o->slow_scope_ns);
}

bool trace_python_take_call(struct trace_options *o, const char *word)
{
	return o->n_python_globs < GS_PY_GLOB_MAX &&
	       gs_correlate_parse_py_glob(word, &o->python_globs[o->n_python_globs++]) == 0;
}

void trace_python_settle(struct trace_options *o)
{
	uint32_t python = 1u << GS_LAYER_PYTHON;

	/* Who names it wants calls of Python; who wants all that can be had from inside has said whether. */
	o->python_calls |= o->inside_python;
	o->inside_python |= o->inside_all && o->python_calls;
	if (o->layers & python) {
		o->python_gc = true; /* some a second: costs nothing */
		o->py_stack_at |= GS_AT_SAMPLE | GS_AT_LAUNCH | GS_AT_COLLECTIVE | GS_AT_ALLOC;
		/* It is no functions of a library: the others are chosen as if it were not there.
		 */
		o->layers &= ~python;
	}
	if (o->py_stack_at & GS_AT_SAMPLE && !o->python_hz)
		o->python_hz = DEFAULT_HZ;
	if (o->py_stack_at & GS_AT_SLOW_SCOPE && !o->slow_scope_ns)
		o->slow_scope_ns = SLOW_NS;
	/* A stack belongs to a call: calls have to come one by one. */
	o->python_wants_calls = o->py_stack_at & ~(unsigned)GS_AT_SAMPLE;
}
