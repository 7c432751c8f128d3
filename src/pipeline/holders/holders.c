/*
 * Call sites that are shown as the same place are added up: stacks differ in more than that. Their
 * peaks are added, too, which is the most that the sum can have been.
 */
#include "pipeline/holders/holders_int.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/mem.h"
#include "core/base/vec.h"
#include "model/trace/library.h"
#include "pipeline/correlate/line.h"

#define MAX_ROWS (1u << 17) /* of each sort */

int gs_holders_new(struct gs_holders **ret_holders)
{
	*ret_holders = calloc(1, sizeof(**ret_holders));
	return *ret_holders ? 0 : -ENOMEM;
}

void gs_holders_free(struct gs_holders **holders)
{
	struct gs_holders *h = *holders;

	if (!h)
		return;
	free(h->sums);
	free(h->sites);
	holders_measured_fini(h);
	free(h);
	*holders = NULL;
}

bool gs_holders_take(struct gs_holders *h, const struct gs_record *r)
{
	if (r->kind == GS_REC_MEMORY) {
		if (h->n_sums == MAX_ROWS || !gs_vec_reserve(&h->sums, &h->cap_sums, h->n_sums + 1))
			return false;
		memcpy(&h->sums[h->n_sums++], r, sizeof(*h->sums));
		return true;
	}
	if (r->kind != GS_REC_MEMORY_SITE)
		return holders_measured_take(h, r);
	if (h->n_sites == MAX_ROWS || !gs_vec_reserve(&h->sites, &h->cap_sites, h->n_sites + 1))
		return false;
	memcpy(&h->sites[h->n_sites++], r, sizeof(*h->sites));
	return true;
}

/* --- places --- */

static const char *base_name(const char *file)
{
	const char *slash = strrchr(file, '/');

	return slash ? slash + 1 : file;
}

/* A function that allocates, of CUDA itself: what called it is meant. */
static bool is_of_cuda(const char *function, const char *file)
{
	static const char *const functions[] = {"cuda", "cuMem", "ncclMem"};

	if (gs_layer_file_is_cuda(file))
		return true;
	for (size_t i = 0; i < GS_ARRAY_LEN(functions); i++) {
		size_t n = strlen(functions[i]);

		if (strncmp(function, functions[i], n) == 0 && function[n] >= 'A' &&
		    function[n] <= 'Z')
			return true;
	}
	return false;
}

static const struct gs_rec_frame *native_place(const struct gs_dict *dict, uint32_t stack)
{
	const struct gs_rec_stack *s = gs_dict_stack(dict, stack);

	for (uint32_t i = 0; s && i < s->n_frames; i++) {
		const struct gs_rec_frame *f = gs_dict_frame(dict, s->frames[i]);

		if (f && !is_of_cuda(gs_dict_string(dict, f->function_str),
				     gs_dict_string(dict, f->file_str)))
			return f;
	}
	return NULL;
}

/* A line of Python before a native function before what is around the call. What is of no process are all
 * call sites that found no room. */
void gs_holders_describe_place(const struct gs_dict *dict, const struct gs_rec_memory_site *s,
			       char *text, size_t bytes)
{
	const struct gs_rec_frame *f = s->py_stack ? gs_line_of_stack(dict, s->py_stack) : NULL;
	const struct gs_rec_function *scope = gs_dict_function(dict, s->scope);
	const char *file, *function;

	text[0] = '\0';
	if (!f && s->native_stack)
		f = native_place(dict, s->native_stack);
	if (!f) {
		snprintf(text, bytes, "%s",
			 scope        ? gs_dict_string(dict, scope->name_str)
			 : s->process ? "unknown"
				      : "");
		return;
	}
	file = gs_dict_string(dict, f->file_str);
	function = gs_dict_string(dict, f->function_str);
	if (f->frame_kind == GS_FRAME_PYTHON)
		snprintf(text, bytes, "%s:%u %s", file, f->line, function);
	else if (*function)
		snprintf(text, bytes, "%s (%s)", function, base_name(file));
	else
		snprintf(text, bytes, "%s+0x%llx", base_name(file),
			 (unsigned long long)f->file_off);
}

static void fill_place(const struct gs_dict *dict, struct gs_summary *summary,
		       const struct gs_rec_memory_site *r, struct gs_memory_place *p)
{
	const struct gs_rec_process *process = gs_dict_process(dict, r->process);
	const struct gs_rec_function *f = gs_dict_function(dict, r->function);
	char text[1024];

	gs_holders_describe_place(dict, r, text, sizeof(text));
	*p = (struct gs_memory_place){
		.pid = process ? process->pid : 0,
		.comm = gs_summary_text(summary,
					process ? gs_dict_string(dict, process->comm_str) : ""),
		.function = gs_summary_text(summary, f ? gs_dict_string(dict, f->name_str) : ""),
		.place = gs_summary_text(summary, text),
		.sums = *r};
}

static int compare_u32(uint32_t a, uint32_t b)
{
	return a < b ? -1 : a > b;
}

static int compare_u64_down(uint64_t a, uint64_t b)
{
	return a > b ? -1 : a < b;
}

static int compare_identity(const void *a, const void *b)
{
	const struct gs_memory_place *x = a, *y = b;
	int r = compare_u32(x->pid, y->pid);

	if (!r)
		r = compare_u32(x->sums.device, y->sums.device);
	if (!r)
		r = compare_u32(x->sums.kind, y->sums.kind);
	if (!r)
		r = strcmp(x->function, y->function);
	return r ? r : strcmp(x->place, y->place);
}

static int compare_places(const void *a, const void *b)
{
	const struct gs_memory_place *x = a, *y = b;
	int r = compare_u64_down(x->sums.live_bytes, y->sums.live_bytes);

	if (!r)
		r = compare_u64_down(x->sums.peak_bytes, y->sums.peak_bytes);
	return r ? r : compare_identity(a, b);
}

/* Those that are shown as the same place become one; returns how many are left. */
static size_t merge_places(struct gs_memory_place *places, size_t n)
{
	size_t n_left = 0;

	qsort(places, n, sizeof(*places), compare_identity);
	for (size_t i = 0; i < n; i++) {
		struct gs_rec_memory_site *sum, *s = &places[i].sums;

		if (!n_left || compare_identity(&places[n_left - 1], &places[i]) != 0) {
			places[n_left++] = places[i];
			continue;
		}
		sum = &places[n_left - 1].sums;
		sum->live_bytes += s->live_bytes;
		sum->live_blocks += s->live_blocks;
		sum->peak_bytes += s->peak_bytes;
		sum->total_bytes += s->total_bytes;
		sum->allocations += s->allocations;
	}
	qsort(places, n_left, sizeof(*places), compare_places);
	return n_left;
}

/* --- rows --- */

/* What is of no device, or of all, is last. */
static uint32_t order_of(uint32_t device)
{
	return device == GS_MEMORY_DEVICE_ALL       ? UINT32_MAX
	       : device == GS_MEMORY_DEVICE_UNKNOWN ? UINT32_MAX - 1
						    : device;
}

static int compare_rows(const void *a, const void *b)
{
	const struct gs_memory_row *x = a, *y = b;
	int r = compare_u32(x->pid, y->pid);

	if (!r)
		r = compare_u32(order_of(x->sums.device), order_of(y->sums.device));
	return r ? r : compare_u32(x->sums.kind, y->sums.kind);
}

static void fill_row(const struct gs_dict *dict, struct gs_summary *summary,
		     const struct gs_rec_memory *r, struct gs_memory_row *row)
{
	const struct gs_rec_process *p = gs_dict_process(dict, r->process);
	char gpu[96] = "";

	if (r->device < GS_MEMORY_DEVICE_ALL)
		gs_dict_gpu(dict, r->process, r->device, gpu, sizeof(gpu));
	*row = (struct gs_memory_row){
		.pid = p ? p->pid : 0,
		.comm = gs_summary_text(summary, p ? gs_dict_string(dict, p->comm_str) : ""),
		.gpu = gs_summary_text(summary, gpu),
		.has_ended = r->head.flags & GS_MEMORY_PROCESS_ENDED,
		.sums = *r};
}

int gs_holders_summarize(const struct gs_holders *h, const struct gs_dict *dict,
			 struct gs_summary *summary)
{
	struct gs_memory_summary *s;

	if (!h->n_sums && !h->n_measured)
		return 0;
	s = gs_summary_alloc(summary, sizeof(*s));
	if (!s)
		return -ENOMEM;
	s->rows = gs_summary_alloc(summary, (h->n_sums + 1) * sizeof(*s->rows));
	s->places = gs_summary_alloc(summary, (h->n_sites + 1) * sizeof(*s->places));
	if (!s->rows || !s->places)
		return -ENOMEM;
	for (size_t i = 0; i < h->n_sums; i++)
		fill_row(dict, summary, &h->sums[i], &s->rows[s->n_rows++]);
	qsort(s->rows, s->n_rows, sizeof(*s->rows), compare_rows);
	for (size_t i = 0; i < h->n_sites; i++)
		fill_place(dict, summary, &h->sites[i], &s->places[i]);
	s->n_places = merge_places(s->places, h->n_sites);
	if (holders_measured_summarize(h, dict, summary, s) < 0)
		return -ENOMEM;
	/* Samples may be of other processes alone. */
	if (s->n_rows || s->n_measured)
		summary->memory = s;
	return 0;
}
