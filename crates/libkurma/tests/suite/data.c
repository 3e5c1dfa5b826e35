/* Reading and writing. */
#include "suite.h"

static kurma_write_arg numbered(int n)
{
	return whole(text("/home/file-%d", n), 0644, text("content %d", n));
}

static void many_files_are_made_written_and_read_in_one_round_trip_each(world *w)
{
	kurma_write_arg writes[50];
	kurma_read_arg reads[50];
	for (int n = 0; n < 50; n++) {
		writes[n] = numbered(n);
		reads[n] = reading(writes[n].file.path, 0, 100);
	}
	COSTS(1, kurma_vwrite(w->client, writes, 50));
	CHECK(writes[0].done == 9 && writes[49].done == 10);
	COSTS(1, kurma_vread(w->client, reads, 50));
	for (int n = 0; n < 50; n++)
		CHECK(reads[n].end_of_file == 1 && is(&reads[n], writes[n].data));
}

static void two_reads_of_one_path_share_an_open(world *w)
{
	make(w, "/home/file", "content");
	kurma_read_arg reads[] = { reading("/home/file", 0, 3), reading("/home/file", 4, 3) };
	uint64_t before = operations(w);
	OK(kurma_vread(w->client, reads, 2));
	CHECK(is(&reads[0], "con") && is(&reads[1], "ent"));
	/* PUTROOTFH, LOOKUP, OPEN, GETATTR, READ, GETATTR, READ, CLOSE. */
	CHECK(operations(w) - before == (w->is_nfs ? 8 : 0));
}

static void a_file_may_be_written_and_read_in_one_vector(world *w)
{
	kurma_steps *steps;
	OK(kurma_steps_new(&steps));
	kurma_write_arg first = numbered(1), second = whole("/home/file-1", 0, "XX");
	second.flags = 0;
	second.offset = 2;
	kurma_read_arg before = reading("/home/file-1", 0, 100), after = before;
	after.data = room(100, 1);
	OK(kurma_steps_write(steps, &first, 1));
	OK(kurma_steps_read(steps, &before, 1));
	OK(kurma_steps_write(steps, &second, 1));
	OK(kurma_steps_read(steps, &after, 1));
	COSTS(1, kurma_execute(w->client, steps));
	CHECK(is(&before, "content 1") && is(&after, "coXXent 1"));
	/* The list may be done again. */
	OK(kurma_execute(w->client, steps));
	kurma_steps_free(steps);
}

static void the_third_of_five_fails_and_the_rest_is_untouched(world *w)
{
	kurma_write_arg writes[5];
	for (int n = 0; n < 5; n++)
		writes[n] = numbered(n);
	writes[2].flags = 0;
	kurma_result result = kurma_vwrite(w->client, writes, 5);
	CHECK(result.status == ENOENT && result.done == 2 && result.index == 2 && result.unknown == 0);
	CHECK(strstr(kurma_strerror(&result), "/home/file-2") != NULL);
	CHECK(writes[1].done == 9 && writes[3].done == 0);
	for (int n = 0; n < 5; n++)
		CHECK(there(w, writes[n].file.path) == (n < 2));
}

static void an_exclusive_creation_of_an_existing_file_fails(world *w)
{
	kurma_write_arg write = numbered(0);
	write.flags = KURMA_CREATE | KURMA_EXCLUSIVE;
	OK(kurma_vwrite(w->client, &write, 1));
	kurma_write_arg both[] = { numbered(1), write };
	FAILS(EEXIST, 1, kurma_vwrite(w->client, both, 2));
}

static void large_files_are_whole(world *w)
{
	const size_t length = 20000000;
	unsigned char *data = bytes(length, 7);
	kurma_write_arg write = whole("/home/large", 0600, "");
	write.data = data;
	write.length = length;
	OK(kurma_vwrite(w->client, &write, 1));
	CHECK(write.done == length);
	kurma_read_arg reads[] = { reading("/home/large", 0, 5000000), reading("/home/large", 5000000, length),
				   reading("/home/large", 30000000, 5) };
	OK(kurma_vread(w->client, reads, 3));
	CHECK(reads[0].done == 5000000 && reads[1].done == 15000000 && reads[2].done == 0);
	CHECK(!reads[0].end_of_file && reads[1].end_of_file && reads[2].end_of_file);
	CHECK(memcmp(reads[0].data, data, 5000000) == 0);
	CHECK(memcmp(reads[1].data, data + 5000000, 15000000) == 0);
}

typedef struct recorder {
	kurma_client *client;
	int number;
} recorder;

static void *record(void *opaque)
{
	const recorder *me = opaque;
	for (int n = 0; n < 1000; n++)
		overwrite(me->client, "/home/log", KURMA_APPEND, text("%d %03d\n", me->number, n));
	return NULL;
}

static void appended_records_of_many_clients_are_all_there(world *w)
{
	make(w, "/home/log", "");
	recorder recorders[8];
	int seen[8] = { 0 };
	for (int n = 0; n < 8; n++)
		recorders[n] = (recorder){ .client = another(w), .number = n };
	at_once(8, record, recorders, sizeof *recorders);
	char *log;
	size_t length;
	OK(kurma_read_file(w->client, "/home/log", (void **)&log, &length));
	CHECK(length == 8 * 1000 * 6);
	for (size_t at = 0; at < length; at += 6) {
		int number = log[at] - '0';
		CHECK(number >= 0 && number < 8);
		/* The records of one client are in its order. */
		CHECK(atoi(log + at + 2) == seen[number]++);
	}
	free(log);
	for (int n = 0; n < 8; n++)
		OK(kurma_close(recorders[n].client));
}

static void appending_goes_on_where_the_last_append_ended(world *w)
{
	kurma_write_arg writes[] = { whole("/home/log", 0600, "one "), whole("/home/log", 0600, "two "),
				     whole("/home/log", 0600, "three") };
	for (int n = 0; n < 3; n++) {
		writes[n].flags = KURMA_CREATE;
		writes[n].offset = KURMA_APPEND;
	}
	OK(kurma_vwrite(w->client, writes, 3));
	CHECK(has(w, "/home/log", "one two three"));
	kurma_write_arg much = writes[0];
	much.length = 5 << 20;
	much.data = room(much.length, 1);
	if (w->is_nfs)
		FAILS(EINVAL, 0, kurma_vwrite(w->client, &much, 1));
	else
		OK(kurma_vwrite(w->client, &much, 1));
}

static void a_read_may_ask_for_more_than_any_file_has(world *w)
{
	OK(kurma_write_file(w->client, "/home/a", bytes(3000000, 13), 3000000, 0600));
	make(w, "/home/b", "content 1");
	/* Room that is never touched costs nothing. */
	kurma_read_arg reads[] = { reading("/home/a", 1, 64u << 20), reading("/home/b", 1, 64u << 20) };
	uint64_t before = trips(w);
	OK(kurma_vread(w->client, reads, 2));
	CHECK(trips(w) - before <= 70);
	CHECK(reads[0].end_of_file && reads[0].done == 2999999 && is(&reads[1], "ontent 1"));
	CHECK(memcmp(reads[0].data, bytes(3000000, 13) + 1, reads[0].done) == 0);
}

static void a_long_write_through_a_descriptor_cuts_off_what_was_there_if_asked_to(world *w)
{
	make(w, "/home/a", "before");
	uint64_t fd = opened(w->client, "/home/a", KURMA_READ | KURMA_WRITE);
	const size_t length = (2 << 20) + 1;
	kurma_write_arg write = { .file = { .fd = fd }, .offset = 3, .length = length, .flags = KURMA_TRUNCATE,
				  .data = memset(room(length, 1), 1, length) };
	OK(kurma_vwrite(w->client, &write, 1));
	char start[4];
	size_t done;
	OK(kurma_pread(w->client, fd, start, sizeof start, 0, &done));
	CHECK(done == 4 && memcmp(start, "\0\0\0\1", 4) == 0 && size_of(w, "/home/a") == 3 + length);
}

static void what_is_done_to_one_file_in_a_row_is_one_open(world *w)
{
	make(w, "/home/a", "content of a");
	kurma_write_arg into_a = { .file = { .path = "/home/a" }, .data = "C", .length = 1 };
	kurma_write_arg to_b[] = { whole("/home/b", 0640, "b and"), whole("/home/b", 0, " more") };
	to_b[1].flags = 0;
	to_b[1].offset = KURMA_APPEND;
	kurma_write_arg empty[] = { whole("/home/c", 0600, ""), whole("/home/empty", 0600, "") };
	kurma_read_arg reads[] = { reading("/home/a", 0, 7), reading("/home/a", 8, 100), reading("/home/b", 0, 100),
				   reading("/home/c", 0, 100), reading("/home/a", 0, 0) };
	kurma_pair rename = { AT("/home/b"), AT("/home/d") };
	kurma_steps *steps;
	OK(kurma_steps_new(&steps));
	OK(kurma_steps_read(steps, &reads[0], 1));
	OK(kurma_steps_write(steps, &into_a, 1));
	OK(kurma_steps_read(steps, &reads[1], 1));
	OK(kurma_steps_write(steps, to_b, 2));
	OK(kurma_steps_read(steps, &reads[2], 1));
	OK(kurma_steps_write(steps, &empty[0], 1));
	OK(kurma_steps_read(steps, &reads[3], 1));
	OK(kurma_steps_write(steps, &empty[1], 1));
	OK(kurma_steps_read(steps, &reads[4], 1));
	OK(kurma_steps_rename(steps, &rename, 1));
	uint64_t before = operations(w);
	COSTS(1, kurma_execute(w->client, steps));
	kurma_steps_free(steps);
	CHECK(is(&reads[0], "content") && is(&reads[1], "of a") && is(&reads[2], "b and more") && is(&reads[3], ""));
	/* COMPOUND_MODE, the way there, five OPENs and CLOSEs with the ways between, ten READs and WRITEs, and RENAME with what it
	 * needs. */
	CHECK(operations(w) - before == (w->is_nfs ? 34 : 0));
	CHECK(has(w, "/home/a", "Content of a") && has(w, "/home/d", "b and more") && has(w, "/home/empty", ""));
}

static void no_message_is_longer_than_was_asked_for(world *w)
{
	for (int way = 0; way < 2; way++) {
		kurma_options options = superuser();
		if (way == 0) {
			options.transfer = 64 << 10;
		} else {
			options.message_bytes = 64 << 10;
			options.slots = 1;
			options.connect_timeout = 5000;
		}
		kurma_client *client = another_with(w, options);
		kurma_statistics before = so_far(client);
		OK(kurma_write_file(client, "/home/a", bytes(1 << 20, 3), 1 << 20, 0600));
		kurma_statistics spent = since(client, before);
		CHECK(spent.round_trips >= 16 && spent.bytes_out >= 1 << 20);
		kurma_read_arg read = reading("/home/a", 0, 1 << 20);
		OK(kurma_vread(client, &read, 1));
		CHECK(read.done == 1 << 20 && memcmp(read.data, bytes(1 << 20, 3), 1 << 20) == 0);
		OK(kurma_close(client));
	}
}

/* Bytes received when a file of 100,000 is read for the second time with so much memory. */
static uint64_t received_again(world *w, uint64_t cache_bytes)
{
	kurma_options options = superuser();
	CHECK(options.cache_bytes == 0);
	options.cache_bytes = cache_bytes;
	kurma_client *client = another_with(w, options);
	kurma_statistics spent = { 0 };
	for (int n = 0; n < 2; n++) {
		kurma_read_arg read = reading("/home/a", 0, 100000);
		kurma_statistics before = so_far(client);
		OK(kurma_vread(client, &read, 1));
		spent = since(client, before);
		CHECK(read.done == 100000 && memcmp(read.data, bytes(100000, 3), 100000) == 0);
		CHECK(spent.round_trips == 1);
	}
	OK(kurma_close(client));
	return spent.bytes_in;
}

static void what_was_read_is_kept_in_as_much_memory_as_is_said(world *w)
{
	OK(kurma_write_file(w->client, "/home/a", bytes(100000, 3), 100000, 0644));
	CHECK(received_again(w, 0) < 1000);
	CHECK(received_again(w, 16 << 20) < 1000);
	CHECK(received_again(w, UINT64_C(1) << 62) < 1000);
	CHECK(received_again(w, 50000) > 100000);
	CHECK(received_again(w, KURMA_NO_CACHE) > 100000);
}

const test_case data_cases[] = {
	CASE(many_files_are_made_written_and_read_in_one_round_trip_each),
	CASE(two_reads_of_one_path_share_an_open),
	CASE(a_file_may_be_written_and_read_in_one_vector),
	CASE(the_third_of_five_fails_and_the_rest_is_untouched),
	CASE(an_exclusive_creation_of_an_existing_file_fails),
	CASE(large_files_are_whole),
	CASE(appended_records_of_many_clients_are_all_there),
	CASE(appending_goes_on_where_the_last_append_ended),
	CASE(a_read_may_ask_for_more_than_any_file_has),
	CASE(a_long_write_through_a_descriptor_cuts_off_what_was_there_if_asked_to),
	CASE(what_is_done_to_one_file_in_a_row_is_one_open),
	CASE(no_message_is_longer_than_was_asked_for),
	CASE(what_was_read_is_kept_in_as_much_memory_as_is_said),
	{ NULL, NULL },
};
