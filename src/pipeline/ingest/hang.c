/* Hangs and mismatches as records. */
#include <string.h>

#include "pipeline/ingest/ingest_int.h"

static uint32_t intern_text(struct gs_ingest *f, const char *text)
{
	return text ? gs_ingest_intern(f, text) : 0;
}

static struct gs_rec_hang_rank list_rank(struct gs_ingest *f,
					 const struct gs_ingest_hang_rank *from)
{
	struct gs_rec_hang_rank r = from->is;
	const struct gs_func *func =
		r.last_function ? gs_ingest_function(f, r.last_function) : NULL;

	r.last_function = func ? func->id : 0;
	r.state_str = intern_text(f, from->state);
	r.text_str = intern_text(f, from->text);
	r.python_str = intern_text(f, from->python);
	r.native_str = intern_text(f, from->native);
	gs_ingest_settle(f);
	return r;
}

void gs_ingest_hang(struct gs_ingest *f, const struct gs_rec_hang *hang, const char *kind,
		    const char *text, const struct gs_ingest_hang_rank *ranks, size_t n_ranks)
{
	size_t n = n_ranks < GS_HANG_RANKS_MAX ? n_ranks : GS_HANG_RANKS_MAX;
	struct gs_rec_hang_rank listed[GS_HANG_RANKS_MAX];
	uint32_t kind_str, text_str;
	struct gs_record head;
	struct gs_rec_hang *r;

	if (f->ended)
		return;
	for (size_t i = 0; i < n; i++)
		listed[i] = list_rank(f, &ranks[i]);
	kind_str = intern_text(f, kind);
	text_str = intern_text(f, text);
	r = gs_ingest_put(f, GS_REC_HANG, sizeof(*r), n * sizeof(listed[0]));
	head = r->head;
	*r = *hang;
	r->head = head;
	r->kind_str = kind_str;
	r->text_str = text_str;
	r->n_listed = (uint32_t)n;
	memcpy(r->ranks, listed, n * sizeof(listed[0]));
	gs_ingest_settle(f);
}
