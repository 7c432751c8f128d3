/*
 * Which values of a GPU are read when. Values that come together are a *part*; each part is timed
 * at every reading, because what a call costs differs a thousandfold and from machine to machine:
 * most of NVML's calls wait actively for the GPU's firmware (some ms of processor time each).
 *
 * Without a budget every part of the groups asked for is read. With one (options.budget), a part
 * that costs c and has the weight w is read every t = k * sqrt(c / w), not more often than it is
 * asked for and not more seldom than its limit: among all choices within the budget this has the
 * smallest weighted sum of ages. k is as small as the budget allows. GPM, whose values are means since
 * its last reading, is read at every turn that asks for it while this takes at most half of the
 * budget. With options.oldest_ns the limit is the same for all, GPM included, and grows if reading
 * all at this limit exceeds the budget; only parts that cost next to nothing are read at every
 * turn, and the limit of processes never grows. Where there are two ways to the same values both
 * are tried twice, and the cheaper one that works is kept. Slow parts of several GPUs are spread
 * over turns, so that no turn is much longer than the others.
 */
#include <math.h>
#include <string.h>

#include "core/base/clock.h"
#include "core/base/mem.h"
#include "sources/gpu/gpu_int.h"

#define TRIES             2 /* of each way */
#define PLAN_NS           5000000000ull
#define PLANS_OF_A_BUDGET 3
#define SLICE_NS          2000000ull /* of slow parts in one turn, when they are more than one */
#define LONG_S            60
#define SLOWEST_S         600
#define GOLDEN            0.6180339887498949
#define GROWTH_MAX        5   /* of options.oldest_ns */
#define CHEAP             0.1 /* of a GPU's budget, at every turn */
#define GPM_SHARE         0.5 /* of a GPU's budget, set aside for GPM */
#define MEAN_OF           8   /* of how many readings a cost is the mean, as long as they are few */
#define FIND_NS           200000000ull  /* between lists of processes when no GPU is in focus */
#define LOOK_NS           1000000000ull /* of GPUs beside those in focus */

struct rule {
	unsigned group;   /* enum gs_gpu_group that asks for it; 0: comes with another part */
	double weight;    /* of its age beside that of others */
	double longest_s; /* 0: at every turn, whatever it costs */
	bool slow;        /* without a budget: only at slow turns */
	bool parts_too;   /* of MIG instances as well */
	void (*read[2])(struct gs_nvml *nv, struct gs_nvml_device *dev);
	const char *way[2];
	enum gs_gpu_field proof; /* the field by which a way is seen to work */
};

static void read_power_once(struct gs_nvml *nv, struct gs_nvml_device *dev)
{
	gs_nvml_read_power(nv, dev);
	dev->sample.part_ns[GS_GPU_PART_POWER_INSTANT] = gs_clock_boot_ns();
}

static void read_utilization_once(struct gs_nvml *nv, struct gs_nvml_device *dev)
{
	gs_nvml_read_utilization(nv, dev);
	dev->sample.part_ns[GS_GPU_PART_MEMORY_ACTIVITY] = gs_clock_boot_ns();
}

#define BASIC  GS_GPU_READ_BASIC
#define HEALTH GS_GPU_READ_HEALTH
#define LINKS  GS_GPU_READ_LINKS

/* In the order in which they are read: the first shows whether the GPU answers, GPM's rates of
 * bytes win over those of counters. */
/* clang-format off */
static const struct rule rules[GS_GPU_PARTS] = {
#define CALL(part, group, weight, longest_s, slow, parts_too, read)                                \
	[GS_GPU_PART_##part] = {group, weight, longest_s, slow, parts_too, {read}, {"call"}, 0}
#define FIELDS(part, group, weight, longest_s, slow, read)                                         \
	[GS_GPU_PART_##part] = {group, weight, longest_s, slow, false, {read}, {"fields"}, 0}
	CALL(MEMORY, BASIC, 1, 0, false, true, gs_nvml_read_memory),
	CALL(UTILIZATION, BASIC, 2, 30, false, false, read_utilization_once),
	CALL(ENGINES, BASIC, 1, 10, false, false, gs_nvml_read_engines),
	[GS_GPU_PART_POWER] = {BASIC, 4, 10, false, false, {read_power_once, gs_nvml_read_power_call},
			       {"fields", "call"}, GS_GPU_POWER},
	[GS_GPU_PART_ENERGY] = {BASIC, 1, LONG_S, false, false, {gs_nvml_read_energy, gs_nvml_read_energy_call},
				{"fields", "call"}, GS_GPU_ENERGY},
	CALL(TEMPERATURE, BASIC, 2, 10, false, false, gs_nvml_read_temperature),
	FIELDS(MEMORY_TEMPERATURE, BASIC, 1, 30, false, gs_nvml_read_memory_temperature),
	CALL(CLOCKS, BASIC, 1, 30, false, false, gs_nvml_read_clocks),
	CALL(CLOCKS_MORE, BASIC, 0.2, LONG_S, false, false, gs_nvml_read_clocks_more),
	CALL(STATE, BASIC, 1, 30, false, false, gs_nvml_read_state),
	CALL(FAN, BASIC, 0.2, LONG_S, false, false, gs_nvml_read_fan),
	FIELDS(PCIE, BASIC, 0.2, LONG_S, false, gs_nvml_read_pcie),
	/* With GPM, counters, or by this call when neither is there: at times of its own. */
	CALL(PCIE_RATE, 0, 0, 0, false, false, NULL),
	FIELDS(THROTTLE, BASIC, 0.5, LONG_S, false, gs_nvml_read_throttle),
	CALL(PROCESSES, GS_GPU_READ_PROCESSES, 4, 10, false, true, NULL),
	CALL(SHARES, GS_GPU_READ_PROCESSES, 1, 30, false, false, NULL),
	CALL(BAR1, HEALTH, 0.02, SLOWEST_S, true, false, gs_nvml_read_bar1),
	CALL(LIMITS, HEALTH, 0.02, SLOWEST_S, true, false, gs_nvml_read_limits),
	CALL(ECC, HEALTH, 0.1, SLOWEST_S, true, false, gs_nvml_read_ecc),
	CALL(REPAIRS, HEALTH, 0.1, SLOWEST_S, true, false, gs_nvml_read_repairs),
	CALL(PCIE_LINK, HEALTH, 0.05, SLOWEST_S, true, false, gs_nvml_read_pcie_link),
	[GS_GPU_PART_LINKS] = {LINKS, 0.1, SLOWEST_S, true, false, {gs_nvml_read_links, gs_nvml_read_links_fields},
			       {"call", "fields"}, GS_GPU_NVLINK_ACTIVE},
	FIELDS(LINK_EACH, LINKS, 0.05, LONG_S, true, gs_nvml_read_link_each),
	FIELDS(LINK_BYTES, LINKS, 0.2, LONG_S, false, gs_nvml_read_link_bytes),
	CALL(C2C, LINKS, 0.02, SLOWEST_S, true, false, gs_nvml_read_c2c),
	CALL(GPM, GS_GPU_READ_GPM, 8, 10, false, true, gs_nvml_read_gpm),
#undef CALL
#undef FIELDS
};
/* clang-format on */

static uint64_t thread_cpu_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
	return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static bool has_budget(const struct gs_nvml *nv)
{
	return nv->options->budget > 0;
}

/* The time between two turns that ask for the part. */
static double turn_s(const struct gs_nvml *nv, const struct rule *rule)
{
	double s = 1e-3;

	for (unsigned i = 0; i < GS_NVML_GROUPS; i++)
		if (rule->group >> i & 1 && nv->turn_ns[i])
			s = (double)nv->turn_ns[i] / 1e9;
	if (rule->slow && s < (double)nv->options->slow_ns / 1e9)
		s = (double)nv->options->slow_ns / 1e9;
	return s;
}

static bool is_wanted(const struct gs_nvml *nv, const struct gs_nvml_device *dev, unsigned part)
{
	const struct rule *rule = &rules[part];

	return rule->group && (rule->parts_too || !dev->parent) &&
	       !(nv->options->leave_out >> part & 1);
}

static bool was_tried(const struct gs_nvml_part *p, const struct rule *rule)
{
	return p->tries[0] >= TRIES && (!rule->read[1] || p->tries[1] >= TRIES);
}

/* Whether the device's GPM reports utilisation, so that the costly call need not. */
static void choose_utilization(struct gs_nvml *nv, struct gs_nvml_device *dev)
{
	const struct gs_nvml_part *p = &dev->part[GS_GPU_PART_UTILIZATION];
	double turn = turn_s(nv, &rules[GS_GPU_PART_UTILIZATION]);

	if (dev->gpm_state != 1 || !(nv->options->groups & GS_GPU_READ_GPM) || dev->parent ||
	    nv->options->leave_out >> GS_GPU_PART_GPM & 1)
		dev->util_from_gpm = false;
	else if ((double)p->interval_ns / 1e9 > 1.5 * turn)
		dev->util_from_gpm = true;
}

/* Of one GPU. */
static double budget_of_one(const struct gs_nvml *nv)
{
	return nv->options->budget / (nv->n_in_focus ? nv->n_in_focus : 1);
}

/* The most time between two readings of a part, at this growth of what all may wait. */
static double longest_s(const struct gs_nvml *nv, const struct gs_nvml_device *dev, unsigned part,
			double growth)
{
	double oldest_s = (double)nv->options->oldest_ns / 1e9;
	double cost_s = (double)dev->part[part].cost_ns / 1e9;

	if (part == GS_GPU_PART_UTILIZATION && dev->util_from_gpm)
		return LONG_S;
	if (part == GS_GPU_PART_GPM && oldest_s <= 0)
		return fmin(rules[part].longest_s, cost_s / (GPM_SHARE * budget_of_one(nv)));
	if (oldest_s <= 0 || rules[part].slow)
		return rules[part].longest_s;
	if (cost_s <= CHEAP * budget_of_one(nv) * turn_s(nv, &rules[part]))
		return 0;
	/* What both first readings cost says little. */
	if (!dev->part[part].settled)
		return oldest_s / 4;
	if (part == GS_GPU_PART_PROCESSES)
		return oldest_s;
	return oldest_s * growth;
}

/* Processor time a second when parts are read every k * root, in s; sets their intervals. */
static double load_at(struct gs_nvml *nv, struct gs_nvml_device *dev, const double *root, double k,
		      double growth)
{
	double sum = 0;

	for (unsigned i = 0; i < GS_GPU_PARTS; i++) {
		double shortest = turn_s(nv, &rules[i]), t;
		double longest = longest_s(nv, dev, i, growth);

		if (!is_wanted(nv, dev, i))
			continue;
		longest = longest > shortest ? longest : shortest;
		t = k * root[i];
		t = t < shortest ? shortest : t > longest ? longest : t;
		dev->part[i].interval_ns = (uint64_t)(t * 1e9);
		sum += (double)dev->part[i].cost_ns / 1e9 / t;
	}
	return sum;
}

/* How much longer than options.oldest_ns all have to wait so that they are in the budget. */
static double find_growth(struct gs_nvml *nv, struct gs_nvml_device *dev, const double *root,
			  double k)
{
	double budget = budget_of_one(nv), all = load_at(nv, dev, root, k, 1);
	double growing = 2 * (all - load_at(nv, dev, root, k, 2)), room = budget - (all - growing);

	if (!nv->options->oldest_ns || all <= budget)
		return 1;
	return growing < GROWTH_MAX * room ? growing / room : GROWTH_MAX;
}

static void plan_parts(struct gs_nvml *nv, struct gs_nvml_device *dev, uint64_t now_ns)
{
	double budget = budget_of_one(nv), growth = 1;
	double root[GS_GPU_PARTS], low = 1e-3, high = 1e6;

	dev->plan_ns = now_ns + (nv->options->oldest_ns ? nv->options->oldest_ns / 2 : PLAN_NS);
	for (unsigned i = 0; i < GS_GPU_PARTS; i++) {
		double weight = rules[i].weight;

		if (i == GS_GPU_PART_UTILIZATION && dev->util_from_gpm)
			weight = 0.1;
		root[i] = weight > 0 ? sqrt((double)dev->part[i].cost_ns / 1e9 / weight) : 0;
	}
	if (load_at(nv, dev, root, low, growth) > budget) {
		growth = find_growth(nv, dev, root, high);
		for (unsigned turn = 0; turn < 32; turn++) {
			double k = sqrt(low * high);

			if (load_at(nv, dev, root, k, growth) > budget)
				low = k;
			else
				high = k;
		}
		load_at(nv, dev, root, high, growth);
	}
	choose_utilization(nv, dev);
}

/* The first readings of all GPUs fall together; those after them shall not. */
static void shift_first(const struct gs_nvml *nv, const struct gs_nvml_device *dev, unsigned part)
{
	double n = (double)(dev - nv->device) * GS_GPU_PARTS + part, whole;
	struct gs_nvml_part *p = &((struct gs_nvml_device *)dev)->part[part];

	p->last_ns -= (uint64_t)(0.7 * modf(n * GOLDEN, &whole) * (double)p->interval_ns);
	p->shifted = true;
}

/* Whether a slow part may be read in this turn. The first one that found no room is the first of
 * the next turn, so that an expensive one is not put off for ever by cheap ones before it. */
static bool has_room(struct gs_nvml *nv, const struct gs_nvml_device *dev, unsigned part)
{
	uint32_t key = (uint32_t)(dev - nv->device) * GS_GPU_PARTS + part + 1;

	if (nv->slow_owed && nv->slow_owed != key)
		return false;
	if (nv->slow_cpu_ns && nv->slow_cpu_ns + dev->part[part].cost_ns > SLICE_NS) {
		if (!nv->slow_owed_next)
			nv->slow_owed_next = key;
		return false;
	}
	nv->slow_owed = 0;
	return true;
}

bool gs_nvml_part_due(struct gs_nvml *nv, struct gs_nvml_device *dev, unsigned part,
		      unsigned groups, bool slow_turn, uint64_t now_ns)
{
	const struct rule *rule = &rules[part];
	struct gs_nvml_part *p = &dev->part[part];
	uint64_t half_turn_ns;

	if (!is_wanted(nv, dev, part))
		return false;
	if (dev->out_of_focus)
		return part == GS_GPU_PART_PROCESSES &&
		       (!has_budget(nv) ||
			now_ns >= p->last_ns + (nv->n_in_focus ? LOOK_NS : FIND_NS));
	if (!has_budget(nv))
		return groups & rule->group && (!rule->slow || slow_turn);
	if (groups & rule->group)
		p->asked = true;
	if (!p->asked)
		return false;
	if (!rule->slow && !(groups & rule->group))
		return false;
	if (!p->last_ns || (!rule->slow && !was_tried(p, rule)))
		return true;
	if (was_tried(p, rule) && !p->shifted)
		shift_first(nv, dev, part);
	half_turn_ns = (uint64_t)(turn_s(nv, rule) * 0.5e9);
	if (rule->slow)
		half_turn_ns = 0;
	if (now_ns + half_turn_ns < p->last_ns + p->interval_ns)
		return false;
	return !rule->slow || has_room(nv, dev, part);
}

static unsigned choose_way(const struct gs_nvml *nv, const struct gs_nvml_device *dev,
			   unsigned part)
{
	const struct gs_nvml_part *p = &dev->part[part];

	if (!has_budget(nv) || !rules[part].read[1] || p->tries[0] < TRIES)
		return 0;
	if (p->tries[1] < TRIES)
		return 1;
	/* The call knows the mean alone; what it leaves out comes now and then. */
	if (part == GS_GPU_PART_POWER && p->way == 1 &&
	    gs_clock_boot_ns() - dev->sample.part_ns[GS_GPU_PART_POWER_INSTANT] >
		    LONG_S * 1000000000ull)
		return 0;
	return p->way;
}

void gs_nvml_part_begin(struct gs_nvml_meter *meter)
{
	meter->wall_ns = gs_clock_mono_ns();
	meter->cpu_ns = thread_cpu_ns();
}

void gs_nvml_part_end(struct gs_nvml *nv, struct gs_nvml_device *dev, unsigned part, unsigned way,
		      const struct gs_nvml_meter *meter)
{
	const struct rule *rule = &rules[part];
	struct gs_nvml_part *p = &dev->part[part];
	uint64_t now_ns = gs_clock_mono_ns(), cpu_ns = thread_cpu_ns() - meter->cpu_ns;
	uint64_t as_known = cpu_ns;

	nv->part_cost[part].n++;
	nv->part_cost[part].cpu_ns += cpu_ns;
	nv->part_cost[part].wall_ns += now_ns - meter->wall_ns;
	if (rule->slow)
		nv->slow_cpu_ns += cpu_ns + 1;
	dev->sample.part_ns[part] = gs_clock_boot_ns();
	p->last_ns = now_ns;
	p->asked = false;
	/* A way that does not bring the value is none. */
	if (rule->read[1] && !gs_gpu_has(&dev->sample, rule->proof))
		as_known = UINT64_MAX;
	if (p->tries[way] < TRIES) {
		if (!p->tries[way] || as_known < p->way_ns[way])
			p->way_ns[way] = as_known;
		p->tries[way]++;
		/* The first call pays for what the library does only once. */
		p->cost_ns = p->cost_ns && cpu_ns > p->cost_ns ? p->cost_ns : cpu_ns;
		if (was_tried(p, rule) && rule->read[1]) {
			p->way = p->way_ns[1] < p->way_ns[0] - p->way_ns[0] / 8;
			p->cost_ns = p->way_ns[p->way] == UINT64_MAX ? cpu_ns : p->way_ns[p->way];
		}
		if (nv->options->oldest_ns)
			dev->plan_ns = 0;
	} else if (way == p->way) {
		/* A call may cost many times as much at first: then a reading of less than half the
		 * known cost replaces it. Later the mean counts, not the cheapest reading: some
		 * costs vary (power: 0.1 or 1.3 ms). */
		uint64_t n = !p->n_costs && cpu_ns < p->cost_ns / 2 ? 0 : p->n_costs + TRIES;

		if (nv->options->oldest_ns && (!p->settled || !n))
			dev->plan_ns = 0;
		p->settled = true;
		p->n_costs = (uint8_t)(!n ? 0 : n < MEAN_OF - 1 ? p->n_costs + 1 : p->n_costs);
		p->cost_ns = (n * p->cost_ns + cpu_ns) / (n + 1);
	}
}

void gs_nvml_part_read(struct gs_nvml *nv, struct gs_nvml_device *dev, unsigned part)
{
	unsigned way = choose_way(nv, dev, part);
	struct gs_nvml_meter meter;

	gs_nvml_part_begin(&meter);
	rules[part].read[way](nv, dev);
	gs_nvml_part_end(nv, dev, part, way, &meter);
}

void gs_nvml_parts_read(struct gs_nvml *nv, struct gs_nvml_device *dev, unsigned groups,
			bool slow_turn, uint64_t now_ns)
{
	for (unsigned i = 0; i < GS_GPU_PARTS && !dev->sample.lost; i++)
		if (rules[i].read[0] && gs_nvml_part_due(nv, dev, i, groups, slow_turn, now_ns))
			gs_nvml_part_read(nv, dev, i);
	if (has_budget(nv) && (now_ns >= dev->plan_ns || nv->plans_due))
		plan_parts(nv, dev, now_ns);
}

/* Who has another budget reads at another pace. The turn that brings it lies between the two paces,
 * so that the intervals are found again at that one and at those after it. */
static void note_budget(struct gs_nvml *nv)
{
	if (nv->plan_budget > 0 && nv->plan_budget != nv->options->budget)
		nv->plans_due = PLANS_OF_A_BUDGET;
	else if (nv->plans_due)
		nv->plans_due--;
	nv->plan_budget = nv->options->budget;
}

static void update_focus(struct gs_nvml *nv)
{
	nv->n_in_focus = 0;
	for (unsigned i = 0; i < nv->n_devices; i++) {
		struct gs_nvml_device *dev = &nv->device[i];

		dev->out_of_focus = nv->focus != NULL;
		for (size_t k = 0; k < nv->n_focus && dev->out_of_focus; k++)
			dev->out_of_focus = strcmp(nv->focus[k].text, dev->info.uuid) != 0;
		nv->n_in_focus += !dev->out_of_focus;
	}
}

void gs_nvml_begin_sample(struct gs_nvml *nv, unsigned groups, uint64_t now_ns)
{
	update_focus(nv);
	note_budget(nv);
	nv->slow_cpu_ns = 0;
	nv->pcie_measured = false;
	nv->slow_owed = nv->slow_owed_next;
	nv->slow_owed_next = 0;
	for (unsigned i = 0; i < GS_NVML_GROUPS; i++) {
		if (!(groups >> i & 1))
			continue;
		if (nv->group_ns[i])
			nv->turn_ns[i] = now_ns - nv->group_ns[i];
		nv->group_ns[i] = now_ns;
	}
}

const char *gs_nvml_part_method(const struct gs_nvml_device *dev, unsigned part)
{
	if (part == GS_GPU_PART_UTILIZATION && dev->util_from_gpm)
		return "gpm";
	return rules[part].way[0] ? rules[part].way[dev->part[part].way] : "";
}
