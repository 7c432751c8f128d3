#include "sources/uprobe/cost.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <bpf/bpf.h>

#include "core/base/mem.h"
#include "model/trace/func.h"
#include "model/trace/record_stack.h"
#include "sources/uprobe/uprobe_int.h"

#define ROUNDS        9
#define CALLS         300
#define STEPPED_CALLS 40 /* ten times as expensive */
#define REG_DI        14 /* of struct pt_regs */

/* Functions as most are, with bytes that the kernel emulates at the entry (push) and where it is
 * left (jmp), and one without such a byte (lea). Each measurement has one of its own, so that no
 * probe has to be removed, which takes the kernel long, before the next. */
#define TARGET(name)                                                                               \
	void *name(void *x);                                                                       \
	extern const char name##_end[];                                                            \
	__asm__(".text\n.p2align 4\n.globl " #name "\n.hidden " #name "\n.type " #name             \
		", @function\n" #name ":\n"                                                        \
		"	push %rbp\n"                                                                     \
		"	mov %rsp, %rbp\n"                                                                \
		"	lea (%rdi), %rax\n"                                                              \
		"	pop %rbp\n"                                                                      \
		".globl " #name "_end\n.hidden " #name "_end\n" #name "_end:\n"                    \
		"	jmp 1f\n"                                                                        \
		"1:	ret\n"                                                                         \
		".size " #name ", .-" #name "\n")

TARGET(gs_cost_call);
TARGET(gs_cost_scope);
TARGET(gs_cost_entry);
TARGET(gs_cost_user);
TARGET(gs_cost_place);
TARGET(gs_cost_values);
TARGET(gs_cost_texts);

void *gs_cost_stepped(void *x);
__asm__(".text\n"
	".p2align 4\n.globl gs_cost_stepped\n"
	".hidden gs_cost_stepped\n"
	".type gs_cost_stepped, @function\n"
	"gs_cost_stepped:\n"
	"	lea (%rdi), %rax\n"
	"	ret\n.size gs_cost_stepped, .-gs_cost_stepped\n");

typedef void *(*uprobe_target_fn)(void *x);

/* The path at the end of a line of /proc/self/maps, as it can be opened now. False: it has none. */
static bool own_path(char *line, char out[PATH_MAX])
{
	char *path = strchr(line, '/');
	ssize_t n = readlink("/proc/self/exe", out, PATH_MAX - 1);

	if (!path)
		return false;
	path[strcspn(path, "\n")] = '\0';
	/* By this name the program can be opened, whatever became of its file. */
	if (n > 0 && strncmp(path, out, (size_t)n) == 0 && !path[n])
		path = "/proc/self/exe";
	snprintf(out, PATH_MAX, "%s", path);
	return true;
}

int uprobe_own_place(const void *code, char ret_path[PATH_MAX], uint64_t *ret_off)
{
	uint64_t at = (uintptr_t)code, from, to, off;
	GS_FCLOSE FILE *f = fopen("/proc/self/maps", "re");
	char line[PATH_MAX + 128];

	while (f && fgets(line, sizeof(line), f)) {
		if (sscanf(line, "%" SCNx64 "-%" SCNx64 " %*s %" SCNx64, &from, &to, &off) == 3 &&
		    at >= from && at < to) {
			*ret_off = at - from + off;
			return own_path(line, ret_path) ? 0 : -ENOENT;
		}
	}
	return -ENOENT;
}

static int by_size(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return x < y ? -1 : x > y;
}

/* What values of described probes are read from. */
static struct {
	uint64_t word;
	char text[24];
} memory = {1, "a text of 23 letters..."};

struct bench {
	struct uprobe_kernel_side k;
	struct features features;
	const struct gs_func *func;
	struct links *links; /* owned */
};

static double now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
	return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

/* The median of some rounds, of this thread's own time: others may have the processor meanwhile. */
static double measure_target(const struct bench *b, volatile uprobe_target_fn target,
			     unsigned calls)
{
	double ns[ROUNDS];

	for (int i = 0; i < ROUNDS; i++) {
		double start = now_ns();

		for (unsigned n = 0; n < calls; n++)
			target(&memory);
		ns[i] = (now_ns() - start) / calls;
		ring_buffer__consume(b->k.ring);
	}
	qsort(ns, ROUNDS, sizeof(*ns), by_size);
	return ns[ROUNDS / 2];
}

/* Probes on a target; end: on its way out too. */
static int attach_target(struct bench *b, uprobe_target_fn target, const char *end,
			 const struct gs_attach_plan_place *like)
{
	struct gs_attach_plan_place places[2] = {*like, *like};
	int status[2], n = end ? 2 : 1;
	char path[PATH_MAX];
	int r = uprobe_own_place((const void *)target, path, &places[0].file_off);

	places[1].cookie |= GS_COOKIE_EXIT | GS_COOKIE_TAKEN | GS_COOKIE_NOT_TAKEN;
	if (r == 0 && end)
		r = uprobe_own_place(end, path, &places[1].file_off);
	if (r < 0)
		return r;
	r = uprobe_links_attach(b->links, &b->k, &b->features, like->family, path, getpid(), places,
				(size_t)n, status);
	return r == n ? 0 : r < 0 ? r : -EIO;
}

/* The cost in each mode of calls of a target. 0 or negative errno. */
static int measure_modes(struct bench *b, uprobe_target_fn target, const char *end,
			 const struct gs_attach_plan_place *like, double ret_ns[GS_MODE_N])
{
	double none = measure_target(b, target, CALLS), ns, upper_ns = INFINITY;
	int r = attach_target(b, target, end, like);

	if (r < 0)
		return r;
	for (unsigned mode = 0; mode < GS_MODE_OFF; mode++) {
		if (mode == GS_MODE_SAMPLE)
			continue;
		b->k.modes->mode[b->func->id] = (uint8_t)mode;
		ns = measure_target(b, target, CALLS) - none;
		/* Less is done than in the mode before: what is more is noise. */
		ret_ns[mode] = ns > upper_ns ? upper_ns : ns > 1 ? ns : 1;
		upper_ns = ret_ns[mode];
	}
	/* The sum of the two that it is made of; scatter would hide the small part. */
	ret_ns[GS_MODE_SAMPLE] =
		ret_ns[GS_MODE_COUNT] +
		(ret_ns[GS_MODE_AGGREGATE] - ret_ns[GS_MODE_COUNT]) / GS_MODE_SAMPLE_N;
	ret_ns[GS_MODE_OFF] = 0;
	return 0;
}

/* A counted call, once with an emulated and once with a single-stepped first instruction. */
static int measure_step(struct bench *b, const struct gs_attach_plan_place *like,
			struct gs_costs *p)
{
	double none = measure_target(b, gs_cost_stepped, STEPPED_CALLS), ns;
	int r = attach_target(b, gs_cost_stepped, NULL, like);

	if (r < 0)
		return r;
	b->k.modes->mode[b->func->id] = GS_MODE_COUNT;
	ns = measure_target(b, gs_cost_stepped, STEPPED_CALLS) - none -
	     p->ns[GS_COST_CALL][GS_MODE_COUNT];
	p->step_ns = ns > 0 ? ns : 0;
	return 0;
}

static struct gs_user_row row_of(const struct bench *b, bool has_return)
{
	return (struct gs_user_row){.func = b->func->id,
				    .layer = GS_LAYER_USER,
				    .flags = has_return ? GS_USER_RETURN : 0,
				    .aggregate_value = GS_USER_NONE,
				    .v_bytes = GS_USER_NONE,
				    .v_stream = GS_USER_NONE,
				    .v_aux = GS_USER_NONE,
				    .v_arg0 = GS_USER_NONE};
}

static int measure_row(struct bench *b, uprobe_target_fn target, const struct gs_user_row *row,
		       uint32_t id, double ret_ns[GS_MODE_N])
{
	const struct gs_attach_plan_place like = {.cookie = id,
						  .func = b->func->id,
						  .family = GS_FAMILY_USER,
						  .has_return = row->flags & GS_USER_RETURN};
	int fd = bpf_map__fd(uprobe_kernel_map(&b->k, GS_FAMILY_USER, "gs_user_rows"));

	if (bpf_map_update_elem(fd, &id, row, BPF_ANY) < 0)
		return -errno;
	return measure_modes(b, target, NULL, &like, ret_ns);
}

static double more_than(const double *ns, const double *base, unsigned n)
{
	return ns[GS_MODE_EVENTS] > base[GS_MODE_EVENTS]
		       ? (ns[GS_MODE_EVENTS] - base[GS_MODE_EVENTS]) / n
		       : 0;
}

/* Without values; then what values and texts cost more. */
static int measure_users(struct bench *b, struct gs_costs *p)
{
	struct gs_user_row place = row_of(b, false), whole = row_of(b, true), values = place,
			   texts = place;
	struct gs_user_value value = {.from = GS_FROM_REGISTER,
				      .value_type = GS_VALUE_U64,
				      .reg = REG_DI,
				      .index_reg = GS_USER_NONE,
				      .bytes = 8,
				      .n_chain = 1,
				      .text = GS_USER_NONE};
	double with_values[GS_MODE_N], with_texts[GS_MODE_N];
	int r;

	values.n_values = GS_USER_VALUE_MAX;
	for (unsigned i = 0; i < GS_USER_VALUE_MAX; i++)
		values.values[i] = value;
	texts.n_values = texts.n_texts = GS_USER_TEXT_MAX;
	value.value_type = GS_VALUE_STR;
	value.n_chain = 0;
	value.add = offsetof(__typeof__(memory), text);
	for (unsigned i = 0; i < GS_USER_TEXT_MAX; i++) {
		texts.values[i] = value;
		texts.values[i].text = (uint8_t)i;
	}
	r = measure_row(b, gs_cost_place, &place, 1, p->ns[GS_COST_PLACE]);
	if (r == 0)
		r = measure_row(b, gs_cost_values, &values, 2, with_values);
	if (r == 0)
		r = measure_row(b, gs_cost_texts, &texts, 3, with_texts);
	if (r == 0)
		r = measure_row(b, gs_cost_user, &whole, 4, p->ns[GS_COST_USER]);
	if (r < 0)
		return r;
	p->value_ns = more_than(with_values, p->ns[GS_COST_PLACE], GS_USER_VALUE_MAX);
	p->text_ns = more_than(with_texts, p->ns[GS_COST_PLACE], GS_USER_TEXT_MAX);
	return 0;
}

/* By what they cost where both were measured. */
static void guess_others(struct gs_costs *p)
{
	static const double of_call[GS_COST_N][GS_MODE_N] = {
		[GS_COST_PLACE] = {0.75, 0.7, 1.1, 1.1},
		[GS_COST_SCOPE] = {1.05, 1, 1.8, 0.9},
		[GS_COST_USER] = {1.35, 1.2, 1.1, 1.1},
		/* Never measured here, which would take an interpreter. */
		[GS_COST_PYTHON] = {1.5, 1.45, 2.6, 1.9},
	};

	for (unsigned kind = 1; kind < GS_COST_N; kind++)
		for (unsigned mode = 0; mode < GS_MODE_N; mode++)
			p->ns[kind][mode] = of_call[kind][mode] * p->ns[GS_COST_CALL][mode];
	p->value_ns = 0.05 * p->ns[GS_COST_CALL][GS_MODE_EVENTS];
	p->text_ns = 0.1 * p->ns[GS_COST_CALL][GS_MODE_EVENTS];
}

static int measure_all(struct bench *b, const struct gs_uprobe_cost_options *o, struct gs_costs *p)
{
	struct gs_attach_plan_place like = {.cookie = b->func->id,
					    .func = b->func->id,
					    .family = GS_FAMILY_CUDA,
					    .has_return = true};
	double entry_ns[GS_MODE_N] = {0};
	int r = measure_modes(b, gs_cost_call, NULL, &like, p->ns[GS_COST_CALL]);

	guess_others(p);
	if (r == 0)
		r = measure_step(b, &like, p);
	if (r == 0 && o->users)
		r = measure_users(b, p);
	if (r < 0 || !o->scopes)
		return r;
	like.family = GS_FAMILY_TORCH;
	r = measure_modes(b, gs_cost_scope, gs_cost_scope_end, &like, p->ns[GS_COST_SCOPE]);
	/* One that is counted loses its second probe (regroup.c). */
	if (r == 0)
		r = measure_modes(b, gs_cost_entry, NULL, &like, entry_ns);
	p->ns[GS_COST_SCOPE][GS_MODE_COUNT] = entry_ns[GS_MODE_COUNT];
	return r;
}

static void *close_links(void *links)
{
	uprobe_links_close(links);
	free(links);
	return NULL;
}

/* The kernel takes long to remove probes (it waits until no thread can be in them); until then they
 * stand on functions that are no longer called. */
static void remove_links_later(struct links *links)
{
	pthread_attr_t detached;
	pthread_t thread;

	if (!links)
		return;
	pthread_attr_init(&detached);
	pthread_attr_setdetachstate(&detached, PTHREAD_CREATE_DETACHED);
	if (pthread_create(&thread, &detached, close_links, links) != 0)
		close_links(links);
	pthread_attr_destroy(&detached);
}

int gs_uprobe_measure_cost(const struct gs_uprobe_cost_options *o, struct gs_costs *ret_costs,
			   struct gs_err *err)
{
	struct gs_kernel_config config = {.filter = GS_FILTER_ALL,
					  .events = o->events,
					  .modes = 1,
					  .scopes = o->scopes,
					  .n_cells = GS_CELL_MAX};
	struct bench b = {.func = gs_func_by_name("cudaLaunchKernel")};
	int r = uprobe_features_detect(o->disabled_features, &b.features, err);

	*ret_costs = (struct gs_costs){0};
	config.task_storage = b.features.task_storage;
	if (r == 0)
		r = uprobe_kernel_load_alone(&b.k, &config, &b.features, o->types, o->scopes,
					     o->users);
	if (r == 0) {
		b.links = calloc(1, sizeof(*b.links));
		r = b.links ? measure_all(&b, o, ret_costs) : -ENOMEM;
	}
	remove_links_later(b.links);
	uprobe_kernel_unload(&b.k);
	return r < 0 ? gs_err_set(err, r, "the cost of a probe could not be measured: %s",
				  strerror(-r))
		     : 0;
}
