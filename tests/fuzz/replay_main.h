/*
 * A main for fuzz targets that are built without libFuzzer: -DGS_FUZZ_REPLAY runs each file named
 * on the command line through the target once.
 */
#ifndef TESTS_FUZZ_REPLAY_MAIN_H
#define TESTS_FUZZ_REPLAY_MAIN_H

#include <stddef.h>
#include <stdint.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

#ifdef GS_FUZZ_REPLAY
#include <stdio.h>
#include <stdlib.h>

int main(int argc, char **argv)
{
	for (int i = 1; i < argc; i++) {
		FILE *f = fopen(argv[i], "rb");
		uint8_t *data = NULL;
		long bytes = -1;

		if (f && fseek(f, 0, SEEK_END) == 0)
			bytes = ftell(f);
		if (bytes >= 0)
			data = malloc((size_t)bytes + 1);
		if (!data || fseek(f, 0, SEEK_SET) != 0 ||
		    fread(data, 1, (size_t)bytes, f) != (size_t)bytes) {
			fprintf(stderr, "cannot read %s\n", argv[i]);
			return 1;
		}
		fclose(f);
		LLVMFuzzerTestOneInput(data, (size_t)bytes);
		free(data);
	}
	return 0;
}
#endif

#endif
