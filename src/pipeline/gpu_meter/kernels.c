/* Records of the meter: which kernel a launch is of, and what that needs. */
#include "pipeline/gpu_meter/gpu_meter_int.h"

static int push_records(void *ctx, const struct gs_batch *batch)
{
	struct gs_gpu_meter *m = ctx;

	gs_records_for_each (batch, r) {
		if (r->kind == GS_REC_CALL)
			continue;
		if (gs_dict_apply(m->dict, r) < 0)
			m->n_lost++;
		if (r->kind == GS_REC_PROCESS) {
			const struct gs_rec_process *p = (const void *)r;

			(void)gs_map_put(&m->id_of, p->pid, p->id);
		} else if (r->kind == GS_REC_KERNEL) {
			m->wants_needs |= ((const struct gs_rec_kernel *)r)->sm == 0;
		}
	}
	return 0;
}

struct gs_sink meter_records_sink(struct gs_gpu_meter *m)
{
	return (struct gs_sink){.push = push_records, .ctx = m};
}

void meter_take_launch(struct gs_gpu_meter *m, const struct gs_event_call *e, uint32_t process,
		       uint32_t thread)
{
	const struct gs_rec_kernel *k;
	struct gs_process_gpu_launch launch;
	uint64_t id;

	if (!gs_map_get(&m->id_of, e->pid, &id))
		return;
	k = gs_dict_kernel(m->dict, (uint32_t)id, e->arg[0]);
	if (!k || !k->sm)
		return;
	launch = (struct gs_process_gpu_launch){
		.registers = k->registers,
		.shared_bytes = (uint64_t)k->shared_bytes + e->aux,
		.block_threads = (e->arg[2] >> 32) * (uint32_t)e->arg[3] * (e->arg[3] >> 32),
		.blocks = (uint64_t)(uint32_t)e->arg[1] * (e->arg[1] >> 32) * (uint32_t)e->arg[2]};
	gs_process_gpu_take_needs(
		m->sums, process,
		gs_activity_thread_context(gs_process_gpu_activity(m->sums), thread), &launch);
}
