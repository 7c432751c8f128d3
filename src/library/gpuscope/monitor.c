/* Functions of struct gs_monitor: samples of this machine, as `gpuscope gpu` and `gpuscope top` read them. */
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "analysis/gpu_health/gpu_health.h"
#include "core/base/mem.h"
#include "library/gpuscope/library_int.h"
#include "output/node_report/gpu.h"
#include "sources/gpu/gpu.h"
#include "sources/sampler/sampler.h"

struct gs_monitor {
	struct gs_err err;
	uint32_t flags;                 /* enum gs_monitor_flag */
	struct gs_gpu *gpu;             /* owned */
	struct gs_sampler *sampler;     /* owned; NULL: only GPUs are read */
	struct gs_node_snapshot *node;  /* owned; the last snapshot; NULL: none yet */
	struct gs_gpu_snapshot *before; /* owned; the GPUs of the snapshot before */
	char host[GS_HOST_NAME_BYTES];
	struct lent_memory memory;
	struct rendered text;
};

int gs_monitor_new(struct gs_monitor **ret_monitor)
{
	library_begin();
	*ret_monitor = calloc(1, sizeof(**ret_monitor));
	return *ret_monitor ? 0 : -ENOMEM;
}

void gs_monitor_free(struct gs_monitor *m)
{
	if (!m)
		return;
	gs_gpu_close(&m->gpu);
	gs_sampler_free(&m->sampler);
	gs_node_snapshot_free(&m->node);
	gs_gpu_snapshot_free(&m->before);
	lent_fini(&m->memory);
	rendered_fini(&m->text);
	free(m);
}

const char *gs_monitor_error(const struct gs_monitor *m)
{
	return m ? m->err.text : "no handle: out of memory";
}

static int fail_call(struct gs_monitor *m, int r)
{
	if (r < 0 && !m->err.text[0])
		gs_err_set(&m->err, r, "%s", strerror(-r));
	return r;
}

int gs_monitor_open(struct gs_monitor *m, const struct gs_monitor_options *options)
{
	const uint32_t known = GS_MONITOR_HOST | GS_MONITOR_PROCESSES | GS_MONITOR_NAMES;
	struct gs_monitor_options o = {0};
	struct gs_gpu_options go = {.size = sizeof(go)};
	sigset_t all, before;
	int r = 0;

	if (!m)
		return -EINVAL;
	m->err.text[0] = '\0';
	if (m->gpu)
		return gs_err_set(&m->err, -EBUSY, "this handle is already open");
	if (options)
		r = options_take(options, sizeof(o), &o, sizeof(o), &m->err);
	if (r == 0 && o.flags & ~known)
		r = gs_err_set(&m->err, -EINVAL, "flags: unknown bits 0x%x", o.flags & ~known);
	if (r < 0)
		return r;
	m->flags = o.flags;
	if (gethostname(m->host, sizeof(m->host) - 1) < 0)
		m->host[0] = '\0';
	go.nvml_path = o.nvml_path;
	go.hang_ns = o.call_timeout_ns;
	/* Threads inherit the signal mask of their creator. */
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	r = gs_gpu_open(&go, &m->gpu, &m->err);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	if (r == 0 && o.flags)
		r = gs_sampler_new(&m->sampler, &m->err);
	if (r < 0)
		gs_gpu_close(&m->gpu);
	return fail_call(m, r);
}

/* Reads the parts of a sample that were asked for. */
static int read_node(struct gs_monitor *m, struct gs_node_snapshot *node)
{
	int r = gs_gpu_read(m->gpu, &node->gpu);

	if (r == 0 && m->sampler)
		return gs_sampler_fill(m->sampler, m->flags & GS_MONITOR_PROCESSES,
				       m->flags & GS_MONITOR_NAMES, node);
	if (r == 0) {
		node->time_ns = node->gpu->time_ns;
		node->wall_ns = node->gpu->wall_ns;
		memcpy(node->name, m->host, sizeof(node->name));
	}
	return r;
}

/* Copies the jobs of processes on GPUs from the sampler, which has read the same processes. */
static void put_jobs(struct gs_gpu_snapshot *gpu, const struct gs_host_snapshot *host)
{
	for (uint32_t i = 0; host && i < gpu->n_processes; i++) {
		struct gs_gpu_process *p = &gpu->process[i];
		const struct gs_host_process *of =
			p->ended || p->gone ? NULL : gs_host_process_of(host, p->pid);

		if (of)
			memcpy(p->job, of->job, sizeof(p->job));
	}
}

int gs_monitor_read(struct gs_monitor *m, const struct gs_sample **ret_sample)
{
	struct gs_node_snapshot *node;
	const struct gs_sample *s;
	int r;

	if (!m)
		return -EINVAL;
	m->err.text[0] = '\0';
	if (!m->gpu)
		return gs_err_set(&m->err, -ENODATA, "this handle is not open");
	node = calloc(1, sizeof(*node));
	r = node ? read_node(m, node) : -ENOMEM;
	if (r < 0) {
		gs_node_snapshot_free(&node);
		return fail_call(m, r);
	}
	put_jobs(node->gpu, node->host);
	gs_gpu_snapshot_free(&m->before);
	if (m->node)
		m->before = gs_take(m->node->gpu);
	gs_node_snapshot_free(&m->node);
	m->node = node;
	gs_gpu_health_follow(m->before, node->gpu);
	lent_reset(&m->memory);
	s = sample_make(&m->memory, node, m->flags);
	if (!s)
		return fail_call(m, -ENOMEM);
	*ret_sample = s;
	return 0;
}

int gs_monitor_json(struct gs_monitor *m, const char **ret_text, size_t *ret_bytes)
{
	struct gs_report_gpu_style style = {.size = sizeof(style), .format = GS_SUMMARY_JSON};
	int r;

	if (!m)
		return -EINVAL;
	m->err.text[0] = '\0';
	if (!m->node)
		return gs_err_set(&m->err, -ENODATA, "no sample has been read yet");
	style.before = m->before;
	r = rendered_begin(&m->text);
	if (r == 0)
		r = rendered_end(&m->text, gs_report_gpu_write(m->text.out, m->node->gpu, &style));
	if (r < 0)
		return fail_call(m, r);
	*ret_text = m->text.text;
	if (ret_bytes)
		*ret_bytes = m->text.bytes;
	return 0;
}
