/*
 * What a function does, as far as its arguments and its place among others go. Both sides of the
 * kernel border know it.
 */
#ifndef GS_MODEL_TRACE_CLASS_H
#define GS_MODEL_TRACE_CLASS_H

/* The numbers are stored. */
enum gs_func_class {
	GS_CLASS_OTHER = 0,
	GS_CLASS_LAUNCH = 1,
	GS_CLASS_GRAPH_LAUNCH = 2,
	GS_CLASS_ALLOC = 3,
	GS_CLASS_FREE = 4,
	GS_CLASS_COPY = 5,
	GS_CLASS_MEMSET = 6,
	GS_CLASS_STREAM = 7,
	GS_CLASS_EVENT = 8,
	GS_CLASS_SYNC = 9,
	GS_CLASS_DEVICE = 10,
	GS_CLASS_MODULE = 11,
	GS_CLASS_COLLECTIVE = 12,
	GS_CLASS_P2P = 13,
	GS_CLASS_GROUP = 14,
	GS_CLASS_COMM = 15,
	GS_CLASS_QUERY = 16, /* asks, changes nothing */
	GS_CLASS_OPERATOR = 17,
	GS_CLASS_PYTHON = 18,  /* a function of Python code */
	GS_CLASS_GC = 19,      /* a garbage collection */
	GS_CLASS_GIL = 20,     /* a wait for the interpreter lock */
	GS_CLASS_PROBE = 21,   /* a probe that the user described */
	GS_CLASS_SITE = 22,    /* the same, of a place: passed, without a duration */
	GS_CLASS_CONTEXT = 23, /* of the driver: makes one, chooses it, asks for its handle */
	GS_CLASS_COUNT
};

/* Bits 1 << class of those by whose calls steps of a program are known; calls of MPI are, too. */
#define GS_CLASSES_OF_STEPS                                                                        \
	(1u << GS_CLASS_LAUNCH | 1u << GS_CLASS_GRAPH_LAUNCH | 1u << GS_CLASS_COPY |               \
	 1u << GS_CLASS_MEMSET | 1u << GS_CLASS_SYNC | 1u << GS_CLASS_COLLECTIVE |                 \
	 1u << GS_CLASS_P2P | 1u << GS_CLASS_OPERATOR)

#endif
