/*
 * The user's folder in /dev/shm, in which processes report from inside, and the plan in it. It is the user's own and private;
 * the agent, which is another user without rights to write in it (packaging/systemd), is named in its access list. Lines are
 * such as a shell takes by eval and Slurm from a TaskProlog: `export NAME=VALUE`, with nothing in VALUE to be quoted.
 */
#include "commands/agent_gpu/agent_inside.h"

#include <endian.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "commands/common/cli.h"
#include "commands/common/library.h"
#include "core/base/mem.h"
#include "model/trace/func.h"
#include "pipeline/gpu_meter/gpu_meter.h"
#include "sources/companion/companion.h"

#define PARENT     "/dev/shm/"
#define RING_BYTES (512u << 10)
#define VALUE_MAX  (128u << 10) /* of a variable: Linux takes no longer one */
#define PLAIN      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_./:=,+@%-"

/* An access list, as the kernel takes it: linux/posix_acl_xattr.h and posix_acl.h, 6.12. */
struct acl_entry {
	uint16_t tag, rights;
	uint32_t id;
};
#define ACL_VERSION 2
#define ACL_ENTRIES 5
struct acl {
	uint32_t version;
	struct acl_entry entry[ACL_ENTRIES];
};
enum { ACL_OWNER = 1, ACL_USER = 2, ACL_GROUP = 4, ACL_MASK = 16, ACL_OTHER = 32 };

/* The owner and that user may do all, in the folder and in what is made there. */
static int admit_user(int fd, uid_t user)
{
	const struct {
		uint16_t tag, rights;
		uint32_t id;
	} rows[ACL_ENTRIES] = {{ACL_OWNER, 7, UINT32_MAX},
			       {ACL_USER, 7, user},
			       {ACL_GROUP, 0, UINT32_MAX},
			       {ACL_MASK, 7, UINT32_MAX},
			       {ACL_OTHER, 0, UINT32_MAX}};
	struct acl acl = {.version = htole32(ACL_VERSION)};

	for (size_t i = 0; i < ACL_ENTRIES; i++)
		acl.entry[i] = (struct acl_entry){htole16(rows[i].tag), htole16(rows[i].rights),
						  htole32(rows[i].id)};
	/* The bit says that it is meant so: companion/ring/setup.c. */
	if (fchmod(fd, 02770) < 0 ||
	    fsetxattr(fd, "system.posix_acl_default", &acl, sizeof(acl), 0) < 0 ||
	    fsetxattr(fd, "system.posix_acl_access", &acl, sizeof(acl), 0) < 0)
		return -errno;
	return 0;
}

/* Root reads everywhere, and a user's own agent its own. */
static int share_folder(int fd, const char *control_path, struct gs_err *err)
{
	struct stat st;
	int r;

	if (stat(control_path, &st) < 0)
		return gs_err_set(err, -errno, "no agent runs here (%s: %s)", control_path,
				  strerror(errno));
	r = st.st_uid == 0 || st.st_uid == geteuid() ? 0 : admit_user(fd, st.st_uid);
	return r < 0 ? gs_err_set(err, r, "the agent cannot be let into the folder: %s",
				  strerror(-r))
		     : 0;
}

static int make_folder(const char *path, const char *control_path, struct gs_err *err)
{
	GS_CLOSE int fd = -1;
	struct stat st;

	if (mkdir(path, 0700) < 0 && errno != EEXIST)
		return gs_err_set(err, -errno, "%s: %s", path, strerror(errno));
	fd = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0 || fstat(fd, &st) < 0)
		return gs_err_set(err, -errno, "%s: %s", path, strerror(errno));
	if (st.st_uid != geteuid())
		return gs_err_set(err, -EPERM, "%s belongs to another user", path);
	return share_folder(fd, control_path, err);
}

/* What is to stand there: the others' first. False: it holds what a shell would not take as it is. */
static bool add_to_value(const char *name, const char *what, char *out, size_t bytes)
{
	const char *others = getenv(name);

	others = others ? others : "";
	return snprintf(out, bytes, "%s%s%s", others, *others ? ":" : "", what) < (int)bytes &&
	       strspn(out, PLAIN) == strlen(out);
}

static int prepare_folder(const char *folder, const char *control_path, char *library,
			  char *preload, char *asan, struct gs_err *err)
{
	bool wanted[GS_FUNC_FIXED];
	int r = gs_cli_find_library(GS_CLI_COMPANION_CALLS, library, PATH_MAX, err);

	if (r < 0)
		return r;
	if (!add_to_value("LD_PRELOAD", library, preload, VALUE_MAX) ||
	    !add_to_value("ASAN_OPTIONS", "verify_asan_link_order=0", asan, VALUE_MAX))
		return gs_err_set(err, -EINVAL,
				  "LD_PRELOAD or ASAN_OPTIONS holds a space or a quote");
	r = make_folder(folder, control_path, err);
	gs_gpu_meter_functions(wanted);
	return r < 0 ? r
		     : gs_companion_plan_write(folder, 1u << GS_COMPANION_CALLS, wanted, RING_BYTES,
					       err);
}

int agent_gpu_print_inside(const char *control_path)
{
	const char *holder = getenv(GS_COMPANION_FOLDER_ENV), *loaded = getenv("LD_PRELOAD");
	GS_FREE char *preload = malloc(VALUE_MAX), *asan = malloc(VALUE_MAX);
	char folder[64], library[PATH_MAX];
	struct gs_err err = {{0}};
	int r;

	snprintf(folder, sizeof(folder), PARENT GS_COMPANION_SHARED_NAME "%u", geteuid());
	if (holder && strcmp(holder, folder) == 0 && loaded &&
	    strstr(loaded, GS_CLI_COMPANION_CALLS))
		return GS_EXIT_DONE; /* a step of a job that has it already */
	if (holder) {
		gs_cli_print_message("agent: " GS_COMPANION_FOLDER_ENV
				     "=%s is set: this job is traced from inside already",
				     holder);
		return GS_EXIT_DONE;
	}
	r = preload && asan ? prepare_folder(folder, control_path, library, preload, asan, &err)
			    : -ENOMEM;
	if (r < 0)
		gs_cli_print_message("agent: %s; the job is traced by probes",
				     gs_err_text(&err, r));
	else
		printf("export LD_PRELOAD=%s\nexport ASAN_OPTIONS=%s\nexport " GS_COMPANION_FOLDER_ENV
		       "=%s\n",
		       preload, asan, folder);
	(void)fflush(stdout);
	return GS_EXIT_DONE;
}
