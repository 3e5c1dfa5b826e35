/* Servers that restart. */
#include "suite.h"

/* What came of a call, which is made again as long as that is unknown: the server was stopped while it was on its way. */
#define KNOWN(result, call)               \
	do                                \
		result = (call);          \
	while (result.status && result.unknown)

static void a_copy_from_an_open_file_survives_a_restart_of_the_server(world *w)
{
	make(w, "/home/a", "new");
	make(w, "/home/b", "before");
	uint64_t fd = opened(w->client, "/home/a", KURMA_READ);
	until_it_has_happened();
	kurma_copy_arg copy = copying(NULL, "/home/b");
	copy.source = open_file(fd);
	kurma_result result;
	KNOWN(result, kurma_vsscopy(w->client, &copy, 1));
	OK(result);
	CHECK(has(w, "/home/b", "new"));
}

static void nothing_is_done_behind_data_that_turns_out_to_be_lost(world *w)
{
	for (int closes = 0; closes < 2; closes++) {
		make(w, "/home/final", "before");
		const char *const paths[] = { "/home/new", "/home/other" };
		uint64_t fds[2];
		OK(kurma_vopen_simple(w->client, paths, 2, KURMA_READ | KURMA_WRITE | KURMA_CREATE, 0600, fds));
		for (int n = 0; n < 2; n++)
			OK(kurma_pwrite(w->client, fds[n], "after", 5, 0));
		until_it_has_happened();
		kurma_pair rename = { AT("/home/new"), AT("/home/final") };
		kurma_steps *steps;
		OK(kurma_steps_new(&steps));
		OK(closes ? kurma_steps_close(steps, fds, 2) : kurma_steps_commit(steps, fds, 2));
		OK(kurma_steps_rename(steps, &rename, 1));
		kurma_result result;
		KNOWN(result, kurma_execute(w->client, steps));
		kurma_steps_free(steps);
		CHECK(result.status == EIO && result.done == 0 && strstr(result.message, "lost"));
		CHECK(has(w, "/home/final", "before"));
		/* Both were closed in one request, or none. */
		CHECK((kurma_vclose(w->client, fds, 2).status == EBADF) == closes);
	}
}

static void after_a_restart_of_the_server_everything_is_as_true_as_before(world *w)
{
	kurma_client *other = another(w);
	make(w, "/home/a", "0123");
	uint64_t fd = opened(w->client, "/home/a", KURMA_READ);
	const char *before = "0123";
	for (int round = 0; round < 3; round++) {
		CHECK(has(w, "/home/a", before) && holds(w->client, fd, before));
		until_it_has_happened();
		CHECK(holds(w->client, fd, before) && has(w, "/home/a", before));
		kurma_write_arg write = { .file = { .path = "/home/a" }, .offset = 1, .length = 1, .data = text("%d", round) };
		kurma_result result;
		KNOWN(result, kurma_vwrite(other, &write, 1));
		OK(result);
		before = text("0%d23", round);
		CHECK(holds(w->client, fd, before) && has(w, "/home/a", before));
	}
	OK(kurma_close_file(w->client, fd));
	OK(kurma_close(other));
}

const test_case restart_cases[] = {
	CASE(a_copy_from_an_open_file_survives_a_restart_of_the_server),
	CASE(nothing_is_done_behind_data_that_turns_out_to_be_lost),
	CASE(after_a_restart_of_the_server_everything_is_as_true_as_before),
	{ NULL, NULL },
};
