/*
 * Reads the text that eACGM's tracer writes, one line for each begin and each end of a call:
 *
 *     1730000000.123456 4711 B cudaMalloc
 *     1730000000.123460 4711 E cudaMalloc
 *
 * A line has the time in seconds with six decimals, the thread id, B (begin) or E (end), and the
 * function. Other lines are skipped and counted.
 */
#include <errno.h>
#include <string.h>

#include "core/base/mem.h"
#include "model/trace/class.h"
#include "model/trace/event.h"
#include "model/trace/func.h"
#include "pipeline/kineto/kineto_int.h"

#define LINE_BYTES 1024
#define NAME_BYTES 256

struct line {
	uint64_t time_ns;
	uint32_t tid;
	bool is_end;
	char name[NAME_BYTES];
};

/* eACGM's rule: the first of these texts that the name contains decides. */
static unsigned layer_of_name(const char *name)
{
	return strstr(name, "cuda")    ? GS_LAYER_CUDA_RUNTIME
	       : strstr(name, "Py")    ? GS_LAYER_PYTHON
	       : strstr(name, "nccl")  ? GS_LAYER_NCCL
	       : strstr(name, "Torch") ? GS_LAYER_TORCH
				       : GS_LAYER_USER;
}

static bool read_line(const char *text, struct line *ret)
{
	unsigned long long seconds;
	unsigned us, tid;
	char phase;

	if (sscanf(text, "%10llu.%6u %u %c %255[^\n]", &seconds, &us, &tid, &phase, ret->name) !=
		    5 ||
	    (phase != 'B' && phase != 'E'))
		return false;
	ret->time_ns = seconds * 1000000000u + us * 1000u;
	ret->tid = tid;
	ret->is_end = phase == 'E';
	return true;
}

static int take_line(struct kineto *k, const struct line *line)
{
	unsigned layer = layer_of_name(line->name);
	struct kineto_event e = {.start_ns = line->time_ns};

	e.name = kineto_find_function(k, layer, kineto_class_of(layer, line->name), line->name);
	e.thread = kineto_find_thread(k, line->tid, line->tid);
	if (!e.name || !e.thread) {
		k->stats.n_left_out++;
		return 0;
	}
	if (line->is_end) {
		kineto_end_call(k, e.thread, e.name, line->time_ns);
		return 0;
	}
	k->stats.n_calls++;
	return kineto_begin_call(k, &e);
}

int kineto_parse_log(struct kineto *k, FILE *file)
{
	char text[LINE_BYTES];
	struct line line;
	bool rest = false;
	int r = 0;

	while (r == 0 && fgets(text, sizeof(text), file)) {
		bool whole = strchr(text, '\n') || feof(file);

		if (!rest && read_line(text, &line))
			r = take_line(k, &line);
		else if (!rest)
			k->stats.n_bad++;
		rest = !whole;
	}
	return r;
}
