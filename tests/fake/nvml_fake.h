/* Among the files of the stand-in for NVIDIA's monitoring library (nvml.c tells what it is). */
#ifndef NVML_FAKE_H
#define NVML_FAKE_H

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "sources/gpu/nvml_calls.h"

#define GPU_MAX  16
#define PART_MAX 7

struct nvml_device_handle {
	unsigned magic, i, part; /* part 0: the whole GPU, else its number from 1 */
	unsigned session;
};

struct nvml_gpm_sample {
	unsigned i;
	unsigned long long t;
};

struct nvml_event_set {
	unsigned n;
	struct nvml_device_handle *gpu[GPU_MAX];
};

extern pthread_mutex_t lock;
extern struct nvml_device_handle handles[GPU_MAX][PART_MAX + 1];
extern unsigned long long ticks[GPU_MAX][PART_MAX + 1];
extern unsigned started, sessions;
extern unsigned lost_session[GPU_MAX]; /* the session in which it was lost: until a restart */

void config(char *out, size_t bytes);
/* The text behind "word=" (or behind "word"); NULL: it is not there. */
const char *word(const char *c, const char *name);
long value(const char *c, const char *name, long otherwise);
int is_board(const char *c, const char *board);
void pay(const char *c, const char *call, unsigned id);
/* What happens at the start of every call. */
nvml_return begin(const char *call, char c[1024], int needed);
unsigned n_gpus(const char *c);
/* Bytes of GPU i that are used at tick t. */
unsigned long long used_memory(const char *c, unsigned i, unsigned long long t);
unsigned n_parts(const char *c);
nvml_return check(const char *c, nvml_dev d);
unsigned long long now_us(void); /* wall clock */

#define EXPORT __attribute__((visibility("default")))

/* A function of NVML: its configuration in c, the check of its device done. */
#define CALL(name, args, ...)                                                                      \
	EXPORT nvml_return nvml##name args;                                                        \
	EXPORT nvml_return nvml##name args                                                         \
	{                                                                                          \
		char c[1024];                                                                      \
		nvml_return r = begin(#name, c, 0);                                                \
                                                                                                   \
		if (r == NVML_OK)                                                                  \
			r = check(c, d);                                                           \
		if (r != NVML_OK)                                                                  \
			return r;                                                                  \
		__VA_ARGS__                                                                        \
		return NVML_OK;                                                                    \
	}

/* One that a part of a GPU does not have. */
#define WHOLE(name, args, ...) CALL(name, args, if (d->part) return NVML_NOT_SUPPORTED; __VA_ARGS__)

/* One without which nothing works. */
#define NEEDED(name, args, ...)                                                                    \
	EXPORT nvml_return nvml##name args;                                                        \
	EXPORT nvml_return nvml##name args                                                         \
	{                                                                                          \
		char c[1024];                                                                      \
		nvml_return r = begin(#name, c, 1);                                                \
                                                                                                   \
		if (r != NVML_OK)                                                                  \
			return r;                                                                  \
		__VA_ARGS__                                                                        \
		return NVML_OK;                                                                    \
	}

#define I d->i
#define T ticks[d->i][d->part]
#define TEXT(...)                                                                                  \
	do {                                                                                       \
		if ((unsigned)snprintf(out, n, __VA_ARGS__) >= n)                                  \
			return NVML_INSUFFICIENT_SIZE;                                             \
	} while (0)

/* With the word "blank" an answer has all its bits set, as drivers say that they do not know. */
#define MAY_BE_BLANK(answer)                                                                       \
	do {                                                                                       \
		if (word(c, "blank"))                                                              \
			memset((answer), 0xff, sizeof(*(answer)));                                 \
	} while (0)

#endif
