/* Names and values, in one run of text. */
#include <errno.h>
#include <string.h>

#include "net/grpc/grpc_int.h"

int gs_grpc_table_add(struct gs_grpc_table *t, const void *name, size_t name_bytes,
		      const void *value, size_t value_bytes)
{
	size_t counted = name_bytes + value_bytes + 32; /* RFC 9113, 6.5.2 */
	uint8_t *text;

	if (counted > t->max_bytes || t->bytes > t->max_bytes - counted)
		return -ENOBUFS;
	if (t->n == t->room) {
		size_t room = t->room ? t->room * 2 : 8;
		uint32_t *more = realloc(t->offset, room * 2 * sizeof(*more));

		if (!more)
			return -ENOMEM;
		t->offset = more;
		t->room = room;
	}
	t->text.max_bytes = t->max_bytes;
	t->offset[t->n * 2] = (uint32_t)t->text.bytes;
	t->offset[t->n * 2 + 1] = (uint32_t)(t->text.bytes + name_bytes + 1);
	text = gs_buf_extend(&t->text, name_bytes + value_bytes + 2);
	if (!text)
		return -ENOMEM;
	memcpy(text, name, name_bytes);
	if (value_bytes)
		memcpy(text + name_bytes + 1, value, value_bytes);
	t->n++;
	t->bytes += counted;
	return 0;
}

int gs_grpc_table_add_own(struct gs_grpc_table *t, const char *name, const void *value,
			  size_t bytes)
{
	size_t n = strlen(name);
	GS_FREE char *encoded = NULL;

	if (!gs_grpc_name_valid(name))
		return -EINVAL;
	if (n <= 4 || strcmp(name + n - 4, "-bin") != 0)
		return gs_grpc_value_valid(value, bytes)
			       ? gs_grpc_table_add(t, name, n, value, bytes)
			       : -EINVAL;
	if (bytes > t->max_bytes)
		return -ENOBUFS;
	encoded = malloc(bytes / 3 * 4 + 8);
	if (!encoded)
		return -ENOMEM;
	return gs_grpc_table_add(t, name, n, encoded, gs_grpc_bin_encode(value, bytes, encoded));
}

bool gs_grpc_table_at(const struct gs_grpc_table *t, size_t i, struct gs_grpc_metadata *ret)
{
	if (i >= t->n)
		return false;
	ret->name = (const char *)t->text.data + t->offset[i * 2];
	ret->value = (const char *)t->text.data + t->offset[i * 2 + 1];
	return true;
}

const char *gs_grpc_table_get(const struct gs_grpc_table *t, const char *name)
{
	struct gs_grpc_metadata m;

	for (size_t i = 0; gs_grpc_table_at(t, i, &m); i++)
		if (strcmp(m.name, name) == 0)
			return m.value;
	return NULL;
}

void gs_grpc_table_fini(struct gs_grpc_table *t)
{
	gs_buf_fini(&t->text);
	free(t->offset);
	*t = (struct gs_grpc_table){.max_bytes = t->max_bytes};
}
