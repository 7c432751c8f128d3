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

int gs_elf_seen_add(struct gs_elf_seen *seen, struct gs_file_id id)
{
	uint64_t hash = gs_hash_bytes(&id, sizeof(id)), i;
	int r;

	for (; gs_map_get(&seen->by_hash, hash, &i); hash++) {
		if (seen->ids[i].dev == id.dev && seen->ids[i].ino == id.ino)
			return 0;
	}
	if (!gs_vec_reserve(&seen->ids, &seen->capacity, seen->n_ids + 1))
		return -ENOMEM;
	r = gs_map_put(&seen->by_hash, hash, seen->n_ids);
	if (r < 0)
		return r;
	seen->ids[seen->n_ids++] = id;
	return 1;
}
