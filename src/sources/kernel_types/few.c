/*
 * A set of types with few of another set's. A structure needs the types of its members, since these have sizes
 * and members of their own. What a pointer points to is left out (it points to void then): programs are fitted
 * step by step, and each step names the type that it begins at.
 */
#include <errno.h>
#include <stdlib.h>

#include "core/base/mem.h"
#include "sources/kernel_types/kernel_types_int.h"

struct kernel_few {
	const struct btf *from;
	uint32_t *new_id; /* by old number; 0: not added */
	uint32_t *ids;    /* old numbers in the order of the new ones, which begin at 1 */
	uint32_t n, n_room;
};

/* References of a type to others, one after the other. Of a pointer none. */
static uint32_t *next_reference(const struct btf_type *type, uint32_t i)
{
	struct btf_type *t = (struct btf_type *)type;

	switch (btf_kind(t)) {
	case BTF_KIND_STRUCT:
	case BTF_KIND_UNION:
		return i < btf_vlen(t) ? &btf_members(t)[i].type : NULL;
	case BTF_KIND_ARRAY:
		return i == 0 ? &btf_array(t)->type : i == 1 ? &btf_array(t)->index_type : NULL;
	case BTF_KIND_TYPEDEF:
	case BTF_KIND_VOLATILE:
	case BTF_KIND_CONST:
	case BTF_KIND_RESTRICT:
	case BTF_KIND_TYPE_TAG:
		return i == 0 ? &t->type : NULL;
	default:
		return NULL;
	}
}

static bool is_known_kind(const struct btf_type *t)
{
	return btf_is_int(t) || btf_is_float(t) || btf_is_any_enum(t) || btf_is_composite(t) ||
	       btf_is_array(t) || btf_is_mod(t) || btf_is_typedef(t) || btf_is_ptr(t) ||
	       btf_is_fwd(t);
}

struct kernel_few *kernel_few_new(const struct btf *from)
{
	struct kernel_few *few = calloc(1, sizeof(*few));

	if (!few)
		return NULL;
	few->from = from;
	few->new_id = calloc(btf__type_cnt(from), sizeof(*few->new_id));
	if (!few->new_id)
		kernel_few_free(&few);
	return few;
}

void kernel_few_free(struct kernel_few **few)
{
	if (!*few)
		return;
	free((*few)->new_id);
	free((*few)->ids);
	free(*few);
	*few = NULL;
}

static bool few_append(struct kernel_few *few, uint32_t id)
{
	const struct btf_type *t = btf__type_by_id(few->from, id);

	if (id == 0 || (t && few->new_id[id]))
		return true; /* void, or there already */
	if (!t || !is_known_kind(t))
		return false;
	if (few->n == few->n_room) {
		uint32_t room = few->n_room ? 2 * few->n_room : 256;
		uint32_t *ids = reallocarray(few->ids, room, sizeof(*ids));

		if (!ids)
			return false;
		few->ids = ids;
		few->n_room = room;
	}
	few->ids[few->n++] = id;
	few->new_id[id] = few->n;
	return true;
}

bool kernel_few_add(struct kernel_few *few, uint32_t id)
{
	uint32_t at = few->n;
	bool ok = few_append(few, id);

	for (; ok && at < few->n; at++) {
		const struct btf_type *t = btf__type_by_id(few->from, few->ids[at]);
		const uint32_t *reference;

		for (uint32_t i = 0; ok && (reference = next_reference(t, i)); i++)
			ok = few_append(few, *reference);
	}
	return ok;
}

/* The copy of a type with the numbers of the new set. */
static bool copy_type(const struct kernel_few *few, struct btf *to, uint32_t id)
{
	const struct btf_type *t;
	uint32_t *reference;

	if (btf__add_type(to, few->from, btf__type_by_id(few->from, id)) != (int)few->new_id[id])
		return false;
	t = btf__type_by_id(to, few->new_id[id]);
	if (btf_is_ptr(t))
		((struct btf_type *)t)->type = 0;
	for (uint32_t i = 0; (reference = next_reference(t, i)); i++)
		*reference = few->new_id[*reference];
	return true;
}

struct btf *kernel_few_build(struct kernel_few *few)
{
	struct btf *to = btf__new_empty();

	for (uint32_t i = 0; to && i < few->n; i++) {
		if (copy_type(few, to, few->ids[i]))
			continue;
		btf__free(to);
		to = NULL;
	}
	return to;
}
