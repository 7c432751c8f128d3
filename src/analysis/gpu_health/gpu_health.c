/*
 * The conditions of condition.h, looked for in samples.
 *
 * A condition is checked on one sample (health_check_condition). Two need time as well: a GPU that a
 * process holds counts as idle_held after IDLE_LEAST_NS, and an XID counts for XID_FRESH_NS. What
 * a lost GPU showed last says nothing of now, so nothing else is checked on it.
 */
#include "analysis/gpu_health/gpu_health.h"

#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <string.h>
#include <strings.h>

#include "core/base/mem.h"
#include "model/node/gpu_throttle.h"

#define XID_FRESH_NS  (600 * 1000000000ull)
#define IDLE_LEAST_NS (20 * 1000000000ull)
#define IDLE_RATIO    0.01 /* below: no kernel ran */
#define HOT_CELSIUS   88   /* slowdown of a GPU that does not report its own */
#define HOT_MARGIN    3

static const struct {
	const char *key, *advice;
	enum gs_gpu_health_state state;
	enum gs_gpu_severity severity;
} conditions[GS_GPU_CONDITION_COUNT] = {
#define ROW(id, key, state, severity, advice)                                                      \
	[GS_GPU_CONDITION_##id] = {key, advice, GS_GPU_HEALTH_##state, GS_GPU_SEVERITY_##severity},
	GS_GPU_CONDITIONS(ROW)
#undef ROW
};
_Static_assert(GS_GPU_CONDITION_COUNT <= GS_GPU_PAST_MAX, "room in struct gs_gpu_past");

const char *gs_gpu_health_state_name(enum gs_gpu_health_state state)
{
	static const char *const names[] = {"ok", "idle", "degraded", "throttled", "failing"};

	return (unsigned)state < GS_ARRAY_LEN(names) ? names[state] : "unknown";
}

const char *gs_gpu_severity_name(enum gs_gpu_severity severity)
{
	static const char *const names[] = {"none", "info", "warning", "critical"};

	return (unsigned)severity < GS_ARRAY_LEN(names) ? names[severity] : "unknown";
}

const char *gs_gpu_condition_key(enum gs_gpu_condition c)
{
	return c < GS_GPU_CONDITION_COUNT ? conditions[c].key : "";
}

const char *gs_gpu_condition_advice(enum gs_gpu_condition c)
{
	return c < GS_GPU_CONDITION_COUNT ? conditions[c].advice : "";
}

enum gs_gpu_severity gs_gpu_condition_severity(enum gs_gpu_condition c)
{
	return c < GS_GPU_CONDITION_COUNT ? conditions[c].severity : GS_GPU_SEVERITY_NONE;
}

/* NAN: not known, which no comparison takes for true. */
static double health_value_of(const struct gs_gpu_sample *s, enum gs_gpu_field f)
{
	return gs_gpu_has(s, f) ? s->value[f] : NAN;
}

/* The process with the most memory on a GPU; NULL: none. */
static const struct gs_gpu_process *health_find_holder(const struct gs_gpu_snapshot *s,
						       uint32_t gpu)
{
	for (uint32_t i = 0; i < s->n_processes; i++)
		if (s->process[i].gpu == gpu && !s->process[i].ended)
			return &s->process[i];
	return NULL;
}

/* Busy with a graphics engine where there is no utilization (parts of a divided GPU). */
static double health_utilization_of(const struct gs_gpu_sample *s)
{
	double util = health_value_of(s, GS_GPU_UTIL);

	return isnan(util) ? health_value_of(s, GS_GPU_GR_ACTIVE) : util;
}

static double health_slowdown_of(const struct gs_gpu_sample *s)
{
	double limit = health_value_of(s, GS_GPU_TEMP_SLOWDOWN);

	return limit > 0 ? limit : HOT_CELSIUS;
}

/* XIDs 13, 31, 43 and 45 come from what programs do. */
static bool health_is_of_program(uint32_t xid)
{
	return xid == 13 || xid == 31 || xid == 43 || xid == 45;
}

enum gs_gpu_condition gs_gpu_condition_of_xid(uint32_t xid)
{
	return health_is_of_program(xid) ? GS_GPU_CONDITION_PROGRAM_XID : GS_GPU_CONDITION_XID;
}

static bool health_is_fresh(const struct gs_gpu_sample *s, uint64_t now_ns)
{
	const struct gs_gpu_past *p = &s->past;

	return p->xid && (now_ns < p->xid_ns || now_ns - p->xid_ns < XID_FRESH_NS);
}

static bool health_check_reason(const struct gs_gpu_sample *s, enum gs_gpu_condition c)
{
	double mask = health_value_of(s, GS_GPU_THROTTLE_REASONS);
	unsigned long long bits = mask > 0 && mask < 1e15 ? (unsigned long long)mask : 0;

	switch (c) {
	case GS_GPU_CONDITION_HW_HEAT:
		return bits & GS_GPU_HELD_HW_HEAT;
	case GS_GPU_CONDITION_POWER_BRAKE:
		return bits & GS_GPU_HELD_POWER_BRAKE;
	case GS_GPU_CONDITION_HW_SLOWDOWN: /* set with either of both above, too */
		return bits & GS_GPU_HELD_HW_SLOWDOWN &&
		       !(bits & (GS_GPU_HELD_HW_HEAT | GS_GPU_HELD_POWER_BRAKE));
	case GS_GPU_CONDITION_SW_HEAT:
		return bits & GS_GPU_HELD_SW_HEAT;
	case GS_GPU_CONDITION_POWER_CAP:
		return bits & GS_GPU_HELD_POWER_CAP;
	case GS_GPU_CONDITION_SYNC_BOOST:
		return bits & GS_GPU_HELD_SYNC_BOOST;
	default:
		return false;
	}
}

/* Whether it holds in this sample alone. */
static bool health_check_condition(const struct gs_gpu_snapshot *g, uint32_t gpu,
				   enum gs_gpu_condition c)
{
	const struct gs_gpu_sample *s = &g->sample[gpu];
	double most;

	if (s->lost)
		return c == GS_GPU_CONDITION_LOST;
	switch (c) {
	case GS_GPU_CONDITION_RECOVERY:
		return health_value_of(s, GS_GPU_RECOVERY_ACTION) >= 1;
	case GS_GPU_CONDITION_REMAP_FAILED:
		return health_value_of(s, GS_GPU_REMAP_FAILED) > 0;
	case GS_GPU_CONDITION_ECC_UNCORRECTED:
		return health_value_of(s, GS_GPU_ECC_NOW_UNCORRECTED) > 0;
	case GS_GPU_CONDITION_XID:
		return health_is_fresh(s, g->time_ns) && !health_is_of_program(s->past.xid);
	case GS_GPU_CONDITION_PROGRAM_XID:
		return health_is_fresh(s, g->time_ns) && health_is_of_program(s->past.xid);
	case GS_GPU_CONDITION_HOT:
		return health_value_of(s, GS_GPU_TEMP_GPU) >= health_slowdown_of(s) - HOT_MARGIN;
	case GS_GPU_CONDITION_MEMORY_HOT:
		most = health_value_of(s, GS_GPU_TEMP_MEM_MAX);
		return most > 0 && health_value_of(s, GS_GPU_TEMP_MEM) >= most - HOT_MARGIN;
	case GS_GPU_CONDITION_REPAIR_PENDING:
		return health_value_of(s, GS_GPU_REMAP_PENDING) > 0 ||
		       health_value_of(s, GS_GPU_RETIRED_PENDING) > 0;
	case GS_GPU_CONDITION_PCIE_WIDTH:
		return health_value_of(s, GS_GPU_PCIE_WIDTH) > 0 &&
		       health_value_of(s, GS_GPU_PCIE_WIDTH) <
			       health_value_of(s, GS_GPU_PCIE_WIDTH_MAX);
	case GS_GPU_CONDITION_IDLE_HELD:
		return health_utilization_of(s) < IDLE_RATIO && health_find_holder(g, gpu);
	default:
		return health_check_reason(s, c);
	}
}

static bool health_is_same(const struct gs_gpu_info *a, const struct gs_gpu_info *b)
{
	return a->uuid[0] ? strcmp(a->uuid, b->uuid) == 0
			  : a->pci_bus_id[0] && strcasecmp(a->pci_bus_id, b->pci_bus_id) == 0;
}

/* The sample of GPU i of now; nearly always it has the same place. */
static const struct gs_gpu_sample *health_find_before(const struct gs_gpu_snapshot *before,
						      const struct gs_gpu_snapshot *now, uint32_t i)
{
	if (before && i < before->n_gpus && health_is_same(&now->info[i], &before->info[i]))
		return &before->sample[i];
	for (uint32_t k = 0; before && k < before->n_gpus; k++)
		if (health_is_same(&now->info[i], &before->info[k]))
			return &before->sample[k];
	return NULL;
}

bool gs_gpu_health_is_of(const struct gs_gpu_event *e, const struct gs_gpu_info *info)
{
	return e->uuid[0] ? strcmp(e->uuid, info->uuid) == 0
			  : info->pci_bus_id[0] && strcasecmp(e->pci_bus_id, info->pci_bus_id) == 0;
}

/* The newest XID; one of a program does not replace a fresh one of the GPU. */
static void health_note_events(const struct gs_gpu_snapshot *now, uint32_t gpu)
{
	const struct gs_gpu_info *info = &now->info[gpu];
	struct gs_gpu_sample *s = &now->sample[gpu];

	for (uint32_t i = 0; i < now->n_events; i++) {
		const struct gs_gpu_event *e = &now->event[i];

		if (!e->xid || !gs_gpu_health_is_of(e, info) ||
		    (health_is_of_program(e->xid) && health_is_fresh(s, now->time_ns) &&
		     !health_is_of_program(s->past.xid)))
			continue;
		s->past.xid = e->xid;
		s->past.xid_ns = e->time_ns ? e->time_ns : now->time_ns;
	}
}

void gs_gpu_health_follow(const struct gs_gpu_snapshot *before, struct gs_gpu_snapshot *now)
{
	/* The boot clock began again: what was before is of another life of the machine. */
	if (before && before->time_ns > now->time_ns)
		before = NULL;
	for (uint32_t i = 0; i < now->n_gpus; i++) {
		const struct gs_gpu_sample *old = health_find_before(before, now, i);
		struct gs_gpu_past *p = &now->sample[i].past;

		*p = old ? old->past : (struct gs_gpu_past){0};
		health_note_events(now, i);
		for (unsigned c = 0; c < GS_GPU_CONDITION_COUNT; c++) {
			if (!health_check_condition(now, i, (enum gs_gpu_condition)c)) {
				p->since_ns[c] = 0;
				p->from_start &= ~(1u << c);
			} else if (!p->since_ns[c]) {
				p->since_ns[c] = now->time_ns ? now->time_ns : 1;
				p->from_start |= old ? 0 : 1u << c;
			}
		}
	}
}

/* What a sample shows, and for as long as it takes. */
static bool health_holds(const struct gs_gpu_snapshot *s, uint32_t gpu, enum gs_gpu_condition c)
{
	uint64_t since_ns = s->sample[gpu].past.since_ns[c];

	if (!health_check_condition(s, gpu, c))
		return false;
	return c != GS_GPU_CONDITION_IDLE_HELD ||
	       (since_ns && s->time_ns >= since_ns && s->time_ns - since_ns >= IDLE_LEAST_NS);
}

void gs_gpu_health_judge(const struct gs_gpu_snapshot *s, uint32_t gpu, struct gs_gpu_health *ret)
{
	const struct gs_gpu_sample *v = &s->sample[gpu];
	bool is_idle = !v->lost && health_utilization_of(v) < IDLE_RATIO;

	*ret = (struct gs_gpu_health){.condition = GS_GPU_CONDITION_NONE,
				      .state = is_idle ? GS_GPU_HEALTH_IDLE : GS_GPU_HEALTH_OK};
	for (unsigned c = 0; c < GS_GPU_CONDITION_COUNT; c++) {
		/* Being hot is no second thing beside being throttled by it. */
		if ((c == GS_GPU_CONDITION_HOT || c == GS_GPU_CONDITION_MEMORY_HOT) &&
		    ret->holds & (1u << GS_GPU_CONDITION_HW_HEAT | 1u << GS_GPU_CONDITION_SW_HEAT))
			continue;
		if (!health_holds(s, gpu, (enum gs_gpu_condition)c))
			continue;
		ret->holds |= 1u << c;
		if (ret->condition != GS_GPU_CONDITION_NONE)
			continue;
		ret->condition = (enum gs_gpu_condition)c;
		ret->severity = conditions[c].severity;
		ret->since_ns = v->past.since_ns[c];
		if (conditions[c].state > ret->state)
			ret->state = conditions[c].state;
	}
}

struct health_pen {
	char *out;
	size_t n;
};

static void health_put(struct health_pen *p, const char *fmt, ...) GS_PRINTF(2, 3);
static void health_put(struct health_pen *p, const char *fmt, ...)
{
	size_t room = GS_GPU_HEALTH_TEXT_BYTES - p->n;
	va_list ap;
	int n;

	va_start(ap, fmt);
	n = vsnprintf(p->out + p->n, room, fmt, ap);
	va_end(ap);
	p->n += n < 0 ? 0 : (size_t)n < room ? (size_t)n : room - 1;
}

/* "25 s", "6 min", "3 h", "2 d" */
static void health_put_time(struct health_pen *p, uint64_t ns)
{
	uint64_t s = ns / 1000000000;

	if (s < 120)
		health_put(p, "%" PRIu64 " s", s);
	else if (s < 7200)
		health_put(p, "%" PRIu64 " min", s / 60);
	else if (s < 172800)
		health_put(p, "%" PRIu64 " h", s / 3600);
	else
		health_put(p, "%" PRIu64 " d", s / 86400);
}

/* What the clocks are, and how high they could be. */
static void health_put_clock(struct health_pen *p, const struct gs_gpu_sample *s)
{
	double now = health_value_of(s, GS_GPU_CLOCK_SM) / 1e6;
	double most = health_value_of(s, GS_GPU_CLOCK_SM_MAX) / 1e6;

	if (now >= 0 && most > 0)
		health_put(p, ", %.0f of %.0f MHz", now, most);
	else if (now >= 0)
		health_put(p, ", %.0f MHz", now);
}

static void health_put_heat(struct health_pen *p, const struct gs_gpu_sample *s, const char *by)
{
	double t = health_value_of(s, GS_GPU_TEMP_GPU), mem = health_value_of(s, GS_GPU_TEMP_MEM);
	double most = health_value_of(s, GS_GPU_TEMP_MEM_MAX);

	health_put(p, "%s", by);
	if (most > 0 && mem >= most - HOT_MARGIN)
		health_put(p, ": memory at %.0f °C", mem);
	else if (!isnan(t))
		health_put(p, ": %.0f °C", t);
	health_put_clock(p, s);
}

static void health_put_power(struct health_pen *p, const struct gs_gpu_sample *s, const char *by)
{
	double power = health_value_of(s, GS_GPU_POWER);
	double limit = health_value_of(s, GS_GPU_POWER_LIMIT);

	health_put(p, "%s", by);
	if (power >= 0 && limit > 0)
		health_put(p, ": %.0f of %.0f W", power, limit);
	else if (power >= 0)
		health_put(p, ": %.0f W", power);
	health_put_clock(p, s);
}

static void health_put_action(struct health_pen *p, double action)
{
	static const char *const actions[] = {"", "a reset", "a reboot", "draining peer-to-peer",
					      "draining and a reset"};

	if (action < GS_ARRAY_LEN(actions))
		health_put(p, "broken: the driver asks for %s", actions[(int)action]);
	else
		health_put(p, "broken: the driver asks for recovery action %.0f", action);
}

static void health_put_xid(struct health_pen *p, const struct gs_gpu_past *past, uint64_t now_ns)
{
	const char *text = gs_gpu_xid_text(past->xid);

	health_put(p, "XID %u ", past->xid);
	health_put_time(p, now_ns > past->xid_ns ? now_ns - past->xid_ns : 0);
	health_put(p, " ago%s%s", text[0] ? ": " : "", text);
}

/* Without the time for which it holds. */
static void health_put_cause(struct health_pen *p, const struct gs_gpu_snapshot *g, uint32_t gpu,
			     enum gs_gpu_condition c)
{
	const struct gs_gpu_sample *s = &g->sample[gpu];

	switch (c) {
	case GS_GPU_CONDITION_LOST:
		health_put(p, "lost: off the bus");
		return;
	case GS_GPU_CONDITION_RECOVERY:
		health_put_action(p, health_value_of(s, GS_GPU_RECOVERY_ACTION));
		return;
	case GS_GPU_CONDITION_REMAP_FAILED:
		health_put(p, "faulty memory: a row could not be replaced");
		return;
	case GS_GPU_CONDITION_ECC_UNCORRECTED:
		health_put(p, "uncorrected memory errors: %.0f since the driver was loaded",
			   health_value_of(s, GS_GPU_ECC_NOW_UNCORRECTED));
		return;
	case GS_GPU_CONDITION_XID:
	case GS_GPU_CONDITION_PROGRAM_XID:
		health_put_xid(p, &s->past, g->time_ns);
		return;
	case GS_GPU_CONDITION_HW_HEAT:
		health_put_heat(p, s, "throttled by heat");
		return;
	case GS_GPU_CONDITION_SW_HEAT:
		health_put_heat(p, s, "throttled by heat (driver)");
		return;
	case GS_GPU_CONDITION_POWER_BRAKE:
		health_put_power(p, s, "throttled by the power brake");
		return;
	case GS_GPU_CONDITION_POWER_CAP:
		health_put_power(p, s, "throttled by the power cap");
		return;
	case GS_GPU_CONDITION_HW_SLOWDOWN:
		health_put_heat(p, s, "throttled by the hardware");
		return;
	case GS_GPU_CONDITION_SYNC_BOOST:
		health_put(p, "throttled by sync boost");
		health_put_clock(p, s);
		return;
	case GS_GPU_CONDITION_HOT:
		health_put(p, "hot: %.0f of %.0f °C", health_value_of(s, GS_GPU_TEMP_GPU),
			   health_slowdown_of(s));
		return;
	case GS_GPU_CONDITION_MEMORY_HOT:
		health_put(p, "memory hot: %.0f of %.0f °C", health_value_of(s, GS_GPU_TEMP_MEM),
			   health_value_of(s, GS_GPU_TEMP_MEM_MAX));
		return;
	case GS_GPU_CONDITION_REPAIR_PENDING:
		health_put(p, "faulty memory: waits for a reset to be replaced");
		return;
	case GS_GPU_CONDITION_PCIE_WIDTH:
		health_put(p, "PCIe x%.0f of x%.0f", health_value_of(s, GS_GPU_PCIE_WIDTH),
			   health_value_of(s, GS_GPU_PCIE_WIDTH_MAX));
		return;
	case GS_GPU_CONDITION_IDLE_HELD:
		health_put(p, "idle");
		return;
	default:
		return;
	}
}

const char *gs_gpu_health_text(const struct gs_gpu_snapshot *g, uint32_t gpu,
			       enum gs_gpu_condition c, char out[GS_GPU_HEALTH_TEXT_BYTES])
{
	const struct gs_gpu_past *past = &g->sample[gpu].past;
	uint64_t since_ns = c < GS_GPU_CONDITION_COUNT ? past->since_ns[c] : 0;
	struct health_pen p = {.out = out};

	out[0] = '\0';
	health_put_cause(&p, g, gpu, c);
	if (since_ns && g->time_ns > since_ns && g->time_ns - since_ns >= 1000000000 &&
	    c != GS_GPU_CONDITION_XID && c != GS_GPU_CONDITION_PROGRAM_XID) {
		health_put(&p, "%sfor %s", c == GS_GPU_CONDITION_IDLE_HELD ? " " : ", ",
			   past->from_start >> c & 1 ? "at least " : "");
		health_put_time(&p, g->time_ns - since_ns);
	}
	if (c == GS_GPU_CONDITION_IDLE_HELD) {
		const struct gs_gpu_process *holder = health_find_holder(g, gpu);

		health_put(&p, ", held by %s",
			   holder && holder->user[0] ? holder->user : "a process");
	}
	return out;
}
