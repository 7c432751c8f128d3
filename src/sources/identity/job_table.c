/*
 * The table of jobs: its options, its entries, and what follows when several sources have the same one.
 */
#include "sources/identity/job_table_int.h"

#include <errno.h>
#include <fcntl.h>
#include <pwd.h>
#include <string.h>
#include <sys/utsname.h>

#include "core/base/clock.h"
#include "core/base/mem.h"
#include "core/base/pidns.h"
#include "sources/identity/identity.h"
#include "sources/identity/identity_int.h"

#define COMMAND_BYTES   (8u << 20)
#define CACHE_NS        30000000000ull
#define COMMAND_NS      5000000000ull
#define COMMAND_FOLDERS "/usr/bin:/usr/local/bin:/opt/slurm/bin:/usr/local/slurm/bin"
#define DROP_FOLDERS    "/run/gpustat:/run/dcgm-job-mapping:/var/run/exporter"

/* --- life --- */

static bool copy_option(char *out, size_t bytes, const char *text, const char *preset)
{
	return snprintf(out, bytes, "%s", text ? text : preset) < (int)bytes;
}

static void choose_files(struct gs_jobs *j, const struct gs_jobs_options *o)
{
	const char *conf = o->slurm_conf ? o->slurm_conf : secure_getenv("SLURM_CONF");
	const char *slash = conf ? strrchr(conf, '/') : NULL;
	char beside[512] = "/etc/slurm/gres.conf";

	if (slash)
		snprintf(beside, sizeof(beside), "%.*s/gres.conf", (int)(slash - conf), conf);
	copy_option(j->slurm_conf, sizeof(j->slurm_conf), conf, "");
	copy_option(j->gres_conf, sizeof(j->gres_conf), o->gres_conf, beside);
}

int gs_jobs_new(const struct gs_jobs_options *o, struct gs_jobs **ret, struct gs_err *err)
{
	struct gs_jobs *j = calloc(1, sizeof(*j));
	long hz = sysconf(_SC_CLK_TCK);

	if (!j)
		return gs_err_set(err, -ENOMEM, "no memory");
	j->proc_fd = j->cgroup_fd = -1;
	j->command = GS_COMMAND_INIT(COMMAND_BYTES);
	j->text = GS_BUF_INIT(GS_JOBS_ENVIRON_BYTES);
	j->by_key = GS_MAP_INIT(4 * JOBS_MAX);
	j->by_pid = GS_MAP_INIT(GS_JOBS_PROCESSES_MAX + 1);
	j->left_out = GS_MAP_INIT(GS_JOBS_PROCESSES_MAX);
	if (!copy_option(j->command_path, sizeof(j->command_path), o->command_path,
			 COMMAND_FOLDERS) ||
	    !copy_option(j->drop_folders, sizeof(j->drop_folders), o->drop_folders, DROP_FOLDERS)) {
		gs_jobs_free(&j);
		return gs_err_set(err, -EINVAL,
				  "a list of directories is longer than %d bytes: give fewer",
				  FOLDERS_MAX - 1);
	}
	choose_files(j, o);
	snprintf(j->node, sizeof(j->node), "%s", o->node ? o->node : "");
	j->trusted_uid = o->trusted_uid;
	j->in_container = !o->proc_root && gs_pid_namespace();
	j->no_node = o->no_node;
	j->no_controller = o->no_controller;
	j->cache_ns = o->cache_ns ? o->cache_ns : CACHE_NS;
	j->command_ns = o->command_ns ? o->command_ns : COMMAND_NS;
	j->now_ns = o->now_ns ? o->now_ns : gs_clock_boot_ns;
	j->ns_per_tick = 1000000000ull / (uint64_t)(hz > 0 ? hz : 100);
	j->proc_fd = open(o->proc_root ? o->proc_root : "/proc", O_PATH | O_DIRECTORY | O_CLOEXEC);
	j->cgroup_fd = open(o->cgroup_root ? o->cgroup_root : "/sys/fs/cgroup",
			    O_PATH | O_DIRECTORY | O_CLOEXEC);
	*ret = j;
	return 0;
}

void gs_jobs_free(struct gs_jobs **jobs)
{
	struct gs_jobs *j = *jobs;

	if (!j)
		return;
	gs_command_fini(&j->command);
	for (uint32_t i = 0; i < j->n_entries; i++)
		free(j->entry[i]);
	free(j->process);
	free(j->reported);
	gs_map_fini(&j->by_key);
	gs_map_fini(&j->by_pid);
	gs_map_fini(&j->left_out);
	gs_buf_fini(&j->text);
	gs_close_p(&j->proc_fd);
	gs_close_p(&j->cgroup_fd);
	free(j);
	*jobs = NULL;
}

void gs_jobs_stats(const struct gs_jobs *jobs, struct gs_jobs_stats *ret)
{
	*ret = jobs->stats;
}

/* --- entries --- */

uint64_t gs_jobs_key_of_job(int64_t job_id)
{
	return gs_hash_bytes(&job_id, sizeof(job_id));
}

uint64_t gs_jobs_key_of_text(uint32_t kind, const char *text)
{
	char key[GS_IDENTITY_CMDLINE_BYTES];
	int n = snprintf(key, sizeof(key), "%u %s", kind, text);

	return gs_hash_bytes(key, n < (int)sizeof(key) ? (size_t)n : sizeof(key) - 1);
}

bool gs_jobs_is_asked(const struct gs_jobs *j, const struct job_entry *e)
{
	return j->question != Q_NONE && j->asked == e;
}

void gs_jobs_free_entry(struct gs_jobs *j, uint32_t at)
{
	struct job_entry *e = j->entry[at];
	uint64_t address;

	if (gs_map_get(&j->by_key, e->key, &address) && address == (uintptr_t)e)
		gs_map_del(&j->by_key, e->key);
	free(e);
	j->entry[at] = j->entry[--j->n_entries];
}

/* Make room: the entry without processes that was seen least recently goes. */
static bool give_up_one(struct gs_jobs *j)
{
	struct job_entry *oldest = NULL;
	uint32_t at = 0;

	for (uint32_t i = 0; i < j->n_entries; i++) {
		struct job_entry *e = j->entry[i];

		if (e->n_processes || e->gpus_drop || gs_jobs_is_asked(j, e) ||
		    (oldest && oldest->seen_ns <= e->seen_ns))
			continue;
		oldest = e;
		at = i;
	}
	if (!oldest)
		return false;
	gs_jobs_free_entry(j, at);
	return true;
}

struct job_entry *gs_jobs_make_entry(struct gs_jobs *j, uint64_t key)
{
	struct job_entry *e;

	if (j->n_entries == JOBS_MAX && !give_up_one(j)) {
		j->stats.n_jobs_full++;
		return NULL;
	}
	e = calloc(1, sizeof(*e));
	if (!e || gs_map_put(&j->by_key, key, (uintptr_t)e) < 0) {
		free(e);
		return NULL;
	}
	e->key = key;
	e->restart = e->claim_uid = -1;
	e->seen_ns = j->now_ns();
	e->job = gs_job_unknown;
	j->entry[j->n_entries++] = e;
	return e;
}

struct job_entry *gs_jobs_entry_of(struct gs_jobs *j, uint64_t key, bool make)
{
	uint64_t address;

	if (gs_map_get(&j->by_key, key, &address))
		return (struct job_entry *)(uintptr_t)address;
	return make ? gs_jobs_make_entry(j, key) : NULL;
}

#define MERGE_TEXT(field)                                                                          \
	do {                                                                                       \
		if (f->field[0] && (wins || !t->field[0]))                                         \
			memcpy(t->field, f->field, sizeof(t->field));                              \
	} while (0)
#define MERGE_NUMBER(field)                                                                        \
	do {                                                                                       \
		if (f->field >= 0 && (wins || t->field < 0))                                       \
			t->field = f->field;                                                       \
	} while (0)

void gs_jobs_merge(struct job_entry *e, const struct gs_job *f, bool wins)
{
	struct gs_job *t = &e->job;

	t->kind = f->kind;
	t->source |= f->source;
	MERGE_NUMBER(job_id);
	MERGE_NUMBER(array_job_id);
	MERGE_NUMBER(array_task_id);
	MERGE_NUMBER(het_job_id);
	MERGE_NUMBER(het_offset);
	MERGE_NUMBER(uid);
	MERGE_NUMBER(n_cpus);
	MERGE_NUMBER(mem_bytes);
	MERGE_NUMBER(start_s);
	MERGE_NUMBER(limit_s);
	MERGE_TEXT(sluid);
	MERGE_TEXT(cluster);
	MERGE_TEXT(name);
	MERGE_TEXT(user);
	MERGE_TEXT(account);
	MERGE_TEXT(partition);
	MERGE_TEXT(qos);
	MERGE_TEXT(nodes);
	MERGE_TEXT(pod);
	MERGE_TEXT(namespace);
	if (t->kind == GS_JOB_SLURM)
		gs_job_name_id(t);
	else
		MERGE_TEXT(id);
}

void gs_jobs_name_user(int64_t uid, char *out, size_t bytes)
{
	char room[4096];
	struct passwd who, *found = NULL;

	if (uid < 0 || uid > UINT32_MAX)
		return;
	if (getpwuid_r((uid_t)uid, &who, room, sizeof(room), &found) == 0 && found)
		gs_identity_copy_clean(out, bytes, who.pw_name, strlen(who.pw_name));
	else
		snprintf(out, bytes, "%lld", (long long)uid);
}

/* gres.conf says what Slurm's index means on the node of this name. */
static void read_gres_conf(struct gs_jobs *j, const char *node)
{
	GS_FREE char *text = NULL;
	GS_CLOSE int fd = -1;
	ssize_t n;

	j->has_gres_conf = true;
	fd = open(j->gres_conf, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	text = fd >= 0 ? malloc(COMMAND_BYTES) : NULL;
	n = text ? read(fd, text, COMMAND_BYTES) : -1;
	if (n > 0)
		gs_job_parse_gres_conf(text, (size_t)n, node, &j->gpus);
}

void gs_jobs_node_name(const struct gs_jobs *j, const char *said, char out[64])
{
	struct utsname u;

	snprintf(out, 64, "%s", said[0] ? said : j->node);
	if (!out[0] && uname(&u) == 0)
		snprintf(out, 64, "%.*s", (int)strcspn(u.nodename, "."), u.nodename);
}

void gs_jobs_prepare_gpus(struct gs_jobs *j, const char *node)
{
	char name[64];

	if (!j->has_snapshot && !j->has_driver_files && j->proc_fd >= 0) {
		gs_job_gpus_read(j->proc_fd, &j->gpus);
		j->has_driver_files = true;
	}
	if (j->has_gres_conf)
		return;
	gs_jobs_node_name(j, node, name);
	read_gres_conf(j, name);
}

const struct gs_job *gs_jobs_finish(struct gs_jobs *j, struct job_entry *e)
{
	struct gs_job *job = &e->job;

	if (e->has_gpus_reported || e->has_gpus_environ || e->gpus_drop)
		gs_jobs_prepare_gpus(j, e->node);
	job->gpu_mask = e->has_gpus_reported  ? gs_job_gpus_of_slurm(&j->gpus, e->gpus_reported)
			: e->gpus_drop        ? e->gpus_drop
			: e->has_gpus_environ ? gs_job_gpus_of_slurm(&j->gpus, e->gpus_environ)
					      : e->gpus_open;
	return job;
}

int gs_jobs_set_gpus(struct gs_jobs *j, const struct gs_gpu_snapshot *s)
{
	uint32_t n = s->n_gpus < GS_JOB_GPUS_MAX ? s->n_gpus : GS_JOB_GPUS_MAX;

	for (uint32_t i = 0; i < n; i++) {
		struct gs_job_gpu *g = &j->gpus.gpu[i];
		const struct gs_gpu_info *info = &s->info[i];
		bool is_part = strncmp(info->uuid, "MIG-", 4) == 0;

		g->minor = is_part ? -1 : info->minor;
		g->index = is_part ? -1 : (int32_t)info->index;
		snprintf(g->uuid, sizeof(g->uuid), "%s", info->uuid);
		snprintf(g->bus_id, sizeof(g->bus_id), "%s", info->pci_bus_id);
	}
	j->gpus.n = n;
	j->has_snapshot = true;
	return 0;
}
