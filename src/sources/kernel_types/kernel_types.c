/* The kernel's types by name, and the file of few of them. */
#include "sources/kernel_types/kernel_types.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include "core/base/mem.h"
#include "sources/kernel_types/kernel_types_int.h"

#define N_BUCKETS    (1u << 14) /* for some 30,000 names */
#define KERNEL_TYPES "/sys/kernel/btf/vmlinux"

struct gs_kernel_types {
	struct btf *btf;
	uint32_t bucket[N_BUCKETS]; /* the first type of a bucket, 0 none */
	uint32_t *next;             /* by type: the next of its bucket */
	int file;                   /* the last one made, -1 none */
	char path[32];              /* of it */
};

/* libbpf's rule: three underscores with another letter before and after them begin the view's name. */
struct kernel_name kernel_types_name(const char *text)
{
	size_t n = strlen(text);

	for (size_t i = n; i >= 5; i--) {
		const char *s = text + i - 5;

		if (s[0] != '_' && s[1] == '_' && s[2] == '_' && s[3] == '_' && s[4] != '_')
			return (struct kernel_name){.text = text, .n = i - 4};
	}
	return (struct kernel_name){.text = text, .n = n};
}

bool kernel_types_is_named(const struct btf_type *type)
{
	return type->name_off &&
	       (btf_is_composite(type) || btf_is_any_enum(type) || btf_is_typedef(type));
}

static uint32_t bucket_of(struct kernel_name name)
{
	uint32_t h = 2166136261u; /* FNV-1a */

	for (size_t i = 0; i < name.n; i++)
		h = (h ^ (uint8_t)name.text[i]) * 16777619u;
	return (h ^ h >> 16) % N_BUCKETS;
}

static struct kernel_name name_of(const struct btf *btf, const struct btf_type *type)
{
	return kernel_types_name(btf__name_by_offset(btf, type->name_off));
}

static void sort_by_name(struct gs_kernel_types *types)
{
	uint32_t n = btf__type_cnt(types->btf);

	for (uint32_t id = 1; id < n; id++) {
		const struct btf_type *type = btf__type_by_id(types->btf, id);
		uint32_t *bucket;

		if (!kernel_types_is_named(type))
			continue;
		bucket = &types->bucket[bucket_of(name_of(types->btf, type))];
		types->next[id] = *bucket;
		*bucket = id;
	}
}

/* From Linux 6.16 on, the kernel's types can be mapped into this process, and libbpf makes one copy
 * of them. Reading the file takes a system call for each page, 1,400 for 5.5 MiB, and copies the
 * types twice more. */
static struct btf *map_types(void)
{
	GS_CLOSE int fd = open(KERNEL_TYPES, O_RDONLY | O_CLOEXEC);
	struct btf *btf = NULL;
	struct stat s;
	void *bytes;

	if (fd < 0 || fstat(fd, &s) < 0 || s.st_size <= 0)
		return NULL;
	bytes = mmap(NULL, (size_t)s.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
	if (bytes == MAP_FAILED)
		return NULL;
	btf = btf__new(bytes, (uint32_t)s.st_size);
	munmap(bytes, (size_t)s.st_size);
	return btf;
}

int gs_kernel_types_new(struct gs_kernel_types **ret_types)
{
	struct gs_kernel_types *types = calloc(1, sizeof(*types));

	*ret_types = NULL;
	if (!types)
		return -ENOMEM;
	types->file = -1;
	types->btf = map_types();
	if (!types->btf)
		types->btf = btf__load_vmlinux_btf();
	if (!types->btf) {
		gs_kernel_types_free(&types);
		return -ENOTSUP;
	}
	types->next = calloc(btf__type_cnt(types->btf), sizeof(*types->next));
	if (!types->next) {
		gs_kernel_types_free(&types);
		return -ENOMEM;
	}
	sort_by_name(types);
	*ret_types = types;
	return 0;
}

void gs_kernel_types_free(struct gs_kernel_types **types)
{
	if (!*types)
		return;
	gs_close_p(&(*types)->file);
	btf__free((*types)->btf);
	free((*types)->next);
	free(*types);
	*types = NULL;
}

const struct btf *gs_kernel_types_all(const struct gs_kernel_types *types)
{
	return types->btf;
}

const struct btf_type *gs_kernel_types_find(const struct gs_kernel_types *types, const char *name,
					    unsigned kind)
{
	for (uint32_t id = types->bucket[bucket_of(kernel_types_name(name))]; id;
	     id = types->next[id]) {
		const struct btf_type *type = btf__type_by_id(types->btf, id);

		if (btf_kind(type) == kind &&
		    strcmp(btf__name_by_offset(types->btf, type->name_off), name) == 0)
			return type;
	}
	return NULL;
}

const struct btf_type *gs_kernel_types_point(const struct gs_kernel_types *types, const char *point)
{
	const struct btf_type *t;
	char name[128];

	snprintf(name, sizeof(name), "btf_trace_%s", point);
	t = gs_kernel_types_find(types, name, BTF_KIND_TYPEDEF);
	t = t ? btf__type_by_id(types->btf, t->type) : NULL;
	t = t && btf_is_ptr(t) ? btf__type_by_id(types->btf, t->type) : NULL;
	return t && btf_is_func_proto(t) ? t : NULL;
}

struct names {
	const struct gs_kernel_types *types;
	struct kernel_few *few;
};

/* All types of that name, as libbpf would try all. */
static bool add_name(void *ctx, struct kernel_name name)
{
	const struct names *names = ctx;
	const struct gs_kernel_types *types = names->types;
	bool found = false;

	for (uint32_t id = types->bucket[bucket_of(name)]; id; id = types->next[id]) {
		struct kernel_name its = name_of(types->btf, btf__type_by_id(types->btf, id));

		if (its.n != name.n || memcmp(its.text, name.text, name.n) != 0)
			continue;
		if (!kernel_few_add(names->few, id))
			return false;
		found = true;
	}
	return found;
}

static bool write_file(struct gs_kernel_types *types, const struct btf *btf)
{
	uint32_t n_bytes;
	const void *bytes = btf__raw_data(btf, &n_bytes);

	gs_close_p(&types->file);
	if (!bytes)
		return false;
	types->file = memfd_create("gpuscope-kernel-types", MFD_CLOEXEC);
	if (types->file < 0 || write(types->file, bytes, n_bytes) != (ssize_t)n_bytes)
		return false;
	snprintf(types->path, sizeof(types->path), "/proc/self/fd/%d", types->file);
	return access(types->path, R_OK) == 0;
}

const char *gs_kernel_types_few(struct gs_kernel_types *types, const void *elf, size_t n_bytes)
{
	struct names names = {.types = types};
	struct btf *btf = NULL;
	bool ok;

	if (!types)
		return NULL;
	names.few = kernel_few_new(types->btf);
	if (names.few && kernel_types_walk_names(elf, n_bytes, add_name, &names))
		btf = kernel_few_build(names.few);
	kernel_few_free(&names.few);
	ok = btf && write_file(types, btf);
	btf__free(btf);
	return ok ? types->path : NULL;
}
