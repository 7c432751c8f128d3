/*
 * Which GPUs CUDA shows a process, in the order in which it numbers them: its environment says it, and the
 * list of the driver. As in the CUDA C++ Programming Guide, "CUDA Environment
 * Variables": CUDA_VISIBLE_DEVICES is read up to the first word that names no GPU; without it there are
 * all, in the order of the bus (CUDA_DEVICE_ORDER=PCI_BUS_ID) or "fastest first", which is the same
 * where all are of one model and not known here where they are not. In a container the variable of
 * NVIDIA's runtime says which of them there are.
 */
#include "sources/cuda_visible/visible.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

struct visible {
	const struct gs_cuda_visible_gpus *gpus;
	uint8_t gpu[GS_CUDA_VISIBLE_MAX]; /* indices in gpus, in CUDA's order */
	uint32_t n;
};

_Static_assert(GS_CUDA_VISIBLE_MAX <= 256, "an index is a byte");

/* The value of the first variable of that name, as getenv() has it; NULL (of no bytes): there is none. */
static const char *find_variable(const char *environ, size_t bytes, const char *name,
				 size_t *ret_bytes)
{
	const char *end = environ + bytes;
	size_t n = strlen(name);

	*ret_bytes = 0;
	for (const char *p = environ; p < end;) {
		const char *e = memchr(p, '\0', (size_t)(end - p));

		if (!e)
			e = end;
		if ((size_t)(e - p) > n && p[n] == '=' && memcmp(p, name, n) == 0) {
			*ret_bytes = (size_t)(e - p) - n - 1;
			return p + n + 1;
		}
		p = e + 1;
	}
	return NULL;
}

static bool is_word(const char *at, size_t bytes, const char *word)
{
	return bytes == strlen(word) && memcmp(at, word, bytes) == 0;
}

/* The next word of a list with commas, without blanks around it; false: there is none. */
static bool take_word(const char **at, const char *end, const char **ret_word, size_t *ret_bytes)
{
	const char *e;

	if (!*at || *at > end)
		return false;
	e = memchr(*at, ',', (size_t)(end - *at));
	if (!e)
		e = end;
	*ret_word = *at;
	*ret_bytes = (size_t)(e - *at);
	while (*ret_bytes && **ret_word == ' ') {
		(*ret_word)++;
		(*ret_bytes)--;
	}
	while (*ret_bytes && (*ret_word)[*ret_bytes - 1] == ' ')
		(*ret_bytes)--;
	*at = e + 1;
	return true;
}

static bool parse_number(const char *word, size_t bytes, uint32_t *ret)
{
	*ret = 0;
	if (!bytes || bytes > 6)
		return false;
	for (size_t i = 0; i < bytes; i++) {
		if (!isdigit((unsigned char)word[i]))
			return false;
		*ret = *ret * 10 + (uint32_t)(word[i] - '0');
	}
	return true;
}

/* Of a MIG instance: what a UUID is made of and nothing else. */
static void put_instance(char *out, size_t out_bytes, const char *list, size_t bytes)
{
	size_t n = 0;

	while (n < bytes && n + 1 < out_bytes &&
	       (isalnum((unsigned char)list[n]) || list[n] == '-' || list[n] == '/'))
		n++;
	if (n < bytes && list[n] != ',')
		n = 0;
	memcpy(out, list, n);
	out[n] = '\0';
}

/* Which of those in from a word names, by number or by the begin of a UUID that no other has; -1: none.
 * *ret_by_number: so it depends on their order. */
static int find_gpu(const struct visible *from, const char *word, size_t bytes, bool *ret_by_number)
{
	uint32_t number;
	int found = -1;

	*ret_by_number = parse_number(word, bytes, &number);
	if (*ret_by_number)
		return number < from->n ? from->gpu[number] : -1;
	if (bytes < 5 || memcmp(word, "GPU-", 4) != 0)
		return -1;
	for (uint32_t i = 0; i < from->n; i++) {
		if (strncmp(from->gpus->uuid[from->gpu[i]], word, bytes) != 0)
			continue;
		if (found >= 0)
			return -1;
		found = from->gpu[i];
	}
	return found;
}

static bool has_gpu(const struct visible *v, int gpu)
{
	for (uint32_t i = 0; i < v->n; i++)
		if (v->gpu[i] == gpu)
			return true;
	return false;
}

/* Those of from that a list names, up to the first word that names none. *ret_by_number: one word was
 * a number. */
static void choose_gpus(const struct visible *from, const char *list, size_t bytes,
			struct visible *to, bool *ret_by_number)
{
	const char *at = list, *word;
	size_t n;

	*ret_by_number = false;
	to->gpus = from->gpus;
	to->n = 0;
	while (take_word(&at, list + bytes, &word, &n)) {
		bool by_number;
		int gpu = find_gpu(from, word, n, &by_number);

		if (gpu < 0 || has_gpu(to, gpu))
			break;
		*ret_by_number |= by_number;
		to->gpu[to->n++] = (uint8_t)gpu;
	}
}

/* What the container has: all of the machine, or those that its runtime was asked for. */
static void limit_to_container(struct visible *v, const char *environ, size_t bytes)
{
	size_t n;
	const char *list = find_variable(environ, bytes, "NVIDIA_VISIBLE_DEVICES", &n);
	struct visible chosen;
	bool by_number;

	if (!list || is_word(list, n, "all"))
		return;
	choose_gpus(v, list, n, &chosen, &by_number); /* "none", "void": none */
	*v = chosen;
}

/* How many instances these GPUs have. */
static unsigned count_instances(const struct visible *v)
{
	unsigned n = 0;

	for (uint32_t i = 0; i < v->n; i++)
		n += v->gpus->n_instances[v->gpu[i]];
	return n;
}

/* CUDA shows a process one instance and no whole GPU beside it (NVIDIA MIG User Guide, "CUDA Device
 * Enumeration"): which of several is its affair. */
static void put_only_instance(const struct visible *chosen, char *out, size_t out_bytes)
{
	for (uint32_t i = 0; i < chosen->n && count_instances(chosen) == 1; i++) {
		unsigned gpu = chosen->gpu[i];
		int r;

		if (!chosen->gpus->n_instances[gpu] || !chosen->gpus->instance[gpu])
			continue;
		r = snprintf(out, out_bytes, "MIG-%s/%s", chosen->gpus->uuid[gpu],
			     chosen->gpus->instance[gpu]);
		if (r < 0 || (size_t)r >= out_bytes)
			out[0] = '\0';
	}
}

void gs_cuda_visible_parse(const char *environ, size_t bytes, bool in_container,
			   const struct gs_cuda_visible_gpus *gpus, char *out, size_t out_bytes)
{
	struct visible all = {.gpus = gpus, .n = gpus->n}, chosen;
	size_t n, order_bytes, at = 0;
	const char *list = find_variable(environ, bytes, "CUDA_VISIBLE_DEVICES", &n);
	const char *order = find_variable(environ, bytes, "CUDA_DEVICE_ORDER", &order_bytes);
	bool by_number = true;

	out[0] = '\0';
	if (all.n > GS_CUDA_VISIBLE_MAX)
		all.n = GS_CUDA_VISIBLE_MAX;
	for (uint32_t i = 0; i < all.n; i++)
		all.gpu[i] = (uint8_t)i;
	if (in_container)
		limit_to_container(&all, environ, bytes);
	chosen = all;
	if (list)
		choose_gpus(&all, list, n, &chosen, &by_number);
	/* A MIG instance is the only device of its process; the driver's files do not list it. */
	if (list && !chosen.n && n > 4 && memcmp(list, "MIG-", 4) == 0) {
		put_instance(out, out_bytes, list, n);
		return;
	}
	if (by_number && all.n > 1 && !gpus->one_model && !count_instances(&all) &&
	    !(order && is_word(order, order_bytes, "PCI_BUS_ID")))
		return;
	if (count_instances(by_number && list ? &all : &chosen)) {
		/* How numbers count where some GPUs are divided is not documented. */
		if (!by_number || !list || all.n == 1)
			put_only_instance(&chosen, out, out_bytes);
		return;
	}
	for (uint32_t i = 0; i < chosen.n; i++) {
		const char *uuid = gpus->uuid[chosen.gpu[i]];
		int r = snprintf(out + at, out_bytes - at, "%s%s", i ? "," : "", uuid);

		if (r < 0 || (size_t)r >= out_bytes - at) {
			out[at] = '\0';
			return;
		}
		at += (size_t)r;
	}
}

/* Which of a list with commas it is, -1: not in it. */
static int position_in(const char *list, const char *uuid)
{
	const char *at = list, *word;
	size_t n;

	for (int i = 0; take_word(&at, list + strlen(list), &word, &n); i++)
		if (is_word(word, n, uuid))
			return i;
	return -1;
}

void gs_cuda_visible_settle(const struct gs_cuda_visible_gpus *gpus,
			    const struct gs_cuda_visible_facts *facts, char *out, size_t out_bytes,
			    int *ret_only)
{
	const char *list = facts->now && facts->begun ? facts->now : facts->first;
	const char *opened = NULL;
	bool any_listed = false;
	unsigned n_open = 0;

	if (facts->now && !facts->begun && strcmp(facts->now, facts->first) != 0)
		list = "";
	snprintf(out, out_bytes, "%s", list);
	*ret_only = *list && !strchr(list, ',') ? 0 : -1;
	/* At the first call they are yet to be opened; of an instance its GPU is. */
	if (facts->begun || strncmp(list, "MIG-", 4) == 0)
		return;
	for (uint32_t i = 0; i < gpus->n && i < GS_CUDA_VISIBLE_MAX; i++)
		if (facts->open >> i & 1) {
			opened = gpus->uuid[i];
			any_listed |= position_in(list, opened) >= 0;
			n_open++;
		}
	if (n_open == 1 && !any_listed)
		snprintf(out, out_bytes, "%s", opened);
	if (n_open == 1)
		*ret_only = any_listed ? position_in(list, opened) : 0;
	else if (n_open && *list && !any_listed) {
		out[0] = '\0'; /* it has others than those */
		*ret_only = -1;
	}
}
