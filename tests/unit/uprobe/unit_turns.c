/*
 * What the files of one user may cost in a turn, while others wait for theirs. The files themselves
 * are made up: what uprobe_files_*() would do to them is counted here.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>

#include "core/base/foreign.h"
#include "sources/uprobe/uprobe_int.h"

#define HOSTILE      65534u
#define HONEST       1000u
#define N_COPIES     1500
#define FILE_COST    16u /* as src/sources/uprobe/turns.c has them */
#define LINKS_COST   256u
#define TURN_COST    1024u
#define FILES_A_TURN (TURN_COST / (FILE_COST + LINKS_COST) + 1)

static struct {
	unsigned n_hostile, n_honest, n_root;
	unsigned n_probes;          /* of each file */
	bool is_known_file;         /* opened, and nothing to be probed in it */
	unsigned n_honest_at_first; /* of the others, when the honest one's last file was served */
} made;

int uprobe_files_use(struct gs_uprobe *probe, pid_t pid, const struct gs_mapped_file *file,
		     bool *ret_new)
{
	*ret_new = !made.is_known_file;
	if (file->uid == HOSTILE) {
		made.n_hostile++;
	} else if (file->uid == HONEST) {
		made.n_honest++;
		made.n_honest_at_first = made.n_hostile;
	} else {
		made.n_root++;
	}
	return 0;
}

unsigned uprobe_files_n_probes(struct gs_uprobe *probe, pid_t pid,
			       const struct gs_mapped_file *file)
{
	return made.n_probes;
}

bool uprobe_files_known(struct gs_uprobe *probe, pid_t pid, const struct gs_mapped_file *file)
{
	return false;
}

bool uprobe_files_scan_traced(const char *path)
{
	return strstr(path, "libcuda") != NULL;
}

void uprobe_files_process_gone(struct gs_uprobe *probe, pid_t pid)
{
}

bool uprobe_target_is_named(const struct gs_uprobe *probe, pid_t pid)
{
	return false;
}

static void add(struct gs_uprobe *probe, uint32_t uid, unsigned n)
{
	struct gs_mapped_file file = {.uid = uid};
	char path[64];

	for (unsigned i = 0; i < n; i++) {
		snprintf(path, sizeof(path), "/u%u/%u/libcuda.so.1", uid, i);
		file.id.ino = i + 1;
		file.path = path;
		strcpy(file.open_path, path);
		uprobe_turns_add(probe, getpid(), &file, 0);
	}
}

static struct gs_uprobe *begin(unsigned n_probes)
{
	struct gs_uprobe *probe = calloc(1, sizeof(*probe));

	assert_non_null(probe);
	probe->turns = uprobe_turns_new();
	assert_non_null(probe->turns);
	memset(&made, 0, sizeof(made));
	made.n_probes = n_probes;
	return probe;
}

static void end(struct gs_uprobe *probe)
{
	uprobe_turns_free(&probe->turns);
	free(probe);
}

/* 1,500 copies came first; the honest user's few files wait for one turn of theirs. */
static void a_turn_has_a_cost(void **state)
{
	struct gs_uprobe *probe = begin(0);

	add(probe, HOSTILE, N_COPIES);
	add(probe, HONEST, 3);
	assert_true(uprobe_turns_serve(probe, 1));
	assert_int_equal(made.n_honest, 3);
	assert_int_equal(made.n_honest_at_first, FILES_A_TURN);
	assert_int_equal(made.n_hostile, FILES_A_TURN);
	assert_int_equal(uprobe_turns_n_waiting(probe->turns), N_COPIES - FILES_A_TURN);
	assert_true(uprobe_turns_serve(probe, 10));
	assert_int_equal(made.n_hostile, 11 * FILES_A_TURN);
	end(probe);
}

/* A file of more probes than a turn has is the only one of it. */
static void probes_count(void **state)
{
	struct gs_uprobe *probe = begin(TURN_COST);

	add(probe, HOSTILE, N_COPIES);
	assert_true(uprobe_turns_serve(probe, 1));
	assert_int_equal(made.n_hostile, 1);
	assert_true(uprobe_turns_serve(probe, 4));
	assert_int_equal(made.n_hostile, 5);
	end(probe);
}

/* One that is only looked at costs less, and not nothing. */
static void looks_count(void **state)
{
	struct gs_uprobe *probe = begin(0);

	made.is_known_file = true;
	add(probe, HOSTILE, N_COPIES);
	assert_true(uprobe_turns_serve(probe, 1));
	assert_int_equal(made.n_hostile, TURN_COST / FILE_COST);
	end(probe);
}

static void the_system_has_more(void **state)
{
	struct gs_uprobe *probe = begin(0);

	add(probe, 0, 200);
	assert_true(uprobe_turns_serve(probe, 1));
	assert_int_equal(made.n_root,
			 (8 * TURN_COST + FILE_COST + LINKS_COST - 1) / (FILE_COST + LINKS_COST));
	end(probe);
}

/* What waits of one user is bounded in bytes, what is refused is counted, others still come in. */
static void a_list_has_a_length(void **state)
{
	struct gs_uprobe *probe = begin(0);
	struct gs_guard_options options = {.size = sizeof(options)};
	struct gs_guard *guard, *before;
	size_t n_waiting;

	assert_int_equal(gs_guard_new(&options, &guard), 0);
	before = gs_guard_enter(guard);
	add(probe, HOSTILE, 20000);
	n_waiting = uprobe_turns_n_waiting(probe->turns);
	assert_in_range(n_waiting, N_COPIES, 19999);
	assert_int_equal(gs_guard_n_refused(), 20000 - n_waiting);
	add(probe, HONEST, 3);
	assert_int_equal(uprobe_turns_n_waiting(probe->turns), n_waiting + 3);
	gs_guard_enter(before);
	gs_guard_free(&guard);
	end(probe);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_turn_has_a_cost),   cmocka_unit_test(probes_count),
		cmocka_unit_test(looks_count),         cmocka_unit_test(the_system_has_more),
		cmocka_unit_test(a_list_has_a_length),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
