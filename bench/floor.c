/*
 * floor: puts one of the programs of floor.bpf.c on a function's entry and return, says READY, and
 * waits for a signal.
 *
 *   floor PROGRAM FILE FUNCTION [BYTES [EXIT_BYTES]]
 *
 * PROGRAM is session or pair (empty), session-clock, pair-clock, session-ring, session-hist,
 * session-record or session-record-read; or sites, sites-clock or sites-hist: two probes, at the entry
 * and EXIT_BYTES in. BYTES is how far into the function the probe goes. Status 3: this kernel has
 * no such links.
 */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <bpf/libbpf.h>

#include "core/base/mem.h"
#include "sources/elf/elf.h"
#include "sources/kernel_features/link_create.h"

#include "floor.skel.h"

static int quiet(enum libbpf_print_level level, const char *fmt, va_list ap)
{
	return 0;
}

static int fail(const char *what, int error)
{
	fprintf(stderr, "floor: %s: %s\n", what, strerror(-error));
	return error == -EINVAL || error == -ENOTSUP || error == -EOPNOTSUPP ? 3 : 1;
}

static int find(const char *path, const char *name, unsigned long *ret_offset)
{
	struct gs_elf_symbol symbol = {0};
	struct gs_elf *elf = NULL;
	int r = gs_elf_open(path, &elf, NULL);

	if (r == 0)
		r = gs_elf_find(elf, &name, 1, true, &symbol, NULL);
	gs_elf_close(&elf);
	if (r == 0 && !symbol.found)
		r = -ENOENT;
	*ret_offset = symbol.file_off;
	return r;
}

static int ignore(void *ctx, void *data, size_t bytes)
{
	return 0;
}

/* Keeps the ring empty, as often as gpuscope looks into its own. */
static void wait_and_read(const sigset_t *set, int ring_fd)
{
	struct ring_buffer *ring = ring_buffer__new(ring_fd, ignore, NULL, NULL);
	struct timespec pause = {.tv_nsec = 20000000};

	while (sigtimedwait(set, NULL, &pause) < 0)
		ring_buffer__consume(ring);
	ring_buffer__free(ring);
}

int main(int argc, char **argv)
{
	struct floor_bpf *s = floor_bpf__open();
	bool session = argc > 1 && strncmp(argv[1], "session", 7) == 0;
	bool sites = argc > 1 && strncmp(argv[1], "sites", 5) == 0;
	unsigned type = session ? ATTACH_UPROBE_SESSION : ATTACH_UPROBE_MULTI;
	struct bpf_program *prog;
	unsigned long offset, offsets[2];
	char name[64];
	uint64_t cookies[2] = {1, 2};
	sigset_t set;
	int r;

	if (argc < (sites ? 6 : 4) || !s) {
		fprintf(stderr, "floor PROGRAM FILE FUNCTION [BYTES [EXIT_BYTES]]\n");
		return 2;
	}
	libbpf_set_print(quiet);
	snprintf(name, sizeof(name), "floor_%s", argv[1]);
	for (char *p = name; *p; p++)
		*p = *p == '-' ? '_' : *p;
	prog = bpf_object__find_program_by_name(s->obj, name);
	if (!prog)
		return fail(argv[1], -ENOENT);
	bpf_program__set_autoload(prog, true);
	bpf_program__set_expected_attach_type(prog, (enum bpf_attach_type)type);
	r = floor_bpf__load(s);
	if (r < 0)
		return fail("load", r);
	r = find(argv[2], argv[3], &offset);
	if (r < 0)
		return fail(argv[3], r);
	offsets[0] = offset + (argc > 4 ? strtoul(argv[4], NULL, 0) : 0);
	offsets[1] = offset + (sites ? strtoul(argv[5], NULL, 0) : 0);
	/* The links live as long as this process. */
	if (!session && !sites)
		r = gs_kernel_link_create_multi(bpf_program__fd(prog), type, UPROBE_MULTI_RETURN,
						argv[2], offsets, NULL, cookies, 1, 0);
	if (r >= 0)
		r = gs_kernel_link_create_multi(bpf_program__fd(prog), type, 0, argv[2], offsets,
						NULL, cookies, sites ? 2 : 1, 0);
	if (r < 0)
		return fail("attach", r);
	sigemptyset(&set);
	sigaddset(&set, SIGINT);
	sigaddset(&set, SIGTERM);
	sigprocmask(SIG_BLOCK, &set, NULL);
	printf("READY\n");
	fflush(stdout);
	wait_and_read(&set, bpf_map__fd(s->maps.floor_ring));
	floor_bpf__destroy(s);
	return 0;
}
