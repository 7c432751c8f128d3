/*
 * /etc/ld.so.cache, which says where the loader finds a library by its name. glibc's form 1.1, also
 * where it follows the older one in the same file:
 *
 *	[ "ld.so-1.7.0" | n | n entries of 12 bytes | padding to 8 ]     older systems only
 *	"glibc-ld.so.cache" "1.1" | n | bytes of texts | flags ... (48 bytes in all)
 *	n entries of 24 bytes: flags, name, path, OS version, hardware capabilities
 *	texts, each ending in a NUL; name and path are offsets from the magic
 *
 * The entries are sorted, so those of one name are adjacent. Running ldconfig would be slow, and
 * it may be missing.
 */
#include "sources/elf/library_int.h"

#include <errno.h>
#include <string.h>

#include "core/base/foreign.h"
#include "core/base/mem.h"

#define MAX_BYTES    (16u << 20)
#define OLD_MAGIC    "ld.so-1.7.0"
#define OLD_HEAD     16u
#define OLD_ENTRY    12u
#define MAGIC        "glibc-ld.so.cache1.1"
#define HEAD         48u
#define ENTRY        24u
#define FLAGS_X86_64 0x0303 /* for libc 6, 64 bits */

static uint32_t u32_at(const struct gs_ldcache *cache, size_t off)
{
	uint32_t value;

	memcpy(&value, cache->data + off, sizeof(value));
	return value;
}

static int read_all(struct gs_ldcache *cache, const char *path)
{
	const struct gs_foreign_want want = {.max_bytes = MAX_BYTES};
	GS_FOREIGN_CLOSE struct gs_foreign file = GS_FOREIGN_INIT;
	int r = gs_foreign_open(path, &want, &file);
	ssize_t n;

	if (r < 0)
		return r == -EFBIG ? -EINVAL : r;
	cache->data = calloc(1, file.bytes + 1);
	if (!cache->data)
		return -ENOMEM;
	n = gs_foreign_read(&file, 0, cache->data, file.bytes);
	if (n < 0)
		return (int)n;
	cache->bytes = (size_t)n;
	return 0;
}

static int read_head(struct gs_ldcache *cache)
{
	if (cache->bytes >= OLD_HEAD && memcmp(cache->data, OLD_MAGIC, strlen(OLD_MAGIC)) == 0) {
		uint64_t old = OLD_HEAD + (uint64_t)OLD_ENTRY * u32_at(cache, 12);

		if (old > cache->bytes)
			return -EINVAL;
		cache->base = (old + 7) & ~7ull;
	}
	if (cache->base > cache->bytes || cache->bytes - cache->base < HEAD ||
	    memcmp(cache->data + cache->base, MAGIC, strlen(MAGIC)) != 0)
		return -EINVAL;
	cache->entries = cache->base + HEAD;
	cache->n_entries = u32_at(cache, cache->base + strlen(MAGIC));
	if (cache->n_entries > GS_LDCACHE_MAX ||
	    cache->n_entries > (cache->bytes - cache->entries) / ENTRY)
		return -EINVAL;
	return 0;
}

static int index_names(struct gs_ldcache *cache)
{
	const char *name, *path;

	for (size_t i = cache->n_entries; i-- > 0;) { /* so that the first of a name stays */
		int r;

		if (!gs_ldcache_get(cache, i, &name, &path))
			continue;
		r = gs_map_put(&cache->by_name, gs_hash_bytes(name, strlen(name)), i);
		if (r < 0)
			return r;
	}
	return 0;
}

int gs_ldcache_load(struct gs_ldcache *cache, const char *path)
{
	int r = read_all(cache, path);

	if (r == 0)
		r = read_head(cache);
	if (r == 0)
		r = index_names(cache);
	if (r < 0)
		gs_ldcache_fini(cache);
	return r;
}

void gs_ldcache_fini(struct gs_ldcache *cache)
{
	free(cache->data);
	gs_map_fini(&cache->by_name);
	*cache = GS_LDCACHE_INIT;
}

bool gs_ldcache_get(const struct gs_ldcache *cache, size_t i, const char **ret_name,
		    const char **ret_path)
{
	size_t at = cache->entries + i * ENTRY;
	uint64_t name = cache->base, path = cache->base;

	if (u32_at(cache, at) != FLAGS_X86_64)
		return false;
	name += u32_at(cache, at + 4);
	path += u32_at(cache, at + 8);
	if (name >= cache->bytes || path >= cache->bytes || cache->data[path] != '/')
		return false;
	*ret_name = cache->data + name;
	*ret_path = cache->data + path;
	return true;
}

long gs_ldcache_find(const struct gs_ldcache *cache, const char *name)
{
	const char *found, *path;
	uint64_t i;

	if (!gs_map_get(&cache->by_name, gs_hash_bytes(name, strlen(name)), &i))
		return -1;
	if (!gs_ldcache_get(cache, i, &found, &path) || strcmp(found, name) != 0)
		return -1;
	return (long)i;
}
