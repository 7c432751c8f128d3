/*
 * A drop-in of systemd (systemd.unit(5)) with DeviceAllow= lines: systemd writes the device rules of
 * a unit again at each daemon-reload, from its configuration alone.
 *
 * The file is ours alone, and what systemd or others have written is not edited. It sorts after
 * theirs (50-DeviceAllow.conf may begin with an empty DeviceAllow=, which forgets what came before).
 * It lies in /run: next to the files of a transient unit, which systemd removes with the unit, else
 * in /run/systemd/system until the next boot. It is written under another name and renamed, only
 * when its text changes.
 *
 * Only for units for which systemd has device rules: with the first DeviceAllow= a unit without rules
 * would lose all other devices.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "sources/device_cgroup/device_int.h"

#define DROP_IN     "90-gpuscope-devices.conf"
#define CGROUP_LINE "# Control group: " /* the first line of the file begins so */
#define SWEPT_MAX   65536               /* entries of a folder that are looked through */
#define FILE_BYTES  65536
#define TEXT_BYTES  8192

static const char *const unit_sections[][2] = {
	{".scope", "Scope"}, {".service", "Service"}, {".slice", "Slice"}};

static const char *section_of(const char *unit)
{
	const char *dot = strrchr(unit, '.');

	for (size_t i = 0; dot && i < GS_ARRAY_LEN(unit_sections); i++)
		if (strcmp(dot, unit_sections[i][0]) == 0)
			return unit_sections[i][1];
	return NULL;
}

static bool is_unit_name(const char *name)
{
	static const char extra[] = ":-_.\\@";

	for (const char *at = name; *at; at++)
		if (!((*at >= 'a' && *at <= 'z') || (*at >= 'A' && *at <= 'Z') ||
		      (*at >= '0' && *at <= '9') || strchr(extra, *at)))
			return false;
	return name[0] != '.' && section_of(name) && strrchr(name, '.') != name;
}

bool device_unit_of(const char *cgroup, char *out, size_t bytes)
{
	for (const char *at = cgroup; *at;) {
		size_t len;
		const char *name;

		at += *at == '/';
		len = strcspn(at, "/");
		if (len == 0)
			return false;
		if (len >= bytes)
			return false;
		memcpy(out, at, len);
		out[len] = '\0';
		/* systemd marks names that files of the hierarchy could have. */
		name = out[0] == '_' ? out + 1 : out;
		if (!is_unit_name(name))
			return false;
		at += len;
		if (len > 6 && strcmp(out + len - 6, ".slice") == 0 && *at)
			continue;
		memmove(out, name, strlen(name) + 1);
		return true;
	}
	return false;
}

size_t device_unit_length(const char *cgroup, const char *unit)
{
	size_t n = strlen(unit);

	for (const char *at = cgroup; *at; at += strcspn(at, "/")) {
		size_t len;

		at += *at == '/';
		len = strcspn(at, "/");
		/* One that systemd has marked is longer by that. */
		if ((len == n && memcmp(at, unit, n) == 0) ||
		    (len == n + 1 && *at == '_' && memcmp(at + 1, unit, n) == 0))
			return (size_t)(at + len - cgroup);
	}
	return strlen(cgroup);
}

void device_print_drop_in(const char *unit, const char *cgroup, const struct device_rules *rules,
			  const struct device_drivers *drivers, char *out, size_t bytes)
{
	size_t at = (size_t)snprintf(
		out, bytes,
		CGROUP_LINE
		"%s\n"
		"# Written by gpuscope, for when systemd writes the device rules of this unit again.\n"
		"# `gpuscope devices revoke` removes it.\n"
		"[%s]\n",
		cgroup, section_of(unit));

	for (unsigned i = 0; i < rules->n && at < bytes; i++) {
		const struct device_rule *r = &rules->rule[i];
		bool named = false;

		if (r->minor != DEVICE_ANY_MINOR) {
			/* systemd takes the numbers out of such a path, which need not exist. */
			at += (size_t)snprintf(out + at, bytes - at,
					       "DeviceAllow=/dev/char/%u:%u rw\n", r->major,
					       r->minor);
			continue;
		}
		for (unsigned k = 0; k < drivers->n && at < bytes; k++) {
			if (drivers->driver[k].major != r->major)
				continue;
			named = true;
			at += (size_t)snprintf(out + at, bytes - at, "DeviceAllow=char-%s rw\n",
					       drivers->driver[k].name);
		}
		if (!named && at < bytes)
			at += (size_t)snprintf(out + at, bytes - at, "DeviceAllow=char-%u rw\n",
					       r->major);
	}
}

bool device_parse_drop_in(const char *text, char *ret_cgroup, size_t bytes)
{
	size_t head = strlen(CGROUP_LINE), len;

	if (strncmp(text, CGROUP_LINE "/", head + 1) != 0)
		return false;
	len = strcspn(text + head, "\n");
	if (len >= bytes)
		return false;
	memcpy(ret_cgroup, text + head, len);
	ret_cgroup[len] = '\0';
	return true;
}

/* Whether a text has this line, which ends with a newline. */
static bool has_line(const char *text, const char *line, size_t len)
{
	for (const char *at = text; *at;) {
		size_t n = strcspn(at, "\n") + 1;

		if (n == len && strncmp(at, line, len) == 0)
			return true;
		at += n - (at[n - 1] != '\n');
	}
	return false;
}

static bool has_same_lines(const char *a, const char *b)
{
	if (strlen(a) != strlen(b))
		return false;
	for (const char *line = a; *line; line += strcspn(line, "\n") + 1)
		if (!strchr(line, '\n') || !has_line(b, line, strcspn(line, "\n") + 1))
			return false;
	return true;
}

int device_merge_drop_in(const char *old, char *text, size_t bytes)
{
	static const char word[] = "DeviceAllow=";
	char before[GS_DEVICE_PATH_BYTES], now[GS_DEVICE_PATH_BYTES];
	size_t n = strlen(text);

	if (!device_parse_drop_in(old, before, sizeof(before)) ||
	    !device_parse_drop_in(text, now, sizeof(now)) || strcmp(before, now) != 0)
		return 0;
	for (const char *line = old; *line;) {
		size_t len = strcspn(line, "\n") + 1;

		if (line[len - 1] != '\n')
			break;
		if (strncmp(line, word, sizeof(word) - 1) == 0 && !has_line(text, line, len)) {
			if (n + len >= bytes)
				return -E2BIG;
			memcpy(text + n, line, len);
			text[n += len] = '\0';
		}
		line += len;
	}
	return 0;
}

/* --- whether systemd has rules for a unit --- */

static const char *const unit_folders[] = {
	"run/systemd/transient",  "run/systemd/system.control", "etc/systemd/system.control",
	"run/systemd/system",     "etc/systemd/system",         "usr/local/lib/systemd/system",
	"usr/lib/systemd/system", "lib/systemd/system"};

static bool names_rules(const char *text)
{
	static const char *const words[] = {"DeviceAllow=", "DevicePolicy=closed",
					    "DevicePolicy=strict", "PrivateDevices="};

	for (const char *line = text; *line;) {
		for (size_t i = 0; i < GS_ARRAY_LEN(words); i++)
			if (strncmp(line, words[i], strlen(words[i])) == 0)
				return true;
		line += strcspn(line, "\n");
		line += *line == '\n';
	}
	return false;
}

static bool file_names_rules(int dir_fd, const char *path)
{
	GS_FREE char *text = malloc(FILE_BYTES);

	return text && device_read_text(dir_fd, path, text, FILE_BYTES) > 0 && names_rules(text);
}

/* The files of one folder UNIT.d; ours is no reason for itself. */
static bool folder_names_rules(int root_fd, const char *path)
{
	int fd = device_host_openat(root_fd, path, O_RDONLY | O_DIRECTORY);
	DIR *dir = fd < 0 ? NULL : fdopendir(fd);
	struct dirent *e;
	bool found = false;

	if (!dir) {
		gs_close_p(&fd);
		return false;
	}
	while (!found && (e = readdir(dir))) {
		size_t n = strlen(e->d_name);

		found = n > 5 && strcmp(e->d_name + n - 5, ".conf") == 0 &&
			strcmp(e->d_name, DROP_IN) != 0 && file_names_rules(dirfd(dir), e->d_name);
	}
	closedir(dir);
	return found;
}

static bool unit_has_rules(const struct device_host *host, const char *unit)
{
	const char *names[2] = {unit, NULL}, *instance = strchr(unit, '@'),
		   *dot = strrchr(unit, '.');
	char template[256], path[512];

	if (instance && dot > instance) {
		snprintf(template, sizeof(template), "%.*s%s", (int)(instance + 1 - unit), unit,
			 dot);
		names[1] = template;
	}
	for (size_t i = 0; i < GS_ARRAY_LEN(unit_folders); i++)
		for (size_t k = 0; k < 2 && names[k]; k++) {
			snprintf(path, sizeof(path), "%s/%s", unit_folders[i], names[k]);
			if (file_names_rules(host->root_fd, path))
				return true;
			snprintf(path, sizeof(path), "%s/%s.d", unit_folders[i], names[k]);
			if (folder_names_rules(host->root_fd, path))
				return true;
		}
	return false;
}

/* --- the file --- */

/* Its folder, "run/systemd/transient/UNIT.d" for a transient unit. */
static void find_folder(const struct device_host *host, const char *unit, char *out, size_t bytes)
{
	GS_CLOSE int fd = -1;

	snprintf(out, bytes, "run/systemd/transient/%s", unit);
	fd = device_host_openat(host->root_fd, out, O_PATH);
	snprintf(out, bytes, "run/systemd/%s/%s.d", fd >= 0 ? "transient" : "system", unit);
}

/* The last folder of the path is made if need be, the others have to be there. */
static int open_folder(const struct device_host *host, const char *path)
{
	int fd = device_host_openat(host->root_fd, path, O_RDONLY | O_DIRECTORY);
	char above[512];
	char *slash;
	GS_CLOSE int above_fd = -1;

	if (fd != -ENOENT)
		return fd;
	snprintf(above, sizeof(above), "%s", path);
	slash = strrchr(above, '/');
	*slash = '\0';
	above_fd = device_host_openat(host->root_fd, above, O_RDONLY | O_DIRECTORY);
	if (above_fd < 0)
		return above_fd;
	if (mkdirat(above_fd, slash + 1, 0755) < 0 && errno != EEXIST)
		return -errno;
	return device_host_openat(host->root_fd, path, O_RDONLY | O_DIRECTORY);
}

static int write_file(int dir_fd, const char *text)
{
	char part[64];
	size_t bytes = strlen(text);
	GS_CLOSE int fd = -1;
	int r = 0;

	snprintf(part, sizeof(part), "." DROP_IN ".%d", (int)getpid());
	(void)unlinkat(dir_fd, part, 0);
	fd = openat(dir_fd, part, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0644);
	if (fd < 0)
		return -errno;
	if (fchmod(fd, 0644) < 0 || write(fd, text, bytes) != (ssize_t)bytes || fsync(fd) < 0 ||
	    renameat(dir_fd, part, dir_fd, DROP_IN) < 0)
		r = -errno;
	if (r < 0)
		(void)unlinkat(dir_fd, part, 0);
	return r;
}

static bool group_exists(const struct device_host *host, const char *cgroup)
{
	const int hierarchies[] = {host->v1_fd, host->v2_fd};

	for (size_t i = 0; i < GS_ARRAY_LEN(hierarchies); i++) {
		GS_CLOSE int fd = hierarchies[i] < 0
					  ? -1
					  : device_host_openat(hierarchies[i], cgroup, O_PATH);

		if (fd >= 0)
			return true;
	}
	return false;
}

static void sweep_folder(const struct device_host *host, const char *path)
{
	int fd = device_host_openat(host->root_fd, path, O_RDONLY | O_DIRECTORY);
	DIR *dir = fd < 0 ? NULL : fdopendir(fd);
	char text[TEXT_BYTES], cgroup[GS_DEVICE_PATH_BYTES];
	unsigned left = SWEPT_MAX;
	struct dirent *e;

	if (!dir) {
		gs_close_p(&fd);
		return;
	}
	while (left-- && (e = readdir(dir))) {
		size_t n = strlen(e->d_name);
		GS_CLOSE int unit_fd = -1;

		if (n < 3 || strcmp(e->d_name + n - 2, ".d") != 0)
			continue;
		unit_fd = device_host_openat(dirfd(dir), e->d_name, O_RDONLY | O_DIRECTORY);
		if (unit_fd < 0 || device_read_text(unit_fd, DROP_IN, text, sizeof(text)) <= 0 ||
		    !device_parse_drop_in(text, cgroup, sizeof(cgroup)) ||
		    group_exists(host, cgroup))
			continue;
		(void)unlinkat(unit_fd, DROP_IN, 0);
		(void)unlinkat(dirfd(dir), e->d_name, AT_REMOVEDIR);
	}
	closedir(dir);
}

int device_write_drop_in(const struct device_host *host, const struct device_unit *unit,
			 const struct device_rules *rules, const struct device_drivers *drivers,
			 char *ret_path, size_t bytes, struct gs_err *err)
{
	char folder[400], text[TEXT_BYTES], old[TEXT_BYTES];
	GS_CLOSE int dir_fd = -1;
	int r;

	sweep_folder(host, "run/systemd/transient");
	sweep_folder(host, "run/systemd/system");
	find_folder(host, unit->name, folder, sizeof(folder));
	snprintf(ret_path, bytes, "%s/%s/" DROP_IN, host->root, folder);
	if (!unit->restricted && !unit_has_rules(host, unit->name)) {
		ret_path[0] = '\0';
		return GS_DEVICE_ABSENT;
	}
	device_print_drop_in(unit->name, unit->cgroup, rules, drivers, text, sizeof(text));
	dir_fd = open_folder(host, folder);
	if (dir_fd < 0)
		return gs_err_set(err, dir_fd, "cannot open %s/%s: %s", host->root, folder,
				  strerror(-dir_fd));
	if (device_read_text(dir_fd, DROP_IN, old, sizeof(old)) > 0) {
		r = device_merge_drop_in(old, text, sizeof(text));
		if (r < 0)
			return gs_err_set(err, r, "%s has too many lines", ret_path);
		if (has_same_lines(old, text))
			return GS_DEVICE_ALLOWED;
	}
	r = write_file(dir_fd, text);
	if (r < 0)
		return gs_err_set(err, r, "cannot write %s: %s", ret_path, strerror(-r));
	return GS_DEVICE_GRANTED;
}

int device_remove_drop_in(const struct device_host *host, const char *unit, char *ret_path,
			  size_t bytes, struct gs_err *err)
{
	static const char *const folders[] = {"transient", "system"};
	char path[400];
	int state = GS_DEVICE_ABSENT;

	ret_path[0] = '\0';
	for (size_t i = 0; i < GS_ARRAY_LEN(folders); i++) {
		GS_CLOSE int above_fd = -1, dir_fd = -1;

		snprintf(path, sizeof(path), "run/systemd/%s", folders[i]);
		above_fd = device_host_openat(host->root_fd, path, O_RDONLY | O_DIRECTORY);
		snprintf(path, sizeof(path), "%s.d", unit);
		dir_fd = above_fd < 0 ? above_fd
				      : device_host_openat(above_fd, path, O_RDONLY | O_DIRECTORY);
		if (dir_fd < 0)
			continue;
		if (unlinkat(dir_fd, DROP_IN, 0) == 0) {
			state = GS_DEVICE_REVOKED;
			snprintf(ret_path, bytes, "%s/run/systemd/%s/%s/" DROP_IN, host->root,
				 folders[i], path);
			(void)unlinkat(above_fd, path,
				       AT_REMOVEDIR); /* when nothing else is in it */
		} else if (errno != ENOENT) {
			return gs_err_set(err, -errno, "cannot remove %s/run/systemd/%s/%s/%s: %s",
					  host->root, folders[i], path, DROP_IN, strerror(errno));
		}
	}
	return state;
}
