/*
 * The efficiency score: what a job used of what it held earns up to 100 points; waste takes a part
 * of what was earned. A job that keeps all its processors (or GPUs) at work has 100, one that holds
 * them and sleeps has 0; one that waits for disks or the network has more than a sleeper, so that
 * the jobs that most need help stand apart.
 *
 *   earned   processors: cpu_percent. With GPUs: three quarters by the GPUs, one by the processors
 *            as far as half of them (feeding a GPU needs no more) and the GPUs work for it
 *            disks and network: up to 25 of what the processors left, by the share of time blocked
 *            on them
 *   taken    of each 100 points that were earned
 *            killed for lack of memory: 50; stalled for it, or paging: up to 50
 *            stopped by its quota: up to 30; locks: up to 30; collectives: up to 30
 *            more threads than processors: up to 10 by the time that they wait for each other
 *            switches against its will: up to 10, all from 2,000 by core-second on
 *            GPUs that were never used: up to 30, by their share
 *            ranks out of step: up to 15
 *            memory asked for and not used: up to 10, when less than half of it was
 *            80 in all
 *
 * What is not known takes nothing.
 */
#include <math.h>
#include <stdarg.h>
#include <stdio.h>

#include "analysis/rules/rules_int.h"

#define TAKEN_MAX 80 /* of each 100: who does something has more than who sleeps */

static void add_part(struct gs_verdict *v, const char *name, double points, double max_points,
		     const char *fmt, ...) GS_PRINTF(5, 6);

static void add_part(struct gs_verdict *v, const char *name, double points, double max_points,
		     const char *fmt, ...)
{
	struct gs_verdict_part *p = &v->part[v->n_parts];
	va_list ap;

	if (v->n_parts == sizeof(v->part) / sizeof(v->part[0]))
		return;
	v->n_parts++;
	p->name = name;
	p->points = points;
	p->max_points = max_points;
	va_start(ap, fmt);
	vsnprintf(p->because, sizeof(p->because), fmt, ap);
	va_end(ap);
}

static double share_of(double percent)
{
	return fmin(1, fmax(0, percent / 100));
}

/* How much of a GPU is at work, 0..1: SMs where that is known, since a GPU is "utilised" by a
 * single small kernel already. */
static double gpu_use(const struct gs_figures *f)
{
	double sm = f->v[GS_FIGURE_SM], gpu = f->v[GS_FIGURE_GPU], dram = f->v[GS_FIGURE_DRAM];

	if (isnan(sm))
		return share_of(gpu);
	/* Bandwidth of 80 % is as much as can be had (NVIDIA's guidance). */
	return fmax(share_of(sm), isnan(dram) ? 0 : share_of(dram / 0.8));
}

static void earn_points(const struct gs_figures *f, struct gs_verdict *v)
{
	double cpu = f->v[GS_FIGURE_CPU], gpu = f->v[GS_FIGURE_GPU];
	double io = f->v[GS_FIGURE_IO], net = f->v[GS_FIGURE_NET];
	double blocked = (isnan(io) ? 0 : io) + (isnan(net) ? 0 : net);
	double feed = fmin(1, 2 * share_of(cpu));

	if (!(f->v[GS_FIGURE_N_GPUS] > 0) || isnan(gpu)) {
		add_part(v, "processors used", 100 * share_of(cpu), 100, "%.1f %% of their time",
			 cpu);
		if (blocked > 0)
			add_part(v, "disks and network",
				 25 * share_of(blocked) * (1 - share_of(cpu)), 25,
				 "%.1f %% of its threads' time waited for them", blocked);
		return;
	}
	add_part(v, "GPUs used", 75 * gpu_use(f), 75, "%s %.1f %%",
		 isnan(f->v[GS_FIGURE_SM]) ? "utilisation" : "SMs active",
		 isnan(f->v[GS_FIGURE_SM]) ? gpu : f->v[GS_FIGURE_SM]);
	/* Who spins before idle GPUs feeds none. */
	feed *= fmin(1, 4 * gpu_use(f));
	if (!isnan(cpu))
		add_part(v, "processors used", 25 * feed, 25, "%.1f %% of their time", cpu);
}

static void take_points(struct gs_verdict *v, const char *name, double percent, double most,
			const char *what)
{
	if (percent > 0)
		add_part(v, name, -most * share_of(percent), -most, "%.1f %% %s", percent, what);
}

/* A job that lives on what its memory leaves it waits for disks as one that reads does. */
static void take_memory(const struct gs_rules *rules, const struct gs_figures *f,
			struct gs_verdict *v)
{
	double kills = f->v[GS_FIGURE_OOM_KILLS], faults = f->v[GS_FIGURE_FAULTS_MAJOR];
	double pressure = f->v[GS_FIGURE_MEMORY_PRESSURE], io = f->v[GS_FIGURE_IO];

	if (kills > 0) {
		add_part(v, "killed for lack of memory", -50, -50, "%.0f of its processes", kills);
	} else if (f->v[GS_FIGURE_MEMORY_HELD] >= rules->threshold[GS_T_MEMORY] &&
		   faults >= rules->threshold[GS_T_PAGING]) {
		add_part(v, "paging", -50 * share_of(fmax(isnan(io) ? 0 : io, pressure)), -50,
			 "%.0f page faults a second wait for a disk", faults);
	} else {
		take_points(v, "memory", pressure, 50, "of the time stalled for memory");
	}
}

/* What its threads wait for processors beyond what others took. */
static double own_queue(const struct gs_figures *f)
{
	double queue = f->v[GS_FIGURE_RUNQUEUE], taken = f->v[GS_FIGURE_TAKEN];

	return queue > taken ? queue - taken : 0; /* 0, too, when one is not known */
}

void gs_rules_score(const struct gs_rules *rules, const struct gs_figures *f, struct gs_verdict *v)
{
	double forced = f->v[GS_FIGURE_FORCED], idle = f->v[GS_FIGURE_GPUS_IDLE];
	double memory = f->v[GS_FIGURE_MEMORY], sum = 0, earned = 0, taken = 0;
	size_t n_earned;

	v->score = NAN;
	if (isnan(f->v[GS_FIGURE_CPU]) && isnan(f->v[GS_FIGURE_GPU]))
		return;
	earn_points(f, v);
	n_earned = v->n_parts;
	for (size_t i = 0; i < n_earned; i++)
		earned += v->part[i].points;
	take_memory(rules, f, v);
	take_points(v, "quota", f->v[GS_FIGURE_THROTTLED], 30, "of its periods were throttled");
	take_points(v, "locks", f->v[GS_FIGURE_LOCK], 30, "of its threads' time was blocked");
	take_points(v, "collectives", f->v[GS_FIGURE_NCCL], 30, "of the time");
	take_points(v, "threads", own_queue(f), 10, "of their time they wait for each other");
	if (forced > 0)
		add_part(v, "forced switches", -10 * fmin(1, forced / 2000), -10,
			 "%.0f per core and second", forced);
	if (idle > 0 && f->v[GS_FIGURE_N_GPUS] > 0)
		add_part(v, "GPUs never used", -30 * share_of(100 * idle / f->v[GS_FIGURE_N_GPUS]),
			 -30, "%.0f of %.0f", idle, f->v[GS_FIGURE_N_GPUS]);
	take_points(v, "ranks out of step", f->v[GS_FIGURE_IMBALANCE], 15, "slower than the mean");
	if (memory < 50 && f->v[GS_FIGURE_MEMORY_ALLOCATED] > 0)
		add_part(v, "memory requested", -10 * (1 - memory / 50), -10, "%.1f %% of it used",
			 memory);
	for (size_t i = n_earned; i < v->n_parts; i++)
		taken -= v->part[i].points;
	for (size_t i = n_earned; i < v->n_parts; i++)
		v->part[i].points *= earned / 100 * fmin(1, TAKEN_MAX / taken);
	for (size_t i = 0; i < v->n_parts; i++)
		sum += v->part[i].points;
	v->score = fmin(100, fmax(0, sum));
}
