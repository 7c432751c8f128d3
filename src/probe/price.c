#include "probe/price.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <bpf/bpf.h>

#include "base/mem.h"
#include "model/func.h"
#include "model/record_stack.h"
#include "probe/probe_int.h"

#include "user.skel.h"

#define ROUNDS        9
#define CALLS         300
#define STEPPED_CALLS 40 /* ten times as dear */
#define ROW           1
#define N_TEXTS       GS_USER_TEXT_MAX
#define REG_DI        14 /* of struct pt_regs */

/* Functions as most are: the first with bytes that the kernel emulates at the entry (push) and
 * where it is left (jmp), the second without one (lea, ret). */
void *gs_price_target(void *x);
void *gs_price_stepped(void *x);
__asm__(".text\n"
	".p2align 4\n"
	".globl gs_price_target\n"
	".hidden gs_price_target\n"
	".type gs_price_target, @function\n"
	"gs_price_target:\n"
	"	push %rbp\n"
	"	mov %rsp, %rbp\n"
	"	lea (%rdi), %rax\n"
	"	pop %rbp\n"
	".globl gs_price_target_end\n"
	".hidden gs_price_target_end\n"
	"gs_price_target_end:\n"
	"	jmp 1f\n"
	"1:	ret\n"
	".size gs_price_target, .-gs_price_target\n"
	".p2align 4\n"
	".globl gs_price_stepped\n"
	".hidden gs_price_stepped\n"
	".type gs_price_stepped, @function\n"
	"gs_price_stepped:\n"
	"	lea (%rdi), %rax\n"
	"	ret\n"
	".size gs_price_stepped, .-gs_price_stepped\n");
extern const char gs_price_target_end[];

/* Where in our own file it is. */
static int offset_of(const void *code, uint64_t *ret_off)
{
	uint64_t at = (uintptr_t)code, from, to, off;
	GS_FCLOSE FILE *f = fopen("/proc/self/maps", "re");
	char line[512];

	while (f && fgets(line, sizeof(line), f)) {
		if (sscanf(line, "%" SCNx64 "-%" SCNx64 " %*s %" SCNx64, &from, &to, &off) == 3 &&
		    at >= from && at < to) {
			*ret_off = at - from + off;
			return 0;
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
	struct kernel_side k;
	struct features features;
	const struct gs_func *func;
};

static double now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
	return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

/* The median of some rounds, of this thread's own time: others may have the processor meanwhile. */
static double measure(const struct bench *b, void *(*volatile target)(void *), unsigned calls)
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

/* The price in each mode of calls that pass these places. 0 or negative errno. */
static int measure_modes(struct bench *b, const struct place *places, size_t n,
			 double ret_ns[GS_MODE_N])
{
	double none = measure(b, gs_price_target, CALLS), ns, dearest = INFINITY;
	struct links links = {0};
	int status[2];
	int r = links_attach(&links, &b->k, &b->features, places->family, "/proc/self/exe",
			     getpid(), places, n, status);

	if (r != (int)n) {
		links_close(&links);
		return r < 0 ? r : -EIO;
	}
	for (unsigned mode = 0; mode < GS_MODE_OFF; mode++) {
		if (mode == GS_MODE_SAMPLE)
			continue;
		b->k.modes->mode[b->func->id] = (uint8_t)mode;
		ns = measure(b, gs_price_target, CALLS) - none;
		/* Less is done than in the mode before: what is more is noise. */
		ret_ns[mode] = ns > dearest ? dearest : ns > 1 ? ns : 1;
		dearest = ret_ns[mode];
	}
	links_close(&links);
	/* The sum of the two that it is made of; scatter would hide the small part. */
	ret_ns[GS_MODE_SAMPLE] =
		ret_ns[GS_MODE_COUNT] +
		(ret_ns[GS_MODE_AGGREGATE] - ret_ns[GS_MODE_COUNT]) / GS_MODE_SAMPLE_N;
	ret_ns[GS_MODE_OFF] = 0;
	return 0;
}

/* The same call, once with an emulated and once with a single-stepped first instruction. */
static int measure_step(struct bench *b, const struct place *emulated, struct gs_prices *p)
{
	struct place place = *emulated;
	double none = measure(b, gs_price_stepped, STEPPED_CALLS), ns;
	struct links links = {0};
	int status, r = offset_of(gs_price_stepped, &place.file_off);

	if (r < 0)
		return r;
	b->k.modes->mode[b->func->id] = GS_MODE_COUNT;
	r = links_attach(&links, &b->k, &b->features, place.family, "/proc/self/exe", getpid(),
			 &place, 1, &status);
	if (r == 1)
		ns = measure(b, gs_price_stepped, STEPPED_CALLS) - none;
	links_close(&links);
	if (r != 1)
		return r < 0 ? r : -EIO;
	ns -= p->ns[GS_PRICE_CALL][GS_MODE_COUNT];
	p->step_ns = ns > 0 ? ns : 0;
	return 0;
}

static int put_row(struct bench *b, const struct gs_user_row *row)
{
	uint32_t id = ROW;
	int fd = bpf_map__fd(b->k.user->maps.gs_user_rows);

	return bpf_map_update_elem(fd, &id, row, BPF_ANY) < 0 ? -errno : 0;
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

/* Without values; then what values and texts cost more. */
static int measure_users(struct bench *b, uint64_t file_off, struct gs_prices *p)
{
	struct place place = {
		.file_off = file_off, .cookie = ROW, .func = b->func->id, .family = FAMILY_USER};
	struct gs_user_row row = row_of(b, false);
	struct gs_user_value value = {.from = GS_FROM_REGISTER,
				      .value_type = GS_VALUE_U64,
				      .reg = REG_DI,
				      .index_reg = GS_USER_NONE,
				      .bytes = 8,
				      .n_chain = 1,
				      .text = GS_USER_NONE};
	double more[GS_MODE_N], base;
	int r = put_row(b, &row);

	if (r == 0)
		r = measure_modes(b, &place, 1, p->ns[GS_PRICE_PLACE]);
	base = p->ns[GS_PRICE_PLACE][GS_MODE_EVENTS];
	row.n_values = GS_USER_VALUE_MAX;
	for (unsigned i = 0; i < GS_USER_VALUE_MAX; i++)
		row.values[i] = value;
	if (r == 0)
		r = put_row(b, &row);
	if (r == 0)
		r = measure_modes(b, &place, 1, more);
	if (r < 0)
		return r;
	p->value_ns =
		more[GS_MODE_EVENTS] > base ? (more[GS_MODE_EVENTS] - base) / GS_USER_VALUE_MAX : 0;
	row.n_values = row.n_texts = N_TEXTS;
	for (unsigned i = 0; i < N_TEXTS; i++) {
		row.values[i].value_type = GS_VALUE_STR;
		row.values[i].n_chain = 0;
		row.values[i].add = offsetof(__typeof__(memory), text);
		row.values[i].text = (uint8_t)i;
	}
	r = put_row(b, &row);
	if (r == 0)
		r = measure_modes(b, &place, 1, more);
	if (r < 0)
		return r;
	p->text_ns = more[GS_MODE_EVENTS] > base ? (more[GS_MODE_EVENTS] - base) / N_TEXTS : 0;
	row = row_of(b, true);
	place.has_return = true;
	r = put_row(b, &row);
	return r < 0 ? r : measure_modes(b, &place, 1, p->ns[GS_PRICE_USER]);
}

static int measure_all(struct bench *b, const struct gs_price_options *o, struct gs_prices *p)
{
	struct place places[2] = {{.family = FAMILY_CUDA, .has_return = true}};
	int r = offset_of(gs_price_target, &places[0].file_off);

	places[0].func = b->func->id;
	places[0].cookie = places[0].func;
	if (r == 0)
		r = measure_modes(b, places, 1, p->ns[GS_PRICE_CALL]);
	for (unsigned kind = 1; kind < GS_PRICE_N; kind++)
		memcpy(p->ns[kind], p->ns[GS_PRICE_CALL], sizeof(p->ns[kind]));
	if (r == 0)
		r = measure_step(b, places, p);
	if (r == 0 && o->users)
		r = measure_users(b, places[0].file_off, p);
	if (r < 0 || !o->scopes)
		return r;
	places[0].family = FAMILY_TORCH;
	places[1] = places[0];
	places[1].cookie |= GS_COOKIE_EXIT | GS_COOKIE_TAKEN | GS_COOKIE_NOT_TAKEN;
	r = offset_of(gs_price_target_end, &places[1].file_off);
	return r < 0 ? r : measure_modes(b, places, 2, p->ns[GS_PRICE_SCOPE]);
}

int gs_price_measure(const struct gs_price_options *o, struct gs_prices *ret_prices,
		     struct gs_err *err)
{
	struct gs_kernel_config config = {
		.filter = GS_FILTER_ALL, .events = o->events, .modes = 1, .scopes = o->scopes};
	struct bench b = {.func = gs_func_by_name("cudaLaunchKernel")};
	int r = features_detect(o->avoid, &b.features, err);

	*ret_prices = (struct gs_prices){0};
	config.task_storage = b.features.task_storage;
	if (r == 0)
		r = kernel_load_alone(&b.k, &config, &b.features, o->scopes, o->users);
	if (r == 0)
		r = measure_all(&b, o, ret_prices);
	kernel_unload(&b.k);
	return r < 0 ? gs_err_set(err, r, "the price of a probe could not be measured: %s",
				  strerror(-r))
		     : 0;
}
