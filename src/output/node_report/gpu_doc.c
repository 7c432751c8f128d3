/*
 * A snapshot of GPUs as a tree for JSON and YAML: which keys there are. Values that are not there
 * are null under "values", and "missing" says why for those that should be there.
 */
#include <stdio.h>

#include "analysis/gpu_health/gpu_health.h"
#include "output/node_report/gpu_int.h"

static void put_info(struct gs_doc *doc, const struct gs_gpu_info *info)
{
	char capability[24] = "";

	if (info->compute_major >= 0)
		snprintf(capability, sizeof(capability), "%d.%d", info->compute_major,
			 info->compute_minor);
	gs_doc_put_u64(doc, "index", info->index);
	gs_doc_put_text(doc, "vendor", gs_gpu_vendor_name(info->vendor));
	gs_doc_put_text(doc, "uuid", info->uuid);
	gs_doc_put_text(doc, "pci_bus_id", info->pci_bus_id);
	gs_doc_put_text(doc, "name", info->name);
	gs_doc_put_text(doc, "serial", info->serial);
	gs_doc_put_text(doc, "vbios", info->vbios);
	gs_doc_put_text(doc, "driver_version", info->driver_version);
	gs_doc_put_text(doc, "cuda_version", info->cuda_version);
	gs_doc_put_text(doc, "architecture", info->architecture);
	gs_doc_put_text(doc, "compute_capability", capability);
	gs_doc_put_i64_if(doc, "sms", info->n_sms, info->n_sms >= 0);
	gs_doc_put_i64_if(doc, "minor", info->minor, info->minor >= 0);
	gs_doc_put_i64_if(doc, "numa_node", info->numa_node, info->numa_node >= 0);
	gs_doc_put_i64_if(doc, "persistence", info->persistence, info->persistence != 255);
	gs_doc_put_bool(doc, "mig_enabled", info->mig_enabled);
	gs_doc_put_bool(doc, "is_mig", info->is_mig);
	gs_doc_put_i64_if(doc, "gpu_instance", info->gpu_instance, info->gpu_instance >= 0);
	gs_doc_put_i64_if(doc, "compute_instance", info->compute_instance,
			  info->compute_instance >= 0);
	gs_doc_put_text(doc, "mig_profile", info->mig_profile);
}

static void put_links(struct gs_doc *doc, const struct gs_gpu_sample *v)
{
	unsigned n = v->n_links <= GS_GPU_LINK_MAX ? v->n_links : GS_GPU_LINK_MAX;

	gs_doc_begin_list(doc, "links", n);
	for (unsigned i = 0; i < n; i++) {
		const struct gs_gpu_link *l = &v->link[i];

		gs_doc_begin_flat(doc, NULL);
		gs_doc_put_u64(doc, "link", i);
		gs_doc_put_bool(doc, "up", l->up);
		gs_doc_put_u64_if(doc, "version", l->version, l->version != 0);
		gs_doc_put_text(doc, "remote_pci_bus_id", l->remote_bus_id);
		gs_doc_put_u64_if(doc, "tx_bytes", l->tx_bytes, l->have_bytes);
		gs_doc_put_u64_if(doc, "rx_bytes", l->rx_bytes, l->have_bytes);
		gs_doc_put_u64_if(doc, "crc_errors", l->crc_errors, l->have_errors);
		gs_doc_put_u64_if(doc, "replay_errors", l->replay_errors, l->have_errors);
		gs_doc_put_u64_if(doc, "recovery_errors", l->recovery_errors, l->have_errors);
		gs_doc_end(doc);
	}
	gs_doc_end(doc);
}

/* All conditions that hold, the worst first. */
static void put_health(struct gs_doc *doc, const struct gs_gpu_snapshot *s, unsigned gpu)
{
	char text[GS_GPU_HEALTH_TEXT_BYTES];
	struct gs_gpu_health h;

	gs_gpu_health_judge(s, gpu, &h);
	gs_doc_begin_map(doc, "health");
	gs_doc_put_text(doc, "state", gs_gpu_health_state_name(h.state));
	gs_doc_put_text(doc, "severity", gs_gpu_severity_name(h.severity));
	gs_doc_begin_list(doc, "conditions", (size_t)__builtin_popcount(h.holds));
	for (unsigned c = 0; c < GS_GPU_CONDITION_COUNT; c++) {
		if (!(h.holds >> c & 1))
			continue;
		gs_doc_begin_map(doc, NULL);
		gs_doc_put_text(doc, "condition", gs_gpu_condition_key(c));
		gs_doc_put_text(doc, "severity",
				gs_gpu_severity_name(gs_gpu_condition_severity(c)));
		gs_doc_put_text(doc, "reason", gs_gpu_health_text(s, gpu, c, text));
		gs_doc_put_text(doc, "advice", gs_gpu_condition_advice(c));
		gs_doc_put_u64_if(doc, "since_boot_ns", s->sample[gpu].past.since_ns[c],
				  s->sample[gpu].past.since_ns[c] != 0);
		gs_doc_end(doc);
	}
	gs_doc_end(doc);
	gs_doc_end(doc);
}

static void put_gpu(struct gs_doc *doc, const struct gs_gpu_snapshot *s, unsigned gpu,
		    const struct gs_report_gpu_style *style)
{
	const struct gs_gpu_sample *v = &s->sample[gpu];
	unsigned n = style->n_fields ? style->n_fields : GS_GPU_FIELD_COUNT, missing = 0;

	gs_doc_begin_map(doc, NULL);
	put_info(doc, &s->info[gpu]);
	gs_doc_put_bool(doc, "lost", v->lost);
	gs_doc_put_u64(doc, "time_boot_ns", v->time_ns);
	gs_doc_put_u64_if(doc, "elapsed_ns", v->elapsed_ns, v->elapsed_ns != 0);
	gs_doc_begin_map(doc, "values");
	for (unsigned i = 0; i < n; i++) {
		unsigned f = style->n_fields ? (unsigned)style->fields[i] : i;

		if (gs_gpu_has(v, f))
			gs_doc_put_double(doc, gs_gpu_field_info(f)->key, v->value[f]);
		else
			gs_doc_put_null(doc, gs_gpu_field_info(f)->key);
		missing += !gs_gpu_has(v, f);
	}
	gs_doc_end(doc);
	doc->ops->begin(doc, "missing", false, missing == 0, false);
	for (unsigned i = 0; i < n; i++) {
		unsigned f = style->n_fields ? (unsigned)style->fields[i] : i;

		if (!gs_gpu_has(v, f))
			gs_doc_put_text(doc, gs_gpu_field_info(f)->key,
					gs_gpu_reason_name(v->why[f]));
	}
	gs_doc_end(doc);
	/* Which of the ways to these values it was. */
	if (v->pcie_measured)
		gs_doc_put_text(doc, "pcie_rate_source", "nvmlDeviceGetPcieThroughput, 20 ms");
	if (!style->n_fields) {
		put_links(doc, v);
		put_health(doc, s, gpu);
	}
	gs_doc_end(doc);
}

static void put_ratio(struct gs_doc *doc, const char *key, double v)
{
	if (v < 0)
		gs_doc_put_null(doc, key);
	else
		gs_doc_put_double(doc, key, v);
}

static void put_processes(struct gs_doc *doc, const struct gs_gpu_snapshot *s)
{
	gs_doc_begin_list(doc, "processes", s->n_processes);
	for (unsigned i = 0; i < s->n_processes; i++) {
		const struct gs_gpu_process *p = &s->process[i];

		gs_doc_begin_map(doc, NULL);
		gs_doc_put_u64(doc, "gpu", s->info[p->gpu].index);
		gs_doc_put_text(doc, "gpu_uuid", s->info[p->gpu].uuid);
		gs_doc_put_u64(doc, "pid", p->pid);
		gs_doc_put_bool(doc, "compute", p->kind & GS_GPU_PROCESS_COMPUTE);
		gs_doc_put_bool(doc, "graphics", p->kind & GS_GPU_PROCESS_GRAPHICS);
		gs_doc_put_bool(doc, "mps", p->kind & GS_GPU_PROCESS_MPS);
		gs_doc_put_u64_if(doc, "uid", p->uid, p->uid != UINT32_MAX);
		gs_doc_put_text(doc, "user", p->user);
		gs_doc_put_i64_if(doc, "gpu_memory_bytes", p->used_bytes, p->used_bytes >= 0);
		put_ratio(doc, "sm_ratio", p->sm_ratio);
		put_ratio(doc, "memory_ratio", p->mem_ratio);
		put_ratio(doc, "encoder_ratio", p->enc_ratio);
		put_ratio(doc, "decoder_ratio", p->dec_ratio);
		put_ratio(doc, "jpeg_ratio", p->jpg_ratio);
		put_ratio(doc, "ofa_ratio", p->ofa_ratio);
		gs_doc_put_u64_if(doc, "start_boot_ns", p->start_ns, p->start_ns != 0);
		gs_doc_put_bool(doc, "ended", p->ended);
		gs_doc_put_bool(doc, "gone", p->gone);
		gs_doc_put_text(doc, "container", p->container);
		gs_doc_put_text(doc, "job", p->job);
		gs_doc_put_text(doc, "comm", p->comm);
		gs_doc_put_text(doc, "command", p->cmdline);
		gs_doc_end(doc);
	}
	gs_doc_end(doc);
}

static void put_events(struct gs_doc *doc, const struct gs_gpu_snapshot *s)
{
	gs_doc_begin_list(doc, "events", s->n_events);
	for (unsigned i = 0; i < s->n_events; i++) {
		const struct gs_gpu_event *e = &s->event[i];

		gs_doc_begin_flat(doc, NULL);
		gs_doc_put_u64(doc, "time_boot_ns", e->time_ns);
		gs_doc_put_u64_if(doc, "xid", e->xid, e->xid != 0);
		gs_doc_put_text(doc, "pci_bus_id", e->pci_bus_id);
		gs_doc_put_text(doc, "gpu_uuid", e->uuid);
		gs_doc_put_bool(doc, "from_nvml", e->source & GS_GPU_EVENT_NVML);
		gs_doc_put_bool(doc, "from_kernel_log", e->source & GS_GPU_EVENT_KMSG);
		gs_doc_put_text(doc, "text", e->text);
		gs_doc_end(doc);
	}
	gs_doc_end(doc);
}

void gs_report_gpu_doc(struct gs_doc *doc, const struct gs_gpu_snapshot *s,
		       const struct gs_report_gpu_style *style)
{
	unsigned parts = style->parts ? style->parts : GS_GPU_SHOW_DEVICES | GS_GPU_SHOW_PROCESSES;

	gs_doc_begin_map(doc, NULL);
	gs_doc_put_version(doc);
	gs_doc_put_time(doc, "time", s->wall_ns);
	gs_doc_put_u64(doc, "time_boot_ns", s->time_ns);
	gs_doc_put_text(doc, "state", gs_gpu_state_name(s->state));
	gs_doc_put_text(doc, "state_text", s->state_text);
	gs_doc_put_u64(doc, "missed_samples", s->missed_samples);
	gs_doc_put_u64(doc, "failed_calls", s->failed_calls);
	gs_doc_put_u64(doc, "lost_events", s->lost_events);
	gs_doc_put_u64(doc, "read_ns", s->read_ns);
	if (parts & GS_GPU_SHOW_DEVICES) {
		gs_doc_begin_list(doc, "gpus", s->n_gpus);
		for (unsigned i = 0; i < s->n_gpus; i++)
			put_gpu(doc, s, i, style);
		gs_doc_end(doc);
	}
	if (parts & GS_GPU_SHOW_PROCESSES)
		put_processes(doc, s);
	put_events(doc, s);
	gs_doc_end(doc);
}
