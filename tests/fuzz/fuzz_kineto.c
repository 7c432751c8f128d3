/* Traces of other profilers, as somebody's file may be: what becomes of them is taken by who reads records. */
#include "model/trace/dict.h"
#include "pipeline/kineto/kineto.h"
#include "replay_main.h"

/* Every record is whole, and names what was announced. */
static int take(void *ctx, const struct gs_batch *batch)
{
	size_t offset = 0;

	while (gs_record_next(batch, &offset))
		;
	if (offset != batch->bytes)
		__builtin_trap();
	gs_records_for_each (batch, r) {
		const struct gs_rec_call *c = (const void *)r;

		if (r->kind != GS_REC_CALL)
			(void)gs_dict_apply(ctx, r);
		else if (!gs_dict_thread(ctx, c->thread) || !gs_dict_function(ctx, c->function))
			__builtin_trap();
	}
	return 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
	struct gs_dict *dict = gs_dict_new();
	const struct gs_sink sink = {.push = take, .ctx = dict};
	FILE *file = bytes ? fmemopen((void *)data, bytes, "r") : NULL;
	struct gs_kineto_stats stats;
	struct gs_err err;

	if (dict && file)
		(void)gs_kineto_read(file, "trace.json", &sink, &stats, &err);
	if (file)
		fclose(file);
	gs_dict_free(&dict);
	return 0;
}
