/* Turns at equal distances; schedule.h says what holds. */
#include "core/base/schedule.h"

void gs_schedule_start(struct gs_schedule *schedule, uint64_t interval_ns, uint64_t now_ns)
{
	*schedule = (struct gs_schedule){.interval_ns = interval_ns, .next_ns = now_ns};
}

void gs_schedule_set_interval(struct gs_schedule *schedule, uint64_t interval_ns, uint64_t now_ns)
{
	if (interval_ns == schedule->interval_ns)
		return;
	schedule->interval_ns = interval_ns;
	if (!schedule->taken)
		return;
	schedule->next_ns = schedule->last_ns + interval_ns;
	if (schedule->next_ns < now_ns)
		schedule->next_ns = now_ns;
}

uint64_t gs_schedule_take(struct gs_schedule *schedule, uint64_t now_ns)
{
	uint64_t missed = 0;

	if (now_ns > schedule->next_ns)
		missed = (now_ns - schedule->next_ns) / schedule->interval_ns;
	schedule->last_ns = schedule->next_ns + missed * schedule->interval_ns;
	schedule->next_ns = schedule->last_ns + schedule->interval_ns;
	schedule->taken = true;
	return missed;
}
