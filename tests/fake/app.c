/*
 * fake_app: reads what to do from its command line, does it, and prints one JSON object a line for
 * each process and each program image. README.md has the options and the fields.
 *
 * Nothing depends on time: a thread makes its list of calls in order, and whatever outcome was not
 * asked for is a surprise, which makes the exit status 1.
 */
#include "app.h"

#include <dlfcn.h>
#include <errno.h>
#include <getopt.h>
#include <inttypes.h>
#include <pthread.h>
#include <semaphore.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define CALL_MAX   512
#define ITEM_MAX   1024
#define THREAD_MAX 256
#define CODE_MAX   8
#define VALUE_MAX  1024 /* values listed for a function; the rest is counted */
#define POOL_MAX   (1u << 22)

#define NOT_READY   600 /* of CUDA: an answer, no failure */
#define IN_PROGRESS 7   /* of NCCL */

struct tally {
	uint64_t calls, errors, answers, bytes, n_values;
	struct {
		int code;
		uint64_t n;
	} codes[CODE_MAX];
	uint64_t *values;
	struct seen first, last;
	int first_ret, last_ret;
};

/* One thread's work. */
struct runner {
	struct worker w;
	struct tally tally[CALL_MAX];
	pid_t tid;
	unsigned depth;  /* host functions open in one another */
	unsigned n_open; /* calls of cudaLaunchHostFunc open in one another */
	uint64_t n_host, n_inner_copies;
	uint64_t abandoned, surprises;
	jmp_buf *jump;
	bool jumping;
};

struct item {
	unsigned call;
	bool bad;
	uint64_t n;
};

static struct {
	const char *dlopen_dir, *wait_file, *go_file, *hold_file, *hang;
	unsigned n_threads, n_forks, pause_ms, longjmps, max_depth, image;
	bool exec, nested;
	struct item items[ITEM_MAX];
	unsigned n_items;
} opt = {.n_threads = 1, .image = 1};

/* All CALL() of all files. */
extern const struct call *const __start_fake_calls[], *const __stop_fake_calls[];
static unsigned n_calls;
static void *symbols[CALL_MAX];
static unsigned copy_call, host_call; /* what host functions call */
static sem_t *printing;               /* lines of several processes do not mix */
static pthread_barrier_t start;

static __attribute__((noreturn, format(printf, 1, 2))) void die(const char *fmt, ...)
{
	va_list ap;

	fprintf(stderr, "fake_app: ");
	va_start(ap, fmt);
	vfprintf(stderr, fmt, ap);
	va_end(ap);
	fprintf(stderr, "\n");
	exit(2);
}

static const struct call *call_at(unsigned i)
{
	return __start_fake_calls[i];
}

static unsigned find_call(const char *name, size_t n)
{
	for (unsigned i = 0; i < n_calls; i++)
		if (strlen(call_at(i)->name) == n && memcmp(call_at(i)->name, name, n) == 0)
			return i;
	die("unknown function '%.*s' (--list shows all)", (int)n, name);
}

int app_put(struct worker *w, enum pool_id id, int r, struct seen *s, uint64_t value)
{
	struct pool *pool = &w->pools[id];

	if (r != 0)
		return r;
	if (pool->n == pool->room) {
		pool->room = pool->room ? pool->room * 2 : 64;
		pool->v = pool->room <= POOL_MAX ? realloc(pool->v, pool->room * sizeof(*pool->v))
						 : NULL;
		if (!pool->v)
			die("too many live values");
	}
	pool->v[pool->n++] = value;
	s->arg[0] = value;
	s->gave = true;
	s->value = value;
	return r;
}

uint64_t app_first(const struct worker *w, enum pool_id id)
{
	return w->pools[id].n ? w->pools[id].v[0] : 0;
}

uint64_t app_last(const struct worker *w, enum pool_id id)
{
	return w->pools[id].n ? w->pools[id].v[w->pools[id].n - 1] : 0;
}

uint64_t app_take(struct worker *w, enum pool_id id)
{
	return w->pools[id].n ? w->pools[id].v[--w->pools[id].n] : 0;
}

/* 1, 2, 3, 16, 17, 100 and too many copies: less than one read of the tracer, one, more. */
size_t app_fill_batch(struct app_batch *ret_batch, unsigned i)
{
	static const size_t counts[8] = {1, 2, 3, 16, 17, 100, 128, APP_BATCH_MAX};
	size_t n = counts[i % 8];

	ret_batch->seen_bytes = 0;
	for (size_t k = 0; k < n; k++) {
		ret_batch->dsts[k] = (CUdeviceptr)device_ptr(i + (unsigned)k);
		ret_batch->srcs[k] = (CUdeviceptr)host_ptr(i + (unsigned)k);
		ret_batch->sizes[k] = 1000 + i * 10 + k;
		if (k < APP_BATCH_SEEN)
			ret_batch->seen_bytes += ret_batch->sizes[k];
	}
	return n;
}

size_t app_boxes(unsigned i)
{
	static const size_t counts[8] = {1, 2, 3, 4, 5, 31, 32, APP_BOX_MAX};

	return counts[i % 8];
}

static bool is_answer(const struct call *call, int r)
{
	return r == (call->library == LIB_NCCL ? IN_PROGRESS : NOT_READY);
}

static void count_code(struct tally *t, int code)
{
	for (unsigned i = 0; i < CODE_MAX; i++)
		if (!t->codes[i].n || t->codes[i].code == code) {
			t->codes[i].code = code;
			t->codes[i].n++;
			return;
		}
}

static void add_call(struct tally *t, const struct call *call, int r, const struct seen *s)
{
	if (!t->calls++) {
		t->first = *s;
		t->first_ret = r;
	}
	t->last = *s;
	t->last_ret = r;
	if (r)
		count_code(t, r);
	if (is_answer(call, r))
		t->answers++;
	else if (r)
		t->errors++;
	else
		t->bytes += s->bytes;
	if (!s->gave)
		return;
	if (!t->values)
		t->values = calloc(VALUE_MAX, sizeof(*t->values));
	if (t->values && t->n_values < VALUE_MAX)
		t->values[t->n_values] = s->value;
	t->n_values++;
}

static void make_call(struct runner *run, unsigned at, unsigned i)
{
	const struct call *call = call_at(at);
	struct seen s = {0};
	bool bad = run->w.bad, asks_last = strstr(call->name, "LastError") != NULL;
	int r = call->fn(&run->w, symbols[at], i, &s);

	add_call(&run->tally[at], call, r, &s);
	if (!asks_last && !is_answer(call, r) && (r != 0) != bad) {
		if (!run->surprises++)
			fprintf(stderr, "fake_app: %s call %u%s returned %d\n", call->name, i,
				bad ? " (to fail)" : "", r);
	}
}

/* Called by the library, inside a traced call. */
void app_host_function(void *worker)
{
	struct runner *run = worker; /* its first member */
	bool bad = run->w.bad;

	run->n_host++;
	run->w.bad = false;
	if (opt.nested)
		make_call(run, copy_call, (unsigned)run->n_inner_copies++);
	if (run->depth < opt.max_depth) {
		run->depth++;
		run->n_open++;
		make_call(run, host_call, run->depth);
		run->n_open--;
		run->depth--;
	} else if (run->jumping) {
		longjmp(*run->jump, 1);
	}
	run->w.bad = bad;
}

/* Calls that never return: their frames are jumped over. */
static void jump_out(struct runner *run)
{
	jmp_buf jump;

	run->jump = &jump;
	run->jumping = true;
	for (volatile unsigned i = 0; i < opt.longjmps; i++) {
		run->depth = 0;
		run->n_open = 1;
		if (setjmp(jump) == 0)
			make_call(run, host_call, i);
		else
			run->abandoned += run->n_open;
	}
	run->jumping = false;
	run->depth = 0;
}

static void *run_list(void *arg)
{
	struct runner *run = arg;

	run->tid = gettid();
	pthread_barrier_wait(&start);
	for (unsigned k = 0; k < opt.n_items; k++) {
		run->w.bad = opt.items[k].bad;
		for (uint64_t i = 0; i < opt.items[k].n; i++)
			make_call(run, opt.items[k].call, (unsigned)i);
	}
	run->w.bad = false;
	if (opt.longjmps)
		jump_out(run);
	return NULL;
}

/* --- what was done, as JSON --- */

static void print_seen(FILE *out, const char *name, const struct seen *s, int ret)
{
	fprintf(out,
		"\"%s\":{\"bytes\":%" PRIu64 ",\"stream\":%" PRIu64 ",\"aux\":%" PRIu32
		",\"arg\":[%" PRIu64 ",%" PRIu64 ",%" PRIu64 ",%" PRIu64 "],\"ret\":%d}",
		name, s->bytes, s->stream, s->aux, s->arg[0], s->arg[1], s->arg[2], s->arg[3], ret);
}

/* The tallies of one function in all threads as one; first and last are the first thread's. */
static struct tally sum_of(const struct runner *runs, unsigned at)
{
	struct tally sum = runs[0].tally[at];

	for (unsigned k = 1; k < opt.n_threads; k++) {
		const struct tally *t = &runs[k].tally[at];

		sum.calls += t->calls;
		sum.errors += t->errors;
		sum.answers += t->answers;
		sum.bytes += t->bytes;
		sum.n_values += t->n_values;
		for (unsigned c = 0; c < CODE_MAX && t->codes[c].n; c++)
			for (uint64_t n = 0; n < t->codes[c].n; n++)
				count_code(&sum, t->codes[c].code);
	}
	return sum;
}

static void print_values(FILE *out, const struct runner *runs, unsigned at)
{
	unsigned listed = 0;

	fprintf(out, ",\"values\":[");
	for (unsigned k = 0; k < opt.n_threads; k++) {
		const struct tally *t = &runs[k].tally[at];

		for (uint64_t i = 0; t->values && i < t->n_values && i < VALUE_MAX; i++)
			fprintf(out, "%s%" PRIu64, listed++ ? "," : "", t->values[i]);
	}
	fprintf(out, "]");
}

static void print_function(FILE *out, const struct runner *runs, unsigned at, bool comma)
{
	struct tally t = sum_of(runs, at);

	fprintf(out,
		"%s\"%s\":{\"calls\":%" PRIu64 ",\"errors\":%" PRIu64 ",\"answers\":%" PRIu64
		",\"bytes\":%" PRIu64 ",\"codes\":{",
		comma ? "," : "", call_at(at)->name, t.calls, t.errors, t.answers, t.bytes);
	for (unsigned c = 0; c < CODE_MAX && t.codes[c].n; c++)
		fprintf(out, "%s\"%d\":%" PRIu64, c ? "," : "", t.codes[c].code, t.codes[c].n);
	fprintf(out, "},\"n_values\":%" PRIu64, t.n_values);
	if (t.n_values)
		print_values(out, runs, at);
	fprintf(out, ",");
	print_seen(out, "first", &t.first, t.first_ret);
	fprintf(out, ",");
	print_seen(out, "last", &t.last, t.last_ret);
	fprintf(out, "}");
}

/* Driver functions that calls of the runtime passed, by name. */
static void print_inner(FILE *out, const struct runner *runs)
{
	bool comma = false;

	fprintf(out, "},\"inner\":{");
	for (unsigned d = 0; d < n_calls; d++) {
		uint64_t n = 0;

		for (unsigned i = 0; call_at(d)->library == LIB_DRV && i < n_calls; i++)
			if (call_at(i)->inner && strcmp(call_at(i)->inner, call_at(d)->name) == 0) {
				struct tally t = sum_of(runs, i);

				n += t.calls - t.errors;
			}
		if (n)
			fprintf(out, "%s\"%s\":%" PRIu64, comma ? "," : "", call_at(d)->name, n);
		comma |= n != 0;
	}
	fprintf(out, "}");
}

static uint64_t print_process(const struct runner *runs, bool child)
{
	uint64_t abandoned = 0, surprises = 0, host = 0;
	bool comma = false;
	FILE *out = stdout;

	sem_wait(printing);
	fprintf(out, "{\"pid\":%d,\"ppid\":%d,\"image\":%u,\"role\":\"%s\",\"threads\":[", getpid(),
		getppid(), opt.image, child ? "child" : "main");
	for (unsigned k = 0; k < opt.n_threads; k++) {
		fprintf(out, "%s%d", k ? "," : "", runs[k].tid);
		abandoned += runs[k].abandoned;
		surprises += runs[k].surprises;
		host += runs[k].n_host;
	}
	fprintf(out, "],\"functions\":{");
	for (unsigned i = 0; i < n_calls; i++)
		if (sum_of(runs, i).calls) {
			print_function(out, runs, i, comma);
			comma = true;
		}
	print_inner(out, runs);
	fprintf(out,
		",\"host_functions\":%" PRIu64 ",\"abandoned\":{\"%s\":%" PRIu64
		"},\"hang\":\"%s\",\"surprises\":%" PRIu64 "}\n",
		host, call_at(host_call)->name, abandoned, opt.hang ? opt.hang : "", surprises);
	fflush(out);
	sem_post(printing);
	return surprises;
}

/* --- the process --- */

static void wait_for(const char *path)
{
	struct timespec t = {0, 2000000};

	while (path && access(path, F_OK) != 0)
		nanosleep(&t, NULL);
}

#ifdef APP_LATE
static void find_symbols(void)
{
	static const char *const files[N_LIBS] = {"libcudart.so.13", "libcuda.so.1",
						  "libnccl.so.2"};
	void *handles[N_LIBS] = {NULL};

	for (unsigned i = 0; i < n_calls; i++) {
		enum call_library library = call_at(i)->library;
		char path[4096];

		if (!handles[library]) {
			snprintf(path, sizeof(path), "%s/%s", opt.dlopen_dir, files[library]);
			handles[library] = dlopen(path, RTLD_NOW | RTLD_LOCAL);
			if (!handles[library])
				die("%s", dlerror());
		}
		symbols[i] = dlsym(handles[library], call_at(i)->name);
		if (!symbols[i])
			die("%s", dlerror());
	}
}
#else
static void find_symbols(void)
{
	for (unsigned i = 0; i < n_calls; i++)
		symbols[i] = call_at(i)->linked;
}
#endif

static uint64_t run_process(bool child)
{
	struct runner *runs = calloc(opt.n_threads, sizeof(*runs));
	pthread_t threads[THREAD_MAX];
	uint64_t surprises;

	if (!runs)
		die("no memory");
	pthread_barrier_init(&start, NULL, opt.n_threads);
	if (opt.n_threads == 1) {
		run_list(&runs[0]);
	} else {
		for (unsigned k = 0; k < opt.n_threads; k++)
			if (pthread_create(&threads[k], NULL, run_list, &runs[k]))
				die("cannot start a thread");
		for (unsigned k = 0; k < opt.n_threads; k++)
			pthread_join(threads[k], NULL);
	}
	surprises = print_process(runs, child);
	if (opt.hang && !child)
		make_call(&runs[0], find_call(opt.hang, strlen(opt.hang)), 0);
	for (unsigned k = 0; k < opt.n_threads; k++) {
		for (unsigned p = 0; p < N_POOLS; p++)
			free(runs[k].w.pools[p].v);
		for (unsigned i = 0; i < n_calls; i++)
			free(runs[k].tally[i].values);
	}
	free(runs);
	return surprises;
}

static uint64_t run_children(void)
{
	uint64_t bad = 0;
	pid_t pids[THREAD_MAX];

	for (unsigned k = 0; k < opt.n_forks; k++) {
		pids[k] = fork();
		if (pids[k] < 0)
			die("cannot fork");
		if (pids[k] == 0)
			_exit(run_process(true) ? 1 : 0);
	}
	bad += run_process(false);
	for (unsigned k = 0; k < opt.n_forks; k++) {
		int status;

		if (waitpid(pids[k], &status, 0) != pids[k] || status != 0)
			bad++;
	}
	return bad;
}

/* The same again in a fresh image; the files that it would wait for are there. */
static __attribute__((noreturn)) void run_again(int argc, char **argv)
{
	char **again = calloc((size_t)argc + 2, sizeof(*again));
	int n = 0;

	if (!again)
		die("no memory");
	for (int i = 0; i < argc; i++) {
		if (strcmp(argv[i], "--exec") != 0)
			again[n++] = argv[i];
		if (i == 0)
			again[n++] = "--image=2";
	}
	execv("/proc/self/exe", again);
	die("cannot run again: %s", strerror(errno));
}

#ifndef APP_LATE
/* Linked libraries are there from the start; the program without them is beside this one. */
static __attribute__((noreturn)) void run_late(char **argv)
{
	char path[4096];
	ssize_t n = readlink("/proc/self/exe", path, sizeof(path) - sizeof("fake_app_late"));
	char *slash;

	path[n > 0 ? n : 0] = '\0';
	slash = strrchr(path, '/');
	if (slash) {
		strcpy(slash + 1, "fake_app_late");
		execv(path, argv);
	}
	die("cannot run %s: %s", path, strerror(errno));
}
#endif

static unsigned number(const char *text, unsigned max)
{
	char *end;
	unsigned long n = strtoul(text, &end, 10);

	if (end == text || *end || n > max)
		die("'%s' is not a number up to %u", text, max);
	return (unsigned)n;
}

static void read_item(const char *text)
{
	const char *equals = strchr(text, '='), *colon = memchr(text, ':', strcspn(text, "="));
	struct item *item = &opt.items[opt.n_items];

	if (!equals || opt.n_items == ITEM_MAX)
		die("'%s': FUNCTION=COUNT or FUNCTION:bad=COUNT is wanted", text);
	if (colon && strncmp(colon, ":bad=", 5) != 0)
		die("'%s': the only way to call is :bad", text);
	*item = (struct item){
		find_call(text, (size_t)((colon ? colon : equals) - text)),
		colon != NULL,
		number(equals + 1, 100000000),
	};
	opt.n_items++;
}

static void list_functions(void)
{
	for (unsigned i = 0; i < n_calls; i++)
		puts(call_at(i)->name);
	exit(0);
}

static void read_options(int argc, char **argv)
{
	static const struct option options[] = {
		{"dlopen", required_argument, NULL, 'd'},
		{"threads", required_argument, NULL, 't'},
		{"fork", required_argument, NULL, 'f'},
		{"exec", no_argument, NULL, 'e'},
		{"image", required_argument, NULL, 'i'},
		{"nested", optional_argument, NULL, 'n'},
		{"longjmp", required_argument, NULL, 'j'},
		{"hang", required_argument, NULL, 'h'},
		{"wait-file", required_argument, NULL, 'w'},
		{"go-file", required_argument, NULL, 'g'},
		{"hold-file", required_argument, NULL, 'H'},
		{"pause-ms", required_argument, NULL, 'p'},
		{"list", no_argument, NULL, 'l'},
		{NULL, 0, NULL, 0},
	};

	for (int c; (c = getopt_long(argc, argv, "", options, NULL)) != -1;)
		switch (c) {
		case 'd':
			opt.dlopen_dir = optarg;
			break;
		case 't':
			opt.n_threads = number(optarg, THREAD_MAX);
			break;
		case 'f':
			opt.n_forks = number(optarg, THREAD_MAX);
			break;
		case 'e':
			opt.exec = true;
			break;
		case 'i':
			opt.image = number(optarg, 2);
			break;
		case 'n':
			opt.nested = true;
			opt.max_depth = optarg ? number(optarg, 1000) : 0;
			break;
		case 'j':
			opt.longjmps = number(optarg, 1000000);
			break;
		case 'h':
			opt.hang = optarg;
			break;
		case 'w':
			opt.wait_file = optarg;
			break;
		case 'g':
			opt.go_file = optarg;
			break;
		case 'H':
			opt.hold_file = optarg;
			break;
		case 'p':
			opt.pause_ms = number(optarg, 3600000);
			break;
		case 'l':
			list_functions();
			break;
		default:
			exit(2);
		}
	if (!opt.n_threads)
		die("--threads wants at least 1");
	for (int i = optind; i < argc; i++)
		read_item(argv[i]);
}

int main(int argc, char **argv)
{
	uint64_t bad;

	n_calls = (unsigned)(__stop_fake_calls - __start_fake_calls);
	if (n_calls > CALL_MAX)
		die("CALL_MAX is too small");
	copy_call = find_call("cudaMemcpyAsync", strlen("cudaMemcpyAsync"));
	host_call = find_call("cudaLaunchHostFunc", strlen("cudaLaunchHostFunc"));
	read_options(argc, argv);
#ifdef APP_LATE
	if (!opt.dlopen_dir)
		die("--dlopen DIR is needed: this program is linked to nothing");
#else
	if (opt.dlopen_dir)
		run_late(argv);
#endif
	if (opt.hang) {
		find_call(opt.hang, strlen(opt.hang));
		setenv("FAKE_CUDA_HANG", opt.hang, 1);
	}
	printing = mmap(NULL, sizeof(*printing), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS,
			-1, 0);
	if (printing == MAP_FAILED || sem_init(printing, 1, 1) != 0)
		die("cannot share a semaphore");
	wait_for(opt.wait_file);
	find_symbols();
	wait_for(opt.go_file);
	if (opt.pause_ms)
		usleep(opt.pause_ms * 1000);
	bad = run_children();
	if (opt.exec && !bad)
		run_again(argc, argv);
	wait_for(opt.hold_file);
	return bad ? 1 : 0;
}
