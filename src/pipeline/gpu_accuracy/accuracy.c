/* What comes in: stretches of pending work, and samples of GPUs. */
#include "pipeline/gpu_accuracy/accuracy.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/mem.h"
#include "core/base/vec.h"
#include "pipeline/gpu_accuracy/accuracy_int.h"

#define CELL_NS 100000000ull
/* A reading that is further from the one before says nothing of the time that is longer ago. */
#define READING_MAX_NS 5000000000ull
/* Ages of values are whole ms: the same reading may seem that much younger in the next sample. */
#define SAME_NS      2000000ull
#define SHARE_OLD_NS 1000000000ull

int gs_accuracy_new(struct gs_accuracy **ret)
{
	struct gs_accuracy *a = calloc(1, sizeof(*a));

	if (a)
		a->decoder = gs_node_decoder_new();
	if (!a || !a->decoder) {
		free(a);
		return -ENOMEM;
	}
	a->grid.cell_ns = CELL_NS;
	a->context_idx = GS_MAP_INIT(ACCURACY_MAX_CONTEXTS);
	a->user_idx = GS_MAP_INIT(ACCURACY_MAX_OTHERS);
	a->pids = GS_MAP_INIT(GS_DICT_MAX_ID);
	*ret = a;
	return 0;
}

void gs_accuracy_free(struct gs_accuracy **accuracy)
{
	struct gs_accuracy *a = *accuracy;

	if (!a)
		return;
	for (uint32_t i = 0; i < a->n_gpus; i++) {
		free(a->gpus[i].busy.cells);
		free(a->gpus[i].known.cells);
	}
	for (uint32_t i = 0; i < a->n_contexts; i++) {
		free(a->contexts[i].most.cells);
		free(a->contexts[i].least.cells);
	}
	free(a->gpus);
	free(a->contexts);
	free(a->users);
	gs_map_fini(&a->context_idx);
	gs_map_fini(&a->user_idx);
	gs_map_fini(&a->pids);
	gs_node_decoder_free(&a->decoder);
	free(a);
	*accuracy = NULL;
}

/* --- the grid --- */

static void make_coarser(struct gs_accuracy *a)
{
	a->grid.cell_ns *= 2;
	for (uint32_t i = 0; i < a->n_gpus; i++) {
		accuracy_row_halve(&a->gpus[i].busy);
		accuracy_row_halve(&a->gpus[i].known);
	}
	for (uint32_t i = 0; i < a->n_contexts; i++) {
		accuracy_row_halve(&a->contexts[i].most);
		accuracy_row_halve(&a->contexts[i].least);
	}
	for (uint32_t i = 0; i < a->n_users; i++)
		accuracy_bits_halve(a->users[i].bits);
}

/* From now on times until then have a cell. False: there is no such time. */
static bool reach_time(struct gs_accuracy *a, uint64_t time_ns)
{
	if (!a->grid.has_begun || time_ns > INT64_MAX)
		return false;
	while (!accuracy_grid_holds(&a->grid, time_ns))
		make_coarser(a);
	return true;
}

static void add_stretch(struct gs_accuracy *a, struct accuracy_row *row, uint64_t from_ns,
			uint64_t to_ns, double weight)
{
	if (!reach_time(a, to_ns) || !accuracy_row_add(&a->grid, row, from_ns, to_ns, weight))
		a->is_incomplete = true;
}

/* --- bounds --- */

static struct accuracy_context *find_context(struct gs_accuracy *a, uint32_t index)
{
	uint64_t i;

	if (gs_map_get(&a->context_idx, index, &i))
		return &a->contexts[i];
	if (a->n_contexts == ACCURACY_MAX_CONTEXTS ||
	    !gs_vec_reserve(&a->contexts, &a->cap_contexts, a->n_contexts + 1) ||
	    gs_map_put(&a->context_idx, index, a->n_contexts) < 0)
		return NULL;
	a->contexts[a->n_contexts] = (struct accuracy_context){.index = index};
	return &a->contexts[a->n_contexts++];
}

void gs_accuracy_busy(void *ctx, uint32_t index, enum gs_activity_bound bound, uint64_t from_ns,
		      uint64_t to_ns)
{
	struct gs_accuracy *a = ctx;
	struct accuracy_context *c = find_context(a, index);

	if (!c || to_ns <= from_ns) {
		a->is_incomplete |= !c;
		return;
	}
	if (bound == GS_ACTIVITY_AT_LEAST) {
		add_stretch(a, &c->least, from_ns, to_ns, 1);
		return;
	}
	c->work_ns += (double)(to_ns - from_ns);
	add_stretch(a, &c->most, from_ns, to_ns, 1);
}

/* --- samples --- */

static struct accuracy_gpu *find_gpu(struct gs_accuracy *a, const struct gs_gpu_info *info)
{
	struct accuracy_gpu *g;

	for (uint32_t i = 0; i < a->n_gpus; i++)
		if (strcmp(a->gpus[i].uuid, info->uuid) == 0)
			return &a->gpus[i];
	if (a->n_gpus == ACCURACY_MAX_GPUS ||
	    !gs_vec_reserve(&a->gpus, &a->cap_gpus, a->n_gpus + 1))
		return NULL;
	g = &a->gpus[a->n_gpus++];
	*g = (struct accuracy_gpu){.memory_peak_bytes = -1};
	memcpy(g->uuid, info->uuid, sizeof(g->uuid));
	memcpy(g->name, info->name, sizeof(g->name));
	gs_gpu_number(g->number, info);
	return g;
}

/* The time since the reading before; 0: this one says nothing of any time. */
static uint64_t reading_ns(uint64_t *last_ns, uint64_t read_ns)
{
	uint64_t ns = *last_ns && read_ns > *last_ns ? read_ns - *last_ns : 0;

	if (read_ns > *last_ns)
		*last_ns = read_ns;
	return ns < READING_MAX_NS ? ns : READING_MAX_NS;
}

static bool is_new(const struct gs_gpu_sample *s, enum gs_gpu_field field, uint64_t last_ns,
		   uint64_t *ret_read_ns)
{
	uint64_t age_ns = gs_gpu_age_ns(s, field);

	if (!gs_gpu_has(s, field) || s->lost || age_ns >= s->time_ns)
		return false;
	*ret_read_ns = s->time_ns - age_ns;
	return *ret_read_ns >= last_ns + SAME_NS;
}

static void take_sample(struct gs_accuracy *a, struct accuracy_gpu *g,
			const struct gs_gpu_sample *s)
{
	double used = gs_gpu_value(s, GS_GPU_MEM_USED);
	uint64_t read_ns, ns;

	if (used > g->memory_peak_bytes)
		g->memory_peak_bytes = used;
	if (is_new(s, GS_GPU_UTIL, g->read_ns, &read_ns)) {
		ns = reading_ns(&g->read_ns, read_ns);
		add_stretch(a, &g->busy, read_ns - ns, read_ns, s->value[GS_GPU_UTIL]);
		add_stretch(a, &g->known, read_ns - ns, read_ns, 1);
		g->busy_ns += s->value[GS_GPU_UTIL] * (double)ns;
		g->known_ns += (double)ns;
	}
	if (is_new(s, GS_GPU_POWER, g->power_read_ns, &read_ns)) {
		bool is_first = !g->power_read_ns;

		ns = reading_ns(&g->power_read_ns, read_ns);
		ns = is_first ? 1 : ns; /* one reading is better than none */
		g->watts += s->value[GS_GPU_POWER] * (double)ns;
		g->power_ns += (double)ns;
	}
	g->n_samples++;
}

/* A process had the GPU since the sample before: did it use it? What is not known counts as use. */
static void take_process(struct gs_accuracy *a, uint32_t gpu, const struct gs_gpu_process *p,
			 uint64_t from_ns, uint64_t to_ns)
{
	uint64_t key = (uint64_t)gpu << 32 | p->pid, i;

	if (p->ended)
		return;
	if (!gs_map_get(&a->user_idx, key, &i)) {
		i = a->n_users;
		if (!gs_vec_reserve(&a->users, &a->cap_users, a->n_users + 1) ||
		    gs_map_put(&a->user_idx, key, i) < 0) {
			a->is_incomplete = true;
			return;
		}
		a->users[i] = (struct accuracy_user){.gpu = gpu, .pid = p->pid};
		a->n_users++;
	}
	/* The driver's figure may be a second old. */
	if (p->sm_ratio != 0 && reach_time(a, to_ns))
		accuracy_bits_set(&a->grid, a->users[i].bits,
				  from_ns > SHARE_OLD_NS ? from_ns - SHARE_OLD_NS : 0, to_ns);
}

static void take_node(struct gs_accuracy *a, const struct gs_node_snapshot *n)
{
	uint32_t numbers[ACCURACY_MAX_GPUS];

	if (n->gpu->state == GS_GPU_STATE_HUNG || n->gpu->n_gpus > ACCURACY_MAX_GPUS)
		return;
	a->n_samples++;
	for (uint32_t i = 0; i < n->gpu->n_gpus; i++) {
		struct accuracy_gpu *g = find_gpu(a, &n->gpu->info[i]);

		numbers[i] = g ? (uint32_t)(g - a->gpus) : UINT32_MAX;
		if (g)
			take_sample(a, g, &n->gpu->sample[i]);
	}
	for (uint32_t i = 0; i < n->gpu->n_processes; i++) {
		const struct gs_gpu_process *p = &n->gpu->process[i];
		uint32_t gpu = p->gpu < n->gpu->n_gpus ? numbers[p->gpu] : UINT32_MAX;

		if (gpu != UINT32_MAX)
			take_process(a, gpu, p,
				     a->gpus[gpu].sample_ns ? a->gpus[gpu].sample_ns : n->time_ns,
				     n->time_ns);
	}
	for (uint32_t i = 0; i < n->gpu->n_gpus; i++)
		if (numbers[i] != UINT32_MAX)
			a->gpus[numbers[i]].sample_ns = n->time_ns;
}

int gs_accuracy_take(struct gs_accuracy *a, const struct gs_record *r)
{
	const struct gs_rec_session *session = (const void *)r;
	const struct gs_rec_process *process = (const void *)r;
	struct gs_node_snapshot *n = NULL;
	int e;

	if (r->kind == GS_REC_SESSION && !a->grid.has_begun) {
		a->grid.from_ns = session->start_ns;
		a->grid.has_begun = true;
		a->mode = session->mode;
	} else if (r->kind == GS_REC_PROCESS && process->pid) {
		(void)gs_map_put(&a->pids, process->pid, process->id);
	}
	if (r->kind < GS_REC_GPU_INFO || r->kind > GS_REC_HOST_JOB || a->mode == GS_SESSION_SAMPLES)
		return 0;
	e = gs_node_decode(a->decoder, r, &n);
	if (e == GS_NODE_WHOLE)
		take_node(a, n);
	gs_node_snapshot_free(&n);
	return e < 0 ? e : 0;
}
