/* A snapshot of GPUs for people: a table of GPUs, one of processes, what happened, what is wrong.
 */
#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "analysis/gpu_health/gpu_health.h"
#include "core/base/fmt.h"
#include "core/base/mem.h"
#include "output/node_report/gpu_int.h"

#define COMMAND_MIN 16 /* columns of a command that are worth showing */

static_assert(GS_GPU_FIELD_COUNT + 2 <= GS_GRID_MAX, "all fields in one table");

static const int usual_fields[] = {
	GS_GPU_UTIL,          GS_GPU_MEM_USED,    GS_GPU_MEM_TOTAL,   GS_GPU_TEMP_GPU,
	GS_GPU_POWER,         GS_GPU_POWER_LIMIT, GS_GPU_CLOCK_SM,    GS_GPU_SM_ACTIVE,
	GS_GPU_PIPE_TENSOR,   GS_GPU_DRAM_ACTIVE, GS_GPU_PCIE_RX_BPS, GS_GPU_PCIE_TX_BPS,
	GS_GPU_NVLINK_RX_BPS,
};

const char *gs_report_gpu_value_text(char out[32], const struct gs_gpu_sample *s, unsigned field)
{
	double v = s->value[field];
	char n[GS_FMT_BYTES];

	if (!gs_gpu_has(s, field))
		return "-";
	switch (gs_gpu_field_info(field)->unit) {
	case GS_UNIT_OF_RATIO:
		snprintf(out, 32, v > 0 && v < 0.095 ? "%.1f%%" : "%.0f%%", v * 100);
		break;
	case GS_UNIT_OF_BYTES:
		snprintf(out, 32, "%s", gs_fmt_bytes(n, (uint64_t)v));
		break;
	case GS_UNIT_OF_BPS:
		snprintf(out, 32, "%s/s", gs_fmt_bytes(n, (uint64_t)v));
		break;
	case GS_UNIT_OF_CELSIUS:
		snprintf(out, 32, "%.0f C", v);
		break;
	case GS_UNIT_OF_WATTS:
		snprintf(out, 32, "%.0f W", v);
		break;
	case GS_UNIT_OF_JOULES:
		snprintf(out, 32, v < 1e6 ? "%.1f kJ" : "%.1f MJ", v < 1e6 ? v / 1e3 : v / 1e6);
		break;
	case GS_UNIT_OF_HERTZ:
		snprintf(out, 32, "%.0f MHz", v / 1e6);
		break;
	case GS_UNIT_OF_SECONDS:
		snprintf(out, 32, "%.1f s", v);
		break;
	case GS_UNIT_OF_NONE:
		if (field == GS_GPU_THROTTLE_REASONS)
			snprintf(out, 32, "0x%llx", (unsigned long long)v);
		else
			snprintf(out, 32, "%.0f", v);
	}
	return out;
}

static enum gs_ink ink_of(const struct gs_gpu_sample *s, unsigned field)
{
	if (!gs_gpu_has(s, field))
		return GS_INK_DIM;
	if (field == GS_GPU_TEMP_GPU && gs_gpu_has(s, GS_GPU_TEMP_SLOWDOWN) &&
	    s->value[field] >= s->value[GS_GPU_TEMP_SLOWDOWN] - 5)
		return GS_INK_RED;
	return GS_INK_PLAIN;
}

static void put_gpus(struct gs_grid *g, const struct gs_gpu_snapshot *s, const int *fields,
		     unsigned n)
{
	gs_grid_right(g, GS_INK_BOLD, "gpu");
	for (unsigned i = 0; i < n; i++)
		gs_grid_right(g, GS_INK_BOLD, gs_gpu_field_info((unsigned)fields[i])->title);
	gs_grid_rest(g, GS_INK_BOLD, "name", GS_CUT_END);
	for (unsigned i = 0; i < s->n_gpus; i++) {
		const struct gs_gpu_info *info = &s->info[i];
		const struct gs_gpu_sample *v = &s->sample[i];
		char text[32], name[160];
		bool adds_profile;

		gs_grid_right(g, GS_INK_BOLD, gs_gpu_number(text, info));
		for (unsigned j = 0; j < n; j++)
			gs_grid_right(g, v->lost ? GS_INK_DIM : ink_of(v, (unsigned)fields[j]),
				      gs_report_gpu_value_text(text, v, (unsigned)fields[j]));
		/* The driver's name of a MIG instance may have its profile already. */
		adds_profile = info->is_mig && !strstr(info->name, info->mig_profile);
		snprintf(name, sizeof(name), "%s%s%s%s", info->name, adds_profile ? " MIG " : "",
			 adds_profile ? info->mig_profile : "",
			 v->lost ? " (lost: values are the last known)" : "");
		gs_grid_rest(g, v->lost ? GS_INK_RED : GS_INK_PLAIN, name, GS_CUT_END);
	}
}

static const char *format_percent(char out[32], double ratio)
{
	if (ratio < 0)
		return "-";
	snprintf(out, 32, "%.0f%%", ratio * 100);
	return out;
}

static void put_processes(struct gs_grid *g, const struct gs_gpu_snapshot *s)
{
	static const char *const heads[] = {"gpu", "pid",    "user", "type", "mem",
					    "sm",  "memctl", "enc",  "dec"};

	for (size_t i = 0; i < GS_ARRAY_LEN(heads); i++)
		gs_grid_right(g, GS_INK_BOLD, heads[i]);
	gs_grid_rest(g, GS_INK_BOLD, "command", GS_CUT_END);
	for (unsigned i = 0; i < s->n_processes; i++) {
		const struct gs_gpu_process *p = &s->process[i];
		const struct gs_gpu_info *info = &s->info[p->gpu];
		char text[32], n[GS_FMT_BYTES], command[320];

		gs_grid_right(g, GS_INK_BOLD, gs_gpu_number(text, info));
		snprintf(text, sizeof(text), "%u", p->pid);
		gs_grid_right(g, GS_INK_PLAIN, text);
		gs_grid_right(g, GS_INK_PLAIN, p->user[0] ? p->user : "-");
		snprintf(text, sizeof(text), "%s%s%s", p->kind & GS_GPU_PROCESS_MPS ? "M" : "",
			 p->kind & GS_GPU_PROCESS_COMPUTE ? "C" : "",
			 p->kind & GS_GPU_PROCESS_GRAPHICS ? "G" : "");
		gs_grid_right(g, GS_INK_PLAIN, text);
		gs_grid_right(g, GS_INK_PLAIN,
			      p->used_bytes < 0 ? "-" : gs_fmt_bytes(n, (uint64_t)p->used_bytes));
		gs_grid_right(g, GS_INK_PLAIN, format_percent(text, p->sm_ratio));
		gs_grid_right(g, GS_INK_PLAIN, format_percent(text, p->mem_ratio));
		gs_grid_right(g, GS_INK_PLAIN, format_percent(text, p->enc_ratio));
		gs_grid_right(g, GS_INK_PLAIN, format_percent(text, p->dec_ratio));
		snprintf(command, sizeof(command), "%s%s%s%s%s%s",
			 p->ended  ? "(ended) "
			 : p->gone ? "(not in /proc: another pid namespace, or just ended) "
				   : "",
			 p->cmdline[0] ? p->cmdline : p->comm,
			 p->container[0] ? " [container]" : "", p->job[0] ? " [job " : "", p->job,
			 p->job[0] ? "]" : "");
		gs_grid_rest(g, p->gone ? GS_INK_DIM : GS_INK_PLAIN, command, GS_CUT_END);
	}
}

const char *gs_report_gpu_event_line(char out[GS_GPU_EVENT_LINE_BYTES],
				     const struct gs_gpu_event *e)
{
	const char *where = e->pci_bus_id[0] ? e->pci_bus_id : "a GPU";

	if (e->xid)
		snprintf(out, GS_GPU_EVENT_LINE_BYTES, "%s: XID %u: %s", where, e->xid, e->text);
	else
		snprintf(out, GS_GPU_EVENT_LINE_BYTES, "%s: %s", where, e->text);
	return out;
}

/* A line for each GPU with something wrong: what, with its figures, and what to do. */
static void put_health(struct gs_page *page, const struct gs_gpu_snapshot *s)
{
	for (uint32_t i = 0; i < s->n_gpus; i++) {
		char number[GS_GPU_NUMBER_BYTES], text[GS_GPU_HEALTH_TEXT_BYTES], line[512];
		struct gs_gpu_health h;

		gs_gpu_health_judge(s, i, &h);
		if (h.condition == GS_GPU_CONDITION_NONE)
			continue;
		snprintf(line, sizeof(line), "GPU %s %s: %s. %s",
			 gs_gpu_number(number, &s->info[i]), gs_gpu_health_state_name(h.state),
			 gs_gpu_health_text(s, i, h.condition, text),
			 gs_gpu_condition_advice(h.condition));
		gs_page_words(page,
			      h.severity == GS_GPU_SEVERITY_CRITICAL  ? GS_INK_RED
			      : h.severity == GS_GPU_SEVERITY_WARNING ? GS_INK_WARN
								      : GS_INK_DIM,
			      line);
	}
}

/* Reports lost events, when there are any. */
static void put_losses(struct gs_page *page, const struct gs_gpu_snapshot *s)
{
	const struct {
		uint64_t n;
		const char *what;
	} losses[] = {
		{s->failed_calls, "failed calls of the driver"},
		{s->missed_samples, "missed samples"},
		{s->lost_events, "lost events"},
	};
	char text[160] = "";
	size_t n = 0;

	for (size_t i = 0; i < GS_ARRAY_LEN(losses); i++)
		if (losses[i].n)
			n += (size_t)snprintf(text + n, sizeof(text) - n, "%s%s: %llu",
					      n ? ", " : "", losses[i].what,
					      (unsigned long long)losses[i].n);
	if (n)
		gs_page_words(page, GS_INK_WARN, text);
}

void gs_report_gpu_table(struct gs_page *page, const struct gs_gpu_snapshot *s,
			 const struct gs_report_gpu_style *style)
{
	const int *fields = style->n_fields ? style->fields : usual_fields;
	unsigned n = style->n_fields ? style->n_fields : GS_ARRAY_LEN(usual_fields);
	unsigned parts = style->parts ? style->parts : GS_GPU_SHOW_DEVICES | GS_GPU_SHOW_PROCESSES;
	char text[GS_GPU_EVENT_LINE_BYTES];

	if (parts & GS_GPU_SHOW_DEVICES && s->n_gpus) {
		struct gs_grid g = {.page = page, .measuring = true};

		put_gpus(&g, s, fields, n);
		while (gs_grid_piece(&g, 0))
			put_gpus(&g, s, fields, n);
		/* With --fields only some values are read: too little to judge by. */
		if (!style->n_fields)
			put_health(page, s);
	}
	if (parts & GS_GPU_SHOW_PROCESSES && s->n_processes) {
		struct gs_grid g = {.page = page, .measuring = true};

		if (parts & GS_GPU_SHOW_DEVICES)
			gs_page_line(page);
		put_processes(&g, s);
		gs_grid_fit(&g, 2, COMMAND_MIN);
		while (gs_grid_piece(&g, COMMAND_MIN))
			put_processes(&g, s);
	} else if (parts & GS_GPU_SHOW_PROCESSES && s->n_gpus) {
		if (parts & GS_GPU_SHOW_DEVICES)
			gs_page_line(page);
		gs_page_rest(page, GS_INK_DIM, "no process on these GPUs", GS_CUT_END);
		gs_page_line(page);
	}
	for (unsigned i = 0; i < s->n_events; i++) {
		gs_page_rest(page, GS_INK_RED, gs_report_gpu_event_line(text, &s->event[i]),
			     GS_CUT_END);
		gs_page_line(page);
	}
	put_losses(page, s);
	if (s->state != GS_GPU_STATE_OK)
		gs_page_words(page, GS_INK_WARN, s->state_text);
}
