/*
 * What all fuzz targets share: a limit of work for each byte of input, and a main for targets that are
 * built without libFuzzer: -DGS_FUZZ_REPLAY runs each file named on the command line through the
 * target once. To be included before the target, whose LLVMFuzzerTestOneInput() is renamed here and
 * called by the real one.
 *
 * An input that costs far more processor time than its length allows is a parser that a small file
 * can hold up, though it ends within libFuzzer's limit (tools/fuzz.sh). Time of the process, not of
 * the clock on the wall, and the least of three runs: a busy machine is not taken for such a parser.
 */
#ifndef TESTS_FUZZ_REPLAY_MAIN_H
#define TESTS_FUZZ_REPLAY_MAIN_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

/* Ten times as much under libFuzzer, which runs with sanitizers and counts each branch. A target whose
 * inputs stand for larger files may define the first itself. */
#ifndef FUZZ_MS_AT_ALL
#define FUZZ_MS_AT_ALL 500.0
#endif
#define FUZZ_US_PER_BYTE 20.0
#define FUZZ_MEASURES    3

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);
int fuzz_run_target(const uint8_t *data, size_t bytes);

static double fuzz_run_measured(const uint8_t *data, size_t bytes)
{
	struct timespec from, to;

	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &from);
	(void)fuzz_run_target(data, bytes);
	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &to);
	return (double)(to.tv_sec - from.tv_sec) * 1e3 + (double)(to.tv_nsec - from.tv_nsec) / 1e6;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
	double most_ms = FUZZ_MS_AT_ALL + FUZZ_US_PER_BYTE * (double)bytes / 1e3, ms = 0;

#ifndef GS_FUZZ_REPLAY
	most_ms *= 10;
#endif
	for (int i = 0; i < FUZZ_MEASURES; i++) {
		ms = fuzz_run_measured(data, bytes);
		if (ms <= most_ms)
			return 0;
	}
	fprintf(stderr, "too much work: %.0f ms for %zu bytes, at most %.0f\n", ms, bytes, most_ms);
	abort();
}

#ifdef GS_FUZZ_REPLAY
static int replay_file(const char *path)
{
	FILE *f = fopen(path, "rb");
	uint8_t *data = NULL;
	long bytes = -1;

	if (f && fseek(f, 0, SEEK_END) == 0)
		bytes = ftell(f);
	if (bytes >= 0)
		data = malloc((size_t)bytes + 1);
	if (!data || fseek(f, 0, SEEK_SET) != 0 ||
	    fread(data, 1, (size_t)bytes, f) != (size_t)bytes) {
		fprintf(stderr, "cannot read %s\n", path);
		return 1;
	}
	fclose(f);
	LLVMFuzzerTestOneInput(data, (size_t)bytes);
	free(data);
	return 0;
}

int main(int argc, char **argv)
{
	for (int i = 1; i < argc; i++)
		if (replay_file(argv[i]))
			return 1;
	return 0;
}
#endif

#define LLVMFuzzerTestOneInput fuzz_run_target

#endif
