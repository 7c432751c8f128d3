/* Memory that is valid until the next call: blocks that are filled one after the other and freed together. */
#include "library/gpuscope/library_int.h"

#include <stdlib.h>
#include <string.h>

#define BLOCK_BYTES (64u << 10)

struct lent_block {
	struct lent_block *next; /* owned */
	size_t bytes, used;      /* of data */
	_Alignas(16) char data[];
};

static struct lent_block *add_block(struct lent_memory *m, size_t bytes)
{
	size_t room = bytes > BLOCK_BYTES ? bytes : BLOCK_BYTES;
	struct lent_block *b = malloc(sizeof(*b) + room);

	if (!b)
		return NULL;
	b->bytes = room;
	b->used = 0;
	b->next = m->first;
	m->first = b;
	return b;
}

void *lent_alloc(struct lent_memory *m, size_t bytes)
{
	size_t room = (bytes + 15) & ~(size_t)15;
	struct lent_block *b = m->first;
	void *p;

	if (room < bytes || ((!b || b->bytes - b->used < room) && !(b = add_block(m, room)))) {
		m->failed = true;
		return NULL;
	}
	p = b->data + b->used;
	b->used += room;
	return memset(p, 0, bytes);
}

void *lent_new_sized(struct lent_memory *m, size_t bytes)
{
	size_t *p = lent_alloc(m, bytes);

	if (p)
		*p = bytes;
	return p;
}

const char *lent_text(struct lent_memory *m, const char *text)
{
	size_t bytes = text ? strlen(text) + 1 : 0;
	char *copy = bytes > 1 ? lent_alloc(m, bytes) : NULL;

	return copy ? memcpy(copy, text, bytes) : "";
}

void lent_reset(struct lent_memory *m)
{
	struct lent_block *b = m->first;

	m->failed = false;
	if (!b)
		return;
	while (b->next) {
		struct lent_block *next = b->next->next;

		free(b->next);
		b->next = next;
	}
	b->used = 0;
	/* Do not keep a block that was made for something large. */
	if (b->bytes > BLOCK_BYTES)
		lent_fini(m);
}

void lent_fini(struct lent_memory *m)
{
	for (struct lent_block *b = m->first, *next; b; b = next) {
		next = b->next;
		free(b);
	}
	m->first = NULL;
}
