/* Files that are not as they should be: refused, or read as far as they can be believed. */
#include "run.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>

static struct gs_companion_head good_head(void)
{
	return (struct gs_companion_head){.magic = GS_COMPANION_MAGIC,
					  .version = GS_COMPANION_VERSION,
					  .pid = 1,
					  .start_ns = 5,
					  .doors = 1u << GS_COMPANION_CALLS,
					  .n_slots = RUN_SLOTS,
					  .ring_bytes = RUN_RING_BYTES,
					  .rings_at = GS_COMPANION_SLOTS_AT +
						      RUN_SLOTS * sizeof(struct gs_companion_slot)};
}

static void heads(void **state)
{
	const uint64_t bytes = gs_companion_file_bytes(RUN_SLOTS, RUN_RING_BYTES, 0);
	struct gs_companion_head h = good_head();

	assert_int_equal(bytes, 4096 + 4 * (8192 + 4096 + sizeof(struct gs_companion_sums)));
	assert_int_equal(gs_companion_head_check(&h, bytes), 0);
	assert_int_equal(gs_companion_head_check(&h, bytes - 1), -EBADMSG);
	assert_int_equal(gs_companion_head_check(&h, bytes + 4096), -EBADMSG);
	h.version++;
	assert_int_equal(gs_companion_head_check(&h, bytes), -EPROTONOSUPPORT);
	h = good_head();
	h.magic++;
	assert_int_equal(gs_companion_head_check(&h, bytes), -EBADMSG);
	h = good_head();
	h.rings_at = UINT64_MAX - 4095;
	assert_int_equal(gs_companion_head_check(&h, bytes), -EBADMSG);
	h = good_head();
	h.n_slots = 0;
	assert_int_equal(gs_companion_head_check(&h, 4096), -EBADMSG);
	h.n_slots = GS_COMPANION_SLOTS_MAX + 1;
	assert_int_equal(gs_companion_head_check(
				 &h, gs_companion_file_bytes(h.n_slots, h.ring_bytes, h.doors)),
			 -EBADMSG);
	h = good_head();
	h.ring_bytes = 12288;
	assert_int_equal(
		gs_companion_head_check(&h, gs_companion_file_bytes(h.n_slots, 12288, h.doors)),
		-EBADMSG);
	h.clock = 7;
	assert_int_equal(gs_companion_head_check(&h, bytes), -EBADMSG);
}

/* The reader's own memory has what lies in the file: a record that is none ends the copy. */
static void records(void **state)
{
	_Alignas(8) uint8_t copy[400] = {0};
	struct gs_companion_record *r = (void *)copy;
	size_t at = 0;

	*r = (struct gs_companion_record){GS_COMPANION_CALL, 88, 100};
	*(struct gs_companion_record *)(copy + 88) = (struct gs_companion_record){95, 32, 111};
	*(struct gs_companion_record *)(copy + 120) =
		(struct gs_companion_record){GS_COMPANION_ASKED, 24, 115};
	assert_ptr_equal(gs_companion_next(copy, 144, 800, &at), r);
	/* One that is not known is passed over. */
	assert_ptr_equal(gs_companion_next(copy, 144, 800, &at), copy + 120);
	assert_int_equal(at, 144);
	assert_null(gs_companion_next(copy, 144, 800, &at));
	at = 0;
	assert_null(gs_companion_next(copy, 144, 808, &at)); /* of another position */
	assert_null(gs_companion_next(copy, 80, 800, &at));  /* cut short */
	assert_null(gs_companion_next(copy, 7, 800, &at));
	r->bytes = 80;
	assert_null(gs_companion_next(copy, 144, 800, &at)); /* shorter than its kind */
	r->bytes = 0;
	assert_null(gs_companion_next(copy, 144, 800, &at));
	r->bytes = 89;
	assert_null(gs_companion_next(copy, 144, 800, &at));
	assert_int_equal(at, 0);
}

static int file_with(const struct run *r, const char *name, mode_t mode)
{
	struct gs_companion_head h = good_head();
	struct stat st;
	char path[400];
	int fd;

	stat("/proc/self/ns/pid", &st);
	h.pid_namespace = st.st_ino;
	snprintf(path, sizeof(path), "%s/%s", gs_companion_files_folder(r->files), name);
	fd = open(path, O_RDWR | O_CREAT | O_EXCL, 0600);
	assert_true(fd >= 0);
	assert_int_equal(
		ftruncate(fd, (off_t)gs_companion_file_bytes(h.n_slots, h.ring_bytes, h.doors)), 0);
	assert_int_equal(pwrite(fd, &h, sizeof(h), 0), sizeof(h));
	fchmod(fd, mode);
	return fd;
}

static void put_in(int fd, const void *what, size_t bytes, size_t at)
{
	assert_int_equal(pwrite(fd, what, bytes, (off_t)at), bytes);
}

static unsigned n_refused(struct run *r)
{
	int reason;

	run_poll(r, true);
	return gs_companion_files_refused(r->files, &reason);
}

/* Names, links, rights: each is refused once. */
static void whose_file_it_is(void **state)
{
	char from[400], to[400];
	struct run r;
	int fd;

	run_new(&r, NULL);
	close(file_with(&r, "1-a", 0600));
	assert_int_equal(n_refused(&r), 0);
	assert_int_equal(gs_companion_files_since(r.files, 1, GS_COMPANION_CALLS), 5);
	gs_companion_files_forget(r.files, 1, 5);
	assert_int_equal(gs_companion_files_since(r.files, 1, GS_COMPANION_CALLS), 5);
	gs_companion_files_forget(r.files, 1, 6);
	assert_int_equal(gs_companion_files_since(r.files, 1, GS_COMPANION_CALLS), 0);
	close(file_with(&r, "1-b", 0644));
	assert_int_equal(n_refused(&r), 1);
	close(file_with(&r, "2-c", 0600)); /* its head says 1 */
	assert_int_equal(n_refused(&r), 2);
	assert_int_equal(gs_companion_files_since(r.files, 2, GS_COMPANION_CALLS), 0);
	snprintf(to, sizeof(to), "%s/1-d", gs_companion_files_folder(r.files));
	assert_int_equal(symlink("/etc/passwd", to), 0);
	assert_int_equal(n_refused(&r), 3);
	snprintf(to, sizeof(to), "%s/1-e", gs_companion_files_folder(r.files));
	assert_int_equal(mkfifo(to, 0600), 0);
	assert_int_equal(n_refused(&r), 4);
	close(file_with(&r, "plain", 0600)); /* not the name of one */
	snprintf(from, sizeof(from), "%s/plain", gs_companion_files_folder(r.files));
	snprintf(to, sizeof(to), "%s/1-f", gs_companion_files_folder(r.files));
	assert_int_equal(link(from, to), 0);
	assert_int_equal(n_refused(&r), 5);
	fd = file_with(&r, "1-10", 0600);
	assert_int_equal(ftruncate(fd, 8192), 0);
	close(fd);
	assert_int_equal(n_refused(&r), 6);
	assert_int_equal(n_refused(&r), 6);
	gs_companion_files_free(&r.files);
}

/* Positions and records that cannot be cost themselves, not what comes after them. */
static void damage(void **state)
{
	const size_t slot = GS_COMPANION_SLOTS_AT, ring = slot + RUN_SLOTS * 8192;
	struct gs_companion_call c = {.head = {GS_COMPANION_CALL, sizeof(c), 0}, .bytes = 5};
	const uint32_t tid = 1;
	uint64_t written = 88;
	struct run r;
	int fd;

	run_new(&r, NULL);
	fd = file_with(&r, "1-a", 0600);
	put_in(fd, &tid, 4, slot);
	put_in(fd, &c, sizeof(c), ring);
	put_in(fd, &written, 8, slot + 8);
	run_poll(&r, false);
	assert_int_equal(r.n, 1);
	/* Zeros are no record: the second of three. */
	written = 3 * 88;
	c.head.at = 2 * 11;
	put_in(fd, &c, sizeof(c), ring + 2 * 88);
	put_in(fd, &written, 8, slot + 8);
	run_poll(&r, false);
	assert_int_equal(r.n, 1);
	assert_int_equal(r.damaged, 2 * 88);
	/* The next one is read again. */
	written = 4 * 88;
	c.head.at = 3 * 11;
	put_in(fd, &c, sizeof(c), ring + 3 * 88);
	put_in(fd, &written, 8, slot + 8);
	run_poll(&r, false);
	assert_int_equal(r.n, 2);
	/* Positions beyond the ring, and back. */
	written = UINT64_MAX;
	put_in(fd, &written, 8, slot + 8);
	run_poll(&r, false);
	written = 0;
	put_in(fd, &written, 8, slot + 8);
	run_poll(&r, false);
	written = 88;
	put_in(fd, &written, 8, slot + 8);
	run_poll(&r, false);
	assert_int_equal(r.n, 3);
	/* Cut short while it is read. */
	assert_int_equal(ftruncate(fd, 100), 0);
	run_poll(&r, true);
	assert_int_equal(r.n, 3);
	close(fd);
	gs_companion_files_free(&r.files);
}

/* Nothing is left behind, whoever is killed. */
static void no_file_stays(void **state)
{
	char folder[300];
	struct stat st;
	struct run r;

	run_new(&r, NULL);
	snprintf(folder, sizeof(folder), "%s", gs_companion_files_folder(r.files));
	assert_int_equal(stat(folder, &st), 0);
	assert_int_equal(st.st_mode & 0777, 0700);
	run_join(&r);
	assert_true(run_write(1));
	run_poll(&r, false);
	assert_int_equal(rmdir(folder), 0); /* it is empty by now */
	assert_true(run_write(2));
	run_poll(&r, false);
	assert_int_equal(r.n, 2);
	gs_companion_files_free(&r.files);
}

static void remove_folder(const char *path)
{
	char command[256];

	snprintf(command, sizeof(command), "rm -rf %s", path);
	assert_int_equal(system(command), 0);
}

/* What is to be taken of this process's file, and of others'. */
static enum gs_companion_share share_of_self, share_of_others;

static enum gs_companion_share takes(void *ctx, uint32_t pid)
{
	return pid == (uint32_t)getpid() ? share_of_self : share_of_others;
}

static unsigned n_names(const char *folder)
{
	DIR *dir = opendir(folder);
	unsigned n = 0;

	assert_non_null(dir);
	while (readdir(dir))
		n++;
	closedir(dir);
	return n - 2; /* . and .. */
}

/* As a process of a job does: it finds the folder in its environment. */
static void join_shared(const char *folder)
{
	struct companion_setup s = {.clock = GS_COMPANION_MONOTONIC,
				    .n_slots = RUN_SLOTS,
				    .ring_bytes = RUN_RING_BYTES};

	snprintf(s.folder, sizeof(s.folder), "%s", folder);
	companion_self = (struct companion_self){0};
	assert_int_equal(companion_start(&s), 0);
}

static void share_new(struct run *r, const char *parent)
{
	const struct gs_companion_files_options o = {
		.size = sizeof(o), .parent = parent, .takes = takes};
	const struct gs_companion_handler h = {
		.record = run_record, .lost = run_lost, .damaged = run_damaged, .ctx = r};
	struct gs_err err;

	*r = (struct run){.in_order = true, .handler = h};
	assert_int_equal(gs_companion_files_new(&o, &r->files, &err), 0);
}

/* Files that processes of users have written in folders of their own: names stay, what is not wanted is left alone, and
 * what was there before it was wanted. */
static void shared_folders(void **state)
{
	char parent[] = "/tmp/companion-XXXXXX", folder[128];
	struct run r;

	assert_non_null(mkdtemp(parent));
	snprintf(folder, sizeof(folder), "%s/gpuscope-inside-%u", parent, geteuid());
	assert_int_equal(mkdir(folder, 0700), 0);
	share_of_self = GS_COMPANION_LEAVE;
	share_new(&r, parent);
	join_shared(folder);
	assert_true(run_write(1));
	run_poll(&r, true);
	assert_int_equal(r.n, 0);
	assert_int_equal(gs_companion_files_since(r.files, (uint32_t)getpid(), GS_COMPANION_CALLS),
			 0);
	share_of_self = GS_COMPANION_WHOLE;
	run_poll(&r, true);
	assert_int_equal(r.n, 1);
	assert_int_equal(n_names(folder), 1);
	assert_true(run_write(2));
	share_of_self = GS_COMPANION_LEAVE; /* it has what was written until now */
	run_poll(&r, true);
	assert_int_equal(r.n, 2);
	assert_true(run_write(3));
	run_poll(&r, true);
	assert_int_equal(r.n, 2);
	assert_int_equal(gs_companion_files_since(r.files, (uint32_t)getpid(), GS_COMPANION_CALLS),
			 0);
	share_of_self = GS_COMPANION_FROM_NOW;
	run_poll(&r, true);
	assert_int_equal(r.n, 2);
	assert_true(run_write(4));
	run_poll(&r, true);
	assert_int_equal(r.n, 3);
	assert_int_equal(r.sum, 1 + 2 + 4);
	assert_int_equal(r.damaged, 0);
	/* The next reader, after one that was killed. */
	gs_companion_files_free(&r.files);
	assert_int_equal(n_names(folder), 1);
	share_new(&r, parent);
	run_poll(&r, true);
	assert_true(run_write(5));
	run_poll(&r, true);
	assert_int_equal(r.sum, 5);
	gs_companion_files_free(&r.files);
	remove_folder(parent);
}

static void put_head(const char *folder, const char *name, const struct gs_companion_head *head)
{
	char path[256];
	int fd;

	snprintf(path, sizeof(path), "%s/%s", folder, name);
	fd = open(path, O_RDWR | O_CREAT | O_EXCL, 0600);
	assert_true(fd >= 0);
	assert_int_equal(ftruncate(fd, (off_t)gs_companion_file_bytes(
					       head->n_slots, head->ring_bytes, head->doors)),
			 0);
	assert_int_equal(pwrite(fd, head, sizeof(*head), 0), sizeof(*head));
	close(fd);
}

/* Whose a folder is, whose its files, of which process: what does not fit is refused or left alone. */
static void shared_by_others(void **state)
{
	char parent[] = "/tmp/companion-XXXXXX", folder[128], other[128];
	struct gs_companion_head head = good_head();
	struct stat st;
	struct run r;
	int reason = 0;
	pid_t child;

	assert_non_null(mkdtemp(parent));
	assert_int_equal(stat("/proc/self/ns/pid", &st), 0);
	head.pid_namespace = st.st_ino;
	snprintf(folder, sizeof(folder), "%s/gpuscope-inside-%u", parent, geteuid());
	assert_int_equal(mkdir(folder, 0700), 0);
	/* The number of another user, a second name for the same one, and one where everybody may write. */
	snprintf(other, sizeof(other), "%s/gpuscope-inside-%u", parent, geteuid() + 1);
	assert_int_equal(mkdir(other, 0700), 0);
	head.pid = (uint32_t)getpid();
	head.start_ns = UINT64_MAX / 4;
	put_head(other, "1-a", &head);
	snprintf(other, sizeof(other), "%s/gpuscope-inside-0%u", parent, geteuid());
	assert_int_equal(symlink(folder, other), 0);
	share_of_self = share_of_others = GS_COMPANION_WHOLE;
	share_new(&r, parent);
	run_poll(&r, true);
	assert_int_equal(gs_companion_files_refused(r.files, &reason), 0);
	/* A file that was made before its process began is that of an earlier one of this number. */
	head.pid = (uint32_t)getpid();
	head.start_ns = 1;
	snprintf(other, sizeof(other), "%x-1", (unsigned)getpid());
	put_head(folder, other, &head);
	run_poll(&r, true);
	assert_int_equal(gs_companion_files_refused(r.files, &reason), 1);
	assert_int_equal(reason, -EPERM);
	/* A ring that is larger than one reading takes. */
	head.start_ns = UINT64_MAX / 4;
	head.ring_bytes = 2u << 20;
	snprintf(other, sizeof(other), "%x-2", (unsigned)getpid());
	put_head(folder, other, &head);
	run_poll(&r, true);
	assert_int_equal(gs_companion_files_refused(r.files, &reason), 2);
	assert_int_equal(gs_companion_files_since(r.files, (uint32_t)getpid(), GS_COMPANION_CALLS),
			 0);
	gs_companion_files_free(&r.files);
	/* What an ended process has left is removed. */
	child = fork();
	if (child == 0)
		_exit(0);
	assert_int_equal(waitpid(child, NULL, 0), child);
	snprintf(other, sizeof(other), "%x-3", (unsigned)child);
	put_head(folder, other, &head);
	assert_int_equal(n_names(folder), 3);
	share_of_others = GS_COMPANION_LEAVE;
	share_new(&r, parent);
	run_poll(&r, true);
	assert_int_equal(n_names(folder), 2);
	gs_companion_files_free(&r.files);
	remove_folder(parent);
}

/* As the agent's user is let in: the library shares its files as the folder is. */
static void a_shared_file(void **state)
{
	char parent[] = "/tmp/companion-XXXXXX", folder[128], path[400];
	const mode_t modes[] = {02770, 0770, 02777, 0700};
	const mode_t files[] = {0660, 0, 0, 0600};
	struct dirent *e;
	struct stat st;

	assert_non_null(mkdtemp(parent));
	for (size_t i = 0; i < 4; i++) {
		DIR *dir;
		mode_t found = 0;

		snprintf(folder, sizeof(folder), "%s/%zu", parent, i);
		assert_int_equal(mkdir(folder, 0700), 0);
		assert_int_equal(chmod(folder, modes[i]), 0);
		umask(0);
		join_shared(folder);
		assert_int_equal(run_write(1), files[i] != 0);
		dir = opendir(folder);
		while ((e = readdir(dir)) != NULL) {
			snprintf(path, sizeof(path), "%s/%s", folder, e->d_name);
			if (stat(path, &st) == 0 && S_ISREG(st.st_mode))
				found = st.st_mode & 07777;
		}
		closedir(dir);
		assert_int_equal(found, files[i]);
	}
	umask(022);
	remove_folder(parent);
}

static void make_old_folder(const char *parent, const char *name)
{
	const struct timespec old[2] = {{.tv_sec = 1000}, {.tv_sec = 1000}};
	char path[400];

	snprintf(path, sizeof(path), "%s/%s", parent, name);
	assert_int_equal(mkdir(path, 0700), 0);
	snprintf(path, sizeof(path), "%s/%s/1-a", parent, name);
	close(open(path, O_RDWR | O_CREAT, 0600));
	snprintf(path, sizeof(path), "%s/%s", parent, name);
	assert_int_equal(utimensat(AT_FDCWD, path, old, 0), 0);
}

static bool is_there(const char *parent, const char *name)
{
	char path[400];

	snprintf(path, sizeof(path), "%s/%s", parent, name);
	return access(path, F_OK) == 0;
}

/* What a killed trace left goes with the next one; what is in use, new, or another's stays. */
static void left_by_a_killed_one(void **state)
{
	char parent[] = "/tmp/gs_companion_XXXXXX", path[400];
	const struct gs_companion_files_options o = {.size = sizeof(o), .parent = parent};
	struct gs_companion_files *first = NULL, *second = NULL;
	const struct timespec old[2] = {{.tv_sec = 1000}, {.tv_sec = 1000}};
	struct gs_err err;

	assert_non_null(mkdtemp(parent));
	assert_int_equal(gs_companion_files_new(&o, &first, &err), 0);
	assert_int_equal(utimensat(AT_FDCWD, gs_companion_files_folder(first), old, 0), 0);
	make_old_folder(parent, "gpuscope-killed");
	make_old_folder(parent, "gpuscope-inside-0");
	snprintf(path, sizeof(path), "%s/gpuscope-linked", parent);
	assert_int_equal(symlink("gpuscope-inside-0", path), 0);
	snprintf(path, sizeof(path), "%s/gpuscope-recent", parent);
	assert_int_equal(mkdir(path, 0700), 0);
	assert_int_equal(gs_companion_files_new(&o, &second, &err), 0);
	assert_false(is_there(parent, "gpuscope-killed"));
	assert_true(is_there(parent, "gpuscope-inside-0/1-a"));
	assert_true(is_there(parent, "gpuscope-recent"));
	assert_int_equal(access(gs_companion_files_folder(first), F_OK), 0);
	gs_companion_files_free(&first);
	gs_companion_files_free(&second);
	snprintf(path, sizeof(path), "rm -r %s", parent);
	assert_int_equal(system(path), 0);
}

static unsigned n_ops_open, n_ops_left;
static uint64_t ops_file;

static void take_ops(void *ctx, const struct gs_companion_thread *from,
		     const struct gs_companion_scope *scopes, unsigned n, bool is_end)
{
	assert_true(from->doors == 1u << GS_COMPANION_OPS);
	ops_file = from->file;
	for (unsigned i = 0; i < n; i++)
		assert_int_equal(scopes[i].name, 1 + 2 * i);
	*(is_end ? &n_ops_left : &n_ops_open) += n;
}

/* A file of operators' door: whether they are seen, which are open, and those that have found no room. */
static void operators(void **state)
{
	struct companion_setup s = {.clock = GS_COMPANION_MONOTONIC,
				    .doors = 1u << GS_COMPANION_OPS,
				    .n_slots = RUN_SLOTS,
				    .ring_bytes = RUN_RING_BYTES};
	enum gs_companion_state seen = GS_COMPANION_DIFFERS;
	uint32_t pid = (uint32_t)getpid();
	struct companion_self *self;
	struct run r;

	run_new(&r, NULL);
	r.handler.ops = take_ops;
	snprintf(s.folder, sizeof(s.folder), "%s", gs_companion_files_folder(r.files));
	companion_self = (struct companion_self){0};
	assert_int_equal(companion_start(&s), 0);
	assert_false(gs_companion_files_state(r.files, pid, &seen));
	assert_true(companion_announce());
	gs_companion_files_scan(r.files);
	assert_true(gs_companion_files_state(r.files, pid, &seen));
	assert_int_equal(seen, GS_COMPANION_WAITS);
	assert_int_equal(gs_companion_files_since(r.files, pid, GS_COMPANION_CALLS), 0);
	companion_set_state(GS_COMPANION_SEES);
	gs_companion_files_scan(r.files);
	assert_true(gs_companion_files_state(r.files, pid, &seen));
	assert_int_equal(seen, GS_COMPANION_SEES);
	self = companion_thread();
	assert_non_null(self);
	for (unsigned i = 0; i < 3; i++)
		self->slot->scope[i] =
			(struct gs_companion_scope){.start = i, .record = i != 1, .name = 1 + i};
	self->slot->n_open = 3;
	companion_sum_add(companion_sum_of(self, 7, GS_LAYER_TORCH), 100, 1);
	run_poll(&r, true);
	assert_int_equal(n_ops_open, 2); /* one of them is over */
	assert_int_equal(r.added_up, 1);
	assert_int_equal(r.inner, 0);
	assert_true(ops_file > 0);
	/* What cannot be is not taken. */
	self->slot->n_open = GS_COMPANION_OPS_OPEN + 1;
	run_poll(&r, true);
	assert_int_equal(n_ops_open, 2);
	self->slot->n_open = 1;
	gs_companion_files_stop(r.files, &r.handler);
	assert_int_equal(n_ops_left, 1);
	assert_int_equal(gs_companion_files_states(r.files),
			 1u << GS_COMPANION_WAITS | 1u << GS_COMPANION_SEES);
	/* Another program of the process, of which nothing is known yet. */
	gs_companion_files_forget(r.files, pid, UINT64_MAX);
	assert_false(gs_companion_files_state(r.files, pid, &seen));
	gs_companion_files_free(&r.files);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(operators),      cmocka_unit_test(heads),
		cmocka_unit_test(records),        cmocka_unit_test(whose_file_it_is),
		cmocka_unit_test(damage),         cmocka_unit_test(no_file_stays),
		cmocka_unit_test(shared_folders), cmocka_unit_test(shared_by_others),
		cmocka_unit_test(a_shared_file),  cmocka_unit_test(left_by_a_killed_one),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
