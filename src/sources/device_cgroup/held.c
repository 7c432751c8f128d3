/* Which of NVIDIA's devices a process has open, by its descriptors in /proc: the kernel allowed each
 * of these once, so allowing them again gives the process nothing that it had not. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>

#include "sources/device_cgroup/device_int.h"

#define DESCRIPTORS_MAX 65536 /* of one process that are looked at */
#define DEVICES_BYTES   65536 /* of /proc/devices */
#define PROCESSES_MAX   (4 << 20)

int device_read_held(int proc_fd, const struct device_drivers *drivers, struct device_rules *ret)
{
	int fd = openat(proc_fd, "fd", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *dir = fd < 0 ? NULL : fdopendir(fd);
	struct dirent *e;
	unsigned left = DESCRIPTORS_MAX;
	int r = 0;

	ret->n = 0;
	if (!dir) {
		r = -errno;
		gs_close_p(&fd);
		return r;
	}
	while (r == 0 && left-- && (e = readdir(dir))) {
		struct stat st;

		if (e->d_name[0] < '0' || e->d_name[0] > '9' ||
		    fstatat(dirfd(dir), e->d_name, &st, 0) < 0 || !S_ISCHR(st.st_mode) ||
		    !device_is_major(drivers, major(st.st_rdev)))
			continue;
		if (!device_add_rule(ret, major(st.st_rdev), minor(st.st_rdev)))
			r = -E2BIG;
	}
	closedir(dir);
	return r;
}

static int compare_pids(const void *a, const void *b)
{
	const int x = *(const int *)a, y = *(const int *)b;

	return (x > y) - (x < y);
}

/* Those found so far, in order, without the greatest where there are too many. */
static void add_holder(int *pids, unsigned max, unsigned *n, int pid)
{
	unsigned kept = *n < max ? *n : max;

	++*n;
	if (kept < max)
		pids[kept++] = pid;
	else if (kept && pid < pids[kept - 1])
		pids[kept - 1] = pid;
	qsort(pids, kept, sizeof(*pids), compare_pids);
}

int gs_device_find_holders(const struct gs_device_options *options, int *ret_pids, unsigned max,
			   unsigned *ret_n, struct gs_err *err)
{
	GS_CLEANUP(device_host_close) struct device_host host = DEVICE_HOST_INIT;
	GS_FREE char *text = malloc(DEVICES_BYTES);
	struct device_drivers drivers;
	struct device_rules held;
	struct dirent *e;
	unsigned left = PROCESSES_MAX;
	DIR *dir;
	int fd, r;

	*ret_n = 0;
	r = text ? device_host_open(options->host_root, &host, err)
		 : gs_err_set(err, -ENOMEM, "no memory");
	if (r < 0)
		return r;
	(void)device_read_text(host.root_fd, "proc/devices", text, DEVICES_BYTES);
	device_parse_drivers(text, &drivers);
	fd = device_host_openat(host.root_fd, "proc", O_RDONLY | O_DIRECTORY);
	dir = fd < 0 ? NULL : fdopendir(fd);
	if (!dir) {
		r = fd < 0 ? fd : -errno;
		gs_close_p(&fd);
		return gs_err_set(err, r, "cannot read %s/proc: %s", host.root, strerror(-r));
	}
	while (drivers.n && left-- && (e = readdir(dir))) {
		int pid = atoi(e->d_name), proc_fd;

		if (pid <= 0 || (host.same_pids && pid == (int)getpid()) ||
		    (proc_fd = openat(dirfd(dir), e->d_name,
				      O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC)) < 0)
			continue;
		(void)device_read_held(proc_fd, &drivers, &held);
		close(proc_fd);
		if (held.n)
			add_holder(ret_pids, max, ret_n, pid);
	}
	closedir(dir);
	return 0;
}
