/* What the cases have in common. A case has files of its own below /home, and is a process of its own. */
#ifndef SUITE_H
#define SUITE_H

#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kurma.h"

typedef struct world {
	kurma_client *client;
	int is_nfs;
	const char *place; /* the server, or the directory */
	uint32_t user;     /* who makes the calls */
} world;

typedef struct test_case {
	const char *name;
	void (*run)(world *);
} test_case;

extern const test_case data_cases[], descriptor_cases[], name_cases[], attribute_cases[], link_cases[], scalar_cases[],
	listing_cases[], tree_cases[], copy_cases[], transaction_cases[], thread_cases[], refusal_cases[], server_cases[],
	local_cases[], both_cases[], writer_cases[], cache_cases[], delegation_cases[], readahead_cases[], atomic_cases[],
	restart_cases[], full_cases[];

#define CASE(name) { #name, name }

_Noreturn void die(const char *file, int line, const char *what, const kurma_result *result);

/* Another client of the same files. */
kurma_client *another(const world *w);
/* The superuser with the usual options, and another client of the same server with these. */
kurma_options superuser(void);
kurma_client *another_with(const world *w, kurma_options options);

/* A text that lives until the end of the case. */
const char *text(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* The same as a file. */
#define AT(...) path_file(text(__VA_ARGS__))
kurma_file path_file(const char *path);
kurma_file open_file(uint64_t fd);

/* Memory that lives until the end of the case, zeroed. */
void *room(size_t count, size_t size);

/* Requests sent so far. */
uint64_t trips(const world *w);
uint64_t operations(const world *w);
/* What a client has sent and received so far, and since then. */
kurma_statistics so_far(const kurma_client *client);
kurma_statistics since(const kurma_client *client, kurma_statistics then);

/* A whole file of this content. */
kurma_write_arg whole(const char *path, uint32_t mode, const char *content);
void make(const world *w, const char *path, const char *content);
/* A piece of a file, into memory of its own. */
kurma_read_arg reading(const char *path, uint64_t offset, size_t length);
/* Whether what was read is this. */
int is(const kurma_read_arg *read, const char *content);
/* Whether a whole file is this. */
int has(const world *w, const char *path, const char *content);
int reads_as(const kurma_client *client, const char *path, const void *content, size_t length);
/* The same of an open file. */
int holds(const kurma_client *client, uint64_t fd, const char *content);
/* Writes over a part of a file. */
void overwrite(const kurma_client *client, const char *path, uint64_t offset, const char *content);
uint64_t size_of(const world *w, const char *path);
uint64_t opened(const kurma_client *client, const char *path, uint32_t flags);
int there(const world *w, const char *path);
void make_directory(const world *w, const char *path);
/* A whole file as another. */
kurma_copy_arg copying(const char *source, const char *destination);
/* Runs these at the same time, each with its element of an array. */
void at_once(size_t count, void *(*run)(void *), void *elements, size_t size);
/* Bytes that differ. */
unsigned char *bytes(size_t length, unsigned slowness);

/* For listings: counts entries in an int. */
int count_entries(const kurma_entry *entry, void *count);

/* Numbers that are the same in every run. */
void begin_random(uint32_t seed);
uint32_t random_below(uint32_t limit);

/* Says that the case is ready for what is to happen to the server, and waits until it has. */
void until_it_has_happened(void);

#define CHECK(condition)                                           \
	do {                                                           \
		if (!(condition))                                          \
			die(__FILE__, __LINE__, #condition, NULL);             \
	} while (0)

#define OK(call)                                                   \
	do {                                                           \
		kurma_result result_ = (call);                             \
		if (result_.status != 0)                                   \
			die(__FILE__, __LINE__, #call, &result_);              \
	} while (0)

/* Fails with this error number at this element; those before it are done. */
#define FAILS(expected, element, call)                             \
	do {                                                           \
		kurma_result result_ = (call);                             \
		if (result_.status != (expected) || result_.index != (size_t)(element) || result_.unknown != 0 || \
		    result_.message[0] == 0)                               \
			die(__FILE__, __LINE__, #call, &result_);              \
	} while (0)

/* Succeeds in so many requests, if there is a server to send any to. */
#define COSTS(number, call)                                        \
	do {                                                           \
		uint64_t before_ = trips(w);                               \
		OK(call);                                                  \
		CHECK(trips(w) - before_ == (w->is_nfs ? (number) : 0));   \
	} while (0)

#endif
