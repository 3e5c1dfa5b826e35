/* Copies of files. */
#include "suite.h"

static void make_large(world *w, size_t length, unsigned slowness)
{
	OK(kurma_write_file(w->client, "/home/a", bytes(length, slowness), length, 0600));
}

static void a_copy_within_the_server_sends_no_data(world *w)
{
	make_large(w, 9000000, 11);
	make(w, "/home/small", "content 1");
	kurma_copy_arg copies[] = { copying("/home/a", "/home/b"), copying("/home/small", "/home/part") };
	copies[1].source_offset = 3;
	copies[1].destination_offset = 1;
	copies[1].length = 4;
	copies[1].flags = KURMA_CREATE;
	OK(kurma_vsscopy(w->client, copies, 2));
	CHECK(copies[0].done == 9000000 && copies[1].done == 4);
	kurma_read_arg reads[] = { reading("/home/b", 0, 10000000), reading("/home/part", 0, 100) };
	OK(kurma_vread(w->client, reads, 2));
	CHECK(reads[0].done == 9000000 && memcmp(reads[0].data, bytes(9000000, 11), 9000000) == 0);
	CHECK(reads[1].done == 5 && memcmp(reads[1].data, "\0tent", 5) == 0);
}

static void many_whole_files_are_copied_in_one_round_trip(world *w)
{
	kurma_copy_arg copies[40];
	for (int n = 0; n < 40; n++) {
		make(w, text("/home/file-%d", n), text("content %d", n));
		copies[n] = copying(text("/home/file-%d", n), text("/home/copy-%d", n));
	}
	COSTS(1, kurma_vsscopy(w->client, copies, 40));
	CHECK(copies[39].done == 10 && has(w, "/home/copy-39", "content 39"));
}

static void what_follows_a_long_copy_waits_for_all_of_it(world *w)
{
	make_large(w, 9000001, 17);
	make(w, "/home/small", "content 1");
	/* The offsets keep the server from sharing blocks, so that it copies a part at a time. */
	kurma_copy_arg first = copying("/home/a", "/home/b"), second = copying("/home/small", "/home/c"),
		       third = copying("/home/b", "/home/d");
	first.source_offset = third.source_offset = 1;
	second.flags = KURMA_CREATE | KURMA_EXCLUSIVE;
	kurma_file gone[] = { AT("/home/a"), AT("/home/b") };
	kurma_pair rename = { AT("/home/c"), AT("/home/a") };
	kurma_steps *steps;
	OK(kurma_steps_new(&steps));
	OK(kurma_steps_sscopy(steps, &first, 1));
	OK(kurma_steps_sscopy(steps, &second, 1));
	OK(kurma_steps_sscopy(steps, &third, 1));
	OK(kurma_steps_remove(steps, gone, 2));
	OK(kurma_steps_rename(steps, &rename, 1));
	OK(kurma_execute(w->client, steps));
	kurma_steps_free(steps);
	CHECK(first.done == 9000000 && second.done == 9 && third.done == 8999999);
	CHECK(has(w, "/home/a", "content 1"));
	kurma_read_arg read = reading("/home/d", 0, 10000000);
	OK(kurma_vread(w->client, &read, 1));
	CHECK(read.done == 8999999 && memcmp(read.data, bytes(9000001, 17) + 2, read.done) == 0);
}

static void a_copy_of_what_is_being_copied_waits_for_it_however_it_is_named(world *w)
{
	make_large(w, 9000001, 17);
	make_directory(w, "/home/x");
	uint64_t both = opened(w->client, "/home/b", KURMA_READ | KURMA_WRITE | KURMA_CREATE);
	uint64_t read = opened(w->client, "/home/b", KURMA_READ);
	const kurma_file names[] = { AT("home/b"), AT("/home//b"), AT("/home/x/../b"), open_file(read) };
	const kurma_file destinations[] = { AT("/home/b"), open_file(both) };
	for (int n = 0; n < 8; n++) {
		/* The offset keeps the server from sharing blocks, so that it copies a part at a time. */
		kurma_copy_arg copies[] = { copying("/home/a", NULL), copying(NULL, "/home/c") };
		copies[0].source_offset = 1;
		copies[0].destination = destinations[n % 2];
		copies[1].source = names[n / 2];
		OK(kurma_vsscopy(w->client, copies, 2));
		CHECK(copies[0].done == 9000000 && copies[1].done == 9000000);
	}
	CHECK(reads_as(w->client, "/home/c", bytes(9000001, 17) + 1, 9000000));
}

static void small_files_are_copied_in_three_round_trips(world *w)
{
	kurma_copy_arg copies[60];
	for (int n = 0; n < 60; n++) {
		make(w, text("/home/f%d", n), text("content %d", n));
		copies[n] = copying(text("/home/f%d", n), text("/home/c%d", n));
	}
	COSTS(3, kurma_vcopy(w->client, copies, 60, w->client));
	CHECK(copies[0].done == 9 && copies[59].done == 10 && has(w, "/home/c59", "content 59"));
	kurma_client *other = another(w);
	copies[0] = copying("/home/f7", "/home/other");
	OK(kurma_vcopy(other, copies, 1, w->client));
	CHECK(has(w, "/home/other", "content 7"));
	OK(kurma_close(other));
}

static void a_copy_through_memory_stops_at_the_first_failure_and_says_where(world *w)
{
	const char *to[] = { "/home/c0", "/home/c1", "/home/none/c2", "/home/c3" };
	kurma_copy_arg copies[4];
	for (int n = 0; n < 4; n++) {
		make(w, text("/home/f%d", n), "abc");
		copies[n] = copying(text("/home/f%d", n), to[n]);
	}
	FAILS(ENOENT, 2, kurma_vcopy(w->client, copies, 4, w->client));
	CHECK(copies[1].done == 3 && !there(w, "/home/c3"));
}

const test_case copy_cases[] = {
	CASE(a_copy_within_the_server_sends_no_data),
	CASE(many_whole_files_are_copied_in_one_round_trip),
	CASE(what_follows_a_long_copy_waits_for_all_of_it),
	CASE(a_copy_of_what_is_being_copied_waits_for_it_however_it_is_named),
	CASE(small_files_are_copied_in_three_round_trips),
	CASE(a_copy_through_memory_stops_at_the_first_failure_and_says_where),
	{ NULL, NULL },
};
