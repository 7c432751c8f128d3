/* Ids of jobs as people write them. */
#include "analysis/job_accounting/job_id.h"

#include <ctype.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define DIGITS_MAX 18

char *gs_accounting_job_id_end(char *text)
{
	int depth = 0;

	for (; *text && (*text != ',' || depth > 0); text++)
		depth += (*text == '[') - (*text == ']');
	return text;
}

/* The number at *at, which moves after it. */
static bool take_number(const char **at, int64_t *ret)
{
	const char *p = *at;

	*ret = 0;
	while (isdigit((unsigned char)*p) && p - *at < DIGITS_MAX)
		*ret = *ret * 10 + (*p++ - '0');
	if (p == *at || isdigit((unsigned char)*p))
		return false;
	*at = p;
	return true;
}

/* "1-3,7,10-20:5%2]": whether n is among them; *ret_is: whether it is such a list at all. What
 * stands after % limits how many of them run at once (sbatch(1)). */
static bool in_list(const char *at, int64_t n, bool *ret_is)
{
	bool found = false;
	int64_t a, b, step;

	*ret_is = false;
	for (;;) {
		if (!take_number(&at, &a))
			return false;
		b = a;
		step = 1;
		if (*at == '-' && (at++, !take_number(&at, &b) || b < a))
			return false;
		if (*at == ':' && (at++, !take_number(&at, &step) || !step))
			return false;
		found |= n >= a && n <= b && (n - a) % step == 0;
		if (*at != ',')
			break;
		at++;
	}
	if (*at == '%' && (at++, !take_number(&at, &step)))
		return false;
	*ret_is = at[0] == ']' && !at[1];
	return found;
}

/* What it is: a number, and perhaps one after '_' or '+', or a list. */
struct id {
	int64_t number, part; /* part -1: none, or a list */
	char sign;            /* '_', '+' or 0 */
	const char *list;     /* after its bracket; NULL */
};

static bool parse_id(const char *text, struct id *ret)
{
	bool is = true;

	*ret = (struct id){.part = -1};
	if (!take_number(&text, &ret->number))
		return false;
	if (!*text)
		return true;
	ret->sign = *text;
	if (*text != '_' && *text != '+')
		return false;
	text++;
	if (*text == '[') {
		ret->list = text + 1;
		in_list(ret->list, 0, &is);
		return is;
	}
	return take_number(&text, &ret->part) && !*text;
}

bool gs_accounting_job_id_is(const char *text)
{
	struct id id;

	if (isdigit((unsigned char)*text))
		return parse_id(text, &id);
	/* A SLUID of Slurm 26.05. */
	for (const char *p = text; *p; p++)
		if (!isalnum((unsigned char)*p))
			return false;
	return *text;
}

bool gs_accounting_job_id_names(const char *text, const struct gs_job *job)
{
	struct id id;
	bool is;

	if (strcmp(text, job->id) == 0 || (job->sluid[0] && strcmp(text, job->sluid) == 0))
		return true;
	if (!parse_id(text, &id) || id.number <= 0)
		return false;
	if (!id.sign) /* a whole array or het job, too */
		return id.number == job->job_id || id.number == job->array_job_id ||
		       id.number == job->het_job_id;
	if (id.sign == '_')
		return id.number == job->array_job_id &&
		       (id.list ? in_list(id.list, job->array_task_id, &is)
				: id.part == job->array_task_id);
	return id.number == job->het_job_id &&
	       (id.list ? in_list(id.list, job->het_offset, &is) : id.part == job->het_offset);
}
