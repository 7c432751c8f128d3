/* The timer's events: one on each processor, which run the program of bpf/calls/sample.bpf.c. */
#include <errno.h>
#include <linux/perf_event.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "core/base/log.h"
#include "core/base/mem.h"
#include "sources/uprobe/uprobe_int.h"

static int open_timer(int cpu, uint64_t period_ns)
{
	struct perf_event_attr attr = {
		.type = PERF_TYPE_SOFTWARE,
		.size = sizeof(attr),
		.config = PERF_COUNT_SW_CPU_CLOCK,
		.sample_period = period_ns,
	};

	return (int)syscall(SYS_perf_event_open, &attr, -1, cpu, -1, PERF_FLAG_FD_CLOEXEC);
}

int uprobe_sample_start(struct uprobe_kernel_side *k, struct bpf_program *program,
			uint64_t period_ns, struct gs_err *err)
{
	int n_cpus = libbpf_num_possible_cpus(), n = 0, r = 0;

	if (n_cpus < 0)
		return n_cpus;
	k->timers = calloc((size_t)n_cpus, sizeof(*k->timers));
	if (!k->timers)
		return -ENOMEM;
	k->n_timers = n_cpus;
	for (int cpu = 0; cpu < n_cpus; cpu++) {
		int fd = open_timer(cpu, period_ns);

		if (fd < 0) {
			if (errno != ENODEV) /* a processor that is switched off */
				r = -errno;
			continue;
		}
		k->timers[cpu] = bpf_program__attach_perf_event(program, fd);
		if (k->timers[cpu]) {
			n++;
		} else {
			r = -errno;
			close(fd);
		}
	}
	gs_log(GS_LOG_INFO, GS_LOG_ATTACH, "sampling: a timer on %d processors", n);
	return n ? 0
		 : gs_err_set(err, r ? r : -ENODEV, "the kernel has no timer for samples: %s",
			      strerror(r ? -r : ENODEV));
}

void uprobe_sample_stop(struct uprobe_kernel_side *k)
{
	for (int i = 0; k->timers && i < k->n_timers; i++)
		bpf_link__destroy(k->timers[i]);
	free(k->timers);
	k->timers = NULL;
}
