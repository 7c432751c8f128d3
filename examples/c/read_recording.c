/*
 * Reads a recording (.gst), also while it is being written: counts its items, and optionally converts it.
 *
 *     cc read_recording.c $(pkg-config --cflags --libs libgpuscope) -o read_recording
 *     ./read_recording [-f] FILE.gst [OUTPUT]
 *
 * -f: follow a file that is still being written. OUTPUT: .json (Trace Event), .pftrace (Perfetto) or .csv.
 */
#include <gpuscope/gpuscope.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define ITEMS_MAX 4096 /* per call of the library */

int main(int argc, char **argv)
{
	int follow = argc > 1 && strcmp(argv[1], "-f") == 0, r;
	static const char *const names[] = {"",        "calls",    "processes", "attached",
					    "lost",    "counters", "work",      "sums",
					    "samples", "end",      "hangs"};
	uint64_t counts[sizeof(names) / sizeof(names[0])] = {0}, dur_ns = 0;
	const struct gs_item *const *items = NULL;
	const struct gs_clock *clock = NULL;
	struct gs_open_options options;
	struct gs_trace *trace = NULL;
	const char *outputs[1];
	size_t n = 0;

	argv += follow;
	argc -= follow;
	if (argc < 2) {
		fprintf(stderr, "usage: read_recording [-f] FILE.gst [OUTPUT]\n");
		return 2;
	}
	memset(&options, 0, sizeof(options));
	options.size = sizeof(options);
	options.follow = (uint32_t)follow;
	if (argc > 2) {
		outputs[0] = argv[2];
		options.outputs = outputs;
		options.n_outputs = 1;
	}
	r = gs_trace_new(&trace);
	if (r == 0)
		r = gs_trace_open(trace, argv[1], &options);
	while (r == 0 &&
	       (r = gs_trace_next_many(trace, GS_FOREVER, ITEMS_MAX, &items, &n)) == GS_NEXT_ITEM) {
		for (size_t i = 0; i < n; i++) {
			const struct gs_item *item = items[i];

			if (item->kind < sizeof(names) / sizeof(names[0]))
				counts[item->kind]++;
			if (item->kind == GS_ITEM_CALL)
				dur_ns += ((const struct gs_call *)item)->dur_ns;
		}
		printf("+%zu\n", n);
		fflush(stdout);
	}
	if (r == GS_NEXT_END)
		r = gs_trace_clock(trace, &clock);
	for (size_t i = 1; i < sizeof(names) / sizeof(names[0]) && r == 0; i++)
		printf("%s %" PRIu64 "\n", names[i], counts[i]);
	if (r == 0)
		printf("dur_ns %" PRIu64 "\nto_wall_ns %" PRId64 "\n", dur_ns, clock->to_wall_ns);
	else
		fprintf(stderr, "%s\n", gs_trace_error(trace));
	gs_trace_free(trace);
	return r < 0;
}
