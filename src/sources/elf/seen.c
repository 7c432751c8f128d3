/*
 * A set of files by identity: the ids in an array, and a map from the hash of an id to its place
 * there. Two ids of one hash are distinguished by trying the next hash.
 */
#include "sources/elf/library_int.h"
#include "core/base/vec.h"

#include <errno.h>
#include <stdlib.h>

void gs_elf_seen_fini(struct gs_elf_seen *seen)
{
	free(seen->ids);
	gs_map_fini(&seen->by_hash);
	*seen = GS_ELF_SEEN_INIT;
}

struct gs_file_id gs_elf_file_id_of(const struct stat *st)
{
	return (struct gs_file_id){.dev = st->st_dev, .ino = st->st_ino};
}

/* True: *hash is that of the id; false: *hash is free for it. */
static bool find_id(const struct gs_elf_seen *seen, struct gs_file_id id, uint64_t *ret_hash)
{
	uint64_t i;

	for (*ret_hash = gs_hash_bytes(&id, sizeof(id)); gs_map_get(&seen->by_hash, *ret_hash, &i);
	     ++*ret_hash)
		if (seen->ids[i].dev == id.dev && seen->ids[i].ino == id.ino)
			return true;
	return false;
}

bool gs_elf_seen_has(const struct gs_elf_seen *seen, struct gs_file_id id)
{
	uint64_t hash;

	return find_id(seen, id, &hash);
}

int gs_elf_seen_add(struct gs_elf_seen *seen, struct gs_file_id id)
{
	uint64_t hash;
	int r;

	if (find_id(seen, id, &hash))
		return 0;
	if (!gs_vec_reserve(&seen->ids, &seen->capacity, seen->n_ids + 1))
		return -ENOMEM;
	r = gs_map_put(&seen->by_hash, hash, seen->n_ids);
	if (r < 0)
		return r;
	seen->ids[seen->n_ids++] = id;
	return 1;
}
