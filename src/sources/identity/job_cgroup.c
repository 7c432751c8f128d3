/*
 * Every line of /proc/PID/cgroup is ID:CONTROLLERS:PATH. Slurm's groups, in any of them:
 *
 *   version 1      /slurm[_NODE]/uid_U/job_J/step_S[/task_T]
 *   version 2      .../[NODE_]slurmstepd.scope/job_J/step_S/{slurm | user/task_T}
 *   since 26.05    the same with s<13 of base 32> for job_J
 *
 * wherever the scope lies: CgroupSlice= and a slurmd in a container put their own folders in front.
 * Slurm wins over everything, since its jobs also run inside of units and containers; then a pod,
 * then a unit, then whatever group there is. Only some controllers may name the job, the others
 * stand at "/".
 */
#include "sources/identity/job_cgroup.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SLUID_LEN  14 /* with the s in front */
#define NUMBER_MAX 18 /* digits */
#define COMPONENTS 32
#define PATH_BYTES 4096

struct path {
	char text[PATH_BYTES]; /* cut into components by zeros */
	char *part[COMPONENTS];
	size_t at[COMPONENTS]; /* where each begins in the uncut path */
	size_t n;
};

static void split_path(const char *from, size_t bytes, struct path *p)
{
	char *c = p->text;

	p->n = 0;
	if (bytes >= sizeof(p->text))
		bytes = sizeof(p->text) - 1;
	memcpy(p->text, from, bytes);
	p->text[bytes] = '\0';
	while (*c && p->n < COMPONENTS) {
		while (*c == '/')
			c++;
		if (!*c)
			break;
		p->at[p->n] = (size_t)(c - p->text);
		p->part[p->n++] = c;
		c += strcspn(c, "/");
		if (*c)
			*c++ = '\0';
	}
}

/* The number after prefix, all of the rest of word. */
static bool number_after(const char *word, const char *prefix, int64_t *ret)
{
	size_t n = strlen(prefix);
	const char *d = word + n;

	if (strncmp(word, prefix, n) != 0 || !*d || strlen(d) > NUMBER_MAX)
		return false;
	for (const char *c = d; *c; c++)
		if (!isdigit((unsigned char)*c))
			return false;
	*ret = strtoll(d, NULL, 10);
	return true;
}

/* Crockford's base 32 without I, L, O and U. */
static bool is_sluid(const char *word)
{
	if (strlen(word) != SLUID_LEN || word[0] != 's')
		return false;
	for (const char *c = word + 1; *c; c++)
		if (!(isdigit((unsigned char)*c) ||
		      (isupper((unsigned char)*c) && !strchr("ILOU", *c))))
			return false;
	return true;
}

static bool is_step(const char *word)
{
	size_t digits = strspn(word, "0123456789");

	if (strcmp(word, "batch") == 0 || strcmp(word, "extern") == 0 ||
	    strcmp(word, "interactive") == 0)
		return true;
	if (!digits || strlen(word) >= sizeof(((struct gs_job_cgroup *)0)->step))
		return false;
	if (word[digits] == '+') {
		size_t more = strspn(word + digits + 1, "0123456789");

		return more && !word[digits + 1 + more];
	}
	return !word[digits];
}

/* The component is the folder of Slurm's jobs; its node's name, "" when there is only one. */
static bool is_slurm_root(const char *word, char node[64])
{
	static const char scope[] = "slurmstepd.scope";
	size_t len = strlen(word);

	node[0] = '\0';
	if (strcmp(word, "slurm") == 0 || strcmp(word, scope) == 0)
		return true;
	if (strncmp(word, "slurm_", 6) == 0) {
		snprintf(node, 64, "%s", word + 6);
		return true;
	}
	if (len > sizeof(scope) && strcmp(word + len - sizeof(scope) + 1, scope) == 0 &&
	    word[len - sizeof(scope)] == '_') {
		snprintf(node, 64, "%.*s", (int)(len - sizeof(scope)), word);
		return true;
	}
	return false;
}

/* What stands below the job's own folder. */
static void below_job(const struct path *p, size_t i, struct gs_job_cgroup *g)
{
	int64_t n;

	for (; i < p->n; i++) {
		const char *c = p->part[i];

		if (strncmp(c, "step_", 5) == 0 && is_step(c + 5) && !g->step[0])
			snprintf(g->step, sizeof(g->step), "%s", c + 5);
		else if (number_after(c, "task_", &n) && n <= INT32_MAX)
			g->task_id = (int32_t)n;
		else if (strcmp(c, "task_special") == 0)
			g->task_id = GS_JOB_TASK_SPECIAL;
		else if (strcmp(c, "slurm") == 0)
			g->is_daemon = true;
	}
}

static bool of_slurm(const struct path *p, const char *whole, struct gs_job_cgroup *g)
{
	for (size_t i = 0; i + 1 < p->n; i++) {
		size_t j = i + 1, end;
		char node[64];

		if (!is_slurm_root(p->part[i], node))
			continue;
		*g = (struct gs_job_cgroup){
			.kind = GS_JOB_SLURM, .job_id = -1, .uid = -1, .task_id = -1};
		if (number_after(p->part[j], "uid_", &g->uid))
			j++;
		if (j >= p->n ||
		    !(number_after(p->part[j], "job_", &g->job_id) || is_sluid(p->part[j])))
			continue;
		if (g->job_id < 0)
			snprintf(g->sluid, sizeof(g->sluid), "%s", p->part[j]);
		snprintf(g->node, sizeof(g->node), "%s", node);
		end = p->at[j] + strlen(p->part[j]);
		if (end < sizeof(g->path))
			snprintf(g->path, sizeof(g->path), "%.*s", (int)end, whole);
		below_job(p, j + 1, g);
		return true;
	}
	return false;
}

/* kubepods/burstable/pod<uid>/..., or kubepods-burstable-pod<uid with _>.slice. */
static bool of_pod(const struct path *p, const char *whole, struct gs_job_cgroup *g)
{
	bool below = false;

	for (size_t i = 0; i < p->n; i++) {
		const char *c = p->part[i], *uid = strstr(c, "-pod");
		size_t n;

		below |= strncmp(c, "kubepods", 8) == 0;
		if (!below)
			continue;
		uid = uid ? uid + 4 : strncmp(c, "pod", 3) == 0 ? c + 3 : NULL;
		n = uid ? strspn(uid, "0123456789abcdef-_") : 0;
		if (n < 32 || n > 36 || (uid[n] && strcmp(uid + n, ".slice") != 0))
			continue;
		*g = (struct gs_job_cgroup){
			.kind = GS_JOB_POD, .job_id = -1, .uid = -1, .task_id = -1};
		snprintf(g->name, sizeof(g->name), "%.*s", (int)n, uid);
		for (char *u = g->name; *u; u++)
			*u = *u == '_' ? '-' : *u;
		n = p->at[i] + strlen(c);
		if (n < sizeof(g->path))
			snprintf(g->path, sizeof(g->path), "%.*s", (int)n, whole);
		return true;
	}
	return false;
}

static bool ends_in(const char *word, const char *suffix)
{
	size_t n = strlen(word), m = strlen(suffix);

	return n > m && strcmp(word + n - m, suffix) == 0;
}

/* The innermost service or scope. */
static bool of_unit(const struct path *p, struct gs_job_cgroup *g)
{
	for (size_t i = p->n; i > 0; i--) {
		if (!ends_in(p->part[i - 1], ".service") && !ends_in(p->part[i - 1], ".scope"))
			continue;
		*g = (struct gs_job_cgroup){
			.kind = GS_JOB_UNIT, .job_id = -1, .uid = -1, .task_id = -1};
		snprintf(g->name, sizeof(g->name), "%s", p->part[i - 1]);
		return true;
	}
	return false;
}

static bool of_any(const struct path *p, const char *whole, size_t bytes, struct gs_job_cgroup *g)
{
	if (!p->n)
		return false;
	*g = (struct gs_job_cgroup){.kind = GS_JOB_CGROUP, .job_id = -1, .uid = -1, .task_id = -1};
	snprintf(g->name, sizeof(g->name), "%.*s", (int)bytes, whole);
	return true;
}

/* The highest one names the process's job. */
static unsigned rank_of(const struct gs_job_cgroup *g)
{
	switch (g->kind) {
	case GS_JOB_SLURM:
		return g->owner == GS_JOB_OWNER_ROOT ? 6 : 4;
	case GS_JOB_POD:
		return g->owner == GS_JOB_OWNER_ROOT ? 5 : 3;
	case GS_JOB_UNIT:
		return 2;
	default:
		return g->kind == GS_JOB_CGROUP;
	}
}

/* More of the same job: another controller's line may know the task. */
static bool knows_more(const struct gs_job_cgroup *a, const struct gs_job_cgroup *b)
{
	if (rank_of(a) != rank_of(b))
		return rank_of(a) > rank_of(b);
	return a->kind == GS_JOB_SLURM &&
	       (a->step[0] != 0) + (a->task_id != -1) > (b->step[0] != 0) + (b->task_id != -1);
}

static void clean_text(char *text)
{
	for (; *text; text++)
		if ((unsigned char)*text < 0x20 || *text == 0x7f)
			*text = '?';
}

bool gs_job_of_cgroup(const char *text, struct gs_job_cgroup *ret)
{
	return gs_job_of_owned_cgroup(text, NULL, NULL, ret);
}

/* A path that is too long to be looked up is not root's: Slurm's and Kubernetes' are short. */
static uint32_t owner_of(gs_job_owner_fn owner, void *ctx, const char *hierarchy,
			 const struct gs_job_cgroup *g)
{
	if (!owner || (g->kind != GS_JOB_SLURM && g->kind != GS_JOB_POD))
		return GS_JOB_OWNER_UNKNOWN;
	return g->path[0] ? owner(ctx, hierarchy, g->path) : GS_JOB_OWNER_OTHER;
}

bool gs_job_of_owned_cgroup(const char *text, gs_job_owner_fn owner, void *ctx,
			    struct gs_job_cgroup *ret)
{
	*ret = (struct gs_job_cgroup){.job_id = -1, .uid = -1, .task_id = -1};
	while (*text) {
		size_t line = strcspn(text, "\n");
		const char *first = memchr(text, ':', line);
		const char *second =
			first ? memchr(first + 1, ':', line - (size_t)(first + 1 - text)) : NULL;
		struct gs_job_cgroup g;
		struct path p;

		if (second) {
			const char *whole = second + 1;
			size_t bytes = line - (size_t)(whole - text);

			split_path(whole, bytes, &p);
			if (of_slurm(&p, whole, &g) || of_pod(&p, whole, &g) || of_unit(&p, &g) ||
			    of_any(&p, whole, bytes, &g)) {
				snprintf(g.hierarchy, sizeof(g.hierarchy), "%.*s",
					 (int)(second - first - 1), first + 1);
				g.owner = owner_of(owner, ctx, g.hierarchy, &g);
				/* A pod's processes are accounted one by one. */
				if (g.kind == GS_JOB_POD)
					g.path[0] = '\0';
				if (knows_more(&g, ret))
					*ret = g;
			}
		}
		text += line + (text[line] == '\n');
	}
	clean_text(ret->name);
	clean_text(ret->node);
	clean_text(ret->path);
	clean_text(ret->hierarchy);
	return ret->kind != GS_JOB_NONE;
}
