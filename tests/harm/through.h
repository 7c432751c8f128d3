/* Functions that call a function of the program: each returns what that one does, plus 1. */
#ifdef __cplusplus
extern "C" {
#endif

typedef long (*through_fn)(long n);

long through_plain(through_fn fn, long n);   /* extern "C" of C++ */
long through_guarded(through_fn fn, long n); /* the same with an object to destroy */
long through_tail(through_fn fn, long n);    /* ends in a jump to the callback; adds nothing */
long through_c(through_fn fn, long n);       /* of C, without anything that knows exceptions */
long through_c_loop(through_fn fn, long n);

struct through {
	const char *name;
	long (*function)(through_fn fn, long n);
};
extern const struct through throughs[]; /* the last without a name */

#ifdef __cplusplus
}
#endif
