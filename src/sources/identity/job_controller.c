/*
 * What slurmctld says of a job: JSON where Slurm was built with it, else the text of scontrol.
 *
 * JSON changed its shape (data_parser of each version): a number is plain, null, or {set, infinite,
 * number}; the nodes of an allocation are job_resources.allocated_nodes[].{nodename,
 * memory_allocated} up to 23.11 and job_resources.nodes.allocation[].{name, cpus, memory} since
 * 24.05; empty objects are null since 24.11. All are understood without asking for the version.
 *
 * The text is KEY=VALUE KEY=VALUE without any quoting, and the name comes early in it: the name
 * ends where the keys that follow it begin, with the user that is known.
 */
#include <errno.h>
#include <jansson.h>
#include <limits.h>
#include <string.h>

#include "core/base/mem.h"
#include "sources/identity/job_int.h"
#include "sources/identity/identity_int.h"

#define MIB 1048576.0

static void answer_clear(struct gs_job_answer *a)
{
	memset(a, 0, sizeof(*a));
	a->job = gs_job_unknown;
	a->job.kind = GS_JOB_SLURM;
	a->job.source = GS_JOB_FROM_CONTROLLER;
}

/* --- JSON --- */

/* Names are bytes that a user chose; a parser of JSON wants UTF-8. Other bytes become '?'. */
static void make_utf8(char *text, size_t bytes)
{
	for (size_t i = 0; i < bytes;) {
		unsigned char c = (unsigned char)text[i], first = 0x80, last = 0xbf;
		size_t more = c < 0x80                ? 0
			      : c >= 0xc2 && c < 0xe0 ? 1
			      : (c & 0xf0) == 0xe0    ? 2
			      : c >= 0xf0 && c < 0xf5 ? 3
						      : SIZE_MAX;
		size_t n = 0;

		/* Overlong forms, surrogates, beyond U+10FFFF. */
		if (c == 0xe0)
			first = 0xa0;
		else if (c == 0xed)
			last = 0x9f;
		else if (c == 0xf0)
			first = 0x90;
		else if (c == 0xf4)
			last = 0x8f;
		while (more != SIZE_MAX && n < more && i + n + 1 < bytes &&
		       (unsigned char)text[i + n + 1] >= first &&
		       (unsigned char)text[i + n + 1] <= last) {
			n++;
			first = 0x80;
			last = 0xbf;
		}
		if (more == SIZE_MAX || n < more) {
			text[i] = '?';
			n = 0;
		}
		i += n + 1;
	}
}

static int64_t read_number(const json_t *object, const char *key)
{
	const json_t *v = json_object_get(object, key);

	if (json_is_object(v)) {
		if (json_is_true(json_object_get(v, "infinite")) ||
		    json_is_false(json_object_get(v, "set")))
			return -1;
		v = json_object_get(v, "number");
	}
	if (!json_is_number(v) || !(json_number_value(v) >= 0) || json_number_value(v) > 9e15)
		return -1;
	return (int64_t)json_number_value(v);
}

static void text_of(const json_t *object, const char *key, char *out, size_t bytes)
{
	const json_t *v = json_object_get(object, key);

	if (json_is_string(v))
		gs_identity_copy_clean(out, bytes, json_string_value(v), json_string_length(v));
}

static bool is_wanted(const json_t *job, int64_t job_id, const char *sluid)
{
	const json_t *v = json_object_get(job, "sluid");

	if (job_id >= 0)
		return read_number(job, "job_id") == job_id;
	return sluid[0] && json_is_string(v) && strcmp(json_string_value(v), sluid) == 0;
}

/* The part of the allocation that is on node; NULL when it is not given, or not which. */
static const json_t *allocation_of(const json_t *job, const char *node)
{
	const json_t *resources = json_object_get(job, "job_resources");
	const json_t *nodes = json_object_get(resources, "nodes"), *each, *name;
	const json_t *list = json_is_object(nodes) ? json_object_get(nodes, "allocation")
						   : json_object_get(resources, "allocated_nodes");
	size_t i;

	if (!node[0] && json_array_size(list) == 1)
		return json_array_get(list, 0);
	json_array_foreach(list, i, each)
	{
		name = json_object_get(each, "name");
		if (!name)
			name = json_object_get(each, "nodename");
		if (json_is_string(name) && strcmp(json_string_value(name), node) == 0)
			return each;
	}
	return NULL;
}

/* Cores of a node up to 23.11: sockets.N.cores.N is a word. */
static int64_t count_cores(const json_t *node)
{
	json_t *sockets = json_object_get(node, "sockets"), *socket, *cores, *core;
	const char *s, *c;
	int64_t n = 0;

	json_object_foreach(sockets, s, socket)
	{
		cores = json_object_get(socket, "cores");
		json_object_foreach(cores, c, core)
		{
			n += json_is_string(core) &&
			     strncmp(json_string_value(core), "allocated", 9) == 0;
		}
	}
	return n ? n : -1;
}

static void read_allocation(const json_t *job, const char *node, struct gs_job_answer *a)
{
	const json_t *on = allocation_of(job, node), *memory;
	const json_t *gres = json_object_get(job, "gres_detail");
	const json_t *nodes = json_object_get(job, "nodes");
	int64_t cpus, mib, at;

	if (on) {
		cpus = read_number(json_object_get(on, "cpus"), "count");
		if (cpus < 0)
			cpus = count_cores(on);
		if (read_number(job, "node_count") == 1 && read_number(job, "cpus") > 0)
			cpus = read_number(job, "cpus");
		memory = json_object_get(on, "memory");
		mib = json_is_object(memory) ? read_number(memory, "allocated")
					     : read_number(on, "memory_allocated");
		a->job.n_cpus = cpus > 0 && cpus <= INT32_MAX ? (int32_t)cpus : -1;
		if (mib > 0)
			a->job.mem_bytes = (int64_t)((double)mib * MIB);
	}
	/* The whole list: what is kept of it in the job may be cut. */
	at = node[0] && json_is_string(nodes) ? gs_job_node_position(json_string_value(nodes), node)
					      : -1;
	if (at < 0 && json_array_size(gres) == 1)
		at = 0;
	if (at >= 0) {
		const json_t *v = json_array_get(gres, (size_t)at);

		if (json_is_string(v))
			a->has_gpus =
				gs_job_gres(json_string_value(v), json_string_length(v), &a->gpus);
	}
}

static void read_job(const json_t *job, const char *node, struct gs_job_answer *a)
{
	struct gs_job *j = &a->job;
	int64_t minutes = read_number(job, "time_limit");

	j->job_id = read_number(job, "job_id");
	if (read_number(job, "array_job_id") > 0 && read_number(job, "array_task_id") >= 0) {
		j->array_job_id = read_number(job, "array_job_id");
		j->array_task_id = read_number(job, "array_task_id");
	}
	if (read_number(job, "het_job_id") > 0 && read_number(job, "het_job_offset") >= 0) {
		j->het_job_id = read_number(job, "het_job_id");
		j->het_offset = read_number(job, "het_job_offset");
	}
	j->uid = read_number(job, "user_id");
	text_of(job, "sluid", j->sluid, sizeof(j->sluid));
	text_of(job, "cluster", j->cluster, sizeof(j->cluster));
	text_of(job, "name", j->name, sizeof(j->name));
	text_of(job, "user_name", j->user, sizeof(j->user));
	text_of(job, "account", j->account, sizeof(j->account));
	text_of(job, "partition", j->partition, sizeof(j->partition));
	text_of(job, "qos", j->qos, sizeof(j->qos));
	text_of(job, "nodes", j->nodes, sizeof(j->nodes));
	if (read_number(job, "start_time") > 0)
		j->start_s = read_number(job, "start_time");
	if (minutes >= 0)
		j->limit_s = minutes * 60;
	gs_job_name_id(j);
	read_allocation(job, node, a);
}

int gs_job_parse_json(const char *data, size_t bytes, int64_t job_id, const char *sluid,
		      const char *node, struct gs_job_answer *ret)
{
	GS_FREE char *text = malloc(bytes + 1);
	json_t *root, *jobs, *job;
	int r = -ENOENT;
	size_t i;

	if (!text)
		return -ENOMEM;
	memcpy(text, data, bytes);
	make_utf8(text, bytes);
	/* Values of 64 bits without a sign would not fit an integer, and none of those is read. */
	root = json_loadb(text, bytes, JSON_DECODE_INT_AS_REAL | JSON_ALLOW_NUL, NULL);
	jobs = json_object_get(root, "jobs");
	if (!json_is_array(jobs))
		r = -EBADMSG;
	json_array_foreach(jobs, i, job)
	{
		if (!is_wanted(job, job_id, sluid))
			continue;
		answer_clear(ret);
		read_job(job, node, ret);
		r = 0;
		break;
	}
	json_decref(root);
	return r;
}

/* --- text --- */

struct piece {
	const char *at, *end;
};

static const char *find_word(struct piece p, const char *word)
{
	return memmem(p.at, (size_t)(p.end - p.at), word, strlen(word));
}

/* The value after " KEY=", up to the next blank; false when there is none. */
static bool value_of(struct piece record, const char *key, struct piece *ret)
{
	const char *at = find_word(record, key);

	if (!at)
		return false;
	ret->at = at + strlen(key);
	for (ret->end = ret->at; ret->end < record.end && *ret->end != ' ' && *ret->end != '\n';)
		ret->end++;
	return true;
}

static bool number_of(struct piece record, const char *key, int64_t *ret)
{
	struct piece v;

	return value_of(record, key, &v) && gs_job_number(v.at, (size_t)(v.end - v.at), ret);
}

static void copy_of(struct piece record, const char *key, char *out, size_t bytes)
{
	struct piece v;

	if (value_of(record, key, &v) && !(v.end - v.at == 6 && memcmp(v.at, "(null)", 6) == 0))
		gs_identity_copy_clean(out, bytes, v.at, (size_t)(v.end - v.at));
}

/* "NAME(UID) GroupId=" after " UserId=". */
static bool user_at(const char *at, const char *end, struct piece *ret_name, int64_t *ret_uid)
{
	static const char next[] = " GroupId=";
	const char *p = at;
	size_t digits = 0;

	while (p < end && *p != '(' && *p != ' ' && *p != '\n')
		p++;
	if (p == end || *p != '(')
		return false;
	*ret_name = (struct piece){at, p++};
	while (p + digits < end && p[digits] >= '0' && p[digits] <= '9')
		digits++;
	if (!gs_job_number(p, digits, ret_uid))
		return false;
	p += digits;
	return (size_t)(end - p) > sizeof(next) && *p == ')' &&
	       memcmp(p + 1, next, sizeof(next) - 1) == 0;
}

/* The end of the name: the user that follows it. Of several, the one whose number is known. */
static const char *end_of_name(struct piece record, int64_t uid, struct piece *ret_name,
			       int64_t *ret_uid)
{
	static const char key[] = " UserId=";
	const char *found = NULL, *at;
	struct piece name;
	int64_t n;

	while ((at = find_word(record, key))) {
		record.at = at + sizeof(key) - 1;
		if (!user_at(record.at, record.end, &name, &n))
			continue;
		if (!found || n == uid) {
			*ret_name = name;
			*ret_uid = n;
			found = at;
		}
		if (uid < 0 || n == uid)
			break;
	}
	return found;
}

/* "1-02:03:04", "02:03:04", "03:04"; negative: no limit. */
static int64_t read_duration(struct piece v)
{
	int64_t days = 0, n = 0, sum = 0;
	const char *dash = memchr(v.at, '-', (size_t)(v.end - v.at));

	if (dash) {
		if (!gs_job_number(v.at, (size_t)(dash - v.at), &days))
			return -1;
		v.at = dash + 1;
	}
	while (v.at < v.end) {
		const char *colon = memchr(v.at, ':', (size_t)(v.end - v.at));
		const char *end = colon ? colon : v.end;

		if (!gs_job_number(v.at, (size_t)(end - v.at), &n) || n > 1000000 || sum > 1000000)
			return -1;
		sum = sum * 60 + n;
		v.at = end + (colon != NULL);
	}
	return days > 100000 ? -1 : days * 86400 + sum;
}

static int64_t count_indices(struct piece v)
{
	int64_t n = 0;

	while (v.at < v.end) {
		const char *comma = memchr(v.at, ',', (size_t)(v.end - v.at)), *dash;
		const char *end = comma ? comma : v.end;
		int64_t from, to;

		dash = memchr(v.at, '-', (size_t)(end - v.at));
		if (!gs_job_number(v.at, (size_t)((dash ? dash : end) - v.at), &from))
			return -1;
		to = from;
		if (dash && !gs_job_number(dash + 1, (size_t)(end - dash - 1), &to))
			return -1;
		if (to < from || to > 1 << 20)
			return -1;
		n += to - from + 1;
		v.at = end + (comma != NULL);
	}
	return n;
}

/* The groups " Nodes=LIST CPU_IDs=LIST Mem=MIB GRES=..." that -d adds. */
static void read_groups(struct piece record, const char *node, struct gs_job_answer *a)
{
	static const char key[] = " Nodes=";
	const char *at = find_word(record, key);

	while (at) {
		struct piece group = {at, record.end}, v;
		GS_FREE char *list = NULL;
		const char *next;
		int64_t n;

		record.at = at + sizeof(key) - 1;
		next = find_word(record, key);
		if (next)
			group.end = next;
		at = next;
		if (value_of(group, key, &v))
			list = strndup(v.at, (size_t)(v.end - v.at));
		if (!list || !find_word(group, " CPU_IDs=") ||
		    (node[0] ? gs_job_node_position(list, node) < 0 : strpbrk(list, "[,") != NULL))
			continue;
		if (value_of(group, " CPU_IDs=", &v)) {
			n = count_indices(v);
			a->job.n_cpus = n > 0 ? (int32_t)n : -1;
		}
		if (number_of(group, " Mem=", &n) && n > 0)
			a->job.mem_bytes = (int64_t)((double)n * MIB);
		if (value_of(group, " GRES=", &v) || value_of(group, " GRES_IDX=", &v))
			a->has_gpus = gs_job_gres(v.at, (size_t)(v.end - v.at), &a->gpus);
		return;
	}
}

/* A record of the job begins here: "JobId=N ". */
static const char *find_record(struct piece all, int64_t job_id)
{
	char head[32];
	const char *at = all.at;

	snprintf(head, sizeof(head), "JobId=%lld ", (long long)job_id);
	while ((at = find_word((struct piece){at, all.end}, head))) {
		if (at == all.at || at[-1] == '\n')
			return at;
		at++;
	}
	return NULL;
}

int gs_job_parse_text(const char *text, size_t bytes, int64_t job_id, const char *node, int64_t uid,
		      struct gs_job_answer *ret)
{
	static const char name_key[] = " JobName=", set_key[] = " HetJobIdSet=";
	struct piece record = {text, text + bytes}, head, v, user = {text, text};
	struct gs_job *j = &ret->job;
	const char *name, *end, *set;
	int64_t n, m, user_id = -1;

	answer_clear(ret);
	record.at = find_record(record, job_id);
	if (!record.at)
		return -ENOENT;
	name = find_word(record, name_key);
	end = name ? end_of_name(record, uid, &user, &user_id) : NULL;
	if (!end || end < name + sizeof(name_key) - 1)
		return -EBADMSG;
	head = (struct piece){record.at, name};
	name += sizeof(name_key) - 1;
	record.at = end;
	end = find_word(record, "\nJobId=");
	if (end)
		record.end = end;
	j->job_id = job_id;
	j->uid = user_id;
	gs_identity_copy_clean(j->user, sizeof(j->user), user.at, (size_t)(user.end - user.at));
	if (number_of(head, " ArrayJobId=", &n) && number_of(head, " ArrayTaskId=", &m)) {
		j->array_job_id = n;
		j->array_task_id = m;
	}
	if (number_of(head, " HetJobId=", &n) && number_of(head, " HetJobOffset=", &m)) {
		j->het_job_id = n;
		j->het_offset = m;
		set = find_word((struct piece){name, record.at}, set_key);
		if (set)
			record.at = set;
	}
	gs_identity_copy_clean(j->name, sizeof(j->name), name, (size_t)(record.at - name));
	copy_of(record, " Account=", j->account, sizeof(j->account));
	copy_of(record, " QOS=", j->qos, sizeof(j->qos));
	copy_of(record, " Partition=", j->partition, sizeof(j->partition));
	copy_of(record, " NodeList=", j->nodes, sizeof(j->nodes));
	if (number_of(record, " StartTime=", &n))
		j->start_s = n;
	if (value_of(record, " TimeLimit=", &v))
		j->limit_s = read_duration(v);
	gs_job_name_id(j);
	read_groups(record, node, ret);
	return 0;
}

/* --- scontrol listpids --- */

size_t gs_job_parse_pids(const char *text, size_t bytes, struct gs_job_pid *ret, size_t max)
{
	const char *end = text + bytes;
	size_t n = 0;

	while (text < end && n < max) {
		const char *eol = memchr(text, '\n', (size_t)(end - text));
		struct piece word[5] = {{0}};
		size_t words = 0;
		int64_t pid, job, local, global;

		if (!eol)
			eol = end;
		for (const char *p = text; p < eol && words < GS_ARRAY_LEN(word);) {
			while (p < eol && *p == ' ')
				p++;
			word[words].at = p;
			while (p < eol && *p != ' ')
				p++;
			word[words].end = p;
			words += word[words].end > word[words].at;
		}
		text = eol < end ? eol + 1 : end;
#define NUMBER(i, ret_n) gs_job_number(word[i].at, (size_t)(word[i].end - word[i].at), ret_n)
		/* A title, or a step whose processes are not known: "-1 4711 batch - -". */
		if (words < 3 || !NUMBER(0, &pid) || !NUMBER(1, &job) || pid <= 0 ||
		    pid > UINT32_MAX)
			continue;
		ret[n] = (struct gs_job_pid){.pid = (uint32_t)pid, .job_id = job};
		gs_job_task_clear(&ret[n].task);
		gs_identity_copy_clean(ret[n].task.step, sizeof(ret[n].task.step), word[2].at,
				       (size_t)(word[2].end - word[2].at));
		if (words == 5 && NUMBER(3, &local) && NUMBER(4, &global) && local <= INT32_MAX &&
		    global <= INT32_MAX) {
			ret[n].task.task_id = ret[n].task.local_rank = (int32_t)local;
			ret[n].task.rank = (int32_t)global;
		}
		n++;
#undef NUMBER
	}
	return n;
}
