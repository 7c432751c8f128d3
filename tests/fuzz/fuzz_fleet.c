/* What nodes say of ranks of jobs (RANK, RANK_STAY and RANK_STEPS records), in any order and with any numbers: bounded, and what is
 * found is well formed. */
#include <assert.h>
#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "analysis/fleet/fleet.h"
#include "replay_main.h"

#define SECOND 1000000000ll

struct input {
	uint8_t about;
	uint8_t record[sizeof(struct gs_rec_rank) + 4 * sizeof(struct gs_rank_call)];
};

static void check_finding(const struct gs_fleet_finding *f)
{
	char text[GS_FLEET_TEXT_BYTES];

	assert(f->number && *gs_fleet_kind_name(f->kind));
	assert(f->n_about <= GS_FLEET_MAX_LISTED || f->kind != GS_FLEET_LATE);
	assert(f->call <= f->last_call || f->kind != GS_FLEET_DIFFERS);
	assert(memchr(f->job, '\0', sizeof(f->job)));
	assert(memchr(f->last_name, '\0', sizeof(f->last_name)));
	for (uint32_t i = 0; i < f->n_about && i < GS_FLEET_MAX_LISTED; i++)
		assert(memchr(f->about[i].node, '\0', sizeof(f->about[i].node)));
	assert(isfinite(f->before_ns) && isfinite(f->after_ns));
	assert(isfinite(f->late_ns) && isfinite(f->ratio) && isfinite(f->error_ns));
	assert(isfinite(f->inside_ratio) && isfinite(f->others_inside_ratio));
	assert(strlen(gs_fleet_text(f, text)) < sizeof(text));
}

static void check_steps(void *ctx, const struct gs_fleet_steps *s)
{
	struct gs_buf out = GS_BUF_INIT(1 << 20);

	assert(s->n_listed <= 8 && s->n_slow <= GS_FLEET_SLOW_STEPS && s->n_known <= s->n_compared);
	for (uint32_t i = 0; i < s->n_slow; i++) {
		assert(isfinite(s->slow[i].dur_ns) && isfinite(s->slow[i].spread_ns));
		assert(isfinite(s->slow[i].late_ns) && isfinite(s->slow[i].error_ns));
	}
	for (uint32_t i = 0; i < s->n_listed; i++)
		assert(s->ranks[i].n_slowest <= s->ranks[i].n_compared);
	gs_fleet_put_steps_text(&out, s, *(const int64_t *)ctx);
	assert(out.r == 0);
	gs_buf_fini(&out);
}

/* Of each record a byte says of which node it is, and whether a second passes. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
	static const char *const names[] = {"a", "b", "c", "d"};
	struct gs_fleet *fleet = gs_fleet_new();
	int64_t now_ns = 1700000000 * SECOND;
	const struct gs_fleet_finding *f;
	struct gs_fleet_counts counts;

	for (; fleet && bytes >= sizeof(struct input);
	     data += sizeof(struct input), bytes -= sizeof(struct input)) {
		struct gs_fleet_source source = {.node = 1 + (*data & 3),
						 .name = names[*data & 3],
						 .offset_ns = *data >> 3,
						 .error_ns = *data & 7};
		_Alignas(8) uint8_t record[sizeof(((struct input *)0)->record)];

		memcpy(record, data + 1, sizeof(record));
		((struct gs_record *)record)->bytes = sizeof(record);
		if (((struct gs_record *)record)->kind == GS_REC_RANK_STAY)
			(void)gs_fleet_take_stay(fleet, &source, (const void *)record);
		else if (((struct gs_record *)record)->kind == GS_REC_RANK_STEPS)
			(void)gs_fleet_take_steps(fleet, &source, (const void *)record);
		else
			(void)gs_fleet_take(fleet, &source, (const void *)record, now_ns);
		if (!(*data & 0x80))
			continue;
		now_ns += SECOND;
		gs_fleet_tick(fleet, now_ns);
		while ((f = gs_fleet_next(fleet)))
			check_finding(f);
		assert(gs_fleet_each_steps(fleet, "", 8, check_steps, &now_ns) == 0);
	}
	if (fleet) {
		gs_fleet_counts(fleet, &counts);
		assert(counts.n_ranks <= GS_FLEET_MAX_RANKS &&
		       counts.n_comms <= GS_FLEET_MAX_COMMS &&
		       counts.n_clocks <= GS_FLEET_MAX_CLOCKS);
	}
	gs_fleet_free(&fleet);
	return 0;
}
