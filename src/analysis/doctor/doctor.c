/* The list of answers, and files that they are read from. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "analysis/doctor/doctor_int.h"
#include "core/base/mem.h"
#include "model/node/gpu.h"

const char *gs_doctor_state_name(enum gs_doctor_state state)
{
	static const char *const names[GS_DOCTOR_STATES] = {
		[GS_DOCTOR_NOT_NEEDED] = "not_needed", [GS_DOCTOR_WORKS] = "works",
		[GS_DOCTOR_NOT_ASKED] = "not_checked", [GS_DOCTOR_LIMITED] = "limited",
		[GS_DOCTOR_FAILS] = "fails",
	};

	return state < GS_DOCTOR_STATES ? names[state] : "";
}

const char *gs_doctor_group_name(enum gs_doctor_group group)
{
	static const char *const names[GS_DOCTOR_GROUPS] = {
		[GS_DOCTOR_RIGHTS] = "rights",
		[GS_DOCTOR_KERNEL] = "kernel",
		[GS_DOCTOR_GPU] = "gpu",
		[GS_DOCTOR_INSIDE] = "inside",
		[GS_DOCTOR_JOBS] = "jobs",
		[GS_DOCTOR_MACHINE] = "machine",
		[GS_DOCTOR_LIBRARIES] = "libraries",
		[GS_DOCTOR_PROGRAM] = "program",
	};

	return group < GS_DOCTOR_GROUPS ? names[group] : "";
}

int gs_doctor_new(const struct gs_doctor_options *options, struct gs_doctor **ret_doctor)
{
	struct gs_doctor *d = calloc(1, sizeof(*d));

	if (!d)
		return -ENOMEM;
	memcpy(&d->options, options,
	       options->size < sizeof(d->options) ? options->size : sizeof(d->options));
	if (!d->options.root)
		d->options.root = "";
	*ret_doctor = d;
	return 0;
}

void gs_doctor_free(struct gs_doctor **doctor)
{
	if (*doctor) {
		free((*doctor)->answers);
		gs_reader_free(&(*doctor)->reader);
		gs_gpu_snapshot_free(&(*doctor)->gpus);
	}
	free(*doctor);
	*doctor = NULL;
}

/* What others chose may be in it: names of files and programs. */
static void copy_text(char *out, size_t bytes, const char *text)
{
	snprintf(out, bytes, "%s", text ? text : "");
	for (; *out; out++)
		if ((unsigned char)*out < ' ' || *out == 0x7f)
			*out = '?';
}

void gs_doctor_put(struct gs_doctor *d, const struct gs_doctor_row *row)
{
	struct gs_doctor_answer *a;

	if (d->n == d->n_room) {
		size_t room = d->n_room ? 2 * d->n_room : 64;
		void *more = room <= GS_DOCTOR_ANSWERS_MAX ? realloc(d->answers, room * sizeof(*a))
							   : NULL;

		if (!more)
			return;
		d->answers = more;
		d->n_room = room;
	}
	a = &d->answers[d->n++];
	a->group = row->group;
	a->state = row->state;
	copy_text(a->name, sizeof(a->name), row->name);
	copy_text(a->found, sizeof(a->found), row->found);
	copy_text(a->without, sizeof(a->without), row->without);
	copy_text(a->mend, sizeof(a->mend), row->mend);
}

const struct gs_doctor_answer *gs_doctor_at(const struct gs_doctor *d, size_t i)
{
	return i < d->n ? &d->answers[i] : NULL;
}

void doctor_ask_features(struct gs_doctor *d)
{
	if (d->has_features)
		return;
	gs_kernel_features_ask(&d->features);
	gs_uprobe_try(&d->tried);
	d->has_features = true;
}

struct gs_reader *doctor_get_reader(struct gs_doctor *d, struct gs_err *err)
{
	static const struct gs_reader_options reads_files = {.name = "files"};

	if (!d->reader && gs_reader_new(&reads_files, &d->reader, err) < 0)
		return NULL;
	return d->reader;
}

const char *doctor_path(const struct gs_doctor *d, const char *path, char out[PATH_MAX])
{
	snprintf(out, PATH_MAX, "%s%s", d->options.root, path);
	return out;
}

int doctor_read(const struct gs_doctor *d, const char *path, char *out, size_t bytes)
{
	char full[PATH_MAX];
	GS_CLOSE int fd =
		open(doctor_path(d, path, full), O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
	ssize_t n = fd < 0 ? -errno : read(fd, out, bytes - 1);

	if (fd >= 0 && n < 0)
		n = -errno;
	out[n > 0 ? n : 0] = '\0';
	while (n > 0 && out[n - 1] == '\n')
		out[--n] = '\0';
	return (int)n;
}

long doctor_number(const struct gs_doctor *d, const char *path, long fallback)
{
	char text[32], *end;
	long n;

	if (doctor_read(d, path, text, sizeof(text)) <= 0)
		return fallback;
	n = strtol(text, &end, 10);
	return *end ? fallback : n;
}

void gs_doctor_ask_machine(struct gs_doctor *d)
{
	doctor_ask_rights(d);
	doctor_ask_kernel(d);
	doctor_ask_gpus(d);
	doctor_ask_ras(d, GS_DOCTOR_GPU, getenv("NCCL_RAS_ADDR"));
	doctor_ask_jobs(d);
	doctor_ask_clocks(d);
}
