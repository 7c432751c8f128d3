/*
 * Which libcupti: the one that the process has, else the one that lies with its CUDA; never one of another major
 * version, and never a second one. What NVIDIA's release notes say of versions is here, too.
 */
#include "companion/gpu/gpu_int.h"
#include "model/gpu_work/cupti.h"

#include <dlfcn.h>
#include <limits.h>
#include <link.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define N_MINORS 9 /* of CUDA 11, whose libraries have them in their names */

struct mapped {
	char cupti[PATH_MAX];
	char runtime[PATH_MAX];
	unsigned runtime_major; /* 0 not known */
};

/* --- versions --- */

/* cuptiGetVersion() is a count up to CUDA 12.9, then 13.0.1 is 130001. */
static unsigned major_of(uint32_t version)
{
	if (version >= 100000)
		return version / 10000;
	return version >= GPU_CUDA_12_0 ? 12 : version >= GPU_CUDA_11_0 ? 11 : 10;
}

/* --- where it is --- */

/* 13 of ".../libcudart.so.13.0.96"; 0: it says none. */
static unsigned number_after(const char *name, const char *stem)
{
	size_t n = strlen(stem);

	return strncmp(name, stem, n) == 0 ? (unsigned)strtoul(name + n, NULL, 10) : 0;
}

static int check_module(struct dl_phdr_info *info, size_t bytes, void *ctx)
{
	static const char *const stems[] = {"libcudart.so.", "libcublas.so.", "libcublasLt.so."};
	struct mapped *m = ctx;
	const char *slash = strrchr(info->dlpi_name, '/'), *name = slash ? slash + 1 : "";

	if (strncmp(name, "libcupti.so", 11) == 0 && !m->cupti[0])
		snprintf(m->cupti, sizeof(m->cupti), "%s", info->dlpi_name);
	for (size_t i = 0; i < sizeof(stems) / sizeof(stems[0]); i++)
		if (number_after(name, stems[i]) && !m->runtime_major) {
			m->runtime_major = number_after(name, stems[i]);
			snprintf(m->runtime, sizeof(m->runtime), "%.*s",
				 (int)(slash - info->dlpi_name), info->dlpi_name);
		}
	return 0;
}

/* The driver's, where no library says which CUDA the program was made for. */
static unsigned major_of_driver(void)
{
	void *driver = dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD);
	int (*get)(int *) = driver ? (int (*)(int *))dlsym(driver, "cuDriverGetVersion") : NULL;
	int version = 0;

	return get && get(&version) == 0 ? (unsigned)version / 1000 : 0;
}

static void *open_in(const char *folder, const char *below, unsigned major)
{
	char path[PATH_MAX + 64];
	void *found = NULL;

	snprintf(path, sizeof(path), "%s%slibcupti.so.%u", folder, below, major);
	found = dlopen(path, RTLD_NOW | RTLD_LOCAL);
	for (unsigned i = N_MINORS; !found && major == 11 && i-- > 0;) {
		snprintf(path, sizeof(path), "%s%slibcupti.so.11.%u", folder, below, i);
		found = dlopen(path, RTLD_NOW | RTLD_LOCAL);
	}
	return found;
}

/* As toolkits and wheels have it, then as the loader knows it. */
static void *open_near(const struct mapped *m, unsigned major)
{
	static const char *const below[] = {"/", "/../../cuda_cupti/lib/",
					    "/../extras/CUPTI/lib64/"};
	char folder[64];
	void *found = NULL;

	for (size_t i = 0; m->runtime[0] && !found && i < sizeof(below) / sizeof(below[0]); i++)
		found = open_in(m->runtime, below[i], major);
	snprintf(folder, sizeof(folder), "/usr/local/cuda-%u", major);
	if (!found)
		found = open_in("", "", major);
	if (!found)
		found = open_in(folder, "/extras/CUPTI/lib64/", major);
	return found ? found : open_in("/usr/local/cuda", "/extras/CUPTI/lib64/", major);
}

/* --- its functions --- */

static bool bind_functions(struct gpu_cupti *c)
{
	const struct {
		const char *name;
		void *at;
		bool needed;
	} rows[] = {
		{"cuptiGetVersion", &c->get_version, true},
		{"cuptiGetTimestamp", &c->get_timestamp, true},
		{"cuptiActivityRegisterCallbacks", &c->register_callbacks, true},
		{"cuptiActivityEnable", &c->enable, true},
		{"cuptiActivityDisable", &c->disable, true},
		{"cuptiActivityFlushAll", &c->flush_all, true},
		{"cuptiActivityGetNextRecord", &c->next_record, true},
		{"cuptiActivityGetNumDroppedRecords", &c->n_dropped, true},
		{"cuptiGetThreadIdType", &c->get_thread_ids, false},
		{"cuptiSetThreadIdType", &c->set_thread_ids, false},
		{"cuptiGetCallbackName", &c->callback_name, false},
		{"cuptiActivityEnableDriverApi", &c->enable_driver_call, false},
		{"cuptiActivityEnableRuntimeApi", &c->enable_runtime_call, false},
	};
	bool whole = true;

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		void *f = dlsym(c->library, rows[i].name);

		memcpy(rows[i].at, &f, sizeof(f));
		whole = whole && (f || !rows[i].needed);
	}
	return whole;
}

bool gpu_cupti_find(struct gpu_cupti *c, char *text, size_t text_bytes)
{
	static struct mapped m; /* large */
	unsigned major;

	m = (struct mapped){0};
	dl_iterate_phdr(check_module, &m);
	major = m.runtime_major ? m.runtime_major : major_of_driver();
	*c = (struct gpu_cupti){0};
	if (m.cupti[0])
		c->library = dlopen(m.cupti, RTLD_NOW | RTLD_NOLOAD);
	else if (major)
		c->library = open_near(&m, major);
	if (!c->library) {
		snprintf(text, text_bytes, "no libcupti of CUDA %u was found", major);
		return false;
	}
	if (!bind_functions(c) || c->get_version(&c->version) != GPU_CUPTI_OK) {
		snprintf(text, text_bytes, "its libcupti lacks functions");
	} else if (m.runtime_major && major_of(c->version) != m.runtime_major) {
		snprintf(text, text_bytes, "its libcupti is of CUDA %u, the program of CUDA %u",
			 major_of(c->version), m.runtime_major);
	} else if (gs_cupti_refusal(c->version)) {
		snprintf(text, text_bytes, "its CUPTI (version %u) %s", c->version,
			 gs_cupti_refusal(c->version));
	} else {
		return true;
	}
	c->library = NULL;
	return false;
}

void *gpu_cupti_function(const char *name)
{
	static struct mapped m;
	void *found = gpu_cupti.library ? dlsym(gpu_cupti.library, name) : NULL, *library;

	/* Ours is the program's copy, or the program's the one after us in its order. */
	if (!found)
		found = dlsym(RTLD_NEXT, name);
	if (found)
		return found;
	dl_iterate_phdr(check_module, &m);
	library = m.cupti[0] ? dlopen(m.cupti, RTLD_NOW | RTLD_NOLOAD) : NULL;
	return library ? dlsym(library, name) : NULL;
}
