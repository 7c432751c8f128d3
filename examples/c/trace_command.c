/*
 * Traces a command and prints each call of CUDA and NCCL, and of the functions that you name, with its time.
 *
 *     cc trace_command.c $(pkg-config --cflags --libs libgpuscope) -o trace_command
 *     ./trace_command [-f SYMBOL]... [-o FILE]... COMMAND [ARGUMENT...]
 *
 * -f: also trace this function of any library, with its first two arguments; at most 4. -o: also write this file; its
 * suffix chooses the format (.json: Trace Event, .pftrace: Perfetto, .gst: recording); at most 4.
 */
#include <gpuscope/gpuscope.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LIST_MAX 4 /* options of one kind */

static void print_call(const struct gs_call *call)
{
	printf("%" PRIu64 " %" PRIu64 " %" PRIu32 " %" PRIu32 " %s %s", call->start_ns,
	       call->dur_ns, call->pid, call->tid, call->layer, call->name);
	if (call->bytes)
		printf(" bytes=%" PRIu64, call->bytes);
	for (uint32_t i = 0; i < call->n_values; i++)
		printf(" %s=%" PRIu64, call->values[i]->name, call->values[i]->u);
	if (call->error[0])
		printf(" error=%s", call->error);
	printf("\n");
}

static int print_item(const struct gs_item *item, int status)
{
	switch (item->kind) {
	case GS_ITEM_CALL:
		print_call((const struct gs_call *)item);
		break;
	case GS_ITEM_PROCESS: {
		const struct gs_process *p = (const struct gs_process *)item;

		printf("process %" PRIu32 " %s\n", p->pid, p->comm);
		break;
	}
	case GS_ITEM_LOST: {
		const struct gs_lost *l = (const struct gs_lost *)item;

		fprintf(stderr, "lost %" PRIu64 ": %s %s\n", l->count, l->text, l->detail);
		break;
	}
	case GS_ITEM_END: {
		const struct gs_end *e = (const struct gs_end *)item;

		fprintf(stderr, "%s, exit status %d\n", e->reason, e->exit_status);
		return e->exit_status;
	}
	default: /* later versions may have more kinds */
		break;
	}
	return status;
}

int main(int argc, char **argv)
{
	const char *outputs[LIST_MAX];
	const struct gs_probe *probes[LIST_MAX];
	struct gs_probe probe[LIST_MAX];
	struct gs_trace_options options;
	struct gs_trace *trace = NULL;
	const struct gs_item *item = NULL;
	int at = 1, r, status = 0;

	memset(&options, 0, sizeof(options));
	memset(probe, 0, sizeof(probe));
	options.size = sizeof(options);
	for (; at + 1 < argc && argv[at][0] == '-'; at += 2) {
		if (strcmp(argv[at], "-o") == 0 && options.n_outputs < LIST_MAX) {
			outputs[options.n_outputs++] = argv[at + 1];
		} else if (strcmp(argv[at], "-f") == 0 && options.n_probes < LIST_MAX) {
			struct gs_probe *p = &probe[options.n_probes];

			p->size = sizeof(*p);
			p->symbol = argv[at + 1];
			p->n_args = 2;
			probes[options.n_probes++] = p;
		}
	}
	if (at >= argc) {
		fprintf(stderr, "usage: %s [-f SYMBOL]... [-o FILE]... COMMAND [ARGUMENT...]\n",
			argv[0]);
		return 2;
	}
	options.command = (const char *const *)argv + at;
	options.outputs = outputs;
	options.probes = probes;
	r = gs_trace_new(&trace);
	if (r == 0)
		r = gs_trace_start(trace, &options);
	while (r == 0 && (r = gs_trace_next(trace, GS_FOREVER, &item)) == GS_NEXT_ITEM)
		status = print_item(item, status);
	if (r == GS_NEXT_END)
		r = gs_trace_stop(trace); /* returns the first error of an output */
	if (r < 0)
		fprintf(stderr, "%s\n", gs_trace_error(trace));
	gs_trace_free(trace);
	return r < 0 ? 1 : status;
}
