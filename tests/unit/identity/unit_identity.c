/* The table of processes, over a made-up proc folder and over the real one. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "core/base/clock.h"
#include "core/base/mem.h"
#include "sources/identity/identity.h"
#include "unit/identity/fake_proc.h"

static void reads_everything(void **state)
{
	struct fake *f = *state;
	const char status[] = "Name:\tx\nPPid:\t3\nUid:\t1000\t1\t1\t1\nNSpid:\t42\t5\n";
	const char cgroup[] = "0::/lxc/box\n";
	const struct gs_identity_process *p;

	fake_put_stat(f, 42, "py) (thon", 3, 5000);
	fake_put(f, 42, "status", status, strlen(status));
	fake_put(f, 42, "cmdline", "python\0-c\0x\ny\0", 14);
	fake_put(f, 42, "cgroup", cgroup, strlen(cgroup));
	fake_put_exe(f, 42, "/usr/bin/python (deleted)");
	p = gs_identity_process(f->place, 42);
	assert_non_null(p);
	assert_int_equal(p->pid, 42);
	assert_int_equal(p->ns_pid, 5);
	assert_int_equal(p->parent_pid, 3);
	assert_int_equal(p->uid, 1000);
	assert_int_equal(p->start_ns, 5000 * TICK_NS);
	assert_string_equal(p->comm, "py) (thon");
	assert_string_equal(p->exe, "/usr/bin/python");
	assert_string_equal(p->cmdline, "python -c x?y");
	assert_string_equal(p->container, "box");
	assert_int_equal(p->gone, 0);

	/* Read once: what changes without notice is not seen. */
	fake_put_stat(f, 42, "other", 3, 5000);
	assert_string_equal(gs_identity_process(f->place, 42)->comm, "py) (thon");
}

static void put_gpu(const struct fake *f, const char *bus, const char *model, const char *uuid,
		    unsigned minor)
{
	char path[256], text[256];
	GS_FCLOSE FILE *file = NULL;

	snprintf(path, sizeof(path), "mkdir -p %s/driver/nvidia/gpus/%s", f->root, bus);
	assert_int_equal(fake_run("%s", path), 0);
	snprintf(path, sizeof(path), "%s/driver/nvidia/gpus/%s/information", f->root, bus);
	snprintf(text, sizeof(text),
		 "Model: \t\t %s\nGPU UUID: \t %s\nBus Location: \t %s\nDevice Minor: \t %u\n",
		 model, uuid, bus, minor);
	file = fopen(path, "w");
	assert_non_null(file);
	assert_true(fputs(text, file) >= 0);
}

static const char *gpus_of(const struct fake *f, uint32_t pid, const char *now, bool begun,
			   int want_only)
{
	static char uuids[GS_IDENTITY_GPUS_BYTES];
	int only;

	gs_identity_visible_gpus(f->place, gs_identity_process(f->place, pid), now,
				 now ? strlen(now) + 1 : 0, begun, uuids, &only);
	assert_int_equal(only, want_only);
	return uuids;
}

/* As the driver lists them and its environments choose, and by the devices that it has open. */
static void says_which_gpus(void **state)
{
	struct fake *f = *state;
	const char environ[] = "HOME=/\0CUDA_VISIBLE_DEVICES=1,0";
	char command[512];

	put_gpu(f, "0000:1b:00.0", "NVIDIA H100", "GPU-2b", 7);
	put_gpu(f, "0000:0a:00.0", "NVIDIA H100", "GPU-1a", 3);
	fake_put_stat(f, 42, "python", 3, 5000);
	assert_string_equal(gpus_of(f, 42, NULL, true, -1),
			    ""); /* its environment cannot be read */
	fake_put(f, 42, "environ", environ, sizeof(environ));
	assert_string_equal(gpus_of(f, 42, NULL, true, -1), "GPU-2b,GPU-1a");
	assert_string_equal(gpus_of(f, 42, "CUDA_VISIBLE_DEVICES=0", true, 0), "GPU-1a");
	/* Changed since it began, and when is not known. */
	assert_string_equal(gpus_of(f, 42, "CUDA_VISIBLE_DEVICES=0", false, -1), "");
	snprintf(
		command, sizeof(command),
		"mkdir -p %s/42/fd; ln -s /dev/nvidiactl %s/42/fd/3; ln -s /dev/nvidia7 %s/42/fd/4",
		f->root, f->root, f->root);
	assert_int_equal(fake_run("%s", command), 0);
	assert_string_equal(gpus_of(f, 42, NULL, false, 0), "GPU-2b,GPU-1a");
	assert_string_equal(gpus_of(f, 42, "CUDA_VISIBLE_DEVICES=0", false, 0), "GPU-2b");
	fake_put(f, 42, "environ", "", 0);
	assert_string_equal(gpus_of(f, 42, NULL, true, -1), "GPU-1a,GPU-2b");
	assert_string_equal(gpus_of(f, 42, NULL, false, 1), "GPU-1a,GPU-2b");
	assert_string_equal(gpus_of(f, 43, NULL, true, -1), "");
}

/* MIG: capabilities/gpuMINOR/mig/giN/ciM. */
static void says_which_instance(void **state)
{
	struct fake *f = *state;

	put_gpu(f, "0000:0a:00.0", "NVIDIA H100", "GPU-1a", 3);
	assert_int_equal(
		fake_run("mkdir -p %s/driver/nvidia/capabilities/gpu3/mig/gi9/ci0", f->root), 0);
	fake_put_stat(f, 42, "python", 3, 5000);
	fake_put(f, 42, "environ", "", 0);
	assert_string_equal(gpus_of(f, 42, NULL, true, 0), "MIG-GPU-1a/9/0");
}

static void missing_files_leave_blanks(void **state)
{
	struct fake *f = *state;
	const struct gs_identity_process *p;

	fake_put_stat(f, 7, "kthreadd", 0, 1);
	p = gs_identity_process(f->place, 7);
	assert_int_equal(p->gone, 0);
	assert_int_equal(p->ns_pid, 7);
	assert_int_equal(p->uid, 0);
	assert_string_equal(p->exe, "");
	assert_string_equal(p->cmdline, "");
	assert_string_equal(p->container, "");
}

static void thousands_of_groups(void **state)
{
	struct fake *f = *state;
	size_t n = 0, room = 600000;
	GS_FREE char *status = malloc(room);

	n += (size_t)snprintf(status + n, room - n, "Uid:\t9\t9\t9\t9\nGroups:\t");
	for (unsigned i = 0; i < 65536; i++)
		n += (size_t)snprintf(status + n, room - n, "%u ", 100000 + i);
	n += (size_t)snprintf(status + n, room - n, "\nNSpid:\t8\t2\n");
	fake_put_stat(f, 8, "a", 1, 1);
	fake_put(f, 8, "status", status, n);
	assert_int_equal(gs_identity_process(f->place, 8)->ns_pid, 2);
	assert_int_equal(gs_identity_process(f->place, 8)->uid, 9);
}

static void a_file_without_end_is_cut(void **state)
{
	struct fake *f = *state;
	size_t bytes = 3u << 20;
	GS_FREE char *data = malloc(bytes);

	memset(data, 'a', bytes);
	fake_put_stat(f, 8, "a", 1, 1);
	fake_put(f, 8, "cmdline", data, bytes);
	fake_put(f, 8, "cgroup", data, bytes);
	assert_int_equal(strlen(gs_identity_process(f->place, 8)->cmdline),
			 GS_IDENTITY_CMDLINE_BYTES - 1);
	/* A stat line that is garbage is a process that cannot be read. */
	fake_put(f, 9, "stat", data, bytes);
	assert_int_equal(gs_identity_process(f->place, 9)->gone, 1);
}

static void gone_before_it_was_read(void **state)
{
	struct fake *f = *state;
	const struct gs_identity_process *p = gs_identity_process(f->place, 77);

	assert_non_null(p);
	assert_int_equal(p->gone, 1);
	assert_int_equal(p->pid, 77);
	assert_int_equal(p->start_ns, 0);
	assert_string_equal(p->comm, "");

	/* Hints, before and after it is asked for. */
	gs_identity_exit(f->place, 77, "short\nlived");
	assert_string_equal(gs_identity_process(f->place, 77)->comm, "short?lived");
	gs_identity_fork(f->place, 78, 12);
	gs_identity_exit(f->place, 78, "0123456789abcdefXX");
	p = gs_identity_process(f->place, 78);
	assert_int_equal(p->gone, 1);
	assert_int_equal(p->parent_pid, 12);
	assert_string_equal(p->comm, "0123456789abcde");

	/* When a process turns up under the pid, it is another one. */
	fake_put_stat(f, 78, "new", 1, 10);
	p = gs_identity_process(f->place, 78);
	assert_int_equal(p->gone, 0);
	assert_string_equal(p->comm, "new");
}

/* It had its parent's program: until it runs another one. */
static void gone_child(void **state)
{
	struct fake *f = *state;
	const struct gs_identity_process *p;

	fake_put_stat(f, 40, "train", 1, 50);
	fake_put(f, 40, "cmdline", "train\0--fast\0", 13);
	fake_put_exe(f, 40, "/opt/train");
	assert_string_equal(gs_identity_process(f->place, 40)->exe, "/opt/train");
	gs_identity_fork(f->place, 41, 40);
	for (int i = 0; i < 2; i++) {
		p = gs_identity_process(f->place, 41);
		assert_int_equal(p->gone, 0);
		assert_int_equal(p->pid, 41);
		assert_int_equal(p->ns_pid, 41);
		assert_int_equal(p->parent_pid, 40);
		assert_int_equal(p->start_ns, 0);
		assert_string_equal(p->comm, "train");
		assert_string_equal(p->exe, "/opt/train");
		assert_string_equal(p->cmdline, "train --fast");
		gs_identity_refresh(f->place, 41);
	}
	/* And a child of it; the name that it gave itself. */
	gs_identity_fork(f->place, 42, 41);
	assert_string_equal(gs_identity_process(f->place, 42)->exe, "/opt/train");
	gs_identity_fork(f->place, 43, 40);
	gs_identity_exit(f->place, 43, "worker");
	assert_string_equal(gs_identity_process(f->place, 43)->comm, "worker");
	assert_string_equal(gs_identity_process(f->place, 43)->exe, "/opt/train");
	/* Another program, of which nothing was read. */
	gs_identity_fork(f->place, 44, 40);
	gs_identity_exec(f->place, 44, "", "");
	gs_identity_exit(f->place, 44, "true");
	p = gs_identity_process(f->place, 44);
	assert_int_equal(p->gone, 1);
	assert_string_equal(p->comm, "true");
	assert_string_equal(p->exe, "");
	/* One that lives is read. */
	gs_identity_fork(f->place, 45, 40);
	fake_put_stat(f, 45, "alive", 40, 60);
	p = gs_identity_process(f->place, 45);
	assert_string_equal(p->comm, "alive");
	assert_int_equal(p->start_ns, 60 * TICK_NS);
}

static void exec_is_read_again(void **state)
{
	struct fake *f = *state;
	const struct gs_identity_process *p;

	fake_put_stat(f, 5, "sh", 1, 50);
	fake_put(f, 5, "cmdline", "sh\0", 3);
	fake_put_exe(f, 5, "/bin/sh");
	assert_string_equal(gs_identity_process(f->place, 5)->exe, "/bin/sh");
	fake_put_stat(f, 5, "train", 1, 50);
	fake_put(f, 5, "cmdline", "train\0--fast\0", 13);
	fake_put_exe(f, 5, "/opt/train");
	gs_identity_exec(f->place, 5, "", "");
	p = gs_identity_process(f->place, 5);
	assert_string_equal(p->comm, "train");
	assert_string_equal(p->cmdline, "train --fast");
	assert_string_equal(p->exe, "/opt/train");

	/* Gone before it could be read again: what was read last is what there is. */
	gs_identity_exec(f->place, 5, "", "");
	fake_drop(f, 5);
	for (int i = 0; i < 2; i++) {
		p = gs_identity_process(f->place, 5);
		assert_int_equal(p->gone, 0);
		assert_int_equal(p->start_ns, 50 * TICK_NS);
		assert_string_equal(p->comm, "train");
		assert_string_equal(p->exe, "/opt/train");
	}
	/* Another process under the pid is read, whatever was to be read again. */
	fake_put_stat(f, 5, "heir", 1, 60);
	assert_string_equal(gs_identity_process(f->place, 5)->comm, "heir");
	assert_string_equal(gs_identity_process(f->place, 5)->exe, "");
	/* Of a process never seen, there is nothing to read again. */
	gs_identity_exec(f->place, 555, "", "");
}

static void exec_names_what_is_gone(void **state)
{
	struct fake *f = *state;
	const struct gs_identity_process *p;

	/* Never read, and nothing else was heard of it. */
	gs_identity_exec(f->place, 80, "train", "/opt/train");
	for (int i = 0; i < 2; i++) {
		p = gs_identity_process(f->place, 80);
		assert_int_equal(p->gone, 1);
		assert_string_equal(p->comm, "train");
		assert_string_equal(p->exe, "/opt/train");
		gs_identity_exit(f->place, 80, "train");
	}
	/* Its child began and ended meanwhile. */
	gs_identity_fork(f->place, 81, 80);
	p = gs_identity_process(f->place, 81);
	assert_int_equal(p->gone, 1);
	assert_string_equal(p->comm, "train");
	assert_string_equal(p->exe, "/opt/train");
	/* It waits for its parent: it has a name, and no files. */
	gs_identity_exec(f->place, 82, "train", "/opt/train");
	fake_put_stat(f, 82, "train", 1, 50);
	p = gs_identity_process(f->place, 82);
	assert_int_equal(p->gone, 0);
	assert_string_equal(p->exe, "/opt/train");
	/* What was read last was the program before it. */
	fake_put_stat(f, 83, "sh", 1, 50);
	fake_put(f, 83, "cmdline", "sh\0", 3);
	fake_put_exe(f, 83, "/bin/sh");
	assert_string_equal(gs_identity_process(f->place, 83)->exe, "/bin/sh");
	gs_identity_exec(f->place, 83, "train", "/opt/train");
	fake_drop(f, 83);
	p = gs_identity_process(f->place, 83);
	assert_string_equal(p->comm, "train");
	assert_string_equal(p->exe, "/opt/train");
	assert_string_equal(p->cmdline, "");
	assert_int_equal(p->start_ns, 50 * TICK_NS);
	/* A path from a folder that is not known is none. */
	gs_identity_exec(f->place, 84, "train", "./train");
	p = gs_identity_process(f->place, 84);
	assert_string_equal(p->comm, "train");
	assert_string_equal(p->exe, "");
	/* Its files are there: they say more. */
	gs_identity_exec(f->place, 85, "python3", "/usr/bin/python3");
	fake_put_stat(f, 85, "python3", 1, 50);
	fake_put_exe(f, 85, "/usr/bin/python3.11");
	assert_string_equal(gs_identity_process(f->place, 85)->exe, "/usr/bin/python3.11");
}

static void a_pid_is_used_again(void **state)
{
	struct fake *f = *state;
	const struct gs_identity_process *p;

	fake_put_stat(f, 6, "first", 1, 100);
	assert_string_equal(gs_identity_process(f->place, 6)->comm, "first");
	gs_identity_exit(f->place, 6, "first");
	/* Still there while it ends, then not: known all the same. */
	assert_string_equal(gs_identity_process(f->place, 6)->comm, "first");
	fake_drop(f, 6);
	p = gs_identity_process(f->place, 6);
	assert_string_equal(p->comm, "first");
	assert_int_equal(p->gone, 0);
	fake_put_stat(f, 6, "second", 1, 200);
	p = gs_identity_process(f->place, 6);
	assert_string_equal(p->comm, "second");
	assert_int_equal(p->start_ns, 200 * TICK_NS);

	/* A fork under the same pid, its end not seen. */
	fake_put_stat(f, 6, "third", 1, 300);
	assert_string_equal(gs_identity_process(f->place, 6)->comm, "second");
	gs_identity_fork(f->place, 6, 9);
	p = gs_identity_process(f->place, 6);
	assert_string_equal(p->comm, "third");
	assert_int_equal(p->parent_pid, 1);
	/* Ended before it was read, but still there: read then. */
	fake_put_stat(f, 10, "zombie", 1, 400);
	gs_identity_exit(f->place, 10, "zomb");
	p = gs_identity_process(f->place, 10);
	assert_int_equal(p->gone, 0);
	assert_string_equal(p->comm, "zombie");
}

static void names_of_threads(void **state)
{
	struct fake *f = *state;
	char comm[16];

	fake_put_task(f, 5, 6, "a) b\n\n");
	gs_identity_thread_comm(f->place, 5, 6, "hint", comm);
	assert_string_equal(comm, "a) b?");
	gs_identity_thread_comm(f->place, 5, 7, "hint", comm);
	assert_string_equal(comm, "hint");
	gs_identity_thread_comm(f->place, 5, 7, "", comm);
	assert_string_equal(comm, "");
	/* A hint as long as the field, not terminated within it. */
	gs_identity_thread_comm(f->place, 5, 7, "0123456789abcdefghij", comm);
	assert_string_equal(comm, "0123456789abcde");
}

static void no_proc_at_all(void **state)
{
	struct gs_identity *place = gs_identity_new("/nonexistent/proc");
	char comm[16];

	assert_non_null(place);
	assert_int_equal(gs_identity_process(place, 1)->gone, 1);
	gs_identity_thread_comm(place, 1, 1, "hint", comm);
	assert_string_equal(comm, "hint");
	gs_identity_free(&place);
	gs_identity_free(&place);
}

static void the_table_is_bounded(void **state)
{
	enum { MAX = 65536 };
	struct fake *f = *state;

	fake_put_stat(f, 1, "init", 0, 1);
	fake_put_stat(f, 2, "ended", 1, 2);
	assert_string_equal(gs_identity_process(f->place, 1)->comm, "init");
	assert_string_equal(gs_identity_process(f->place, 2)->comm, "ended");
	gs_identity_exit(f->place, 2, "");
	fake_drop(f, 2);
	for (uint32_t pid = 3; pid <= MAX; pid++)
		gs_identity_fork(f->place, pid, 1);
	/* Full, nothing given up yet. */
	fake_put_stat(f, 1, "changed", 0, 1);
	assert_string_equal(gs_identity_process(f->place, 1)->comm, "init");
	assert_int_equal(gs_identity_process(f->place, 2)->gone, 0);
	/* One more: the ended one goes, though the other is older. */
	gs_identity_fork(f->place, MAX + 1, 1);
	assert_string_equal(gs_identity_process(f->place, 1)->comm, "init");
	/* Asking for it takes the place of the oldest: process 1, read anew when asked for. */
	assert_int_equal(gs_identity_process(f->place, 2)->gone, 1);
	assert_string_equal(gs_identity_process(f->place, 1)->comm, "changed");
	for (uint32_t pid = MAX + 2; pid < 5 * MAX; pid++) {
		gs_identity_fork(f->place, pid, pid - 1);
		gs_identity_exit(f->place, pid, "x");
	}
	assert_int_equal(gs_identity_process(f->place, 5 * MAX - 1)->parent_pid, 5 * MAX - 2);
	assert_string_equal(gs_identity_process(f->place, 1)->comm, "changed");
}

static void real_process(void **state)
{
	struct gs_identity *place = gs_identity_new("/proc");
	const struct gs_identity_process *p;
	char exe[PATH_MAX] = "", before[16];
	uint32_t pid = (uint32_t)getpid();

	assert_true(readlink("/proc/self/exe", exe, sizeof(exe) - 1) > 0);
	prctl(PR_GET_NAME, before);
	prctl(PR_SET_NAME, "od) d\n(name");
	p = gs_identity_process(place, pid);
	prctl(PR_SET_NAME, before);
	assert_int_equal(p->gone, 0);
	assert_string_equal(p->comm, "od) d?(name");
	assert_int_equal(p->parent_pid, getppid());
	assert_int_equal(p->uid, getuid());
	assert_string_equal(p->exe, exe);
	assert_non_null(strstr(p->cmdline, "unit_identity_identity"));
	assert_true(p->start_ns > 0 && p->start_ns <= gs_clock_boot_ns());
	gs_identity_free(&place);
}

static void *thread_with_name(void *arg)
{
	struct gs_identity *place = arg;
	static char comm[16];

	prctl(PR_SET_NAME, "worker (7)");
	gs_identity_thread_comm(place, (uint32_t)getpid(), (uint32_t)syscall(SYS_gettid), "hint",
				comm);
	return comm;
}

static void real_thread_and_real_child(void **state)
{
	struct gs_identity *place = gs_identity_new("/proc");
	const struct gs_identity_process *p;
	pthread_t t;
	void *comm;
	int gate[2];
	char byte;
	pid_t pid;

	assert_int_equal(pthread_create(&t, NULL, thread_with_name, place), 0);
	assert_int_equal(pthread_join(t, &comm), 0);
	assert_string_equal(comm, "worker (7)");

	assert_int_equal(pipe2(gate, O_CLOEXEC), 0);
	pid = fork();
	if (pid == 0) {
		close(gate[1]);
		_exit(read(gate[0], &byte, 1) == 0 ? 0 : 1);
	}
	p = gs_identity_process(place, (uint32_t)pid);
	assert_int_equal(p->gone, 0);
	assert_int_equal(p->parent_pid, getpid());
	close(gate[0]);
	close(gate[1]);
	assert_int_equal(waitpid(pid, NULL, 0), pid);
	gs_identity_exit(place, (uint32_t)pid, "");
	assert_int_equal(gs_identity_process(place, (uint32_t)pid)->parent_pid, getpid());
	gs_identity_free(&place);

	/* The same, asked for too late. */
	place = gs_identity_new("/proc");
	assert_int_equal(gs_identity_process(place, (uint32_t)pid)->gone, 1);
	gs_identity_free(&place);
}

int main(void)
{
#define FAKE(name) cmocka_unit_test_setup_teardown(name, fake_setup, fake_teardown)
	const struct CMUnitTest tests[] = {
		FAKE(reads_everything),         FAKE(says_which_gpus),
		FAKE(says_which_instance),      FAKE(missing_files_leave_blanks),
		FAKE(thousands_of_groups),      FAKE(a_file_without_end_is_cut),
		FAKE(gone_before_it_was_read),  FAKE(gone_child),
		FAKE(exec_is_read_again),       FAKE(exec_names_what_is_gone),
		FAKE(a_pid_is_used_again),      FAKE(names_of_threads),
		FAKE(the_table_is_bounded),     cmocka_unit_test(no_proc_at_all),
		cmocka_unit_test(real_process), cmocka_unit_test(real_thread_and_real_child),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
