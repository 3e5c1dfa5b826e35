/* A server without room for more than 1 MiB. */
#include "suite.h"

#define MIB ((size_t)1 << 20)

static kurma_write_arg much(const char *path, size_t length)
{
	kurma_write_arg write = whole(path, 0600, "");
	write.length = length;
	write.data = room(length, 1);
	return write;
}

static void a_vector_ends_at_what_has_no_room_and_a_transaction_leaves_nothing(world *w)
{
	kurma_write_arg writes[] = { much("/home/a", 1000), much("/home/b", MIB), much("/home/c", 1000) };
	FAILS(ENOSPC, 1, kurma_vwrite(w->client, writes, 3));
	CHECK(writes[0].done == 1000 && size_of(w, "/home/a") == 1000 && !there(w, "/home/c"));

	kurma_mkdir_arg directory = { .file = { .path = "/home/d" }, .mode = 0700 };
	kurma_write_arg inside[] = { much("/home/d/e", 1000), much("/home/d/f", MIB) };
	kurma_steps *steps;
	OK(kurma_steps_new(&steps));
	OK(kurma_steps_mkdir(steps, &directory, 1));
	OK(kurma_steps_write(steps, inside, 2));
	FAILS(ENOSPC, 2, kurma_transaction(w->client, steps));
	kurma_steps_free(steps);
	CHECK(!there(w, "/home/d"));

	/* A file of many pieces. */
	kurma_write_arg large = much("/home/large", 20 * MIB);
	FAILS(ENOSPC, 0, kurma_vwrite(w->client, &large, 1));
	kurma_file gone[] = { AT("/home/large"), AT("/home/b") };
	OK(kurma_vremove(w->client, gone, 2));
	kurma_write_arg fits = much("/home/c", 900 << 10);
	OK(kurma_vwrite(w->client, &fits, 1));
}

static void a_writer_says_at_the_latest_when_it_is_closed_that_there_is_no_room(world *w)
{
	uint64_t fd;
	OK(kurma_open(w->client, "/home/a", KURMA_READ | KURMA_WRITE | KURMA_CREATE, 0600, &fd));
	kurma_writer *writer;
	OK(kurma_writer_new(w->client, fd, 0, &writer));
	const size_t length = 256 << 10;
	const void *data = room(length, 1);
	int said = 0;
	for (int n = 0; n < 64 && said == 0; n++)
		said = kurma_writer_write(writer, data, length).status;
	kurma_result closed = kurma_writer_close(writer);
	CHECK(closed.status != 0 && closed.message[0] != 0);
	CHECK((said ? said : closed.status) == ENOSPC);
}

const test_case full_cases[] = {
	CASE(a_vector_ends_at_what_has_no_room_and_a_transaction_leaves_nothing),
	CASE(a_writer_says_at_the_latest_when_it_is_closed_that_there_is_no_room),
	{ NULL, NULL },
};
