/*
 * The few numbers and the one struct of libmariadb's ABI that are used, so that neither building nor
 * starting needs it. The values are those of include/mysql.h and mariadb_stmt.h of MariaDB Connector/C
 * 3.3 (libmariadb.so.3); tests/unit/mysql checks them against the headers where they are installed.
 */
#ifndef GS_OUTPUT_MYSQL_MYSQL_ABI_H
#define GS_OUTPUT_MYSQL_MYSQL_ABI_H

#include <stddef.h>

/* X(name, value) */
#define GS_MYSQL_NUMBERS(X)                                                                        \
	X(MYSQL_OPT_CONNECT_TIMEOUT, 0)                                                            \
	X(MYSQL_SET_CHARSET_NAME, 7)                                                               \
	X(MYSQL_OPT_LOCAL_INFILE, 8)                                                               \
	X(MYSQL_OPT_PROTOCOL, 9)                                                                   \
	X(MYSQL_OPT_READ_TIMEOUT, 11)                                                              \
	X(MYSQL_OPT_WRITE_TIMEOUT, 12)                                                             \
	X(MYSQL_OPT_SSL_VERIFY_SERVER_CERT, 21)                                                    \
	X(MYSQL_OPT_SSL_CA, 27)                                                                    \
	X(MYSQL_OPT_SSL_ENFORCE, 38)                                                               \
	X(MARIADB_OPT_RESTRICTED_AUTH, 7026)                                                       \
	X(MYSQL_PROTOCOL_TCP, 1)                                                                   \
	X(MYSQL_PROTOCOL_SOCKET, 2)                                                                \
	X(MYSQL_TYPE_DOUBLE, 5)                                                                    \
	X(MYSQL_TYPE_NULL, 6)                                                                      \
	X(MYSQL_TYPE_LONGLONG, 8)                                                                  \
	X(MYSQL_TYPE_STRING, 254)

enum {
#define GS_MYSQL_NUMBER(name, value) GS_##name = value,
	GS_MYSQL_NUMBERS(GS_MYSQL_NUMBER)
#undef GS_MYSQL_NUMBER
};

struct gs_mysql_bind {         /* MYSQL_BIND; the library's own members are those without a word */
	unsigned long *length; /* of text, in bytes */
	char *is_null;
	void *buffer; /* the value; borrowed until the statement is executed */
	char *error;
	void *row_ptr;
	void (*own_function[3])(void);
	unsigned long buffer_length; /* bytes of buffer */
	unsigned long own_offset, own_length_value;
	unsigned int own_flags, own_pack_length;
	int buffer_type; /* MYSQL_TYPE_... */
	char own_error, is_unsigned, own_long_data, own_null;
	void *own_extension;
};
_Static_assert(sizeof(struct gs_mysql_bind) == 112 &&
		       offsetof(struct gs_mysql_bind, buffer_type) == 96,
	       "as MYSQL_BIND where a pointer has 64 bits");

#endif
