/* The end of a recorder in the background. */
#include "commands/job/job_linger.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/pidfd.h>
#include <unistd.h>

#include "core/base/clock.h"
#include "core/base/mem.h"
#include "commands/job/job_state.h"

/* For who stops it in the usual way: epilog and slurm-record come when the last process has gone.
 */
#define GRACE_NS          15000000000ull
#define LAUNCHER_GRACE_NS 10000000000ull
#define ASK_AFTER_NS      3000000000ull

struct job_linger {
	const struct job_options *options;
	struct gs_job_asker *asker[GS_ACCOUNTING_SELECT_MAX]; /* of -j; NULL: not asked yet */
	int launcher_fd;                                      /* -1 none */
	uint64_t launcher_gone_ns;                            /* boot clock; 0: it is there */
	uint64_t quiet_ns;      /* since when no process is here; 0: some are */
	uint64_t slurm_said_ns; /* when Slurm said last that it goes on */
	bool had_process;
	char why[160];
};

int job_linger_new(const struct job_options *o, struct job_linger **ret, struct gs_err *err)
{
	struct job_linger *l = calloc(1, sizeof(*l));

	if (!l)
		return gs_err_set(err, -ENOMEM, "no memory");
	l->options = o;
	l->launcher_fd = o->measure.parent_pid ? pidfd_open((pid_t)o->measure.parent_pid, 0) : -1;
	if (o->measure.parent_pid && l->launcher_fd < 0 && errno == ESRCH) {
		free(l);
		return gs_err_set(err, -ESRCH, "--parent-pid: no process %u here",
				  o->measure.parent_pid);
	}
	*ret = l;
	return 0;
}

void job_linger_free(struct job_linger **linger)
{
	struct job_linger *l = *linger;

	if (!l)
		return;
	for (size_t i = 0; i < GS_ARRAY_LEN(l->asker); i++)
		gs_job_asker_free(&l->asker[i]);
	gs_close_p(&l->launcher_fd);
	gs_free_p(linger);
}

static bool launcher_is_gone(struct job_linger *l, uint64_t now_ns)
{
	struct pollfd end = {.fd = l->launcher_fd, .events = POLLIN};

	if (l->launcher_fd < 0)
		return false;
	if (!l->launcher_gone_ns && poll(&end, 1, 0) == 1)
		l->launcher_gone_ns = now_ns;
	return l->launcher_gone_ns && now_ns - l->launcher_gone_ns >= LAUNCHER_GRACE_NS;
}

/* Of all that were asked for: the one that has most to come. *ret_open: an answer is awaited. */
static enum gs_job_state state_of_jobs(struct job_linger *l, bool *ret_open)
{
	enum gs_job_state all = GS_JOB_STATE_OVER;

	for (size_t i = 0; i < l->options->measure.n_select; i++) {
		enum gs_job_state state = GS_JOB_STATE_UNKNOWN;

		if (!l->asker[i])
			(void)gs_job_asker_new(l->options->measure.ids[i], NULL, &l->asker[i]);
		if (l->asker[i])
			state = gs_job_asker_poll(l->asker[i]);
		*ret_open |= l->asker[i] && gs_job_asker_is_open(l->asker[i]);
		if (state == GS_JOB_STATE_RUNS || all == GS_JOB_STATE_RUNS)
			all = GS_JOB_STATE_RUNS;
		else if (state < all)
			all = state;
	}
	return all;
}

static bool has_waited(struct job_linger *l, uint64_t now_ns)
{
	uint64_t since_ns = l->slurm_said_ns > l->quiet_ns ? l->slurm_said_ns : l->quiet_ns;

	if (now_ns - since_ns < l->options->linger_ns)
		return false;
	snprintf(l->why, sizeof(l->why),
		 "the recording has ended: no process was here for %llu s%s (--linger)",
		 (unsigned long long)((now_ns - since_ns) / 1000000000),
		 l->options->measure.by == GS_ACCOUNTING_OF_IDS
			 ? ", and Slurm does not report the job as running"
			 : "");
	return true;
}

static bool job_is_over(struct job_linger *l, uint64_t now_ns)
{
	enum gs_job_state state;
	bool open = false;

	if (now_ns - l->quiet_ns < ASK_AFTER_NS)
		return false;
	state = state_of_jobs(l, &open);
	/* What waits for another run was recorded in full. */
	if (state == GS_JOB_STATE_OVER ||
	    (state == GS_JOB_STATE_WAITS && l->had_process && l->options->measure.n_select == 1))
		return now_ns - l->quiet_ns >= GRACE_NS;
	if (state != GS_JOB_STATE_UNKNOWN) {
		l->slurm_said_ns = now_ns;
		return false;
	}
	return !open && has_waited(l, now_ns);
}

bool job_linger_is_over(struct job_linger *l, size_t n_alive, const char **ret_why)
{
	uint64_t now_ns = gs_clock_boot_ns();
	bool over = false;

	*ret_why = NULL;
	l->why[0] = '\0';
	if (launcher_is_gone(l, now_ns))
		return true;
	if (n_alive) {
		l->had_process = true;
		l->quiet_ns = 0;
		return false;
	}
	if (!l->quiet_ns)
		l->quiet_ns = now_ns;
	if (l->options->measure.by == GS_ACCOUNTING_OF_PIDS)
		return true;
	if (l->options->measure.by == GS_ACCOUNTING_OF_IDS)
		over = job_is_over(l, now_ns);
	else if (l->options->measure.by == GS_ACCOUNTING_OF_CGROUP)
		over = has_waited(l, now_ns);
	if (over && l->why[0])
		*ret_why = l->why;
	return over;
}
