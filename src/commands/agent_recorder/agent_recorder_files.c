/* Files of the flight recorder: their names, listing, size limits and reading. */
#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "commands/agent_recorder/agent_recorder.h"
#include "core/base/mem.h"
#include "core/base/output.h"
#include "core/base/vec.h"

#define ID_BYTES  64
#define FILES_MAX 65536u

int agent_recorder_prepare(const char *directory, struct gs_err *err)
{
	struct stat st;

	if (mkdir(directory, 0700) < 0 && errno != EEXIST)
		return gs_err_set(err, -errno, "recorder.directory: cannot make %s: %s", directory,
				  strerror(errno));
	if (stat(directory, &st) < 0 || !S_ISDIR(st.st_mode))
		return gs_err_set(err, -ENOTDIR, "recorder.directory: %s is not a directory",
				  directory);
	/* Others could add or remove files. */
	if (st.st_mode & 0022 || (st.st_uid != geteuid() && st.st_uid != 0))
		return gs_err_set(err, -EPERM, "recorder.directory: others can write to %s",
				  directory);
	if (access(directory, W_OK | X_OK) < 0)
		return gs_err_set(err, -errno, "recorder.directory: %s: %s", directory,
				  strerror(errno));
	return 0;
}

void agent_recorder_name(const char *directory, const char *id, char *out, size_t bytes)
{
	char word[ID_BYTES + 1];
	size_t n = 0;

	for (; id[n] && n < ID_BYTES; n++)
		word[n] = isalnum((unsigned char)id[n]) || strchr("_-+", id[n]) ? id[n] : '_';
	word[n] = '\0';
	snprintf(out, bytes, "%s/job-%s.gst", directory, word);
}

/* "job-ID.20261129T053301.123Z.gst", as `gpuscope trace --keep-last` adds the time. */
static bool is_ours(const char *name)
{
	static const char shape[] = ".00000000T000000.000Z.gst";
	size_t n = strlen(name);

	if (strncmp(name, "job-", 4) != 0 || n < 4 + sizeof(shape) - 1)
		return false;
	name += n - (sizeof(shape) - 1);
	for (size_t i = 0; shape[i]; i++)
		if (shape[i] == '0' ? !isdigit((unsigned char)name[i]) : name[i] != shape[i])
			return false;
	return true;
}

static int newest_first(const void *a, const void *b)
{
	const struct agent_recorder_file *x = a, *y = b;

	return x->wall_ns < y->wall_ns   ? 1
	       : x->wall_ns > y->wall_ns ? -1
					 : strcmp(y->name, x->name);
}

/* Reads the reason that the program stored with the file; control characters become spaces. */
static void read_reason(const char *directory, struct agent_recorder_file *f)
{
	char path[600];
	ssize_t n;

	snprintf(path, sizeof(path), "%s/%s", directory, f->name);
	n = lgetxattr(path, GS_OUTPUT_REASON_XATTR, f->reason, sizeof(f->reason) - 1);
	f->reason[n > 0 ? n : 0] = '\0';
	for (char *c = f->reason; *c; c++)
		*c = (unsigned char)*c < 0x20 || *c == 0x7f ? ' ' : *c;
}

static int list_files(const char *directory, DIR *dir, struct agent_recorder_files *ret)
{
	size_t capacity = 0;
	struct dirent *e;

	while ((e = readdir(dir)) != NULL && ret->n_files < FILES_MAX) {
		struct agent_recorder_file *f;
		struct stat st;

		if (!is_ours(e->d_name) ||
		    fstatat(dirfd(dir), e->d_name, &st, AT_SYMLINK_NOFOLLOW) < 0 ||
		    !S_ISREG(st.st_mode))
			continue;
		if (!gs_vec_reserve(&ret->file, &capacity, ret->n_files + 1))
			return -ENOMEM;
		f = &ret->file[ret->n_files++];
		*f = (struct agent_recorder_file){.bytes = (uint64_t)st.st_size,
						  .wall_ns = st.st_mtim.tv_sec * 1000000000 +
							     st.st_mtim.tv_nsec};
		snprintf(f->name, sizeof(f->name), "%.255s", e->d_name);
		read_reason(directory, f);
		ret->bytes += f->bytes;
	}
	return 0;
}

int agent_recorder_prune(const char *directory, uint64_t max_files, uint64_t max_bytes,
			 struct agent_recorder_files *ret)
{
	DIR *dir = opendir(directory);
	int r;

	*ret = (struct agent_recorder_files){0};
	if (!dir)
		return -errno;
	r = list_files(directory, dir, ret);
	if (r == 0 && ret->n_files)
		qsort(ret->file, ret->n_files, sizeof(*ret->file), newest_first);
	/* The newest one stays, however large: a user may be waiting for it. */
	while (r == 0 && ret->n_files > 1 && (ret->n_files > max_files || ret->bytes > max_bytes)) {
		struct agent_recorder_file *f = &ret->file[ret->n_files - 1];

		if (unlinkat(dirfd(dir), f->name, 0) < 0 && errno != ENOENT) {
			r = -errno;
			break;
		}
		ret->bytes -= f->bytes;
		ret->n_files--;
	}
	closedir(dir);
	return r;
}

void agent_recorder_files_fini(struct agent_recorder_files *files)
{
	gs_free_p(&files->file);
	files->n_files = 0;
	files->bytes = 0;
}

int agent_recorder_read_file(const char *directory, const char *name, uint64_t offset,
			     uint32_t max_bytes, struct gs_buf *out, uint64_t *ret_total_bytes)
{
	GS_CLOSE int dir = -1, fd = -1;
	struct stat st;
	ssize_t n;

	/* The name comes from outside: no paths. */
	if (!is_ours(name) || strchr(name, '/'))
		return -ENOENT;
	dir = open(directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	fd = dir < 0 ? -1
		     : openat(dir, name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY);
	if (fd < 0)
		return errno == ELOOP ? -ENOENT : -errno;
	if (fstat(fd, &st) < 0)
		return -errno;
	if (!S_ISREG(st.st_mode))
		return -ENOENT;
	if (gs_buf_reserve(out, max_bytes) < 0)
		return -ENOMEM;
	n = pread(fd, out->data + out->bytes, max_bytes, (off_t)offset);
	if (n < 0)
		return -errno;
	out->bytes += (size_t)n;
	*ret_total_bytes = (uint64_t)st.st_size;
	return 0;
}
