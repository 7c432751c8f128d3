#include "model/trace/user_set.h"

#include <errno.h>
#include <string.h>

#include "core/base/mem.h"

struct row_names {
	unsigned n;
	struct gs_user_name names[];
};

struct gs_user_set {
	struct gs_user_spec *specs[GS_USER_SPEC_MAX]; /* owned, with their texts */
	size_t n_specs, n_twice;
	struct row_names *rows[GS_USER_ROW_MAX]; /* owned */
	unsigned n_rows;                         /* published with release; row 0 counts */
};

struct gs_user_set *gs_user_set_new(void)
{
	struct gs_user_set *s = calloc(1, sizeof(*s));

	if (s)
		s->n_rows = 1;
	return s;
}

static void spec_free(struct gs_user_spec *spec)
{
	free((char *)spec->name);
	free((char *)spec->library);
	free((char *)spec->function);
	free((char *)spec->provider);
	free((char *)spec->probe);
	free(spec);
}

void gs_user_set_free(struct gs_user_set **ref)
{
	struct gs_user_set *s = *ref;

	if (!s)
		return;
	for (size_t i = 0; i < s->n_specs; i++)
		spec_free(s->specs[i]);
	for (unsigned i = 1; i < s->n_rows; i++)
		free(s->rows[i]);
	free(s);
	*ref = NULL;
}

/* False: no memory. */
static bool copy_text(const char **text)
{
	if (*text)
		*text = strdup(*text);
	else
		return true;
	return *text != NULL;
}

static bool same_text(const char *a, const char *b)
{
	return a == b || (a && b && strcmp(a, b) == 0);
}

static bool is_same(const struct gs_user_spec *a, const struct gs_user_spec *b)
{
	return same_text(a->name, b->name) && same_text(a->library, b->library) &&
	       same_text(a->function, b->function) && same_text(a->provider, b->provider) &&
	       same_text(a->probe, b->probe) && a->return_given == b->return_given &&
	       a->layer == b->layer && a->func_class == b->func_class &&
	       memcmp(&a->row, &b->row, sizeof(a->row)) == 0 &&
	       memcmp(a->starts, b->starts, sizeof(a->starts)) == 0 &&
	       memcmp(a->names, b->names, sizeof(a->names)) == 0;
}

int gs_user_set_add(struct gs_user_set *s, const struct gs_user_spec *spec)
{
	struct gs_user_spec *copy;
	bool good;

	for (size_t i = 0; i < s->n_specs; i++)
		if (is_same(s->specs[i], spec)) {
			s->n_twice++;
			return -EEXIST;
		}
	if (s->n_specs == GS_USER_SPEC_MAX)
		return -ENOBUFS;
	copy = malloc(sizeof(*copy));
	if (!copy)
		return -ENOMEM;
	*copy = *spec;
	good = copy_text(&copy->name);
	good &= copy_text(&copy->library);
	good &= copy_text(&copy->function);
	good &= copy_text(&copy->provider);
	good &= copy_text(&copy->probe);
	if (!good) {
		spec_free(copy);
		return -ENOMEM;
	}
	s->specs[s->n_specs++] = copy;
	return 0;
}

size_t gs_user_set_n_twice(const struct gs_user_set *s)
{
	return s->n_twice;
}

size_t gs_user_set_n(const struct gs_user_set *s)
{
	return s ? s->n_specs : 0;
}

const struct gs_user_spec *gs_user_set_spec(const struct gs_user_set *s, size_t idx)
{
	return s->specs[idx];
}

int gs_user_set_row(struct gs_user_set *s, const struct gs_user_name *names, size_t n_names)
{
	unsigned row = s->n_rows;

	if (row == GS_USER_ROW_MAX)
		return -ENOBUFS;
	s->rows[row] = malloc(sizeof(*s->rows[row]) + n_names * sizeof(*names));
	if (!s->rows[row])
		return -ENOMEM;
	s->rows[row]->n = (unsigned)n_names;
	if (n_names)
		memcpy(s->rows[row]->names, names, n_names * sizeof(*names));
	__atomic_store_n(&s->n_rows, row + 1, __ATOMIC_RELEASE);
	return (int)row;
}

const struct gs_user_name *gs_user_set_names(const struct gs_user_set *s, unsigned row,
					     unsigned *ret_n)
{
	if (!s || !row || row >= __atomic_load_n(&s->n_rows, __ATOMIC_ACQUIRE))
		return NULL;
	*ret_n = s->rows[row]->n;
	return s->rows[row]->names;
}
