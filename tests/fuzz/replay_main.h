/* A main for a fuzz target built without libFuzzer: runs each file named on the command line. */
#include <stdio.h>
#include <stdlib.h>

int main(int argc, char **argv)
{
	for (int i = 1; i < argc; i++) {
		FILE *f = fopen(argv[i], "rb");
		uint8_t *data = NULL;
		size_t bytes = 0, room = 0, n;

		if (!f) {
			perror(argv[i]);
			return 1;
		}
		do {
			if (bytes == room) {
				room = room ? room * 2 : 65536;
				data = realloc(data, room);
				if (!data)
					abort();
			}
			n = fread(data + bytes, 1, room - bytes, f);
			bytes += n;
		} while (n);
		fclose(f);
		LLVMFuzzerTestOneInput(data, bytes);
		free(data);
	}
	return 0;
}
