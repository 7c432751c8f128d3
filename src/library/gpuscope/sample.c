/* Makes samples of snapshots, in lent memory. */
#include "library/gpuscope/library_int.h"

#include <math.h>

const char *gs_device_key(uint32_t number)
{
	const struct gs_gpu_field_info *field = gs_gpu_field_info(number);

	return field ? field->key : NULL;
}

/* Snapshots mark an unknown value by a negative number, samples by NAN. */
static double known_ratio(double ratio)
{
	return ratio >= 0 ? ratio : NAN;
}

static struct gs_device *make_device(struct lent_memory *m, const struct gs_gpu_info *info,
				     const struct gs_gpu_sample *s)
{
	struct gs_device *d = LENT_NEW(m, struct gs_device);
	double *values = lent_alloc(m, GS_GPU_FIELD_COUNT * sizeof(*values));

	if (!d || !values)
		return NULL;
	for (unsigned i = 0; i < GS_GPU_FIELD_COUNT; i++)
		values[i] = s->lost ? NAN : gs_gpu_value(s, (enum gs_gpu_field)i);
	d->index = info->index;
	d->is_mig = info->is_mig;
	d->gpu_instance = info->is_mig ? info->gpu_instance : -1;
	d->compute_instance = info->is_mig ? info->compute_instance : -1;
	d->is_lost = s->lost;
	d->values = values;
	d->n_values = GS_GPU_FIELD_COUNT;
	d->time_ns = s->time_ns;
	d->name = lent_text(m, info->name);
	d->uuid = lent_text(m, info->uuid);
	d->pci_bus_id = lent_text(m, info->pci_bus_id);
	d->vendor = gs_gpu_vendor_name(info->vendor);
	d->driver_version = lent_text(m, info->driver_version);
	d->utilization_ratio = values[GS_GPU_UTIL];
	d->memory_activity_ratio = values[GS_GPU_MEM_UTIL];
	d->encoder_ratio = values[GS_GPU_ENC_UTIL];
	d->decoder_ratio = values[GS_GPU_DEC_UTIL];
	d->memory_total_bytes = values[GS_GPU_MEM_TOTAL];
	d->memory_used_bytes = values[GS_GPU_MEM_USED];
	d->temperature_celsius = values[GS_GPU_TEMP_GPU];
	d->fan_ratio = values[GS_GPU_FAN];
	d->power_watts = values[GS_GPU_POWER];
	d->power_limit_watts = values[GS_GPU_POWER_LIMIT];
	return d;
}

static const char *kind_word(uint32_t kind)
{
	bool computes = kind & (GS_GPU_PROCESS_COMPUTE | GS_GPU_PROCESS_MPS);

	if (kind & GS_GPU_PROCESS_MPS)
		return kind & GS_GPU_PROCESS_GRAPHICS ? "mps+graphics" : "mps";
	if (kind & GS_GPU_PROCESS_GRAPHICS)
		return computes ? "compute+graphics" : "graphics";
	return computes ? "compute" : "";
}

static struct gs_device_process *make_device_process(struct lent_memory *m,
						     const struct gs_gpu_snapshot *gpu,
						     const struct gs_gpu_process *from)
{
	struct gs_device_process *p = LENT_NEW(m, struct gs_device_process);

	if (!p)
		return NULL;
	p->pid = from->pid;
	p->device = from->gpu;
	p->gpu_index = from->gpu < gpu->n_gpus ? gpu->info[from->gpu].index : 0;
	p->uid = from->uid;
	p->used_bytes = from->used_bytes;
	p->sm_ratio = known_ratio(from->sm_ratio);
	p->memory_ratio = known_ratio(from->mem_ratio);
	p->encoder_ratio = known_ratio(from->enc_ratio);
	p->decoder_ratio = known_ratio(from->dec_ratio);
	p->jpeg_ratio = known_ratio(from->jpg_ratio);
	p->optical_flow_ratio = known_ratio(from->ofa_ratio);
	p->start_ns = from->start_ns;
	p->kind = kind_word(from->kind);
	p->comm = lent_text(m, from->comm);
	p->user = lent_text(m, from->user);
	p->container = lent_text(m, from->container);
	p->job = lent_text(m, from->job);
	p->cmdline = lent_text(m, from->cmdline);
	return p;
}

static struct gs_device_event *make_event(struct lent_memory *m, const struct gs_gpu_event *from)
{
	struct gs_device_event *e = LENT_NEW(m, struct gs_device_event);

	if (!e)
		return NULL;
	e->time_ns = from->time_ns;
	e->xid = from->xid;
	e->pci_bus_id = lent_text(m, from->pci_bus_id);
	e->uuid = lent_text(m, from->uuid);
	e->text = lent_text(m, from->text);
	return e;
}

static struct gs_machine *make_machine(struct lent_memory *m, const struct gs_host_sample *from)
{
	struct gs_machine *h = LENT_NEW(m, struct gs_machine);

	if (!h)
		return NULL;
	h->n_cpus = from->n_cpus;
	h->n_tasks = from->n_tasks;
	h->n_running = from->n_running;
	h->cpu_ratio = known_ratio(from->cpu_ratio);
	h->iowait_ratio = known_ratio(from->iowait_ratio);
	h->load1 = known_ratio(from->load1);
	h->load5 = known_ratio(from->load5);
	h->load15 = known_ratio(from->load15);
	h->memory_total_bytes = from->mem_total_bytes;
	h->memory_used_bytes = from->mem_used_bytes;
	h->swap_total_bytes = from->swap_total_bytes;
	h->swap_used_bytes = from->swap_used_bytes;
	h->disk_read_bytes_per_s = known_ratio(from->disk_read_bps);
	h->disk_write_bytes_per_s = known_ratio(from->disk_write_bps);
	h->net_receive_bytes_per_s = known_ratio(from->net_rx_bps);
	h->net_send_bytes_per_s = known_ratio(from->net_tx_bps);
	return h;
}

static struct gs_machine_process *make_process(struct lent_memory *m,
					       const struct gs_host_process *from)
{
	struct gs_machine_process *p = LENT_NEW(m, struct gs_machine_process);
	const char state[2] = {from->state, '\0'};

	if (!p)
		return NULL;
	p->pid = from->pid;
	p->parent_pid = from->parent_pid;
	p->uid = from->uid;
	p->n_threads = from->n_threads;
	p->cpu_ratio = known_ratio(from->cpu_ratio);
	p->rss_bytes = from->rss_bytes;
	p->cpu_ns = from->cpu_ns;
	p->start_ns = from->start_ns;
	p->state = lent_text(m, state);
	p->comm = lent_text(m, from->comm);
	p->user = lent_text(m, from->user);
	p->container = lent_text(m, from->container);
	p->job = lent_text(m, from->job);
	p->cmdline = lent_text(m, from->cmdline);
	return p;
}

/* Makes an array of pointers. Failed allocations are noticed at the end, by memory->failed. */
#define MAKE_LIST(memory, type, n, list, n_list, made)                                             \
	do {                                                                                       \
		const type **at = (n) ? lent_alloc(memory, (n) * sizeof(*at)) : NULL;              \
		(list) = at;                                                                       \
		(n_list) = at ? (n) : 0;                                                           \
		for (uint32_t i = 0; at && i < (n); i++)                                           \
			at[i] = (made);                                                            \
	} while (0)

static void put_host(struct lent_memory *m, const struct gs_host_snapshot *host, uint32_t flags,
		     struct gs_sample *s)
{
	if (flags & (GS_MONITOR_HOST | GS_MONITOR_PROCESSES))
		s->machine = make_machine(m, &host->sample);
	if (flags & GS_MONITOR_PROCESSES)
		MAKE_LIST(m, struct gs_machine_process, host->n_processes, s->processes,
			  s->n_processes, make_process(m, &host->process[i]));
}

const struct gs_sample *sample_make(struct lent_memory *m, const struct gs_node_snapshot *node,
				    uint32_t flags)
{
	const struct gs_gpu_snapshot *gpu = node->gpu;
	struct gs_sample *s = LENT_NEW(m, struct gs_sample);

	if (!s)
		return NULL;
	s->head.kind = GS_ITEM_SAMPLE;
	s->time_ns = node->time_ns;
	s->wall_ns = node->wall_ns;
	s->host = lent_text(m, node->name);
	s->state = gs_gpu_state_name(gpu->state);
	s->state_text = lent_text(m, gpu->state_text);
	MAKE_LIST(m, struct gs_device, gpu->n_gpus, s->devices, s->n_devices,
		  make_device(m, &gpu->info[i], &gpu->sample[i]));
	MAKE_LIST(m, struct gs_device_process, gpu->n_processes, s->device_processes,
		  s->n_device_processes, make_device_process(m, gpu, &gpu->process[i]));
	MAKE_LIST(m, struct gs_device_event, gpu->n_events, s->events, s->n_events,
		  make_event(m, &gpu->event[i]));
	if (node->host)
		put_host(m, node->host, flags, s);
	return m->failed ? NULL : s;
}
