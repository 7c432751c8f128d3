/* Checks the options of a caller and turns them into a plan: layers as bits, probes as rows, the target in words. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/buf.h"
#include "core/text/json.h"
#include "library/gpuscope/live_int.h"
#include "model/trace/func.h"
#include "sources/identity/identity.h"
#include "sources/probefile/probefile.h"

#define PROBES_MAX    1024
#define FUNCTIONS_MAX 1024
#define ARGS_MAX      6
#define YAML_BYTES    (8u << 20)
#define TRACE_FLAGS                                                                                \
	(GS_TRACE_ALL | GS_TRACE_FOLLOW | GS_TRACE_SUMMARY_ONLY | GS_TRACE_PROBES_ONLY |           \
	 GS_TRACE_NO_ITEMS)

/* --- layers --- */

static int add_layers(const char *words, uint32_t *layers, struct gs_err *err)
{
	GS_FREE char *copy = strdup(words);
	char *save = NULL;

	if (!copy)
		return -ENOMEM;
	for (char *w = strtok_r(copy, ", ", &save); w; w = strtok_r(NULL, ", ", &save))
		if (gs_layer_add_word(w, layers) < 0)
			return gs_err_set(err, -EINVAL,
					  "layers: no layer \"%s\"; an example is \"cuda,nccl\"",
					  w);
	if (!*layers)
		return gs_err_set(err, -EINVAL, "layers: the list is empty");
	if (*layers & (1u << GS_LAYER_PYTHON | 1u << GS_LAYER_TORCH_MEM))
		return gs_err_set(
			err, -ENOTSUP,
			"layers: the library cannot trace python and torchmem; use the program: gpuscope trace --layer");
	return 0;
}

/* --- probes --- */

static int check_probe(const struct gs_probe *given, size_t i, struct gs_probe *ret_probe,
		       struct gs_err *err)
{
	int r = options_take(given, sizeof(*ret_probe), ret_probe, sizeof(*ret_probe), err);

	if (r < 0)
		return gs_err_prefix(err, r, "probes[%zu]", i);
	if (!ret_probe->symbol || !ret_probe->symbol[0])
		return gs_err_set(err, -EINVAL, "probes[%zu]: the symbol is missing", i);
	if (ret_probe->n_args > ARGS_MAX)
		return gs_err_set(err, -EINVAL,
				  "probes[%zu]: n_args is at most %d (arguments in registers)", i,
				  ARGS_MAX);
	if (ret_probe->flags & ~(uint32_t)(GS_PROBE_ENTRY_ONLY | GS_PROBE_RESULT))
		return gs_err_set(err, -EINVAL, "probes[%zu]: flags: unknown bits 0x%x", i,
				  ret_probe->flags);
	if (ret_probe->flags & GS_PROBE_ENTRY_ONLY && ret_probe->flags & GS_PROBE_RESULT)
		return gs_err_set(
			err, -EINVAL,
			"probes[%zu]: GS_PROBE_ENTRY_ONLY excludes the result, which needs a probe at the return",
			i);
	return 0;
}

static void put_probe(struct gs_buf *yaml, const struct gs_probe *p)
{
	char place[32];

	gs_json_open(yaml, NULL, '{');
	gs_json_text(yaml, "function", p->symbol);
	if (p->path)
		gs_json_text(yaml, "lib", p->path);
	if (p->name)
		gs_json_text(yaml, "name", p->name);
	gs_json_bool(yaml, "return", !(p->flags & GS_PROBE_ENTRY_ONLY));
	if (p->n_args || p->flags & GS_PROBE_RESULT) {
		gs_json_open(yaml, "args", '[');
		for (uint32_t i = 1; i <= p->n_args; i++) {
			snprintf(place, sizeof(place), "arg%u: u64 arg%u", i, i);
			gs_json_text(yaml, NULL, place);
		}
		if (p->flags & GS_PROBE_RESULT)
			gs_json_text(yaml, NULL, "ret: u64 ret");
		gs_json_close(yaml, ']');
	}
	gs_json_close(yaml, '}');
}

/* Writes the probes as JSON, which is a probe file, and parses it: so there is only one description of what a probe is. */
static int add_probes(const struct gs_trace_options *o, struct gs_user_set *users,
		      struct gs_err *err)
{
	GS_CLEANUP(gs_buf_fini) struct gs_buf yaml = GS_BUF_INIT(YAML_BYTES);
	struct gs_probe p;
	int r = 0;

	if (o->n_probes > PROBES_MAX)
		return gs_err_set(err, -EINVAL, "at most %d probes", PROBES_MAX);
	gs_json_open(&yaml, NULL, '[');
	for (size_t i = 0; i < o->n_probes && r == 0; i++) {
		r = check_probe(o->probes[i], i, &p, err);
		if (r == 0)
			put_probe(&yaml, &p);
	}
	gs_json_close(&yaml, ']');
	if (r == 0)
		r = yaml.r;
	if (r == 0 && o->n_probes)
		r = gs_probefile_parse((const char *)yaml.data, yaml.bytes, "probes", users, err);
	if (r == 0 && o->probes_yaml)
		r = gs_probefile_parse(o->probes_yaml, strlen(o->probes_yaml), "probes_yaml", users,
				       err);
	return r;
}

/* Refuses stacks, which only helper processes of the program can read. */
static int check_rows(const struct gs_user_set *users, struct gs_err *err)
{
	for (size_t i = 0; i < gs_user_set_n(users); i++)
		if (gs_user_set_spec(users, i)->row.flags &
		    (GS_USER_PY_STACK | GS_USER_NATIVE_STACK))
			return gs_err_set(
				err, -ENOTSUP,
				"probes_yaml: the library cannot record stacks; use the program: gpuscope trace --probes");
	return 0;
}

/* --- functions --- */

/* Names with a namespace ("aten::add") are PyTorch operators. */
static int split_functions(const struct gs_trace_options *o, struct live_plan *plan,
			   struct gs_err *err)
{
	if (o->n_functions > FUNCTIONS_MAX)
		return gs_err_set(err, -EINVAL, "at most %d functions", FUNCTIONS_MAX);
	plan->globs = calloc(o->n_functions + 1, sizeof(*plan->globs));
	plan->ops = calloc(o->n_functions + 1, sizeof(*plan->ops));
	if (!plan->globs || !plan->ops)
		return -ENOMEM;
	for (size_t i = 0; i < o->n_functions; i++) {
		if (strstr(o->functions[i], "::"))
			plan->ops[plan->n_ops++] = o->functions[i];
		else
			plan->globs[plan->n_globs++] = o->functions[i];
	}
	if (!plan->n_ops)
		return 0;
	if (!plan->layers)
		plan->layers = GS_LAYERS_DEFAULT | 1u << GS_LAYER_TORCH;
	if (!(plan->layers & 1u << GS_LAYER_TORCH))
		return gs_err_set(err, -EINVAL,
				  "functions: %s is a PyTorch operator: add torch to the layers",
				  plan->ops[0]);
	return 0;
}

/* --- the target --- */

static int check_target(const struct gs_trace_options *o, struct gs_err *err)
{
	unsigned n = (o->command != NULL) + (o->n_pids > 0) + (o->comm != NULL) +
		     (o->cgroup != NULL) + ((o->flags & GS_TRACE_ALL) != 0);

	if (o->flags & ~(uint32_t)TRACE_FLAGS)
		return gs_err_set(err, -EINVAL, "flags: unknown bits 0x%x",
				  o->flags & ~(uint32_t)TRACE_FLAGS);
	if (n != 1)
		return gs_err_set(
			err, -EINVAL,
			"set exactly one of command, pids, comm, cgroup and GS_TRACE_ALL; %s set",
			n ? "several are" : "none is");
	if (o->command && (!o->command[0] || !o->command[0][0]))
		return gs_err_set(err, -EINVAL, "the command is empty");
	if (o->n_pids > LIVE_PIDS_MAX)
		return gs_err_set(err, -EINVAL, "at most %d pids", LIVE_PIDS_MAX);
	for (size_t i = 0; i < o->n_pids; i++)
		if (o->pids[i] <= 0)
			return gs_err_set(err, -EINVAL, "pids[%zu]: %d is not a process id", i,
					  (int)o->pids[i]);
	if (o->flags & GS_TRACE_FOLLOW && !o->n_pids)
		return gs_err_set(err, -EINVAL, "GS_TRACE_FOLLOW requires pids");
	return 0;
}

static void describe_command(const char *const *command, char *out, size_t bytes)
{
	char words[4096];
	size_t n = 0;

	for (const char *const *w = command; *w && n < sizeof(words); w++)
		n += (size_t)snprintf(words + n, sizeof(words) - n, "%s", *w) + 1;
	gs_identity_command_line(words, n < sizeof(words) ? n : sizeof(words), out, bytes);
	if (!out[0])
		snprintf(out, bytes, "%s", command[0]);
}

static void describe_target(const struct gs_trace_options *o, char *out, size_t bytes)
{
	size_t n = 0;

	if (o->command)
		describe_command(o->command, out, bytes);
	else if (o->comm)
		snprintf(out, bytes, "processes named %s", o->comm);
	else if (o->cgroup)
		snprintf(out, bytes, "processes in %s", o->cgroup);
	else if (!o->n_pids)
		snprintf(out, bytes, GS_SESSION_OF_MACHINE);
	for (size_t i = 0; i < o->n_pids && n < bytes; i++)
		n += (size_t)snprintf(out + n, bytes - n, "%s%d",
				      i               ? ", "
				      : o->n_pids > 1 ? "processes "
						      : "process ",
				      (int)o->pids[i]);
}

int live_plan_make(const struct gs_trace_options *o, struct live_plan *plan, struct gs_err *err)
{
	int r = check_target(o, err);

	if (r == 0 && o->layers)
		r = add_layers(o->layers, &plan->layers, err);
	if (r < 0)
		return r;
	plan->users = gs_user_set_new();
	r = plan->users ? add_probes(o, plan->users, err) : -ENOMEM;
	if (r == 0)
		r = split_functions(o, plan, err);
	if (r == 0)
		r = check_rows(plan->users, err);
	if (r < 0)
		return r;
	if (o->flags & GS_TRACE_PROBES_ONLY) {
		if (o->layers)
			return gs_err_set(err, -EINVAL,
					  "set either layers or GS_TRACE_PROBES_ONLY, not both");
		plan->layers = 1u << GS_LAYER_USER;
	}
	if (plan->layers == 1u << GS_LAYER_USER && !gs_user_set_n(plan->users))
		return gs_err_set(err, -EINVAL,
				  "GS_TRACE_PROBES_ONLY is set, but there are no probes");
	describe_target(o, plan->target, sizeof(plan->target));
	return 0;
}

void live_plan_fini(struct live_plan *plan)
{
	gs_user_set_free(&plan->users);
	free(plan->globs);
	free(plan->ops);
	plan->globs = plan->ops = NULL;
	plan->n_globs = plan->n_ops = 0;
}
