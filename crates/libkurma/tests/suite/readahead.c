/* Files that are read from front to back by small reads. */
#include "suite.h"

#define LENGTH ((size_t)(4 << 20) + 5)

static void a_file_is_read_from_front_to_back_in_few_round_trips(world *w)
{
	const unsigned char *data = bytes(LENGTH, 7);
	OK(kurma_write_file(w->client, "/home/a", data, LENGTH, 0600));
	uint64_t fd = opened(w->client, "/home/a", KURMA_READ);
	kurma_statistics before = so_far(w->client);
	size_t at = 0, done;
	do {
		unsigned char part[4096];
		OK(kurma_read(w->client, fd, part, sizeof part, &done));
		CHECK(at + done <= LENGTH && memcmp(part, data + at, done) == 0);
		at += done;
	} while (done > 0);
	kurma_statistics spent = since(w->client, before);
	CHECK(at == LENGTH);
	/* Instead of 1025, and hardly anything is read twice. */
	CHECK(spent.round_trips <= 20 && spent.bytes_in < LENGTH * 5 / 4);
	OK(kurma_close_file(w->client, fd));
}

static void of_a_file_that_is_read_here_and_there_nothing_else_is_read(world *w)
{
	OK(kurma_write_file(w->client, "/home/a", bytes(LENGTH, 7), LENGTH, 0600));
	uint64_t fd = opened(w->client, "/home/a", KURMA_READ);
	kurma_statistics before = so_far(w->client);
	for (uint64_t n = 0; n < 50; n++) {
		char part[1000];
		size_t done;
		OK(kurma_pread(w->client, fd, part, sizeof part, n * 7919 % 50 * 80000, &done));
		CHECK(done == sizeof part);
	}
	CHECK(since(w->client, before).bytes_in < 50 * 1500);
	OK(kurma_close_file(w->client, fd));
}

static void what_is_written_while_the_file_is_read_ahead_is_read(world *w)
{
	kurma_client *other = another(w);
	unsigned char *data = bytes(LENGTH, 7);
	for (int own = 0; own < 2; own++) {
		const char *path = own ? "/home/b" : "/home/a";
		OK(kurma_write_file(w->client, path, data, LENGTH, 0600));
		uint64_t fd = opened(w->client, path, KURMA_READ);
		for (int n = 0; n < 100; n++) {
			unsigned char part[5000];
			size_t done, start = (size_t)n * sizeof part;
			OK(kurma_read(w->client, fd, part, sizeof part, &done));
			CHECK(done == sizeof part && memcmp(part, data + start, done) == 0);
			/* Surely read ahead already. */
			size_t place = start + sizeof part + 17;
			data[place] = (unsigned char)(n + 1);
			overwrite(own ? w->client : other, path, place, text("%c", n + 1));
		}
		OK(kurma_close_file(w->client, fd));
	}
	OK(kurma_close(other));
}

const test_case readahead_cases[] = {
	CASE(a_file_is_read_from_front_to_back_in_few_round_trips),
	CASE(of_a_file_that_is_read_here_and_there_nothing_else_is_read),
	CASE(what_is_written_while_the_file_is_read_ahead_is_read),
	{ NULL, NULL },
};
