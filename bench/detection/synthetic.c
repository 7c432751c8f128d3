/* Runs with labelled faults: synthetic.h. */
#include "synthetic.h"

#include <errno.h>
#include <math.h>
#include <stdbool.h>
#include <stdlib.h>

#define BEGIN_NS    1000000000000ull
#define STEP_S      0.5
#define CLEAN_S     400.0
#define MEAN_GAP_S  240.0
#define REST_S      60.0
#define DURATION_S  120.0
#define DEVIATION_S 20.0
#define DRIFT_S     900.0 /* what grows slowly has more time, and the gaps are longer */
#define GIB         1073741824.0

const char *const synthetic_fault_names[SYNTHETIC_N_FAULTS] = {
	"slow", "drift",    "stall",    "leak", "fragmentation", "power", "launches",
	"tiny", "pageable", "throttle", "idle", "overlap",       "xid",   "links",
};
const char *const synthetic_load_names[SYNTHETIC_N_LOADS] = {"steady", "pauses", "lengths"};

struct maker {
	const struct synthetic_options *o;
	struct synthetic_run *run;
	uint64_t random;
	double now_s, noise; /* noise: of the step before, which the next one resembles */
	size_t step, capacity;
	double leaked;
	bool was_fault; /* the sample before was in one */
};

double synthetic_draw(uint64_t *state)
{
	uint64_t z = *state += 0x9e3779b97f4a7c15ull;

	z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ull;
	z = (z ^ (z >> 27)) * 0x94d049bb133111ebull;
	return (double)((z ^ (z >> 31)) >> 11) * 0x1p-53;
}

/* Normal, as the sum of twelve uniform numbers: no tail beyond 6, which no series here needs. */
static double draw_normal(uint64_t *state)
{
	double sum = 0;

	for (int i = 0; i < 12; i++)
		sum += synthetic_draw(state);
	return sum - 6;
}

/* What needs time to be found, and errors, whose findings last for long. */
static bool is_slow_growth(enum synthetic_fault fault)
{
	return fault == SYNTHETIC_DRIFT || fault == SYNTHETIC_LEAK || fault == SYNTHETIC_IDLE ||
	       fault == SYNTHETIC_OVERLAP || fault == SYNTHETIC_XID || fault == SYNTHETIC_LINKS;
}

/* What is sampled by the clock, and not by steps. */
static const struct share_kind {
	double period_s; /* between samples; 0: with each step */
	double usual;    /* share without a fault */
	double amount;   /* how much there is of what it is a share of */
	double little;   /* of it, that does not matter */
	unsigned moment; /* samples of all of it, which are no fault */
	bool is_flag;    /* a sample is 1 or 0 */
} share_kinds[SYNTHETIC_N_FAULTS] = {
	[SYNTHETIC_LAUNCHES] = {1, 0.2, 5000, 500, 3, false},
	[SYNTHETIC_TINY] = {1, 0.3, 5000, 500, 3, false},
	[SYNTHETIC_PAGEABLE] = {1, 0.1, 1e9, 8e6, 3, false},
	[SYNTHETIC_THROTTLE] = {1, 0.02, 0.9, 0.05, 3, true},
	[SYNTHETIC_IDLE] = {1, 0.1, 8 * GIB, 0.1 * GIB, 240, true},
	[SYNTHETIC_OVERLAP] = {20, 0.3, 0.4, 0.05, 1, false},
	[SYNTHETIC_XID] = {.period_s = 1},
	[SYNTHETIC_LINKS] = {.period_s = 1},
};

static uint64_t to_ns(double s)
{
	return BEGIN_NS + (uint64_t)llround(s * 1e9);
}

static int make_schedule(struct maker *m)
{
	bool slow = is_slow_growth(m->o->fault);
	double at = CLEAN_S;
	size_t capacity = (size_t)(m->o->seconds / REST_S) + 2;

	m->run->labels = calloc(capacity, sizeof(*m->run->labels));
	if (!m->run->labels)
		return -ENOMEM;
	while (m->o->severity > 0) {
		double gap = -MEAN_GAP_S * log1p(-synthetic_draw(&m->random));
		double duration = fmax(30, DURATION_S + DEVIATION_S * draw_normal(&m->random));

		at += slow ? gap + DRIFT_S : gap;
		duration = slow ? DRIFT_S : duration;
		/* A run does not end within a fault: there would be no time left to find it. */
		if (at + duration + REST_S > m->o->seconds)
			break;
		m->run->labels[m->run->n_labels++] =
			(struct synthetic_label){to_ns(at), to_ns(at + duration)};
		at += duration + REST_S;
		/* A hang ends a run; what comes again and again is no hang. */
		if (m->o->fault == SYNTHETIC_STALL)
			break;
	}
	return 0;
}

/* How far a fault is on at this time, from 0 to 1; -1: none. */
static double fault_at(const struct maker *m, double s, double *ret_left_s)
{
	uint64_t ns = to_ns(s);

	for (size_t i = 0; i < m->run->n_labels; i++) {
		const struct synthetic_label *l = &m->run->labels[i];

		if (ns >= l->start_ns && ns < l->end_ns) {
			*ret_left_s = (double)(l->end_ns - ns) / 1e9;
			return (double)(ns - l->start_ns) / (double)(l->end_ns - l->start_ns);
		}
	}
	return -1;
}

/* A step without a fault, in s. */
static double usual_step(struct maker *m)
{
	bool lengths = m->o->load == SYNTHETIC_LENGTHS;
	double s = STEP_S * (1 + 3 * exp(-(double)m->step / 15)),
	       other = synthetic_draw(&m->random);

	/* Each step resembles the one before: clocks and neighbours change slowly. */
	m->noise = 0.3 * m->noise + sqrt(1 - 0.3 * 0.3) * draw_normal(&m->random);
	s *= exp(lengths ? 0.12 * draw_normal(&m->random) : 0.01 * m->noise);
	if (m->step == 0)
		s += 20; /* kernels are compiled, data is read for the first time */
	if (other < 0.005)
		s *= 1.1 + 0.4 * synthetic_draw(&m->random);
	if (m->o->load == SYNTHETIC_PAUSES) {
		if (m->step % 400 == 399)
			s += 5 + 5 * synthetic_draw(&m->random);
		if (m->step % 500 >= 480)
			s *= 0.4;
	}
	return s;
}

static double next_step(struct maker *m)
{
	double s = usual_step(m), left_s = 0, progress = fault_at(m, m->now_s, &left_s);

	if (share_kinds[m->o->fault].period_s > 0)
		return share_kinds[m->o->fault].period_s;
	if (progress >= 0 && m->o->fault == SYNTHETIC_SLOW)
		s *= m->o->severity;
	else if (progress >= 0 && m->o->fault == SYNTHETIC_DRIFT)
		s *= 1 + (m->o->severity - 1) * progress;
	else if (progress >= 0 && m->o->fault == SYNTHETIC_STALL)
		s += left_s;
	return s;
}

static void set_memory(struct maker *m, double *values)
{
	double left_s, progress = fault_at(m, m->now_s, &left_s);
	double bytes = 20 * GIB + 4 * GIB * (1 - exp(-m->now_s / 40)); /* caches fill */

	m->leaked = progress >= 0 ? m->leaked + m->o->severity * 1e6 : 0;
	bytes += 2 * GIB * synthetic_draw(&m->random); /* within a step, at any point of it */
	if (m->o->load == SYNTHETIC_PAUSES && m->step % 500 >= 480)
		bytes += GIB;
	values[0] = round(bytes + m->leaked);
}

static void set_allocator(struct maker *m, double *values)
{
	double left_s, progress = fault_at(m, m->now_s, &left_s);
	double peak = 40 * GIB,
	       unused = progress >= 0 ? m->o->severity * fmin(1, 10 * progress) : 0.04;

	values[0] = round(peak * (m->step % 4 ? 0.2 + 0.5 * synthetic_draw(&m->random) : 1));
	values[1] = round(peak / (1 - fmax(unused, 0.04)));
}

static void set_gpu(struct maker *m, double *values)
{
	double left_s, progress = fault_at(m, m->now_s, &left_s);
	bool idle = m->o->load == SYNTHETIC_PAUSES && m->step % 200 >= 190;
	double power = idle ? 0.25 : 0.75, lost = progress >= 0 && !idle ? m->o->severity : 0;

	values[0] = 0.6 + 0.002 * draw_normal(&m->random);
	values[1] = power * (1 - lost) + 0.03 * draw_normal(&m->random);
	values[2] = (idle ? 52 : 62) - 30 * lost + 1.0 * draw_normal(&m->random);
}

static void set_share(struct maker *m, const struct share_kind *kind, double *values)
{
	double left_s, progress = fault_at(m, m->now_s, &left_s);
	double spread = m->o->load == SYNTHETIC_LENGTHS ? 0.1 : 0.02;
	double share = progress >= 0 ? m->o->severity : kind->usual;
	bool pauses = m->o->load == SYNTHETIC_PAUSES && progress < 0;

	if (kind->is_flag)
		share = synthetic_draw(&m->random) < share;
	else
		share += spread * draw_normal(&m->random);
	values[1] = kind->amount * (0.9 + 0.2 * synthetic_draw(&m->random));
	/* A checkpoint is all of it, for a moment; the end of an epoch is, too, but there is little of it. */
	if (pauses && m->step % 1000 >= 500 && m->step % 1000 < 500 + kind->moment)
		share = 1;
	if (pauses && m->step % 2000 >= 1700) {
		share = 1;
		values[1] *= kind->little / kind->amount;
	}
	values[0] = fmin(1, fmax(0, share));
}

static void set_errors(struct maker *m, double *values)
{
	bool of_links = m->o->fault == SYNTHETIC_LINKS;
	double left_s, progress = fault_at(m, m->now_s, &left_s);
	double a_minute = m->o->load == SYNTHETIC_LENGTHS ? 1 : 0.2;
	bool begins = progress >= 0 && !m->was_fault;

	m->was_fault = progress >= 0;
	if (progress >= 0)
		a_minute = of_links ? m->o->severity : (m->o->severity - 1) * 60 / DRIFT_S;
	else if (!of_links)
		a_minute = 0;
	values[0] = floor(a_minute / 60) + (synthetic_draw(&m->random) < fmod(a_minute / 60, 1));
	if (!of_links && begins)
		values[0]++;
	/* A link that trains again loses a handful of packets at once. */
	if (of_links && m->o->load == SYNTHETIC_PAUSES && progress < 0 && m->step % 2000 == 1000)
		values[0] += 6;
}

static int add_sample(struct maker *m)
{
	struct synthetic_run *run = m->run;
	double s = next_step(m);
	struct synthetic_sample *sample;

	if (run->n_samples == m->capacity) {
		size_t capacity = m->capacity ? 2 * m->capacity : 8192;
		struct synthetic_sample *more =
			realloc(run->samples, capacity * sizeof(*run->samples));

		if (!more)
			return -ENOMEM;
		run->samples = more;
		m->capacity = capacity;
	}
	m->now_s += s;
	sample = &run->samples[run->n_samples++];
	*sample = (struct synthetic_sample){to_ns(m->now_s), {round(s * 1e9)}};
	if (m->o->fault == SYNTHETIC_LEAK)
		set_memory(m, sample->values);
	else if (m->o->fault == SYNTHETIC_FRAGMENTS)
		set_allocator(m, sample->values);
	else if (m->o->fault == SYNTHETIC_POWER)
		set_gpu(m, sample->values);
	else if (m->o->fault == SYNTHETIC_XID || m->o->fault == SYNTHETIC_LINKS)
		set_errors(m, sample->values);
	else if (share_kinds[m->o->fault].period_s > 0)
		set_share(m, &share_kinds[m->o->fault], sample->values);
	m->step++;
	return 0;
}

int synthetic_make_run(const struct synthetic_options *options, struct synthetic_run *ret)
{
	struct maker m = {.o = options, .run = ret};
	int r;

	*ret = (struct synthetic_run){.options = *options, .start_ns = BEGIN_NS};
	/* Each run its own numbers, also where only the severity differs. */
	m.random = options->seed * 1000003 + (uint64_t)options->fault * 101 +
		   (uint64_t)options->load * 11 + (uint64_t)(options->severity * 1000) * 7919;
	synthetic_draw(&m.random);
	r = make_schedule(&m);
	while (r == 0 && m.now_s < options->seconds)
		r = add_sample(&m);
	ret->end_ns = to_ns(m.now_s);
	if (r < 0)
		synthetic_free_run(ret);
	return r;
}

void synthetic_free_run(struct synthetic_run *run)
{
	free(run->samples);
	free(run->labels);
	*run = (struct synthetic_run){0};
}
