/* Clocks, room on disks, ports. */
#include <arpa/inet.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/statvfs.h>
#include <sys/timex.h>
#include <unistd.h>

#include "analysis/doctor/doctor_int.h"
#include "core/base/fmt.h"
#include "core/base/mem.h"
#include "sources/companion/companion.h"

#define ROOM_BYTES    (256ull << 20)
#define LINES_MAX     100000
#define PROCESSES_MAX 65536
#define FILES_MAX     4096
#define LISTENS       0x0a /* TCP_LISTEN */

/* --- clocks --- */

static void ask_source(struct gs_doctor *d)
{
	char source[64], found[128];
	bool is_slow,
		known = doctor_read(
				d,
				"/sys/devices/system/clocksource/clocksource0/current_clocksource",
				source, sizeof(source)) > 0;

	/* They ask a device at each reading. */
	is_slow = known && (strcmp(source, "hpet") == 0 || strcmp(source, "acpi_pm") == 0);
	snprintf(found, sizeof(found), "%s%s", known ? source : "unknown",
		 gs_companion_tsc_is_clock() ? "; timestamps can use the TSC" : "");
	gs_doctor_put(
		d,
		&(struct gs_doctor_row){
			.group = GS_DOCTOR_MACHINE,
			.state = !known    ? GS_DOCTOR_NOT_ASKED
				 : is_slow ? GS_DOCTOR_LIMITED
					   : GS_DOCTOR_WORKS,
			.name = "clock",
			.found = found,
			.without = is_slow ? "each timestamp costs a microsecond or more" : "",
			.mend = is_slow ? "echo tsc | sudo tee /sys/devices/system/clocksource/clocksource0/current_clocksource"
					: ""});
}

static void ask_synchronised(struct gs_doctor *d)
{
	struct timex t = {0};
	int r = adjtimex(&t);
	bool is_set = r >= 0 && r != TIME_ERROR && !(t.status & STA_UNSYNC);
	double offset_us = (double)t.offset / (t.status & STA_NANO ? 1e3 : 1);
	char found[160];

	if (r < 0)
		snprintf(found, sizeof(found), "cannot read the clock state: %s", strerror(errno));
	else if (is_set)
		snprintf(found, sizeof(found), "offset %.0f us, maximum error %.1f ms", offset_us,
			 (double)t.maxerror / 1e3);
	else
		snprintf(found, sizeof(found), "the clock is not synchronized");
	gs_doctor_put(
		d,
		&(struct gs_doctor_row){
			.group = GS_DOCTOR_MACHINE,
			.state = r < 0    ? GS_DOCTOR_NOT_ASKED
				 : is_set ? GS_DOCTOR_WORKS
					  : GS_DOCTOR_LIMITED,
			.name = "time service",
			.found = found,
			.without =
				r < 0 || is_set
					? ""
					: "times of different nodes do not line up; a single node is unaffected",
			.mend = r < 0 || is_set ? ""
				: access("/usr/bin/timedatectl", X_OK) == 0
					? "sudo timedatectl set-ntp true"
					: "install a time service, such as chrony"});
}

void doctor_ask_clocks(struct gs_doctor *d)
{
	ask_source(d);
	ask_synchronised(d);
}

/* --- disks --- */

void gs_doctor_ask_folder(struct gs_doctor *d, const char *name, const char *path,
			  const char *without, const char *elsewhere)
{
	char at[PATH_MAX], found[GS_DOCTOR_TEXT_BYTES], mend[GS_DOCTOR_TEXT_BYTES],
		free_text[GS_FMT_BYTES];
	struct statvfs fs;
	uint64_t free_bytes;
	bool may_write, has_room;

	snprintf(at, sizeof(at), "%s", path);
	while (access(at, F_OK) < 0 && errno == ENOENT && strrchr(at, '/') > at)
		*strrchr(at, '/') = '\0';
	if (statvfs(at, &fs) < 0) {
		snprintf(found, sizeof(found), "%.200s: %s", path, strerror(errno));
		gs_doctor_put(d, &(struct gs_doctor_row){.group = GS_DOCTOR_MACHINE,
							 .state = GS_DOCTOR_NOT_ASKED,
							 .name = name,
							 .found = found});
		return;
	}
	free_bytes = (uint64_t)fs.f_bavail * fs.f_frsize;
	may_write = faccessat(AT_FDCWD, at, W_OK, AT_EACCESS) == 0;
	has_room = free_bytes >= ROOM_BYTES;
	gs_fmt_bytes(free_text, free_bytes);
	snprintf(found, sizeof(found), "%.200s: %s free%s", path, free_text,
		 may_write ? "" : ", but not writable for this user");
	snprintf(mend, sizeof(mend), "sudo du -xh -d 1 %.200s | sort -h | tail", at);
	gs_doctor_put(d, &(struct gs_doctor_row){.group = GS_DOCTOR_MACHINE,
						 .state = may_write && has_room ? GS_DOCTOR_WORKS
										: GS_DOCTOR_LIMITED,
						 .name = name,
						 .found = found,
						 .without = may_write && has_room ? "" : without,
						 .mend = !may_write ? elsewhere
							 : has_room ? ""
								    : mend});
}

/* --- ports --- */

/* The socket that listens at this port, by its inode; 0: none. */
static unsigned long find_listener(const char *table, uint16_t port)
{
	GS_FCLOSE FILE *f = fopen(table, "re");
	char line[512];

	for (unsigned n = 0; f && n < LINES_MAX && fgets(line, sizeof(line), f); n++) {
		unsigned long inode;
		unsigned at, state;

		if (sscanf(line,
			   " %*d: %*[0-9A-F]:%x %*[0-9A-F]:%*x %x %*x:%*x %*x:%*x %*x %*d %*d %lu",
			   &at, &state, &inode) == 3 &&
		    at == port && state == LISTENS)
			return inode;
	}
	return 0;
}

static bool holds_socket(const char *pid, const char *socket_name)
{
	char path[PATH_MAX], target[64];
	struct dirent *e;
	bool found = false;
	DIR *dir;

	snprintf(path, sizeof(path), "/proc/%s/fd", pid);
	dir = opendir(path);
	for (unsigned n = 0; dir && !found && n < FILES_MAX && (e = readdir(dir)); n++) {
		ssize_t k;

		snprintf(path, sizeof(path), "/proc/%s/fd/%s", pid, e->d_name);
		k = readlink(path, target, sizeof(target) - 1);
		target[k > 0 ? k : 0] = '\0';
		found = strcmp(target, socket_name) == 0;
	}
	if (dir)
		closedir(dir);
	return found;
}

/* Its name and number, "nginx (811)"; "" not to be seen. */
static void find_holder(uint16_t port, char *out, size_t bytes)
{
	unsigned long inode = find_listener("/proc/net/tcp", port);
	char name[64], path[64], comm[32] = "?";
	DIR *dir;

	out[0] = '\0';
	if (!inode)
		inode = find_listener("/proc/net/tcp6", port);
	snprintf(name, sizeof(name), "socket:[%lu]", inode);
	dir = inode ? opendir("/proc") : NULL;
	for (unsigned n = 0; dir && n < PROCESSES_MAX; n++) {
		struct dirent *e = readdir(dir);

		if (!e)
			break;
		if (e->d_name[0] < '1' || e->d_name[0] > '9' || !holds_socket(e->d_name, name))
			continue;
		snprintf(path, sizeof(path), "/proc/%.16s/comm", e->d_name);
		GS_FCLOSE FILE *f = fopen(path, "re");

		if (f && fgets(comm, sizeof(comm), f))
			comm[strcspn(comm, "\n")] = '\0';
		snprintf(out, bytes, "%s (%.16s)", comm, e->d_name);
		break;
	}
	if (dir)
		closedir(dir);
}

/* As a server binds; it does not listen, so that no client finds it. */
static int try_port(uint16_t port)
{
	const struct sockaddr_in at = {.sin_family = AF_INET,
				       .sin_port = htons(port),
				       .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	GS_CLOSE int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	int one = 1;

	if (fd < 0)
		return -errno;
	(void)setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
	return bind(fd, (const struct sockaddr *)&at, sizeof(at)) < 0 ? -errno : 0;
}

void gs_doctor_ask_port(struct gs_doctor *d, const char *name, uint16_t port, const char *without,
			const char *elsewhere)
{
	int r = try_port(port);
	char holder[80] = "", found[160];
	bool is_ours;

	if (r == -EADDRINUSE)
		find_holder(port, holder, sizeof(holder));
	is_ours = strncmp(holder, "gpuscope", 8) == 0;
	if (r == 0)
		snprintf(found, sizeof(found), "port %u is free", port);
	else if (r == -EADDRINUSE)
		snprintf(found, sizeof(found), "port %u is used by %s", port,
			 holder[0] ? holder : "a program of another user");
	else
		snprintf(found, sizeof(found), "port %u: %s", port, strerror(-r));
	gs_doctor_put(d, &(struct gs_doctor_row){.group = GS_DOCTOR_MACHINE,
						 .state = r == 0 || is_ours ? GS_DOCTOR_WORKS
									    : GS_DOCTOR_LIMITED,
						 .name = name,
						 .found = found,
						 .without = r == 0 || is_ours ? "" : without,
						 .mend = r == 0 || is_ours ? "" : elsewhere});
}
