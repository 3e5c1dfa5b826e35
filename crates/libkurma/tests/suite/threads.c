/* Many threads, one client. */
#include "suite.h"

#define THREADS 64
#define ROUNDS 10

typedef struct worker {
	world *w;
	int number;
} worker;

static void *work(void *opaque)
{
	const worker *me = opaque;
	kurma_client *c = me->w->client;
	char own[32], line[16], expected[16], got[32];
	snprintf(own, sizeof own, "/home/%d", me->number);
	for (int round = 0; round < ROUNDS; round++) {
		snprintf(line, sizeof line, "%02d %02d\n", me->number, round);
		memcpy(expected, line, sizeof line);
		kurma_write_arg writes[] = { whole("/home/log", 0600, line), whole(own, 0600, line) };
		writes[0].flags = KURMA_CREATE;
		writes[0].offset = KURMA_APPEND;
		OK(kurma_vwrite(c, writes, 2));
		/* What was lent is the caller's again. */
		memset(line, 'x', sizeof line);
		kurma_read_arg read = { .file = { .path = own }, .length = sizeof got, .data = got };
		OK(kurma_vread(c, &read, 1));
		CHECK(read.done == 6 && memcmp(got, expected, 6) == 0);
		kurma_file none = { .path = "/home/none" };
		FAILS(ENOENT, 0, kurma_vremove(c, &none, 1));
		uint64_t fd;
		OK(kurma_open(c, own, KURMA_READ, 0, &fd));
		OK(kurma_close_file(c, fd));
	}
	return NULL;
}

static void many_threads_share_one_client(world *w)
{
	worker workers[THREADS];
	for (int n = 0; n < THREADS; n++)
		workers[n] = (worker){ .w = w, .number = n };
	at_once(THREADS, work, workers, sizeof *workers);
	char *log;
	size_t length;
	int seen[THREADS] = { 0 };
	OK(kurma_read_file(w->client, "/home/log", (void **)&log, &length));
	CHECK(length == THREADS * ROUNDS * 6);
	for (size_t at = 0; at < length; at += 6) {
		int number = atoi(log + at);
		CHECK(number >= 0 && number < THREADS);
		/* The lines of one thread are in its order. */
		CHECK(atoi(log + at + 3) == seen[number]++);
	}
	free(log);
}

const test_case thread_cases[] = {
	CASE(many_threads_share_one_client),
	{ NULL, NULL },
};
