/*
 * attach: how long loading, attaching to the libraries of a running process and detaching take.
 * Prints one JSON object.
 *
 *   attach PID [session|multi|single [GLOB]]
 *
 * Detaching single links goes on in the background after the time shown here.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>

#include "core/base/clock.h"
#include "sources/uprobe/uprobe.h"

static void on_attach(void *ctx, const struct gs_attach *attach)
{
}

static void on_late(void *ctx, const char *path, pid_t pid, uint64_t gap_ns)
{
}

static void on_process(void *ctx, pid_t pid)
{
}

int main(int argc, char **argv)
{
	pid_t pid = argc > 1 ? (pid_t)atoi(argv[1]) : 0;
	struct gs_uprobe_options options = {
		.size = sizeof(options),
		.events = true,
		.pids = &pid,
		.n_pids = 1,
		.follow = true,
		.uid = -1,
		.on_attach = on_attach,
		.on_late = on_late,
		.on_process = on_process,
	};
	struct gs_uprobe *probe = NULL;
	struct gs_err err = {{0}};
	uint64_t t[4];
	unsigned n;
	int r;

	if (argc > 3) {
		options.globs = (const char *const *)&argv[3];
		options.n_globs = 1;
	}
	if (argc > 2 && strcmp(argv[2], "multi") == 0)
		options.disabled_features = GS_DISABLED_SESSION;
	if (argc > 2 && strcmp(argv[2], "single") == 0)
		options.disabled_features = GS_DISABLED_SESSION | GS_DISABLED_MULTI;
	t[0] = gs_clock_mono_ns();
	r = pid ? gs_uprobe_new(&options, &probe, &err) : -EINVAL;
	t[1] = gs_clock_mono_ns();
	if (r == 0)
		r = gs_uprobe_attach_process(probe, pid);
	if (r < 0) {
		fprintf(stderr, "attach: %s\n", gs_err_text(&err, r));
		return 1;
	}
	t[2] = gs_clock_mono_ns();
	n = gs_uprobe_n_probes(probe);
	gs_uprobe_free(&probe);
	t[3] = gs_clock_mono_ns();
	printf("{\"probes\":%u,\"load_ms\":%.1f,\"attach_ms\":%.1f,\"detach_ms\":%.1f}\n", n,
	       (double)(t[1] - t[0]) / 1e6, (double)(t[2] - t[1]) / 1e6,
	       (double)(t[3] - t[2]) / 1e6);
	return 0;
}
