/* A pattern is compared once for each KERNEL record, not for each launch. */
#include "pipeline/aggregate/kernel_choose.h"

#include <errno.h>
#include <fnmatch.h>
#include <stdlib.h>

#include "core/base/map.h"
#include "model/trace/class.h"
#include "model/trace/dict.h"

struct gs_aggregate_kernels {
	const char *const *globs; /* borrowed */
	size_t n_globs;
	struct gs_dict *dict; /* owned */
	struct gs_map wanted; /* hash of process and function -> 1; no entry: it is not wanted */
	struct gs_buf out;
	uint64_t n_chosen, n_left_out;
};

struct gs_aggregate_kernels *gs_aggregate_kernels_new(const char *const *globs, size_t n)
{
	struct gs_aggregate_kernels *k = calloc(1, sizeof(*k));

	if (!k)
		return NULL;
	k->globs = globs;
	k->n_globs = n;
	k->dict = gs_dict_new();
	k->wanted = GS_MAP_INIT(GS_DICT_MAX_ID);
	k->out = GS_BUF_INIT(64u << 20);
	if (!k->dict)
		gs_aggregate_kernels_free(&k);
	return k;
}

void gs_aggregate_kernels_free(struct gs_aggregate_kernels **kernels)
{
	struct gs_aggregate_kernels *k = *kernels;

	if (!k)
		return;
	gs_dict_free(&k->dict);
	gs_map_fini(&k->wanted);
	gs_buf_fini(&k->out);
	free(k);
	*kernels = NULL;
}

static uint64_t function_key(uint32_t process, uint64_t function)
{
	const uint64_t where[] = {process, function};

	return gs_hash_bytes(where, sizeof(where));
}

static bool matches_any(const struct gs_aggregate_kernels *k, uint32_t text)
{
	for (size_t i = 0; text && i < k->n_globs; i++)
		if (fnmatch(k->globs[i], gs_dict_string(k->dict, text), 0) == 0)
			return true;
	return false;
}

static int take_kernel(struct gs_aggregate_kernels *k, const struct gs_rec_kernel *r)
{
	uint64_t key = function_key(r->process, r->function);

	if (matches_any(k, r->name_str) || matches_any(k, r->short_str) ||
	    matches_any(k, r->symbol_str))
		return gs_map_put(&k->wanted, key, 1);
	gs_map_del(&k->wanted, key);
	return 0;
}

static bool keeps_call(struct gs_aggregate_kernels *k, const struct gs_rec_call *c)
{
	const struct gs_rec_function *f = gs_dict_function(k->dict, c->function);
	const struct gs_rec_thread *t = gs_dict_thread(k->dict, c->thread);
	uint64_t one;
	bool keep;

	if (!f || f->func_class != GS_CLASS_LAUNCH)
		return true;
	keep = t && gs_map_get(&k->wanted, function_key(t->process, c->arg[0]), &one);
	k->n_chosen += keep;
	k->n_left_out += !keep;
	return keep;
}

int gs_aggregate_kernels_choose(struct gs_aggregate_kernels *k, const struct gs_batch *batch,
				struct gs_batch *ret_batch)
{
	gs_buf_reset(&k->out);
	gs_records_for_each (batch, r) {
		int ret = gs_dict_apply(k->dict, r);

		if (ret == -ENOMEM)
			return ret;
		if (r->kind == GS_REC_KERNEL && take_kernel(k, (const void *)r) == -ENOMEM)
			return -ENOMEM;
		if (r->kind == GS_REC_CALL && !keeps_call(k, (const void *)r))
			continue;
		if (gs_buf_put(&k->out, r, r->bytes) < 0)
			return -ENOMEM;
	}
	*ret_batch = (struct gs_batch){.data = k->out.data, .bytes = k->out.bytes};
	return 0;
}

uint64_t gs_aggregate_kernels_n_chosen(const struct gs_aggregate_kernels *k)
{
	return k->n_chosen;
}

uint64_t gs_aggregate_kernels_n_left_out(const struct gs_aggregate_kernels *k)
{
	return k->n_left_out;
}
