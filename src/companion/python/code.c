/*
 * Functions by their code objects. A code object is found by its address; when it is freed a weak reference says so, so that
 * another one in its place is not taken for it. The number belongs to file, name and line: code that is made again and again
 * (exec(), classes in functions) has one number, and what there is of numbers and names is bounded.
 *
 * The table is read without a lock, by threads that run the very code object they look for, which thus cannot be freed.
 */
#include "companion/python/python_int.h"

#include <linux/mman.h>
#include <sys/mman.h>

#include "companion/ring/sys.h"
#include "model/trace/python_match.h"

#define TABLE_FULL (PYTHON_TABLE / 4 * 3)
#define PLACES     (2 * GS_COMPANION_PYTHON_FUNCS)
#define GONE       1ull
#define GENERATORS 0x2a0 /* CO_GENERATOR, CO_COROUTINE, CO_ASYNC_GENERATOR */
#define RESUME_311 151   /* the instruction, of 3.11 */

uint64_t *python_code_table;

static struct {
	uint64_t owner; /* process << 32 | thread, while it is changed */
	uint32_t n_used, n_numbers;
	uint64_t places[PLACES];    /* hash of file, name and line; 0 empty */
	uint16_t number_of[PLACES]; /* 0: the function is not wanted */
	int32_t begin[GS_COMPANION_PYTHON_FUNCS];
	struct gs_companion_python_names *names;   /* ours: forked children need them again */
	struct gs_companion_python_names *in_file; /* of that epoch; NULL none */
	uint64_t epoch;
} book;

/* Held for some us; what a forked child inherits of another thread is no lock. */
static void lock_book(void)
{
	uint64_t pid = (uint64_t)COMPANION_SYS3(getpid, 0, 0, 0) << 32;
	uint64_t me = pid | (uint32_t)COMPANION_SYS3(gettid, 0, 0, 0), now = 0;

	while (!__atomic_compare_exchange_n(&book.owner, &now, me, false, __ATOMIC_ACQUIRE,
					    __ATOMIC_RELAXED)) {
		if (now >> 32 == pid >> 32)
			now = 0;
		COMPANION_SYS3(sched_yield, 0, 0, 0);
	}
}

static void unlock_book(void)
{
	__atomic_store_n(&book.owner, 0, __ATOMIC_RELEASE);
}

static void *map_pages(size_t bytes)
{
	long at = COMPANION_SYS6(mmap, 0, bytes, PROT_READ | PROT_WRITE,
				 MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	return at < 0 && at > -4096 ? NULL : (void *)at;
}

bool python_code_start(void)
{
	python_code_table = map_pages(PYTHON_TABLE * sizeof(*python_code_table));
	book.names = map_pages(sizeof(*book.names));
	return python_code_table && book.names;
}

bool python_code_again(void)
{
	lock_book();
	for (uint32_t i = 0; i < PYTHON_TABLE; i++)
		if (python_code_table[i] > GONE)
			python_code_table[i] |= PYTHON_ASK;
	for (uint32_t i = 0; book.n_numbers && i < PLACES; i++)
		book.places[i] = book.number_of[i] = 0;
	for (uint32_t i = 0; i <= book.n_numbers; i++)
		book.begin[i] = 0;
	book.n_numbers = 0;
	book.names->written = 0;
	book.in_file = NULL;
	unlock_book();
	return true;
}

int python_code_begin(uint32_t number)
{
	return book.begin[number];
}

/* --- names --- */

struct text {
	PyObject *bytes; /* owned; NULL: it could not be had */
	char *at;
	ssize_t n;
};

static struct text text_of(PyObject *code, const char *attribute)
{
	PyObject *o = python_api.PyObject_GetAttrString(code, attribute);
	struct text t = {0};

	if (o)
		t.bytes = python_api.PyUnicode_AsEncodedString(o, "utf-8", "backslashreplace");
	if (!t.bytes || python_api.PyBytes_AsStringAndSize(t.bytes, &t.at, &t.n) < 0) {
		t.at = "?";
		t.n = 1;
	}
	python_api.Py_DecRef(o);
	python_api.PyErr_Clear();
	if (t.n > (ssize_t)GS_COMPANION_PYTHON_TEXT_MAX)
		t.n = GS_COMPANION_PYTHON_TEXT_MAX;
	return t;
}

static uint64_t mix_bytes(uint64_t h, const char *bytes, size_t n)
{
	for (size_t i = 0; i < n; i++)
		h = (h ^ (uint8_t)bytes[i]) * 0x100000001b3ull;
	return (h ^ h >> 29) * 0xbf58476d1ce4e5b9ull;
}

static void copy_names(struct gs_companion_python_names *to, uint64_t from)
{
	uint64_t bytes = book.names->written - from;

	if (!bytes || !companion_fill_pages(to, sizeof(uint64_t)) ||
	    !companion_fill_pages(to->names + from, bytes))
		return;
	__builtin_memcpy(to->names + from, book.names->names + from, bytes);
	__atomic_store_n(&to->written, book.names->written, __ATOMIC_RELEASE);
}

void python_code_put_names(struct gs_companion_python_names *names, uint64_t epoch)
{
	lock_book();
	if (book.epoch != epoch) {
		book.epoch = epoch;
		book.in_file = names;
		copy_names(names, 0);
	}
	unlock_book();
}

static bool put_name(uint32_t number, uint32_t line, const struct text *file,
		     const struct text *name)
{
	uint64_t at = book.names->written;
	size_t bytes =
		(sizeof(struct gs_companion_python_name) + (size_t)file->n + (size_t)name->n + 7) &
		~(size_t)7;
	struct gs_companion_python_name *n = (void *)(book.names->names + at);

	if (at + bytes > sizeof(book.names->names))
		return false;
	n->bytes = (uint32_t)bytes;
	n->number = number;
	n->line = line;
	n->file_bytes = (uint16_t)file->n;
	n->name_bytes = (uint16_t)name->n;
	__builtin_memcpy(n->text, file->at, (size_t)file->n);
	__builtin_memcpy(n->text + file->n, name->at, (size_t)name->n);
	book.names->written = at + bytes;
	/* A forked child has not the one of its parent. */
	if (book.in_file && book.epoch == companion_live->epoch)
		copy_names(book.in_file, at);
	return true;
}

static bool is_wanted(const struct text *file, const struct text *name)
{
	char texts[2][GS_COMPANION_PYTHON_TEXT_MAX + 1];

	if (!python_plan.n_globs)
		return true;
	__builtin_memcpy(texts[0], file->at, (size_t)file->n);
	__builtin_memcpy(texts[1], name->at, (size_t)name->n);
	texts[0][file->n] = texts[1][name->n] = '\0';
	for (uint32_t i = 0; i < python_plan.n_globs; i++)
		if (gs_py_glob_matches(&python_plan.globs[i], texts[0], texts[1]))
			return true;
	return false;
}

/* Locked. 0: it is not wanted; PYTHON_UNKNOWN: there are too many. */
static uint32_t number_of(const struct text *file, const struct text *name, uint32_t line)
{
	uint64_t hash = mix_bytes(mix_bytes(line + 1, file->at, (size_t)file->n), name->at,
				  (size_t)name->n) |
			1;
	uint32_t at = hash >> 32 & (PLACES - 1);

	for (; book.places[at]; at = (at + 1) & (PLACES - 1))
		if (book.places[at] == hash)
			return book.number_of[at];
	if (book.n_numbers + 1 >= GS_COMPANION_PYTHON_FUNCS || !is_wanted(file, name))
		return book.n_numbers + 1 >= GS_COMPANION_PYTHON_FUNCS ? PYTHON_UNKNOWN : 0;
	if (!put_name(book.n_numbers + 1, line, file, name))
		return PYTHON_UNKNOWN;
	book.places[at] = hash;
	book.number_of[at] = (uint16_t)++book.n_numbers;
	return book.n_numbers;
}

/* --- code objects --- */

/* Locked. Of a code object that was met for another reader; false: it was not. */
static bool put_code_again(const void *code, uint32_t number)
{
	uint64_t wanted = (uintptr_t)code >> 3;
	uint32_t at = python_code_slot(code);

	while (python_code_table[at] && python_code_table[at] >> 16 != wanted)
		at = (at + 1) & (PYTHON_TABLE - 1);
	if (!python_code_table[at])
		return false;
	__atomic_store_n(&python_code_table[at], wanted << 16 | number, __ATOMIC_RELEASE);
	return true;
}

/* Locked. False: there are too many. */
static bool put_code(const void *code, uint32_t number)
{
	uint32_t at = python_code_slot(code);

	if (book.n_used >= TABLE_FULL)
		return false;
	while (python_code_table[at] > GONE)
		at = (at + 1) & (PYTHON_TABLE - 1);
	book.n_used += python_code_table[at] != GONE;
	__atomic_store_n(&python_code_table[at], (uintptr_t)code >> 3 << 16 | number,
			 __ATOMIC_RELEASE);
	return true;
}

static void forget_code(const void *code)
{
	uint64_t wanted = (uintptr_t)code >> 3;
	uint32_t at = python_code_slot(code);

	lock_book();
	while (python_code_table[at] && python_code_table[at] >> 16 != wanted)
		at = (at + 1) & (PYTHON_TABLE - 1);
	if (python_code_table[at]) {
		bool is_last = !python_code_table[(at + 1) & (PYTHON_TABLE - 1)];

		book.n_used -= is_last;
		__atomic_store_n(&python_code_table[at], is_last ? 0 : GONE, __ATOMIC_RELEASE);
	}
	unlock_book();
}

/* Called by the weak reference, which is all that has it. */
static PyObject *on_code_freed(PyObject *self, PyObject *const *args, ssize_t n)
{
	forget_code(python_api.PyLong_AsVoidPtr(self));
	if (n == 1)
		python_api.Py_DecRef(args[0]);
	python_api.Py_IncRef(python_api.none);
	return python_api.none;
}

/* From 3.12 on: is it never freed? Such a one may be of several interpreters at once. Of a build without the lock that is not
 * known. */
static bool is_immortal(PyObject *code)
{
	return python_api.version >= 0x030c && !python_api.is_free_threaded &&
	       *(const int32_t *)code < 0;
}

/* Ask to be called when it is freed; false: that cannot be. */
static bool watch_code(PyObject *code)
{
	static const struct python_method method = {"gpuscope", on_code_freed, PYTHON_FASTCALL,
						    NULL};
	PyObject *address, *callback = NULL, *reference = NULL;

	if (is_immortal(code))
		return true;
	address = python_api.PyLong_FromVoidPtr(code);
	if (address)
		callback = python_api.PyCFunction_NewEx(&method, address, NULL);
	if (callback)
		reference = python_api.PyWeakref_NewRef(code, callback);
	python_api.Py_DecRef(address);
	python_api.Py_DecRef(callback);
	return reference;
}

/* Of 3.11, which alone needs it: the first RESUME, by which a generator begins. */
static int begin_of(PyObject *code)
{
	long flags = python_api.version == 0x030b ? python_api_number(code, "co_flags") : 0;
	PyObject *bytes = NULL;
	ssize_t n = 0;
	int begin = -1;
	char *at;

	if (!(flags & GENERATORS))
		return -1;
	bytes = python_api.PyObject_GetAttrString(code, "co_code");
	if (bytes && python_api.PyBytes_AsStringAndSize(bytes, &at, &n) == 0)
		for (ssize_t i = 0; i + 1 < n && begin < 0; i += 2)
			if ((uint8_t)at[i] == RESUME_311)
				begin = (int)i;
	python_api.Py_DecRef(bytes);
	python_api.PyErr_Clear();
	return begin;
}

/* Nothing is known of it: its calls are counted as lost. */
static uint32_t count_unknown(void)
{
	struct companion_self *s = companion_thread();

	if (s)
		s->slot->lost[GS_COMPANION_LOST_FUNC][GS_LAYER_PYTHON]++;
	return PYTHON_UNKNOWN;
}

uint32_t python_code_meet(PyObject *code)
{
	PyObject *error[3];
	struct text file, name;
	bool is_watched;
	uint32_t number;
	long line;
	int begin;

	if (python_is_busy || (uintptr_t)code >> 47)
		return count_unknown();
	python_is_busy = true;
	python_api.PyErr_Fetch(&error[0], &error[1], &error[2]);
	file = text_of(code, "co_filename");
	name = text_of(code, "co_name");
	line = python_api_number(code, "co_firstlineno");
	begin = begin_of(code);
	lock_book();
	number = python_code_find(code); /* by another thread, meanwhile */
	if (number == PYTHON_UNKNOWN) {
		number = number_of(&file, &name, line > 0 ? (uint32_t)line : 0);
		if (number != PYTHON_UNKNOWN && book.begin[number] == 0)
			book.begin[number] = begin;
		is_watched = number != PYTHON_UNKNOWN && put_code_again(code, number);
		if (number != PYTHON_UNKNOWN && !is_watched && !put_code(code, number))
			number = PYTHON_UNKNOWN;
		unlock_book();
		if (number != PYTHON_UNKNOWN && !is_watched && !watch_code(code))
			forget_code(code);
	} else {
		unlock_book();
	}
	python_api.Py_DecRef(file.bytes);
	python_api.Py_DecRef(name.bytes);
	python_api.PyErr_Restore(error[0], error[1], error[2]);
	python_is_busy = false;
	return number == PYTHON_UNKNOWN ? count_unknown() : number;
}
