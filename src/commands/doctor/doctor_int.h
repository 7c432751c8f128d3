/* Shared by the files of this room. */
#ifndef GS_COMMANDS_DOCTOR_DOCTOR_INT_H
#define GS_COMMANDS_DOCTOR_DOCTOR_INT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

#include "analysis/doctor/doctor.h"

enum doctor_format { DOCTOR_TABLE = 0, DOCTOR_JSON, DOCTOR_YAML };

struct doctor_style {
	enum doctor_format format;
	bool is_verbose; /* show the details of every check */
	size_t width;    /* columns of a table; 0: no limit */
};

/* doctor_show.c: prints all answers. 0, or a negative errno: out cannot be written. */
int doctor_show(const struct gs_doctor *doctor, const struct doctor_style *style, FILE *out);

#endif
