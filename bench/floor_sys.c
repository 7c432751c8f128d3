/*
 * floor_sys PROGRAM: attaches a program of floor_sys.bpf.c (exit, both, count, mark, time, all),
 * says "ready" and waits for the end of its input.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include <bpf/libbpf.h>

#include "floor_sys.skel.h"

#define N_PARTS 8

static int quiet(enum libbpf_print_level level, const char *fmt, va_list ap)
{
	return 0;
}

int main(int argc, char **argv)
{
	struct floor_sys_bpf *s = floor_sys_bpf__open();
	static const char *const parts[N_PARTS] = {"",     "_enter", "_switch", "_wakeup",
						   "_new", "_end",   "_free",   "_migrate"};
	struct bpf_program *program[N_PARTS];
	char name[64];
	int r;

	if (argc != 2 || !s) {
		fprintf(stderr, "floor_sys exit|both|count|mark|time|all\n");
		return 2;
	}
	libbpf_set_print(quiet);
	for (int i = 0; i < N_PARTS; i++) {
		snprintf(name, sizeof(name), "floor_%s%s", argv[1], parts[i]);
		program[i] = bpf_object__find_program_by_name(s->obj, name);
		if (program[i])
			bpf_program__set_autoload(program[i], true);
	}
	r = program[0] ? floor_sys_bpf__load(s) : -ENOENT;
	for (int i = 0; r == 0 && i < N_PARTS; i++)
		if (program[i] && !bpf_program__attach(program[i]))
			r = -errno;
	if (r < 0) {
		fprintf(stderr, "floor_sys: %s: %s\n", argv[1], strerror(-r));
		return 1;
	}
	printf("ready\n");
	fflush(stdout);
	/* The links live as long as this process. */
	while (getchar() != EOF)
		;
	return 0;
}
