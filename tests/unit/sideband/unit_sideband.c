/* The watch against rings written by hand, and against the kernel where it allows perf events. The
 * source is included for its records and rings. */
#include "sources/sideband/sideband.c"

#include <dlfcn.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <cmocka.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>

/* ---- what was delivered ---- */

struct seen {
	enum gs_sideband_kind kind;
	pid_t pid, parent_pid;
	uint64_t time_ns, dev, ino;
	char path[256];
};

struct log {
	struct seen seen[4096];
	size_t n;
	pid_t pid; /* of others nothing is kept; 0: of all */
	bool unsorted;
	uint64_t last_ns;
};

static bool note(void *ctx, const struct gs_sideband_notice *n)
{
	struct log *log = ctx;
	struct seen *s;

	assert_in_range(n->kind, GS_SIDEBAND_MAP, GS_SIDEBAND_EXIT);
	assert_int_equal(n->kind == GS_SIDEBAND_MAP, n->path != NULL);
	if (n->time_ns < log->last_ns)
		log->unsorted = true;
	log->last_ns = n->time_ns;
	if (log->n == GS_ARRAY_LEN(log->seen) || (log->pid && log->pid != n->pid))
		return true;
	s = &log->seen[log->n++];
	*s = (struct seen){n->kind, n->pid, n->parent_pid, n->time_ns, n->dev, n->ino, ""};
	if (n->path)
		snprintf(s->path, sizeof(s->path), "%s", n->path);
	return true;
}

/* Takes two and no more. */
static bool note_two(void *ctx, const struct gs_sideband_notice *n)
{
	struct log *log = ctx;

	return log->n < 2 && note(log, n);
}

/* The index of the only such notice; fails when there is none or more than one. */
static size_t only(const struct log *log, enum gs_sideband_kind kind, pid_t pid, const char *path)
{
	size_t at = 0, n = 0;

	for (size_t i = 0; i < log->n; i++) {
		const struct seen *s = &log->seen[i];

		if (s->kind == kind && s->pid == pid && (!path || !strcmp(s->path, path))) {
			at = i;
			n++;
		}
	}
	if (n != 1)
		fail_msg("kind %d of pid %d %s: seen %zu times", kind, pid, path ? path : "", n);
	return at;
}

static size_t count(const struct log *log, enum gs_sideband_kind kind, pid_t pid)
{
	size_t n = 0;

	for (size_t i = 0; i < log->n; i++)
		n += log->seen[i].kind == kind && log->seen[i].pid == pid;
	return n;
}

/* ---- rings written by hand ---- */

#define FAKE_BYTES 4096

struct fake {
	struct gs_sideband watch;
	struct ring rings[2];
	struct perf_event_mmap_page pages[2];
	uint64_t data[2][FAKE_BYTES / 8];
	struct log log;
};

static int fake_up(void **state)
{
	struct fake *f = calloc(1, sizeof(*f));

	if (!f)
		return -1;
	f->watch.rings = f->rings;
	f->watch.n_rings = 2;
	f->watch.items = GS_BUF_INIT(1 << 20);
	f->watch.paths = GS_BUF_INIT(1 << 20);
	for (unsigned i = 0; i < 2; i++)
		f->rings[i] = (struct ring){-1, &f->pages[i], (uint8_t *)f->data[i], FAKE_BYTES};
	*state = f;
	return 0;
}

static int fake_down(void **state)
{
	struct fake *f = *state;

	gs_buf_fini(&f->watch.items);
	gs_buf_fini(&f->watch.paths);
	free(f);
	return 0;
}

static void put(struct fake *f, unsigned ring, const void *bytes, size_t n)
{
	for (size_t i = 0; i < n; i++)
		((uint8_t *)f->data[ring])[f->pages[ring].data_head++ % FAKE_BYTES] =
			((const uint8_t *)bytes)[i];
}

static void put_record(struct fake *f, unsigned ring, uint32_t type, uint16_t misc,
		       const void *body, size_t bytes, uint64_t time_ns)
{
	struct perf_event_header h = {type, misc, (uint16_t)(sizeof(h) + bytes + 8)};

	put(f, ring, &h, sizeof(h));
	put(f, ring, body, bytes);
	put(f, ring, &time_ns, sizeof(time_ns));
}

static void put_mmap(struct fake *f, unsigned ring, uint32_t pid, const char *path, uint32_t prot,
		     uint64_t time_ns)
{
	struct {
		struct mmap2_body m;
		char path[128];
	} r = {.m = {.pid = pid, .tid = pid, .maj = 8, .min = 300, .ino = 77, .prot = prot}};

	snprintf(r.path, sizeof(r.path), "%s", path);
	put_record(f, ring, PERF_RECORD_MMAP2, 0, &r, sizeof(r.m) + (strlen(path) / 8 + 1) * 8,
		   time_ns);
}

static void put_task(struct fake *f, unsigned ring, uint32_t type, uint32_t pid, uint32_t ppid,
		     uint32_t tid, uint64_t time_ns)
{
	struct task_body t = {pid, ppid, tid, ppid, time_ns};

	put_record(f, ring, type, 0, &t, sizeof(t), time_ns);
}

static void put_comm(struct fake *f, unsigned ring, uint32_t pid, bool exec, uint64_t time_ns)
{
	struct {
		struct comm_body c;
		char comm[16];
	} r = {{pid, pid}, "python3"};

	put_record(f, ring, PERF_RECORD_COMM, exec ? PERF_RECORD_MISC_COMM_EXEC : 0, &r, sizeof(r),
		   time_ns);
}

static void records_of_all_rings_come_by_time(void **state)
{
	struct fake *f = *state;
	const struct seen *s = f->log.seen;

	put_comm(f, 0, 10, true, 200);
	put_mmap(f, 0, 10, "/lib/a.so", PROT_EXEC | PROT_READ, 300);
	put_task(f, 0, PERF_RECORD_EXIT, 10, 9, 10, 500);
	put_task(f, 1, PERF_RECORD_FORK, 10, 9, 10, 100);
	put_mmap(f, 1, 11, "/lib/b.so", PROT_EXEC, 300); /* the same time: after ring 0 */
	put_mmap(f, 1, 11, "/a/much/longer/path/to/a/library.so.1.2.3", PROT_EXEC, 400);
	assert_int_equal(gs_sideband_poll(&f->watch, note, &f->log), 6);
	assert_int_equal(f->log.n, 6);
	assert_int_equal(s[0].kind, GS_SIDEBAND_FORK);
	assert_int_equal(s[0].pid, 10);
	assert_int_equal(s[0].parent_pid, 9);
	assert_int_equal(s[0].time_ns, 100);
	assert_int_equal(s[1].kind, GS_SIDEBAND_EXEC);
	assert_int_equal(s[1].pid, 10);
	assert_int_equal(s[2].kind, GS_SIDEBAND_MAP);
	assert_string_equal(s[2].path, "/lib/a.so");
	assert_int_equal(s[2].dev, makedev(8, 300));
	assert_int_equal(s[2].ino, 77);
	assert_string_equal(s[3].path, "/lib/b.so");
	assert_int_equal(s[3].pid, 11);
	assert_string_equal(s[4].path, "/a/much/longer/path/to/a/library.so.1.2.3");
	assert_int_equal(s[5].kind, GS_SIDEBAND_EXIT);
	assert_int_equal(f->pages[0].data_tail, f->pages[0].data_head);
	assert_int_equal(f->pages[1].data_tail, f->pages[1].data_head);
	assert_int_equal(gs_sideband_poll(&f->watch, note, &f->log), 0);
}

/* The end of tracing comes among many notices: the rest is neither delivered nor lost. */
static void the_rest_is_kept(void **state)
{
	struct fake *f = *state;
	const struct seen *s = f->log.seen;

	put_mmap(f, 0, 10, "/lib/a.so", PROT_EXEC, 100);
	put_mmap(f, 1, 11, "/lib/b.so", PROT_EXEC, 200);
	put_mmap(f, 0, 10, "/lib/c.so", PROT_EXEC, 300);
	assert_int_equal(gs_sideband_poll(&f->watch, note_two, &f->log), 2);
	put_mmap(f, 0, 10, "/lib/d.so", PROT_EXEC, 400);
	/* Refused again: what is new stays in its ring. */
	assert_int_equal(gs_sideband_poll(&f->watch, note_two, &f->log), 0);
	assert_int_equal(gs_sideband_poll_kept(&f->watch, note, &f->log), 1);
	assert_int_equal(gs_sideband_poll_kept(&f->watch, note, &f->log), 0);
	assert_string_equal(s[2].path, "/lib/c.so");
	put_mmap(f, 1, 11, "/lib/e.so", PROT_EXEC, 500);
	f->log.n = 0;
	assert_int_equal(gs_sideband_poll(&f->watch, note_two, &f->log), 2);
	assert_string_equal(s[0].path, "/lib/d.so");
	assert_string_equal(s[1].path, "/lib/e.so");
	assert_int_equal(gs_sideband_lost(&f->watch), 0);
}

static void no_news_is_left_out(void **state)
{
	struct fake *f = *state;
	uint64_t unknown[3] = {0};

	put_mmap(f, 0, 10, "//anon", PROT_EXEC, 1);
	put_mmap(f, 0, 10, "[vdso]", PROT_EXEC, 1);
	put_mmap(f, 0, 10, "[heap]", PROT_EXEC, 1);
	put_mmap(f, 0, 10, "anon_inode:x", PROT_EXEC, 1);
	put_mmap(f, 0, 10, "", PROT_EXEC, 1);
	put_mmap(f, 0, 10, "/data", PROT_READ, 1);
	put_mmap(f, 0, (uint32_t)-1, "/other/namespace", PROT_EXEC, 1);
	put_comm(f, 0, 10, false, 1);                    /* a new name only */
	put_task(f, 0, PERF_RECORD_FORK, 10, 10, 12, 1); /* a thread */
	put_task(f, 0, PERF_RECORD_EXIT, 10, 9, 12, 1);  /* its end */
	put_record(f, 0, 4711, 0, unknown, sizeof(unknown), 1);
	put_mmap(f, 0, 10, "/lib/a.so", PROT_EXEC, 2);
	assert_int_equal(gs_sideband_poll(&f->watch, note, &f->log), 1);
	assert_string_equal(f->log.seen[0].path, "/lib/a.so");
	assert_int_equal(gs_sideband_lost(&f->watch), 0);
}

static void lost_ones_are_counted(void **state)
{
	struct fake *f = *state;
	struct lost_body lost = {1, 41};

	put_record(f, 1, PERF_RECORD_LOST, 0, &lost, sizeof(lost), 5);
	put_record(f, 0, PERF_RECORD_LOST, 0, &lost, sizeof(lost), 6);
	put_comm(f, 0, 10, true, 7);
	assert_int_equal(gs_sideband_poll(&f->watch, note, &f->log), 1);
	assert_int_equal(gs_sideband_lost(&f->watch), 82);
}

static void records_wrap_around_the_end(void **state)
{
	struct fake *f = *state;
	char path[64];

	/* Records of 128 bytes and 48 bytes: the end falls at all places of a record. */
	for (unsigned i = 0; i < 4000; i++) {
		snprintf(path, sizeof(path), "/library/number/%06u/that/wraps/around.so", i);
		put_mmap(f, 0, 1 + i, path, PROT_EXEC, i);
		put_task(f, 0, PERF_RECORD_EXIT, 1 + i, 1, 1 + i, i);
		f->log.n = 0;
		assert_int_equal(gs_sideband_poll(&f->watch, note, &f->log), 2);
		assert_string_equal(f->log.seen[0].path, path);
		assert_int_equal(f->log.seen[1].pid, 1 + i);
	}
	assert_int_equal(gs_sideband_lost(&f->watch), 0);
}

static void bad_records_do_no_harm(void **state)
{
	struct fake *f = *state;
	static const uint16_t sizes[] = {0, 4, 7, 12, 4088, UINT16_MAX};
	struct perf_event_header h = {PERF_RECORD_MMAP2, 0, 0};
	uint64_t words[16], seed = 1;

	for (size_t i = 0; i < GS_ARRAY_LEN(sizes); i++) {
		uint64_t lost = gs_sideband_lost(&f->watch);

		h.size = sizes[i];
		put(f, 0, &h, sizeof(h));
		put_comm(f, 0, 10, true, 7); /* unreachable behind it */
		assert_int_equal(gs_sideband_poll(&f->watch, note, &f->log), 0);
		assert_int_equal(gs_sideband_lost(&f->watch), lost + 1);
		/* The next records are read again. */
		put_comm(f, 0, 10, true, 8);
		assert_int_equal(gs_sideband_poll(&f->watch, note, &f->log), 1);
	}
	/* Bodies too short for their type, and a path without its end. */
	for (uint32_t type = 1; type < PERF_RECORD_MAX; type++)
		for (size_t bytes = 0; bytes <= sizeof(words); bytes += 8) {
			memset(words, 0xff, sizeof(words));
			put_record(f, 0, type, PERF_RECORD_MISC_COMM_EXEC, words, bytes, 9);
			assert_int_equal(gs_sideband_poll(&f->watch, note, &f->log), 0);
		}
	h.size = 8; /* a record without a time */
	put(f, 0, &h, sizeof(h));
	assert_int_equal(gs_sideband_poll(&f->watch, note, &f->log), 0);
	/* Noise, a head that ran away, a head that is not aligned. */
	for (unsigned i = 0; i < 20000; i++) {
		seed = seed * 6364136223846793005u + 1442695040888963407u;
		words[0] = seed >> 7;
		put(f, i & 1, words, 8);
		if (i % 37 == 0)
			gs_sideband_poll(&f->watch, note, &f->log);
	}
	f->pages[0].data_head += FAKE_BYTES * 3;
	gs_sideband_poll(&f->watch, note, &f->log);
	f->pages[0].data_head += 3;
	gs_sideband_poll(&f->watch, note, &f->log);
	f->pages[0].data_head += 16;
	gs_sideband_poll(&f->watch, note, &f->log);
	assert_int_equal(f->pages[0].data_tail, f->pages[0].data_head);
}

static void without_memory_notices_are_lost_and_counted(void **state)
{
	struct fake *f = *state;

	f->watch.paths.max_bytes = 16;
	put_mmap(f, 0, 10, "/lib/a.so", PROT_EXEC, 1);
	put_mmap(f, 0, 10, "/lib/b.so", PROT_EXEC, 2);
	assert_int_equal(gs_sideband_poll(&f->watch, note, &f->log), 1);
	assert_string_equal(f->log.seen[0].path, "/lib/a.so");
	assert_int_equal(gs_sideband_lost(&f->watch), 1);
	f->watch.items.max_bytes = f->watch.items.capacity_bytes = 0;
	gs_buf_fini(&f->watch.items);
	put_comm(f, 0, 10, true, 3);
	assert_int_equal(gs_sideband_poll(&f->watch, note, &f->log), 0);
	assert_int_equal(gs_sideband_lost(&f->watch), 2);
}

/* ---- lists of CPUs, errors ---- */

struct cpus {
	int cpu[16];
	int n;
};

static int add_to(void *ctx, int cpu)
{
	struct cpus *c = ctx;

	if (c->n == 16)
		return -E2BIG;
	c->cpu[c->n++] = cpu;
	return 0;
}

static void lists_of_cpus(void **state)
{
	static const char *const bad[] = {"",
					  "\n",
					  "x",
					  "1-",
					  "1,",
					  "-3",
					  "3-1",
					  "0-9999",
					  "1;2",
					  "0-1 ",
					  "99999999999999999999999",
					  "1--2"};
	struct cpus c = {0};

	assert_int_equal(for_each_cpu("0-2,7,9-10\n", add_to, &c), 0);
	assert_int_equal(c.n, 6);
	assert_int_equal(c.cpu[2], 2);
	assert_int_equal(c.cpu[3], 7);
	assert_int_equal(c.cpu[5], 10);
	c.n = 0;
	assert_int_equal(for_each_cpu("0", add_to, &c), 0);
	assert_int_equal(c.n, 1);
	assert_int_equal(for_each_cpu("0-40", add_to, &c), -E2BIG);
	for (size_t i = 0; i < GS_ARRAY_LEN(bad); i++) {
		c.n = 0;
		if (for_each_cpu(bad[i], add_to, &c) != -EINVAL)
			fail_msg("taken: %s", bad[i]);
	}
}

static void errors_say_what_to_do(void **state)
{
	struct gs_err err = {{0}};

	assert_int_equal(explain_open(&err, 0, -EPERM), -EPERM);
	assert_non_null(strstr(err.text, "CAP_PERFMON"));
	assert_int_equal(explain_open(&err, 0, -EACCES), -EACCES);
	assert_non_null(strstr(err.text, "CAP_PERFMON"));
	assert_int_equal(explain_open(&err, 0, -ENOSYS), -ENOSYS);
	assert_non_null(strstr(err.text, "CONFIG_PERF_EVENTS"));
	assert_int_equal(explain_open(&err, 5, -EMFILE), -EMFILE);
	assert_non_null(strstr(err.text, "CPU 5; raise the limit with ulimit -n"));
	assert_int_equal(explain_open(&err, 5, -EINVAL), -EINVAL);
	assert_non_null(strstr(err.text, "CPU 5: Invalid argument"));
	assert_int_equal(explain_open(NULL, 5, -EINVAL), -EINVAL);
}

/* ---- the kernel ---- */

static struct gs_sideband *kernel_watch(void)
{
	struct gs_sideband *watch = NULL;
	struct gs_err err = {{0}};
	int r = gs_sideband_new(&watch, &err);

	if (r < 0) {
		print_message("skipped: %s\n", gs_err_text(&err, r));
		skip();
	}
	assert_non_null(watch);
	return watch;
}

/* An unprivileged process gets the words, not a number. */
static void without_the_right(void **state)
{
	int status;
	pid_t pid;

	if (getuid() != 0) {
		print_message("skipped: only root can give up its rights\n");
		skip();
	}
	pid = fork();
	assert_true(pid >= 0);
	if (pid == 0) {
		struct gs_sideband *watch = NULL;
		struct gs_err err = {{0}};
		int r;

		if (setgid(65534) || setuid(65534))
			_exit(3);
		r = gs_sideband_new(&watch, &err);
		if (r == 0) /* kernel.perf_event_paranoid below 1 */
			_exit(2);
		_exit((r == -EPERM || r == -EACCES) && strstr(err.text, "CAP_PERFMON") && !watch
			      ? 0
			      : 1);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFEXITED(status));
	if (WEXITSTATUS(status) >= 2) {
		print_message("skipped: every user may watch here, or setuid failed\n");
		skip();
	}
	assert_int_equal(WEXITSTATUS(status), 0);
}

static void *thread_main(void *arg)
{
	return arg;
}

/* Copy a small library under a name of our own, so that nobody else maps it. */
static void copy_file(const char *from, const char *to)
{
	GS_CLOSE int in = open(from, O_RDONLY | O_CLOEXEC);
	GS_CLOSE int out = open(to, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0755);
	char buf[65536];
	ssize_t n;

	assert_true(in >= 0 && out >= 0);
	while ((n = read(in, buf, sizeof(buf))) > 0)
		assert_int_equal(write(out, buf, (size_t)n), n);
	assert_int_equal(n, 0);
}

/* Where libm lies: a library that every machine has and dlopen accepts from any path. */
static void libm_path(char *out, size_t bytes)
{
	void *lib = dlopen("libm.so.6", RTLD_NOW);
	Dl_info info;

	assert_non_null(lib);
	assert_true(dladdr(dlsym(lib, "cos"), &info) != 0);
	snprintf(out, bytes, "%s", info.dli_fname);
	dlclose(lib);
}

/* A child that loads the library, and what is told of it. */
static pid_t watch_a_life(struct gs_sideband *watch, struct log *log, const char *lib)
{
	struct pollfd ready = {.fd = gs_sideband_fd(watch), .events = POLLIN};
	int status;
	pid_t pid;

	gs_sideband_poll(watch, note, log);
	memset(log, 0, sizeof(*log));
	pid = fork();
	assert_true(pid >= 0);
	if (pid == 0) {
		execl("/proc/self/exe", "unit_watch", "--child", lib, NULL);
		_exit(127);
	}
	log->pid = pid;
	/* It ends only after the descriptor turned readable. */
	assert_int_equal(poll(&ready, 1, 120000), 1);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
	gs_sideband_poll(watch, note, log);
	return pid;
}

static void a_life_is_told_once_and_in_order(void **state)
{
	GS_CLEANUP(gs_sideband_free) struct gs_sideband *watch = kernel_watch();
	GS_FREE struct log *log = calloc(1, sizeof(*log));
	char dir[] = "/tmp/gs-watch-XXXXXX", lib[64], from[256];
	size_t at_fork, at_exec, at_map, at_exit;
	uint64_t lost;
	struct stat st;
	pid_t pid;

	assert_non_null(log);
	assert_non_null(mkdtemp(dir));
	snprintf(lib, sizeof(lib), "%s/libcopy.so", dir);
	libm_path(from, sizeof(from));
	copy_file(from, lib);
	assert_int_equal(stat(lib, &st), 0);
	/* Notices are of all programs of the machine: where these leave no room, once more. The kernel may
	 * tell of a loss later. */
	for (unsigned i = 0;; i++) {
		lost = gs_sideband_lost(watch);
		pid = watch_a_life(watch, log, lib);
		if (gs_sideband_lost(watch) == lost && count(log, GS_SIDEBAND_FORK, pid) &&
		    count(log, GS_SIDEBAND_EXEC, pid) && count(log, GS_SIDEBAND_EXIT, pid))
			break;
		assert_true(i < 100);
	}
	unlink(lib);
	rmdir(dir);

	at_fork = only(log, GS_SIDEBAND_FORK, pid, NULL);
	at_exec = only(log, GS_SIDEBAND_EXEC, pid, NULL);
	at_map = only(log, GS_SIDEBAND_MAP, pid, lib);
	at_exit = only(log, GS_SIDEBAND_EXIT, pid, NULL);
	assert_true(at_fork < at_exec && at_exec < at_map && at_map < at_exit);
	assert_int_equal(log->seen[at_fork].parent_pid, getpid());
	assert_int_equal(log->seen[at_map].ino, st.st_ino);
	assert_false(log->unsorted);
}

/* The child of the test above: a thread, a new name, and the library. */
static int child(const char *lib)
{
	pthread_t thread;

	if (pthread_create(&thread, NULL, thread_main, NULL) || pthread_join(thread, NULL))
		return 2;
	prctl(PR_SET_NAME, "another");
	return dlopen(lib, RTLD_NOW) ? 0 : 3;
}

static void threads_are_not_told(void **state)
{
	GS_CLEANUP(gs_sideband_free) struct gs_sideband *watch = kernel_watch();
	GS_FREE struct log *log = calloc(1, sizeof(*log));
	pthread_t thread;
	pid_t pid = getpid();

	assert_non_null(log);
	for (unsigned i = 0; i < 20; i++) {
		assert_int_equal(pthread_create(&thread, NULL, thread_main, NULL), 0);
		assert_int_equal(pthread_join(thread, NULL), 0);
	}
	prctl(PR_SET_NAME, "unit_watch_too");
	gs_sideband_poll(watch, note, log);
	for (size_t i = 0; i < log->n; i++)
		assert_false(log->seen[i].kind == GS_SIDEBAND_FORK &&
			     log->seen[i].parent_pid == pid);
	assert_int_equal(count(log, GS_SIDEBAND_EXIT, pid), 0);
	assert_int_equal(count(log, GS_SIDEBAND_EXEC, pid), 0);
}

static void map_many(int fd, unsigned n)
{
	for (unsigned i = 0; i < n; i++) {
		void *p = mmap(NULL, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE, fd, 0);

		assert_true(p != MAP_FAILED);
		munmap(p, 4096);
	}
}

/* What fits arrives complete, what does not is counted: together the number that was mapped. */
static void an_overflow_is_counted(void **state)
{
	GS_CLEANUP(gs_sideband_free) struct gs_sideband *watch = kernel_watch();
	GS_FREE struct log *log = calloc(1, sizeof(*log));
	GS_CLOSE int fd = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
	/* A record of a mapping has 88 bytes and more, by the length of this program's path. */
	const unsigned mapped = (unsigned)(2 * watch->ring_bytes / 88);
	cpu_set_t all, one;

	assert_non_null(log);
	assert_true(fd >= 0);
	assert_int_equal(sched_getaffinity(0, sizeof(all), &all), 0);
	CPU_ZERO(&one);
	CPU_SET(sched_getcpu(), &one);
	assert_int_equal(sched_setaffinity(0, sizeof(one), &one), 0);
	log->pid = getpid();
	map_many(fd, 10);
	gs_sideband_poll(watch, note, log);
	/* Unless others left no room. */
	if (!gs_sideband_lost(watch))
		assert_int_equal(count(log, GS_SIDEBAND_MAP, getpid()), 10);
	log->n = 0;
	map_many(fd, mapped);
	gs_sideband_poll(watch, note, log);
	gs_sideband_count_lost(watch);
	if (watch->keeps_count)
		assert_true(count(log, GS_SIDEBAND_MAP, getpid()) + gs_sideband_lost(watch) >=
			    mapped);
	map_many(fd, 1); /* the kernel tells of a loss with the next record that fits */
	gs_sideband_poll(watch, note, log);
	gs_sideband_count_lost(watch);
	assert_true(!watch->keeps_count ||
		    watch->n_counted >= watch->n_recorded); /* of the same loss */
	assert_int_equal(sched_setaffinity(0, sizeof(all), &all), 0);
	/* Others' mappings may be among the lost. */
	assert_true(gs_sideband_lost(watch) > 0);
	assert_true(count(log, GS_SIDEBAND_MAP, getpid()) > 100);
	assert_true(count(log, GS_SIDEBAND_MAP, getpid()) + gs_sideband_lost(watch) >= mapped + 1);
}

static void free_accepts_nothing(void **state)
{
	struct gs_sideband *watch = NULL;

	gs_sideband_free(&watch);
	assert_null(watch);
	watch = kernel_watch();
	gs_sideband_free(&watch);
	assert_null(watch);
}

int main(int argc, char **argv)
{
#define WITH_RINGS(fn) cmocka_unit_test_setup_teardown(fn, fake_up, fake_down)
	const struct CMUnitTest tests[] = {
		WITH_RINGS(records_of_all_rings_come_by_time),
		WITH_RINGS(the_rest_is_kept),
		WITH_RINGS(no_news_is_left_out),
		WITH_RINGS(lost_ones_are_counted),
		WITH_RINGS(records_wrap_around_the_end),
		WITH_RINGS(bad_records_do_no_harm),
		WITH_RINGS(without_memory_notices_are_lost_and_counted),
		cmocka_unit_test(lists_of_cpus),
		cmocka_unit_test(errors_say_what_to_do),
		cmocka_unit_test(without_the_right),
		cmocka_unit_test(a_life_is_told_once_and_in_order),
		cmocka_unit_test(threads_are_not_told),
		cmocka_unit_test(an_overflow_is_counted),
		cmocka_unit_test(free_accepts_nothing),
	};

	if (argc == 3 && !strcmp(argv[1], "--child"))
		return child(argv[2]);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
