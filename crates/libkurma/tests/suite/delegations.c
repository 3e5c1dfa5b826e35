/* Files that the server has delegated: nothing is asked, and nothing is older than what others, or the client itself, have
 * written. */
#include "suite.h"

#include <stdatomic.h>

static uint64_t size_at(const kurma_client *client, uint64_t fd)
{
	kurma_getattr_arg get = { .file = { .fd = fd }, .wanted = KURMA_SIZE | KURMA_MODE | KURMA_CHANGE };
	OK(kurma_vgetattrs(client, &get, 1));
	return get.attributes.size;
}

/* Whether this is in an open file, and the client does not have to ask. */
static int holds_unasked(const world *w, uint64_t fd, const char *content)
{
	uint64_t before = trips(w);
	return holds(w->client, fd, content) && trips(w) == before;
}

static void what_was_read_of_a_delegated_file_is_read_again_without_asking(world *w)
{
	const size_t length = (5 << 20) + 3;
	const unsigned char *data = bytes(length, 7);
	unsigned char *got = room(6 << 20, 1);
	size_t done;
	OK(kurma_write_file(w->client, "/home/a", data, length, 0600));
	uint64_t fd = opened(w->client, "/home/a", KURMA_READ), end;
	OK(kurma_pread(w->client, fd, got, 6 << 20, 0, &done));
	CHECK(done == length && size_at(w->client, fd) == length);
	kurma_statistics before = so_far(w->client);
	OK(kurma_pread(w->client, fd, got, 6 << 20, 0, &done));
	CHECK(done == length && memcmp(got, data, length) == 0);
	for (int n = 0; n < 2; n++) {
		OK(kurma_pread(w->client, fd, got, 3 << 20, 1000, &done));
		CHECK(done == 3 << 20 && memcmp(got, data + 1000, done) == 0);
		OK(kurma_pread(w->client, fd, got, 1000, 5 << 20, &done));
		CHECK(done == 3);
		OK(kurma_pread(w->client, fd, got, 1000, 6 << 20, &done));
		CHECK(done == 0);
	}
	CHECK(size_at(w->client, fd) == length);
	OK(kurma_lseek(w->client, fd, 0, SEEK_END, &end));
	CHECK(end == length);
	kurma_statistics spent = since(w->client, before);
	CHECK(spent.round_trips == 0 && spent.bytes_in == 0);
	/* The open and the delegation go together. */
	COSTS(1, kurma_close_file(w->client, fd));
}

static void what_another_client_writes_is_seen_after_the_recall(world *w)
{
	kurma_client *other = another(w);
	make(w, "/home/a", "0123456789");
	uint64_t fd = opened(w->client, "/home/a", KURMA_READ);
	CHECK(holds(w->client, fd, "0123456789") && size_at(w->client, fd) == 10);
	uint64_t before = trips(w);
	CHECK(holds(w->client, fd, "0123456789") && size_at(w->client, fd) == 10 && trips(w) == before);
	overwrite(other, "/home/a", 3, "xxx");
	CHECK(holds(w->client, fd, "012xxx6789"));
	OK(kurma_truncate(other, "/home/a", 5));
	CHECK(holds(w->client, fd, "012xx") && size_at(w->client, fd) == 5);
	/* Nothing is promised any more. */
	before = trips(w);
	CHECK(holds(w->client, fd, "012xx") && trips(w) - before == 1);
	OK(kurma_close_file(w->client, fd));
	OK(kurma_close(other));
}

static void what_the_client_writes_itself_is_seen_though_the_server_recalls_nothing(world *w)
{
	kurma_client *c = w->client;
	make(w, "/home/a", "0123456789");
	OK(kurma_link(c, "/home/a", "/home/b"));
	uint64_t fds[3] = { opened(c, "/home/a", KURMA_READ), opened(c, "/home/b", KURMA_READ | KURMA_WRITE) };
#define SEEN(content) \
	CHECK(holds(c, fds[0], content) && holds_unasked(w, fds[0], content) && size_at(c, fds[0]) == strlen(content))
	SEEN("0123456789");
	OK(kurma_pwrite(c, fds[1], "w", 1, 0));
	SEEN("w123456789");
	overwrite(c, "/home/b", 1, "x");
	SEEN("wx23456789");
	kurma_setattr_arg set = { .file = { .path = "/home/b" }, .attributes = { .set = KURMA_SIZE, .size = 4 } };
	kurma_steps *steps;
	OK(kurma_steps_new(&steps));
	OK(kurma_steps_setattrs(steps, &set, 1));
	OK(kurma_transaction(c, steps));
	kurma_steps_free(steps);
	SEEN("wx23");
	fds[2] = opened(c, "/home/b", KURMA_READ | KURMA_WRITE | KURMA_TRUNCATE);
	SEEN("");
	OK(kurma_pwrite(c, fds[2], "again", 5, 0));
	SEEN("again");
	OK(kurma_vclose(c, fds, 3));
}

static void what_is_closed_is_in_nobodys_way(world *w)
{
	kurma_client *other = another(w);
	make(w, "/home/a", "a");
	uint64_t fd = opened(w->client, "/home/a", KURMA_READ);
	CHECK(holds(w->client, fd, "a"));
	OK(kurma_close_file(w->client, fd));
	kurma_statistics before = so_far(other);
	overwrite(other, "/home/a", 0, "b");
	/* Nothing is recalled. */
	CHECK(since(other, before).round_trips == 1);
	OK(kurma_close(other));
}

static void a_delegated_file_is_closed_in_a_transaction_and_the_delegation_goes_back_after_it(world *w)
{
	kurma_client *other = another(w);
	make(w, "/home/a", "a");
	for (int round = 0; round < 2; round++) {
		const char *letter = round ? "c" : "b";
		uint64_t fd = opened(w->client, "/home/a", KURMA_READ);
		char data[9];
		size_t done;
		OK(kurma_pread(w->client, fd, data, sizeof data, 0, &done));
		kurma_write_arg write = { .file = { .path = "/home/a" }, .data = letter, .length = 1 };
		kurma_steps *steps;
		OK(kurma_steps_new(&steps));
		OK(kurma_steps_write(steps, &write, 1));
		OK(kurma_steps_close(steps, &fd, 1));
		OK(kurma_transaction(w->client, steps));
		kurma_steps_free(steps);
		FAILS(EBADF, 0, kurma_pread(w->client, fd, data, sizeof data, 0, &done));
		overwrite(other, "/home/a", 1, letter);
		CHECK(has(w, "/home/a", text("%s%s", letter, letter)));
	}
	OK(kurma_close(other));
}

static void one_client_opens_a_file_that_is_delegated_to_it_as_often_as_it_likes(world *w)
{
	kurma_client *other = another(w);
	make(w, "/home/a", "0123");
	const char *const paths[] = { "/home/a", "/home/a", "/home/a", "/home/a", "/home/a" };
	uint64_t fds[5];
	OK(kurma_vopen_simple(w->client, paths, 5, KURMA_READ, 0, fds));
	for (int n = 0; n < 5; n++)
		CHECK(holds(w->client, fds[n], "0123"));
	/* What is promised to one is true for all. */
	uint64_t before = trips(w);
	for (int n = 0; n < 5; n++)
		CHECK(holds(w->client, fds[n], "0123"));
	CHECK(trips(w) == before);
	OK(kurma_close_file(w->client, fds[0]));
	overwrite(other, "/home/a", 0, "x");
	for (int n = 1; n < 5; n++)
		CHECK(holds(w->client, fds[n], "x123"));
	OK(kurma_vclose(w->client, fds + 1, 4));
	OK(kurma_close(other));
}

#define WRITES 40

/* One who writes, and those who read meanwhile. */
typedef struct party {
	const world *w;
	kurma_client *writer;
	atomic_int *written;
	const char *path;
	uint64_t own; /* open for writing, or 0 for a reader */
} party;

static void *take_part(void *opaque)
{
	const party *me = opaque;
	if (me->own) {
		for (int number = 1; number < WRITES; number++) {
			char data[16];
			snprintf(data, sizeof data, "%04d", number);
			/* By each way to write, the client's own too, which nobody recalls anything for. */
			if (number % 3 == 1)
				OK(kurma_pwrite(me->w->client, me->own, data, 4, 0));
			else
				overwrite(number % 3 ? me->w->client : me->writer, me->path, 0, data);
			atomic_store(me->written, number);
		}
		return NULL;
	}
	uint64_t fd = opened(me->w->client, me->path, KURMA_READ);
	while (atomic_load(me->written) < WRITES - 1) {
		int before = atomic_load(me->written);
		char data[5] = { 0 };
		size_t done;
		OK(kurma_pread(me->w->client, fd, data, 4, 0, &done));
		CHECK(done == 4 && atoi(data) >= before);
	}
	OK(kurma_close_file(me->w->client, fd));
	return NULL;
}

static void readers_never_read_what_is_older_than_the_last_write_that_had_ended(world *w)
{
	kurma_client *writer = another(w);
	/* A file that was recalled is not delegated for some time. */
	for (int file = 0; file < 12; file++) {
		const char *path = text("/home/%d", file);
		make(w, path, "0000");
		atomic_int written = 0;
		uint64_t own = opened(w->client, path, KURMA_READ | KURMA_WRITE);
		party reader = { .w = w, .written = &written, .path = path }, all[] = { reader, reader, reader };
		all[0].own = own;
		all[0].writer = writer;
		at_once(3, take_part, all, sizeof *all);
		OK(kurma_close_file(w->client, own));
	}
	OK(kurma_close(writer));
}

const test_case delegation_cases[] = {
	CASE(what_was_read_of_a_delegated_file_is_read_again_without_asking),
	CASE(what_another_client_writes_is_seen_after_the_recall),
	CASE(what_the_client_writes_itself_is_seen_though_the_server_recalls_nothing),
	CASE(what_is_closed_is_in_nobodys_way),
	CASE(a_delegated_file_is_closed_in_a_transaction_and_the_delegation_goes_back_after_it),
	CASE(one_client_opens_a_file_that_is_delegated_to_it_as_often_as_it_likes),
	CASE(readers_never_read_what_is_older_than_the_last_write_that_had_ended),
	{ NULL, NULL },
};
