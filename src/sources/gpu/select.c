#include "sources/gpu/select.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "core/base/pci.h"

#define PIECE_MAX     127
#define BEGINNING_MIN 5 /* "GPU-" alone begins all of them */

/* What a piece says. */
struct piece {
	char text[PIECE_MAX + 1];
	bool is_index, is_part;
	unsigned index, part;
	bool is_bus_id, has_domain;
	char bus_id[GS_PCI_BUS_ID_BYTES];
};

/* Decimal digits alone, as far as the end character; after it, or NULL. */
static const char *read_decimal(const char *text, const char *ends, unsigned *ret)
{
	size_t n = strspn(text, "0123456789");

	if (!n || n > 9 || !strchr(ends, text[n]))
		return NULL;
	*ret = (unsigned)strtoul(text, NULL, 10);
	return text + n + (text[n] != '\0');
}

static void understand_piece(struct piece *p)
{
	const char *colon = strchr(p->text, ':'), *rest;
	char whole[PIECE_MAX + 8];

	p->is_index = read_decimal(p->text, "", &p->index) != NULL;
	rest = p->is_index ? NULL : read_decimal(p->text, ":.", &p->index);
	p->is_part = rest && read_decimal(rest, "", &p->part);
	p->has_domain = colon && strchr(colon + 1, ':');
	snprintf(whole, sizeof(whole), "%s%s", p->has_domain ? "" : "0:", p->text);
	p->is_bus_id = colon && gs_pci_bus_id(whole, p->bus_id);
}

/* Without a domain in the text any domain will do. */
static bool is_at(const struct piece *p, const struct gs_gpu_info *g)
{
	char id[GS_PCI_BUS_ID_BYTES];

	return p->is_bus_id && gs_pci_bus_id(g->pci_bus_id, id) &&
	       strcmp(id + (p->has_domain ? 0 : 8), p->bus_id + (p->has_domain ? 0 : 8)) == 0;
}

static bool begins_name(const struct piece *p, const struct gs_gpu_info *g)
{
	size_t n = strlen(p->text);

	return n >= BEGINNING_MIN && strncasecmp(g->uuid, p->text, n) == 0;
}

static bool names_gpu(const struct piece *p, const struct gs_gpu_info *g)
{
	if (p->is_index)
		return g->index == p->index;
	if (p->is_part && g->is_mig && g->index == p->index && g->gpu_instance == (int)p->part)
		return true;
	return is_at(p, g) || begins_name(p, g);
}

/* Two GPUs (not a GPU and its parts) that a text fits are one too many. */
static bool is_same(const struct gs_gpu_info *a, const struct gs_gpu_info *b, const struct piece *p)
{
	return p->is_index || p->is_part ||
	       (is_at(p, a) && strcmp(a->pci_bus_id, b->pci_bus_id) == 0);
}

static int keep_piece(const struct piece *p, const struct gs_gpu_snapshot *s, bool *keep,
		      struct gs_err *err)
{
	int first = -1;

	for (unsigned i = 0; i < s->n_gpus; i++) {
		if (!names_gpu(p, &s->info[i]))
			continue;
		if (strcasecmp(s->info[i].uuid, p->text) == 0) {
			keep[i] = true;
			return 0;
		}
		if (first >= 0 && !is_same(&s->info[first], &s->info[i], p))
			return gs_err_set(err, -EINVAL,
					  "\"%s\" matches GPU %u and GPU %u: give more of it",
					  p->text, s->info[first].index, s->info[i].index);
		if (first < 0)
			first = (int)i;
	}
	if (first < 0)
		return gs_err_set(
			err, -ENODEV,
			"no GPU \"%s\" here: give an index, a UUID or a PCI bus id, as `nvidia-smi -L` and `gpuscope gpu` show them",
			p->text);
	for (unsigned i = 0; i < s->n_gpus; i++)
		keep[i] |= names_gpu(p, &s->info[i]);
	return 0;
}

int gs_gpu_select(struct gs_gpu_snapshot *s, const char *list, struct gs_err *err)
{
	bool *keep = calloc(s->n_gpus + 1, sizeof(*keep));
	unsigned n = 0;
	int r = 0;

	if (!keep)
		return gs_err_set(err, -ENOMEM, "no memory");
	while (*list) {
		size_t bytes = strcspn(list, ","), from = strspn(list, " "), to = bytes;
		struct piece p = {.text = ""};
		int e;

		while (to > from && list[to - 1] == ' ')
			to--;
		if (to > from) {
			snprintf(p.text, sizeof(p.text), "%.*s", (int)(to - from), list + from);
			understand_piece(&p);
			e = keep_piece(&p, s, keep, r == 0 ? err : NULL);
			r = r == 0 ? e : r;
			n++;
		}
		list += bytes + (list[bytes] == ',');
	}
	if (r == 0 && !n)
		r = gs_err_set(err, -EINVAL, "no GPU is named");
	gs_gpu_snapshot_keep(s, keep);
	free(keep);
	return r;
}

int gs_gpu_list_add(char list[GS_GPU_LIST_BYTES], const char *more, struct gs_err *err)
{
	size_t used = strlen(list);

	if (more[strspn(more, ", ")] == '\0')
		return gs_err_set(err, -EINVAL, "give an index, a UUID or a PCI bus id");
	if (used + strlen(more) + 2 > GS_GPU_LIST_BYTES)
		return gs_err_set(err, -EINVAL, "give %d characters at most",
				  GS_GPU_LIST_BYTES - 2);
	snprintf(list + used, GS_GPU_LIST_BYTES - used, "%s%s", used ? "," : "", more);
	return 0;
}
