/*
 * Programs whose end depends on the stack being unwound through CUDA: a thread that is cancelled
 * while it waits there or enters with the cancellation pending, and callbacks that throw. Prints
 * what became of the thread and of the object in its outermost frame. Needs nothing to build but a
 * compiler: libraries are opened at run time, the kernel that keeps the GPU busy is PTX.
 *
 *   harm CASE       one line and an exit status; `harm list` names the cases
 *   harm points     names the cases that say which functions that queue work, or ask, are
 *                   cancellation points
 *   harm contexts   the same for the first calls of a thread, of a device and of a kernel, for which
 *                   CUDA may have to make or load something; HARM_CUBIN: what ptxas makes of the
 *                   output of `harm ptx` for the GPU at hand (not for kernels that are only PTX)
 *   harm price      ns a call of some functions, without waiting
 */
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <dlfcn.h>
#include <exception>
#include <pthread.h>
#include <stdexcept>
#include <unistd.h>

typedef int (*fn0)();
typedef int (*fn1)(void *);
typedef int (*fn2)(void *, void *);
typedef int (*fn3)(void *, void *, void *);

static const char spin_ptx[] = ".version 7.0\n.target sm_50\n.address_size 64\n"
			       ".visible .entry spin(.param .u64 ns)\n{\n"
			       ".reg .u64 %a, %b, %d, %n;\n.reg .pred %p;\n"
			       "ld.param.u64 %n, [ns];\nmov.u64 %a, %globaltimer;\n"
			       "again:\nmov.u64 %b, %globaltimer;\nsub.u64 %d, %b, %a;\n"
			       "setp.lt.u64 %p, %d, %n;\n@%p bra again;\nret;\n}\n";

static void *driver, *runtime;

static void *function(void *library, const char *name)
{
	void *f = dlsym(library, name);

	if (!f) {
		printf("no %s\n", name);
		fflush(stdout);
		_exit(3);
	}
	return f;
}

#define DRIVER(type, name)  ((type)function(driver, name))
#define RUNTIME(type, name) ((type)function(runtime, name))

static void check(const char *what, int r)
{
	if (r) {
		printf("%s: error %d\n", what, r);
		fflush(stdout);
		_exit(3);
	}
}

static void open_libraries()
{
	const char *path = getenv("HARM_CUDART");

	driver = dlopen("libcuda.so.1", RTLD_NOW | RTLD_GLOBAL);
	runtime = dlopen(path && *path ? path : "libcudart.so", RTLD_NOW | RTLD_GLOBAL);
	if (!driver || !runtime) {
		printf("cannot open CUDA: %s\n", dlerror());
		fflush(stdout);
		_exit(3);
	}
}

static void *stream, *event;

/* The GPU is busy for that long on the stream. */
static void keep_busy(unsigned long long ns)
{
	typedef int (*launch)(void *, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned,
			      unsigned, void *, void **, void **);
	void *module, *kernel, *args[] = {&ns};

	check("cuModuleLoadData", DRIVER(fn2, "cuModuleLoadData")(&module, (void *)spin_ptx));
	check("cuModuleGetFunction",
	      DRIVER(fn3, "cuModuleGetFunction")(&kernel, module, (void *)"spin"));
	check("cuLaunchKernel",
	      DRIVER(launch, "cuLaunchKernel")(kernel, 1, 1, 1, 1, 1, 1, 0, stream, args, nullptr));
	check("cudaEventRecord", RUNTIME(fn2, "cudaEventRecord")(event, stream));
}

static void begin(bool blocking)
{
	typedef int (*with_flags)(void **, unsigned);

	check("cudaSetDeviceFlags",
	      RUNTIME(int (*)(unsigned), "cudaSetDeviceFlags")(blocking ? 4 : 1));
	check("cudaFree", RUNTIME(fn1, "cudaFree")(nullptr));
	check("cudaStreamCreate", RUNTIME(fn1, "cudaStreamCreate")(&stream));
	check("cudaEventCreateWithFlags",
	      RUNTIME(with_flags, "cudaEventCreateWithFlags")(&event, blocking ? 1 : 0));
}

static volatile bool released;

struct lock {
	~lock()
	{
		released = true;
	}
};

struct waiting {
	const char *name;
	bool asynchronous, pending;
	volatile bool ready;
};

static void wait_in(const char *name)
{
	void *p = nullptr;
	char word[8];

	if (!strcmp(name, "cuCtxSynchronize"))
		DRIVER(fn0, name)();
	else if (!strcmp(name, "cuStreamSynchronize"))
		DRIVER(fn1, name)(stream);
	else if (!strcmp(name, "cudaDeviceSynchronize"))
		RUNTIME(fn0, name)();
	else if (!strcmp(name, "cudaStreamSynchronize"))
		RUNTIME(fn1, name)(stream);
	else if (!strcmp(name, "cudaEventSynchronize"))
		RUNTIME(fn1, name)(event);
	else if (!strcmp(name, "cudaMalloc"))
		RUNTIME(int (*)(void **, size_t), name)(&p, 1 << 20);
	else if (!strcmp(name, "cudaFree"))
		RUNTIME(fn1, name)(nullptr);
	else if (!strcmp(name, "cudaMemcpy")) {
		RUNTIME(int (*)(void **, size_t), "cudaMalloc")(&p, 8);
		RUNTIME(int (*)(void *, void *, size_t, int), name)(word, p, 8, 2);
	}
}

static void *wait_thread(void *arg)
{
	struct waiting *w = (struct waiting *)arg;
	lock l;

	pthread_setcanceltype(
		w->asynchronous ? PTHREAD_CANCEL_ASYNCHRONOUS : PTHREAD_CANCEL_DEFERRED, nullptr);
	w->ready = true;
	if (w->pending)
		for (volatile unsigned long i = 0; i < 400000000; i++)
			;
	wait_in(w->name);
	return nullptr;
}

static int cancel(const char *name, bool blocking, bool asynchronous, bool pending, bool first)
{
	struct waiting w = {name, asynchronous, pending, false};
	struct timespec until;
	void *result = nullptr;
	pthread_t thread;
	int r;

	if (!first) {
		begin(blocking);
		if (!pending)
			keep_busy(1500000000);
	}
	pthread_create(&thread, nullptr, wait_thread, &w);
	while (!w.ready)
		usleep(1000);
	if (!pending)
		usleep(400000);
	pthread_cancel(thread);
	clock_gettime(CLOCK_REALTIME, &until);
	until.tv_sec += 20;
	r = pthread_timedjoin_np(thread, &result, &until);
	printf("joined %d cancelled %d released %d\n", r, result == PTHREAD_CANCELED, released);
	fflush(stdout);
	/* The driver's locks may be held by the thread that is gone. */
	_exit(0);
}

static void throws(void *)
{
	throw std::runtime_error("from a callback");
}

static void throws_with_result(void *, int, void *)
{
	throw std::runtime_error("from a callback");
}

static void catches(void *arg)
{
	try {
		throw 1;
	} catch (int) {
		*(volatile int *)arg += 1;
	}
}

static void exits(void *)
{
	pthread_exit(nullptr);
}

static int callback(const char *name, void (*fn)(void *))
{
	volatile int n_caught = 0;
	bool is_driver = name[2] != 'd', is_old = strstr(name, "AddCallback");
	void *library = is_driver ? driver : runtime, *f;
	int r;

	begin(true);
	f = function(library, name);
	try {
		if (is_old)
			r = ((int (*)(void *, void (*)(void *, int, void *), void *, unsigned))f)(
				stream, throws_with_result, nullptr, 0);
		else
			r = ((int (*)(void *, void (*)(void *), void *))f)(stream, fn,
									   (void *)&n_caught);
		printf("made %d, ", r);
		fflush(stdout);
		if (fn == exits)
			usleep(500000);
		else
			r = RUNTIME(fn1, "cudaStreamSynchronize")(stream);
		printf("waited %d, caught inside %d\n", r, n_caught);
	} catch (const std::exception &e) {
		printf("caught outside\n");
	}
	fflush(stdout);
	_exit(0);
}

/* ---- points: a cancellation is pending all the time; the thread ends where it is looked at ----
 */

#define POINT_CALLS 4000

struct point {
	const char *name;
	void *kernel, *graph, *device, *host, *pinned;
	volatile int n_calls, n_failed;
};

static void *point_thread(void *arg)
{
	typedef int (*launch)(void *, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned,
			      unsigned, void *, void **, void **);
	typedef int (*copy)(void *, void *, size_t, void *);
	typedef int (*copy_rt)(void *, void *, size_t, int, void *);
	typedef int (*fill)(void *, unsigned char, size_t, void *);
	typedef int (*fill_rt)(void *, int, size_t, void *);
	typedef int (*get)(void **, size_t, void *);
	struct point *p = (struct point *)arg;
	unsigned long long ns = 20000;
	void *args[] = {&ns}, *made = nullptr;
	bool runtime_function = !strncmp(p->name, "cuda", 4);
	void *f = function(runtime_function ? runtime : driver, p->name);
	lock l;

	pthread_cancel(pthread_self());
	for (; p->n_calls < POINT_CALLS; p->n_calls = p->n_calls + 1) {
		int r = 0;

		if (!strcmp(p->name, "cuLaunchKernel"))
			r = ((launch)f)(p->kernel, 1, 1, 1, 1, 1, 1, 0, stream, args, nullptr);
		else if (!strcmp(p->name, "cuGraphLaunch"))
			r = ((fn2)f)(p->graph, stream);
		else if (strstr(p->name, "EventRecord"))
			r = ((fn2)f)(event, stream);
		else if (strstr(p->name, "EventQuery"))
			((fn1)f)(event);
		else if (strstr(p->name, "StreamQuery"))
			((fn1)f)(stream);
		else if (!strcmp(p->name, "cuCtxSetCurrent"))
			r = ((fn1)f)(p->kernel);
		else if (strstr(p->name, "Current_v2")) /* push and pop in turn */
			r = DRIVER(fn1, "cuCtxPushCurrent_v2")(p->kernel) ||
			    DRIVER(fn1, "cuCtxPopCurrent_v2")(&made);
		else if (!strcmp(p->name, "cuStreamWaitEvent"))
			r = ((int (*)(void *, void *, unsigned))f)(stream, event, 0);
		else if (!strcmp(p->name, "cuMemcpyHtoDAsync_v2"))
			r = ((copy)f)(p->device, p->n_calls % 2 ? p->host : p->pinned, 1 << 16,
				      stream);
		else if (!strcmp(p->name, "cuMemcpyDtoHAsync_v2"))
			r = ((copy)f)(p->n_calls % 2 ? p->host : p->pinned, p->device, 1 << 16,
				      stream);
		else if (!strcmp(p->name, "cudaMemcpyAsync"))
			r = ((copy_rt)f)(p->device, p->host, 1 << 16, 1, stream);
		else if (!strcmp(p->name, "cuMemsetD8Async"))
			r = ((fill)f)(p->device, 1, 1 << 16, stream);
		else if (!strcmp(p->name, "cudaMemsetAsync"))
			r = ((fill_rt)f)(p->device, 1, 1 << 16, stream);
		else if (strstr(p->name, "AllocAsync") || strstr(p->name, "MallocAsync"))
			r = ((get)f)(&made, 1 << 16, stream);
		else
			r = -1;
		if (r)
			p->n_failed = p->n_failed + 1;
	}
	return nullptr;
}

static int point(const char *name, bool first)
{
	struct point p = {};
	void *module, *graph, *result = nullptr;
	struct timespec until;
	pthread_t thread;
	int r;

	p.name = name;
	if (!first) {
		begin(true);
		check("cuModuleLoadData",
		      DRIVER(fn2, "cuModuleLoadData")(&module, (void *)spin_ptx));
		check("cuModuleGetFunction",
		      DRIVER(fn3, "cuModuleGetFunction")(&p.kernel, module, (void *)"spin"));
		check("cuGraphCreate",
		      DRIVER(int (*)(void **, unsigned), "cuGraphCreate")(&graph, 0));
		check("cuGraphInstantiateWithFlags",
		      DRIVER(int (*)(void **, void *, unsigned long long),
			     "cuGraphInstantiateWithFlags")(&p.graph, graph, 0));
		check("cudaMalloc",
		      RUNTIME(int (*)(void **, size_t), "cudaMalloc")(&p.device, 1 << 20));
		check("cudaMallocHost",
		      RUNTIME(int (*)(void **, size_t), "cudaMallocHost")(&p.pinned, 1 << 20));
		p.host = malloc(1 << 20);
		check("cudaEventRecord", RUNTIME(fn2, "cudaEventRecord")(event, stream));
		if (strstr(name, "Ctx"))
			check("cuDevicePrimaryCtxRetain",
			      DRIVER(int (*)(void **, int), "cuDevicePrimaryCtxRetain")(&p.kernel,
											0));
	}
	pthread_create(&thread, nullptr, point_thread, &p);
	clock_gettime(CLOCK_REALTIME, &until);
	until.tv_sec += 20;
	r = pthread_timedjoin_np(thread, &result, &until);
	printf("joined %d after %d calls (%d failed): %s\n", r, p.n_calls, p.n_failed,
	       result == PTHREAD_CANCELED ? "a cancellation point" : "passed");
	fflush(stdout);
	_exit(0);
}

/* ---- contexts: one call with a cancellation pending, by many threads ---- */

#define FIRST_CALLS 200
#define JIT_MODULES 12
#define CUBIN_BYTES (8 << 20)

static char *fresh_kernels; /* their host addresses: one byte each */
static void *fill_at;       /* memory of the device */

/* The kernels from number `from` on. */
static char *fresh_ptx(int from, int n_kernels)
{
	char *text = (char *)calloc(n_kernels + 1, 96);
	int n = sprintf(text, ".version 7.0\n.target sm_50\n.address_size 64\n");

	for (int i = from; i < from + n_kernels; i++)
		n += sprintf(text + n, ".visible .entry fresh%d()\n{\nret;\n}\n", i);
	return text;
}

enum part_kind { PART_PTX = 1, PART_CUBIN = 2 };

/* What nvcc links into a program: a fat binary of one part, as `fatbinary --compress=false` writes it.
 * Of PTX the head goes on with the place of options for ptxas, of which there are none. */
static void *fat_binary(enum part_kind kind, const char *code, size_t bytes)
{
	struct wrapper {
		int magic, version;
		const void *data;
		void *unused;
	} * wrapper;
	struct part {
		uint32_t magic;
		uint16_t version, head_bytes;
		uint64_t bytes;
		uint16_t kind, part_version;
		uint32_t part_head_bytes;
		uint64_t part_bytes;
		uint32_t packed_bytes, options_at;
		uint16_t minor, major;
		uint32_t arch, name_at, name_bytes;
		uint64_t flags, zero, unpacked_bytes;
		char data[];
	} * part;
	bool is_ptx = kind == PART_PTX;
	size_t room = (bytes + 8) / 8 * 8; /* of text with its last zero */
	uint32_t head_bytes = is_ptx ? 80 : 64;

	part = (struct part *)calloc(1, sizeof(*part) + 16 + room);
	*part = {0xba55ed50,
		 1,
		 16,
		 head_bytes + room,
		 (uint16_t)kind,
		 0x101,
		 head_bytes,
		 room,
		 0,
		 is_ptx ? 64u : 0,
		 0,
		 7,
		 is_ptx ? 50u : 90u,
		 0,
		 0,
		 0x11,
		 0,
		 0};
	if (is_ptx)
		part->data[0] = 72;
	memcpy(part->data + head_bytes - 64, code, bytes);
	wrapper = (struct wrapper *)calloc(1, sizeof(*wrapper));
	*wrapper = {0x466243b1, 1, part, nullptr};
	return wrapper;
}

/* Makes kernels of a fat binary known to the runtime by the names that fresh_ptx() gives. */
static void register_binary(void *binary, int from, int n_kernels)
{
	typedef void **(*add_binary)(void *);
	typedef void (*add_function)(void **, const char *, char *, const char *, int, void *,
				     void *, void *, void *, int *);
	void **handle = RUNTIME(add_binary, "__cudaRegisterFatBinary")(binary);
	char name[16];

	for (int i = from; i < from + n_kernels; i++) {
		sprintf(name, "fresh%d", i);
		RUNTIME(add_function, "__cudaRegisterFunction")
		(handle, fresh_kernels + i, strdup(name), strdup(name), -1, nullptr, nullptr,
		 nullptr, nullptr, nullptr);
	}
	RUNTIME(void (*)(void **), "__cudaRegisterFatBinaryEnd")(handle);
}

/* A program's kernels. Unless CUDA_MODULE_LOADING is EAGER each is loaded when it is launched first. */
static void register_kernels(bool is_jit)
{
	const char *path = getenv("HARM_CUBIN");
	FILE *f = path ? fopen(path, "r") : nullptr;
	char *code;
	size_t bytes;

	fresh_kernels = (char *)malloc(FIRST_CALLS);
	if (is_jit) {
		for (int i = 0; i < JIT_MODULES; i++) {
			code = fresh_ptx(i, 1);
			register_binary(fat_binary(PART_PTX, code, strlen(code)), i, 1);
		}
		return;
	}
	code = (char *)calloc(1, CUBIN_BYTES);
	bytes = f ? fread(code, 1, CUBIN_BYTES, f) : 0;
	check("HARM_CUBIN", !bytes);
	register_binary(fat_binary(PART_CUBIN, code, bytes), 0, FIRST_CALLS);
}

/* Of the functions that give a kernel's handle: those of a kernel that is new, and of a thread that is. */
static const char *const handles[] = {"cudaGetFuncBySymbol", "cudaGetKernel", "cuModuleGetFunction",
				      "cuLibraryGetKernel", "cuKernelGetFunction"};

static bool gives_handle(const char *name)
{
	for (auto f : handles)
		if (!strcmp(f, name))
			return true;
	return false;
}

static void *fresh_module, *fresh_library, *fresh_handles[FIRST_CALLS];

/* The same kernels by the driver, which loads each when it is asked for or launched first. */
static void load_kernels()
{
	typedef int (*load_library)(void **, const void *, void *, void *, unsigned, void *, void *,
				    unsigned);
	const char *path = getenv("HARM_CUBIN");
	FILE *f = path ? fopen(path, "r") : nullptr;
	char *code = (char *)calloc(1, CUBIN_BYTES), name[16];

	check("HARM_CUBIN", !(f && fread(code, 1, CUBIN_BYTES, f)));
	check("cuModuleLoadData", DRIVER(fn2, "cuModuleLoadData")(&fresh_module, code));
	check("cuLibraryLoadData",
	      DRIVER(load_library, "cuLibraryLoadData")(&fresh_library, code, nullptr, nullptr, 0,
							nullptr, nullptr, 0));
	for (int i = 0; i < FIRST_CALLS; i++) {
		sprintf(name, "fresh%d", i);
		check("cuLibraryGetKernel",
		      DRIVER(fn3, "cuLibraryGetKernel")(&fresh_handles[i], fresh_library, name));
	}
	check("cuLibraryLoadData",
	      DRIVER(load_library, "cuLibraryLoadData")(&fresh_library, code, nullptr, nullptr, 0,
							nullptr, nullptr, 0));
}

struct first_call {
	const char *name;
	int i, device;
	bool has_context;
	volatile int result;
};

static int call_once(const char *name, int i)
{
	typedef int (*launch)(const void *, unsigned long long, unsigned, unsigned long long,
			      unsigned, void **, size_t, void *);
	char kernel[16];
	void *handle;
	int r = 0;

	sprintf(kernel, "fresh%d", i);
	if (!strcmp(name, "cudaGetFuncBySymbol") || !strcmp(name, "cudaGetKernel"))
		r = RUNTIME(fn2, name)(&handle, fresh_kernels + i);
	else if (!strcmp(name, "cuModuleGetFunction"))
		r = DRIVER(fn3, name)(&handle, fresh_module, kernel);
	else if (!strcmp(name, "cuLibraryGetKernel"))
		r = DRIVER(fn3, name)(&handle, fresh_library, kernel);
	else if (!strcmp(name, "cuKernelGetFunction"))
		r = DRIVER(fn2, name)(&handle, fresh_handles[i]);
	else if (!strcmp(name, "cudaLaunchKernel"))
		r = RUNTIME(launch, name)(fresh_kernels + i, 1ull << 32 | 1, 1, 1ull << 32 | 1, 1,
					  nullptr, 0, nullptr);
	else if (!strcmp(name, "cudaStreamQuery"))
		RUNTIME(fn1, name)(nullptr);
	else if (!strcmp(name, "cudaEventQuery"))
		RUNTIME(fn1, name)(event);
	else if (!strcmp(name, "cudaMemsetAsync"))
		RUNTIME(int (*)(void *, int, size_t, void *), name)(fill_at, 1, 8, nullptr);
	else
		r = -1;
	return r;
}

static void *first_thread(void *arg)
{
	struct first_call *c = (struct first_call *)arg;
	lock l;
	void *p;

	if (c->device)
		check("cudaSetDevice", RUNTIME(int (*)(int), "cudaSetDevice")(c->device));
	if (c->has_context)
		check("cudaMalloc", RUNTIME(int (*)(void **, size_t), "cudaMalloc")(&p, 8));
	pthread_cancel(pthread_self());
	c->result = call_once(c->name, c->i);
	return nullptr;
}

/* when: "process" nothing of CUDA was called before; "thread" not by this thread; "kernel" by this
 * thread, but the kernel is new; "jit" the same of kernels that are only PTX, each in a module of its own;
 * "device" not for that device; "reset" not since cudaDeviceReset. */
static int first_calls(const char *function_name, const char *when)
{
	bool is_jit = !strcmp(when, "jit"), is_kernel = is_jit || !strcmp(when, "kernel");
	int n = is_jit ? JIT_MODULES : is_kernel || !strcmp(when, "thread") ? FIRST_CALLS : 1;
	int n_cancelled = 0, n_released = 0, n_failed = 0, first = -1;

	register_kernels(is_jit);
	if (strcmp(when, "process")) {
		begin(true);
		check("cudaMalloc", RUNTIME(int (*)(void **, size_t), "cudaMalloc")(&fill_at, 8));
		if (gives_handle(function_name))
			load_kernels();
	}
	for (int i = 0; i < n; i++) {
		struct first_call c = {function_name, i, !strcmp(when, "device"), is_kernel, 0};
		void *result = nullptr;
		pthread_t thread;

		if (!strcmp(when, "reset"))
			check("cudaDeviceReset", RUNTIME(fn0, "cudaDeviceReset")());
		released = false;
		pthread_create(&thread, nullptr, first_thread, &c);
		pthread_join(thread, &result);
		n_released += released;
		n_cancelled += result == PTHREAD_CANCELED;
		n_failed += c.result != 0;
		if (result == PTHREAD_CANCELED && first < 0)
			first = i;
	}
	printf("%d cancelled (first: %d), %d of %d released, %d failed\n", n_cancelled, first,
	       n_released, n, n_failed);
	fflush(stdout);
	_exit(0);
}

static double now_ns()
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

#define PRICE(what, call)                                                                          \
	do {                                                                                       \
		double best = 1e18;                                                                \
		for (int round = 0; round < 20; round++) {                                         \
			double from = now_ns(), each;                                              \
			for (int i = 0; i < 500; i++)                                              \
				call;                                                              \
			each = (now_ns() - from) / 500;                                            \
			best = each < best ? each : best;                                          \
		}                                                                                  \
		printf("%-24s %8.0f\n", what, best);                                               \
	} while (0)

static int price()
{
	fn1 sync, query;
	fn2 record;
	int (*get)(int *);
	int device;

	begin(false);
	sync = RUNTIME(fn1, "cudaStreamSynchronize");
	query = RUNTIME(fn1, "cudaStreamQuery");
	record = RUNTIME(fn2, "cudaEventRecord");
	get = RUNTIME(int (*)(int *), "cudaGetDevice");
	PRICE("cudaStreamSynchronize", sync(stream));
	PRICE("cudaStreamQuery", query(stream));
	PRICE("cudaEventRecord", record(event, stream));
	PRICE("cudaGetDevice", get(&device));
	fflush(stdout);
	_exit(0);
}

static const char *const waits[] = {"cuCtxSynchronize", "cuStreamSynchronize",
				    "cudaDeviceSynchronize", "cudaStreamSynchronize",
				    "cudaEventSynchronize"};
static const char *const entries[] = {"cudaFree", "cudaMalloc", "cudaMemcpy"};
static const char *const points[] = {
	"cuLaunchKernel",  "cuGraphLaunch",      "cuEventRecord",        "cuEventQuery",
	"cuStreamQuery",   "cuStreamWaitEvent",  "cuMemcpyHtoDAsync_v2", "cuMemcpyDtoHAsync_v2",
	"cuMemsetD8Async", "cuMemAllocAsync",    "cudaMemcpyAsync",      "cudaMemsetAsync",
	"cudaEventRecord", "cudaEventQuery",     "cudaStreamQuery",      "cudaMallocAsync",
	"cuCtxSetCurrent", "cuCtxPushCurrent_v2"};
static const char *const firsts[] = {"cudaLaunchKernel", "cudaStreamQuery", "cudaEventQuery",
				     "cudaMemsetAsync"};
static const char *const times[] = {"process", "thread", "kernel", "device", "reset", "jit"};
static const char *const callbacks[] = {"cuLaunchHostFunc", "cudaLaunchHostFunc"};

int main(int argc, char **argv)
{
	const char *wanted = argc > 1 ? argv[1] : "list";
	char name[128];

#define CASE(...)                                                                                  \
	snprintf(name, sizeof(name), __VA_ARGS__);                                                 \
	if (!strcmp(wanted, "list"))                                                               \
		puts(name);                                                                        \
	else if (!strcmp(wanted, name))

	if (!strcmp(wanted, "ptx"))
		return puts(fresh_ptx(0, FIRST_CALLS)) < 0;
	if (strcmp(wanted, "list") && strcmp(wanted, "points") && strcmp(wanted, "contexts"))
		open_libraries();
	if (!strcmp(wanted, "price"))
		return price();
	for (auto f : points)
		for (int first = 0; first < 2; first++) {
			snprintf(name, sizeof(name), "point:%s:%s", f, first ? "first" : "later");
			if (!strcmp(wanted, "points") && !(first && f[2] != 'd'))
				puts(name);
			else if (!strcmp(wanted, name))
				return point(f, first);
		}
	for (auto f : firsts)
		for (auto when : times) {
			snprintf(name, sizeof(name), "first:%s:%s", f, when);
			if (!strcmp(when, "jit") && strcmp(f, "cudaLaunchKernel"))
				continue;
			if (!strcmp(wanted, "contexts"))
				puts(name);
			else if (!strcmp(wanted, name))
				return first_calls(f, when);
		}
	for (auto f : handles)
		for (auto when : {"thread", "kernel"}) {
			snprintf(name, sizeof(name), "first:%s:%s", f, when);
			if (!strcmp(wanted, "contexts"))
				puts(name);
			else if (!strcmp(wanted, name))
				return first_calls(f, when);
		}
	if (!strcmp(wanted, "points") || !strcmp(wanted, "contexts"))
		return 0;
	for (auto f : waits)
		for (int i = 0; i < 4; i++) {
			CASE("cancel:%s:%s:%s", f, i & 1 ? "blocking" : "spinning",
			     i & 2 ? "asynchronous" : "deferred")
			return cancel(f, i & 1, i & 2, false, false);
		}
	for (auto f : entries)
		for (int i = 0; i < 2; i++) {
			CASE("pending:%s:%s", f, i ? "first" : "later")
			return cancel(f, true, false, true, i);
		}
	for (auto f : callbacks) {
		CASE("throw:%s", f)
		return callback(f, throws);
		CASE("catch:%s", f)
		return callback(f, catches);
		CASE("exit:%s", f)
		return callback(f, exits);
	}
	for (auto f : {"cuStreamAddCallback", "cudaStreamAddCallback"}) {
		CASE("throw:%s", f)
		return callback(f, throws);
	}
	return strcmp(wanted, "list") ? 2 : 0;
}
