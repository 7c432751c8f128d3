/*
 * Work for GPUs that the kernel side added up by stream: rows become runs. A row comes through the ring
 * ahead of the call that it matters to, and is looked at in the shared array at each drain. Its sums only
 * grow, so that what was handed over one way is not handed over the other way again.
 */
#include <errno.h>
#include <string.h>

#include <bpf/bpf.h>

#include "sources/uprobe/uprobe_int.h"

/* Of a row as it was handed over last. */
struct uprobe_gpu_before {
	uint64_t n, amount, last_ns;
};

int uprobe_gpu_new(struct gs_uprobe *probe)
{
	if (!probe->options.gpu_role)
		return 0;
	probe->gpu_before = calloc((size_t)GS_GPU_QUEUE_PROCESS_MAX * GS_GPU_QUEUE_ROWS,
				   sizeof(*probe->gpu_before));
	return probe->gpu_before ? 0 : -ENOMEM;
}

static void hand_over_row(struct gs_uprobe *probe, const struct gs_uprobe_handler *h,
			  uint32_t process, uint32_t row, uint32_t pid,
			  const struct gs_gpu_queue_row *is)
{
	struct uprobe_gpu_before *before = &probe->gpu_before[process * GS_GPU_QUEUE_ROWS + row];
	struct gs_gpu_queue_run run = {.pid = pid,
				       .tid = is->tid,
				       .device = is->device,
				       .sort = is->sort - 1u,
				       .per_thread = is->thread != 0,
				       .stream = is->stream,
				       .amount = is->amount - before->amount,
				       .first_ns = is->first_ns,
				       .last_ns = is->last_ns};
	uint64_t n = is->n - before->n;

	if (!is->sort || is->n <= before->n)
		return;
	if (run.first_ns < before->last_ns && before->last_ns <= run.last_ns)
		run.first_ns = before->last_ns;
	run.n = n < UINT32_MAX ? (uint32_t)n : UINT32_MAX;
	*before = (struct uprobe_gpu_before){is->n, is->amount, is->last_ns};
	h->gpu_run(h->ctx, &run);
}

bool uprobe_gpu_event(struct gs_uprobe *probe, const struct gs_event *event)
{
	const struct gs_event_gpu *e = (const void *)event;

	if (event->kind != GS_EV_GPU)
		return false;
	if (event->bytes == sizeof(*e) && probe->gpu_before && probe->handler->gpu_run &&
	    e->process < GS_GPU_QUEUE_PROCESS_MAX && e->row < GS_GPU_QUEUE_ROWS)
		hand_over_row(probe, probe->handler, e->process, e->row, e->pid, &e->is);
	return true;
}

static void release_process(struct gs_uprobe *probe, uint32_t index)
{
	struct gs_gpu_queue_process *p = &probe->kernel.gpu_processes[index];

	memset(p, 0, sizeof(*p));
	memset(&probe->gpu_before[index * GS_GPU_QUEUE_ROWS], 0,
	       GS_GPU_QUEUE_ROWS * sizeof(*probe->gpu_before));
	bpf_map_update_elem(probe->kernel.free_gpu_fd, NULL, &index, BPF_ANY);
}

void uprobe_gpu_drain(struct gs_uprobe *probe, const struct gs_uprobe_handler *h)
{
	struct gs_gpu_queue_process *processes = probe->kernel.gpu_processes;
	uint32_t n;

	if (!h->gpu_run || !probe->gpu_before || !processes)
		return;
	n = __atomic_load_n(&probe->kernel.state->n_gpu_processes, __ATOMIC_ACQUIRE) + 1;
	n = gs_window_reach(probe->kernel.gpu_window, n);
	for (uint32_t i = 1; i < n; i++) {
		struct gs_gpu_queue_process *p = &processes[i];
		bool ended = __atomic_load_n(&p->ended, __ATOMIC_ACQUIRE);

		if (!p->pid)
			continue;
		/* What is still in the ring of it comes first. */
		if (ended)
			gs_uprobe_poll(probe, h);
		for (uint32_t row = 0; row < p->n_rows && row < GS_GPU_QUEUE_ROWS; row++) {
			struct gs_gpu_queue_row now;

			memcpy(&now, &p->rows[row], sizeof(now));
			hand_over_row(probe, h, i, row, p->pid, &now);
		}
		if (ended)
			release_process(probe, i);
	}
}
