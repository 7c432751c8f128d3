/* Control groups and Slurm: by what gpuscope knows which processes are a job. */
#include <errno.h>
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "analysis/doctor/doctor_int.h"
#include "core/base/mem.h"
#include "sources/device_cgroup/device_cgroup.h"
#include "sources/identity/job.h"

#define PLUGSTACK_BYTES 65536
#define PLUGSTACK_FILES 256
#define SPANK_NAME      "spank_gpuscope.so"
#define PING_NS         5000000000ull

static bool is_there(const struct gs_doctor *d, const char *path)
{
	char full[PATH_MAX];

	return access(doctor_path(d, path, full), F_OK) == 0;
}

static void ask_cgroups(struct gs_doctor *d)
{
	bool v2 = is_there(d, "/sys/fs/cgroup/cgroup.controllers") ||
		  is_there(d, "/sys/fs/cgroup/unified/cgroup.controllers");
	bool v1 = is_there(d, "/sys/fs/cgroup/devices") || is_there(d, "/sys/fs/cgroup/memory") ||
		  is_there(d, "/sys/fs/cgroup/systemd");
	bool any = v1 || v2;

	gs_doctor_put(
		d,
		&(struct gs_doctor_row){
			.group = GS_DOCTOR_JOBS,
			.state = any ? GS_DOCTOR_WORKS : GS_DOCTOR_LIMITED,
			.name = "cgroups",
			.found = v1 && v2 ? "versions 1 and 2"
				 : v2     ? "version 2"
				 : v1     ? "version 1"
					  : "no hierarchy in /sys/fs/cgroup",
			.without =
				any ? ""
				    : "jobs are found only by Slurm's environment variables, by user and by process tree; --cgroup does not work",
			.mend = any ? "" : "sudo mount -t cgroup2 none /sys/fs/cgroup"});
}

/* Whether devices of NVIDIA's can be opened in the caller's own group. */
static void ask_devices(struct gs_doctor *d)
{
	const struct gs_device_options options = {
		.size = sizeof(options), .host_root = d->options.root[0] ? d->options.root : NULL};
	GS_FREE struct gs_device_result *result = calloc(1, sizeof(*result));
	struct gs_err err = {{0}};
	int r = result ? gs_device_check((int)getpid(), &options, result, &err) : -ENOMEM;
	struct gs_doctor_row row = {.group = GS_DOCTOR_JOBS, .name = "device rules"};
	char mend[64];

	snprintf(mend, sizeof(mend), "sudo gpuscope devices grant %d", (int)getppid());
	if (r == -ENODEV || r == -ENOENT) {
		row.state = GS_DOCTOR_NOT_NEEDED;
		row.found = "the NVIDIA driver is not loaded";
	} else if (r < 0) {
		row.state = GS_DOCTOR_NOT_ASKED;
		row.found = gs_err_text(&err, r);
	} else if (gs_device_is_open(result)) {
		row.state = GS_DOCTOR_WORKS;
		row.found = "this cgroup allows NVIDIA devices";
	} else {
		row.state = GS_DOCTOR_FAILS;
		row.found = result->reason;
		row.without =
			"programs in this cgroup cannot open GPUs, and NVML may report \"Unknown Error\"";
		row.mend = mend;
	}
	gs_doctor_put(d, &row);
}

/* --- Slurm --- */

/* Folder of slurm.conf; false: none of the usual ones has it. */
static bool find_conf(const struct gs_doctor *d, char *out, size_t bytes)
{
	static const char *const usual[] = {"/etc/slurm", "/run/slurm/conf", "/etc/slurm-llnl",
					    "/usr/local/etc", "/opt/slurm/etc"};
	const char *own = secure_getenv("SLURM_CONF"), *slash = own ? strrchr(own, '/') : NULL;
	char path[PATH_MAX];

	if (slash && access(own, F_OK) == 0) {
		snprintf(out, bytes, "%.*s", (int)(slash - own), own);
		return true;
	}
	for (size_t i = 0; i < GS_ARRAY_LEN(usual); i++) {
		snprintf(path, sizeof(path), "%s/slurm.conf", usual[i]);
		if (is_there(d, path)) {
			snprintf(out, bytes, "%s%s", d->options.root, usual[i]);
			return true;
		}
	}
	return false;
}

/* The plug-in that a file of plugstack.conf's form names. False: it names none of ours. */
static bool read_plugstack(const char *path, char *out, size_t bytes)
{
	GS_FCLOSE FILE *f = fopen(path, "re");
	char line[1024];
	size_t n = 0;

	while (f && n < PLUGSTACK_BYTES && fgets(line, sizeof(line), f)) {
		char kind[16], plugin[PATH_MAX] = "";
		const char *name;

		n += strlen(line);
		if (line[0] == '#' || sscanf(line, "%15s %1000s", kind, plugin) != 2)
			continue;
		name = strrchr(plugin, '/');
		if (strcmp(name ? name + 1 : plugin, SPANK_NAME) == 0) {
			snprintf(out, bytes, "%s", plugin);
			return true;
		}
	}
	return false;
}

/* Of the file, and of the folder that Debian's includes. */
static bool find_spank(const char *folder, char *out, size_t bytes)
{
	char path[PATH_MAX];
	struct dirent *e;
	bool found;
	DIR *dir;

	snprintf(path, sizeof(path), "%s/plugstack.conf", folder);
	found = read_plugstack(path, out, bytes);
	snprintf(path, sizeof(path), "%s/plugstack.conf.d", folder);
	dir = found ? NULL : opendir(path);
	for (unsigned n = 0; dir && !found && n < PLUGSTACK_FILES && (e = readdir(dir)); n++) {
		if (e->d_name[0] == '.')
			continue;
		snprintf(path, sizeof(path), "%s/plugstack.conf.d/%s", folder, e->d_name);
		found = read_plugstack(path, out, bytes);
	}
	if (dir)
		closedir(dir);
	return found;
}

static void ask_spank(struct gs_doctor *d, const char *folder)
{
	const char *ours = d->options.spank_path;
	struct gs_doctor_row row = {.group = GS_DOCTOR_JOBS, .name = "SPANK plug-in"};
	char plugin[PATH_MAX] = "", mend[GS_DOCTOR_TEXT_BYTES] = "", found[GS_DOCTOR_TEXT_BYTES];

	if (find_spank(folder, plugin, sizeof(plugin)) &&
	    (plugin[0] != '/' || access(plugin, R_OK) == 0)) {
		row.state = GS_DOCTOR_WORKS;
		row.found = plugin;
		gs_doctor_put(d, &row);
		return;
	}
	row.state = GS_DOCTOR_LIMITED;
	row.without =
		"srun has no --gpuscope; the agent, a prolog or `gpuscope job` can still report jobs";
	snprintf(found, sizeof(found),
		 plugin[0] ? "plugstack.conf names %.200s, which does not exist"
			   : "not in %.200s/plugstack.conf",
		 plugin[0] ? plugin : folder);
	row.found = found;
	if (ours && ours[0] && plugin[0])
		snprintf(mend, sizeof(mend), "sudo ln -s %.120s %.120s", ours, plugin);
	else if (ours && ours[0])
		snprintf(mend, sizeof(mend),
			 "echo optional %.120s | sudo tee -a %.120s/plugstack.conf", ours, folder);
	else
		snprintf(mend, sizeof(mend),
			 "install Slurm's headers (libslurm-dev), then build and install gpuscope");
	row.mend = mend;
	gs_doctor_put(d, &row);
}

static void ask_controller(struct gs_doctor *d, const struct gs_jobs *jobs)
{
	char said[200], found[GS_DOCTOR_TEXT_BYTES];
	int r = gs_jobs_ping_controller(jobs, said, sizeof(said));
	bool works = r == 0;

	snprintf(found, sizeof(found), "%s%s",
		 said[0] ? "" : "scontrol ping did not answer in time", said);
	gs_doctor_put(
		d,
		&(struct gs_doctor_row){
			.group = GS_DOCTOR_JOBS,
			.state = works ? GS_DOCTOR_WORKS : GS_DOCTOR_LIMITED,
			.name = "slurmctld",
			.found = found,
			.without =
				works ? ""
				      : "names, users, limits and GPUs of jobs are unknown; their processes are still found",
			.mend = works ? "" : "scontrol ping"});
}

static void ask_slurm(struct gs_doctor *d)
{
	const struct gs_jobs_options options = {.size = sizeof(options),
						.command_path = d->options.slurm_path,
						.command_ns = PING_NS};
	GS_CLEANUP(gs_jobs_free) struct gs_jobs *jobs = NULL;
	char folder[PATH_MAX], version[64], found[GS_DOCTOR_TEXT_BYTES];
	bool has_conf = find_conf(d, folder, sizeof(folder));
	struct gs_doctor_row row = {
		.group = GS_DOCTOR_JOBS, .name = "Slurm's commands", .found = found};

	if (gs_jobs_new(&options, &jobs, NULL) < 0)
		return;
	gs_jobs_slurm_version(jobs, version, sizeof(version));
	row.state = !has_conf  ? GS_DOCTOR_NOT_NEEDED
		    : *version ? GS_DOCTOR_WORKS
			       : GS_DOCTOR_LIMITED;
	snprintf(found, sizeof(found),
		 !has_conf  ? "no slurm.conf on this machine%s"
		 : *version ? "version %s"
			    : "scontrol was not found%s",
		 has_conf ? version : "");
	if (row.state == GS_DOCTOR_LIMITED) {
		row.without =
			"names, users, limits and GPUs of jobs are unknown; their processes are still found";
		row.mend =
			"install Slurm's client commands (Debian: sudo apt-get install slurm-client)";
	}
	gs_doctor_put(d, &row);
	if (!has_conf)
		return;
	if (*version)
		ask_controller(d, jobs);
	ask_spank(d, folder);
}

void doctor_ask_jobs(struct gs_doctor *d)
{
	ask_cgroups(d);
	ask_devices(d);
	ask_slurm(d);
}
