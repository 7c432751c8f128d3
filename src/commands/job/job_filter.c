/*
 * What --filter (or ebpf.filter of the configuration) asks for, read once: families of the kernel's
 * counters, and probes of CUDA and MPI, which are none of these.
 */
#include <errno.h>
#include <string.h>

#include "commands/job/job.h"
#include "sources/taskstats/taskstats.h"

/* A name out of a list: whether it was there, and the others. */
static bool take_name(const char *text, const char *name, char *rest, size_t bytes)
{
	bool has = false;
	size_t n = 0;

	rest[0] = '\0';
	for (;;) {
		size_t word = strcspn(text, ",");

		if (word == strlen(name) && strncmp(text, name, word) == 0)
			has = true;
		else
			n += (size_t)snprintf(rest + n, n < bytes ? bytes - n : 0, "%s%.*s",
					      n ? "," : "", (int)word, text);
		if (!text[word])
			return has;
		text += word + 1;
	}
}

int job_filter_parse(struct job_options *o, const char *text)
{
	char others[sizeof(o->measure.filter)], rest[sizeof(o->measure.filter)];
	uint32_t families = 0;
	struct gs_err ignored;
	bool cuda, mpi;

	if (!*text || strlen(text) >= sizeof(o->measure.filter))
		return -EINVAL;
	cuda = take_name(text, "cuda", others, sizeof(others));
	mpi = take_name(others, "mpi", rest, sizeof(rest));
	if ((rest[0] || (!cuda && !mpi)) &&
	    gs_taskstats_families_parse(rest, &families, &ignored) < 0)
		return -EINVAL;
	o->measure.families = families;
	o->measure.cuda = cuda || families == GS_TASKSTATS_ALL;
	o->measure.mpi = mpi || families == GS_TASKSTATS_ALL;
	snprintf(o->measure.filter, sizeof(o->measure.filter), "%s", text);
	return 0;
}

void job_filter_configure(struct job_options *o)
{
	static const uint32_t family[] = {GS_TASKSTATS_SYSCALL, GS_TASKSTATS_SCHED, GS_TASKSTATS_IO,
					  GS_TASKSTATS_NET};

	for (unsigned i = 0; i < sizeof(family) / sizeof(family[0]); i++)
		if (!o->measure.conf.probes[i])
			o->measure.families &= ~family[i];
	o->measure.cuda &= o->measure.conf.probe_cuda;
	o->measure.mpi &= o->measure.conf.probe_mpi;
}
