/*
 * What each process held of memory, by device and kind, and which call sites asked for it
 * (pipeline/gpu_memory). A sum over kinds is shown where it is of several.
 */
#include "output/gpu_report/memory.h"

#include <inttypes.h>
#include <stdio.h>

#include "core/base/fmt.h"
#include "core/base/mem.h"
#include "model/summary/memory.h"
#include "output/gpu_report/cells.h"

#define CALL_COLUMN     6
#define PLACE_COLUMNS   24 /* of a call site */
#define PROCESS_COLUMNS 12 /* of the process, at least */

static bool is_sum(const struct gs_memory_row *r)
{
	return r->sums.kind == GS_MEMORY_ON_DEVICE || r->sums.kind == GS_MEMORY_ON_HOST;
}

static bool is_of_host(unsigned kind)
{
	return kind == GS_MEMORY_PINNED || kind == GS_MEMORY_REGISTERED ||
	       kind == GS_MEMORY_ON_HOST;
}

/* The row of the same process and device; NULL: there is none. */
static const struct gs_memory_row *find_row(const struct gs_memory_summary *m,
					    const struct gs_memory_row *like, unsigned kind)
{
	for (size_t i = 0; i < m->n_rows; i++)
		if (m->rows[i].sums.process == like->sums.process &&
		    m->rows[i].sums.device == like->sums.device && m->rows[i].sums.kind == kind)
			return &m->rows[i];
	return NULL;
}

/* Rows that a sum is of. */
static unsigned count_parts(const struct gs_memory_summary *m, const struct gs_memory_row *sum)
{
	unsigned n = 0;

	for (size_t i = 0; i < m->n_rows; i++) {
		const struct gs_memory_row *r = &m->rows[i];

		n += r->sums.process == sum->sums.process && !is_sum(r) &&
		     is_of_host(r->sums.kind) == is_of_host(sum->sums.kind) &&
		     (r->sums.device == sum->sums.device ||
		      sum->sums.device == GS_MEMORY_DEVICE_ALL);
	}
	return n;
}

/* The sum over devices is one more where there is only one. */
static bool is_shown(const struct gs_memory_summary *m, const struct gs_memory_row *r)
{
	unsigned n_devices = 0;

	if (!is_sum(r))
		return true;
	if (r->sums.kind == GS_MEMORY_ON_HOST || r->sums.device != GS_MEMORY_DEVICE_ALL)
		return count_parts(m, r) > 1;
	for (size_t i = 0; i < m->n_rows; i++)
		n_devices += m->rows[i].sums.process == r->sums.process &&
			     m->rows[i].sums.kind == GS_MEMORY_ON_DEVICE && &m->rows[i] != r;
	return n_devices > 1;
}

/* What of the pages of a device no live block lies in: -1 where it is not known. */
static double unused_ratio(const struct gs_memory_summary *m, const struct gs_memory_row *r)
{
	const struct gs_memory_row *sum = find_row(m, r, GS_MEMORY_ON_DEVICE),
				   *device = find_row(m, r, GS_MEMORY_DEVICE),
				   *pitched = find_row(m, r, GS_MEMORY_PITCHED);
	uint64_t live =
		(device ? device->sums.live_bytes : 0) + (pitched ? pitched->sums.live_bytes : 0);

	if (r->sums.device == GS_MEMORY_DEVICE_ALL || !sum || !sum->sums.page_bytes ||
	    live > sum->sums.page_bytes)
		return -1;
	return 1 - (double)live / (double)sum->sums.page_bytes;
}

/* --- tables --- */

static void put_device(struct gs_grid *g, uint32_t device)
{
	char text[16];

	snprintf(text, sizeof(text), "%" PRIu32, device);
	gs_grid_right(g, GS_INK_PLAIN, device == GS_MEMORY_DEVICE_UNKNOWN ? "?" : text);
}

static void put_heads(struct gs_grid *g)
{
	static const char *const heads[] = {"GPU",    "held",     "blocks", "peak",
					    "allocs", "allocs/s", "frees",  "unused"};

	gs_grid_left(g, GS_INK_DIM, "memory", GS_CUT_END);
	for (size_t i = 0; i < GS_ARRAY_LEN(heads); i++)
		gs_grid_right(g, GS_INK_DIM, heads[i]);
	gs_grid_rest(g, GS_INK_DIM, "process", GS_CUT_END);
}

static void put_row(struct gs_grid *g, const struct gs_summary *s, const struct gs_memory_row *r)
{
	const struct gs_rec_memory *m = &r->sums;
	char text[96], out[GS_FMT_BYTES];
	double unused = m->kind == GS_MEMORY_DEVICE || (m->kind == GS_MEMORY_PITCHED &&
							!find_row(s->memory, r, GS_MEMORY_DEVICE))
				? unused_ratio(s->memory, r)
				: -1;

	gs_grid_left(g, GS_INK_PLAIN,
		     m->kind == GS_MEMORY_ON_DEVICE ? "all device"
		     : m->kind == GS_MEMORY_ON_HOST ? "all pinned"
						    : gs_memory_kind_name(m->kind),
		     GS_CUT_END);
	if (m->device == GS_MEMORY_DEVICE_ALL)
		gs_grid_right(g, GS_INK_DIM, m->kind == GS_MEMORY_ON_DEVICE ? "all" : "-");
	else
		put_device(g, m->device);
	report_put_bytes(g, m->live_bytes);
	report_put_count(g, m->live_blocks);
	report_put_bytes(g, m->peak_bytes);
	report_put_count(g, m->allocations);
	gs_grid_right(g, GS_INK_PLAIN, gs_fmt_rate(out, m->allocations, s->duration_ns));
	report_put_count(g, m->frees);
	snprintf(text, sizeof(text), "%.1f %%", 100 * unused);
	gs_grid_right(g, unused >= 0 ? GS_INK_PLAIN : GS_INK_DIM, unused >= 0 ? text : "-");
	snprintf(text, sizeof(text), "%" PRIu32 "%s %.32s", r->pid, r->has_ended ? " ended" : "",
		 r->comm);
	gs_grid_rest(g, GS_INK_PLAIN, text, GS_CUT_END);
}

static void put_rows(struct gs_grid *g, const struct gs_summary *s)
{
	put_heads(g);
	for (size_t i = 0; i < s->memory->n_rows; i++)
		if (is_shown(s->memory, &s->memory->rows[i]))
			put_row(g, s, &s->memory->rows[i]);
}

static void put_place_heads(struct gs_grid *g)
{
	static const char *const heads[] = {"blocks", "peak", "allocs", "GPU", "process"};

	gs_grid_left(g, GS_INK_DIM, "held", GS_CUT_END);
	for (size_t i = 0; i < GS_ARRAY_LEN(heads); i++)
		gs_grid_right(g, GS_INK_DIM, heads[i]);
	gs_grid_left(g, GS_INK_DIM, "call", GS_CUT_END);
	gs_grid_rest(g, GS_INK_DIM, "call site", GS_CUT_END);
}

static void put_place(struct gs_grid *g, const struct gs_memory_place *p)
{
	char text[16], out[GS_FMT_BYTES];

	gs_grid_left(g, GS_INK_PLAIN, gs_fmt_bytes(out, p->sums.live_bytes), GS_CUT_END);
	report_put_count(g, p->sums.live_blocks);
	report_put_bytes(g, p->sums.peak_bytes);
	report_put_count(g, p->sums.allocations);
	if (p->sums.device == GS_MEMORY_DEVICE_ALL || !p->pid)
		gs_grid_right(g, GS_INK_DIM, "-");
	else
		put_device(g, p->sums.device);
	snprintf(text, sizeof(text), "%" PRIu32, p->pid);
	gs_grid_right(g, p->pid ? GS_INK_PLAIN : GS_INK_DIM, p->pid ? text : "-");
	gs_grid_left(g, GS_INK_PLAIN, p->function, GS_CUT_END);
	gs_grid_rest(g, GS_INK_PLAIN, p->pid ? p->place : "other call sites", GS_CUT_START);
}

static void put_places(struct gs_grid *g, const struct gs_memory_summary *m, size_t n)
{
	put_place_heads(g);
	for (size_t i = 0; i < n; i++)
		put_place(g, &m->places[i]);
}

static void put_measured_heads(struct gs_grid *g)
{
	static const char *const heads[] = {"GPU",  "at first", "last", "peak",
					    "read", "in calls", "other"};

	gs_grid_left(g, GS_INK_DIM, "process", GS_CUT_END);
	for (size_t i = 0; i < GS_ARRAY_LEN(heads); i++)
		gs_grid_right(g, GS_INK_DIM, heads[i]);
	gs_grid_rest(g, GS_INK_DIM, "UUID", GS_CUT_END);
}

static void put_measured_row(struct gs_grid *g, const struct gs_memory_measured *m)
{
	char text[64];

	snprintf(text, sizeof(text), "%" PRIu32 " %.32s%s", m->pid, m->comm,
		 m->is_late ? ", traced late" : "");
	gs_grid_left(g, GS_INK_PLAIN, text, GS_CUT_END);
	put_device(g, m->device);
	report_put_bytes(g, m->first_bytes);
	if (gs_memory_knows_last(m))
		report_put_bytes(g, m->last_bytes);
	else
		gs_grid_right(g, GS_INK_DIM, "?");
	report_put_bytes(g, m->peak_bytes);
	report_put_count(g, m->n_readings);
	report_put_bytes(g, m->live_bytes);
	if (gs_memory_knows_last(m))
		report_put_bytes(g,
				 m->last_bytes > m->live_bytes ? m->last_bytes - m->live_bytes : 0);
	else
		gs_grid_right(g, GS_INK_DIM, "?");
	gs_grid_rest(g, GS_INK_PLAIN, m->gpu, GS_CUT_START);
}

static void put_measured_rows(struct gs_grid *g, const struct gs_memory_summary *m)
{
	put_measured_heads(g);
	for (size_t i = 0; i < m->n_measured; i++)
		put_measured_row(g, &m->measured[i]);
}

/* Of whom the last reading is not what they had at their end. */
static void put_seldom_read(struct gs_page *page, const struct gs_memory_summary *m)
{
	char text[200], unread[GS_FMT_BYTES];

	for (size_t i = 0; i < m->n_measured; i++) {
		const struct gs_memory_measured *p = &m->measured[i];

		if (gs_memory_knows_last(p))
			continue;
		snprintf(
			text, sizeof(text),
			"%" PRIu32 " %.32s was read %" PRIu64
			" time%s, last up to %s before its end: its memory then and its peak are not known.",
			p->pid, p->comm, p->n_readings, p->n_readings == 1 ? "" : "s",
			gs_fmt_ns(unread, p->unread_ns));
		report_put_remark(page, text);
	}
}

static void put_measured(struct gs_page *page, const struct gs_memory_summary *m)
{
	struct gs_grid g = {.page = page, .measuring = true};

	if (!m->n_measured)
		return;
	report_put_title(page, "Memory of processes, as the driver measures it");
	put_measured_rows(&g, m);
	while (gs_grid_piece(&g, PROCESS_COLUMNS))
		put_measured_rows(&g, m);
	report_put_remark(
		page,
		"Measured by the driver, in samples. read: number of samples. in calls: held, by the host's view above. other: memory that no call shows (contexts, code, pools), or from before the trace.");
	put_seldom_read(page, m);
}

/* Frees that found no block and allocations that were not followed, of all processes. */
static void put_strays(struct gs_page *page, const struct gs_memory_summary *m)
{
	struct {
		uint64_t n;
		const char *text;
	} strays[] = {
		{0, "Double frees: the block had been freed"},
		{0, "Failed frees: the address was never allocated"},
		{0, "Frees of blocks allocated before the trace, or whose allocation was lost"},
		{0, "Frees that were not seen: the address was allocated again"},
		{0, "Failed allocations"},
		{0, "Allocations not tracked: too many at a time, or not readable"},
	};
	char text[160], out[GS_FMT_BYTES];

	for (size_t i = 0; i < m->n_rows; i++) {
		const struct gs_rec_memory *r = &m->rows[i].sums;

		strays[0].n += r->double_frees;
		strays[1].n += r->bad_frees;
		strays[2].n += r->unknown_frees;
		strays[3].n += r->unseen_frees;
		strays[4].n += r->failed;
		strays[5].n += r->untracked;
	}
	for (size_t i = 0; i < GS_ARRAY_LEN(strays); i++) {
		if (!strays[i].n)
			continue;
		snprintf(text, sizeof(text), "%s: %s", strays[i].text,
			 gs_fmt_count(out, strays[i].n));
		report_put_remark(page, text);
	}
}

static void put_call_sites(struct gs_page *page, const struct gs_memory_summary *m, unsigned n_top)
{
	size_t n = n_top && m->n_places > (size_t)n_top + 1 ? n_top : m->n_places;
	struct gs_grid g = {.page = page, .measuring = true};
	char text[96];

	if (!n)
		return;
	report_put_title(page, "Call sites, by memory held");
	put_places(&g, m, n);
	gs_grid_fit(&g, CALL_COLUMN, PLACE_COLUMNS);
	put_places(&g, m, n);
	if (n == m->n_places)
		return;
	snprintf(text, sizeof(text), "... and %zu more (--top 0 shows all)", m->n_places - n);
	report_put_remark(page, text);
}

void gs_report_memory(struct gs_page *page, const struct gs_summary *s, unsigned n_top)
{
	static const struct gs_memory_summary none;
	const struct gs_memory_summary *m = s->memory ? s->memory : &none;
	struct gs_grid g = {.page = page, .measuring = true};

	report_put_title(page, "Memory, by process and GPU");
	if (m->n_rows) {
		put_rows(&g, s);
		while (gs_grid_piece(&g, PROCESS_COLUMNS))
			put_rows(&g, s);
		report_put_remark(
			page,
			"The host's view: bytes requested by calls, without overhead of the driver. held: not freed at the end of the trace or of the process. unused: share of the 2 MiB pages that the blocks are in.");
	} else {
		report_put_remark(
			page,
			!s->complete
				? "The recording was cut off; these are the figures up to there."
			: s->mode == GS_SESSION_EVENTS
				? "No call allocated or freed."
				: "Calls were only added up: --memory records each of them.");
	}
	put_strays(page, m);
	put_measured(page, m);
	put_call_sites(page, m, n_top);
}

/* --- the document --- */

static void put_device_doc(struct gs_doc *doc, uint32_t device)
{
	gs_doc_put_u64_if(doc, "device", device, device < GS_MEMORY_DEVICE_ALL);
	gs_doc_put_bool(doc, "device_known", device != GS_MEMORY_DEVICE_UNKNOWN);
}

static void put_row_doc(struct gs_doc *doc, const struct gs_summary *s,
			const struct gs_memory_row *r)
{
	const struct gs_rec_memory *m = &r->sums;
	double seconds = (double)s->duration_ns / 1e9;

	gs_doc_begin_flat(doc, NULL);
	gs_doc_put_u64(doc, "pid", r->pid);
	gs_doc_put_text(doc, "comm", r->comm);
	gs_doc_put_bool(doc, "ended", r->has_ended);
	put_device_doc(doc, m->device);
	gs_doc_put_text(doc, "gpu_uuid", r->gpu);
	gs_doc_put_text(doc, "kind", gs_memory_kind_name(m->kind));
	gs_doc_put_bool(doc, "is_sum", is_sum(r));
	gs_doc_put_u64(doc, "live_bytes", m->live_bytes);
	gs_doc_put_u64(doc, "live_blocks", m->live_blocks);
	gs_doc_put_u64(doc, "peak_bytes", m->peak_bytes);
	gs_doc_put_u64(doc, "total_bytes", m->total_bytes);
	gs_doc_put_u64(doc, "allocations", m->allocations);
	gs_doc_put_u64(doc, "frees", m->frees);
	gs_doc_put_u64(doc, "failed", m->failed);
	gs_doc_put_double(doc, "allocations_per_second",
			  seconds > 0 ? (double)m->allocations / seconds : 0);
	gs_doc_put_u64_if(doc, "mapped_bytes", m->mapped_bytes, m->kind == GS_MEMORY_VIRTUAL);
	if (m->kind == GS_MEMORY_ON_DEVICE && m->device != GS_MEMORY_DEVICE_ALL) {
		gs_doc_put_u64(doc, "page_bytes", m->page_bytes);
		gs_doc_put_u64(doc, "peak_page_bytes", m->peak_page_bytes);
		gs_doc_put_double(doc, "unused_pct",
				  unused_ratio(s->memory, r) > 0 ? 100 * unused_ratio(s->memory, r)
								 : 0);
	}
	if (m->kind == GS_MEMORY_ON_DEVICE && m->device == GS_MEMORY_DEVICE_ALL) {
		gs_doc_put_u64(doc, "double_frees", m->double_frees);
		gs_doc_put_u64(doc, "unknown_frees", m->unknown_frees);
		gs_doc_put_u64(doc, "bad_frees", m->bad_frees);
		gs_doc_put_u64(doc, "unseen_frees", m->unseen_frees);
		gs_doc_put_u64(doc, "untracked", m->untracked);
	}
	gs_doc_put_text(doc, "source", "host");
	gs_doc_end(doc);
}

static void put_place_doc(struct gs_doc *doc, const struct gs_memory_place *p)
{
	gs_doc_begin_flat(doc, NULL);
	gs_doc_put_u64_if(doc, "pid", p->pid, p->pid);
	gs_doc_put_text(doc, "comm", p->comm);
	put_device_doc(doc, p->sums.device);
	gs_doc_put_text(doc, "kind", gs_memory_kind_name(p->sums.kind));
	gs_doc_put_text(doc, "function", p->function);
	gs_doc_put_text(doc, "place", p->place);
	gs_doc_put_u64(doc, "live_bytes", p->sums.live_bytes);
	gs_doc_put_u64(doc, "live_blocks", p->sums.live_blocks);
	gs_doc_put_u64(doc, "peak_bytes", p->sums.peak_bytes);
	gs_doc_put_u64(doc, "total_bytes", p->sums.total_bytes);
	gs_doc_put_u64(doc, "allocations", p->sums.allocations);
	gs_doc_end(doc);
}

static void put_measured_doc(struct gs_doc *doc, const struct gs_memory_measured *m)
{
	gs_doc_begin_flat(doc, NULL);
	gs_doc_put_u64(doc, "pid", m->pid);
	gs_doc_put_text(doc, "comm", m->comm);
	gs_doc_put_u64_if(doc, "device", m->device, m->device < GS_MEMORY_DEVICE_ALL);
	gs_doc_put_text(doc, "gpu_uuid", m->gpu);
	gs_doc_put_bool(doc, "traced_late", m->is_late);
	gs_doc_put_u64(doc, "first_bytes", m->first_bytes);
	gs_doc_put_u64_if(doc, "last_bytes", m->last_bytes, gs_memory_knows_last(m));
	gs_doc_put_u64(doc, "peak_bytes", m->peak_bytes);
	gs_doc_put_u64(doc, "live_bytes", m->live_bytes);
	gs_doc_put_u64(doc, "samples", m->n_readings);
	gs_doc_put_u64(doc, "unread_ns", m->unread_ns);
	gs_doc_put_text(doc, "source", "device");
	gs_doc_end(doc);
}

void gs_report_memory_doc(struct gs_doc *doc, const struct gs_summary *s)
{
	static const struct gs_memory_summary none;
	const struct gs_memory_summary *m = s->memory ? s->memory : &none;

	gs_doc_begin_list(doc, "memory", m->n_rows);
	for (size_t i = 0; i < m->n_rows; i++)
		put_row_doc(doc, s, &m->rows[i]);
	gs_doc_end(doc);
	gs_doc_begin_list(doc, "memory_sites", m->n_places);
	for (size_t i = 0; i < m->n_places; i++)
		put_place_doc(doc, &m->places[i]);
	gs_doc_end(doc);
	gs_doc_begin_list(doc, "memory_measured", m->n_measured);
	for (size_t i = 0; i < m->n_measured; i++)
		put_measured_doc(doc, &m->measured[i]);
	gs_doc_end(doc);
}
