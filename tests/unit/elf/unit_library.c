/*
 * Files mapped by real processes: this one, one in a chroot, one in a mount namespace of its own,
 * and files that were deleted or replaced after they had been mapped.
 */
#include "unit/elf/workshop.h"

#include <dlfcn.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/utsname.h>

#define CHILD GS_CLEANUP(end_child) struct child

struct child {
	pid_t pid;
	int said; /* the end of a pipe that it writes to when it is ready */
};

static void end_child(struct child *child)
{
	if (child->pid > 0) {
		kill(child->pid, SIGKILL);
		waitpid(child->pid, NULL, 0);
	}
	gs_close_p(&child->said);
	child->pid = 0;
}

/* Run fn in a new process until it has said that it is ready; fn does not return. */
static struct child start_child(void (*fn)(int say))
{
	struct child child = {.said = -1};
	int ends[2];
	char byte = 0;

	assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
	child.pid = fork();
	assert_true(child.pid >= 0);
	if (child.pid == 0) {
		/* The program that it becomes says it through descriptor 1. */
		dup2(ends[1], 1);
		fn(1);
		_exit(9);
	}
	close(ends[1]);
	child.said = ends[0];
	if (read(child.said, &byte, 1) != 1 || byte != '!') {
		end_child(&child);
		fail_msg("the child could not do its part");
	}
	return child;
}

static void ready(int say)
{
	if (write(say, "!", 1) != 1)
		_exit(8);
	for (;;)
		pause();
}

/* What fn says in a process of its own. */
static bool in_child(bool (*fn)(void *ctx), void *ctx)
{
	pid_t pid = fork();
	int status = 0;

	assert_true(pid >= 0);
	if (pid == 0)
		_exit(fn(ctx) ? 0 : 1);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

/* Whether /proc/PID/map_files can be followed here: it has links for mappings of files only. */
static bool can_follow_links(void)
{
	GS_FCLOSE FILE *maps = fopen("/proc/self/maps", "re");
	char text[PATH_MAX + 128], path[96];
	unsigned long start, end;
	struct stat st;

	while (maps && fgets(text, sizeof(text), maps)) {
		if (!strchr(text, '/') || sscanf(text, "%lx-%lx", &start, &end) != 2)
			continue;
		snprintf(path, sizeof(path), "/proc/self/map_files/%lx-%lx", start, end);
		return stat(path, &st) == 0;
	}
	return false;
}

static int make_files(void **state)
{
	if (shop_open(state) != 0)
		return -1;
	shop_write_text("one.c", "int one(void) { return 1; }\n");
	shop_write_text("wait.c", "#include <unistd.h>\nint main(void)\n{\n"
				  "	if (write(1, \"!\", 1) != 1)\n		return 1;\n"
				  "	for (;;)\n		pause();\n}\n");
	if (!shop_run("cc -static wait.c -o wait 2>err"))
		print_message("the compiler cannot make static programs\n");
	return shop_run("cc -fPIC -shared one.c -o one.so") ? 0 : -1;
}

static struct visits *scan(pid_t pid)
{
	struct visits *v = calloc(1, sizeof(*v));

	assert_int_equal(gs_library_scan_process(pid, visit, v), 0);
	return v;
}

/* ---- this process ---- */

static int is_no_guess(void *ctx, const struct gs_mapped_file *file)
{
	unsigned *n = ctx;

	assert_false(file->is_guess);
	++*n;
	return 0;
}

/* Leave ones where the next calls have their variables. */
static __attribute__((noinline)) void fill_stack(void)
{
	volatile unsigned char bytes[64 << 10];

	memset((void *)bytes, 1, sizeof(bytes));
}

/* Nothing that a process has mapped is a guess, whatever was in memory before. */
static void guesses_nothing_of_a_process(void **state)
{
	struct gs_mapped_file file;
	unsigned n = 0;
	Dl_info info;

	fill_stack();
	assert_int_equal(gs_library_scan_process(getpid(), is_no_guess, &n), 0);
	assert_true(n > 1);
	memset(&file, 1, sizeof(file));
	assert_int_not_equal(dladdr((void *)getpid, &info), 0);
	assert_int_equal(gs_library_resolve(getpid(), info.dli_fname, &file), 0);
	assert_false(file.is_guess);
}

static void scans_this_process(void **state)
{
	char exe[PATH_MAX] = "", libc[PATH_MAX];
	VISITS v = scan(getpid());
	Dl_info info;

	assert_true(readlink("/proc/self/exe", exe, sizeof(exe) - 1) > 0);
	assert_non_null(v->exe);
	assert_string_equal(v->exe, exe);
	assert_int_not_equal(dladdr((void *)getpid, &info), 0);
	assert_non_null(realpath(info.dli_fname, libc));
	assert_visited(v, libc);
	for (size_t i = 0; i < v->n; i++)
		assert_int_equal(v->paths[i][0], '/');
}

/* What this thread has read so far, by read(2) and the like. */
static unsigned long long bytes_read(void)
{
	GS_FCLOSE FILE *io = fopen("/proc/thread-self/io", "re");
	unsigned long long bytes = 0;

	assert_non_null(io);
	assert_int_equal(fscanf(io, "rchar: %llu", &bytes), 1);
	return bytes;
}

/* A process may have 65,530 mappings: those without code must cost nothing. */
static void reads_no_text_of_other_mappings(void **state)
{
	const size_t page = (size_t)sysconf(_SC_PAGESIZE), n = 4000;
	unsigned long long before, took;
	struct utsname kernel;
	unsigned major, minor;
	char *at;

	assert_int_equal(uname(&kernel), 0);
	if (sscanf(kernel.release, "%u.%u", &major, &minor) != 2 || major * 1000 + minor < 6011) {
		print_message("SKIP: PROCMAP_QUERY is there since Linux 6.11, this is %s\n",
			      kernel.release);
		skip();
	}
	at = mmap(NULL, n * page, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	assert_ptr_not_equal(at, MAP_FAILED);
	for (size_t i = 0; i < n; i += 2)
		assert_int_equal(mprotect(at + i * page, page, PROT_READ), 0);
	before = bytes_read();
	{
		VISITS v = scan(getpid());

		assert_true(v->n > 0);
	}
	took = bytes_read() - before;
	munmap(at, n * page);
	/* A line of the text has 25 bytes at least, for two addresses. */
	if (took >= n * 25)
		fail_msg("%llu bytes were read for %zu mappings", took, n);
}

static void passes_an_answer_on(void **state)
{
	VISITS v = calloc(1, sizeof(*v));

	v->answer_at = 2;
	assert_int_equal(gs_library_scan_process(getpid(), visit, v), 77);
	assert_int_equal(v->n, 2);
}

static void tells_of_no_process(void **state)
{
	struct gs_mapped_file file;
	pid_t pid = fork();

	if (pid == 0)
		_exit(0);
	assert_int_equal(waitpid(pid, NULL, 0), pid);
	assert_int_equal(gs_library_scan_process(pid, visit, NULL), -ESRCH);
	assert_int_equal(gs_library_scan_process(0, visit, NULL), -ESRCH);
	assert_int_equal(gs_library_scan_process(-1, visit, NULL), -ESRCH);
	assert_int_equal(gs_library_resolve(pid, "/etc/passwd", &file), -ESRCH);
	assert_int_equal(gs_library_resolve(0, "/etc/passwd", &file), -ESRCH);
}

struct ending {
	pid_t pid;  /* is killed at the first mapping; 0: lives on */
	unsigned n; /* mappings that were visited */
};

static int end_at_first(void *ctx, const struct gs_mapping *mapping)
{
	struct ending *e = ctx;
	siginfo_t info;

	(void)mapping;
	if (e->n++ == 0 && e->pid) {
		assert_int_equal(kill(e->pid, SIGKILL), 0);
		assert_int_equal(waitid(P_PID, (id_t)e->pid, &info, WEXITED | WNOWAIT), 0);
	}
	return 0;
}

/* Its maps are read in pieces: what was not read when it ends never comes, and that is no end of the list. */
static void tells_of_a_process_that_ends_meanwhile(void **state)
{
	struct ending whole = {0}, ending = {0};
	size_t page = (size_t)sysconf(_SC_PAGESIZE), bytes = 512 * page;
	char *memory = mmap(NULL, bytes, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	pid_t pid;

	(void)state;
	assert_ptr_not_equal(memory, MAP_FAILED);
	for (size_t at = 0; at < bytes; at += 2 * page) /* more lines than one piece has */
		assert_int_equal(mprotect(memory + at, page, PROT_READ | PROT_EXEC), 0);
	pid = fork();
	assert_true(pid >= 0);
	if (pid == 0)
		for (;;)
			pause();
	assert_int_equal(gs_library_scan_mappings(pid, end_at_first, &whole), 0);
	ending.pid = pid;
	assert_int_equal(gs_library_scan_mappings(pid, end_at_first, &ending), -ESRCH);
	assert_in_range(ending.n, 1, whole.n - 1);
	assert_int_equal(waitpid(pid, NULL, 0), pid);
	munmap(memory, bytes);
}

static void skips_what_is_no_regular_file(void **state)
{
	size_t page = (size_t)sysconf(_SC_PAGESIZE);
	GS_CLOSE int fd = memfd_create("skipped", MFD_CLOEXEC);
	void *memory, *device = MAP_FAILED;
	GS_CLOSE int zero = open("/dev/zero", O_RDWR | O_CLOEXEC);

	assert_int_equal(ftruncate(fd, (off_t)page), 0);
	memory = mmap(NULL, page, PROT_READ | PROT_EXEC, MAP_SHARED, fd, 0);
	if (zero >= 0)
		device = mmap(NULL, page, PROT_READ | PROT_EXEC, MAP_PRIVATE, zero, 0);
	VISITS v = scan(getpid());
	for (size_t i = 0; i < v->n; i++) {
		assert_null(strstr(v->paths[i], "memfd:"));
		assert_string_not_equal(v->paths[i], "/dev/zero");
	}
	if (memory != MAP_FAILED)
		munmap(memory, page);
	if (device != MAP_FAILED)
		munmap(device, page);
}

/* ---- names that are hard to read ---- */

static void *load(const char *name)
{
	void *handle = dlopen(shop_path("%s", name), RTLD_NOW | RTLD_LOCAL);

	if (!handle)
		fail_msg("%s", dlerror());
	return handle;
}

static void reads_odd_names(void **state)
{
	const char *const names[] = {"with blank.so", "with\nnewline.so", "really (deleted)"};

	for (size_t i = 0; i < GS_ARRAY_LEN(names); i++) {
		char path[PATH_MAX];
		void *handle;

		snprintf(path, sizeof(path), "%s", shop_path("%s", names[i]));
		assert_true(shop_run("cp one.so '%s'", names[i]));
		handle = load(names[i]);
		VISITS v = scan(getpid());
		assert_visited(v, path);
		dlclose(handle);
	}
}

/* The file is gone, or another has its name: only the link leads to it. */
static void finds_deleted_files(bool replace)
{
	struct gs_mapped_file file;
	char path[PATH_MAX];
	struct stat st, now;
	void *handle;

	assert_true(shop_run("cp one.so gone.so"));
	snprintf(path, sizeof(path), "%s", shop_path("gone.so"));
	handle = load("gone.so");
	assert_int_equal(stat(path, &st), 0);
	assert_true(shop_run(replace ? "cp one.so new.so && mv new.so gone.so" : "rm gone.so"));
	VISITS v = scan(getpid());
	if (!can_follow_links()) {
		assert_not_visited(v, path);
		dlclose(handle);
		print_message("skipped: /proc/PID/map_files is not permitted\n");
		skip();
	}
	assert_visited(v, path);
	for (size_t i = 0; i < v->n; i++) {
		if (strcmp(v->paths[i], path) == 0)
			assert_int_equal(v->ids[i].ino, st.st_ino);
	}
	assert_int_equal(gs_library_resolve(getpid(), path, &file), 0);
	assert_ptr_equal(file.path, path);
	assert_int_equal(stat(file.open_path, &now), 0);
	if (!replace)
		assert_int_equal(file.id.ino, st.st_ino);
	assert_int_equal(file.id.ino, now.st_ino);
	dlclose(handle);
}

static void finds_unlinked_files(void **state)
{
	finds_deleted_files(false);
}

static void finds_replaced_files(void **state)
{
	finds_deleted_files(true);
}

/* ---- without privilege ---- */

struct plain_scan {
	char libc[PATH_MAX];
	char replaced[PATH_MAX];
	bool saw_libc, saw_replaced, saw_link;
};

static int note_plain(void *ctx, const struct gs_mapped_file *file)
{
	struct plain_scan *p = ctx;

	p->saw_libc |= strcmp(file->path, p->libc) == 0;
	p->saw_replaced |= strcmp(file->path, p->replaced) == 0;
	p->saw_link |= strstr(file->open_path, "map_files") != NULL;
	return 0;
}

static bool scan_as_nobody(void *ctx)
{
	struct plain_scan *p = ctx;
	struct gs_mapped_file file;

	if (setresuid(65534, 65534, 65534) < 0 || prctl(PR_SET_DUMPABLE, 1) < 0)
		return false;
	return !can_follow_links() && gs_library_scan_process(getpid(), note_plain, p) == 0 &&
	       p->saw_libc && !p->saw_replaced && !p->saw_link &&
	       gs_library_scan_process(getppid(), note_plain, p) == -EACCES &&
	       gs_library_resolve(getppid(), p->libc, &file) < 0;
}

/* Where the links cannot be followed, names are believed by inode number: a file that has taken
 * the name of a mapped one is not it. */
static void scans_without_privilege(void **state)
{
	struct plain_scan p = {0};
	Dl_info info;
	void *handle;

	if (geteuid() != 0) {
		print_message("skipped: not root\n");
		skip();
	}
	assert_int_not_equal(dladdr((void *)getpid, &info), 0);
	assert_non_null(realpath(info.dli_fname, p.libc));
	assert_int_equal(chmod(shop_dir, 0755), 0);
	assert_true(shop_run("cp one.so taken.so"));
	snprintf(p.replaced, sizeof(p.replaced), "%s", shop_path("taken.so"));
	handle = load("taken.so");
	assert_true(shop_run("cp one.so new.so && mv new.so taken.so"));
	assert_true(in_child(scan_as_nobody, &p));
	dlclose(handle);
}

/* ---- resolve ---- */

static void resolves_paths(void **state)
{
	char exe[PATH_MAX] = "", long_path[PATH_MAX + 8];
	struct gs_mapped_file file;
	struct stat st;

	assert_true(readlink("/proc/self/exe", exe, sizeof(exe) - 1) > 0);
	assert_int_equal(gs_library_resolve(getpid(), exe, &file), 0);
	assert_ptr_equal(file.path, exe);
	assert_true(file.is_exe);
	assert_int_equal(stat(file.open_path, &st), 0);
	assert_int_equal(st.st_ino, file.id.ino);
	assert_int_equal(st.st_dev, file.id.dev);
	assert_int_equal(gs_library_resolve(getpid(), shop_path("one.so"), &file), 0);
	assert_false(file.is_exe);
	assert_int_equal(gs_library_resolve(getpid(), shop_path("none.so"), &file), -ENOENT);
	assert_int_equal(gs_library_resolve(getpid(), shop_dir, &file), -EINVAL);
	assert_int_equal(gs_library_resolve(getpid(), "/dev/null", &file), -EINVAL);
	assert_int_equal(gs_library_resolve(getpid(), "//anon", &file), -EINVAL);
	assert_int_equal(gs_library_resolve(getpid(), "[vdso]", &file), -EINVAL);
	assert_int_equal(gs_library_resolve(getpid(), "/memfd:x (deleted)", &file), -EINVAL);
	assert_int_equal(gs_library_resolve(getpid(), "", &file), -EINVAL);
	memset(long_path, 'x', sizeof(long_path));
	long_path[0] = '/';
	long_path[sizeof(long_path) - 1] = 0;
	assert_int_equal(gs_library_resolve(getpid(), long_path, &file), -ENAMETOOLONG);
}

/* ---- other roots ---- */

static bool other_roots_possible(void)
{
	if (geteuid() != 0) {
		print_message("skipped: not root\n");
		return false;
	}
	if (access(shop_path("wait"), X_OK) < 0) {
		print_message("skipped: no static program\n");
		return false;
	}
	return true;
}

static void assert_inner_program(pid_t pid, const struct stat *want)
{
	VISITS v = scan(pid);
	struct gs_mapped_file file;

	assert_int_equal(v->n, 1);
	assert_string_equal(v->paths[0], "/wait");
	assert_string_equal(v->exe, "/wait");
	if (want) {
		assert_int_equal(v->ids[0].ino, want->st_ino);
		assert_int_equal(v->ids[0].dev, want->st_dev);
	}
	assert_int_equal(gs_library_resolve(pid, "/wait", &file), 0);
	assert_int_equal(file.id.ino, v->ids[0].ino);
	assert_int_equal(file.id.dev, v->ids[0].dev);
	assert_true(file.is_exe);
}

static void live_in_chroot(int say)
{
	if (chroot(shop_dir) == 0 && chdir("/") == 0)
		execl("/wait", "wait", NULL);
}

static void scans_a_chroot(void **state)
{
	struct stat st;

	if (!other_roots_possible())
		skip();
	CHILD child = start_child(live_in_chroot);
	assert_int_equal(stat(shop_path("wait"), &st), 0);
	assert_inner_program(child.pid, &st);
}

static bool own_namespace(void *ctx)
{
	return unshare(CLONE_NEWNS) == 0 && mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) == 0;
}

/* A file system that only the child sees is mounted and becomes its root. */
static void live_in_namespace(int say)
{
	if (!own_namespace(NULL) || mkdir(shop_path("root"), 0700) < 0 ||
	    mount("test", shop_path("root"), "tmpfs", 0, NULL) < 0)
		_exit(7);
	if (shop_run("cp wait root/wait") && chroot(shop_path("root")) == 0 && chdir("/") == 0)
		execl("/wait", "wait", NULL);
}

static void scans_a_mount_namespace(void **state)
{
	if (!other_roots_possible())
		skip();
	if (!in_child(own_namespace, NULL)) {
		print_message("skipped: no mount namespaces\n");
		skip();
	}
	CHILD child = start_child(live_in_namespace);
	assert_int_not_equal(access(shop_path("root/wait"), F_OK), 0);
	assert_inner_program(child.pid, NULL);
}

/* What it mapped before has no name in its new root. */
static void leave_for_chroot(int say)
{
	if (mkdir(shop_path("empty"), 0700) == 0 && chroot(shop_path("empty")) == 0)
		ready(say);
}

static void scans_what_lies_outside_a_chroot(void **state)
{
	char exe[PATH_MAX] = "";

	if (!other_roots_possible())
		skip();
	CHILD child = start_child(leave_for_chroot);
	VISITS mine = scan(getpid());
	VISITS v = scan(child.pid);
	assert_true(readlink("/proc/self/exe", exe, sizeof(exe) - 1) > 0);
	assert_int_equal(v->n, mine->n);
	assert_string_equal(v->exe, exe);
	for (size_t i = 0; i < v->n; i++)
		assert_int_equal(v->ids[i].ino, mine->ids[i].ino);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(scans_this_process),
		cmocka_unit_test(guesses_nothing_of_a_process),
		cmocka_unit_test(reads_no_text_of_other_mappings),
		cmocka_unit_test(passes_an_answer_on),
		cmocka_unit_test(tells_of_no_process),
		cmocka_unit_test(tells_of_a_process_that_ends_meanwhile),
		cmocka_unit_test(skips_what_is_no_regular_file),
		cmocka_unit_test(reads_odd_names),
		cmocka_unit_test(finds_unlinked_files),
		cmocka_unit_test(finds_replaced_files),
		cmocka_unit_test(scans_without_privilege),
		cmocka_unit_test(resolves_paths),
		cmocka_unit_test(scans_a_chroot),
		cmocka_unit_test(scans_a_mount_namespace),
		cmocka_unit_test(scans_what_lies_outside_a_chroot),
	};

	return cmocka_run_group_tests(tests, make_files, shop_close);
}
