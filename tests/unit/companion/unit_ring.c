/* Writing records and reading them: what is written arrives, whatever becomes of the writer. */
#include "run.h"

#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <sys/auxv.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "core/base/mem.h"
#include "core/base/sanitizer.h"

static void all_arrive_in_order(void **state)
{
	struct run r;

	run_new(&r, NULL);
	run_join(&r);
	for (uint64_t i = 0; i < 20000; i++) {
		assert_true(run_write(i));
		if (i % 37 == 0) /* the ring holds 46 */
			run_poll(&r, false);
	}
	run_poll(&r, true);
	assert_int_equal(r.n, 20000);
	assert_true(r.in_order);
	assert_int_equal(r.damaged, 0);
	assert_int_equal(r.lost[GS_COMPANION_LOST_FULL], 0);
	assert_int_equal(r.pid, getpid());
	assert_int_equal(r.tid, gettid());
	gs_companion_files_free(&r.files);
}

static bool write_text(size_t bytes)
{
	struct gs_companion_asked *a = companion_put(GS_COMPANION_ASKED, bytes);

	if (!a)
		return false;
	memset(a->name, 'x', bytes - sizeof(*a));
	companion_publish(a);
	return true;
}

static void of_any_length(void **state)
{
	struct run r;

	run_new(&r, NULL);
	run_join(&r);
	for (size_t i = 0; i < 4000; i++) {
		assert_true(write_text(sizeof(struct gs_companion_asked) + i % 200 * 8));
		run_poll(&r, false);
		assert_int_equal(r.damaged, 0);
	}
	assert_int_equal(r.longest, sizeof(struct gs_companion_asked) + 199 * 8);
	assert_null(companion_put(GS_COMPANION_ASKED, GS_COMPANION_RECORD_MAX + 8));
	gs_companion_files_free(&r.files);
}

static void a_full_ring_drops_and_counts(void **state)
{
	struct run r;
	uint64_t kept = 0;

	run_new(&r, NULL);
	run_join(&r);
	for (uint64_t i = 0; i < 1000; i++)
		kept += run_write(i);
	run_poll(&r, true);
	assert_true(kept >= 45 && kept <= 46);
	assert_int_equal(r.n, kept);
	assert_true(r.in_order);
	assert_int_equal(r.lost[GS_COMPANION_LOST_FULL], 1000 - kept);
	assert_true(run_write(0));
	gs_companion_files_free(&r.files);
}

/* What finds no room is added up by function, in numbers that only grow; what has no sum left is counted. */
static void sums(void **state)
{
	struct gs_companion_sum *sum;
	struct run r;

	run_new(&r, NULL);
	run_join(&r);
	assert_true(run_write(1));
	for (unsigned round = 0; round < 3; round++) {
		for (unsigned func = 1; func <= GS_COMPANION_SUMS_MAX; func++) {
			sum = companion_sum_of(&companion_self, func, 1);
			assert_non_null(sum);
			assert_int_equal(sum->func, func);
			sum->calls += func;
			sum->bytes += 2 * func;
		}
		run_poll(&r, true);
	}
	assert_int_equal(r.added_up, 3 * GS_COMPANION_SUMS_MAX * (GS_COMPANION_SUMS_MAX + 1) / 2);
	assert_int_equal(r.added_bytes, 2 * r.added_up);
	assert_null(companion_sum_of(&companion_self, GS_COMPANION_SUMS_MAX + 1, 1));
	run_poll(&r, true);
	assert_int_equal(r.lost[GS_COMPANION_LOST_SUM], 1);
	gs_companion_files_free(&r.files);
}

/* A child has a file of its own, its parent's is left alone. */
static void a_forked_child(void **state)
{
	struct run r;
	pid_t child;
	int status;

	run_new(&r, NULL);
	run_join(&r);
	assert_true(run_write(0));
	run_poll(&r, false);
	child = fork();
	if (child == 0) {
		for (uint64_t i = 1; i < 11; i++)
			run_write(i);
		_exit(0);
	}
	waitpid(child, &status, 0);
	run_poll(&r, true);
	assert_int_equal(r.n, 11);
	assert_int_equal(r.pid, child);
	assert_true(run_write(11));
	run_poll(&r, true);
	assert_int_equal(r.n, 12);
	assert_int_equal(r.pid, getpid());
	assert_int_equal(r.damaged, 0);
	gs_companion_files_free(&r.files);
}

static void a_killed_writer(void **state)
{
	struct run r;
	pid_t child;
	int status;

	run_new(&r, NULL);
	child = fork();
	if (child == 0) {
		run_join(&r);
		for (uint64_t i = 0; i < 20; i++)
			run_write(i);
		companion_self.slot->open[0].func = 7;
		companion_self.slot->n_open = 1;
		raise(SIGKILL);
	}
	waitpid(child, &status, 0);
	run_poll(&r, false);
	assert_int_equal(r.n, 20);
	assert_true(r.in_order);
	assert_int_equal(r.n_open, 1);
	gs_companion_files_free(&r.files);
}

static void *write_some(void *ctx)
{
	for (uint64_t i = 0; i < 10; i++)
		run_write(1);
	return NULL;
}

/* Slots of threads that have ended are given to others; more at one time than there are: counted. */
static void more_threads_than_slots(void **state)
{
	pthread_t threads[RUN_SLOTS];
	struct run r;

	run_new(&r, NULL);
	run_join(&r);
	assert_true(run_write(1));
	for (unsigned round = 0; round < 5; round++) {
		for (unsigned i = 0; i < RUN_SLOTS - 1; i++)
			pthread_create(&threads[i], NULL, write_some, NULL);
		for (unsigned i = 0; i < RUN_SLOTS - 1; i++)
			pthread_join(threads[i], NULL);
		run_poll(&r, true);
	}
	assert_int_equal(r.n, 1 + 5 * 10 * (RUN_SLOTS - 1));
	assert_int_equal(r.no_slot, 0);
	for (unsigned i = 0; i < RUN_SLOTS; i++) {
		pthread_create(&threads[i], NULL, write_some, NULL);
		pthread_join(threads[i], NULL);
	}
	run_poll(&r, true);
	assert_int_equal(r.no_slot, 10);
	gs_companion_files_free(&r.files);
}

static jmp_buf out;
static volatile bool written_inside;

static void write_in_handler(int signal)
{
	written_inside = run_write(77);
}

static void jump_out(int signal)
{
	siglongjmp(out, 1);
}

static void handle_signal(int signal, void (*handler)(int))
{
	const struct sigaction sa = {.sa_handler = handler};

	assert_int_equal(sigaction(signal, &sa, NULL), 0);
}

/* A record that comes into the midst of another one, of which a reader sees what is whole; one that is left by a
 * jump. */
static void a_signal_handler(void **state)
{
	struct gs_companion_call *c;
	struct run r;

	run_new(&r, NULL);
	run_join(&r);
	handle_signal(SIGUSR1, write_in_handler);
	handle_signal(SIGUSR2, jump_out);
	for (unsigned i = 0; i < 200; i++) {
		c = companion_put(GS_COMPANION_CALL, sizeof(*c));
		assert_non_null(c);
		written_inside = false;
		raise(SIGUSR1);
		assert_true(written_inside);
		c->bytes = 100;
		companion_publish(c);
		run_poll(&r, false);
	}
	assert_int_equal(r.n, 400);
	assert_int_equal(r.sum, 200 * (100 + 77));
	for (unsigned i = 0; i < 100; i++) {
		if (sigsetjmp(out, 1) == 0) {
			c = companion_put(GS_COMPANION_CALL, sizeof(*c));
			c->bytes = 12345;
			raise(SIGUSR2);
			companion_publish(c);
		}
		assert_true(run_write(1));
		run_poll(&r, false);
	}
	run_poll(&r, true);
	assert_int_equal(r.n, 500);
	assert_int_equal(r.sum, 200 * (100 + 77) + 100);
	assert_int_equal(r.lost[GS_COMPANION_LOST_FULL], 0);
	assert_int_equal(r.damaged, 0);
	/* Read in between: only what is whole. */
	c = companion_put(GS_COMPANION_CALL, sizeof(*c));
	raise(SIGUSR1);
	run_poll(&r, false);
	companion_publish(c);
	run_poll(&r, true);
	assert_int_equal(r.n, 501);
	assert_int_equal(r.damaged, 0);
	gs_companion_files_free(&r.files);
}

#define TEXT_BYTES 32u     /* the ring holds 46 calls, and one of these behind them */
#define STEP_FLAG  0x100ul /* of the processor: SIGTRAP after each instruction */

static volatile unsigned steps_left; /* 0: the handler's record was tried */

static void write_at_step(int signal)
{
	if (steps_left && --steps_left == 0)
		written_inside = write_text(TEXT_BYTES);
}

static void take_steps(bool on)
{
	uint64_t flags = __builtin_ia32_readeflags_u64();

	__asm__ volatile("" ::: "memory");
	__builtin_ia32_writeeflags_u64(on ? flags | STEP_FLAG : flags & ~STEP_FLAG);
	__asm__ volatile("" ::: "memory");
}

/* A call that finds its ring at its end, first_read of 46 having been read, and a handler's shorter record before one
 * of its instructions. False: it has fewer. */
static bool is_right_at_step(unsigned step, unsigned first_read)
{
	bool written, has_step;
	struct run r;

	run_new(&r, NULL);
	run_join(&r);
	for (unsigned i = 0; i < 46; i++) {
		assert_true(run_write(i));
		if (i + 1 == first_read)
			run_poll(&r, false);
	}
	written_inside = false;
	steps_left = step;
	take_steps(true);
	written = run_write(46);
	take_steps(false);
	has_step = !steps_left;
	run_poll(&r, true);
	assert_int_equal(r.damaged, 0);
	assert_true(r.in_order);
	assert_int_equal(r.n, 46 + written);
	assert_int_equal(r.longest, sizeof(struct gs_companion_call));
	assert_int_equal(r.n_texts, written_inside);
	assert_int_equal(r.lost[GS_COMPANION_LOST_FULL], !written + (has_step && !written_inside));
	assert_true(written || written_inside);
	gs_companion_files_free(&r.files);
	return has_step;
}

static void a_signal_at_each_instruction(void **state)
{
#ifdef __SANITIZE_THREAD__
	skip(); /* it keeps signals back until a call, so that none comes at an instruction */
#endif
	handle_signal(SIGTRAP, write_at_step);
	for (unsigned first_read = 1; first_read <= 46; first_read += 45) {
		unsigned step = 1;

		while (is_right_at_step(step, first_read))
			step++;
		assert_true(step > 10);
	}
}

static void nothing_after_the_end(void **state)
{
	struct run r;

	run_new(&r, NULL);
	run_join(&r);
	assert_true(run_write(1));
	gs_companion_files_stop(r.files, &r.handler);
	assert_int_equal(r.n, 1);
	assert_false(run_write(2));
	gs_companion_files_free(&r.files);
	assert_false(run_write(3));
}

/* In a child, as limits stay. 0: nothing was written and the child is as before. */
static int child_with(const struct run *r, int resource, rlim_t limit)
{
	pid_t child = fork();
	int status;

	if (child == 0) {
		struct rlimit l = {limit, limit};

		setrlimit(resource, &l);
		run_join(r);
		_exit(run_write(1) || run_write(2));
	}
	waitpid(child, &status, 0);
	return status;
}

/* Where a file cannot be had the program goes on: no signal, no record. */
static void limits_and_folders(void **state)
{
	struct companion_setup s = {.n_slots = RUN_SLOTS, .ring_bytes = RUN_RING_BYTES};
	struct run r;

	run_new(&r, NULL);
	assert_int_equal(child_with(&r, RLIMIT_FSIZE, 4096), 0);
#ifndef GS_SANITIZER /* its shadow of memory is larger than any limit */
	assert_int_equal(child_with(&r, RLIMIT_AS, 4ull << 30), 0);
#endif
	assert_int_equal(child_with(&r, RLIMIT_NOFILE, 0), 0);
	chmod(gs_companion_files_folder(r.files), 0755); /* others may look into it: not ours */
	assert_int_equal(child_with(&r, RLIMIT_CORE, 0), 0);
	chmod(gs_companion_files_folder(r.files), 0700);
	assert_int_not_equal(child_with(&r, RLIMIT_CORE, 0), 0);
	gs_companion_files_free(&r.files);
	companion_self = (struct companion_self){0};
	strcpy(s.folder, "/nonexistent/folder");
	assert_int_equal(companion_start(&s), 0);
	assert_false(run_write(1));
}

/* A file system that fills up: a thread without room is left alone, no signal comes. */
static void a_full_file_system(void **state)
{
	char parent[] = "/tmp/companion-XXXXXX";
	pthread_t thread;
	struct run r;

	assert_non_null(mkdtemp(parent));
	if (mount("none", parent, "tmpfs", 0, "size=24k") < 0) {
		rmdir(parent);
		skip();
	}
	run_new(&r, parent);
	run_join(&r);
	assert_true(run_write(1)); /* a page of the head, two of the slot, one of the ring */
	pthread_create(&thread, NULL, write_some, NULL);
	pthread_join(thread, NULL);
	run_poll(&r, true);
	assert_int_equal(r.n, 1);
	assert_int_equal(r.no_slot, 10);
	gs_companion_files_free(&r.files);
	assert_int_equal(umount2(parent, MNT_DETACH), 0);
	rmdir(parent);
}

/* Any system call but exit_group(2) ends the process. Not SECCOMP_MODE_STRICT, which allows exit(2) alone: ThreadSanitizer
 * has a thread of its own, which that leaves behind. */
static void read_clock_only(void)
{
	struct sock_filter code[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, 0),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_exit_group, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
	};
	struct sock_fprog program = {GS_ARRAY_LEN(code), code};
	uint64_t before = 0, now;
	uint16_t cpu;

	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 ||
	    prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) != 0)
		syscall(SYS_exit_group, 2);
	for (unsigned i = 0; i < 1000; i++, before = now) {
		now = companion_mono_ns_cpu(&cpu);
		if (now < before)
			syscall(SYS_exit_group, 3);
	}
	syscall(SYS_exit_group, 0);
}

/* Also where the processor's counter is no clock, as in a virtual machine whose kernel does not trust it. */
static void the_clock_without_a_system_call(void **state)
{
	struct timespec t;
	uint64_t before_ns, now_ns;
	cpu_set_t all, one;
	uint16_t cpu = 0;
	int status = 0;
	pid_t pid;

	if (!getauxval(AT_SYSINFO_EHDR))
		skip();
	companion_find_vdso();
	clock_gettime(CLOCK_MONOTONIC, &t);
	before_ns = (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
	now_ns = companion_mono_ns();
	clock_gettime(CLOCK_MONOTONIC, &t);
	assert_in_range(now_ns, before_ns, (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec);
	assert_int_equal(sched_getaffinity(0, sizeof(all), &all), 0);
	for (int i = 0; i < CPU_SETSIZE; i++) {
		if (!CPU_ISSET(i, &all))
			continue;
		CPU_ZERO(&one);
		CPU_SET(i, &one);
		assert_int_equal(sched_setaffinity(0, sizeof(one), &one), 0);
		companion_mono_ns_cpu(&cpu);
		assert_int_equal(cpu, i);
	}
	assert_int_equal(sched_setaffinity(0, sizeof(all), &all), 0);
	pid = fork();
	if (pid == 0)
		read_clock_only();
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(all_arrive_in_order),
		cmocka_unit_test(of_any_length),
		cmocka_unit_test(a_full_ring_drops_and_counts),
		cmocka_unit_test(sums),
		cmocka_unit_test(a_forked_child),
		cmocka_unit_test(a_killed_writer),
		cmocka_unit_test(more_threads_than_slots),
		cmocka_unit_test(a_signal_handler),
		cmocka_unit_test(a_signal_at_each_instruction),
		cmocka_unit_test(nothing_after_the_end),
		cmocka_unit_test(limits_and_folders),
		cmocka_unit_test(a_full_file_system),
		cmocka_unit_test(the_clock_without_a_system_call),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
