/* Vectors whose requests are done whole or not at all. */
#include "suite.h"

static kurma_options whole_or_not(void)
{
	kurma_options options = superuser();
	options.atomic = 1;
	return options;
}

static int entries(const world *w)
{
	int count = 0;
	kurma_file home = AT("/home");
	OK(kurma_vlistdir(w->client, &home, 1, 0, 0, count_entries, &count));
	return count;
}

static void a_vector_is_one_round_trip_and_done_up_to_the_first_that_fails(world *w)
{
	world atomic = { .is_nfs = 1, .client = another_with(w, whole_or_not()) };
	kurma_write_arg writes[50];
	kurma_file files[50];
	for (int n = 0; n < 50; n++) {
		writes[n] = whole(text("/home/%d", n), 0600, "content");
		files[n] = writes[n].file;
	}
	uint64_t before = trips(&atomic);
	OK(kurma_vwrite(atomic.client, writes, 50));
	CHECK(trips(&atomic) - before == 1);
	files[20] = AT("/home/missing");
	before = trips(&atomic);
	FAILS(ENOENT, 20, kurma_vremove(atomic.client, files, 50));
	/* All of them; those before the one that failed; that one. */
	CHECK(trips(&atomic) - before == 3);
	CHECK(entries(w) == 30);
	OK(kurma_close(atomic.client));
}

static void a_file_is_as_it_was_when_it_cannot_be_written(world *w)
{
	kurma_client *atomic = another_with(w, whole_or_not());
	make(w, "/home/file", "old");
	kurma_write_arg beyond = whole("/home/file", 0600, "new");
	beyond.offset = INT64_MAX;
	kurma_result result = kurma_vwrite(atomic, &beyond, 1);
	CHECK(result.status != 0 && result.index == 0 && result.unknown == 0);
	CHECK(has(w, "/home/file", "old"));
	kurma_write_arg new = beyond;
	new.file = AT("/home/new");
	CHECK(kurma_vwrite(atomic, &new, 1).status != 0);
	CHECK(entries(w) == 1);
	/* Otherwise it is empty by then. */
	CHECK(kurma_vwrite(w->client, &beyond, 1).status != 0);
	CHECK(has(w, "/home/file", ""));
	OK(kurma_close(atomic));
}

static void what_opens_asks_and_copies_goes_as_it_always_does(world *w)
{
	kurma_client *atomic = another_with(w, whole_or_not());
	OK(kurma_write_file(atomic, "/home/file", "content", 7, 0600));
	uint64_t fds[] = { opened(atomic, "/home/file", KURMA_READ),
			   opened(atomic, "/home/new", KURMA_READ | KURMA_WRITE | KURMA_CREATE) };
	OK(kurma_pwrite(atomic, fds[1], "more", 4, 0));
	CHECK(holds(atomic, fds[0], "content"));
	OK(kurma_vclose(atomic, fds, 2));
	kurma_copy_arg copy = copying("/home/file", "/home/copy");
	OK(kurma_vsscopy(atomic, &copy, 1));
	overwrite(atomic, "/home/copy", KURMA_APPEND, "!");
	CHECK(reads_as(atomic, "/home/copy", "content!", 8) && reads_as(atomic, "/home/new", "more", 4));
	OK(kurma_close(atomic));
}

/* The server has a volume `other`, too. */
static void a_copy_that_no_transaction_can_hold_is_made_without_one(world *w)
{
	kurma_client *atomic = another_with(w, whole_or_not());
	make(w, "/home/file", "content");
	/* A transaction is of one volume. */
	kurma_copy_arg copies[] = { copying("/home/file", "/home/copy"), copying("/home/file", "/other/copy"),
				    copying("/home/file", "/home/more") };
	OK(kurma_vsscopy(atomic, copies, 3));
	CHECK(copies[0].done == 7 && copies[1].done == 7 && copies[2].done == 7);
	CHECK(has(w, "/other/copy", "content"));
	/* What cannot be done in two, either, is refused. */
	FAILS(EXDEV, 0, kurma_rename(atomic, "/home/file", "/other/file"));
	OK(kurma_close(atomic));
}

static void a_server_without_transactions_is_refused(world *w)
{
	kurma_options options = whole_or_not();
	kurma_client *client = NULL;
	options.no_extensions = 1;
	FAILS(EOPNOTSUPP, KURMA_NO_INDEX, kurma_connect(w->place, &options, &client));
	CHECK(client == NULL);
	options.no_extensions = 0;
	OK(kurma_connect(w->place, &options, &client));
	OK(kurma_close(client));
	options.atomic = 2;
	FAILS(EINVAL, KURMA_NO_INDEX, kurma_connect(w->place, &options, &client));
}

const test_case atomic_cases[] = {
	CASE(a_vector_is_one_round_trip_and_done_up_to_the_first_that_fails),
	CASE(a_file_is_as_it_was_when_it_cannot_be_written),
	CASE(what_opens_asks_and_copies_goes_as_it_always_does),
	CASE(a_copy_that_no_transaction_can_hold_is_made_without_one),
	CASE(a_server_without_transactions_is_refused),
	{ NULL, NULL },
};
