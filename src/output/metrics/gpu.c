/* The GPUs of a snapshot as families of Prometheus: the table's fields, identity, links, processes,
 * XIDs and why what is missing is missing. */
#include <errno.h>
#include <string.h>

#include "output/metrics/metrics_int.h"

unsigned gs_metrics_names_parse(const char *text)
{
	static const struct {
		const char *word;
		enum gs_metrics_names names;
	} words[] = {{"native", GS_METRICS_NATIVE},
		     {"dcgm", GS_METRICS_DCGM},
		     {"dcgm-new", GS_METRICS_DCGM_NEW}};
	unsigned set = 0;

	while (*text) {
		size_t n = strcspn(text, ","), i = 0;

		while (i < GS_ARRAY_LEN(words) &&
		       (strlen(words[i].word) != n || memcmp(words[i].word, text, n) != 0))
			i++;
		if (i == GS_ARRAY_LEN(words) || (text[n] && !text[n + 1]))
			return 0;
		set |= words[i].names;
		text += n + (text[n] == ',');
	}
	return set;
}

int gs_metrics_gpus_add(struct gs_metrics_gpus *g, uint32_t gpu,
			const struct gs_metrics_label *labels, size_t n_labels)
{
	int r = 0;

	g->label_offset[gpu] = g->labels.bytes;
	for (size_t i = 0; r == 0 && (g->names & (GS_METRICS_NATIVE | GS_METRICS_HARDWARE)) &&
			   i < g->options->n_labels;
	     i++)
		r = gs_metrics_put_label(&g->labels, g->options->labels[i].name,
					 g->options->labels[i].value);
	for (size_t i = 0; r == 0 && i < n_labels; i++)
		r = gs_metrics_put_label(&g->labels, labels[i].name, labels[i].value);
	return r == 0 ? gs_buf_put(&g->labels, "", 1) : r;
}

static int native_labels(struct gs_metrics_gpus *g)
{
	int r = 0;

	for (uint32_t i = 0; r == 0 && i < g->snapshot->n_gpus; i++) {
		const struct gs_gpu_info *info = &g->snapshot->info[i];
		char index[16], instance[16] = "";
		struct gs_metrics_label labels[] = {
			{"gpu", index},
			{"uuid", info->uuid},
			{"pci_bus_id", info->pci_bus_id},
			{"gpu_instance", instance},
			{"mig_profile", info->mig_profile},
		};

		snprintf(index, sizeof(index), "%u", info->index);
		if (info->is_mig && info->gpu_instance >= 0)
			snprintf(instance, sizeof(instance), "%d", info->gpu_instance);
		r = gs_metrics_gpus_add(g, i, labels, GS_ARRAY_LEN(labels));
		g->hidden[i] = gs_metrics_gpu_hidden(g, i);
	}
	return r;
}

/* A sample's time of day. */
static int64_t wall_ns_of(const struct gs_gpu_snapshot *s, uint32_t gpu)
{
	return s->wall_ns - (int64_t)(s->time_ns - s->sample[gpu].time_ns);
}

/* When a value was read, in ms since 1970; 0 when lines carry no time. */
static int64_t time_ms_of(const struct gs_metrics_gpus *g, uint32_t gpu, unsigned field)
{
	const struct gs_gpu_snapshot *s = g->snapshot;
	uint64_t read_ns = s->sample[gpu].part_ns[gs_gpu_part_of(field)];

	if (!g->time_ms[gpu] || !read_ns || g->options->sample_timestamps)
		return g->time_ms[gpu];
	return (s->wall_ns - (int64_t)(s->time_ns - read_ns)) / 1000000;
}

/* What packaging/prometheus/alerts.yml asks for of gpu_field.h. */
static bool is_for_alerts(const char *family)
{
	static const char *const families[] = {
		"gpu_utilization_ratio",         "gpu_temperature_celsius",
		"gpu_temperature_limit_celsius", "gpu_throttle_seconds",
		"gpu_recovery_action",           "gpu_row_remap_failed",
		"gpu_row_remap_pending",         "gpu_ecc_volatile_errors",
		"gpu_pcie_link_width",           "gpu_nvlink_active_links",
	};

	for (size_t i = 0; i < GS_ARRAY_LEN(families); i++)
		if (strcmp(family, families[i]) == 0)
			return true;
	return false;
}

static void write_families(struct gs_metrics *p, const struct gs_metrics_gpus *g)
{
	static const char *const units[] = {"",        "ratio",   "bytes",
					    "celsius", "watts",   "joules",
					    "hertz",   "seconds", "bytes_per_second"};

	for (unsigned f = 0; f < GS_GPU_FIELD_COUNT; f++) {
		const struct gs_gpu_field_info *first = gs_gpu_field_info(f);
		char name[128];

		/* Rows of one family need not stand together in the table; its first opens it. */
		for (unsigned before = 0; first && before < f; before++)
			if (strcmp(gs_gpu_field_info(before)->family, first->family) == 0)
				first = NULL;
		if (!first || (g->alerts_only && !is_for_alerts(first->family)))
			continue;
		snprintf(name, sizeof(name), "gpuscope_%s", first->family);
		gs_metrics_family(p, name, first->counter ? GS_METRICS_COUNTER : GS_METRICS_GAUGE,
				  units[first->unit], first->help);
		for (unsigned k = f; k < GS_GPU_FIELD_COUNT; k++) {
			const struct gs_gpu_field_info *info = gs_gpu_field_info(k);
			struct gs_metrics_label label = {info->label, info->label_value};

			if (strcmp(info->family, first->family) != 0)
				continue;
			for (uint32_t i = 0; i < g->snapshot->n_gpus; i++)
				if (!g->hidden[i] && gs_gpu_has(&g->snapshot->sample[i], k))
					gs_metrics_line(p, gs_metrics_gpu_labels(g, i), &label,
							info->label[0] ? 1 : 0,
							g->snapshot->sample[i].value[k],
							time_ms_of(g, i, k));
		}
	}
}

static void write_identity(struct gs_metrics *p, const struct gs_metrics_gpus *g)
{
	static const char *const vendors[] = {"", "nvidia", "amd"};

	gs_metrics_family(p, "gpuscope_gpu", GS_METRICS_INFO, "", "Identity of the GPU; always 1.");
	for (uint32_t i = 0; i < g->snapshot->n_gpus; i++) {
		const struct gs_gpu_info *info = &g->snapshot->info[i];
		char device[24] = "", numa[16] = "", capability[32] = "";
		struct gs_metrics_label labels[] = {
			{"name", info->name},
			{"vendor",
			 info->vendor < GS_ARRAY_LEN(vendors) ? vendors[info->vendor] : ""},
			{"architecture", info->architecture},
			{"compute_capability", capability},
			{"serial", info->serial},
			{"vbios", info->vbios},
			{"driver_version", info->driver_version},
			{"cuda_version", info->cuda_version},
			{"device", device},
			{"numa_node", numa},
			{"mig", info->is_mig        ? "instance"
				: info->mig_enabled ? "enabled"
						    : ""},
		};

		if (info->minor >= 0)
			snprintf(device, sizeof(device), "nvidia%d", info->minor);
		if (info->numa_node >= 0)
			snprintf(numa, sizeof(numa), "%d", info->numa_node);
		if (info->compute_major >= 0 && info->compute_minor >= 0)
			snprintf(capability, sizeof(capability), "%d.%d", info->compute_major,
				 info->compute_minor);
		gs_metrics_line(p, gs_metrics_gpu_labels(g, i), labels, GS_ARRAY_LEN(labels), 1, 0);
	}
}

static void write_presence(struct gs_metrics *p, const struct gs_metrics_gpus *g)
{
	const struct gs_gpu_snapshot *s = g->snapshot;

	gs_metrics_family(p, "gpuscope_gpu_lost", GS_METRICS_GAUGE, "",
			  "1 when the GPU no longer answers; its other values are then left out.");
	for (uint32_t i = 0; i < s->n_gpus; i++)
		gs_metrics_line(p, gs_metrics_gpu_labels(g, i), NULL, 0, s->sample[i].lost ? 1 : 0,
				0);
	gs_metrics_family(p, "gpuscope_gpu_sample_timestamp_seconds", GS_METRICS_GAUGE, "seconds",
			  "When the GPU was last read, in seconds since 1970.");
	for (uint32_t i = 0; i < s->n_gpus; i++)
		if (s->sample[i].time_ns)
			gs_metrics_line(p, gs_metrics_gpu_labels(g, i), NULL, 0,
					(double)(wall_ns_of(s, i) / 1000000) / 1e3, 0);
}

static void write_missing(struct gs_metrics *p, const struct gs_metrics_gpus *g)
{
	const struct gs_gpu_snapshot *s = g->snapshot;

	gs_metrics_family(p, "gpuscope_gpu_values_timestamp_seconds", GS_METRICS_GAUGE, "seconds",
			  "When a set of values was last read, in seconds since 1970.");
	for (uint32_t i = 0; i < s->n_gpus; i++)
		for (unsigned part = 0; !g->hidden[i] && part < GS_GPU_PARTS; part++) {
			struct gs_metrics_label label = {"values", gs_gpu_part_name(part)};
			uint64_t read_ns = s->sample[i].part_ns[part];

			if (read_ns)
				gs_metrics_line(
					p, gs_metrics_gpu_labels(g, i), &label, 1,
					(double)((s->wall_ns - (int64_t)(s->time_ns - read_ns)) /
						 1000000) /
						1e3,
					0);
		}
	gs_metrics_family(p, "gpuscope_gpu_values_unavailable", GS_METRICS_GAUGE, "",
			  "Values of the GPU that are missing, by reason.");
	for (uint32_t i = 0; i < s->n_gpus; i++)
		for (unsigned why = GS_GPU_REASON_NOT_SUPPORTED; why <= GS_GPU_REASON_IMPLAUSIBLE;
		     why++) {
			struct gs_metrics_label label = {"reason", gs_gpu_reason_name(why)};
			unsigned n = 0;

			for (unsigned f = 0; f < GS_GPU_FIELD_COUNT; f++)
				n += s->sample[i].why[f] == why;
			gs_metrics_line(p, gs_metrics_gpu_labels(g, i), &label, 1, n, 0);
		}
}

static void link_family(struct gs_metrics *p, const struct gs_metrics_gpus *g, const char *name,
			enum gs_metrics_kind kind, const char *unit, const char *help)
{
	gs_metrics_family(p, name, kind, unit, help);
	for (uint32_t i = 0; i < g->snapshot->n_gpus; i++) {
		const struct gs_gpu_sample *s = &g->snapshot->sample[i];

		for (uint32_t k = 0; !g->hidden[i] && k < s->n_links && k < GS_GPU_LINK_MAX; k++) {
			const struct gs_gpu_link *l = &s->link[k];
			char number[16];
			struct gs_metrics_label labels[3] = {{"link", number}};
			const char *lead = gs_metrics_gpu_labels(g, i);

			snprintf(number, sizeof(number), "%u", k);
			if (!l->present)
				continue;
			if (kind == GS_METRICS_GAUGE) {
				labels[1] = (struct gs_metrics_label){"remote_pci_bus_id",
								      l->remote_bus_id};
				gs_metrics_line(p, lead, labels, 2, l->up ? 1 : 0, g->time_ms[i]);
			} else if (unit[0] && l->have_bytes) {
				labels[1] = (struct gs_metrics_label){"direction", "tx"};
				gs_metrics_line(p, lead, labels, 2, (double)l->tx_bytes,
						g->time_ms[i]);
				labels[1].value = "rx";
				gs_metrics_line(p, lead, labels, 2, (double)l->rx_bytes,
						g->time_ms[i]);
			} else if (!unit[0] && l->have_errors) {
				labels[1] = (struct gs_metrics_label){"kind", "crc"};
				gs_metrics_line(p, lead, labels, 2, (double)l->crc_errors,
						g->time_ms[i]);
				labels[1].value = "replay";
				gs_metrics_line(p, lead, labels, 2, (double)l->replay_errors,
						g->time_ms[i]);
				labels[1].value = "recovery";
				gs_metrics_line(p, lead, labels, 2, (double)l->recovery_errors,
						g->time_ms[i]);
			}
			for (unsigned c = 0;
			     kind == GS_METRICS_COUNTER && !unit[0] && c < GS_GPU_LINK_COUNTS;
			     c++) {
				if (!(l->have_counts >> c & 1))
					continue;
				labels[1].name = "kind";
				labels[1].value =
					gs_gpu_field_info(GS_GPU_LINK_COUNT_FIELD(c))->label_value;
				gs_metrics_line(p, lead, labels, 2, (double)l->count[c],
						g->time_ms[i]);
			}
		}
	}
}

static void xid_family(struct gs_metrics *p, const struct gs_metrics_gpus *g)
{
	gs_metrics_family(p, "gpuscope_gpu_xid_errors", GS_METRICS_COUNTER, "",
			  "XID errors seen since the agent started, by code.");
	for (size_t i = 0; i < g->n_xids; i++) {
		const struct gs_metrics_xid *x = &g->xids[i];
		const char *lead = NULL;
		char code[16];
		struct gs_metrics_label labels[] = {
			{"uuid", x->uuid}, {"pci_bus_id", x->pci_bus_id}, {"xid", code}};

		snprintf(code, sizeof(code), "%u", x->xid);
		for (uint32_t k = 0; !lead && g->snapshot && k < g->snapshot->n_gpus; k++)
			if (strcmp(g->snapshot->info[k].uuid, x->uuid) == 0)
				lead = gs_metrics_gpu_labels(g, k);
		if (lead)
			gs_metrics_line(p, lead, labels + 2, 1, (double)x->count, 0);
		else
			gs_metrics_line(p, "", labels, 3, (double)x->count, 0);
	}
}

/* --- processes --- */

static int by_memory(const void *a, const void *b)
{
	const struct gs_gpu_process *x = *(const struct gs_gpu_process *const *)a,
				    *y = *(const struct gs_gpu_process *const *)b;

	return x->used_bytes < y->used_bytes ? 1 : x->used_bytes > y->used_bytes ? -1 : 0;
}

static void process_line(struct gs_metrics *p, const struct gs_metrics_gpus *g,
			 const struct gs_gpu_process *x, const char *engine, double value)
{
	char pid[16];
	struct gs_metrics_label labels[] = {{"pid", pid},
					    {"comm", x->comm},
					    {"user", x->user},
					    {"container", x->container},
					    {"engine", engine}};

	snprintf(pid, sizeof(pid), "%u", x->pid);
	gs_metrics_line(p, gs_metrics_gpu_labels(g, x->gpu), labels, GS_ARRAY_LEN(labels), value,
			g->time_ms[x->gpu]);
}

static void process_families(struct gs_metrics *p, const struct gs_metrics_gpus *g,
			     struct gs_gpu_process *const *list, uint32_t n)
{
	static const struct {
		const char *engine;
		size_t offset;
	} shares[] = {
		{"sm", offsetof(struct gs_gpu_process, sm_ratio)},
		{"memory", offsetof(struct gs_gpu_process, mem_ratio)},
		{"encoder", offsetof(struct gs_gpu_process, enc_ratio)},
		{"decoder", offsetof(struct gs_gpu_process, dec_ratio)},
		{"jpeg", offsetof(struct gs_gpu_process, jpg_ratio)},
		{"ofa", offsetof(struct gs_gpu_process, ofa_ratio)},
	};

	gs_metrics_family(p, "gpuscope_gpu_process_memory_used_bytes", GS_METRICS_GAUGE, "bytes",
			  "Device memory of a process.");
	for (uint32_t i = 0; i < n; i++)
		if (list[i]->used_bytes >= 0)
			process_line(p, g, list[i], "", (double)list[i]->used_bytes);
	gs_metrics_family(
		p, "gpuscope_gpu_process_utilization_ratio", GS_METRICS_GAUGE, "ratio",
		"Share of an engine of the GPU that a process used since the previous sample.");
	for (uint32_t i = 0; i < n; i++)
		for (size_t k = 0; k < GS_ARRAY_LEN(shares); k++) {
			double share = *(const double *)((const char *)list[i] + shares[k].offset);

			if (share >= 0)
				process_line(p, g, list[i], shares[k].engine, share);
		}
}

static bool same_process(const struct gs_gpu_process *a, const struct gs_gpu_process *b)
{
	return a->pid == b->pid && a->gpu == b->gpu;
}

static void write_processes(struct gs_metrics *p, const struct gs_metrics_gpus *g,
			    unsigned *ret_dropped)
{
	const struct gs_gpu_snapshot *s = g->snapshot;
	GS_FREE struct gs_gpu_process **list = calloc(s->n_processes + 1, sizeof(void *));
	GS_FREE uint32_t *count = calloc(s->n_gpus + 1, sizeof(*count));
	uint32_t n = 0;

	if (!list || !count) {
		p->error = -ENOMEM;
		return;
	}
	for (uint32_t i = 0; i < s->n_processes; i++) {
		struct gs_gpu_process *x = &s->process[i];
		bool again = false;

		if (x->ended || x->gpu >= s->n_gpus || g->hidden[x->gpu])
			continue;
		/* A line given twice makes Prometheus refuse the whole scrape. */
		for (uint32_t k = 0; k < n && !again; k++)
			again = same_process(list[k], x);
		if (again)
			continue;
		count[x->gpu]++;
		list[n++] = x;
	}
	gs_metrics_family(p, "gpuscope_gpu_processes", GS_METRICS_GAUGE, "",
			  "Processes on the GPU.");
	for (uint32_t i = 0; i < s->n_gpus; i++)
		if (!g->hidden[i])
			gs_metrics_line(p, gs_metrics_gpu_labels(g, i), NULL, 0, count[i],
					g->time_ms[i]);
	if (!g->options->processes || g->alerts_only)
		return;
	qsort(list, n, sizeof(void *), by_memory);
	if (n > g->options->max_processes) {
		*ret_dropped = n - g->options->max_processes;
		n = g->options->max_processes;
	}
	process_families(p, g, list, n);
}

/* --- the whole --- */

static void write_native(struct gs_metrics *p, const struct gs_metrics_gpus *g,
			 unsigned *ret_dropped)
{
	if (!g->alerts_only)
		write_identity(p, g);
	write_presence(p, g);
	if (!g->alerts_only)
		write_missing(p, g);
	write_families(p, g);
	if (g->options->links && !g->alerts_only) {
		link_family(p, g, "gpuscope_gpu_nvlink_link_up", GS_METRICS_GAUGE, "",
			    "1 when this NVLink is up.");
		link_family(p, g, "gpuscope_gpu_nvlink_link_bytes", GS_METRICS_COUNTER, "bytes",
			    "Bytes over this NVLink; tx: sent by the GPU.");
		link_family(p, g, "gpuscope_gpu_nvlink_link_errors", GS_METRICS_COUNTER, "",
			    "Errors of this NVLink.");
	}
	write_processes(p, g, ret_dropped);
}

static void driver_state(struct gs_metrics *p, const struct gs_gpu_snapshot *s,
			 const struct gs_metrics_gpu_options *o)
{
	struct gs_buf lead = GS_BUF_INIT(64 << 10);
	int r = 0;

	for (size_t i = 0; r == 0 && i < o->n_labels; i++)
		r = gs_metrics_put_label(&lead, o->labels[i].name, o->labels[i].value);
	if (r == 0)
		r = gs_buf_put(&lead, "", 1);
	if (r < 0)
		p->error = r;
	gs_metrics_family(p, "gpuscope_driver_state", GS_METRICS_GAUGE, "",
			  "1 for the state that the GPU driver is in, 0 for the others.");
	for (unsigned i = 0; i <= GS_GPU_STATE_FAILED; i++) {
		struct gs_metrics_label label = {"state", gs_gpu_state_name(i)};

		if (r == 0)
			gs_metrics_line(p, (const char *)lead.data, &label, 1, s->state == i, 0);
	}
	gs_buf_fini(&lead);
}

/* All of one set of names. 0 or -ENOMEM. */
static int write_names(struct gs_metrics *p, struct gs_metrics_gpus *g, enum gs_metrics_names names,
		       unsigned *ret_dropped)
{
	int r;

	g->names = names;
	gs_buf_reset(&g->labels);
	r = names == GS_METRICS_NATIVE     ? native_labels(g)
	    : names == GS_METRICS_HARDWARE ? gs_metrics_hardware_labels(g)
					   : gs_metrics_dcgm_labels(g);
	if (r < 0)
		return r;
	if (names == GS_METRICS_NATIVE)
		write_native(p, g, ret_dropped);
	else if (names == GS_METRICS_HARDWARE)
		gs_metrics_hardware(p, g);
	else
		gs_metrics_dcgm(p, g);
	return 0;
}

void gs_metrics_gpu(struct gs_metrics *p, const struct gs_gpu_snapshot *gpus,
		    const struct gs_metrics_xid *xids, size_t n_xids,
		    const struct gs_metrics_gpu_options *options, unsigned *ret_dropped)
{
	unsigned names = options->names & ~(unsigned)GS_METRICS_HARDWARE
				 ? options->names
				 : options->names | GS_METRICS_NATIVE;
	struct gs_metrics_gpus g = {.snapshot = gpus,
				    .xids = xids,
				    .n_xids = n_xids,
				    .options = options,
				    .names = GS_METRICS_NATIVE,
				    .alerts_only = !(names & GS_METRICS_NATIVE),
				    .labels = GS_BUF_INIT(8 << 20)};
	uint32_t n = gpus ? gpus->n_gpus : 0;
	int r = 0;

	*ret_dropped = 0;
	if (p->error)
		return;
	g.label_offset = calloc(n + 1, sizeof(*g.label_offset));
	g.time_ms = calloc(n + 1, sizeof(*g.time_ms));
	g.hidden = calloc(n + 1, sizeof(*g.hidden));
	if (!g.label_offset || !g.time_ms || !g.hidden)
		r = -ENOMEM;
	for (uint32_t i = 0; r == 0 && options->timestamps && i < n; i++)
		g.time_ms[i] = wall_ns_of(gpus, i) / 1000000;
	if (r == 0 && gpus) {
		driver_state(p, gpus, options);
		r = write_names(p, &g, GS_METRICS_NATIVE, ret_dropped);
	}
	if (r == 0)
		xid_family(p, &g);
	if (r == 0 && gpus && (names & GS_METRICS_DCGM))
		r = write_names(p, &g, GS_METRICS_DCGM, ret_dropped);
	if (r == 0 && gpus && (names & GS_METRICS_DCGM_NEW))
		r = write_names(p, &g, GS_METRICS_DCGM_NEW, ret_dropped);
	if (r == 0 && gpus && (names & GS_METRICS_HARDWARE))
		r = write_names(p, &g, GS_METRICS_HARDWARE, ret_dropped);
	if (r < 0)
		p->error = r;
	gs_buf_fini(&g.labels);
	free(g.label_offset);
	free(g.time_ms);
	free(g.hidden);
}
